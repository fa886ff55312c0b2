"""From stage outputs to what a report shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from conf.schema import Evaluate, Study
from explainers import Explanation
from tasks.content import Content, read_content
from tasks.evaluate import read_curves, read_scores
from tasks.explain import read_explanation, read_target
from tasks.report import MethodView, SampleView, StudyResults
from tasks.report.attribution import main_method, strongest
from tasks.report.embed import LONGEST
from tasks.report.results import TIMING_COLUMNS
from tasks.sets import named_sets, over_samples
from tasks.store import read_json
from tasks.subject import Players, players_of, test_rows
from tasks.vocabulary import vocabulary_of


@dataclass(frozen=True)
class MethodOutputs:
    """Where one method's outputs are."""

    label: str
    explain: Path
    evaluate: Path
    timing: Path | None


def gather(study: Study, data: Path, model: Path, methods: list[MethodOutputs], made: dict[str, str]) -> StudyResults:
    """Return the results of a study whose stages are done.

    Args:
        study: the study.
        data: preprocess output.
        model: train output.
        methods: one entry a method, in the order of the tables.
        made: how it was made, by name, for the report's last section.
    """
    size, samples = study.explain.shard_size, study.explain.samples
    rows = test_rows(data, samples)
    names = list(rows["sample"])
    truth = data / "truth.json"
    events = study.explain.players == "tokens"  # the planted truth speaks of events, not of visits
    return StudyResults(
        name=study.name,
        dataset=study.data.dataset,
        task=study.data.task,
        scores=labelled(methods, lambda m: read_scores(m.evaluate, study.evaluate, size, names)),
        curves=labelled(methods, lambda m: read_curves(m.evaluate, study.evaluate, size, samples)),
        timing=timings(methods),
        model=read_json(model / "scores.json"),
        audit=read_json(data / "audit.json"),
        samples=sample_views(study, data, model, methods),
        truth=read_json(truth) if truth.is_file() and events else None,
        made=made | evaluate_facts(study.evaluate),
        seed=study.seed,
        output=study.explain.output,
        calibration=table_of(model / "calibration.csv"),
        history=table_of(model / "history.csv"),
    )


def labelled(methods, read) -> pd.DataFrame:
    """Return the methods' frames under each other, with a first column ``method``."""
    frames = []
    for method in methods:
        frame = read(method)
        frame.insert(0, "method", method.label)
        frames.append(frame)
    return pd.concat(frames, ignore_index=True)


def timings(methods: list[MethodOutputs]) -> pd.DataFrame:
    """Return the timing of the methods that were timed; no row where none was."""
    timed = [method for method in methods if method.timing is not None]
    if not timed:
        return pd.DataFrame(columns=list(TIMING_COLUMNS))
    return labelled(timed, lambda method: pd.read_csv(method.timing / "timing.csv"))


def sample_views(study: Study, data: Path, model: Path, methods: list[MethodOutputs]) -> list[SampleView]:
    """Return every explained sample with each method's attributions."""
    size = study.explain.shard_size
    rows, content = test_rows(data, study.explain.samples), read_content(data)
    vocabulary = vocabulary_of(data, content)
    predictions = pd.read_csv(model / "predictions.csv").set_index("sample")
    views = []
    for index, row in enumerate(rows):
        target = read_target(methods[0].explain, size, index)
        players = players_of(row, content, vocabulary, study.explain.players)
        views.append(
            SampleView(
                sample=row["sample"],
                names=players.names,
                player=players.noun,
                hours=players.hours,
                label=row["label"],
                probability=probability_of(predictions.loc[row["sample"]], target),
                target=target if content.classes else None,
                image=image_of(row, content),
                table=content.kind == "table",
                attributions={
                    m.label: method_view(read_explanation(m.explain, size, index), index < study.report.samples)
                    for m in methods
                },
            )
        )
    return views


def table_of(path: Path) -> pd.DataFrame:
    """Return a table of a train output; without rows where there is none: predicted numbers have no calibration."""
    return pd.read_csv(path) if path.is_file() else pd.DataFrame()


def image_of(row: Mapping[str, Any], content: Content) -> np.ndarray | None:
    """Return an image as (rows, columns) or (rows, columns, 3) numbers from 0 to 1; None where the sample is none."""
    if content.kind != "image":
        return None
    pixels = np.asarray(row["pixels"], dtype=np.float64).reshape(content.shape) / 255
    return pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0)


def probability_of(prediction: pd.Series, target: int) -> float:
    """Return what the model gives ``target`` (or the number that it predicts), from one row of predictions.csv."""
    if "prediction" in prediction.index:
        return float(prediction["prediction"])
    if "probability" in prediction.index:
        positive = float(prediction["probability"])
        return positive if target == 1 else 1 - positive
    return float(prediction[f"probability_{target}"])


def method_view(explanation: Explanation, with_matrix: bool) -> MethodView:
    """Return one sample's explanation as numpy arrays."""

    def array(name: str) -> np.ndarray | None:
        column = getattr(explanation, name)
        return None if column is None else column[0].numpy()

    value = array("value")
    assert value is not None
    sets = None if explanation.sets is None else explanation.sets.drop(columns="sample")
    return MethodView(value, array("position"), array("matrix") if with_matrix else None, sets)


def moving(study: Study, results: StudyResults) -> dict[int, list[int]]:
    """Return, by a sample's index, the players that the report moves through it: those of the largest |VI| or |PI|.

    They are the main method's, of the first ``report.samples`` samples; images, tables, and sequences longer than a
    page draws have none.
    """
    found = {}
    for index, sample in enumerate(results.samples[: study.report.samples if study.report.moved_tokens else 0]):
        ordered = sample.image is None and not sample.table and 1 < len(sample.names) <= LONGEST
        if ordered and sample.attributions:
            view = sample.attributions[main_method(sample.attributions)]
            found[index] = strongest(view, study.report.moved_tokens).tolist()
    return found


def with_moves(
    results: StudyResults, players: Mapping[int, list[int]], outputs: Mapping[int, np.ndarray]
) -> StudyResults:
    """Return the results with the moved outputs (players, n) of each sample in ``outputs``."""
    samples = list(results.samples)
    for index, rows in outputs.items():
        samples[index] = replace(samples[index], moved=dict(zip(players[index], rows, strict=True)))
    return replace(results, samples=samples)


def attribution_table(study: Study, data: Path, explain: Path) -> pd.DataFrame:
    """Return one row a player of each explained sample: sample (its name), slot, hour, code, value and positions.

    Standard errors stand beside what a method estimates them for. Where a player is a visit, its code is the codes of
    its events, joined by " + "; of a text it is the word or the sentence. Only events have an hour.
    """
    rows, content = test_rows(data, study.explain.samples), read_content(data)
    vocabulary = vocabulary_of(data, content)
    frames = []
    for index, row in enumerate(rows):
        explanation = read_explanation(explain, study.explain.shard_size, index)
        players = players_of(row, content, vocabulary, study.explain.players)
        frames.append(player_rows(row["sample"], players, explanation))
    return pd.concat(frames, ignore_index=True)


def set_tables(study: Study, data: Path, explain: Path) -> dict[str, pd.DataFrame]:
    """Return a method's tables of sets by file name: ``sets.csv``, one row a set of each explained sample
    (:func:`tasks.sets.named_sets`), and ``sets_global.csv``, one a set of names (:func:`tasks.sets.over_samples`).

    Without sets there are none.
    """
    rows, content = test_rows(data, study.explain.samples), read_content(data)
    vocabulary = vocabulary_of(data, content)
    names, tables = [], []
    for index, row in enumerate(rows):
        table = read_explanation(explain, study.explain.shard_size, index).sets
        if table is None:
            return {}
        names.append(players_of(row, content, vocabulary, study.explain.players).names)
        tables.append(table)
    local = [named_sets(row["sample"], own, table) for row, own, table in zip(rows, names, tables, strict=True)]
    features = np.array(rows["features"][:]) if content.kind == "table" else None
    return {
        "sets.csv": pd.concat(local, ignore_index=True),
        "sets_global.csv": over_samples(names, tables, features),
    }


def player_rows(sample: str, players: Players, explanation: Explanation) -> pd.DataFrame:
    """Return one sample's rows of the attribution table."""
    frame = pd.DataFrame({"sample": sample, "slot": np.arange(1, len(players.names) + 1)})
    if players.hours is not None:
        frame["hour"] = players.hours
    frame["code"] = players.names
    frame["value"] = explanation.value[0].numpy()
    for name in ("value_stderr", "position", "position_stderr", "position_ls"):
        column = getattr(explanation, name)
        if column is not None:
            frame[name] = column[0].numpy()
    return frame


def evaluate_facts(evaluate: Evaluate) -> dict[str, str]:
    """Return what the metrics were computed with, for people."""
    return {
        "grid": f"every {evaluate.grid_step} % of the tokens",
        "permutations": f"{evaluate.permutations}, the same for all methods",
    }

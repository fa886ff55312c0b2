"""Every command in the docs is run: here, small and in this process, or by a test that `tests/documented.py` names."""

from __future__ import annotations

import importlib
import json
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from benchmarks import joint_page, studies
from conf import load_study
from flows.cli import app
from flows.context import open_context
from tests import documented
from tests.builders_ehr import eicu_tables, mimic_tables, write_tables
from tests.builders_public import animals, digits, encoder, reviews
from tests.conftest import ROOT
from tests.documented import BENCHMARKS_RUN_BY, NOT_RUN, RUN_BY, benchmark
from tests.test_preprocess_meds import write_meds
from tests.test_tables import write_boston, write_reviews

COMMANDS = documented.commands()
ORDEVAL = [line for line in COMMANDS if line.startswith("ordeval ") and line not in RUN_BY]
BENCHMARKS = [line for line in COMMANDS if benchmark(line)]
WHOLE = "ordeval run conf/synthetic.yaml"
LABELLED = ("ordshap", "kernelshap", "lime")  # the methods of the synthetic study that the commands name

FEW = [
    *("device=cpu", "explain.samples=2", "timing.samples=1", "model.epochs=1"),
    *("model.bootstrap=20", "evaluate.grid_step=50", "report.samples=1", "report.moved_tokens=1"),
]
BERT = ["model.heads=2", "model.layers=1", "model.width=16", "model.feed_forward=16"]
CODES = [*BERT, "data.tokens.min_count=1", "evaluate.metrics=[inc_auc]", "evaluate.permutations=2"]
STAYS = [*BERT, "data.synthetic.stays=200", "data.synthetic.max_events=8"]
METHODS = json.dumps([{"method": method, "budget": 120} for method in LABELLED])
EXACT = "explainers=[{method: joint_shapley, order: 3, estimator: exact}]"
SMALL = {
    "synthetic": [*STAYS, "explain.samples=3", "evaluate.metrics=[inc_auc]", f"explainers={METHODS}"],
    "eicu-los": [*CODES, "explainers=[{method: ordshap, budget: 120}]"],
    "eicu-demo-los": [*CODES, "explainers=[{method: joint_shapley, top_pairs: 2, budget: 120}]"],
    "mimic3-mortality": [*CODES, "explainers=[deeplift]"],
    "imdb-words": ["explainers=[{method: lshapley, order: 1}]", "evaluate.metrics=[log_odds_drop]"],
    "ag-news-characters": ["explainers=[{method: cshapley, order: 4}]", "evaluate.metrics=[log_odds_drop]"],
    "ag-news-lstm": ["explainers=[sample_shapley]", "evaluate.metrics=[log_odds_drop]"],
    "imdb-sentences": ["explainers=[{method: ordshap, budget: 40}]", "evaluate.metrics=[inc_auc]"],
    "mnist": ["explainers=[saliency]", "evaluate.metrics=[log_odds_drop]"],
    "cifar10": ["explainers=[saliency]", "evaluate.metrics=[log_odds_drop]"],
    "bernoulli": [EXACT, "evaluate.metrics=[ins_auc_fixed]"],
    "uniform": [EXACT, "evaluate.metrics=[ins_auc_fixed]"],
    "boston": ["model.trees=5", "explainers=[kernelshap]", "evaluate.metrics=[ins_auc_fixed]"],
    "rotten-tomatoes": ["explainers=[loco]", "explain.background=5", "evaluate.metrics=[ins_auc_fixed]"],
}


def eicu(folder: Path) -> None:
    """Write stays of which every other one ends within three days, so that `los` has both classes."""
    tables = eicu_tables([], [], background=40)
    for place, stay in enumerate(tables["patient"]):
        stay["unitdischargeoffset"] = 3000 if place % 2 else 5000
    write_tables(folder, tables)


def table_files(folder: Path, write: Callable[[Path], Any]) -> Path:
    folder.mkdir()
    write(folder)
    return folder


RAW: dict[str, Callable[[Path], Any]] = {
    "eicu-los": eicu,
    "eicu-demo-los": eicu,
    "mimic3-mortality": lambda folder: write_tables(folder, mimic_tables([], [], background=40)),
    "meds": lambda folder: write_meds(folder, background=40),
    "imdb-words": lambda folder: reviews(folder, 60, 24),
    "imdb-sentences": lambda folder: reviews(folder, 60, 24),
    "ag-news-characters": lambda folder: reviews(folder, 60, 24, classes=4),
    "ag-news-lstm": lambda folder: reviews(folder, 60, 24, classes=4),
    "mnist": lambda folder: digits(folder, 60, 30),
    "cifar10": animals,
    "boston": lambda folder: table_files(folder, write_boston),
    "rotten-tomatoes": lambda folder: table_files(folder, lambda place: write_reviews(place, 400)),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, prefect_server: None) -> Iterator[Path]:
    """Stand in a folder like the checkout: `conf/` is there, and the storage is made there."""
    folder = tmp_path_factory.mktemp("checkout")
    (folder / "conf").symlink_to(ROOT / "conf")
    before = Path.cwd()
    os.chdir(folder)
    yield folder
    os.chdir(before)


@pytest.fixture(scope="module")
def whole(place: Path) -> str:
    """Run the synthetic study once, as it is documented; return what it stands in."""
    ordeval(WHOLE, place)
    return WHOLE


def ordeval(line: str, place: Path) -> None:
    """Run a documented `ordeval ...` with what makes it small; a fault or a crash raises."""
    words = shlex.split(line)[1:]
    conf = next((Path(word).stem for word in words if word.startswith("conf/")), "")
    words = [filled(word, line, conf, place) for word in words]
    small = [*FEW, *SMALL[conf], *(["explainers=[random]"] if "name=synthetic-" in line else [])] if conf else []
    before = signal.getsignal(signal.SIGTERM)
    try:
        typer.main.get_command(app)([*words, *small], standalone_mode=False)
    finally:
        signal.signal(signal.SIGTERM, before)


def filled(word: str, line: str, conf: str, place: Path) -> str:
    """Return one word of a command with a small folder, or a run's id, for what stands for one in the docs."""
    if word == "RUN":
        study = load_study(place / "conf" / f"{conf}.yaml", [*FEW, *SMALL[conf]])
        stage = {"train": "preprocess", "explain": "train"}[line.split()[1]]
        found = open_context(study).tracker.find(stage=stage)
        assert found is not None
        return str(found.info.run_id)
    name, equals, value = word.partition("=")
    kind = "meds" if "data.dataset=meds" in line else conf
    folder = place / f"raw-{kind}"
    if value == "FOLDER" or value.startswith("../shared/data/"):
        if not folder.exists():
            RAW[kind](folder)
        return f"{name}={folder}"
    if value == "ENCODER":
        return f"{name}={encoder(place / 'encoder')}"
    return f"{name}={folder / 'labels'}" if value == "LABELS" else name + equals + value


@pytest.mark.parametrize("line", ORDEVAL)
def test_a_documented_command_does_what_it_says(line: str, place: Path, whole: str, capsys):
    if line != whole:
        ordeval(line, place)
    said = capsys.readouterr().out
    words = line.split()
    if words[1] in ("run", "rerun", "report") and line != whole:
        page = re.search(r"^Report: (\S+report\.html)$", said, re.MULTILINE)
        assert page and Path(page[1]).stat().st_size > 10_000
    if words[1] == "show":
        assert Path(said.split()[-1]).read_text().startswith("<!doctype html>")
    if words[1] == "open":
        assert "experiment" in (json.loads(said) if "--json" in words else said)
    if words[1] == "list":
        assert len(said.splitlines()) > 2


def test_every_command_has_a_documented_line_that_is_run():
    names = {shlex.split(re.sub(r"^([A-Z_]+=\S+ )+", "", line))[1] for line in COMMANDS if "ordeval " in line}
    assert names == set(typer.main.get_command(app).commands)


# --- benchmarks ------------------------------------------------------------------------------------------------------

SMALL_BENCHMARKS = {
    "accuracy": ["--games", "toy", "--budgets", "300", "--seeds", "2", "--workers", "1"],
    "unbiased": ["--games", "toy", "--budgets", "300", "--seeds", "3", "--workers", "1"],
    "joint_shapley": ["--players", "4", "5", "--repeats", "1"],
    "planted_pairs": ["--samples", "20", "--stays", "2", "--budget", "60"],
}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Make small what no option of a benchmark makes small."""
    monkeypatch.setattr(studies, "STORAGE", tmp_path / "storage")
    load = studies.load_study
    monkeypatch.setattr(studies, "load_study", lambda path, given: load(path, [*given, *STAYS, "model.epochs=1"]))
    return tmp_path


@pytest.mark.parametrize("line", BENCHMARKS)
def test_a_documented_benchmark_is_run(line: str, small: Path, monkeypatch: pytest.MonkeyPatch):
    name = benchmark(line)
    if name == "peers":
        pytest.importorskip("shap", reason="needs shap: pip install -c constraints.txt -e '.[peers]'")
    module = importlib.import_module(f"benchmarks.{name}")
    arguments = shlex.split(line)[3:]
    if name == "joint_page":
        page = small / joint_page.PAGE.name
        page.write_text(joint_page.PAGE.read_text())
        monkeypatch.setattr(joint_page, "PAGE", page)
        module.main()
        assert page.read_text() == (documented.ROOT / "docs" / "results" / page.name).read_text()
        return
    module.parser().parse_args(arguments)
    if name in BENCHMARKS_RUN_BY:
        assert f"{name}.main(" in source_of(BENCHMARKS_RUN_BY[name])
        return
    module.main([*arguments, *SMALL_BENCHMARKS[name], "--folder", str(small / "out")])
    assert {path.suffix for path in (small / "out").iterdir()} == {".csv", ".json", ".svg"}


# --- all of them -----------------------------------------------------------------------------------------------------


def source_of(test: str) -> str:
    """Return the text of a function that is named as pytest names tests."""
    file, _, name = test.partition("::")
    found = re.search(rf"^def {name}\(.*?(?=^\S|\Z)", (ROOT / file).read_text(), re.MULTILINE | re.DOTALL)
    assert found, f"there is no {test}"
    return found[0]


def test_no_command_is_left_out():
    """A command that is documented newly is run by a test above, or stands in `tests/documented.py`."""
    run_here = {*ORDEVAL, *BENCHMARKS, "make run"}
    assert [line for line in COMMANDS if line not in run_here | set(RUN_BY) | set(NOT_RUN)] == []
    assert (set(RUN_BY) | set(NOT_RUN)) <= set(COMMANDS), "these are documented no more"
    assert all(source_of(test) for test in RUN_BY.values()) and all(NOT_RUN.values())


def test_make_runs_the_commands_that_are_run():
    """`make run` and `make ui` are their recipes, which are run as commands of their own."""
    for target, command in (("run", WHOLE), ("ui", "ordeval ui")):
        asked = ["make", "--no-print-directory", "--dry-run", "--assume-old=.venv/.ready", target]
        told = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        assert told.splitlines()[-1].removeprefix("exec ") == f".venv/bin/{command}"

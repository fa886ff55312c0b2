"""The synthetic cohort: its truth, its shape, and that its labels follow from its logit."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from conf.schema import Data
from tasks.preprocess import check, inputs
from tasks.preprocess.synthetic import INTERCEPT, code_effects, logit, true_importance
from tests.builders_ehr import run, sequences


@pytest.fixture(scope="module")
def cohort(tmp_path_factory):
    out = tmp_path_factory.mktemp("synthetic") / "out"
    audit = run(Data(synthetic={"stays": 800}), out)
    return audit, out


def test_shape(cohort):
    audit, _ = cohort
    lengths = audit["events_per_stay"]
    assert (lengths["min"], lengths["max"]) == (8, 60)
    assert lengths == audit["tokens_per_stay"]
    assert audit["duplicates_collapsed"] == 0
    assert audit["offset_hours"]["latest"] < 12
    assert 0.35 <= audit["split"]["parts"]["train"]["positive_share"] <= 0.5
    assert audit["split"]["parts"]["train"]["patients"] < audit["split"]["parts"]["train"]["stays"]
    assert audit["vocabulary"]["size"] == len(code_effects()) == 17
    assert check(Data()) is None
    assert inputs(Data()) == []


def test_truth_file(cohort):
    truth = json.loads((cohort[1] / "truth.json").read_text())
    vocabulary = json.loads((cohort[1] / "vocabulary.json").read_text())
    assert set(truth["codes"]) == set(vocabulary["tokens"][4:])
    assert {entry["kind"] for entry in truth["codes"].values()} == {
        "value", "position", "value_and_position", "pair_before", "pair_after", "duplicate", "inert",
    }  # fmt: skip
    inert = [entry for entry in truth["codes"].values() if entry["kind"] == "inert"]
    assert {(entry["value"], entry["position"]) for entry in inert} == {(0.0, 0.0)}
    assert truth["intercept"] == logit([]) == INTERCEPT


def test_labels_follow_the_logit(cohort):
    import datasets

    found = sequences(cohort[1])
    parts = datasets.load_from_disk(str(cohort[1] / "dataset"))
    label = {row["sample"]: row["label"] for part in parts.values() for row in part}
    logits = np.array([logit(codes) for codes in found.values()])
    labels = np.array([label[stay] for stay in found])
    assert roc_auc_score(labels, logits) > 0.85
    assert labels.mean() == pytest.approx((1 / (1 + np.exp(-logits))).mean(), abs=0.03)
    assert all((code == "TWIN_A") == (after == "TWIN_B") for codes in found.values()
               for code, after in itertools.pairwise([*codes, "end"]))  # fmt: skip


def test_times_are_irregular_with_ties(cohort):
    import datasets

    parts = datasets.load_from_disk(str(cohort[1] / "dataset"))
    gaps = np.concatenate([np.diff(row["hours"]) for row in parts["test"]])
    assert (gaps >= 0).all()
    assert 0.1 < (gaps == 0).mean() < 0.5
    assert len(np.unique(gaps.round(4))) > 20


def test_logit_by_hand():
    position = code_effects()["POSITION_LATE"][1]
    assert logit(["INERT_A", "VALUE_UP_A"]) == pytest.approx(INTERCEPT + 1.5)
    assert logit(["POSITION_LATE", "INERT_A", "INERT_B"]) == pytest.approx(INTERCEPT - position / 2)
    assert logit(["INERT_A", "POSITION_LATE", "INERT_B"]) == pytest.approx(INTERCEPT)
    assert logit(["PAIR_BEFORE", "[MASK]", "PAIR_AFTER"]) == pytest.approx(INTERCEPT + 2.5)
    assert logit(["PAIR_AFTER", "[MASK]", "PAIR_BEFORE"]) == pytest.approx(INTERCEPT)
    assert logit(["POSITION_LATE"]) == pytest.approx(INTERCEPT)


def test_true_importance_is_the_exact_ordshap_of_the_logit():
    codes = ["POSITION_LATE", "PAIR_BEFORE", "BOTH_DOWN_EARLY", "PAIR_AFTER"]
    gamma = brute_force_gamma(codes)
    centred = np.arange(4) - 1.5
    value, position = true_importance(codes)
    assert gamma.mean(1) == pytest.approx(value, abs=1e-9)
    assert gamma @ centred / (centred @ centred) == pytest.approx(position, abs=1e-9)


def brute_force_gamma(codes: list[str]) -> np.ndarray:
    """Return Eq. 8 by its definition: the mean over arrangements with i in slot l of i's Shapley value."""
    n = len(codes)
    total, count = np.zeros((n, n)), np.zeros((n, n))
    for arrangement in itertools.permutations(range(n)):
        for i, slot in enumerate(np.argsort(arrangement)):
            total[i, slot] += np.mean(
                [gain(codes, arrangement, order, i) for order in itertools.permutations(range(n))]
            )
            count[i, slot] += 1
    return total / count


def gain(codes: list[str], arrangement: tuple[int, ...], order: tuple[int, ...], i: int) -> float:
    place = order.index(i)
    return worth(codes, arrangement, order[: place + 1]) - worth(codes, arrangement, order[:place])


def worth(codes: list[str], arrangement: tuple[int, ...], kept: tuple[int, ...]) -> float:
    return logit([codes[player] if player in kept else "[MASK]" for player in arrangement])


def test_a_stay_does_not_depend_on_how_many_are_drawn(tmp_path):
    run(Data(synthetic={"stays": 100}), tmp_path / "few")
    run(Data(synthetic={"stays": 200}), tmp_path / "many")
    few, many = sequences(tmp_path / "few"), sequences(tmp_path / "many")
    assert len(few) == 100
    assert few.items() <= many.items()
    run(Data(synthetic={"stays": 100}), tmp_path / "seed", seed=1)
    assert sequences(tmp_path / "seed") != few

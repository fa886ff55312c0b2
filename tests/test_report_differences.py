"""Differences to the best method: intervals, p-values, Holm's correction and ranks, worked by hand."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from tasks.report.differences import COLUMNS, differences, holm, ranks
from tasks.report.results import StudyResults
from tasks.report.table import compare
from tests.test_report import scores_frame, study

NAN = float("nan")


def table(scores: dict[tuple[str, str], list[float]], seed: int = 0) -> pd.DataFrame:
    results = of(scores, seed)
    return differences(results, compare(results)).set_index(["metric", "method"])


def of(scores: dict[tuple[str, str], list[float]], seed: int = 0) -> StudyResults:
    return study(scores=scores_frame(scores), timing=pd.DataFrame(), seed=seed)


def test_bootstrap_interval_by_hand() -> None:
    """Four differences 0 0 0 -4: a draw's mean is -k, k binomial (4, 1/4); P(k = 0) = .316, P(k <= 2) = .949, so the
    2.5 and 97.5 % points are -3 and 0."""
    row = table({("best", "inc_auc"): [5, 5, 5, 5], ("other", "inc_auc"): [5, 5, 5, 1]}).loc[("inc_auc", "other")]
    assert row["best"] == "best" and row["samples"] == 4
    assert row["difference"] == pytest.approx(-1)
    assert (row["low"], row["high"]) == (-3, 0)
    assert row["p"] == 1.0, "every flip of the signs of 0 0 0 -4 is as far from 0"


def test_p_values_and_holm_by_hand() -> None:
    """Signs of five differences flip in 32 ways. All equal: only 2 are as extreme. 1 1 1 1 -1: those with at most one
    odd sign, 12. All 0: all. Holm: 3 x .0625, 2 x .375 and, no smaller than those, 1."""
    best = np.full(5, 2.0)
    rows = table(
        {
            ("a", "inc_auc"): (best - 1).tolist(),
            ("best", "inc_auc"): best.tolist(),
            ("b", "inc_auc"): (best - [1, 1, 1, 1, -1]).tolist(),
            ("c", "inc_auc"): best.tolist(),
        }
    ).loc["inc_auc"]
    assert rows["p"].to_dict() == pytest.approx({"a": 2 / 32, "b": 12 / 32, "c": 1.0})
    assert rows["p_holm"].to_dict() == pytest.approx({"a": 3 * 2 / 32, "b": 2 * 12 / 32, "c": 1.0})
    assert (rows.loc["a", "low"], rows.loc["a", "high"]) == (-1, -1)


def test_holm_steps_down() -> None:
    assert holm(np.array([0.01, 0.04, 0.03, 0.005])).tolist() == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm(np.array([0.9, 0.8])).tolist() == [1.0, 1.0]
    with_gap = holm(np.array([0.02, NAN, 0.04]))
    assert with_gap[[0, 2]].tolist() == pytest.approx([0.04, 0.04]) and math.isnan(with_gap[1])
    assert holm(np.array([])).tolist() == []


def test_down_is_better_and_pairs_need_both() -> None:
    """The lower mean is best; the pair of the sample where one is undefined does not count."""
    rows = table(
        {
            ("low", "exc_auc"): [0.1, 0.2, NAN, 0.3],
            ("high", "exc_auc"): [0.2, 0.4, 9.0, 0.6],
            ("none", "exc_auc"): [NAN] * 4,
        }
    )
    row = rows.loc[("exc_auc", "high")]
    assert row["best"] == "low" and row["samples"] == 3
    assert row["difference"] == pytest.approx(0.2) and row["p"] == pytest.approx(2 / 8)
    assert list(rows.index) == [("exc_auc", "high")], "a method without a score has no difference"


def test_one_sample_has_a_difference_and_nothing_else() -> None:
    row = table({("a", "inc_auc"): [0.5], ("b", "inc_auc"): [0.75]}).loc[("inc_auc", "a")]
    assert row["difference"] == -0.25 and row["samples"] == 1
    assert all(math.isnan(row[name]) for name in ("low", "high", "p", "p_holm"))


def test_one_method_has_nothing_to_differ_from() -> None:
    results = of({("a", "inc_auc"): [0.5, 0.6]})
    frame = differences(results, compare(results))
    assert len(frame) == 0 and tuple(frame.columns) == COLUMNS


def test_draws_are_the_study_s_own() -> None:
    """Equal seeds give equal numbers, in whatever company; another seed other draws. 16 samples: signs are drawn."""
    numbers = np.random.default_rng(1).normal(size=(3, 16))
    scores = {(f"m{place}", "inc_auc"): (row + place).tolist() for place, row in enumerate(numbers)}
    first, again, other = table(scores), table(scores), table(scores, seed=1)
    pd.testing.assert_frame_equal(first, again)
    assert not np.array_equal(first["low"], other["low"])
    two = table({key: row for key, row in scores.items() if key[0] != "m0"})
    wanted = first.drop(columns="p_holm").loc[("inc_auc", "m1")]
    pd.testing.assert_series_equal(two.drop(columns="p_holm").loc[("inc_auc", "m1")], wanted)


def test_ranks_by_hand() -> None:
    """Inclusion .8 .6 .2, exclusion (down) .3 .25 .8, permutation .5 .5 and none."""
    results = study()
    assert ranks(compare(results), results.metrics)[:2].tolist() == [[1, 2, 1.5], [2, 1, 1.5]]
    last = ranks(compare(results), results.metrics)[2]
    assert last[:2].tolist() == [3, 3] and math.isnan(last[2])


def test_written_with_the_report(tmp_path) -> None:
    from tasks.report import write_report

    files = write_report(study(truth=None), tmp_path)
    frame = pd.read_csv(files["differences.csv"]).set_index(["metric", "method"])
    assert frame.loc[("inc_auc", "random"), "best"] == "OrdShap"
    assert frame.loc[("inc_auc", "random"), "difference"] == pytest.approx(-0.6)
    said = files["report.md"].read_text("utf-8")
    assert "permutation test" in said and "Holm" in said
    assert "| OrdShap | 1.50 | 1 | 2 | 1.5 |" in said

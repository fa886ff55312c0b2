"""The pages of the benchmarks show the numbers of the tables that are committed beside them, and the paper's."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from benchmarks import device, sensitivity, tables
from tests.conftest import ROOT

RESULTS = ROOT / "docs" / "results"


def page(name: str) -> tuple[pd.DataFrame, dict, list[str]]:
    """Return a benchmark's table, its facts, and the lines of its page."""
    facts = json.loads((RESULTS / f"{name}.json").read_text())
    return pd.read_csv(RESULTS / f"{name}.csv"), facts, (RESULTS / f"{name}.md").read_text().splitlines()


def table_rows(lines: list[str]) -> list[str]:
    """Return the rows of a page's tables that hold a number, heads left out."""
    return [line for line in lines if line.startswith("|") and any(letter.isdigit() for letter in line)]


def test_the_sensitivity_page_shows_the_committed_numbers():
    table, facts, lines = page("sensitivity")
    shown = [
        line for study in facts["studies"] for line in tables.sensitivity_lines(table, study, facts["studies"][study])
    ]
    assert len(shown) == len(table) and table_rows(lines) == shown
    assert facts["command"] in lines


def test_the_device_page_shows_the_committed_numbers():
    table, facts, lines = page("device")
    assert table_rows(lines) == tables.device_lines(table)
    assert facts["command"] in lines


def test_the_papers_numbers_stand_beside_its_own_settings():
    row = {"study": "eicu-demo-mortality", "estimator": "algorithm2", "permutations": 50, "subsets": 10}
    numbers = {"samples": 4, "evaluations": 551.0, "perm_auc": 0.5, "stderr_across_samples": 0.05}
    errors = {"stderr_of_estimator": 0.01, "importance_error": 0.5, "importance_error_reported": float("nan")}
    ours = {"estimator": "walks", "permutations": float("nan"), "subsets": float("nan")}
    table = pd.DataFrame([row | numbers | errors, row | numbers | errors | ours])
    facts = {"sd of PI over tokens": 0.1, "sd of beta over tokens": 0.2}
    paper, walks = tables.sensitivity_lines(table, "eicu-demo-mortality", facts)
    assert paper == "| algorithm2 | 50 | 10 | 551 | 0.5000 | 0.0500 | 0.0100 | 0.0120 | 0.0100 | 1.00 | – |"
    assert walks == "| walks | – | – | 551 | 0.5000 | 0.0500 | 0.0100 | – | 0.0100 | 0.50 | – |"


@pytest.mark.parametrize("study", tables.PAPER_STDERR)
def test_the_papers_table_7_is_complete(study: str):
    assert study in sensitivity.PLANS
    assert sorted(tables.PAPER_STDERR[study]) == sorted({arrangements for arrangements, _ in sensitivity.PAPER})
    assert set(device.PAPER.values()) == {0.02, 0.13, 0.69, 0.14, 0.57, 29.29, 2470.73}


def test_a_single_timed_sample_has_no_deviation():
    row = {"method": "loco", "evaluations": 1051, "seconds": 8.4, "evaluations_a_second": 18.0, "share_of_bare": 1.04}
    table = pd.DataFrame([row | {"deviation": float("nan"), "paper_seconds": 0.57}])
    assert tables.device_lines(table) == ["| loco | 1,051 | 8.40 | 18.0 | 104.0 % | 0.57 |"]
    table["deviation"], table["paper_seconds"] = 0.02, float("nan")
    assert tables.device_lines(table) == ["| loco | 1,051 | 8.40 (0.02) | 18.0 | 104.0 % | – |"]

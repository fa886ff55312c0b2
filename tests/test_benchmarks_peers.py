"""The benchmark against other libraries: its games' exact values, and that it runs; skipped where they are absent."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from explainers import Game
from explainers.sample_shapley import over_all_orders
from tests.conftest import ROOT

pytest.importorskip("shap", reason="needs shap: pip install -c constraints.txt -e '.[peers]'")
pytest.importorskip("shapiq", reason="needs shapiq: pip install -c constraints.txt -e '.[peers]'")

from benchmarks import boxes, peers, rivals

RESULTS = ROOT / "docs" / "results"


@pytest.mark.parametrize("make", [boxes.interactions, boxes.saturating])
@pytest.mark.parametrize("n", [5, 11])
def test_closed_forms_are_those_of_enumeration(make, n):
    box = make(n, 3)
    game = Game.from_function(box.output, box.tokens[None], boxes.MASK)
    assert np.allclose(box.exact, over_all_orders(game, 0).value.numpy(), atol=1e-12)


def test_every_estimator_is_counted_and_near_the_truth():
    box = boxes.saturating(6, 0)
    for rival in (*peers.OURS, *peers.PEERS):
        counted = rivals.Counted(box)
        found = rival.estimate(counted, 60, 0)
        if rival.name.startswith("ours"):
            assert 0 < counted.rows <= 60
        else:
            assert counted.rows >= 58, rival.name
        assert np.abs(found - box.exact).max() < np.abs(box.exact).max(), rival.name
    ours, theirs = (rival.estimate(rivals.Counted(box), 7, 0) for rival in peers.LEAVE_ONE_OUT)
    assert np.allclose(ours, theirs, atol=1e-6)


def test_errors_and_times_are_measured_and_summarised(monkeypatch, tmp_path):
    box = boxes.interactions(6, 0)
    monkeypatch.setattr(peers, "bert", lambda n, seed: box)
    monkeypatch.setattr(peers, "ERRORS", ((6, lambda: [box], (30,)),))
    monkeypatch.setattr(peers, "TIMES", ((6, 30, 2),))
    peers.main(["--seeds", "2", "--folder", str(tmp_path)])
    table = pd.read_csv(tmp_path / "peers.csv")
    assert (table.groupby("measured")["method"].nunique() >= 13).all()
    assert (table.evaluations > 0).all() and (table[table.measured == "time"].outside <= table.seconds.max()).all()
    errors, times = peers.error_summary(table), peers.time_summary(table)
    assert errors["best regression"][0] > 0 and times["fastest marginals"][0] > 0
    assert (tmp_path / "peers.svg").stat().st_size > 1000


def test_the_page_shows_the_committed_numbers():
    table = pd.read_csv(RESULTS / "peers.csv")
    page = (RESULTS / "peers.md").read_text()
    for line in (*peers.error_lines(table), *peers.time_lines(table)):
        assert line in page

"""The sensitivity benchmark on a small study: which rows it has, and that its errors are what they are called."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from benchmarks import sensitivity, studies
from benchmarks.sensitivity import Draws, Setting
from tests.studies import TINY


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the benchmark train the tiny study in a folder of its own, where its results go too."""
    sections = [f"{section}={json.dumps(TINY[section])}" for section in ("data", "model")]

    def trained(conf: str, overrides: list[str]) -> Any:
        return studies.trained(conf, [*overrides, *sections])

    monkeypatch.setattr(studies, "STORAGE", tmp_path / "storage")
    monkeypatch.setattr(sensitivity, "trained", trained)
    return tmp_path


def test_a_small_study(small: Path):
    arguments = ["--studies", "synthetic", "--samples", "3", "--seeds", "2", "--folder", str(small)]
    sensitivity.main([*arguments, "--grid", "2x5", "5x2", "10x30"])
    table = pd.read_csv(small / "sensitivity.csv")
    facts = json.loads((small / "sensitivity.json").read_text())["studies"]["synthetic"]

    paper, ours = (table[table["estimator"] == kind] for kind in ("algorithm2", "walks"))
    assert [*zip(paper["permutations"], paper["subsets"], strict=True)] == [(2, 5), (5, 2), (10, 30)]
    assert [*paper["budget"]] == [13, 16, 311]
    assert [*ours["budget"]] == [13, 311]  # one for each K L, the smaller budget of the two
    assert [*ours["raised"]] == [3, 0]
    assert (table["evaluations"] <= table["budget"])[table["raised"] == 0].all()
    assert paper["importance_error_reported"].isna().all()
    assert (ours["importance_error_reported"] > 0).all()
    assert (table[["stderr_across_samples", "importance_error"]] > 0).all().all()
    assert paper["importance_error"].iloc[-1] < paper["importance_error"].iloc[0]
    assert ours["importance_error"].iloc[-1] < ours["importance_error"].iloc[0]
    assert len(facts["tokens"]) == 3
    assert facts["scaled down"].startswith("3 samples instead of 100; (L, K) of [(2, 5), (5, 2), (10, 30)] instead of")
    assert (small / "sensitivity.svg").stat().st_size > 0


def test_each_error_is_what_it_is_called():
    rng = np.random.default_rng(0)
    across, own, noise = 0.2, 0.01, 0.5
    scores = 0.7 + across * rng.normal(size=(1, 50)) + own * rng.normal(size=(400, 50))
    position = [noise * rng.normal(size=(400, n)) + 10 * rng.normal(size=(1, n)) for n in (3, 7) for _ in range(25)]
    stderr = [np.full_like(part, 0.3) for part in position]
    draws = Draws(scores, position, position, stderr, np.full((400, 50), 20.0), raised=0)
    row = sensitivity.summary(Setting(20), draws, scale=2.0)
    assert row["stderr_across_samples"] == pytest.approx(across / 50**0.5, rel=0.3)
    assert row["stderr_of_estimator"] == pytest.approx(own / 50**0.5, rel=0.2)
    assert row["importance_error"] == pytest.approx(noise / 2.0, rel=0.05)
    assert row["importance_error_reported"] == pytest.approx(0.15)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--eicu", "nowhere"], "no folder nowhere; give the folder of the eICU demo's tables with --eicu"),
        (["--seeds", "1"], "--seeds is 1, and an error needs at least 2"),
        (["--grid", "10x1"], "'10x1' is not LxK with L of 1 or more and K of 2 or more"),
    ],
)
def test_faults_are_told_before_any_work(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as stopped:
        sensitivity.main(arguments)
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err

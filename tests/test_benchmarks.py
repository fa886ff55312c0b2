"""The benchmarks run: each with settings so small that its numbers mean nothing."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from benchmarks import device, scaling, together


def written(folder, name: str) -> pd.DataFrame:
    """Return a benchmark's table, once it is there with its figure and what it was made on."""
    assert (folder / f"{name}.svg").stat().st_size > 1000
    facts = json.loads((folder / f"{name}.json").read_text())
    assert {"command", "commit", "machine", "torch"} <= set(facts)
    return pd.read_csv(folder / f"{name}.csv")


def test_scaling_measures_both_models_each_in_its_own_process(tmp_path):
    small = ["--players", "40", "--evaluations", "90", "--bert-players", "3", "--bert-evaluations", "20"]
    scaling.main([*small, "--methods", "sample_shapley", "--bare-seconds", "0.01", "--folder", str(tmp_path)])
    table = written(tmp_path, "scaling")
    assert table["model"].tolist() == ["zeros", "bert"]
    assert (table["evaluations"] <= table["budget"]).all() and (table["evaluations"] > 0).all()
    assert (table["outside_us"] > 0).all() and (table["peak_mib"] > 50).all()
    bert = table[table["model"] == "bert"].iloc[0]
    assert 0 < bert["outside_share"] < 1 and 0 < bert["share_of_bare"] < 3


def test_scaling_leaves_out_budgets_that_no_method_can_use():
    options = scaling.parser().parse_args(["--methods", "sample_shapley", "--players", "10", "1000"])
    found = [(row["players"], row["budget"]) for row in scaling.configurations(options) if row["model"] == "zeros"]
    assert (10, 1000) in found and (1000, 1000) not in found and (1000, 10_000) in found


def test_scaling_stops_where_a_configuration_fails(capfd):
    with pytest.raises(SystemExit, match="ended with 1"):
        scaling.in_a_process({"model": "zeros", "method": "none", "players": 3, "budget": 9}, 0.01)
    assert "unknown explainer 'none'" in capfd.readouterr().err


def test_device_times_every_method_of_table_3(tmp_path):
    small = ["--device", "cpu", "--tokens", "4", "--samples", "2", "--subsets", "2", "--permutations", "3"]
    device.main([*small, "--budget", "20", "--bare-seconds", "0.01", "--folder", str(tmp_path)])
    table = written(tmp_path, "device").set_index("method")
    assert set(device.PAPER) < set(table.index) and "ordshap" in table.index
    assert (table["seconds"] > 0).all() and (table["share_of_bare"] > 0).all()
    assert table.loc["ordshap_algorithm1", "evaluations"] <= 2 * 2 * 3 * 4
    assert table.loc["ordshap_algorithm2", "evaluations"] <= 1 + 3 + 2 * 3
    assert table.loc["loco", "evaluations"] == 5


def test_together_compares_alone_and_side_by_side(tmp_path):
    together.main(["--players", "3", "--budget", "40", "--repeats", "1", "--folder", str(tmp_path)])
    table = written(tmp_path, "together")
    assert len(table) == 4 and (table["gain"] > 0).all()

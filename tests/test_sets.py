"""Sets of players on their way through the stages: shards, tables with names, the report's figures."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file, save_file

from explainers import Game, get_explainer
from tasks.explain import as_arrays, read_explanation
from tasks.report import MethodView, write_report
from tasks.report.curves import x_label
from tasks.report.pairs import global_table, network_picture, pair_matrix, pairs_section, strongest_events
from tasks.sets import global_sets, named_sets, read_sets, set_arrays
from tasks.shards import write_shard
from tests.test_report import sample_views, study


def table(*rows: tuple[tuple[int, ...], float, float]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["set", "value", "stderr"])


TABLE = table(((0,), 1.5, 0.0), ((2,), -1.0, 0.25), ((0, 2), 0.125, 0.5), ((0, 1, 2), -3.0, np.nan))


# --- shards --------------------------------------------------------------------------------------------------------


def test_sets_of_unequal_sizes_come_back_from_safetensors(tmp_path):
    arrays = set_arrays(TABLE)
    assert arrays["sets.members"].tolist() == [[0, -1, -1], [2, -1, -1], [0, 2, -1], [0, 1, 2]]
    save_file(arrays, tmp_path / "sets.safetensors")
    found = read_sets(load_file(tmp_path / "sets.safetensors"))
    assert found is not None and found["set"].tolist() == TABLE["set"].tolist()
    pd.testing.assert_frame_equal(found.drop(columns="sample"), TABLE)
    assert found["sample"].tolist() == [0] * 4


def test_a_sample_without_players_has_an_empty_table_and_a_method_without_sets_none(tmp_path):
    save_file(set_arrays(table()), tmp_path / "sets.safetensors")
    found = read_sets(load_file(tmp_path / "sets.safetensors"))
    assert found is not None and len(found) == 0 and list(found.columns) == ["sample", "set", "value", "stderr"]
    assert read_sets({"value": torch.zeros(3)}) is None


@pytest.mark.parametrize("n", [0, 1, 5])
@pytest.mark.parametrize("options", [{}, {"estimator": "sampled", "top_pairs": 2, "budget": 60}], ids=["all", "top"])
def test_an_explanation_with_sets_comes_back_from_its_shard(tmp_path, n, options):
    weights = torch.arange(1.0, n + 1).double()
    game = Game.from_set_function(lambda kept: (kept.double() @ weights).sqrt(), n)
    made = get_explainer("joint_shapley", **options).explain(game)
    arrays = {f"0.{name}": value for name, value in as_arrays(made, 1).items()}
    (tmp_path / "shards").mkdir()
    write_shard(tmp_path / "shards" / "00000.safetensors", arrays)
    read = read_explanation(tmp_path, 8, 0)
    assert made.sets is not None and read.sets is not None
    assert read.sets["set"].tolist() == made.sets["set"].tolist()
    for column in ("sample", "value", "stderr"):
        assert read.sets[column].tolist() == made.sets[column].tolist()
    assert read.value_stderr is not None and torch.equal(read.value_stderr, made.value_stderr)


# --- tables --------------------------------------------------------------------------------------------------------


def test_rows_of_sets_csv_have_names_and_slots():
    rows = named_sets("0123456789abcdef", ["a", "b", "a"], TABLE)
    assert list(rows.columns) == ["sample", "set", "slots", "value", "stderr"]
    assert rows["set"].tolist() == ["a", "a", "a & a", "a & b & a"]
    assert rows["slots"].tolist() == ["1", "3", "1 3", "1 2 3"]
    assert rows["value"].tolist() == [1.5, -1.0, 0.125, -3.0] and set(rows["sample"]) == {"0123456789abcdef"}


def test_global_values_by_name_by_hand():
    """In sample 0 the pair a, b comes twice (1 and -3: magnitude 2), in sample 1 once, in other order (-4)."""
    first = table(((0,), 5.0, 0), ((0, 1), 1.0, 0), ((1, 2), -3.0, 0))
    second = table(((1,), -2.0, 0), ((0, 1), -4.0, 0))
    names = [["a", "b", "a"], ["b", "a"], ["b", "a", "c"], []]
    found = global_sets(list(zip(names, [first, second, table(), table()], strict=True)))
    assert found.values.tolist() == [
        [("a",), (5 + 2) / 2, (5 - 2) / 2, 2, 3],
        [("a", "b"), (2 + 4) / 2, (-1 - 4) / 2, 2, 3],
    ]
    assert global_sets([]).empty and global_sets([(["a"], table())]).empty


def test_a_set_of_equal_names_needs_as_many_of_them_to_be_present():
    found = global_sets([(["a", "a"], table(((0, 1), 1.0, 0))), (["a"], table(((0,), 2.0, 0)))])
    assert found.set_index("set")["present"].to_dict() == {("a",): 2, ("a", "a"): 1}


# --- report --------------------------------------------------------------------------------------------------------


def with_sets() -> list:
    first, second = sample_views()
    sets = table(((0,), 0.5, 0), ((1,), -0.2, 0), ((0, 1), -0.75, 0.01), ((1, 3), 0.25, 0.01), ((0, 1, 2), 9.0, 0))
    views = {**first.attributions, "random": MethodView(np.zeros(4), sets=sets)}
    other = {**second.attributions, "random": MethodView(np.zeros(3), sets=table(((0, 1), 0.25, 0.01)))}
    return [replace(first, attributions=views), replace(second, attributions=other)]


def test_pairs_go_into_the_report(tmp_path):
    files = write_report(study(samples=with_sets()), tmp_path)
    assert {"figures/pairs_01.png", "figures/pairs_02.png", "figures/pair_network_01.png"} <= set(files)
    page = files["report.md"].read_text("utf-8")
    assert "## Events together" in page
    row = next(
        line for line in page.splitlines() if line.startswith("| POS & VAL") or line.startswith("| POS &amp; VAL")
    )
    assert [entry.strip() for entry in row.strip("|").split(" | ")][1:] == ["0.5", "-0.25", "2", "2"]
    assert files["figures/pairs_01.png"].read_bytes().startswith(b"\x89PNG")


def test_a_report_names_its_players_and_what_positive_numbers_speak_for(tmp_path):
    rows = [replace(sample, hours=None, table=True, target=None, player="feature") for sample in with_sets()]
    results = study(samples=rows, truth=None)
    files = write_report(results, tmp_path)
    page = files["report.md"].read_text("utf-8")
    assert "## Features together" in page and x_label("ins_auc", results.player) == "Features kept (%)"
    assert "orange speaks for a higher prediction" in page and "positive speaks for a higher prediction" in page
    assert "explained class" not in page and not re.search(r"(?<!;)\bevents?\b", page)


def test_a_report_without_sets_has_no_such_section(tmp_path):
    files = write_report(study(), tmp_path)
    assert "Events together" not in files["report.md"].read_text("utf-8")
    assert not pairs_section(study()).grids


def test_cells_of_the_heat_map_are_the_pairs_and_its_diagonal_the_single_events():
    cells = pair_matrix(with_sets()[0], "random")
    nan = np.nan
    wanted = [[0.5, -0.75, nan, nan], [-0.75, -0.2, nan, 0.25], [nan, nan, nan, nan], [nan, 0.25, nan, nan]]
    np.testing.assert_array_equal(cells, wanted)
    assert strongest_events(cells).tolist() == [0, 1, 3], "event 2 is in no pair"


def test_the_network_draws_a_line_a_pair_of_two_names_and_a_dot_a_name():
    sets = global_table(with_sets(), "random")
    (picture,) = network_picture(sets, "random", "pair_network_01", study())
    axes = picture.figure.axes[0]
    assert len(axes.lines) == 2 and len(axes.collections) == 3
    assert "first POS & VAL" in picture.alt
    assert "pairs of events" in picture.caption and "orange speaks for the explained class" in picture.caption
    twins = sets.iloc[:0].assign(set=[], mean_absolute=[])
    assert network_picture(twins, "random", "none", study()) == []

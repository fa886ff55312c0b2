"""Benchmarks of joint Shapley values: small runs, the page held to its CSV, the planted pair under the true logit."""

from __future__ import annotations

import pandas as pd
import pytest

from benchmarks import joint_convergence, joint_page, joint_tables, planted_pairs
from benchmarks.paper_tables import TABLE_3, TABLE_4
from tasks.preprocess.rotten_tomatoes import NAMED as TABLE_6_NAMED
from tests.test_benchmarks import written
from tests.test_tables import write_boston, write_reviews


@pytest.fixture
def data(tmp_path):
    """Return a folder like that of the real data, with small tables."""
    for name, write in (("boston", write_boston), ("rotten_tomatoes", lambda folder: write_reviews(folder, 400))):
        (tmp_path / name).mkdir()
        write(tmp_path / name)
    return tmp_path


def test_printed_values_are_read_by_set():
    assert TABLE_3["product"]["x1", "x2"] == pytest.approx(1 / 14)
    assert TABLE_4["J", 2]["LSTAT", "RM"] == 0.30 and list(TABLE_4["J", 2])[:2] == [("LSTAT",), ("RM",)]


def test_tables_are_measured_and_written(data, tmp_path):
    small = ["--data", str(data), "--samples", "2", "--reviews", "3", "--background", "5", "--replicates", "2"]
    joint_tables.main(["--tables", "3", "4", "6", *small, "--folder", str(tmp_path)])
    table = written(tmp_path, "joint_tables")
    coins = table[table["table"] == 3]
    assert len(coins) == 3 * 7 and (coins["value"] - coins["paper"]).abs().max() < 1e-6
    words = table[table["table"] == 6].groupby("column").size()
    assert words.to_dict() == {"k=1": len(TABLE_6_NAMED), "k=2": len(TABLE_6_NAMED), "pairs, k=2": 5}
    forests = table[(table["table"] == 4) & (table["column"] == "J, k=1")]
    assert sorted(forests["rank"]) == list(range(1, 14)) and forests["paper_rank"].notna().all()
    for number in (3, 4, 6):
        assert len(joint_page.markdown(table, number).splitlines()) > 3


def test_convergence_is_measured_from_exact_values(data, tmp_path):
    small = ["--budgets", "800", "1600", "--seeds", "3", "--replicates", "2", "4", "--background", "5"]
    joint_convergence.main(["--data", str(data), *small, "--folder", str(tmp_path)])
    table = written(tmp_path, "joint_convergence")
    boston = table[table["figure"] == "Boston"]
    assert len(boston) == 4 and (boston["distance"] > 0).all()
    assert len(table[table["figure"] == "review 2"]) == 3


def test_the_page_holds_the_tables_of_the_csv():
    table, page = joint_page.read(), joint_page.PAGE.read_text("utf-8")
    assert {2, 3, 4} <= set(joint_page.measured(table))
    for number in joint_page.measured(table):
        assert joint_page.markdown(table, number) in page


def test_a_set_of_the_csv_reads_as_its_names():
    assert joint_page.plain("('a', \"won't\")") == "a, won't"
    assert joint_page.fraction(0.238095) == "5/21"
    with pytest.raises(ValueError, match="no fraction of small denominator"):
        joint_page.fraction(0.3141592)


def test_the_planted_pair_is_the_first_of_all_pairs_under_the_true_logit():
    codes = ["INERT_A", "PAIR_BEFORE", "VALUE_UP_A", "PAIR_AFTER", "INERT_B"]
    game = planted_pairs.truth(codes)
    assert planted_pairs.double_difference(game, codes) == pytest.approx((2.5, 0.0))
    rows = pd.DataFrame(planted_pairs.ranks(game, codes, 64)).set_index("method")
    assert rows.loc["interactions", "rank"] == 1 and rows.loc["interactions", "value"] == pytest.approx(2.5)
    assert rows["pairs"].tolist() == [10, 10] and not planted_pairs.in_order(codes[::-1])

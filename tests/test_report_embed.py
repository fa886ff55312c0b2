"""What a page embeds: numbers that read back, text that cannot break out, sizes, one sample's page."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tasks.report import MethodView, SampleView, StudyResults, write_report, write_sample
from tasks.report.embed import NO_DRAW, cells, floats, outline, script_json, sets_json
from tasks.report.page import ASSETS, SCRIPTS
from tests.test_report import Page, curves_frame, sample_views, scores_frame, study

EVIL = "</script><script>document.title='broken'</script><!-- \u2028"


def embedded(page: Path) -> dict[str, dict]:
    """Return the JSON of a page by the id of its script element."""
    found = re.findall(
        r'<script type="application/json" id="([\w-]+)">(.*?)</script>', page.read_text("utf-8"), re.DOTALL
    )
    return {name: json.loads(text, parse_constant=refuse) for name, text in found}


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


def test_numbers_read_back():
    numbers = np.array([0.1, -2.5e-7, np.nan, 1e5])
    np.testing.assert_array_equal(np.frombuffer(base64.b64decode(floats(numbers)), "<f4"), numbers.astype(np.float32))
    matrix = np.array([[0.5, np.nan], [-1.0, 0.25]])
    found = cells(matrix)
    whole = np.frombuffer(base64.b64decode(found["bytes"]), "<i2").reshape(2, 2)
    assert found["reach"] == 1.0 and whole[0, 1] == NO_DRAW
    known = np.isfinite(matrix)
    np.testing.assert_allclose(whole[known] / 32767 * found["reach"], matrix[known], atol=2e-5)
    assert cells(np.full((1, 1), np.nan))["reach"] == cells(np.zeros((1, 1)))["reach"] == 0.0
    assert (cells(np.zeros((0, 0)))["bytes"], floats(np.zeros(0))) == ("", "")


def test_missing_numbers_are_null_and_text_stays_inside():
    text = script_json({"a": [np.nan, np.float64(0.5)], "b": EVIL, "c": {"d": np.inf}})
    assert "<" not in text and ">" not in text
    assert json.loads(text) == {"a": [None, 0.5], "b": EVIL, "c": {"d": None}}


def test_sets_shown_are_the_largest_of_each_size():
    rows = [((0,), 9.0, 0.1), ((0, 1), -0.5, 0.1), ((1, 2), 0.2, np.nan), ((0, 2), np.nan, 0.1), ((0, 1, 2), 0.1, 0.0)]
    shown = sets_json(pd.DataFrame(rows, columns=["set", "value", "stderr"]))
    assert [part["set"] for part in shown] == [[0, 1], [1, 2], [0, 1, 2]]
    assert json.loads(script_json(shown))[1] == {"set": [1, 2], "value": 0.2, "stderr": None}


def test_every_marker_has_an_outline():
    drawn = {marker: outline(marker) for marker in "osD^vP*X<>hp"}
    assert len(set(drawn.values())) == len(drawn)
    assert all(re.fullmatch(r"M[-\d.,MLCQZ ]+", path) for path in drawn.values())


def test_a_page_says_nan_nowhere_and_keeps_hostile_names(tmp_path):
    hostile = replace(sample_views()[0], names=[EVIL, "VAL", "NIL", "POS"])
    files = write_report(study(samples=[hostile], name=EVIL, truth=None), tmp_path)
    text = files["report.html"].read_text("utf-8")
    page = Page(text)
    assert page.open == [] and len(page.scripts) == 3, "the study, one sample, the script"
    assert embedded(files["report.html"])["sample-0"]["names"][0] == EVIL
    assert "document.title=" not in "".join(Page(re.sub(r'"names":.*?]', "", text)).scripts)
    assert not re.search(r"\bNaN\b|Infinity", "".join(page.scripts[:2]))


def test_a_page_embeds_every_sample_and_every_method(tmp_path):
    results = study()
    data = embedded(write_report(results, tmp_path)["report.html"])
    assert sorted(data) == ["sample-0", "sample-1", "study"]
    assert data["study"]["methods"] == list(results.methods)
    row = data["study"]["differences"]["inc_auc"]["rows"][1]
    assert row["method"] == 2 and row["difference"] == pytest.approx(-0.6)
    assert data["study"]["curves"]["inc_auc"]["lines"][2] is None, "random has no curve in this study"
    assert data["sample-0"]["views"][1] is None, "least squares explained no sample in this study"


def test_one_sample_s_page(tmp_path):
    results = study(samples=[replace(view, sample=f"{place}abc") for place, view in enumerate(sample_views())])
    page = write_sample(results, "1abc", tmp_path / "pages")
    assert page == tmp_path / "pages" / "sample-1abc.html"
    data = embedded(page)
    assert sorted(data) == ["sample-0", "study"] and data["sample-0"]["sample"] == "1abc"
    assert "Comparison" not in page.read_text("utf-8") and Page(page.read_text("utf-8")).open == []
    assert write_sample(results, "0", tmp_path).name == "sample-0abc.html", "the start of a hash is enough"
    for wrong, said in (("2", "0 samples .* '2'; give one of: 0abc, 1abc"), ("", "no samples")):
        with pytest.raises(ValueError, match=said):
            write_sample(results, wrong, tmp_path)
    same = study(samples=[replace(sample_views()[0], sample=name) for name in ("ab1", "ab2")])
    with pytest.raises(ValueError, match="2 samples have a hash that starts with 'ab'"):
        write_sample(same, "ab", tmp_path)


def test_text_and_images_have_figures_of_their_own(tmp_path):
    files = write_report(study(samples=[text_sample(), image_sample()], truth=None), tmp_path)
    assert {"figures/attribution_01.png", "figures/attribution_02.png"} <= set(files)
    said = files["report.md"].read_text("utf-8")
    assert "words coloured by attribution" in said and "An image of 2 by 3 pixels" in said
    data = embedded(files["report.html"])
    assert data["sample-0"]["hours"] is None and data["sample-1"]["image"]["shape"] == [2, 3]
    pixels = np.frombuffer(base64.b64decode(data["sample-1"]["image"]["bytes"]), np.uint8)
    assert pixels.tolist() == [0, 51, 102, 153, 204, 255]


def test_views_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"6 players and an image of shape \(2, 2\)"):
        replace(image_sample(), image=np.zeros((2, 2)))
    with pytest.raises(ValueError, match=r"outputs of shape \(2,\) for event 0 moved; its 5 events need \(5,\)"):
        replace(text_sample(), moved={0: np.zeros(2)})
    with pytest.raises(ValueError, match="for event 5 moved"):
        replace(text_sample(), moved={5: np.zeros(5)})
    with pytest.raises(ValueError, match="sets of m lacks the column 'stderr'"):
        sets = pd.DataFrame({"set": [(0, 1)], "value": [0.1]})
        replace(text_sample(), attributions={"m": MethodView(np.zeros(5), sets=sets)})


def text_sample() -> SampleView:
    words = ["not", "a", "bad", "film", "."]
    views = {"OrdShap": MethodView(np.array([0.5, 0.0, -1.0, np.nan, 0.1])), "random": MethodView(np.zeros(5))}
    return SampleView("text0001", words, None, 1, 0.9, 1, views)


def image_sample() -> SampleView:
    views = {"OrdShap": MethodView(np.linspace(-1, 1, 6)), "random": MethodView(np.array([np.nan, 1, 0, 0, 0, -1]))}
    names = [f"pixel {place}" for place in range(6)]
    return SampleView("image001", names, None, 0, 0.6, 0, views, image=np.linspace(0, 1, 6).reshape(2, 3))


def large_study(samples: int = 200, methods: int = 10, events: int = 150) -> StudyResults:
    """A study of many samples, the longest sequences, and methods with everything; names as long as real codes."""
    rng = np.random.default_rng(0)
    labels = [f"method {place}" for place in range(methods)]
    codes = [f"LAB//SOME RATHER LONG NAME OF A LABORATORY TEST {code}//Q{code % 5}" for code in range(600)]

    def view(place: int, index: int) -> MethodView:
        matrix = rng.normal(size=(events, events)) if index < 10 and place < 4 else None
        return MethodView(rng.normal(size=events), rng.normal(size=events) if place < 4 else None, matrix)

    views = [
        SampleView(
            f"{index:016x}",
            [codes[code] for code in rng.integers(600, size=events)],
            np.sort(rng.uniform(0, 12, events)),
            1,
            0.7,
            1,
            {label: view(place, index) for place, label in enumerate(labels)},
            moved={event: rng.uniform(size=events) for event in range(10)} if index < 10 else {},
        )
        for index in range(samples)
    ]
    names = ("inc_auc", "exc_auc", "ins_auc", "del_auc", "perm_auc", "log_odds_drop")
    keys = [(label, name) for label in labels for name in names]
    scores = {key: rng.uniform(size=8).tolist() for key in keys}  # the page holds no score of a single sample
    rows = curves_frame(keys)
    grid = np.arange(0, 101, 4)
    curves = pd.concat(
        [
            part.iloc[:1].loc[part.index[:1].repeat(len(grid))].assign(percent=grid, mean=rng.uniform(size=len(grid)))
            for _, part in rows.groupby(["method", "metric"], sort=False)
        ]
    )
    timing = pd.DataFrame(
        [(label, "s0", 0.1 + place, 10 * place, 5.0) for place, label in enumerate(labels)],
        columns=["method", "sample", "seconds", "evaluations", "peak_memory_mb"],
    )
    return study(scores=scores_frame(scores), curves=curves, timing=timing, samples=views, truth=None)


@pytest.fixture(scope="session")
def large_page(tmp_path_factory) -> Path:
    return write_report(large_study(), tmp_path_factory.mktemp("large"))["report.html"]


def test_two_hundred_samples_of_ten_methods_stay_under_15_mb(large_page):
    assert large_page.stat().st_size < 15e6
    assert len(embedded(large_page)) == 201


def test_scripts_and_styles_ask_for_nothing_outside():
    for path in sorted(ASSETS.iterdir()):
        assert not re.search(
            r"https?:|//[\w-]+\.\w|@import|\bfetch\(|XMLHttp|\bimport\b|url\(", path.read_text("utf-8")
        ), path
    assert {path.name for path in ASSETS.iterdir()} == {"page.html.jinja", "page.css", *SCRIPTS}

from __future__ import annotations

import base64
import io
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

import metrics
from tasks.report import MethodView, SampleView, StudyResults, console_table, summary, write_report
from tasks.report.picture import styles
from tasks.report.planted import by_code, by_kind, occurrences, separation
from tasks.report.sections import flat
from tasks.report.table import compare, panel_places
from tasks.report.text import escape_markdown, escape_tex, higher_is_better, number, shorten, title

SCORES = {
    # mean 0.8, deviations -.1 0 .1: sd .1, standard error .1 / sqrt 3 = 0.057735
    ("OrdShap", "inc_auc"): [0.7, 0.8, 0.9],
    ("least_squares 50%", "inc_auc"): [0.5, 0.5, 0.8],
    ("random", "inc_auc"): [0.1, 0.2, 0.3],
    # down is better; the middle sample is undefined for OrdShap: mean 0.3, sd 0.1414, standard error 0.1
    ("OrdShap", "exc_auc"): [0.2, np.nan, 0.4],
    ("least_squares 50%", "exc_auc"): [0.25, 0.25, 0.25],
    ("random", "exc_auc"): [0.9, 0.8, 0.7],
    ("OrdShap", "perm_auc"): [0.5, 0.5, 0.5],
    ("least_squares 50%", "perm_auc"): [0.5, 0.5, 0.5],
    ("random", "perm_auc"): [np.nan, np.nan, np.nan],
}
TRUTH = {
    "codes": {
        "POS": {"kind": "position", "value": 0.0, "position": 0.5},
        "VAL": {"kind": "value", "value": -1.0, "position": 0.0},
        "NIL": {"kind": "inert", "value": 0.0, "position": 0.0},
    },
    "pairs": [],
}
LONG = "A very long <b>event</b> name & that no figure has room for, $5 a piece, ever"


def scores_frame(scores: dict[tuple[str, str], list[float]] = SCORES) -> pd.DataFrame:
    rows = [(*key, f"s{place}", score) for key, own in scores.items() for place, score in enumerate(own)]
    return pd.DataFrame(rows, columns=["method", "metric", "sample", "score"])


def curves_frame(keys: list[tuple[str, str]]) -> pd.DataFrame:
    rows = [(*key, percent, percent / 100, 0.01, 3) for key in keys for percent in (0, 50, 100)]
    return pd.DataFrame(rows, columns=["method", "metric", "percent", "mean", "stderr", "samples"])


def timing_frame() -> pd.DataFrame:
    rows = [
        ("OrdShap", "s0", 1200.0, 1000, 512.0),
        ("OrdShap", "s1", 1269.0, 1000, 512.0),
        ("random", "s0", 0.01234, 0, np.nan),
    ]
    return pd.DataFrame(rows, columns=["method", "sample", "seconds", "evaluations", "peak_memory_mb"])


def view(names: list[str], target: int, ordshap: MethodView, other: np.ndarray) -> SampleView:
    attributions = {"OrdShap": ordshap, "random": MethodView(np.asarray(other, dtype=float))}
    hours = np.linspace(0, 11.9, len(names))
    return SampleView("0123456789abcdef", names, hours, 1, 0.75, target, attributions)


def sample_views() -> list[SampleView]:
    """Two samples; the second explains class 0, where a planted effect on class 1 has the opposite sign."""
    gamma = np.array([[0.1, np.nan, 0.3, 0.0]] * 4)
    first = MethodView(np.array([0.1, -0.5, 0.05, 9.0]), np.array([0.4, 0.1, -0.2, 9.0]), gamma)
    second = MethodView(np.array([-0.3, 0.7, 0.15]), np.array([-0.6, 0.0, 0.6]))
    return [
        view(["POS", "VAL", "NIL", LONG], 1, first, [0.1, 0.2, 0.3, 0.4]),
        view(["POS", "VAL", "NIL"], 0, second, [0.5, 0.5, 0.5]),
    ]


def study(**changes: object) -> StudyResults:
    results = StudyResults(
        name="demo_1",
        dataset="synthetic",
        task="planted",
        scores=scores_frame(),
        curves=curves_frame([key for key in SCORES if key[0] != "random"]),
        timing=timing_frame(),
        model={"auroc": 0.8126, "auroc_low": 0.75, "auroc_high": 0.86, "samples": 600.0},
        audit={"rows": {"in": 12, "out": 7}, "codes": ["A", "B"]},
        samples=sample_views(),
        truth=TRUTH,
        made={"git commit": "abc123", "note": "<script>alert(1)</script>"},
    )
    return replace(results, **changes)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write_report(study(), tmp_path_factory.mktemp("report"))


def markdown_row(path: Path, method: str) -> list[str]:
    row = next(line for line in path.read_text("utf-8").splitlines() if line.startswith(f"| {method} |"))
    return [entry.strip() for entry in row.strip("|").split(" | ")]


class Page(HTMLParser):
    """Collects images, references and open tags of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.images: list[dict[str, str | None]] = []
        self.references: list[str] = []
        self.tags: set[str] = set()
        self.scripts: list[str] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag not in {"meta", "img", "link", "br"}:
            self.open.append(tag)
        if tag == "img":
            self.images.append(dict(attrs))
        self.references += [value or "" for name, value in attrs if name in {"src", "href"}]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        (self.scripts if self.open[-1:] == ["script"] else self.words).append(data)


def test_mean_and_standard_error_by_hand() -> None:
    comparison = compare(study())
    at = comparison.methods.index("OrdShap"), comparison.columns.index("inc_auc")
    assert comparison.mean[at] == pytest.approx(0.8)
    assert comparison.stderr[at] == pytest.approx(0.1 / math.sqrt(3))
    other = comparison.methods.index("least_squares 50%"), comparison.columns.index("inc_auc")
    assert comparison.mean[other] == pytest.approx(0.6)
    assert comparison.stderr[other] == pytest.approx(math.sqrt(0.03) / math.sqrt(3))


def test_undefined_scores_count_for_nothing() -> None:
    comparison = compare(study())
    column = comparison.columns.index("exc_auc")
    assert comparison.mean[0, column] == pytest.approx(0.3)
    assert comparison.stderr[0, column] == pytest.approx(0.1)
    assert comparison.samples[:, column].tolist() == [2, 3, 3]
    assert math.isnan(comparison.mean[2, comparison.columns.index("perm_auc")])


def test_markdown_has_the_paper_s_cells_best_in_bold(written: dict[str, Path]) -> None:
    table = written["table.md"]
    header = table.read_text("utf-8").splitlines()[0]
    assert header.startswith(
        "| Method | Inclusion AUC ↑ | Exclusion AUC ↓ | Permutation AUC ↑ | Seconds ↓ | Evaluations ↓"
    )
    assert markdown_row(table, "OrdShap") == [
        "OrdShap",
        "**0.800** (0.058)",
        "0.300 (0.100)",
        "**0.500** (0.000)",
        "1230 (30)",
        "1000 (0)",
        "512 (0)",
    ]
    assert markdown_row(table, r"least\_squares 50%") == [
        r"least\_squares 50%",
        "0.600 (0.100)",
        "**0.250** (0.000)",
        "**0.500** (0.000)",
        "–",
        "–",
        "–",
    ]
    assert markdown_row(table, "random")[3:] == ["–", "0.0123 (–)", "0 (–)", "–"]


def test_the_number_of_samples_is_stated(written: dict[str, Path]) -> None:
    said = written["table.md"].read_text("utf-8")
    assert "Mean over 3 explained samples" in said
    assert "Exclusion AUC is defined for fewer of the 3 samples: OrdShap 2." in said
    assert "measured on 2 samples" in said


def test_nearly_equal_is_not_a_tie() -> None:
    scores = scores_frame({("a", "inc_auc"): [0.5], ("b", "inc_auc"): [0.5 + 1e-9], ("c", "inc_auc"): [0.5 + 1e-9]})
    best = compare(study(scores=scores, timing=timing_frame()[:0])).best()
    assert best[:, 0].tolist() == [False, True, True]


def test_latex_escapes_and_bolds(written: dict[str, Path]) -> None:
    tex = written["table.tex"].read_text("utf-8")
    assert r"least\_squares 50\% & $0.600\,{\scriptstyle(0.100)}$ & $\mathbf{0.250}\,{\scriptstyle(0.000)}$" in tex
    assert r"Inclusion AUC $\uparrow$ & Exclusion AUC $\downarrow$" in tex
    assert r"\caption{demo\_1 (synthetic, planted)." in tex
    assert tex.count(r"\begin{tabular}") == tex.count(r"\end{tabular}") == 2
    body = tex.replace(r"\caption", "").replace(r"\label{tab:demo_1}", "").replace("% needs", "")
    assert not re.search(r"(?<!\\)[%#_]", body)
    assert "nan" not in tex.lower()


def test_csv_reads_back_the_unrounded_numbers(written: dict[str, Path]) -> None:
    table = pd.read_csv(written["table.csv"]).set_index("method")
    assert table.loc["OrdShap", "inc_auc"] == pytest.approx(0.8, abs=1e-15)
    assert table.loc["OrdShap", "exc_auc_samples"] == 2
    assert math.isnan(table.loc["random", "perm_auc"])
    curves = pd.read_csv(written["curves.csv"])
    assert curves.shape == study().curves.shape


def test_summary_is_methods_by_metrics() -> None:
    means = summary(study())
    assert means.index.tolist() == ["OrdShap", "least_squares 50%", "random"]
    assert means.columns.tolist() == [
        "inc_auc",
        "exc_auc",
        "perm_auc",
        "seconds",
        "evaluations",
        "peak_memory_mb",
    ]
    assert means.loc["OrdShap", "seconds"] == pytest.approx(1234.5)
    assert means.loc["random", "evaluations"] == 0


@pytest.mark.parametrize("width", [80, 120, 220])
def test_console_table_fits_and_keeps_every_number(width: int) -> None:
    console = Console(width=width, record=True, file=io.StringIO())
    scores = scores_frame({("OrdShap [x]", name): [0.25, 0.75] for name in metrics.metrics()})
    console.print(console_table(study(scores=scores), width))
    text = console.export_text()
    assert text.count("0.500 (0.250)") == len(metrics.metrics())
    assert "OrdShap [x]" in text
    assert all(len(line) <= width for line in text.splitlines())
    assert "…" not in text


def test_every_metric_has_a_direction() -> None:
    up = {"inc_auc", "ins_auc", "inc_auc_fixed", "ins_auc_fixed", "perm_auc", "log_odds_drop"}
    down = {"exc_auc", "del_auc", "exc_auc_fixed", "del_auc_fixed", "seconds", "evaluations", "peak_memory_mb"}
    assert {name for name in up | down if higher_is_better(name)} == up
    with pytest.raises(ValueError, match=r"inc_auk.*did you mean 'inc_auc'"):
        higher_is_better("inc_auk")


def test_html_stands_alone(written: dict[str, Path]) -> None:
    text = written["report.html"].read_text("utf-8")
    page = Page(text)
    assert page.open == []
    inlined = {base64.b64decode((image["src"] or "").partition(",")[2]) for image in page.images}
    assert inlined == {written["figures/planted.png"].read_bytes()}, "the other figures are drawn by the page's script"
    assert all(len(image["alt"] or "") > 20 for image in page.images)
    assert all(reference.startswith(("data:image/png;base64,", "#")) for reference in page.references)
    assert "http://" not in text and "https://" not in text and "url(" not in text


def test_html_escapes_and_keeps_long_names_whole(written: dict[str, Path]) -> None:
    text = written["report.html"].read_text("utf-8")
    page = Page(text)
    assert "b" not in page.tags and "alert(1)" not in "".join(page.scripts)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert LONG in page.words


def test_report_says_what_was_measured_and_how_it_was_made(written: dict[str, Path]) -> None:
    said = written["report.md"].read_text("utf-8")
    for words in ("| auroc | 0.813 | 0.750 to 0.860 |", "| samples | 600 | – |", "| rows: in | 12 |", "abc123"):
        assert words in said
    links = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", said)
    assert set(links) == {name for name in written if name.startswith("figures/")}


def test_figures_are_written_and_reproducible(written: dict[str, Path], tmp_path: Path) -> None:
    samples = ["attribution_01", "attribution_02", "gamma_01", "planted"]
    wanted = sorted([*samples, "cost", "curve_exc_auc", "curve_inc_auc", "curve_perm_auc"])
    assert sorted(name for name in written if name.startswith("figures/")) == [f"figures/{name}.png" for name in wanted]
    again = write_report(study(), tmp_path)
    assert list(again) == list(written)
    for name, path in written.items():
        assert again[name].read_bytes() == path.read_bytes(), name


def test_planted_kinds_by_hand() -> None:
    """The second sample explains class 0: its value and position are negated before they are averaged."""
    kinds = by_kind(occurrences(study())).set_index(["method", "kind"])
    found = kinds.loc[("OrdShap", "position")]
    assert found["occurrences"] == 2
    assert found["mean_value"] == pytest.approx((0.1 + 0.3) / 2)
    assert found["mean_position"] == pytest.approx((0.4 + 0.6) / 2)
    assert found["mean_abs_position"] == pytest.approx(0.5)
    inert = kinds.loc[("OrdShap", "inert")]
    assert inert["mean_value"] == pytest.approx((0.05 - 0.15) / 2)
    assert inert["mean_position"] == pytest.approx((-0.2 - 0.6) / 2)
    assert inert["mean_abs_position"] == pytest.approx((0.2 + 0.6) / 2)
    assert math.isnan(kinds.loc[("random", "position"), "mean_position"])


def test_planted_separation_by_hand() -> None:
    scores = separation(occurrences(study())).set_index("method")
    # |PI| of position effects .4 .6, of inert codes .2 .6: .4>.2, .4<.6, .6>.2, .6=.6 (half): 2.5 of 4 pairs
    assert scores.loc["OrdShap", "position_auroc"] == pytest.approx(2.5 / 4)
    assert scores.loc["OrdShap", "position_sign"] == 1.0
    # |VI| of value effects .5 .7, of inert codes .05 .15; planted -1, found -.5 and -.7
    assert scores.loc["OrdShap", "value_auroc"] == 1.0
    assert scores.loc["OrdShap", "value_sign"] == 1.0
    assert scores.loc["OrdShap", ["effects", "inert"]].tolist() == [2, 2]
    # the other method: value effects .2 .5, inert .3 .5; signs + and, negated, -
    assert scores.loc["random", "value_auroc"] == pytest.approx((0 + 0 + 1 + 0.5) / 4)
    assert scores.loc["random", "value_sign"] == 0.5
    assert math.isnan(scores.loc["random", "position_auroc"])


def test_planted_files_and_section(written: dict[str, Path]) -> None:
    codes = pd.read_csv(written["planted_codes.csv"]).set_index(["method", "code"])
    assert codes.loc[("OrdShap", "VAL"), "true_value"] == -1.0
    assert codes.loc[("OrdShap", "VAL"), "mean_value"] == pytest.approx(-0.6)
    assert by_code(occurrences(study()))["code"].nunique() == 3
    assert {"planted.csv", "planted_separation.csv"} <= set(written)
    assert "| OrdShap | 0.625 | 1.000 | 1.000 | 1.000 | 2 | 2 |" in written["report.md"].read_text("utf-8")


def test_planted_truth_about_other_events_is_an_error() -> None:
    other = {"codes": {"OTHER": {"kind": "inert", "value": 0.0, "position": 0.0}}, "pairs": []}
    with pytest.raises(ValueError, match=r"'POS'.*'OTHER'"):
        occurrences(study(truth=other))
    with pytest.raises(ValueError, match=r"'POS' has kind 'magic'.*inert"):
        occurrences(study(truth={"codes": {"POS": {"kind": "magic", "value": 0, "position": 0}}}))


def test_real_data_has_no_planted_part(tmp_path: Path) -> None:
    files = write_report(study(truth=None, curves=study().curves[:0]), tmp_path)
    assert not [name for name in files if "planted" in name]
    assert "planted truth" not in files["report.md"].read_text("utf-8")
    assert not [name for name in files if "curve_" in name]


def test_one_method_one_sample_no_timing(tmp_path: Path) -> None:
    lone = SampleView("ff", ["POS"], np.zeros(1), 0, 0.5, 0, {"LOCO": MethodView(np.zeros(1))})
    none = SampleView("ee", [], np.zeros(0), 0, 0.5, 0, {"LOCO": MethodView(np.zeros(0))})
    results = study(
        scores=scores_frame({("LOCO", "inc_auc"): [0.5]}),
        curves=curves_frame([("LOCO", "inc_auc")]).assign(stderr=np.nan),
        timing=pd.DataFrame(),
        samples=[none, lone],
        truth=None,
    )
    files = write_report(results, tmp_path)
    assert markdown_row(files["table.md"], "LOCO") == ["LOCO", "0.500 (–)"]
    said = files["table.md"].read_text("utf-8")
    assert "Mean over 1 explained sample, " in said and "Cost was not measured." in said
    assert "nan" not in said.lower()
    assert r"$0.500\,{\scriptstyle(\mbox{--})}$" in files["table.tex"].read_text("utf-8")
    figures = sorted(name for name in files if name.startswith("figures/"))
    assert figures == ["figures/attribution_01.png", "figures/curve_inc_auc.png"]


def test_broken_results_are_refused() -> None:
    with pytest.raises(ValueError, match="scores lacks the column 'score'"):
        study(scores=scores_frame().drop(columns="score"))
    with pytest.raises(ValueError, match="no row"):
        study(scores=scores_frame()[:0])
    with pytest.raises(ValueError, match="two rows for method 'OrdShap', metric 'inc_auc'"):
        study(scores=pd.concat([scores_frame(), scores_frame()[:1]]))
    with pytest.raises(ValueError, match=r"position of m has shape \(2,\); its 1 events need \(1,\)"):
        SampleView("ff", ["A"], np.zeros(1), 0, 0.5, 0, {"m": MethodView(np.zeros(1), np.zeros(2))})


def test_methods_look_different() -> None:
    looks = styles([f"m{place}" for place in range(20)])
    assert len({(style.color, str(style.dashes), style.marker) for style in looks.values()}) == 20


def test_panels_hold_every_column_once() -> None:
    columns = (*metrics.metrics(), "seconds", "evaluations", "peak_memory_mb")
    panels = panel_places(columns)
    assert [place for panel in panels for place in panel] == list(range(len(columns)))
    assert max(map(len, panels)) <= 5


def test_words_and_numbers() -> None:
    assert title("log_odds_drop") == "Log odds drop"
    assert [number(x, 2) for x in (1.005, -0.001, math.nan, math.inf)] == ["1.00", "0.00", "–", "–"]
    assert escape_tex(r"a\b{c}^~&#$_%") == (r"a\textbackslash{}b\{c\}\textasciicircum{}\textasciitilde{}\&\#\$\_\%")
    assert escape_markdown("*a* [b](c)\n|") == r"\*a\* \[b\](c) \|"
    assert shorten("x" * 50, 10) == "x" * 9 + "…"
    assert list(flat({"a": {"b": 1.5}, "c": []})) == [("a: b", "1.5"), ("c", "")]
    steps = {"steps": [{"reason": "age", "dropped": 3}, {"reason": "gap", "dropped": 0}]}
    assert list(flat(steps)) == [("steps", "reason age, dropped 3; reason gap, dropped 0")]

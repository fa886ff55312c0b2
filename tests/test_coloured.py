"""Words coloured by attribution, and images masked and overlaid by it."""

from __future__ import annotations

import io
import re
import warnings
from html.parser import HTMLParser
from itertools import pairwise
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.colors import to_hex, to_rgb
from matplotlib.patches import Rectangle

from tasks.report.coloured import (
    MISSING_COLOR,
    SHOWN_WORDS,
    WIDTH,
    background,
    ink,
    scaled,
    words_html,
    words_picture,
    wrapped,
)
from tasks.report.masked import image_picture, masked, top_pixels
from tasks.report.picture import DIVERGING, Picture

WORDS = ["It", "is", "not", "heartwarming", "or", "entertaining", ".", "It", "just", "sucks", "."]
NUMBERS = np.array([0.0, 0.1, 2.0, 0.5, 0.0, -1.0, 0.0, 0.1, 0.2, -0.5, np.nan])
BOTH = {"C-Shapley": NUMBERS, "KernelSHAP": np.zeros(11)}


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


class Marks(HTMLParser):
    """Reads the words of a page with their styles, by method."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.words: dict[str, list[tuple[str, dict[str, str | None]]]] = {}
        self.open: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)
        assert self.open == [], "every element is closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "!doctype"):
            self.open.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        tag, attrs = self.open[-1] if self.open else ("", {})
        if tag == "h2":
            self.words[data] = []
        elif tag == "mark":
            self.words[list(self.words)[-1]].append((data, attrs))


def pixels_of(picture: Picture) -> np.ndarray:
    return mpl.image.imread(io.BytesIO(picture.png()))[..., :3]


def contrast(one: str, two: str) -> float:
    def luminance(color: str) -> float:
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(color)]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted([luminance(one), luminance(two)])
    return (high + 0.05) / (low + 0.05)


def test_a_page_has_every_word_of_every_method_in_order_on_its_colour():
    marks = Marks(words_html(WORDS, BOTH, "Review 1"))
    assert list(marks.words) == list(BOTH)
    for method, numbers in BOTH.items():
        assert [word for word, _ in marks.words[method]] == WORDS
        for (_, attrs), number, share in zip(marks.words[method], numbers, scaled(numbers), strict=True):
            style = dict(part.split(":") for part in str(attrs["style"]).split(";"))
            assert style == {"background": background(share), "color": ink(background(share))}
            assert attrs["title"] == f"{number:+.4g}"
            assert attrs["class"] == ("against" if number < 0 else "for"), "the sign is told without colour too"


def test_colours_by_hand():
    """The largest magnitude is 2: not is full orange, entertaining half way to purple, a word of 0 white-ish."""
    shares = scaled(NUMBERS)
    assert shares[[2, 5, 0]].tolist() == [1.0, -0.5, 0.0] and np.isnan(shares[-1])
    colormap = mpl.colormaps[DIVERGING]
    assert [background(s) for s in (1.0, -0.5, 0.0)] == [to_hex(colormap(x)) for x in (1.0, 0.25, 0.5)]
    orange, purple = (np.array(to_rgb(background(s))) for s in (1.0, -1.0))
    assert orange[0] > orange[2] + 0.2 and purple[2] > purple[0] + 0.1
    assert background(float("nan")) == MISSING_COLOR
    assert scaled(np.array([np.inf, 1.0, -2.0]))[1:].tolist() == [0.5, -1.0], "one infinity does not bleach the rest"


def test_every_colour_can_be_read_on():
    backs = [background(s) for s in np.linspace(-1, 1, 101)] + [MISSING_COLOR]
    assert min(contrast(back, ink(back)) for back in backs) >= 4.5


def test_words_are_escaped_and_nothing_is_loaded_from_elsewhere():
    page = words_html(["<script>alert(1)</script>", 'a"b', "&"], {"<i>m</i>": [1, 2, 3]}, "<b>Review</b>")
    assert "<script" not in page and "<i>" not in page and "<b>" not in page
    assert not re.search(r"https?:|src=|url\(|@import", page)
    marks = Marks(page)
    assert "".join(word for word, _ in marks.words.popitem()[1]).startswith("<script>alert(1)</script>")


@pytest.mark.parametrize(
    "words", [[], [""], ["  "], ["\n"], ["x" * 3000], ["$a$", "\\frac{", "日本", "\u202e", "a\x00b"]]
)
def test_odd_texts_are_drawn(words):
    numbers = {"m": np.linspace(-1, 1, len(words))}
    Marks(words_html(words, numbers, "odd $ heading"))
    assert pixels_of(words_picture(words, numbers, "odd", "odd $ heading")).shape[1] == WIDTH * 150


def test_an_empty_text_says_so():
    assert "(no words)" in words_html([], {"m": []}, "Nothing")
    (axes,) = words_picture([], {"m": []}, "nothing", "Nothing").figure.axes
    assert "m (no words)" in [text.get_text() for text in axes.texts]


def test_the_figure_has_every_word_on_its_colour_within_the_page():
    picture = words_picture(WORDS, BOTH, "review", "Review 1")
    (axes,) = picture.figure.axes
    assert [t.get_text() for t in axes.texts] == ["Review 1", "C-Shapley", *WORDS, "KernelSHAP", *WORDS]
    boxes = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    wanted = [background(s) for numbers in BOTH.values() for s in scaled(numbers)]
    assert [to_hex(box.get_facecolor()) for box in boxes] == wanted
    assert len(axes.lines) == 2, "two words speak against the class and are underlined"
    assert max(box.get_x() + box.get_width() for box in boxes) <= WIDTH
    assert (picture.name, picture.title) == ("review", "Review 1")
    assert "Strongest by C-Shapley: not (+2)." in picture.alt
    assert picture.png() == words_picture(WORDS, BOTH, "review", "Review 1").png()


def test_no_two_words_overlap():
    words = [f"word{i}" * (1 + i % 7) for i in range(120)]
    (axes,) = words_picture(words, {"m": np.ones(120)}, "m", "m").figure.axes
    boxes = sorted((round(b.get_y(), 4), b.get_x(), b.get_width()) for b in axes.patches)
    lines = {y for y, _, _ in boxes}
    assert len(lines) > 5
    for (y, x, width), (below, follower, _) in pairwise(boxes):
        assert below > y or follower >= x + width


def test_lines_break_where_they_are_full():
    gap = wrapped([0.0, 1.0], 9.0)[1][1]
    assert [line for line, _ in wrapped([1, 1, 1], 3 + 2 * gap)] == [0, 0, 0]
    assert [line for line, _ in wrapped([1, 1, 1], 2.9)] == [0, 0, 1]
    assert wrapped([5, 1], 3) == [(0, 0.0), (1, 0.0)], "a word wider than the line has one for itself"


def test_a_long_text_is_cut_in_the_figure_alone_and_the_caption_says_so():
    words = ["word"] * (SHOWN_WORDS + 5)
    numbers = {"m": np.arange(len(words), dtype=float)}
    picture = words_picture(words, numbers, "long", "long")
    assert len(picture.figure.axes[0].patches) == SHOWN_WORDS
    assert f"The first {SHOWN_WORDS} of {SHOWN_WORDS + 5} words." in picture.caption
    assert len(Marks(words_html(words, numbers, "long")).words["m"]) == len(words)


@pytest.mark.parametrize("draw", [words_html, lambda w, a, h: words_picture(w, a, "name", h)])
def test_attributions_that_do_not_fit_are_refused(draw):
    with pytest.raises(ValueError, match=r"LIME has attributions of shape \(2,\), and there are 3 words"):
        draw(["a", "b", "c"], {"fits": [1, 2, 3], "LIME": [1, 2]}, "h")
    with pytest.raises(ValueError, match="no method to draw"):
        draw(["a"], {}, "h")


# --- images -------------------------------------------------------------------------------------------------------

GRAY = np.linspace(0, 1, 12).reshape(3, 4)
COLOR = np.stack([GRAY, GRAY[::-1], 1 - GRAY], axis=2)
RANKED = np.array([0.0, 5, 1, 0, 0, 4, 0, 0, -9, 0, 3, np.nan])


def shown(picture: Picture) -> list[list[np.ndarray]]:
    """Return the drawn images of each panel, row by row."""
    return [[np.asarray(image.get_array()) for image in axes.images] for axes in picture.figure.axes]


def test_top_pixels_are_those_of_the_largest_attribution():
    assert np.flatnonzero(top_pixels(RANKED, 0.25)).tolist() == [1, 5, 10]
    assert np.flatnonzero(top_pixels(RANKED, 0)).tolist() == []
    assert np.flatnonzero(top_pixels(RANKED, 1)).tolist() == list(range(11)), "all but the one without a number"
    assert np.flatnonzero(top_pixels(np.zeros(4), 0.5)).tolist() == [0, 1]


@pytest.mark.parametrize(("image", "reference"), [(GRAY, 0.5), (COLOR, 0.5), (COLOR, [0.1, 0.2, 0.3])])
def test_a_pixel_is_masked_in_all_channels_and_the_rest_is_left(image, reference):
    picture = image_picture(image, {"one": RANKED, "two": -RANKED}, "p", "Image 1", reference, share=0.25)
    untouched, one, two, empty, over_one, over_two = shown(picture)
    assert np.array_equal(untouched[0], image) and empty == []
    chosen = np.isin(np.arange(12), [1, 5, 10]).reshape(3, 4)
    assert np.allclose(one[0][chosen], reference) and np.array_equal(one[0][~chosen], image[~chosen])
    assert two[0].shape == image.shape and np.allclose(two[0][2, 0], reference)
    for (_, laid), numbers in ((over_one, RANKED), (over_two, -RANKED)):
        assert np.allclose(laid.ravel(), np.nan_to_num(numbers / 9))
    assert "25% of the pixels" in picture.caption and "one, two" in picture.alt
    assert picture.png() == image_picture(image, {"one": RANKED, "two": -RANKED}, "p", "Image 1", reference, 0.25).png()


def test_masking_does_not_change_the_image_that_was_passed_in():
    before = COLOR.copy()
    masked(COLOR, np.ones((3, 4), bool), 0.0)
    assert np.array_equal(COLOR, before)


def test_the_strongest_pixel_hides_the_image_and_one_of_zero_shows_it():
    laid = image_picture(GRAY, {"m": RANKED}, "p", "Image 1", 0.5).figure.axes[3].images[1]
    alpha = np.asarray(laid.get_alpha()).ravel()
    assert alpha[8] == 1 and alpha[0] == alpha[11] == 0 and laid.get_clim() == (-1, 1)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            {"image": np.zeros((2, 2, 4))},
            r"image has shape \(2, 2, 4\); give \(rows, columns\) or \(rows, columns, 3\)",
        ),
        ({"image": np.zeros((0, 4))}, r"image has shape \(0, 4\)"),
        ({"image": GRAY * 255}, r"numbers from 0 to 255; scale them to 0..1"),
        ({"image": GRAY * np.nan}, r"numbers from nan to nan"),
        ({"attributions": {"m": RANKED[:-1]}}, r"m has attributions of shape \(11,\), and there are 12 pixels"),
        (
            {"attributions": {"m": RANKED.reshape(3, 4)}},
            r"m has attributions of shape \(3, 4\), and there are 12 pixels",
        ),
        ({"attributions": {}}, "no method to draw"),
        ({"share": 20}, r"share is 20; give a number from 0 to 1"),
        ({"reference": [0.1, 0.2, 0.3]}, r"reference is \[0.1, 0.2, 0.3\]; give a number"),
    ],
)
def test_images_that_cannot_be_drawn_are_refused(changed, said):
    given: dict[str, Any] = {"image": GRAY, "attributions": {"m": RANKED}, "reference": 0.5, "share": 0.2, **changed}
    with pytest.raises(ValueError, match=said):
        image_picture(name="p", heading="h", **given)

"""Words coloured by attribution, in the style of the L/C-Shapley paper's Table 2: as a page and as a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import matplotlib as mpl
import numpy as np
from jinja2 import Environment, StrictUndefined
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.ft2font import FT2Font
from matplotlib.patches import Rectangle

from tasks.report.picture import DIVERGING, DPI, NORMAL, Picture, new_figure

SHOWN_WORDS = 400
LONGEST_WORD = 40
MISSING_COLOR = "#dddddd"
WIDTH, MARGIN, LINE, GAP = 7.5, 0.15, 0.215, 0.065  # inches
HOW_TO_READ = (
    "Orange speaks for the explained class, purple (underlined) against it; each method by its largest magnitude."
)

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ heading }}</title>
<style>
:root { color-scheme: light; }
body { font: 16px/1.75 system-ui, -apple-system, "Segoe UI", sans-serif; color: #1a1a1a; background: #fff;
  max-width: 60rem; margin: 2rem auto; padding: 0 1.25rem; print-color-adjust: exact; -webkit-print-color-adjust: exact; }
h1 { font-size: 1.3rem; } h2 { font-size: 1rem; margin: 1.4rem 0 .3rem; } p { margin: 0; overflow-wrap: anywhere; }
.read { color: #555; font-size: .88rem; }
mark { padding: .08em .18em; border-radius: .2em; unicode-bidi: isolate; } .against { text-decoration: underline; }
</style>
</head>
<body>
<h1>{{ heading }}</h1>
<p class="read">{{ read }}</p>
{%- for method, words in rows %}
<h2>{{ method }}</h2>
<p>{% for word in words %}<mark class="{{ word.side }}" style="background:{{ word.back }};color:{{ word.ink }}" title="{{ word.told }}">{{ word.text }}</mark> {% else %}(no words){% endfor %}</p>
{%- endfor %}
</body>
</html>
"""  # noqa: E501


def words_html(words: Sequence[str], attributions: Mapping[str, Any], heading: str) -> str:
    """Return a page with the text once a method, every word on its colour and with its number; all text is escaped.

    Args:
        words: the n players of one sample.
        attributions: (n,) numbers a method, by its name; a NaN is drawn grey.
        heading: the page's title.

    Raises:
        ValueError: there is no method, or one has another number of attributions than there are words.
    """
    rows = []
    for method, numbers in checked(attributions, len(words), "words").items():
        shares = scaled(numbers)
        rows.append((method, [marked(*word) for word in zip(words, numbers, shares, strict=True)]))
    environment = Environment(autoescape=True, undefined=StrictUndefined)
    return environment.from_string(PAGE).render(heading=heading, read=HOW_TO_READ, rows=rows)


def marked(word: str, number: float, share: float) -> dict[str, str]:
    """Return a word as the page shows it: text, colours, the side it is on, and what is told about it."""
    back = background(share)
    side = "against" if share < 0 else "for"
    return {"text": word, "back": back, "ink": ink(back), "side": side, "told": f"{number:+.4g}"}


def words_picture(words: Sequence[str], attributions: Mapping[str, Any], name: str, heading: str) -> Picture:
    """Return the figure of the same: at most the first 400 words, once a method.

    Args:
        words: the n players of one sample.
        attributions: (n,) numbers a method, by its name; a NaN is drawn grey.
        name: file name without its ending.
        heading: the figure's title.

    Raises:
        ValueError: there is no method, or one has another number of attributions than there are words.
    """
    columns = checked(attributions, len(words), "words")
    texts = [printable(word) for word in words[:SHOWN_WORDS]]
    widths = text_widths(texts)
    places = wrapped(widths, WIDTH - 2 * MARGIN)
    lines = places[-1][0] + 1 if places else 1
    axes = sheet(WIDTH, 2 * MARGIN + LINE * (1 + len(columns) * (lines + 1.5)))
    write(axes, 0, 0.0, heading, size=NORMAL + 1, weight="bold")
    for place, (method, numbers) in enumerate(columns.items()):
        top = 1.5 + place * (lines + 1.5)
        write(axes, top, 0.0, method if words else f"{method} (no words)", size=NORMAL, color="#444444")
        shares = scaled(numbers)[:SHOWN_WORDS]
        for text, width, (line, left), share in zip(texts, widths, places, shares, strict=True):
            draw_word(axes, (top + 1 + line, left, width), text, float(share))
    caption = HOW_TO_READ + (f" The first {SHOWN_WORDS} of {len(words)} words." if len(words) > SHOWN_WORDS else "")
    figure = axes.get_figure(root=True)
    assert figure is not None
    return Picture(name, heading, alternative(words, columns), caption, figure)


def alternative(words: Sequence[str], columns: Mapping[str, np.ndarray]) -> str:
    """Return what a reader who cannot see the figure is told: each method's strongest word."""
    said = ["A text with its words coloured by attribution."]
    for method, numbers in columns.items():
        if np.isfinite(numbers).any():
            place = int(np.nanargmax(np.abs(scaled(numbers))))
            said.append(f"Strongest by {method}: {printable(words[place])} ({numbers[place]:+.3g}).")
    return " ".join(said)


def checked(attributions: Mapping[str, Any], count: int, what: str) -> dict[str, np.ndarray]:
    """Return the attributions as float64 (count,) arrays, or say which method's do not fit."""
    if not attributions:
        raise ValueError("there is no method to draw; give at least one")
    columns = {method: np.asarray(numbers, dtype=np.float64) for method, numbers in attributions.items()}
    for method, numbers in columns.items():
        if numbers.shape != (count,):
            raise ValueError(f"{method} has attributions of shape {numbers.shape}, and there are {count} {what}")
    return columns


def scaled(numbers: np.ndarray) -> np.ndarray:
    """Return the numbers divided by their largest finite magnitude: -1 to 1, zeros where all are 0, NaN if not finite.

    >>> scaled(np.array([1.0, -4.0, 0.0])).tolist()
    [0.25, -1.0, 0.0]
    """
    finite = np.where(np.isfinite(numbers), numbers, np.nan)
    reach = np.nanmax(np.abs(finite), initial=0.0)
    return finite / reach if reach > 0 else finite


def background(share: float) -> str:
    """Return the colour of a number between -1 and 1: purple, over white, to orange; grey for NaN."""
    return MISSING_COLOR if np.isnan(share) else to_hex(mpl.colormaps[DIVERGING](0.5 + share / 2))


def ink(back: str) -> str:
    """Return black or white, whichever contrasts more with the background (always at least 4.5 to 1).

    >>> ink("#ffffff"), ink("#053061")
    ('#000000', '#ffffff')
    """
    light = luminance(to_rgb(back))
    return "#000000" if (light + 0.05) / 0.05 >= 1.05 / (light + 0.05) else "#ffffff"


def luminance(colour: Sequence[float]) -> float:
    """Return the relative luminance of an sRGB colour, three channels from 0 to 1, as WCAG 2 defines it."""
    channels = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
    return float(np.dot(channels, (0.2126, 0.7152, 0.0722)))


def printable(word: str) -> str:
    """Return a word as one line that a figure can hold, long ones with an ellipsis, marks its font lacks as a box.

    >>> printable("a\\nb"), printable("日本"), len(printable("x" * 100))
    ('a b', '□□', 40)
    """
    line = " ".join("".join(mark if mark.isprintable() else " " for mark in word).split())
    line = "".join(mark if font().get_char_index(ord(mark)) else "□" for mark in line)
    return line if len(line) <= LONGEST_WORD else line[: LONGEST_WORD - 1] + "…"


@cache
def font() -> FT2Font:
    """Return the font that figures are written in."""
    return get_font(findfont(FontProperties()))


def text_widths(texts: Sequence[str]) -> list[float]:
    """Return how wide each text is drawn, in inches."""
    renderer = FigureCanvasAgg(Figure(dpi=DPI)).get_renderer()
    size = FontProperties(size=NORMAL)
    return [renderer.get_text_width_height_descent(text, size, False)[0] / DPI for text in texts]


def wrapped(widths: Sequence[float], across: float) -> list[tuple[int, float]]:
    """Return the line and the left edge (inches) of each text, so that no line is wider than ``across``."""
    places, line, left = [], 0, 0.0
    for width in widths:
        if left > 0 and left + width > across:
            line, left = line + 1, 0.0
        places.append((line, left))
        left += width + GAP
    return places


def sheet(width: float, height: float) -> Axes:
    """Return bare axes over a whole figure, measured in inches from its top left."""
    figure = new_figure(width, height)
    figure.set_layout_engine("none")
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_axis_off()
    axes.set_xlim(0, width)
    axes.set_ylim(height, 0)
    return axes


def write(axes: Axes, line: float, left: float, text: str, **style: Any) -> None:
    """Write ``text`` so many lines and inches from the margin; a dollar sign is a dollar sign."""
    axes.text(MARGIN + left, MARGIN + LINE * (line + 0.75), text, parse_math=False, **style)


def draw_word(axes: Axes, place: tuple[float, float, float], text: str, share: float) -> None:
    """Draw a word on its colour at (line, left, width); one that speaks against the class is underlined."""
    line, left, width = place
    back = background(share)
    corner = (MARGIN + left - GAP / 3, MARGIN + LINE * (line + 0.06))
    axes.add_patch(Rectangle(corner, width + GAP / 1.5, LINE * 0.9, facecolor=back, linewidth=0))
    write(axes, line, left, text, size=NORMAL, color=ink(back))
    if share < 0:
        under = MARGIN + LINE * (line + 0.86)
        axes.plot([MARGIN + left, MARGIN + left + width], [under, under], color=ink(back), linewidth=0.7)

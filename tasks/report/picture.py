"""What all figures share: the frame around one, a palette that colour-blind readers can tell apart, bare axes."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

# Okabe & Ito (2008), without yellow, which white paper swallows.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1)), (0, (6, 1.5, 1, 1.5)))
MARKERS = "osD^vP*X<>hp"
POSITIVE, NEGATIVE, DIVERGING = "#B35806", "#542788", "PuOr_r"  # orange and purple, whatever kind of cones one has
SMALL, NORMAL = 7.0, 8.5
DPI = 150


@dataclass(frozen=True)
class Picture:
    """A figure with its words.

    Attributes:
        name: file name without its ending.
        title: a short heading.
        alt: what a reader who cannot see it is told.
        caption: what it shows and how to read it.
        figure: the drawing.
    """

    name: str
    title: str
    alt: str
    caption: str
    figure: Figure

    def png(self) -> bytes:
        """Return the drawing as PNG; equal drawings give equal bytes."""
        file = io.BytesIO()
        FigureCanvasAgg(self.figure).print_png(file, metadata={"Software": None})
        return file.getvalue()


@dataclass(frozen=True)
class Style:
    """How one method is drawn in every figure: no two methods share all three."""

    color: str
    dashes: Any
    marker: str


def styles(methods: Sequence[str]) -> dict[str, Style]:
    """Return a style a method, by its place in the study."""
    return {
        method: Style(
            PALETTE[place % len(PALETTE)],
            DASHES[place // len(PALETTE) % len(DASHES)],
            MARKERS[place % len(MARKERS)],
        )
        for place, method in enumerate(methods)
    }


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of so many inches that lays itself out."""
    return Figure(figsize=(width, height), dpi=DPI, layout="constrained", facecolor="white")


def bare(axes: Axes, grid: str = "both") -> None:
    """Take away the frame's top and right, shrink the ticks, draw a faint grid behind."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=SMALL + 0.5)
    axes.grid(True, axis=grid, color="#dddddd", linewidth=0.6)  # type: ignore[arg-type]
    axes.set_axisbelow(True)

"""Images with their top pixels masked and attributions laid over them, after the L/C-Shapley paper's Fig. 4 and 5."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize

from tasks.report.coloured import checked, scaled
from tasks.report.picture import DIVERGING, NORMAL, SMALL, Picture, new_figure
from tasks.report.text import number, shorten

PANEL = 1.35  # inches
LUMINANCE = (0.2126, 0.7152, 0.0722)


def image_picture(
    image: Any,
    attributions: Mapping[str, Any],
    name: str,
    heading: str,
    reference: Any,
    share: float = 0.2,
) -> Picture:
    """Return a figure of one image: above, each method's top pixels masked; below, its attribution over the image.

    Args:
        image: (rows, columns) or (rows, columns, 3) numbers from 0 to 1.
        attributions: (rows * columns,) numbers a method, row by row: a pixel is one player for all channels.
        name: file name without its ending.
        heading: the figure's title.
        reference: what a masked pixel becomes: a number, or (3,) numbers, from 0 to 1.
        share: the part of all pixels that is masked, those of the largest attribution first.

    Raises:
        ValueError: the image has another shape or other numbers, a method or the reference does not fit it, or the
            share is not in 0..1.
    """
    pixels = checked_image(image, "image")
    rows, columns = pixels.shape[:2]
    numbers = checked(attributions, rows * columns, "pixels")
    if not 0 <= share <= 1:
        raise ValueError(f"share is {share}; give a number from 0 to 1")
    if np.shape(reference) not in ((), pixels.shape[2:]):
        raise ValueError(f"reference is {reference!r}; give a number, or one for each channel of an image of three")
    figure = new_figure(0.2 + PANEL * (1 + len(numbers)), 0.75 + 2 * PANEL * rows / columns)
    grid = figure.subplots(2, 1 + len(numbers), squeeze=False)
    draw(grid[0, 0], pixels, "image")
    grid[1, 0].set_axis_off()
    for place, (method, values) in enumerate(numbers.items(), start=1):
        top = top_pixels(values, share).reshape(rows, columns)
        draw(grid[0, place], masked(pixels, top, reference), shorten(method, 22))
        draw(grid[1, place], 0.35 + 0.65 * grey(pixels), "")
        lay_over(grid[1, place], scaled(values).reshape(rows, columns))
    figure.suptitle(shorten(heading, 100), fontsize=NORMAL + 1, x=0.01, ha="left")
    part = f"{number(100 * share, 1).removesuffix('.0')}% of the pixels"
    caption = (
        f"Above: the image, and the same with the {part} of the largest attribution masked. Below: orange speaks "
        "for the explained class, purple against it; each method by its largest magnitude."
    )
    alt = f"An image of {rows} by {columns} pixels, masked and overlaid by {', '.join(numbers)}."
    return Picture(name, heading, alt, caption, figure)


def checked_image(image: Any, what: str) -> np.ndarray:
    """Return the image as (rows, columns) or (rows, columns, 3) float64 from 0 to 1, or say what is wrong with it."""
    pixels = np.asarray(image, dtype=np.float64)
    if pixels.ndim not in (2, 3) or 0 in pixels.shape or (pixels.ndim == 3 and pixels.shape[2] != 3):
        raise ValueError(f"{what} has shape {pixels.shape}; give (rows, columns) or (rows, columns, 3)")
    if not (np.isfinite(pixels).all() and pixels.min() >= 0 and pixels.max() <= 1):
        raise ValueError(f"{what} has numbers from {pixels.min():.3g} to {pixels.max():.3g}; scale them to 0..1")
    return pixels


def top_pixels(values: np.ndarray, share: float) -> np.ndarray:
    """Return (n,) boolean: the ``share`` of all with the largest values, the first of equals first, NaN never.

    >>> top_pixels(np.array([0.1, 3.0, np.nan, 2.0]), 0.5).tolist()
    [False, True, False, True]
    """
    ranked = np.argsort(-values, kind="stable")  # NaN comes last
    chosen = np.zeros(len(values), dtype=bool)
    chosen[ranked[: round(share * len(values))]] = True
    return chosen & ~np.isnan(values)


def masked(pixels: np.ndarray, chosen: np.ndarray, reference: Any) -> np.ndarray:
    """Return the image with the chosen (rows, columns) pixels at the reference."""
    return np.where(chosen[..., None] if pixels.ndim == 3 else chosen, np.asarray(reference, dtype=np.float64), pixels)


def grey(pixels: np.ndarray) -> np.ndarray:
    """Return the (rows, columns) luminance."""
    return pixels @ np.array(LUMINANCE) if pixels.ndim == 3 else pixels


def draw(axes: Axes, pixels: np.ndarray, title: str) -> None:
    """Draw an image without ticks, black at 0 and white at 1."""
    axes.imshow(pixels, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    axes.set_title(title, fontsize=SMALL + 0.5)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_color("#999999")


def lay_over(axes: Axes, shares: np.ndarray) -> None:
    """Lay attributions from -1 to 1 over an image: the stronger, the less of the image is seen; NaN hides nothing."""
    seen = np.nan_to_num(shares)
    axes.imshow(seen, cmap=DIVERGING, norm=Normalize(-1, 1), alpha=np.abs(seen), interpolation="nearest")

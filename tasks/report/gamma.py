"""The gamma matrix of a single sample as a heat map."""

from __future__ import annotations

import numpy as np
from matplotlib.colors import Normalize
from matplotlib.ticker import MaxNLocator

from tasks.report.attribution import ROW, headline, name_events, strongest
from tasks.report.picture import DIVERGING, NORMAL, SMALL, Picture, new_figure
from tasks.report.results import SampleView
from tasks.report.text import shorten


def gamma_picture(sample: SampleView, method: str, name: str) -> Picture:
    """Return one method's gamma of one sample as a heat map, events down, slots across; NaN is grey."""
    view = sample.attributions[method]
    assert view.matrix is not None
    events = strongest(view)
    slots = len(sample.names)
    figure = new_figure(min(9.5, 4.0 + 0.13 * slots), 1.2 + ROW * len(events))
    axes = figure.subplots()
    axes.set_facecolor("#bbbbbb")
    magnitudes = np.abs(view.matrix[np.isfinite(view.matrix)])
    reach = float(np.quantile(magnitudes, 0.99)) if magnitudes.size else 0.0
    norm = Normalize(-(reach or 1.0), reach or 1.0)
    image = axes.imshow(
        view.matrix[events],
        cmap=DIVERGING,
        norm=norm,
        aspect="auto",
        interpolation="nearest",
        extent=(0.5, slots + 0.5, len(events) - 0.5, -0.5),
    )
    axes.plot(events + 1, np.arange(len(events)), ".", color="black", markersize=3)
    name_events(axes, sample, events)
    axes.set_xlabel("Slot", fontsize=NORMAL)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.tick_params(labelsize=SMALL)
    axes.spines[:].set_visible(False)
    bar = figure.colorbar(image, ax=axes, shrink=min(1.0, 12 / max(12, len(events))), aspect=15, extend="both")
    bar.ax.tick_params(labelsize=SMALL)
    figure.suptitle(f"{shorten(method, 40)}: gamma", fontsize=NORMAL + 1, x=0.01, ha="left")
    alt = (
        f"Heat map of gamma by {method}: what each of {len(events)} {sample.player}s adds in each of {slots} slots; "
        f"{headline(sample)}."
    )
    said = (
        f"Gamma (Eq. 8) by {method}: what one {sample.player} adds to the explained output when it sits in each slot, "
        "averaged over coalitions and arrangements of the others. Dots: where it really was. Colours are cut at the "
        "99th percentile."
    )
    if not np.isfinite(view.matrix).all():
        said += " Grey: no draw."
    return Picture(name, f"Sample {sample.sample[:8]}: gamma", alt, said, figure)

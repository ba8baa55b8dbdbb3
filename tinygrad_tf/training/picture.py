"""The loss curve as a picture."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tinygrad_tf.utils.files import write_atomically

MOST_POINTS = 200  # of the smooth line
FEW_POINTS = 20


def draw_loss(path: Path, records: Sequence[Mapping[str, Any]], title: str) -> None:
    """Write a PNG: the loss of each step, its running mean, and the validation loss; no display is needed."""
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # notes about fonts and cache folders
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    steps = np.array([record["step"] for record in records], float)
    losses = np.array([record["loss"] for record in records], float)
    measured = [(r["step"], r["validation_loss"]) for r in records if r.get("validation_loss") is not None]
    figure = Figure(figsize=(8, 4.5), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.plot(steps, losses, color="tab:blue", alpha=0.25, linewidth=0.8, label="each step")
    marker = "o" if len(steps) < FEW_POINTS else None  # a line of one point is not seen
    axes.plot(
        *block_means(steps, losses),
        color="tab:blue",
        linewidth=1.6,
        marker=marker,
        markersize=4,
        label="training, mean",
    )
    if measured:
        axes.plot(*zip(*measured, strict=True), "o-", color="tab:orange", markersize=4, label="validation")
        step, loss = measured[-1]
        axes.annotate(f"{loss:.3f}", (step, loss), (0, 6), textcoords="offset points", ha="right", color="tab:orange")
    axes.set(title=title, xlabel="step", ylabel="loss (nats per character)")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.grid(alpha=0.3)
    axes.margins(x=0.02)
    if len(records):
        axes.legend(loc="upper right")  # losses fall; to look for the best place takes long in a long run
    picture = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # letters of a folder's name that the font lacks are drawn as boxes
        figure.savefig(picture, format="png", metadata={"Comment": "format 1"})
    write_atomically(path, picture.getvalue())


def block_means(
    steps: NDArray[np.float64], losses: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Both, averaged over at most MOST_POINTS blocks of neighbouring steps."""
    blocks = max(1, min(MOST_POINTS, len(steps) // 10))
    parts = [np.array_split(values, blocks) for values in (steps, losses)]
    means = [np.array([part.mean() for part in values if part.size]) for values in parts]
    return means[0], means[1]

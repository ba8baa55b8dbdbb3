"""Settings of whole runs by name, for `tinygrad-tf train --preset NAME`; what is given beside the name counts more."""

from __future__ import annotations

from typing import Any

from tinygrad_tf._arguments import check_choice
from tinygrad_tf.utils.errors import InputError

# As nanoGPT's script lets its products have fewer bits; the losses of whole runs agree to four digits.
FEWER_BITS = {"matmul_precision": "high"}
PRESETS: dict[str, dict[str, Any]] = {
    # Otherwise TrainConfig's defaults: nanoGPT's README, "I only have a macbook"
    "small": FEWER_BITS,
    # Much further in the same time: a layer less, larger batches, which run better, and six times the learning rate.
    "quick": {
        "layers": 3, "batch": 24, "learning_rate": 6e-3, "min_learning_rate": 1e-4, "steps": 1400, **FEWER_BITS
    },
    # nanoGPT's config/train_shakespeare_char.py
    "baby": {
        "layers": 6, "heads": 6, "channels": 384, "context": 256, "batch": 64, "dropout": 0.2, "steps": 5000,
        **FEWER_BITS,
    },
}  # fmt: skip


def preset(name: str) -> dict[str, Any]:
    """The settings of TrainConfig that `name` stands for; an unknown name is an InputError that lists the known ones.

    >>> preset("quick")["learning_rate"]
    0.006
    """
    check_choice("--preset", name, PRESETS, InputError)
    return dict(PRESETS[name])

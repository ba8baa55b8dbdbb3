"""Settings of whole runs by name, for `tinygrad-tf train --preset NAME`; what is given beside the name counts more."""

from __future__ import annotations

from typing import Any

from tinygrad_tf.utils.errors import InputError

PRESETS: dict[str, dict[str, Any]] = {
    "small": {},  # TrainConfig's defaults: nanoGPT's README, "I only have a macbook"
    # Much further in the same time: a layer less, larger batches, which run better, and six times the learning rate.
    "quick": {"layers": 3, "batch": 24, "learning_rate": 6e-3, "min_learning_rate": 1e-4, "steps": 1400},
    # nanoGPT's config/train_shakespeare_char.py
    "baby": {"layers": 6, "heads": 6, "channels": 384, "context": 256, "batch": 64, "dropout": 0.2, "steps": 5000},
}


def preset(name: str) -> dict[str, Any]:
    """The settings of TrainConfig that `name` stands for; an unknown name is an InputError that lists the known ones.

    >>> preset("quick")["learning_rate"]
    0.006
    """
    if name not in PRESETS:
        raise InputError(f"--preset must be one of {', '.join(PRESETS)}; got {name!r}")
    return dict(PRESETS[name])

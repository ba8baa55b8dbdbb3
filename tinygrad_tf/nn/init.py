"""Filling parameters in place, with PyTorch's names and rules."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinygrad_tf import random
from tinygrad_tf.engine import clock
from tinygrad_tf.tensor import Tensor


def _put(tensor: Tensor, values: Any) -> Tensor:
    tensor.array[...] = values
    tensor.storage.changed = next(clock)
    return tensor


def _generator(generator: Any) -> random.Generator:
    return random.default_generator if generator is None else generator


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    return _put(tensor, _generator(generator).uniform(tensor.array.shape, a, b, dtype=tensor.dtype))


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    return _put(tensor, _generator(generator).normal(tensor.array.shape, mean, std, dtype=tensor.dtype))


def constant_(tensor: Tensor, val: float) -> Tensor:
    return _put(tensor, val)


def zeros_(tensor: Tensor) -> Tensor:
    return _put(tensor, 0)


def ones_(tensor: Tensor) -> Tensor:
    return _put(tensor, 1)


def _fans(tensor: Tensor) -> tuple[int, int]:
    """Inputs and outputs of one unit; further axes (a receptive field) count as many inputs."""
    shape = tensor.array.shape
    if len(shape) < 2:
        raise ValueError(f"fan in and fan out need at least 2 dimensions, got shape {shape}")
    field = int(np.prod(shape[2:], dtype=np.int64))
    return shape[1] * field, shape[0] * field


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    gains = {"linear": 1.0, "sigmoid": 1.0, "tanh": 5.0 / 3.0, "relu": math.sqrt(2.0), "selu": 0.75}
    if nonlinearity == "leaky_relu":
        return math.sqrt(2.0 / (1.0 + (0.01 if param is None else param) ** 2))
    if nonlinearity not in gains:
        raise ValueError(f"nonlinearity must be one of {sorted([*gains, 'leaky_relu'])}, got {nonlinearity!r}")
    return gains[nonlinearity]


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Uniform within gain sqrt(6 / (fan in + fan out)) (Glorot and Bengio, 2010)."""
    bound = gain * math.sqrt(6.0 / sum(_fans(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(_fans(tensor))), generator)


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"mode must be 'fan_in' or 'fan_out', got {mode!r}")
    return calculate_gain(nonlinearity, a) / math.sqrt(_fans(tensor)[mode == "fan_out"])


def kaiming_uniform_(
    tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None
) -> Tensor:
    """Uniform within sqrt(3) gain / sqrt(fan) (He et al., 2015)."""
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None
) -> Tensor:
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)

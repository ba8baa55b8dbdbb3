"""Filling parameters in place, with PyTorch's names and rules."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from tinygrad_tf import random
from tinygrad_tf._layout import laid_out_like
from tinygrad_tf.ops._types import fitting
from tinygrad_tf.tensor import Tensor


def _put(tensor: Tensor, values: Any) -> Tensor:
    tensor.array[...] = values
    tensor.storage.written()
    return tensor


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Uniform in [a, b)."""
    draw = random.or_default(generator).uniform
    return _put(tensor, laid_out_like(tensor.array, lambda shape: draw(shape, a, b, dtype=tensor.dtype)))


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Normal with that mean and standard deviation."""
    return _put(tensor, random.normal_like(tensor.array, random.or_default(generator), mean, std))


def constant_(tensor: Tensor, val: float) -> Tensor:
    """One number everywhere."""
    return _put(tensor, fitting("constant_", val, tensor.array.dtype))


def zeros_(tensor: Tensor) -> Tensor:
    """Zeros."""
    return _put(tensor, 0)


def ones_(tensor: Tensor) -> Tensor:
    """Ones."""
    return _put(tensor, 1)


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """Inputs and outputs of one unit; further axes (a receptive field) count as many inputs."""
    shape = tensor.array.shape
    if len(shape) < 2:
        raise ValueError(f"fan in and fan out need at least 2 dimensions, got shape {shape}")
    field = int(np.prod(shape[2:], dtype=np.int64))
    return shape[1] * field, shape[0] * field


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor by which a nonlinearity makes activations smaller, to be made up for by the weights."""
    gains = {"linear": 1.0, "sigmoid": 1.0, "tanh": 5.0 / 3.0, "relu": math.sqrt(2.0), "selu": 0.75}
    if nonlinearity == "leaky_relu":
        return math.sqrt(2.0 / (1.0 + (0.01 if param is None else param) ** 2))
    if nonlinearity not in gains:
        raise ValueError(f"nonlinearity must be one of {sorted([*gains, 'leaky_relu'])}, got {nonlinearity!r}")
    return gains[nonlinearity]


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"mode must be 'fan_in' or 'fan_out', got {mode!r}")
    return _calculate_fan_in_and_fan_out(tensor)[mode == "fan_out"]


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Uniform within gain sqrt(6 / (fan in + fan out)) (Glorot and Bengio, 2010)."""
    bound = gain * math.sqrt(6.0 / sum(_calculate_fan_in_and_fan_out(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Normal with standard deviation gain sqrt(2 / (fan in + fan out)) (Glorot and Bengio, 2010)."""
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(_calculate_fan_in_and_fan_out(tensor))), generator)


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    if not tensor.array.size:
        warnings.warn("a tensor without elements is not initialised: there is nothing to draw", stacklevel=3)
        return 0.0
    return calculate_gain(nonlinearity, a) / math.sqrt(_calculate_correct_fan(tensor, mode))


def kaiming_uniform_(
    tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None
) -> Tensor:
    """Uniform within sqrt(3) gain / sqrt(fan) (He et al., 2015)."""
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None
) -> Tensor:
    """Normal with standard deviation gain / sqrt(fan) (He et al., 2015)."""
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def trunc_normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, generator: Any = None
) -> Tensor:
    """Normal, and drawn again where outside of [a, b]; if that is nearly everywhere, by the inverse distribution."""
    from statistics import NormalDist  # here, as importing it takes longer than this module

    normal, shape = NormalDist(mean, std), tensor.array.shape
    low, high = normal.cdf(a), normal.cdf(b)
    generator = random.or_default(generator)
    if high - low <= 0.3:
        shares = generator.uniform(shape, low, high, dtype=np.float64)
        values = np.array([normal.inv_cdf(min(max(u, 1e-300), 1.0 - 1e-16)) for u in shares.reshape(-1)]).reshape(shape)
        return _put(tensor, np.clip(values, a, b))
    dtype = tensor.array.dtype
    values = generator.normal(shape, mean, std, dtype=dtype)
    while (outside := (values < dtype.type(a)) | (values > dtype.type(b))).any():
        values = np.where(outside, generator.normal(shape, mean, std, dtype=dtype), values)
    return _put(tensor, values)


def orthogonal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Orthogonal rows or columns (whichever are fewer), times gain (Saxe et al., 2014); later axes count as columns."""
    if tensor.ndim < 2:
        raise ValueError(f"orthogonal_: needs at least 2 dimensions, got shape {tensor.array.shape}")
    rows, columns = tensor.array.shape[0], tensor.array.size // max(tensor.array.shape[0], 1)
    flat = random.or_default(generator).normal((rows, columns), dtype=tensor.array.dtype)
    q, r = np.linalg.qr(flat.T if rows < columns else flat)
    q = q * np.sign(np.diag(r))  # makes the decomposition unique
    return _put(tensor, ((q.T if rows < columns else q) * gain).reshape(tensor.array.shape))


def eye_(tensor: Tensor) -> Tensor:
    """1 on the diagonal of a matrix, 0 elsewhere."""
    if tensor.ndim != 2:
        raise ValueError(f"eye_: needs 2 dimensions, got shape {tensor.array.shape}")
    return _put(tensor, np.eye(*tensor.array.shape))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Convolution weights (out, in, *kernel) that hand each channel on as it is (Zagoruyko and Komodakis, 2017): 1 in
    the kernel's middle, from input i to output i of each group.

    >>> from tinygrad_tf import zeros
    >>> dirac_(zeros(2, 1, 3), groups=2)
    tensor([[[0., 1., 0.]],
    <BLANKLINE>
            [[0., 1., 0.]]])
    """
    shape = tensor.array.shape
    if len(shape) not in (3, 4, 5):
        raise ValueError(f"dirac_: needs weights (out, in, *kernel) of 3 to 5 dimensions, got shape {shape}")
    if groups < 1 or shape[0] % groups:
        raise ValueError(f"dirac_: groups must divide the {shape[0]} outputs, got {groups}")
    values = np.zeros(shape)
    middle = tuple(size // 2 for size in shape[2:])
    for output in range(shape[0]):
        channel = output % (shape[0] // groups)
        if channel < shape[1]:
            values[(output, channel, *middle)] = 1
    return _put(tensor, values)

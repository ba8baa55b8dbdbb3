"""gelu, forward and backward, in both forms.

    'none'   y = x Phi(x)                                       dx = g (Phi(x) + x phi(x))
    'tanh'   y = x sigmoid(2 u)                                 dx = g (s + x s (1 - s) 2 u')
             u = sqrt(2 / pi) (x + 0.044715 x^3)                with s = sigmoid(2 u)

with Phi and phi the normal distribution's cumulative probability and density (Hendrycks and Gimpel, Gaussian Error
Linear Units, 2016). x (any shape and strides), y and dx C-contiguous.

bfloat16 is read and written as it is (`_half.py`), and worked out in float32. All time is arithmetic until x leaves the
cache. Nanoseconds an element, float32, in cache, one core with AVX-512:

    math.erf                                                       8.0
    exp(-x^2 / 2) times a polynomial in 1 / (1 + c |x|)            0.73
    the same with the widest registers                             0.49     (so in float64, and backward)
    one polynomial for the logarithm of Phi(-|x|), and one exp     0.36     ('none', float32; PyTorch 0.52)
    sigmoid                                                        0.35     ('tanh'; PyTorch 1.75)

Phi(-|x|) is made, never 1 + erf, which cancels for negative x: at -5.5 the plain float32 formula has no right digit,
the kernel two. Its error is below the formula's all over. gelu(inf) = inf in both forms; gelu(-inf) = 0 in 'none',
where PyTorch gives NaN, and NaN in 'tanh'. To write dx over g is no faster, unlike in kernels that work by rows.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinygrad_tf.kernels import _math
from tinygrad_tf.kernels._compile import parallel
from tinygrad_tf.kernels._half import bits, get, put
from tinygrad_tf.kernels._math import normal_tail, sigmoid, sigmoids
from tinygrad_tf.kernels._rows import blocks, elsewhere, has_kernels, require_shape
from tinygrad_tf.kernels._scalar import widest_vectors

SCALE, CUBIC = math.sqrt(8 / math.pi), 0.044715
DENSITY = 1 / math.sqrt(2 * math.pi)
BORDER = 40.0


def gelu(x: np.ndarray, approximate: str = "none") -> np.ndarray:
    """x times the probability that a normally distributed number is below x, or its approximation by tanh.

    >>> gelu(np.array([-1.0, 0.0, 1.0]))
    array([-0.15865525,  0.        ,  0.84134475])
    """
    check_form(approximate)
    if not has_kernels(x.dtype):
        return elsewhere(gelu, gelu_reference, x.dtype, x, approximate)
    y = np.empty(x.shape, x.dtype)
    count, step = blocks(x.size, 1)
    run = gelu_exact if approximate == "none" else gelu_tanh
    run(count, step, bits(np.ascontiguousarray(x).reshape(-1)), bits(y.reshape(-1)))
    return y


def gelu_reference(x: np.ndarray, approximate: str = "none") -> np.ndarray:
    return x * gelu_gate_reference(x, approximate)


def check_form(approximate: str) -> None:
    if approximate not in ("none", "tanh"):
        raise ValueError(f"approximate must be 'none' or 'tanh', got {approximate!r}")


def gelu_gate_reference(x: np.ndarray, approximate: str) -> np.ndarray:
    if approximate == "none":
        return (1 + elementwise_erf(x * math.sqrt(0.5))) / 2
    return (1 + np.tanh(SCALE / 2 * (x + CUBIC * x**3))) / 2


def elementwise_erf(x: np.ndarray) -> np.ndarray:
    return np.asarray(np.vectorize(math.erf, otypes=[np.float64])(x), x.dtype)


@parallel
def gelu_exact(block: int, step: int, x: Any, y: Any) -> None:
    widest_vectors()
    source, target = x[block * step : block * step + step], y[block * step : block * step + step]
    for i in range(source.size):
        put(target, i, _math.gelu(get(source, i)))


@parallel
def gelu_tanh(block: int, step: int, x: Any, y: Any) -> None:
    widest_vectors()
    source, target = x[block * step : block * step + step], y[block * step : block * step + step]
    for i in range(source.size):
        z = get(source, i)
        number = type(z)
        inner = z * (number(SCALE) + number(SCALE * CUBIC) * z * z)
        put(target, i, z * sigmoid(inner))


def gelu_backward(g: np.ndarray, x: np.ndarray, approximate: str = "none") -> np.ndarray:
    """The gradient for x from the one for gelu(x)."""
    check_form(approximate)
    if not has_kernels(x.dtype) or g.dtype != x.dtype:
        return elsewhere(gelu_backward, gelu_backward_reference, np.result_type(g, x), g, x, approximate)
    require_shape("g", g, x.shape)
    dx = np.empty(x.shape, x.dtype)
    count, step = blocks(x.size, 1)
    run = gelu_exact_backward if approximate == "none" else gelu_tanh_backward
    upper, source = (bits(np.ascontiguousarray(a).reshape(-1)) for a in (g, x))
    run(count, step, upper, source, bits(dx.reshape(-1)))
    return dx


def gelu_backward_reference(g: np.ndarray, x: np.ndarray, approximate: str = "none") -> np.ndarray:
    gate = gelu_gate_reference(x, approximate)
    if approximate == "none":
        return g * (gate + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi))
    return g * (gate + x * gate * (1 - gate) * SCALE * (1 + 3 * CUBIC * x * x))


@parallel
def gelu_exact_backward(block: int, step: int, g: Any, x: Any, dx: Any) -> None:
    widest_vectors()
    start, stop = block * step, block * step + step
    upper, source, target = g[start:stop], x[start:stop], dx[start:stop]
    for i in range(source.size):
        z = get(source, i)
        number = type(z)
        tail, decay = normal_tail(z)
        cumulative = tail if z < number(0) else number(1) - tail
        put(target, i, get(upper, i) * (cumulative + z * (number(DENSITY) * decay)))


@parallel
def gelu_tanh_backward(block: int, step: int, g: Any, x: Any, dx: Any) -> None:
    widest_vectors()
    start, stop = block * step, block * step + step
    upper, source, target = g[start:stop], x[start:stop], dx[start:stop]
    for i in range(source.size):
        z = get(source, i)
        number = type(z)
        # Beyond the border the gate is 0 or 1; its slope, 0, must not meet an infinite square.
        border = number(BORDER)
        z = border if z > border else (-border if z < -border else z)
        square = z * z
        gate, rest = sigmoids(z * (number(SCALE) + number(SCALE * CUBIC) * square))
        slope = number(SCALE) + number(3 * SCALE * CUBIC) * square
        put(target, i, get(upper, i) * (gate + z * gate * rest * slope))

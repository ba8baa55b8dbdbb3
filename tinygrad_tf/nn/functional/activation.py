"""Activation functions, and softmax with its relatives."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np

from tinygrad_tf import ops, random
from tinygrad_tf.engine import make
from tinygrad_tf.ops import inplace as in_place
from tinygrad_tf.ops._types import as_factor, check_floats, fitting
from tinygrad_tf.ops.elementwise import abs_, bent, clamp, expm1, sign, where
from tinygrad_tf.regions import wide
from tinygrad_tf.tensor import Tensor

Activation = TypeVar("Activation", bound=Callable[..., Tensor])


def of_floats(function: Activation) -> Activation:
    """The function, which refuses integers as PyTorch does."""
    name = function.__name__

    @functools.wraps(function)
    def checked(input: Tensor, *settings: Any, **named: Any) -> Tensor:
        if isinstance(input, Tensor) and input.array.dtype.kind in "biu":
            check_floats(name, input)
        return function(input, *settings, **named)

    return cast(Activation, checked)


def _apply(name: str, inplace: bool, function: Callable[..., Any], input: Tensor) -> Tensor:
    """function(input), written into input's own memory if `inplace`."""
    return in_place.write(f"{name}_", input, function) if inplace else function(input)


def _setting(name: str, what: str, value: float, input: Tensor) -> float:
    """A number to compute with beside floating point input, which 16-bit floats widen for."""
    number: float = as_factor(name, what, value, wide(input.array.dtype))
    return number


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0)."""
    return _apply("relu", inplace, ops.elementwise.relu, input)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """min(max(x, 0), 6)."""
    return hardtanh(input, 0.0, 6.0, inplace)


def _two_slopes(x: Tensor, below: float | Tensor) -> Tensor:
    """x where it is positive, `below` times x elsewhere."""
    positive, x = x > 0, bent(x)
    return where(positive, x, x * below)


@of_floats
def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x where it is positive, negative_slope x elsewhere."""
    negative_slope = _setting("leaky_relu", "negative_slope", negative_slope, input)
    return _apply("leaky_relu", inplace, lambda x: _two_slopes(x, negative_slope), input)


@of_floats
def rrelu(
    input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, inplace: bool = False
) -> Tensor:
    """leaky_relu with slopes between lower and upper: a random one for each element in training, else their middle.

    Xu et al. (2015), "Empirical Evaluation of Rectified Activations in Convolutional Network".
    """
    if not lower <= upper:
        raise RuntimeError(f"rrelu: lower must be at most upper, got {lower} and {upper}")
    if not training:
        return _apply("rrelu", inplace, lambda x: _two_slopes(x, (lower + upper) / 2), input)
    x = input.array
    slopes, bent_down = np.ones(x.shape, x.dtype), x <= 0
    slopes[bent_down] = random.default_generator.uniform(int(bent_down.sum()), lower, upper, np.float64)
    return _apply("rrelu", inplace, lambda x: x * make(slopes), input)


@of_floats
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """leaky_relu with a learned slope: one for all, or one for each channel (axis 1)."""
    channels = input.array.shape[1] if input.ndim > 1 else 1
    if weight.ndim > 1 or weight.array.size not in (1, channels):
        wanted, got = f"1 or {channels} slopes" if channels > 1 else "1 slope", tuple(weight.shape)
        raise RuntimeError(f"prelu: weight must have {wanted} for input of shape {input.array.shape}, got shape {got}")
    if weight.array.size > 1 and input.ndim > 1:
        weight = weight.reshape(-1, *(1,) * (input.ndim - 2))
    elif input.ndim == 0:
        weight = weight.reshape(())
    return _two_slopes(input, weight)


@of_floats
def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """x Phi(x) (Hendrycks and Gimpel, 2016), exact or with tanh as in GPT-2."""
    return ops.activation.gelu(input, approximate)


@of_floats
def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x sigmoid(x), also called swish."""
    return _apply("silu", inplace, ops.activation.silu, input)


@of_floats
def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x tanh(softplus(x)) (Misra, 2019)."""
    return _apply("mish", inplace, lambda x: x * ops.elementwise.tanh(ops.activation.softplus(x)), input)


def _exponential_part(x: Tensor, alpha: float, scale: float = 1.0) -> Tensor:
    """x where it is positive, alpha (exp(x / scale) - 1) elsewhere, with the slope of the latter at 0.

    Computed in at least float32, which holds what alpha and scale may be.
    """
    negative = x <= 0
    below = where(negative, x, 0.0).to(wide(x.array.dtype))
    return where(negative, (expm1(below / scale) * alpha).to(x.dtype), x)


@of_floats
def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x where it is positive, alpha (exp(x) - 1) elsewhere (Clevert et al., 2016)."""
    alpha = _setting("elu", "alpha", alpha, input)
    return _apply("elu", inplace, lambda x: _exponential_part(x, alpha), input)


@of_floats
def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x where it is positive, alpha (exp(x / alpha) - 1) elsewhere (Barron, 2017)."""
    alpha = _setting("celu", "alpha", alpha, input)
    return _apply("celu", inplace, lambda x: _exponential_part(x, alpha, alpha), input)


@of_floats
def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """scale elu(x, alpha), with the constants that keep mean 0 and variance 1 (Klambauer et al., 2017)."""
    alpha, scale = 1.6732632423543772, 1.0507009873554805
    return _apply("selu", inplace, lambda x: elu(x, alpha) * scale, input)


def tanh(input: Tensor) -> Tensor:
    return ops.elementwise.tanh(input)


def tanhshrink(input: Tensor) -> Tensor:
    """x - tanh(x)."""
    return input - tanh(input)


def _between(x: Tensor, low: float, high: float) -> Tensor:
    """x cut to [low, high]; unlike clamp's, the gradient at the bounds is 0."""
    return where((x > low) & (x < high), bent(x), clamp(x.detach(), low=low, high=high))


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """x cut to [min_val, max_val]; integers stay integers, between the whole parts of the limits."""
    if min_val > max_val:
        raise ValueError(f"hardtanh: min_val must not be above max_val, got {min_val} and {max_val}")
    if not input.is_floating_point():
        min_val, max_val = int(min_val), int(max_val)
    return _apply("hardtanh", inplace, lambda x: _between(x, min_val, max_val), input)


def sigmoid(input: Tensor) -> Tensor:
    return ops.elementwise.sigmoid(input)


@of_floats
def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """relu6(x + 3) / 6."""
    return _apply("hardsigmoid", inplace, lambda x: relu6(x + 3.0) / 6.0, input)


@of_floats
def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """x relu6(x + 3) / 6 (Howard et al., 2019)."""
    return _apply("hardswish", inplace, lambda x: x * relu6(x + 3.0) / 6.0, input)


@of_floats
def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + exp(beta x)) / beta, and x itself where beta x is above the threshold."""
    scaled = input * _setting("softplus", "beta", beta, input)
    return where(scaled > threshold, input, ops.activation.softplus(scaled) / beta)


@of_floats
def logsigmoid(input: Tensor) -> Tensor:
    return ops.activation.logsigmoid(input)


def softsign(input: Tensor) -> Tensor:
    """x / (1 + |x|)."""
    return input / (abs_(input) + 1.0)


@of_floats
def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """x moved by lambd towards 0, and 0 within lambd of it."""
    if not lambd >= 0:
        raise RuntimeError(f"softshrink: lambd must not be negative, got {lambd}")
    return where(abs_(input) <= lambd, 0.0, bent(input) - sign(input) * lambd)


@of_floats
def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """x, and 0 within lambd of 0."""
    return where(abs_(input) <= lambd, 0.0, bent(input))


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """x where it is above the threshold, `value` elsewhere; of integers its whole part."""
    if not input.is_floating_point():
        value = int(value)
    value = fitting("threshold: value", value, input.array.dtype)
    return _apply("threshold", inplace, lambda x: where(x <= threshold, value, bent(x)), input)


@of_floats
def glu(input: Tensor, dim: int = -1) -> Tensor:
    """The first half along `dim` times the sigmoid of the second (Dauphin et al., 2017)."""
    if input.ndim == 0 or input.size(dim) % 2:
        raise RuntimeError(f"glu: the size along dim {dim} must be even, got a tensor of shape {tuple(input.shape)}")
    half = input.size(dim) // 2
    return input.narrow(dim, 0, half) * sigmoid(input.narrow(dim, half, half))


# --- softmax and its relatives ----------------------------------------------------------------------------------------


def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    return ops.softmax.softmax(input, _given("softmax", input, dim), dtype)


def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    return ops.softmax.log_softmax(input, _given("log_softmax", input, dim), dtype)


def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """softmax(-x)."""
    return softmax(-input, dim, dtype=dtype)


def _given(name: str, x: Tensor, dim: int | None) -> int:
    """The dim; where old code names none, PyTorch's choice, which is seldom the one that was meant."""
    if dim is not None:
        return dim
    implied = 0 if x.ndim in (0, 1, 3) else 1
    warnings.warn(f"{name}: say over which dimension, as in {name}(x, dim=-1); taken is dim={implied}", stacklevel=3)
    return implied


def gumbel_softmax(logits: Tensor, tau: float = 1.0, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """A differentiable random choice: softmax((logits + Gumbel noise) / tau) (Jang et al., 2017).

    hard=True gives one-hot vectors, with the gradient of the soft ones.
    """
    noise = random.default_generator.exponential(logits.array.shape, dtype=logits.dtype)
    soft = softmax((logits - ops.elementwise.log(make(noise))) / tau, dim)
    if not hard:
        return soft
    chosen = soft.array == soft.array.max(axis=dim, keepdims=True)
    return make(chosen.astype(soft.dtype)) - soft.detach() + soft


def _in_place(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The function with inplace=True, under its name with a _ behind it."""

    def write(input: Tensor, *settings: Any, **named: Any) -> Tensor:
        return function(input, *settings, inplace=True, **named)

    write.__name__ = write.__qualname__ = f"{function.__name__}_"
    write.__doc__ = f"`{function.__name__}`, written into the input's memory."
    return write


relu_, leaky_relu_, elu_, celu_ = _in_place(relu), _in_place(leaky_relu), _in_place(elu), _in_place(celu)
rrelu_ = _in_place(rrelu)
selu_, hardtanh_, threshold_ = _in_place(selu), _in_place(hardtanh), _in_place(threshold)

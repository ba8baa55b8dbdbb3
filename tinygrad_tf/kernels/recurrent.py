"""One layer of an LSTM, a GRU or an RNN in one direction, over all steps of time, forward and backward.

    LSTM   i, f, o = sigmoid, g = tanh of W x + U h + b     c' = f c + i g          h' = o tanh(c')
    GRU    r, z = sigmoid of W x + U h + b                  n = tanh(W x + b + r (U h + d))
                                                            h' = (1 - z) n + z h
    RNN    h' = tanh or ReLU of W x + U h + b

Shapes: R rows, which are the steps of N sequences (`_recurrent_steps.py` says how they lie), I channels of x, H units,
G gates (4, 3, 1), S states (2, 1, 1: h and, of the LSTM, c).

W x is one product for all steps, and so are the gradients of x and of all weights; U h is made step by step, inside of
the kernel: one call for a layer, forward or back, whatever its length. What the formulas make of 17 operations a step
costs some 100 microseconds a step in Python.
"""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any, NamedTuple

import numpy as np

from tinygrad_tf.kernels import matmul
from tinygrad_tf.kernels._recurrent_steps import GRU, LSTM, RNN_RELU, RNN_TANH, run_backward, run_forward
from tinygrad_tf.kernels._rows import NATIVE
from tinygrad_tf.kernels._vector import HEIGHT, VECTOR_BYTES
from tinygrad_tf.kernels.cast import cast

Array = np.ndarray
KINDS = {"RNN_TANH": RNN_TANH, "RNN_RELU": RNN_RELU, "LSTM": LSTM, "GRU": GRU}
FEW = HEIGHT  # rows that meet the weight as it lies
MANY_STEPS = 8  # from here on few rows are worth turning the weight over, for the way back
# Blocks of a step, and the multiply-adds from which on there are so many: the second one pays from 7 microseconds on;
# but rows cut into short pieces cost time (8 blocks for 32 x 256 units: 11 ms for 50 steps on two threads, 2: 8 ms).
BLOCKS = {2: VECTOR_BYTES << 13, 4: VECTOR_BYTES << 18, 8: VECTOR_BYTES << 20}


class Kept(NamedTuple):
    """What the backward pass wants to see again: see `_recurrent_steps.py`."""

    gates: Array
    hidden: Array
    before: Array


def recurrent(
    kind: str,
    x: Array,
    start: tuple[Array, ...],
    weight_ih: Array,
    weight_hh: Array,
    bias_ih: Array | None,
    bias_hh: Array | None,
    starts: Array,
    backwards: bool = False,
) -> tuple[Array, Kept]:
    """(out, kept): out (R + S N, H) is h behind each step, then the last h of each sequence, and of an LSTM the last c.

    x (R, I); start: S arrays (N, H); weight_ih (G H, I), weight_hh (G H, H), biases (G H,); starts (T + 1,), int64: the
    first row of each step and their end. Steps hold the same sequences, the first ones where they are fewer: their
    sizes never increase. backwards: from the last step to the first.

    >>> ones = np.ones((1, 1))
    >>> recurrent("RNN_RELU", np.ones((3, 1)), (ones,), ones, ones, None, None, np.arange(4))[0].ravel()
    array([2., 3., 4., 4.])
    """
    dtype = x.dtype
    if dtype not in NATIVE:  # 16 bits
        x, weight_ih, weight_hh = (cast(a, np.float32) for a in (x, weight_ih, weight_hh))
        bias_ih, bias_hh = (None if b is None else cast(b, np.float32) for b in (bias_ih, bias_hh))
        wide = tuple(cast(s, np.float32) for s in start)
        out, kept = recurrent(kind, x, wide, weight_ih, weight_hh, bias_ih, bias_hh, starts, backwards)
        return cast(out, dtype), kept
    (N, H), S, R = start[0].shape, len(start), len(x)
    bias, of_new = _biases(kind, H, bias_ih, bias_hh, dtype)
    gates = matmul.linear(x, weight_ih, bias).reshape(R, len(weight_hh) // H, H)
    before, out = np.empty((S, R, H), dtype), np.empty((R + S * N, H), dtype)
    hidden = np.empty((R if kind == "GRU" else 0, H), dtype)
    first = np.empty((S, N, H), dtype)
    for state, given in zip(first, start, strict=True):
        state[...] = given
    blocks, each, size = plan(N, H, gates.shape[1], dtype.itemsize)
    weight = _plain(weight_hh).reshape(-1)
    where = KINDS[kind], starts, backwards, gates, hidden, of_new, before
    run_forward(*where, weight, first, out, blocks, each, size)
    return out, Kept(gates, hidden, before)


def recurrent_backward(
    kind: str,
    g: Array,
    x: Array,
    kept: Kept,
    weight_ih: Array,
    weight_hh: Array,
    starts: Array,
    backwards: bool,
    needs: tuple[bool, bool, bool, bool, bool],
) -> tuple[Any, ...]:
    """(dx, dstart, dweight_ih, dweight_hh, dbias_ih, dbias_hh) from g, the gradient of `out`; dstart is (S, N, H).

    needs: whether x, the weights and the biases want one; None for those that do not. Arrays of 16 bits give float32.
    """
    need_x, *need = needs
    x, weight_ih, weight_hh, g = (a if a.dtype in NATIVE else cast(a, np.float32) for a in (x, weight_ih, weight_hh, g))
    gates, hidden, before = kept
    R, G, H = gates.shape
    S, N, dtype = len(before), int(starts[1]), gates.dtype  # the first step has all sequences
    dgates, dstart = np.empty(gates.shape, dtype), np.zeros((S, N, H), dtype)
    dhidden = np.empty(gates.shape, dtype) if kind == "GRU" else dgates
    blocks, each, size = plan(N, H, G, dtype.itemsize)
    where = KINDS[kind], starts, backwards, gates, hidden, before, _plain(weight_hh).reshape(-1)
    turned = N <= FEW and len(starts) > MANY_STEPS
    size = G * H * H if turned else size
    run_backward(*where, _plain(g), dgates, dhidden, dstart, blocks, each, size, turned)
    of_x, of_h = dgates.reshape(R, G * H), dhidden.reshape(R, G * H)
    dx, dweight_ih, dbias_ih = matmul.linear_backward(of_x, x, weight_ih, need_x, need[0], need[2] or need[3])
    own_bias = need[3] and kind == "GRU"
    _, dweight_hh, dbias_hh = matmul.linear_backward(of_h, before[0], weight_hh, False, need[1], own_bias)
    if need[3] and not own_bias:
        dbias_hh = dbias_ih.copy() if need[2] and dbias_ih is not None else dbias_ih
    return dx, dstart, dweight_ih, dweight_hh, dbias_ih if need[2] else None, dbias_hh


@functools.lru_cache(256)
def plan(N: int, H: int, G: int, itemsize: int) -> tuple[int, int, int]:
    """(blocks, units in one, room for a packed weight): by size alone, so that results are, too."""
    width = 2 * VECTOR_BYTES // itemsize
    panels = math.ceil(H / width)
    work = N * G * H * H * itemsize // 4
    wanted = min(panels, max([1, *[count for count, least in BLOCKS.items() if work >= least]]))
    each = math.ceil(panels / wanted) * width
    return math.ceil(H / each), each, 0 if N <= FEW else panels * width * G * H + 16


@functools.lru_cache(256)
def even_starts(T: int, N: int) -> Array:
    """The starts of T steps of N sequences each."""
    return starts_of((N,) * T)


@functools.lru_cache(256)
def starts_of(sizes: tuple[int, ...]) -> Array:
    """The starts of steps of these sizes."""
    return np.cumsum((0, *sizes), dtype=np.int64)


def _plain(a: Array) -> Array:
    """C-contiguous, and writable, for which the kernels are compiled."""
    return a if a.flags.carray else np.array(a, order="C")


def _biases(kind: str, H: int, bias_ih: Array | None, bias_hh: Array | None, dtype: Any) -> tuple[Array | None, Array]:
    """What is added to W x, and what the GRU's new gate adds to U h by itself."""
    if kind != "GRU":
        bias = bias_ih if bias_hh is None else bias_hh if bias_ih is None else bias_ih + bias_hh
        return bias, np.empty(0, dtype)
    if bias_hh is None:
        return bias_ih, np.zeros(H, dtype)
    bias = np.zeros(3 * H, dtype) if bias_ih is None else bias_ih.copy()
    bias[: 2 * H] += bias_hh[: 2 * H]
    return bias, bias_hh[2 * H :].copy()


def recurrent_reference(
    kind: str,
    x: Array,
    start: tuple[Array, ...],
    weight_ih: Array,
    weight_hh: Array,
    bias_ih: Array | None,
    bias_hh: Array | None,
    starts: Array,
    backwards: bool = False,
) -> Array:
    """The plain formula of what `recurrent` puts out."""
    last = [s.copy() for s in start]
    h_of_all = np.empty((len(x), weight_hh.shape[1]), x.dtype)
    from_x = matmul.linear_reference(x, weight_ih, bias_ih)
    steps = list(itertools.pairwise(starts))
    for begin, end in reversed(steps) if backwards else steps:
        now = [s[: end - begin] for s in last]
        from_h = matmul.linear_reference(now[0], weight_hh, bias_hh)
        for state, new in zip(now, step_reference(kind, from_x[begin:end], from_h, now), strict=True):
            state[...] = new
        h_of_all[begin:end] = now[0]
    return np.concatenate([h_of_all, *last])


def step_reference(kind: str, x: Array, h: Array, state: list[Array]) -> tuple[Array, ...]:
    def sigmoid(a: Array) -> Array:
        return 1 / (1 + np.exp(-a))

    if kind == "LSTM":
        i, f, g, o = np.split(x + h, 4, -1)
        c = sigmoid(f) * state[1] + sigmoid(i) * np.tanh(g)
        return sigmoid(o) * np.tanh(c), c
    if kind == "GRU":
        (xr, xz, xn), (hr, hz, hn) = np.split(x, 3, -1), np.split(h, 3, -1)
        z, n = sigmoid(xz + hz), np.tanh(xn + sigmoid(xr + hr) * hn)
        return ((1 - z) * n + z * state[0],)
    return (np.tanh(x + h) if kind == "RNN_TANH" else np.maximum(x + h, 0),)

"""Recurrent layers: one layer in one direction, over all steps of time, as one operation.

Shapes: T steps of N sequences, I channels of x, H units, G gates. A batch is (T, N, I), or packed: the rows of its
first step, of its second, and so on, where a step has a row for each sequence that is that long, the longest first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tinygrad_tf import kernels
from tinygrad_tf.engine import fused, primitive
from tinygrad_tf.ops._at_index import scatter_rule
from tinygrad_tf.ops._cut import chunk, split, unbind
from tinygrad_tf.ops._precision import composed
from tinygrad_tf.ops._precision import state as precision
from tinygrad_tf.ops._types import category
from tinygrad_tf.ops.elementwise import relu, sigmoid, tanh
from tinygrad_tf.ops.linear import linear
from tinygrad_tf.ops.shape import cat, stack, unsqueeze

State = tuple[Any, ...]  # (h,), and of the LSTM (h, c)
Weights = tuple[Any, Any, Any, Any]  # weight_ih (G H, I), weight_hh (G H, H), bias_ih (G H,), bias_hh; biases or None

# --- one step: the next state from W x + b, U h + d (both (N, G H)) and the state before ------------------------------


def lstm_step(x: Any, h: Any, state: State) -> State:
    """c' = f c + i g and h' = o tanh(c'), with gates in PyTorch's order: input, forget, cell, output."""
    i, f, g, o = chunk(x + h, 4, -1)
    c = sigmoid(f) * state[1] + sigmoid(i) * tanh(g)
    return sigmoid(o) * tanh(c), c


def gru_step(x: Any, h: Any, state: State) -> State:
    """h' = (1 - z) n + z h, with gates in PyTorch's order: reset, update, new. The reset gate acts on U h + d."""
    (xr, xz, xn), (hr, hz, hn) = chunk(x, 3, -1), chunk(h, 3, -1)
    z = sigmoid(xz + hz)
    n = tanh(xn + sigmoid(xr + hr) * hn)
    return (n + z * (state[0] - n),)


STEPS: dict[str, Callable[[Any, Any, State], State]] = {
    "LSTM": lstm_step,
    "GRU": gru_step,
    "RNN_TANH": lambda x, h, state: (tanh(x + h),),
    "RNN_RELU": lambda x, h, state: (relu(x + h),),
}

# --- all steps --------------------------------------------------------------------------------------------------------


def step_by_step(
    kind: str,
    x: Any,
    start: State,
    weights: Weights,
    sizes: Sequence[int] | None = None,
    backwards: bool = False,
    projection: Any = None,
) -> tuple[Any, State]:
    """What `recurrent` gives, by the plain formulas.

    Forwards, the states of sequences that are over are put aside; backwards, sequences join with their start.
    """
    weight_ih, weight_hh, bias_ih, bias_hh = weights
    from_x = linear(x, weight_ih, bias_ih)
    steps = unbind(from_x, 0) if sizes is None else split(from_x, sizes)
    state = start if sizes is None or not backwards else tuple([s[: sizes[-1]] for s in start])
    outs: list[Any] = []
    over: list[State] = []
    for step in reversed(steps) if backwards else steps:
        rows, before = step.array.shape[0], state[0].array.shape[0]
        if rows < before:
            over.append(tuple([s[rows:] for s in state]))
            state = tuple([s[:rows] for s in state])
        elif rows > before:
            state = tuple([cat([s, first[before:rows]]) for s, first in zip(state, start, strict=True)])
        state = STEPS[kind](step, linear(state[0], weight_hh, bias_hh), state)
        if projection is not None:
            state = (linear(state[0], projection), *state[1:])
        outs.append(state[0])
    if over:
        state = tuple([cat(parts) for parts in zip(state, *reversed(over), strict=True)])
    return (stack if sizes is None else cat)(outs[::-1] if backwards else outs), state


@composed
def recurrent_reference(
    x: Any, h: Any, c: Any, weight_ih: Any, weight_hh: Any, bias_ih: Any, bias_hh: Any, *, kind: str, sizes: Any,
    backwards: bool,
) -> Any:  # fmt: skip
    """The outputs of all steps, and behind them the last states."""
    start = (h,) if c is None else (h, c)
    out, last = step_by_step(kind, x, start, (weight_ih, weight_hh, bias_ih, bias_hh), sizes, backwards)
    return cat([out, *(last if sizes is not None else [unsqueeze(s, 0) for s in last])])


def _starts(x: np.ndarray, sizes: Sequence[int] | None) -> np.ndarray:
    """The first row of each step, and the end of the last."""
    if sizes is None:
        return kernels.recurrent.even_starts(*x.shape[:2])
    return kernels.recurrent.starts_of(tuple(sizes))


def _rows(x: np.ndarray) -> np.ndarray:
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


def _recurrent_backward(
    g: np.ndarray,
    wanted: list[bool],
    kept: Any,
    x: np.ndarray,
    weight_ih: np.ndarray,
    weight_hh: np.ndarray,
    kind: str,
    sizes: Sequence[int] | None,
    backwards: bool,
) -> list[Any]:
    """Back through time: with D_t the gradient of what goes into the gates of step t, dx_t = W^T D_t, what goes to
    h before the step is U^T D_t, dW = sum of D_t x_t^T, dU = sum of D_t h^T and db = sum of D_t, over all steps.
    """
    needs = wanted[0], *wanted[3:]
    g, starts = _rows(g), _starts(x, sizes)
    found = kernels.recurrent.recurrent_backward(
        kind, g, _rows(x), kept, weight_ih, weight_hh, starts, backwards, needs
    )
    dx, dstart, *of_weights = found
    return [None if dx is None else dx.reshape(x.shape), dstart[0], dstart[1] if len(dstart) > 1 else None, *of_weights]


@fused(reference=recurrent_reference, backward=_recurrent_backward)
def recurrent_(
    x: np.ndarray,
    h: np.ndarray,
    c: Any,
    weight_ih: np.ndarray,
    weight_hh: np.ndarray,
    bias_ih: Any,
    bias_hh: Any,
    *,
    kind: str,
    sizes: Sequence[int] | None,
    backwards: bool,
) -> tuple[np.ndarray, Any]:
    start, starts = (h,) if c is None else (h, c), _starts(x, sizes)
    weights = weight_ih, weight_hh, bias_ih, bias_hh
    out, kept = kernels.recurrent.recurrent(kind, _rows(x), start, *weights, starts, backwards)
    return (out if sizes is not None else out.reshape(len(x) + len(start), *h.shape)), kept


@primitive(whole=scatter_rule)
def own_part(whole: np.ndarray, *, index: Any) -> np.ndarray:
    """whole[index] as a tensor of its own, no view: nobody else knows `whole`, and its parts do not overlap.

    A small part is copied, so that a last state that is kept does not keep the outputs of all steps.
    """
    part = whole[index]
    return part if 2 * part.size > whole.size else part.copy()


part_of = own_part.twin("stack")  # as PyTorch calls the last step that leads to outputs and states


def recurrent(
    kind: str,
    x: Any,
    start: State,
    weights: Weights,
    sizes: Sequence[int] | None = None,
    backwards: bool = False,
    projection: Any = None,
) -> tuple[Any, State]:
    """One layer in one direction: the outputs h of all steps, (T, N, H) or packed, and the last state, (N, H) each.

    kind: LSTM, GRU, RNN_TANH or RNN_RELU. x (T, N, I), or packed, with the sizes of its steps. start: (N, H) each.
    backwards: from the last step to the first. projection (P, H): h is that times what the LSTM's formula gives.

    Under autocast each product is rounded to 16 bits and the states are not, as in PyTorch: that is done step by step.
    """
    tensors = [t for t in (x, *start, *weights) if t is not None]
    dtype = tensors[0].array.dtype
    alike = category(dtype) == 2 and dtype.itemsize <= 8 and all(t.array.dtype == dtype for t in tensors)
    if projection is not None or precision.dtype is not None or not alike:
        return step_by_step(kind, x, start, weights, sizes, backwards, projection)
    h, c = start if len(start) > 1 else (start[0], None)
    whole = recurrent_(x, h, c, *weights, kind=kind, sizes=sizes, backwards=backwards)
    if sizes is None:
        T = x.array.shape[0]
        parts: list[Any] = [slice(T), *range(T, T + len(start))]
    else:
        R, N = x.array.shape[0], h.array.shape[0]
        parts = [slice(R), *[slice(R + i * N, R + i * N + N) for i in range(len(start))]]
    out, *last = [part_of(whole, index=(part, ...)) for part in parts]
    return out, tuple(last)


def recurrent_step(kind: str, x: Any, start: State, weights: Weights) -> State:
    """One step, from the states before it to those behind it: what a cell does.

    That of an RNN is three operations of its formula; to go back through them takes less than through a layer's kernel.
    """
    if kind in ("LSTM", "GRU"):
        return recurrent(kind, x, start, weights, sizes=(x.array.shape[0],))[1]
    weight_ih, weight_hh, bias_ih, bias_hh = weights
    return STEPS[kind](linear(x, weight_ih, bias_ih), linear(start[0], weight_hh, bias_hh), start)

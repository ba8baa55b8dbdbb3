"""One step of an RNN, an LSTM or a GRU, and the cells that do just that, for decoders that feed on their own output.

    RNN    h' = tanh(W x + b + U h + c)                                        Elman, 1990
    LSTM   c' = f c + i g, h' = o tanh(c')                                     Hochreiter and Schmidhuber, 1997
    GRU    h' = (1 - z) n + z h, n = tanh(W x + b + r (U h + c))               Cho et al., 2014

Shapes: N batch, I input_size, H hidden_size.
"""

from __future__ import annotations

import math
from typing import Any

from tinygrad_tf._arguments import check_choice, check_size
from tinygrad_tf.creation import empty, zeros
from tinygrad_tf.nn import init
from tinygrad_tf.nn.module import Module
from tinygrad_tf.nn.parameter import Parameter
from tinygrad_tf.ops.recurrent import State, recurrent_step
from tinygrad_tf.tensor import Tensor

ACTIVATIONS = ("tanh", "relu")


class Step(Module):
    """What layers and cells share: which formula it is (`ops/recurrent.py`), the first weights, and states."""

    gates = 1
    states = 1
    hidden_size: int

    @property
    def kind(self) -> str:
        """The formula's name in `ops.recurrent`."""
        raise NotImplementedError

    def reset_parameters(self) -> None:
        bound = 1.0 / math.sqrt(self.hidden_size)
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def _as_state(self, hx: Any) -> State:
        """What was given as a state, h or (h, c), as a tuple."""
        given = tuple(hx) if isinstance(hx, (tuple, list)) else (hx,)
        if len(given) != self.states or not all(isinstance(s, Tensor) for s in given):
            wanted = "a tensor" if self.states == 1 else "(h, c)"
            got = ", ".join(type(s).__name__ for s in given)
            raise RuntimeError(f"{type(self).__name__}: the state must be {wanted}, got {got or 'nothing'}")
        return given


class RNNStep(Step):
    nonlinearity: str

    @property
    def kind(self) -> str:
        return f"RNN_{self.nonlinearity.upper()}"


class LSTMStep(Step):
    """Gates in PyTorch's order: input, forget, cell, output."""

    gates = 4
    states = 2
    kind = "LSTM"


class GRUStep(Step):
    """Gates in PyTorch's order: reset, update, new. The reset gate acts on U h + c, as in cuDNN."""

    gates = 3
    kind = "GRU"


# --- cells ------------------------------------------------------------------------------------------------------------


class _Cell(Step):
    """One step of one layer, with PyTorch's weight_ih, weight_hh, bias_ih and bias_hh."""

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None):
        super().__init__()
        self.input_size = check_size(f"{self._get_name()}: input_size", input_size)
        self.hidden_size = check_size(f"{self._get_name()}: hidden_size", hidden_size)
        rows = self.gates * hidden_size
        self.weight_ih = Parameter(empty(rows, input_size, device=device, dtype=dtype))
        self.weight_hh = Parameter(empty(rows, hidden_size, device=device, dtype=dtype))
        self.bias_ih = Parameter(empty(rows, dtype=dtype)) if bias else None
        self.bias_hh = Parameter(empty(rows, dtype=dtype)) if bias else None
        self.reset_parameters()

    def forward(self, input: Tensor, hx: Any = None) -> Any:
        """input (N, I) or (I,) and the state before, h (N, H) or (h, c), to the state behind."""
        if input.ndim not in (1, 2) or input.shape[-1] != self.input_size:
            raise RuntimeError(
                f"{self._get_name()}: input must be (N, I) or (I,) with I = {self.input_size}, got {tuple(input.shape)}"
            )
        shape = (*input.shape[:-1], self.hidden_size)
        if hx is None:
            hx = (zeros(*shape, dtype=input.dtype),) * self.states
        state = self._as_state(hx)
        if any(tuple(s.shape) != shape for s in state):
            shapes = ", ".join(str(tuple(s.shape)) for s in state)
            raise RuntimeError(f"{self._get_name()}: the state must be of shape {shape}, got {shapes}")
        weights = self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh
        if input.ndim == 2:
            state = recurrent_step(self.kind, input, state, weights)
        else:
            rows = tuple([s.unsqueeze(0) for s in state])
            state = recurrent_step(self.kind, input.unsqueeze(0), rows, weights)
            state = tuple([s.squeeze(0) for s in state])
        return state[0] if self.states == 1 else state

    def extra_repr(self) -> str:
        bias = "" if self.bias_ih is not None else ", bias=False"
        return f"{self.input_size}, {self.hidden_size}{bias}"


class RNNCell(RNNStep, _Cell):
    """One step of an RNN: input (N, I) and h (N, H) to h (N, H)."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ):
        check_choice("RNN: nonlinearity", nonlinearity, ACTIVATIONS)
        self.nonlinearity = nonlinearity
        super().__init__(input_size, hidden_size, bias, device, dtype)

    def extra_repr(self) -> str:
        kind = "" if self.nonlinearity == "tanh" else f", nonlinearity={self.nonlinearity}"
        return super().extra_repr() + kind


class LSTMCell(LSTMStep, _Cell):
    """One step of an LSTM: input (N, I) and (h, c) to (h, c)."""


class GRUCell(GRUStep, _Cell):
    """One step of a GRU: input (N, I) and h (N, H) to h (N, H).

    >>> from tinygrad_tf import nn, zeros
    >>> tuple(nn.GRUCell(3, 4)(zeros(2, 3)).shape)
    (2, 4)
    """

"""Recurrent layers, which the Transformer replaced: RNN, LSTM and GRU, with PyTorch's names, shapes and results.

What each does in one step stands in cells.py. T steps follow one another, so that neither their work nor their
gradients can be done side by side. Shapes: N batch, T time, I input_size, H hidden_size.
"""

from __future__ import annotations

import numbers
import warnings
from typing import Any

from tinygrad_tf._arguments import check_choice, check_size
from tinygrad_tf.creation import empty, zeros
from tinygrad_tf.functions import cat, stack
from tinygrad_tf.nn import functional as F
from tinygrad_tf.nn.cells import ACTIVATIONS, GRUStep, LSTMStep, RNNStep, Step
from tinygrad_tf.nn.parameter import Parameter
from tinygrad_tf.nn.utils.rnn import PackedSequence
from tinygrad_tf.ops.recurrent import State, recurrent
from tinygrad_tf.tensor import Tensor


def _is_share(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool) and 0.0 <= float(value) <= 1.0


class RNNBase(Step):
    """What the three layers share: parameters, directions, the stack of layers, and the walk through time."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ):
        super().__init__()
        if proj_size and self.states == 1:
            raise ValueError(f"{self._get_name()}: proj_size is for the LSTM alone, got {proj_size}")
        if not isinstance(proj_size, int) or not 0 <= proj_size < max(hidden_size, 1):
            raise ValueError(f"{self._get_name()}: proj_size must be in [0, hidden_size), got {proj_size!r}")
        for name, size in (("input_size", input_size), ("hidden_size", hidden_size), ("num_layers", num_layers)):
            check_size(f"{self._get_name()}: {name}", size)
        for name, flag in (("bias", bias), ("batch_first", batch_first)):  # not a dropout in the place of bias
            if not isinstance(flag, bool):
                raise TypeError(f"{self._get_name()}: {name} must be True or False, got {flag!r}")
        if not _is_share(dropout):
            raise ValueError(f"{self._get_name()}: dropout must be a number in [0, 1], got {dropout!r}")
        if dropout > 0.0 and num_layers == 1:
            warnings.warn(
                f"{self._get_name()}: dropout={dropout} does nothing: it comes between layers, and num_layers is 1",
                stacklevel=2,
            )
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout, self.bidirectional = bias, batch_first, dropout, bidirectional
        self.proj_size = proj_size
        for layer in range(num_layers):
            size = input_size if layer == 0 else self.output_size * self.directions
            for suffix in self._suffixes(layer):
                self._add_parameters(suffix, size, device, dtype)
        self.reset_parameters()

    @property
    def output_size(self) -> int:
        """The size of h: hidden_size, unless it is projected to fewer numbers (proj_size)."""
        return self.proj_size or self.hidden_size

    @property
    def directions(self) -> int:
        return 2 if self.bidirectional else 1

    def _suffixes(self, layer: int) -> list[str]:
        return [f"_l{layer}", f"_l{layer}_reverse"][: self.directions]

    def _add_parameters(self, suffix: str, size: int, device: Any, dtype: Any) -> None:
        rows = self.gates * self.hidden_size
        shapes: dict[str, tuple[int, ...]] = {"weight_ih": (rows, size), "weight_hh": (rows, self.output_size)}
        if self.bias:
            shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
        if self.proj_size:
            shapes |= {"weight_hr": (self.proj_size, self.hidden_size)}
        for name, shape in shapes.items():
            setattr(self, f"{name}{suffix}", Parameter(empty(shape, device=device, dtype=dtype)))

    @property
    def _flat_weights_names(self) -> list[str]:
        """The names of the parameters, as initialisation code written for PyTorch asks for them."""
        return list(self._parameters)

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters, layer by layer (and direction by direction)."""
        suffixes = [suffix for layer in range(self.num_layers) for suffix in self._suffixes(layer)]
        return [[p for n, p in self._parameters.items() if n.endswith(suffix)] for suffix in suffixes]

    def flatten_parameters(self) -> None:
        """PyTorch's rearrangement for graphics processors; there is nothing to rearrange here."""

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        """input (T, N, I), (N, T, I) with batch_first, or (T, I): outputs of all steps, and the last state.

        The state is h (layers x directions, N, H), and (h, c) for the LSTM; it starts at zero unless given as hx.
        A PackedSequence gives a PackedSequence of outputs, and the state behind each sequence's own last step.
        """
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx)
        if not isinstance(input, Tensor):
            wanted = "a tensor or a PackedSequence"
            raise TypeError(f"{self._get_name()}: input must be {wanted}, got {type(input).__name__}")
        if input.ndim not in (2, 3) or input.shape[-1] != self.input_size:
            wanted = f"{'(N, T, I)' if self.batch_first else '(T, N, I)'} or (T, I) with I = {self.input_size}"
            raise RuntimeError(f"{self._get_name()}: input must be {wanted}, got {tuple(input.shape)}")
        batched = input.ndim == 3
        x = input.unsqueeze(1) if not batched else input.transpose(0, 1) if self.batch_first else input
        if not x.shape[0]:
            raise RuntimeError(f"{self._get_name()}: input must have at least one time step, got {tuple(input.shape)}")
        x, state = self._layers(x, self._starts(hx, x.shape[1], x.dtype, batched), None)
        if not batched:
            x, state = x.squeeze(1), [s.squeeze(1) for s in state]
        elif self.batch_first:
            x = x.transpose(0, 1)
        return x, state[0] if self.states == 1 else tuple(state)

    def _forward_packed(self, input: PackedSequence, hx: Any) -> tuple[PackedSequence, Any]:
        x, sizes = input.data, input.batch_sizes.tolist()
        if x.ndim != 2 or x.shape[-1] != self.input_size:
            wanted = f"(steps, I) with I = {self.input_size}"
            raise RuntimeError(f"{self._get_name()}: the packed data must be {wanted}, got {tuple(x.shape)}")
        starts = self._starts(hx, sizes[0], x.dtype, True)
        if input.sorted_indices is not None:
            starts = [tuple(s[input.sorted_indices] for s in state) for state in starts]
        x, state = self._layers(x, starts, sizes)
        if input.unsorted_indices is not None:
            state = [s[:, input.unsorted_indices] for s in state]
        return input._replace(data=x), state[0] if self.states == 1 else tuple(state)

    def _layers(self, x: Tensor, starts: list[State], sizes: list[int] | None) -> tuple[Tensor, list[Tensor]]:
        """All layers: x (T, N, I), or packed with the sizes of its steps, to the outputs and the last states."""
        finals: list[State] = []
        for layer in range(self.num_layers):
            if layer and self.dropout:
                x = F.dropout(x, self.dropout, self.training)
            outs = []
            for suffix in self._suffixes(layer):
                out, final = self._run(x, starts[len(finals)], suffix, sizes)
                outs.append(out)
                finals.append(final)
            x = outs[0] if len(outs) == 1 else cat(outs, -1)
        return x, [stack([f[i] for f in finals]) for i in range(self.states)]

    def _run(self, x: Tensor, start: State, suffix: str, sizes: list[int] | None) -> tuple[Tensor, State]:
        """One layer in one direction: x (T, N, ...) to (T, N, H) and the last state."""
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
        w, u, b, d, projection = [getattr(self, f"{name}{suffix}", None) for name in names]
        return recurrent(self.kind, x, start, (w, u, b, d), sizes, suffix.endswith("_reverse"), projection)

    def _starts(self, hx: Any, batch: int, dtype: Any, batched: bool) -> list[State]:
        """The first state of each layer and direction, (N, H) each, checked."""
        shapes = [(self.num_layers * self.directions, batch, n) for n in (self.output_size, self.hidden_size)]
        if hx is None:
            nothing = tuple([zeros(*shape[1:], dtype=dtype) for shape in shapes[: self.states]])
            return [nothing] * shapes[0][0]
        given = self._as_state(hx)
        given = given if batched else tuple(s.unsqueeze(1) for s in given)
        for s, shape in zip(given, shapes, strict=False):
            if tuple(s.shape) != shape:
                raise RuntimeError(
                    f"{self._get_name()}: the first state must be (layers x directions, N, H) = {shape}, "
                    f"got {tuple(s.shape)}"
                )
        return list(zip(*[s.unbind(0) for s in given], strict=True))

    def extra_repr(self) -> str:
        usual = {"proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False, "dropout": 0.0}
        usual["bidirectional"] = False
        more = [f"{n}={getattr(self, n)}" for n, value in usual.items() if getattr(self, n) != value]
        return ", ".join([str(self.input_size), str(self.hidden_size), *more])


class RNN(RNNStep, RNNBase):
    """h' = tanh(W_ih x + b_ih + W_hh h + b_hh) (Elman, 1990), or with ReLU; weights are PyTorch's weight_ih_l0, ...

    >>> from tinygrad_tf import nn, zeros
    >>> out, h = nn.RNN(input_size=3, hidden_size=4, batch_first=True)(zeros(2, 5, 3))
    >>> tuple(out.shape), tuple(h.shape)
    ((2, 5, 4), (1, 2, 4))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
    ):
        check_choice("RNN: nonlinearity", nonlinearity, ACTIVATIONS)
        self.nonlinearity = nonlinearity
        kinds = {"device": device, "dtype": dtype}
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, **kinds)


class LSTM(LSTMStep, RNNBase):
    """c' = f c + i g and h' = o tanh(c') with gates i, f, g, o, whose rows stand in this order in the weights
    (Hochreiter and Schmidhuber, 1997, with the forget gate of Gers et al., 2000).

    proj_size: h' is weight_hr times that, of so many numbers (Sak et al., 2014); c keeps hidden_size.

    >>> from tinygrad_tf import nn, zeros
    >>> out, (h, c) = nn.LSTM(input_size=3, hidden_size=4, num_layers=2)(zeros(5, 2, 3))
    >>> tuple(out.shape), tuple(c.shape)
    ((5, 2, 4), (2, 2, 4))
    """


class GRU(GRUStep, RNNBase):
    """h' = (1 - z) n + z h with gates r, z, n, whose rows stand in this order in the weights (Cho et al., 2014).

    >>> from tinygrad_tf import nn, zeros
    >>> out, h = nn.GRU(input_size=3, hidden_size=4, bidirectional=True)(zeros(5, 2, 3))
    >>> tuple(out.shape), tuple(h.shape)
    ((5, 2, 8), (2, 2, 4))
    """

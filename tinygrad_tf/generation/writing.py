"""Layers as instructions (kernels/instructions.py), for some new tokens of each text.

Each method writes what a layer's forward does, and gives where its result lies. Only layers that are exactly what they
were made as can be written: with a subclass, a hook, a forward that was replaced, a weight that is computed, 16 bits,
or another kind of attention, the model is Unwritable. So is one whose sizes do not fit: the kernel does not look.

Shapes: B texts, C channels, H heads, Hk heads of keys, D channels of a head.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from functools import lru_cache
from operator import attrgetter, is_
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tinygrad_tf import nn
from tinygrad_tf.kernels import instructions as do
from tinygrad_tf.kernels.instructions import Instruction
from tinygrad_tf.nn.blocks import GATES
from tinygrad_tf.nn.position import NoPositions
from tinygrad_tf.tensor import Tensor

ACTIVATIONS = {
    "relu": do.RELU,
    "gelu": do.GELU,
    "gelu_tanh": do.GELU_TANH,
    "silu": do.SILU,
    "swiglu": do.SILU,
    "geglu": do.GELU,
}
CACHE_LINE = 64  # bytes; each vector of the workspace begins on one of its own


class Unwritable(Exception):
    """A part of the model does what no instruction does."""


class Vector(NamedTuple):
    """Columns of the workspace: at ... at + columns - 1 of each text's row."""

    at: int
    columns: int


class ProgramWriter:
    """What `write_program` of a model is given."""

    def __init__(self, model: Any):
        self.instructions: list[Instruction] = []
        self.columns = 0  # of the workspace
        self.vocabulary = sys.maxsize  # rows of the table of tokens, and of that of positions
        self.longest = sys.maxsize
        self.dtype: np.dtype[Any] | None = None  # of weights and workspace
        self.only_last = False  # from here on, only each text's last token counts
        self._free: list[Vector] = []
        self._angles: dict[nn.RotaryPositions, Vector] = {}
        self._classes: list[type] = []  # of the layers, and what their forward is
        self._forwards: list[Any] = []
        self._require_own_forward(model)
        self._modules = [module.__dict__ for module in model.modules()]
        self._sizes = list(map(len, self._modules))
        parts = [(of, name, part) for of in self._modules for name, part in of.items() if _is_part(part)]
        self._places, self._names, self._parts = (list(column) for column in zip(*parts, strict=True))
        self._tensors = [part for part in self._parts if isinstance(part, Tensor)]
        self._arrays = [tensor.array for tensor in self._tensors]
        self.logits: Vector = model.write_program(self)

    def _require_own_forward(self, model: Any) -> None:
        """Only what wrote `forward` knows how to write it down."""
        writer = _class_with(type(model), "write_program")
        if not isinstance(model, nn.Module) or writer is None or _class_with(type(model), "forward") is not writer:
            raise Unwritable(f"{type(model).__name__} has no write_program for its forward")
        if not _are_of(writer, [vars(writer)["forward"]]) or not _is_untouched(model):
            raise Unwritable(f"{type(model).__name__} has hooks, or a forward that was put in its place")
        if _class_with(type(model), "__call__") is not nn.Module or not _are_of(nn.Module, [nn.Module.__call__]):
            raise Unwritable("calling a module does more than to call its forward")
        self._classes, self._forwards = [writer], [vars(writer)["forward"]]

    def still_holds(self) -> bool:
        """Whether the model's parts, their memory and their classes' forward are those that were written down.

        Plain numbers, such as a norm's eps, are not looked at again: a new one counts from the next generation on.
        """
        return (  # by functions in C alone: this is asked before each token
            list(map(len, self._modules)) == self._sizes
            and all(map(is_, map(dict.get, self._places, self._names), self._parts))
            and all(map(is_, map(attrgetter("array"), self._tensors), self._arrays))
            and all(map(is_, map(attrgetter("forward"), self._classes), self._forwards))
        )

    # --- layers ---------------------------------------------------------------------------------------------------

    def embedding(self, layer: nn.Module, factor: float = 1.0) -> Vector:
        """The vector of each token."""
        self._require(layer, nn.Embedding)
        if layer.max_norm is not None:
            raise Unwritable("an embedding that shortens the rows it looks up")
        rows, C = layer.weight.shape
        self.vocabulary = min(self.vocabulary, rows)
        return self._put(do.EMBED, self._vector(C), weight=self._array(layer.weight, layer.weight.shape), number=factor)

    def added_positions(self, layer: nn.Module, x: Vector) -> Vector:
        """x and the vector of the position at which the token stands."""
        self._require(layer, NoPositions, nn.LearnedPositions, nn.SinusoidalPositions)
        if isinstance(layer, NoPositions):
            return x
        table = self._array(layer.table, (layer.max_len, x.columns))
        self.longest = min(self.longest, layer.max_len)
        return self._put(do.POSITION, x, x, weight=table)

    def dropout(self, layer: nn.Module, x: Vector) -> Vector:
        """x as it is: generation runs models in evaluation mode."""
        self._require(layer, nn.Dropout, nn.Identity)
        return x

    def norm(self, layer: nn.Module, x: Vector) -> Vector:
        self._require(layer, nn.LayerNorm, nn.RMSNorm, nn.Identity)
        if isinstance(layer, nn.Identity):
            return x
        if layer.normalized_shape != (x.columns,):
            raise Unwritable("a norm over several axes")
        shape, eps = layer.normalized_shape, layer.eps
        if isinstance(layer, nn.RMSNorm):
            eps = float(np.finfo(self.dtype).eps) if eps is None else eps
            weight, bias, operation = layer.weight, None, do.RMS_NORM
        else:
            weight, bias, operation = layer.weight, layer.bias, do.LAYER_NORM
        arrays = {"weight": self._array(weight, shape), "bias": self._array(bias, shape)}
        return self._put(operation, self._vector(x.columns), x, number=eps, **arrays)

    def linear(
        self, layer: nn.Module, x: Vector, target: Vector | None = None, activation: int = do.AS_IT_IS, **how: Any
    ) -> Vector:
        """how: `adds` to the target, or written `beside` the linear layer before, which reads the same."""
        self._require(layer, nn.Linear)
        N, K = layer.weight.shape
        target = self._vector(N) if target is None else target
        if (x.columns, target.columns) != (K, N):
            raise Unwritable("a linear layer of other sizes")
        arrays = {"weight": self._array(layer.weight, (N, K)), "bias": self._array(layer.bias, (N,))}
        return self._put(do.LINEAR, target, x, depth=K, option=activation, **arrays, **how)

    def attention(self, layer: nn.Module, x: Vector, positions: nn.AttentionPositions | None, target: Vector) -> None:
        """Self-attention of each token to those before and itself, added to the target."""
        self._require(layer, nn.MultiHeadAttention)
        H, Hk, D = layer.num_heads, layer.num_kv_heads, layer.head_size
        if H % Hk:
            raise Unwritable("heads that do not share those of keys evenly")
        parts = self._vector((H + 2 * Hk) * D)
        query, key, value = (Vector(parts.at + first * D, n * D) for first, n in ((0, H), (H, Hk), (H + Hk, Hk)))
        self.linear(layer.query_proj, x, query)
        self.linear(layer.key_proj, x, key, beside=True)
        self.linear(layer.value_proj, x, value, beside=True)
        slopes = self._positions(positions, Vector(query.at, (H + Hk) * D), H, D)
        merged, how = self._vector(H * D), {"depth": D, "heads": H, "key_heads": Hk, "number": 1.0 / math.sqrt(D)}
        self._put(do.ATTEND, merged, parts, weight=slopes, **how)
        self.linear(layer.out_proj, merged, target, adds=True)
        self._free += [parts, merged]

    def _positions(self, positions: nn.AttentionPositions | None, both: Vector, H: int, D: int) -> NDArray[Any] | None:
        """Turn queries and keys if that is what positions do, or give their slopes (H,)."""
        if positions is None:
            return None
        self._require(positions, nn.RotaryPositions, nn.AlibiPositions)
        if isinstance(positions, nn.AlibiPositions):
            slopes = np.array(positions.slopes, self.dtype)
            if slopes.shape != (H,):
                raise Unwritable("slopes for another number of heads")
            return slopes
        assert isinstance(positions, nn.RotaryPositions)
        if positions.head_size != D:
            raise Unwritable("angles for another size of heads")
        if positions not in self._angles:
            self._angles[positions] = self._put(do.ANGLES, self._vector(D), weight=positions.rates)
        pairs = do.HALVES if positions.pairing == "halves" else do.NEIGHBOURS
        self._put(do.TURN, both, self._angles[positions], depth=D, option=pairs)
        return None

    def feed_forward(self, layer: nn.Module, x: Vector, target: Vector) -> None:
        """The feed-forward network's result, added to the target."""
        self._require(layer, nn.FeedForward)
        self.dropout(layer.dropout, x)
        activation = ACTIVATIONS[layer.activation]
        if layer.activation in GATES:
            inner = self.linear(layer.gate, x, activation=activation)
            factor = self.linear(layer.up, x, beside=True)
            if factor.columns != inner.columns:
                raise Unwritable("a gate of another size")
            self._put(do.MULTIPLY, inner, factor)
            self._free.append(factor)
        else:
            inner = self.linear(layer.up, x, activation=activation)
        self.linear(layer.down, inner, target, adds=True)
        self._free.append(inner)

    def block(self, layer: nn.Module, x: Vector, positions: nn.AttentionPositions | None) -> Vector:
        self._require(layer, nn.Block)
        self.dropout(layer.dropout, x)
        if layer.norm_first:
            normed = self.norm(layer.norm1, x)
            self.attention(layer.attention, normed, positions, x)
            self._release(normed, x)
            normed = self.norm(layer.norm2, x)
            self.feed_forward(layer.feed_forward, normed, x)
            self._release(normed, x)
            return x
        self.attention(layer.attention, x, positions, x)
        normed = self.norm(layer.norm1, x)
        self._release(x, normed)
        self.feed_forward(layer.feed_forward, normed, normed)
        result = self.norm(layer.norm2, normed)
        self._release(normed, result)
        return result

    # --- the workspace --------------------------------------------------------------------------------------------

    def _put(self, operation: int, target: Vector, source: Vector | None = None, **fields: Any) -> Vector:
        start = 0 if source is None else source.at
        self.instructions.append(
            Instruction(operation, target.at, start, target.columns, last=self.only_last, **fields)
        )
        return target

    def _vector(self, columns: int) -> Vector:
        """Room for a vector: some that is free again, or new."""
        for vector in self._free:
            if vector.columns == columns:
                self._free.remove(vector)
                return vector
        vector = Vector(self.columns, columns)
        step = CACHE_LINE // 4
        self.columns += -(-columns // step) * step
        return vector

    def _release(self, vector: Vector, kept: Vector) -> None:
        if vector is not kept:
            self._free.append(vector)

    # --- the model ------------------------------------------------------------------------------------------------

    def _require(self, layer: Any, *kinds: type) -> None:
        """Whether the layer is of these classes, and all of its methods are theirs."""
        kind = type(layer)
        if kind not in kinds or not _is_untouched(layer) or (kind not in self._classes and not _is_as_written(kind)):
            raise Unwritable(f"{kind.__name__} where one of {[k.__name__ for k in kinds]}, unchanged, can be written")
        if kind not in self._classes and hasattr(kind, "forward"):
            self._classes.append(kind)
            self._forwards.append(kind.forward)

    def _array(self, tensor: Tensor | None, shape: tuple[int, ...]) -> NDArray[Any] | None:
        """A weight's memory, which the kernel reads without looking at its sizes."""
        if tensor is None:
            return None
        array = tensor.array
        if self.dtype is None and array.dtype in (np.float32, np.float64):
            self.dtype = array.dtype
        if type(tensor) not in (nn.Parameter, Tensor) or array.dtype != self.dtype:
            raise Unwritable(f"a weight of {array.dtype}")
        if array.shape != tuple(shape) or not array.flags.carray:
            raise Unwritable("a weight of another shape, or not contiguous")
        return array


def _class_with(kind: type, name: str) -> type | None:
    """The class that a method is inherited from."""
    return next((c for c in kind.__mro__ if name in vars(c)), None)


def _are_of(home: type, values: Iterable[Any]) -> bool:
    """Whether functions are of a class's own module; one that is put into a class is, as a rule, of another."""
    names = vars(sys.modules[home.__module__]) if home.__module__ in sys.modules else None
    return all(value.__globals__ is names for value in values if isinstance(value, FunctionType))


def _is_as_written(kind: type) -> bool:
    """Whether all that a layer's class does is what its source says."""
    return all(_are_of(home, vars(home).values()) for home in kind.__mro__[: kind.__mro__.index(nn.Module)])


def _is_untouched(layer: nn.Module) -> bool:
    """Whether there are no hooks, and no methods of this layer's own."""
    kind: Any = type(layer)
    return not layer._hooked and _methods(kind).isdisjoint(layer.__dict__)


@lru_cache(256)
def _methods(kind: Any) -> frozenset[str]:
    return frozenset(name for name in dir(kind) if callable(getattr(kind, name, None)))


def _is_part(value: Any) -> bool:
    return value is None or isinstance(value, (nn.Module, Tensor))

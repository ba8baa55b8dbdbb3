"""Where a token stands: vectors added to the embeddings, rotations of queries and keys, or a bias on the scores.

    'sinusoidal'  fixed sines and cosines, added           Vaswani et al., 2017, section 3.5
    'learned'     a trained vector a position, added       Gehring et al., 2017, section 3.1
    'relative'    a trained bias by distance, on scores    Raffel et al., 2020 (T5), section 2.1
    'rope'        rotation of queries and keys             Su et al., 2021, equation 34
    'alibi'       a fixed bias by distance, on scores      Press et al., 2022, section 3
    'none'

Those that are added are called with x (B, T, C); those that work inside attention are given to it as `positions`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinygrad_tf._arguments import check_choice, check_size
from tinygrad_tf.creation import empty
from tinygrad_tf.engine import make
from tinygrad_tf.nn import functional as F
from tinygrad_tf.nn import init
from tinygrad_tf.nn.module import Module
from tinygrad_tf.nn.parameter import Parameter
from tinygrad_tf.ops._types import wants_tensor
from tinygrad_tf.ops.rotary import rotate
from tinygrad_tf.tensor import Tensor

POSITIONS = ("sinusoidal", "learned", "relative", "rope", "alibi", "none")
PAIRINGS = ("halves", "interleaved")


# --- added to the embeddings ------------------------------------------------------------------------------------------


def sinusoidal_table(max_len: int, d_model: int) -> np.ndarray:
    """PE(pos, 2i) = sin(pos / 10000^(2i / d_model)), PE(pos, 2i + 1) its cosine (Vaswani et al., 2017, section 3.5).

    float64, (max_len, d_model); an odd d_model ends with a sine.

    >>> sinusoidal_table(2, 4)[1].round(6).tolist()
    [0.841471, 0.540302, 0.01, 0.99995]
    """
    check_size("sinusoidal_table: max_len", max_len, 0)
    check_size("sinusoidal_table: d_model", d_model)
    angles = np.arange(max_len)[:, None] * _rates(d_model)
    table = np.empty((max_len, d_model))
    table[:, 0::2] = np.sin(angles)
    table[:, 1::2] = np.cos(angles[:, : d_model // 2])
    return table


def _rates(channels: int, base: float = 10000.0) -> np.ndarray:
    """The angle by which each pair of channels turns from one position to the next."""
    return base ** (-np.arange(0, channels, 2) / channels)


def rotation(k: int, d_model: int) -> np.ndarray:
    """The matrix R_k (d_model, d_model) with PE(pos + k) = R_k PE(pos) at every pos: it turns each (sine, cosine) pair.

    sin(a + b) = sin a cos b + cos a sin b, and cos(a + b) = cos a cos b - sin a sin b. An odd d_model has a last sine
    without its cosine, so that there is no such matrix.

    >>> table = sinusoidal_table(9, 6)
    >>> bool(np.allclose(rotation(5, 6) @ table[3], table[8]))
    True
    """
    if check_size("rotation: d_model", d_model) % 2:
        raise ValueError(f"rotation: d_model must be even, got {d_model}: its last sine has no cosine to turn with")
    angles = k * _rates(d_model)
    matrix = np.zeros((d_model, d_model))
    even, odd = np.arange(0, d_model, 2), np.arange(1, d_model, 2)
    matrix[even, even] = matrix[odd, odd] = np.cos(angles)
    matrix[even, odd], matrix[odd, even] = np.sin(angles), -np.sin(angles)
    return matrix


class _AddedPositions(Module):
    """Adds row t of a table (max_len, C) to position t of x (B, T, C)."""

    table: Tensor

    def __init__(self, max_len: int, d_model: int):
        super().__init__()
        name = type(self).__name__
        self.max_len, self.d_model = check_size(f"{name}: max_len", max_len), check_size(f"{name}: d_model", d_model)

    def forward(self, x: Tensor, start: int = 0, positions: Tensor | None = None) -> Tensor:
        """start: the position of the first token, as behind a cache; positions (B, T) or (T,): one for each token."""
        if not isinstance(x, Tensor):
            raise wants_tensor(type(self).__name__, "x", x)
        shape = x.array.shape
        if len(shape) < 2 or shape[-1] != self.d_model:
            raise ValueError(f"{type(self).__name__}: x must be (B, T, {self.d_model}), got {shape}")
        if positions is not None:
            self._check_given(positions, x)
            self._check(int(positions.array.max(initial=-1)) + 1, int(positions.array.min(initial=0)))
            return x + F.embedding(positions, self.table)
        stop = start + shape[-2]
        self._check(stop, start)
        return x + self.table[start:stop]

    def _check_given(self, positions: Tensor, x: Tensor) -> None:
        if not isinstance(positions, Tensor):
            raise wants_tensor(type(self).__name__, "positions", positions)
        wanted, given = tuple(x.shape[:-1]), tuple(positions.shape)
        if positions.array.dtype.kind not in "iu" or given not in (wanted, (1, *wanted[1:]), wanted[-1:]):
            raise ValueError(
                f"{type(self).__name__}: positions must be whole numbers (B, T) = {wanted}, or (T,), "
                f"got {positions.array.dtype} {given}"
            )

    def _check(self, stop: int, start: int) -> None:
        if stop > self.max_len or start < 0:
            raise ValueError(
                f"{type(self).__name__}: positions up to {stop} were asked for, but max_len is {self.max_len}"
                if start >= 0
                else f"{type(self).__name__}: positions must be 0 or above, got {start}"
            )

    def extra_repr(self) -> str:
        return f"max_len={self.max_len}, d_model={self.d_model}"


class SinusoidalPositions(_AddedPositions):
    """Sines and cosines of geometric frequencies; fixed. PE(pos + k) is a `rotation` of PE(pos).

    >>> from tinygrad_tf import nn, zeros
    >>> nn.SinusoidalPositions(max_len=8, d_model=4)(zeros(1, 3, 4))[0, 0]
    tensor([0., 1., 0., 1.])
    """

    def __init__(self, max_len: int, d_model: int):
        super().__init__(max_len, d_model)
        self.register_buffer("table", make(sinusoidal_table(max_len, d_model).astype(np.float32)))


class LearnedPositions(_AddedPositions):
    """A trained vector for each position (Gehring et al., 2017); starts normal with standard deviation 0.02."""

    def __init__(self, max_len: int, d_model: int):
        super().__init__(max_len, d_model)
        self.table = init.normal_(Parameter(empty(max_len, d_model)), std=0.02)


class NoPositions(Module):
    """Adds nothing: for positions that work inside attention, and for none at all."""

    max_len = None

    def forward(self, x: Tensor, start: int = 0, positions: Tensor | None = None) -> Tensor:
        return x


# --- inside attention -------------------------------------------------------------------------------------------------


class AttentionPositions(Module):
    """What attention asks of its positions; a subclass overrides what it is about.

    rotate(x, start): queries or keys (B, H, T, D) at the positions start, start + 1, ...
    bias(Tq, Tk, offset): None, or (H, Tq, Tk) to be added to the scores; query i stands at key i + offset.
    slopes: None, or (H,) constants m_h; m_h (j - i) is added to causal scores, inside the streaming kernel.
    """

    slopes: np.ndarray | None = None

    def rotate(self, x: Tensor, start: int = 0) -> Tensor:
        return x

    def bias(self, queries: int, keys: int, offset: int = 0) -> Tensor | None:
        return None


class RotaryPositions(AttentionPositions):
    """RoPE: each pair of channels of queries and keys turns with its position (Su et al., 2021, section 3.2.2).

    So their product depends on the distance alone: <R_i q, R_j k> = <q, R_(j - i) k>. pairing='interleaved' turns
    channels (2i, 2i + 1) as in the paper; 'halves' turns (i, i + D / 2), as GPT-NeoX and Llama's public weights do.
    One is the other with its channels reordered; weights must be used with the pairing that they were trained with.

    >>> from tinygrad_tf import nn, tensor
    >>> rope = nn.RotaryPositions(head_size=4, pairing="interleaved")
    >>> [round(v, 4) for v in rope(tensor([[[[1.0, 2.0, 3.0, 4.0]]]]), start=1).flatten().tolist()]
    [-1.1426, 1.9221, 2.9599, 4.0298]
    """

    def __init__(self, head_size: int, base: float = 10000.0, pairing: str = "halves"):
        super().__init__()
        if check_size("RotaryPositions: head_size", head_size, 0) < 2 or head_size % 2:
            raise ValueError(f"RotaryPositions: head_size must be even, got {head_size}: channels turn in pairs")
        if not isinstance(base, (int, float)) or not 0.0 < base < math.inf:
            raise ValueError(f"RotaryPositions: base must be a number above 0, got {base!r}")
        check_choice("RotaryPositions: pairing", pairing, PAIRINGS)
        self.head_size, self.base, self.pairing = head_size, base, pairing

    @property
    def rates(self) -> np.ndarray:
        """(D / 2,) in float64: the angle by which each pair turns from one position to the next."""
        return _rates(self.head_size, self.base)

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        return self.rotate(x, start)

    def rotate(self, x: Tensor, start: int = 0) -> Tensor:
        if x.ndim < 2 or x.shape[-1] != self.head_size:
            raise ValueError(f"RotaryPositions: x must be (B, H, T, {self.head_size}), got {tuple(x.shape)}")
        check_size("RotaryPositions: start", start, 0)
        angles = np.arange(start, start + x.shape[-2])[:, None] * self.rates
        return rotate(x, cos=np.cos(angles), sin=np.sin(angles), interleaved=self.pairing == "interleaved")

    def extra_repr(self) -> str:
        return f"head_size={self.head_size}, base={self.base:g}, pairing={self.pairing!r}"


def alibi_slopes(num_heads: int) -> np.ndarray:
    """2^(-8 / H), 2^(-16 / H), ... for a power of two; otherwise those of the power of two below, and every second
    one of twice that power (Press et al., 2022, section 3, and their code).

    >>> alibi_slopes(6).tolist()
    [0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125]
    """

    def geometric(heads: int) -> np.ndarray:
        return 2.0 ** (-8.0 * np.arange(1, heads + 1) / heads)

    check_size("alibi_slopes: num_heads", num_heads)
    power = 1 << (num_heads.bit_length() - 1)
    return np.concatenate([geometric(power), geometric(2 * power)[0::2][: num_heads - power]])


class AlibiPositions(AttentionPositions):
    """ALiBi: scores lose slope_h times the distance between query and key (Press et al., 2022, section 3).

    There is nothing to train and no longest length. Causal attention adds it inside the streaming kernel; attention in
    both directions gets -slope |j - i|.

    >>> from tinygrad_tf import nn
    >>> nn.AlibiPositions(num_heads=1).bias(2, 3).tolist()
    [[[-0.0, -0.00390625, -0.0078125], [-0.00390625, -0.0, -0.00390625]]]
    """

    def __init__(self, num_heads: int):
        super().__init__()
        self.num_heads, self.slopes = num_heads, alibi_slopes(num_heads)

    def bias(self, queries: int, keys: int, offset: int = 0) -> Tensor:
        distance = np.abs(np.arange(keys) - (np.arange(queries)[:, None] + offset))
        return make(-alibi_slopes(self.num_heads)[:, None, None] * distance)

    def extra_repr(self) -> str:
        return f"num_heads={self.num_heads}"


class RelativePositions(AttentionPositions):
    """T5's bias: a trained number for each head and bucket of distances (Raffel et al., 2020, section 2.1).

    Half of the buckets hold one distance each, the others grow geometrically up to max_distance, and the last holds
    all beyond. bidirectional: half of them are for keys behind the query, half for keys before it; otherwise keys
    behind it share bucket 0 with the query itself. One such module serves all layers of a stack.

    >>> from tinygrad_tf import nn
    >>> tuple(nn.RelativePositions(num_heads=2).bias(3, 4).shape)
    (2, 3, 4)
    """

    def __init__(self, num_heads: int, buckets: int = 32, max_distance: int = 128, bidirectional: bool = True):
        super().__init__()
        check_size("RelativePositions: num_heads", num_heads)
        check_size("RelativePositions: buckets", buckets)
        check_size("RelativePositions: max_distance", max_distance)
        sides = 2 if bidirectional else 1
        if buckets < 2 * sides or buckets % sides or max_distance <= buckets // sides // 2:
            raise ValueError(
                f"RelativePositions: buckets must be at least {2 * sides} (even, if bidirectional) and max_distance "
                f"above {buckets // sides // 2}, the distances with buckets of their own; got {buckets}, {max_distance}"
            )
        self.num_heads, self.buckets, self.max_distance = num_heads, buckets, max_distance
        self.bidirectional = bidirectional
        self.weight = init.normal_(Parameter(empty(buckets, num_heads)), std=0.02)

    def bucket(self, distance: Any) -> np.ndarray:
        """The bucket (a row of weight) of each distance, key minus query."""
        distance = np.asarray(distance)
        if self.bidirectional:
            count = self.buckets // 2
            first, reach = np.where(distance > 0, count, 0), np.abs(distance)
        else:
            count = self.buckets
            first, reach = np.zeros_like(distance), np.maximum(-distance, 0)
        exact = count // 2
        growth = np.log(np.maximum(reach, 1) / exact) / math.log(self.max_distance / exact)
        far = exact + (growth * (count - exact)).astype(np.int64)
        return first + np.where(reach < exact, reach, np.minimum(far, count - 1))

    def bias(self, queries: int, keys: int, offset: int = 0) -> Tensor:
        distance = np.arange(keys) - (np.arange(queries)[:, None] + offset)
        return F.embedding(make(self.bucket(distance)), self.weight).permute(2, 0, 1)

    def extra_repr(self) -> str:
        sides = f"bidirectional={self.bidirectional}"
        return f"num_heads={self.num_heads}, buckets={self.buckets}, max_distance={self.max_distance}, {sides}"


# --- by name ----------------------------------------------------------------------------------------------------------


def added_positions(name: str, max_len: int, d_model: int) -> Module:
    """The module that adds positions to embeddings: of tables for 'sinusoidal' and 'learned', of nothing otherwise."""
    check_choice("positions", name, POSITIONS)
    kinds = {"sinusoidal": SinusoidalPositions, "learned": LearnedPositions}
    return kinds[name](max_len, d_model) if name in kinds else NoPositions()


def attention_positions(
    name: str, num_heads: int, head_size: int, bidirectional: bool, pairing: str = "halves", base: float = 10000.0
) -> AttentionPositions | None:
    """What attention is given as `positions`: for 'rope', 'alibi' and 'relative'; None for the other names."""
    check_choice("positions", name, POSITIONS)
    if name == "rope":
        return RotaryPositions(head_size, base, pairing)
    if name == "alibi":
        return AlibiPositions(num_heads)
    return RelativePositions(num_heads, bidirectional=bidirectional) if name == "relative" else None

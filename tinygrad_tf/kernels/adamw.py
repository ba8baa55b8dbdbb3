"""Adam and AdamW on many parameters at once, and the clipping of their gradients by norm.

For each parameter p with gradient g and step count t (Kingma and Ba, Adam, 2015, algorithm 1; Loshchilov and Hutter,
Decoupled Weight Decay Regularization, 2019, algorithm 2), in PyTorch's order of operations:

    AdamW: p = p (1 - lr weight_decay)        Adam: g = g + weight_decay p
    m = m + (1 - beta1) (g - m)
    v = beta2 v + (1 - beta2) g^2
    p = p - lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)

Parameters, m and v are changed in place. float32 and float64 C-contiguous arrays go to the kernel, all in one call
(`_many.py`); any others, and parameters that share memory, to the reference, one by one. Microseconds on one core for
the 52 parameters of a small GPT (810,000 numbers), and for 50 parameters of 128 numbers:

    NumPy, parameter by parameter       7642    530
    a kernel call for each parameter    2967   1367
    one call for all                    1747    277     (PyTorch fused 2741 and 424, its default 7341 and 2426)
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tinygrad_tf.kernels._compile import parallel
from tinygrad_tf.kernels._many import addresses, array_at, is_plain, overlapping, table
from tinygrad_tf.kernels._rows import NATIVE
from tinygrad_tf.kernels._scalar import widest_vectors

Array = np.ndarray
LIKE = {dtype: np.empty(0, dtype) for dtype in NATIVE}


class Plan:
    """What stays the same between steps: which parameters go to the kernel, and where they and their moments lie."""

    def __init__(self, params: Sequence[Array], exp_avgs: Sequence[Array], exp_avg_sqs: Sequence[Array]) -> None:
        self.arrays = [*params, *exp_avgs, *exp_avg_sqs]  # kept, so that their addresses stay theirs
        shared = overlapping(params)  # these are changed one after another
        self.groups: dict[Any, list[int]] = {}
        self.others: list[int] = []
        for i, (p, m, v) in enumerate(zip(params, exp_avgs, exp_avg_sqs, strict=True)):
            if not p.shape == m.shape == v.shape:
                raise ValueError(f"parameter {i} has shape {p.shape}, but its moments have {m.shape} and {v.shape}")
            plain = is_plain(p) and is_plain(m) and is_plain(v) and p.dtype == m.dtype == v.dtype and i not in shared
            (self.groups.setdefault(p.dtype, []) if plain else self.others).append(i)
        self.addresses = {
            dtype: [addresses([arrays[i] for i in members]) for arrays in (params, exp_avgs, exp_avg_sqs)]
            for dtype, members in self.groups.items()
        }
        self.sizes = {dtype: tuple([params[i].size for i in members]) for dtype, members in self.groups.items()}

    def covers(self, params: Sequence[Array], exp_avgs: Sequence[Array], exp_avg_sqs: Sequence[Array]) -> bool:
        """Whether these are the very arrays that it was made for."""
        arrays = [*params, *exp_avgs, *exp_avg_sqs]
        return len(arrays) == len(self.arrays) and all(map(operator.is_, arrays, self.arrays))


def adamw_step(
    params: Sequence[Array],
    grads: Sequence[Array],
    exp_avgs: Sequence[Array],
    exp_avg_sqs: Sequence[Array],
    *,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    step: int,
    decoupled: bool = True,
    maximize: bool = False,
    plan: Plan | None = None,
) -> Plan:
    """Change all parameters and moments by one step, the `step`th (from 1 on).

    Returns a plan; the next step is faster if it gets it. A plan for other arrays is replaced, never used wrongly.

    >>> p, g, m, v = np.ones(2), np.array([0.5, -2.0]), np.zeros(2), np.zeros(2)
    >>> plan = adamw_step([p], [g], [m], [v], lr=0.1, beta1=0.9, beta2=0.999, eps=0.0, weight_decay=0.0, step=1)
    >>> p
    array([0.9, 1.1])
    """
    if len(grads) != len(params):
        raise ValueError(f"there are {len(params)} parameters, but {len(grads)} gradients")
    for i, (p, g) in enumerate(zip(params, grads, strict=True)):
        if g.shape != p.shape:
            raise ValueError(f"parameter {i} has shape {p.shape}, but its gradient {g.shape}")
    if plan is None or not plan.covers(params, exp_avgs, exp_avg_sqs):
        plan = Plan(params, exp_avgs, exp_avg_sqs)
    numbers = (
        1 - lr * weight_decay if decoupled else 1.0,
        0.0 if decoupled else float(weight_decay),
        -1.0 if maximize else 1.0,
        1.0 - beta1,
        float(beta2),
        1.0 - beta2,
        lr / (1.0 - beta1**step),
        math.sqrt(1.0 - beta2**step),
        float(eps),
    )
    for dtype, members in plan.groups.items():
        slopes = [grads[i] for i in members]
        slopes = [g if g.dtype == dtype and is_plain(g) else np.array(g, dtype, order="C") for g in slopes]
        p, m, v = plan.addresses[dtype]
        pieces, starts = table((p, addresses(slopes), m, v), plan.sizes[dtype], dtype.itemsize)
        adamw_blocks(len(starts) - 1, starts, pieces, LIKE[dtype], numbers)
    for i in plan.others:
        adamw_reference(params[i], grads[i], exp_avgs[i], exp_avg_sqs[i], *numbers)
    return plan


def adamw_reference(
    p: Array, g: Array, m: Array, v: Array, keep: float, l2: float, sign: float, rate1: float, beta2: float,
    rate2: float, step_size: float, root_bias2: float, eps: float
) -> None:  # fmt: skip
    """The same for one parameter, in plain NumPy; half precision is worked out in float32 and rounded at the end."""
    wide = np.result_type(p, np.float32)
    new_p, new_g, new_m, new_v = (a.astype(wide) for a in (p, g, m, v))
    new_g = sign * new_g + l2 * new_p
    new_p = new_p * keep
    new_m = new_m + rate1 * (new_g - new_m)
    new_v = beta2 * new_v + rate2 * new_g * new_g
    new_p = new_p - step_size * new_m / (np.sqrt(new_v) / root_bias2 + eps)
    p[...], m[...], v[...] = new_p, new_m, new_v


@parallel
def adamw_blocks(block: int, starts: Any, pieces: Any, like: Any, numbers: Any) -> None:
    widest_vectors()
    number = like.dtype.type
    keep, l2, sign = number(numbers[0]), number(numbers[1]), number(numbers[2])
    rate1, beta2, rate2 = number(numbers[3]), number(numbers[4]), number(numbers[5])
    step_size, root_bias2, eps = number(numbers[6]), number(numbers[7]), number(numbers[8])
    for piece in range(starts[block], starts[block + 1]):
        count = pieces[piece, 4]
        p, g = array_at(pieces[piece, 0], count, like), array_at(pieces[piece, 1], count, like)
        m, v = array_at(pieces[piece, 2], count, like), array_at(pieces[piece, 3], count, like)
        for i in range(count):
            slope = sign * g[i] + l2 * p[i]
            mean = m[i] + rate1 * (slope - m[i])
            square = beta2 * v[i] + rate2 * slope * slope
            m[i], v[i] = mean, square
            p[i] = p[i] * keep - step_size * (mean / (np.sqrt(square) / root_bias2 + eps))


def global_norm(grads: Sequence[Array]) -> float:
    """The length of all gradients taken as one vector; added up in float64, in an order that only sizes decide.

    >>> global_norm([np.full(3, 2.0), np.array([2.0], np.float32)])
    4.0
    """
    total = sum(_by_dtype(grads, _sum_of_squares, lambda g: float((g.astype(np.float64) ** 2).sum())))
    if not math.isfinite(total):  # squares of float64 numbers above 1e154 overflow
        largest = max(float(np.abs(g).max()) for g in grads if g.size)
        if math.isfinite(largest):
            return largest * math.sqrt(sum(float(((g.astype(np.float64) / largest) ** 2).sum()) for g in grads))
    return math.sqrt(total)


def scale_(grads: Sequence[Array], factor: float) -> None:
    """Multiply every array by a number, in place."""

    def scale_group(rows: Array, starts: Array, like: Array) -> list[float]:
        scale_blocks(len(starts) - 1, starts, rows, like, factor)
        return []

    def scale_other(g: Array) -> float:
        g *= g.dtype.type(factor)
        return 0.0

    _by_dtype(grads, scale_group, scale_other)


def _by_dtype(
    arrays: Sequence[Array], group: Callable[[Array, Array, Array], Sequence[float]], other: Callable[[Array], float]
) -> list[float]:
    """Run `group` on the table of all float32 arrays and on that of all float64 arrays, `other` on each of the rest."""
    results: list[float] = []
    members: dict[Any, list[Array]] = {}
    for array in arrays:
        if is_plain(array):
            members.setdefault(array.dtype, []).append(array)
        else:
            results.append(other(array))
    for dtype, same in members.items():
        rows, starts = table((addresses(same),), tuple([array.size for array in same]), dtype.itemsize)
        results.extend(group(rows, starts, LIKE[dtype]))
    return results


def _sum_of_squares(rows: Array, starts: Array, like: Array) -> list[float]:
    sums = np.zeros(len(starts) - 1)
    square_blocks(len(sums), starts, rows, like, sums)
    return sums.tolist()


@parallel
def square_blocks(block: int, starts: Any, pieces: Any, like: Any, sums: Any) -> None:
    widest_vectors()
    total = 0.0
    for piece in range(starts[block], starts[block + 1]):
        g = array_at(pieces[piece, 0], pieces[piece, 1], like)
        for i in range(g.size):
            number = np.float64(g[i])
            total += number * number
    sums[block] = total


@parallel
def scale_blocks(block: int, starts: Any, pieces: Any, like: Any, factor: float) -> None:
    widest_vectors()
    number = like.dtype.type(factor)
    for piece in range(starts[block], starts[block + 1]):
        g = array_at(pieces[piece, 0], pieces[piece, 1], like)
        for i in range(g.size):
            g[i] *= number

"""A few new tokens of each text through a whole model: a program of instructions on vectors, run by one call.

A token costs a small model less arithmetic than Python takes to ask for it, layer by layer. So the model is written
down once as a program (`instructions.py`), and a kernel runs it. Each token has a row in the workspace; instructions
name columns of it, and `_decode_rows.py` is what they do there.

Shapes: B texts, T new tokens of each, H heads, Hk heads of keys, D channels of a head, K numbers into a linear layer,
N out of it.

Cost, float32, two cores with AVX-512, a model of 4 layers, 4 heads, 128 channels (3.2 MB of weights) at 32 tokens
seen, microseconds a token of each text: B = 1 67 (54 of them products, which read the weights from the second-level
cache, 6 attention), B = 8 205, B = 32 650. The same by the layers of the model, one after the other: B = 1 795, B = 32
1700. 64 tokens of one text: 1400 instead of 2700; of larger models such are for the layers, whose products then go to
the matrix tiles.

Versions, B = 1 and 32: sums of plain loops, row by row 92 and 1084; sixteen sums at once (`_dots.py`) 85 and 930; the
same for scores, and eight values at once 82 and 790; four rows of weights for all texts 67 and 650. Blocks of weights
twice as large: no faster.
"""
# mypy: allow-untyped-defs

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tinygrad_tf.kernels._compile import kernel
from tinygrad_tf.kernels._decode_rows import array_at, attend, finish, on_row, put_angles, turn
from tinygrad_tf.kernels._dots import multiply_rows
from tinygrad_tf.kernels._operands import address_of
from tinygrad_tf.kernels._part import parallel_part
from tinygrad_tf.kernels._plan import plan_linear_thin
from tinygrad_tf.kernels._scalar import widest_vectors
from tinygrad_tf.kernels.gelu import CUBIC

from tinygrad_tf.kernels.instructions import (  # isort: skip
    ADDS, ANGLES, AS_IT_IS, ATTEND, BIAS, CAPACITY, COLUMNS, DEPTH, EMBED, FIRST_BLOCK, GELU, GELU_TANH, HALVES, HEADS,
    KEY_HEADS, KEYS, LAST, LAYER_NORM, LINEAR, NUM_FIELDS, OPERATION, OPTION, POSITION, RELU, RMS_NORM, ROWS,
    SILU, SOURCE, TARGET, TURN, VALUES, WEIGHT, Instruction,
)  # fmt: skip

Array = np.ndarray
SMALLEST_BLOCK = 1 << 14  # multiply-adds of attention


class Program(NamedTuple):
    """Instructions as the kernel reads them; `held` keeps the arrays alive whose addresses are in `code`."""

    code: Array  # (instructions, NUM_FIELDS)
    numbers: Array  # (instructions,)
    groups: Array  # (groups, 3): first instruction, the one behind the last, blocks
    held: list[Array | None]


def encode(instructions: Sequence[Instruction]) -> Program:
    """The program of these instructions; `keep` has still to say where the keys and values lie."""
    code = np.zeros((len(instructions), NUM_FIELDS), np.int64)
    groups: list[tuple[int, int, int]] = []
    for i, one in enumerate(instructions):
        blocks, rows = plan_linear_thin(one.columns, one.depth) if one.operation == LINEAR else (1, 0)
        before = groups.pop() if one.beside else (i, i, 0)
        groups.append((before[0], i + 1, before[2] + blocks))
        addresses = [0 if a is None else address_of(a) for a in (one.weight, one.bias)]
        how = one.option, one.adds, one.last
        code[i] = [*one[:5], *addresses, *how, one.heads, one.key_heads, 0, 0, 0, before[2], rows]
    held = [array for one in instructions for array in (one.weight, one.bias)]
    return Program(code, np.array([one.number for one in instructions]), np.array(groups, np.int64), held)


def keep(program: Program, index: int, keys: Array, values: Array) -> None:
    """Let ATTEND number `index` read and write its keys and values here, (B, Hk, capacity, D), C-contiguous."""
    program.code[index, [KEYS, VALUES, CAPACITY]] = address_of(keys), address_of(values), keys.shape[2]


def run(program: Program, ids: Array, padding: Array, seen: int, work: Array, scores: Array) -> None:
    """Some tokens of each text: ids (B, T) go in; what comes out lies in the workspace (B * T, columns).

    `seen` tokens of each text came before. The first padding[b] of all its tokens are none; what comes out for them
    means nothing. scores: (B * H, seen + T or more).
    """
    ids = np.ascontiguousarray(ids)
    run_program(program.code, program.numbers, program.groups, ids, padding, seen, work, scores)


# ---------------------------------------------------------------- the plain formulas
def reference(
    instructions: Sequence[Instruction], kept: Sequence[tuple[Array, Array]], ids: Array, padding: Array, seen: int,
    work: Array,
) -> None:  # fmt: skip
    """What `run` does, instruction by instruction; kept: keys and values for each ATTEND."""
    waiting, everything, (B, T) = iter(kept), work, ids.shape
    before = seen + np.tile(np.arange(T), B)
    for one in instructions:
        rows = slice(T - 1 if one.last else 0, None, T if one.last else 1)
        work = everything[rows]
        target, source = (work[:, at : at + one.columns] for at in (one.target, one.source))
        if one.operation == EMBED:
            target[:] = one.weight[ids.ravel()[rows]] * one.number
        elif one.operation == POSITION:
            target[:] = source + one.weight[np.maximum(before - padding.repeat(T), 0)[rows]]
        elif one.operation in (LAYER_NORM, RMS_NORM):
            x = source - source.mean(-1, keepdims=True) if one.operation == LAYER_NORM else source
            x = x / np.sqrt((x * x).mean(-1, keepdims=True) + one.number)
            x = x if one.weight is None else x * one.weight
            target[:] = x if one.bias is None else x + one.bias
        elif one.operation == LINEAR:
            y = work[:, one.source : one.source + one.depth] @ one.weight.T
            y = ACTIVATIONS[one.option](y if one.bias is None else y + one.bias)
            target[:] = target + y if one.adds else y
        elif one.operation == ANGLES:
            angles = before[:, None] * one.weight
            target[:] = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
        elif one.operation == TURN:
            _turn_reference(one, work)
        elif one.operation == ATTEND:
            _attend_reference(one, *next(waiting), padding, seen, work)
        else:
            target[:] = target * source


ACTIVATIONS = {
    AS_IT_IS: lambda x: x,
    RELU: lambda x: np.maximum(x, 0),
    GELU: lambda x: x * np.vectorize(math.erfc)(-x / math.sqrt(2)) / 2,
    GELU_TANH: lambda x: x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + CUBIC * x**3))) / 2,
    SILU: lambda x: x / (1 + np.exp(-x)),
}


def _turn_reference(one, work):
    half = one.depth // 2
    cos, sin = work[:, None, one.source : one.source + half], work[:, None, one.source + half : one.source + one.depth]
    heads = work[:, one.target : one.target + one.columns].reshape(len(work), -1, one.depth)
    first, second = (
        (slice(0, half), slice(half, None)) if one.option == HALVES else (slice(0, None, 2), slice(1, None, 2))
    )
    a, b = heads[..., first].copy(), heads[..., second].copy()
    heads[..., first], heads[..., second] = a * cos - b * sin, b * cos + a * sin
    work[:, one.target : one.target + one.columns] = heads.reshape(len(work), -1)


def _attend_reference(one, keys, values, padding, seen, work):
    (B, T), H, Hk, D = (len(keys), len(work) // len(keys)), one.heads, one.key_heads, one.depth
    rows = work[:, one.source : one.source + (H + 2 * Hk) * D].reshape(B, T, H + 2 * Hk, D).swapaxes(1, 2)
    keys[:, :, seen : seen + T], values[:, :, seen : seen + T] = rows[:, H : H + Hk], rows[:, H + Hk :]
    for b, t, h in np.ndindex(B, T, H):
        seen_by, kept = slice(padding[b], seen + t + 1), h // (H // Hk)
        scores = keys[b, kept, seen_by] @ rows[b, h, t] * one.number
        if one.weight is not None:
            scores += one.weight[h] * np.arange(1 - len(scores), 1)
        weights = np.exp(scores - scores.max(initial=-np.inf))
        at = one.target + h * D
        work[b * T + t, at : at + D] = weights @ values[b, kept, seen_by] / (weights.sum() if len(scores) else 1)


# ---------------------------------------------------------------- the kernel
@kernel
def run_program(code, numbers, groups, ids, padding, seen, work, scores):
    (B, T), flat_ids = ids.shape, ids.reshape(ids.size)
    for group in range(groups.shape[0]):
        first, behind, count = groups[group]
        one, number = code[first], numbers[first]
        if one[OPERATION] == LINEAR:
            linear_blocks(count, code, first, behind, T, work)
        elif one[OPERATION] == ATTEND:
            units = B * one[KEY_HEADS]
            cost = T * (seen + T) * one[DEPTH] * 2 * (one[HEADS] // one[KEY_HEADS])
            step = max(1, min(units, SMALLEST_BLOCK // cost))
            attend_blocks((units + step - 1) // step, step, one, number, padding, seen, T, work, scores)
        else:
            start, apart = (T - 1, T) if one[LAST] != 0 else (0, 1)
            for row in range(start, B * T, apart):
                before = seen + row % T
                source = work[row, one[SOURCE] : one[SOURCE] + one[COLUMNS]]
                target = work[row, one[TARGET] : one[TARGET] + one[COLUMNS]]
                if one[OPERATION] == ANGLES:
                    put_angles(before, array_at(one[WEIGHT], 0, one[COLUMNS] // 2, numbers), target)
                elif one[OPERATION] == TURN:
                    turn(work[row, one[SOURCE] : one[SOURCE] + one[DEPTH]], target, one[OPTION])
                else:
                    place = 0
                    if one[OPERATION] == EMBED:
                        place = flat_ids[row]
                    elif one[OPERATION] == POSITION:
                        place = max(before - padding[row // T], 0)
                    weight = array_at(one[WEIGHT], place * one[COLUMNS], one[COLUMNS], work)
                    bias = array_at(one[BIAS], 0, one[COLUMNS], work)
                    on_row(one[OPERATION], source, target, weight, bias, one[WEIGHT] != 0, one[BIAS] != 0, number)


@parallel_part
def linear_blocks(index, code, first, behind, T, work):
    """Some numbers of every row's target; blocks are counted through all LINEARs of the group."""
    widest_vectors()
    while first + 1 < behind and code[first + 1, FIRST_BLOCK] <= index:
        first += 1
    one = code[first]
    N, K, adds, activation = one[COLUMNS], one[DEPTH], one[ADDS] != 0, one[OPTION]
    start = (index - one[FIRST_BLOCK]) * one[ROWS]
    stop = min(N, start + one[ROWS])
    above, apart = (T - 1, T) if one[LAST] != 0 else (0, 1)
    flat, width, row = work.reshape(work.size), work.shape[1], work.shape[1] * apart
    weight, x0, y0 = array_at(one[WEIGHT], 0, N * K, work), above * width + one[SOURCE], above * width + one[TARGET]
    multiply_rows(work.shape[0] // apart, start, stop, K, flat, x0, row, weight, flat, y0, row, adds)
    bias = array_at(one[BIAS], start, stop - start, work)
    for i in range(above, work.shape[0], apart):
        finish(work[i, one[TARGET] + start : one[TARGET] + stop], bias, one[BIAS] != 0, activation)


@parallel_part
def attend_blocks(index, step, one, scale, padding, seen, T, work, scores):
    """Some heads of keys, each with the group of heads that look at it; the new keys and values are kept first."""
    widest_vectors()
    D, H, Hk, capacity = one[DEPTH], one[HEADS], one[KEY_HEADS], one[CAPACITY]
    group, flat, width = H // Hk, work.reshape(work.size), work.shape[1]
    for unit in range(index * step, min(work.shape[0] // T * Hk, index * step + step)):
        b, h = divmod(unit, Hk)
        keys = array_at(one[KEYS], unit * capacity * D, capacity * D, work)
        values = array_at(one[VALUES], unit * capacity * D, capacity * D, work)
        for t in range(T):
            new, at = (b * T + t) * width + one[SOURCE], (seen + t) * D
            for d in range(D):
                keys[at + d] = flat[new + (H + h) * D + d]
                values[at + d] = flat[new + (H + Hk + h) * D + d]
        for t in range(T):
            row, first = (b * T + t) * width, padding[b]
            for head in range(h * group, h * group + group):
                slope = array_at(one[WEIGHT], head, 1, work)[0] if one[WEIGHT] else work.dtype.type(0)
                query, target = row + one[SOURCE] + head * D, row + one[TARGET] + head * D
                weights = scores[b * H + head, : max(seen + t + 1 - first, 0)]
                attend(D, flat, query, keys, values, first * D, weights, scale, slope, target)

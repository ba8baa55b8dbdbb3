"""The most that this machine does: multiply-adds a second in registers and on matrix tiles, bytes a second of a copy.

Each is the best of many short runs, on one core and on all threads, of a loop in which nothing but the measured thing
happens:

    vector registers   x = x * factor + addend for enough x to keep every unit busy while the results are on their way
    pairs of bfloat16  the same registers, x = x + a0 * b0 + a1 * b1 (AVX512_BF16), see kernels/_pairs.py
    matrix tiles       four tiles of sums, one instruction each (Intel's AMX); six products of bfloat16 pieces make one
                       of float32, see kernels/_pieces.py
    copy               one array to another, both larger than most caches; what is read and what is written both count

The numbers change sign all the time: with constant ones a processor draws less power, and is faster than it ever is at
work.
"""
# mypy: allow-untyped-defs

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numba.extending
import numpy as np
from numba import types
from numba.core import cgutils

from tinygrad_tf.kernels import _matrix_tiles as tiles
from tinygrad_tf.kernels._compile import get_num_threads, parallel
from tinygrad_tf.kernels._tile_product import PRODUCTS
from tinygrad_tf.kernels._vector import HEIGHT, I64, Emitter, lane_count

intrinsic: Any = numba.extending.intrinsic
SUMS = 2 * HEIGHT  # x in flight, in as many registers; 8 to 16 would do on today's processors
LANES = lane_count(4)
TILE_SUMS = 4  # tiles of sums; an instruction takes 16 cycles, its result 52
MULTIPLY_ADDS_OF_A_TILE = tiles.TILE * tiles.TILE * tiles.STEP
PIECEWISE = len(PRODUCTS)  # products of bfloat16 for one of float32
BLOCKS_PER_THREAD = 8
COPY_BYTES = 1 << 22  # that one block copies
RUNS = 40  # short ones: on a busy machine some of them have all cores


@intrinsic
def _multiply_adds(typing: Any, times: Any, A: Any) -> Any:
    """x = x * factor + addend, `times` times for SUMS registers x: A holds them, then the factor and the addend."""
    return types.void(types.int64, A), _emit_multiply_adds


@intrinsic
def _pair_multiply_adds(typing: Any, times: Any, A: Any) -> Any:
    """x = x + the products of two pairs, the same way: A holds SUMS registers x, then two of pairs."""
    return types.void(types.int64, A), _emit_pair_multiply_adds


def _emit_multiply_adds(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    e = Emitter(context, builder, signature.args[1])
    return _emit_sums(context, builder, signature, args, e, lambda x, factor, addend: e.fma(x, factor, addend))


def _emit_pair_multiply_adds(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    e = Emitter(context, builder, signature.args[1])
    return _emit_sums(context, builder, signature, args, e, lambda x, a, b: e.fma_of_pairs(a, b, x))


def _emit_sums(context: Any, builder: Any, signature: Any, args: Any, e: Emitter, following_x: Any) -> Any:
    """x = following_x(x, first, second), over and over, for SUMS registers x and two more."""
    start = e.pointer(signature.args[1], args[1], I64(0))
    sums = [e.load(start, i) for i in range(SUMS)]
    first, second = e.load(start, SUMS), e.load(start, SUMS + 1)
    before, loop, after = builder.block, builder.append_basic_block("loop"), builder.append_basic_block("done")
    builder.branch(loop)
    builder.position_at_end(loop)
    index, phis = builder.phi(I64), [builder.phi(e.vector) for _ in sums]
    new = [following_x(x, first, second) for x in phis]
    following = builder.add(index, I64(1))
    for phi, begin, next_value in zip([index, *phis], [I64(0), *sums], [following, *new], strict=True):
        phi.add_incoming(begin, before)
        phi.add_incoming(next_value, loop)
    builder.cbranch(builder.icmp_signed("<", following, args[0]), loop, after)
    builder.position_at_end(after)
    for i, x in enumerate(new):
        e.store(x, start, i)
    return context.get_dummy_value()


@intrinsic
def _tile_multiply_adds(typing: Any, times: Any, A: Any) -> Any:
    """Four products of tiles, `times` times; A holds two tiles of each operand, and receives a tile of sums."""
    return types.void(types.int64, A), _emit_tile_multiply_adds


def _emit_tile_multiply_adds(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    array = context.make_array(signature.args[1])(context, builder, args[1])
    start = builder.bitcast(array.data, tiles.BYTES)
    for sums in range(TILE_SUMS):
        tiles.call(builder, "tilezero", tiles.I8(sums))
    for i in range(4):
        where = builder.gep(start, [I64(4 * tiles.PIECE * i)])
        tiles.call(builder, "tileloadd64", tiles.I8(TILE_SUMS + i), where, I64(64))
    with cgutils.for_range(builder, args[0]):
        for sums in range(TILE_SUMS):
            tiles.call(builder, "tdpbf16ps", tiles.I8(sums), tiles.I8(4 + sums // 2), tiles.I8(6 + sums % 2))
    tiles.call(builder, "tilestored64", tiles.I8(0), start, I64(64))
    return context.get_dummy_value()


@parallel
def _run_registers(index, times, A):
    _multiply_adds(times, A[index])


@parallel
def _run_pairs(index, times, A):
    _pair_multiply_adds(times, A[index])


@parallel
def _run_tiles(index, times, A):
    tiles.open_tiles()
    _tile_multiply_adds(times, A[index])
    tiles.close_tiles()


@parallel
def _run_copy(index, size, A, B):
    for i in range(index * size, (index + 1) * size):
        B[i] = A[i]


def register_rate(threads: int, seconds: float = 0.3) -> float:
    """float32 multiply-adds a second on vector registers, of one core or of all threads (1 or get_num_threads())."""
    blocks = _blocks(threads)
    A = np.random.default_rng(0).uniform(0.5, 1.0, (blocks, (SUMS + 2) * LANES)).astype(np.float32)
    A[:, SUMS * LANES :] *= -1.0  # x goes to and fro around -addend / (1 - factor)
    return _rate(lambda times: _run_registers(blocks, times, A), blocks * SUMS * LANES, seconds)


def pair_rate(threads: int, seconds: float = 0.3) -> float:
    """bfloat16 multiply-adds a second on vector registers, where the processor multiplies pairs of them."""
    blocks = _blocks(threads)
    numbers = np.random.default_rng(0).standard_normal((blocks, (SUMS + 2) * LANES, 2)).astype(np.float32)
    A = np.ascontiguousarray((numbers.view(np.uint32) >> 16).astype(np.uint16)).view(np.float32)[..., 0]
    A[:, : SUMS * LANES] = 0.0
    return _rate(lambda times: _run_pairs(blocks, times, A), 2 * blocks * SUMS * LANES, seconds)


def tile_rate(threads: int, seconds: float = 0.3) -> float:
    """bfloat16 multiply-adds a second on matrix tiles, where there are any."""
    blocks = _blocks(threads)
    numbers = np.random.default_rng(0).standard_normal((blocks, 4 * tiles.PIECE, 2)).astype(np.float32)
    # The upper half of a float32 is the bfloat16 of it, cut off.
    A = np.ascontiguousarray((numbers.view(np.uint32) >> 16).astype(np.uint16)).view(np.float32)[..., 0]
    work = blocks * TILE_SUMS * MULTIPLY_ADDS_OF_A_TILE
    return _rate(lambda times: _run_tiles(blocks, times, A), work, seconds)


def copy_rate(threads: int, megabytes: int = 128, seconds: float = 0.3) -> float:
    """Bytes a second that a copy of that many MiB reads and writes together."""
    blocks = max(1, (megabytes << 20) // COPY_BYTES)
    A = np.ones(blocks * COPY_BYTES // 4, np.float32)
    B = np.zeros_like(A)
    count = 1 if threads == 1 else blocks

    def run(times: int) -> None:
        for _ in range(times):
            _run_copy(count, A.size // count, A, B)

    return _rate(run, 2 * A.nbytes, seconds)


def _blocks(threads: int) -> int:
    """One block runs on the calling thread alone; of several, every thread takes some."""
    return 1 if threads == 1 else get_num_threads() * BLOCKS_PER_THREAD


def _rate(run: Callable[[int], None], work: int, seconds: float) -> float:
    """Units of work a second: the best of RUNS runs, which together take about that many seconds."""
    times, took = 1, 0.0
    run(1)
    while True:
        took = _seconds(run, times)
        if took >= seconds / RUNS / 2 or times >= 1 << 40:
            break
        times *= 2
    times = max(1, round(times * seconds / RUNS / took))
    return times * work / min(_seconds(run, times) for _ in range(RUNS))


def _seconds(run: Callable[[int], None], times: int) -> float:
    started = time.perf_counter()
    run(times)
    return time.perf_counter() - started

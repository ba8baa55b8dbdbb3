"""Products on matrix tiles of operands in pieces (`_pieces.py`), as LLVM code.

    TileProduct                a product of up to two by two tiles, part by part; the loops around it are its users'
    make_tile_product(i, j)    C[16 i, 16 j] = A @ B (+ D) as a function for kernels, i and j 1 or 2

A (M, K) lies as groups of 16 rows, B (K, N) as groups of 16 columns; a group is, for each 32 numbers of the depth, a
tile of every piece. Registers 0 to 3 hold tiles of C, 4 and 5 two groups of A, 6 and 7 two groups of B.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from numba import types
from numba.core import cgutils

from tinygrad_tf.kernels._matrix_tiles import (
    BYTES,
    I8,
    PIECE,
    STEP,
    TILE,
    Splitter,
    call,
    count_pieces,
    intrinsic,
)
from tinygrad_tf.kernels._vector import I64, Emitter

# (pieces of A, pieces of B), by the number of pieces; one operand changes from each to the next, A's are loaded once.
PRODUCTS = {
    3: ((2, 0), (1, 0), (1, 1), (0, 1), (0, 2), (0, 0)),
    2: ((1, 0), (0, 0), (0, 1)),
    1: ((0, 0),),
}
FIRST_REGISTER = 4, 6  # of A, of B


class TileProduct:
    """Emits the parts of C = A @ B (+ D) for `rows` x `columns` tiles of C; addresses, and steps from row to row and
    from group to group, are in bytes."""

    def __init__(self, builder: Any, pieces: int, rows: int = 2, columns: int = 2, b_changes: bool = False) -> None:
        self.builder, self.rows, self.columns = builder, rows, columns
        self.products: Sequence[tuple[int, int]] = PRODUCTS[pieces]
        if b_changes:
            self.products = tuple((b, a) for a, b in self.products)

    def start(self, add: Any, d: Any, d_row: Any) -> None:
        """C begins as D where `add` is true, else as zero."""
        with self.builder.if_else(add) as (adding, putting):
            with adding:
                for register, where in self._tiles_of(d, d_row):
                    call(self.builder, "tileloadd64", I8(register), where, d_row)
            with putting:
                for register in range(self.rows * self.columns):
                    call(self.builder, "tilezero", I8(register))

    def step(self, starts: Sequence[Any], groups: Sequence[Any], meanwhile: Callable[[int, int], None]) -> None:
        """Add the products of one step of the depth, whose tiles of A and of B begin at `starts`.

        meanwhile(i, n) emits what the vector registers do after product i of n, while the tiles are busy.
        """
        held: list[int | None] = [None, None]
        for number, pieces in enumerate(self.products):
            changed = [side for side in (0, 1) if held[side] != pieces[side]]
            held = list(pieces)
            order = [(i, j) for i in range(self.rows) for j in range(self.columns)]
            if changed == [1]:
                order.sort(key=lambda tile: tile[::-1])  # what is loaded is used for two products at once
            loaded = {(side, i) for side in (0, 1) if side not in changed for i in range(2)}
            for tile in order:
                for side, index in enumerate(tile):
                    if (side, index) not in loaded:
                        loaded.add((side, index))
                        self._load(side, index, starts[side], groups[side], pieces[side])
                i, j = tile
                registers = i * self.columns + j, FIRST_REGISTER[0] + i, FIRST_REGISTER[1] + j
                call(self.builder, "tdpbf16ps", *map(I8, registers))
            meanwhile(number, len(self.products))

    def store(self, c: Any, c_row: Any) -> None:
        for register, where in self._tiles_of(c, c_row):
            call(self.builder, "tilestored64", I8(register), where, c_row)

    def _load(self, side: int, index: int, start: Any, group: Any, piece: int) -> None:
        offset = self.builder.add(self.builder.mul(group, I64(index)), I64(4 * PIECE * piece))
        where = self.builder.gep(start, [offset])
        call(self.builder, "tileloadd64", I8(FIRST_REGISTER[side] + index), where, I64(64))

    def _tiles_of(self, first: Any, row: Any) -> list[tuple[int, Any]]:
        """(register, address) of each tile of a matrix that lies in rows."""
        builder = self.builder
        return [
            (i * self.columns + j, builder.gep(first, [builder.add(builder.mul(row, I64(TILE * i)), I64(64 * j))]))
            for i in range(self.rows)
            for j in range(self.columns)
        ]


def bytes_at(context: Any, builder: Any, kind: Any, array: Any, offset: Any) -> Any:
    """The address of an element of an array."""
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [offset]), BYTES)


def make_tile_product(rows: int, columns: int, ahead: int = 0, b_changes: bool = False) -> Callable[..., Any]:
    """C[16 * rows, 16 * columns] = A @ B (+ D) for operands in pieces, each group of 16 rows of A or columns of B as
    `steps` times a tile of each piece; the second group lies a_group or b_group words after the first.

    The compiled intrinsic takes (steps, A, a0, a_group, B, b0, b_group, C, c0, c_row, add, D, d0, d_row, S, s0, s_row,
    p0): the first as the tiles of `_vector.make_tile` do. While the tiles multiply, the vector registers are idle, so
    they split `ahead` rows of S that begin at s0, as `split_rows` does, into A[p0]; the largest magnitude is returned.
    b_changes: from call to call it is B that moves on, and not A; the one that does is loaded once, and fetched ahead.
    """

    @intrinsic
    def product(
        typing: Any, steps: Any, A: Any, a0: Any, a_group: Any, B: Any, b0: Any, b_group: Any,
        C: Any, c0: Any, c_row: Any, add: Any, D: Any, d0: Any, d_row: Any, S: Any, s0: Any, s_row: Any, p0: Any,
    ) -> Any:  # fmt: skip
        n = types.int64
        return n(n, A, n, n, B, n, n, C, n, n, types.boolean, D, n, n, S, n, n, n), emit

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        steps, A, a0, a_group, B, b0, b_group, C, c0, c_row, add, D, d0, d_row, S, s0, s_row, p0 = args
        kinds, four = signature.args, I64(4)
        pieces = count_pieces(kinds[1])
        tiles = TileProduct(builder, pieces, rows, columns, b_changes)
        tiles.start(add, bytes_at(context, builder, kinds[11], D, d0), builder.mul(d_row, four))
        e = Emitter(context, builder, kinds[7])
        c = e.pointer(kinds[7], C, c0)
        _fetch_to_write(e, c, c_row, TILE * rows, TILE * columns)
        splitter = Splitter(context, builder, kinds[14], kinds[1])
        source, target = e.pointer(kinds[14], S, s0), e.pointer(kinds[1], A, p0)
        first = [bytes_at(context, builder, kinds[1], A, a0), bytes_at(context, builder, kinds[4], B, b0)]
        groups = [builder.mul(group, four) for group in (a_group, b_group)]
        with cgutils.for_range(builder, steps) as loop:
            words = builder.mul(loop.index, I64(pieces * PIECE))
            starts = [builder.gep(side, [builder.mul(words, four)]) for side in first]
            soon = _lines_of(builder, starts[b_changes], groups[b_changes], (rows, columns)[b_changes], pieces)

            def meanwhile(number: int, count: int) -> None:
                """Fetch the next step's tiles, and split rows: an even share after each product."""
                for line in _share(soon, number, count):
                    e.prefetch(line, to_write=False)
                for r in _share(range(ahead), number, count):
                    row = builder.add(builder.mul(s_row, I64(r)), builder.mul(loop.index, I64(STEP)))
                    where = builder.add(words, I64(r * TILE))
                    splitter.split_row(builder.gep(source, [row]), I64(TILE), builder.gep(target, [where]))

            tiles.step(starts, groups, meanwhile)
        tiles.store(builder.bitcast(c, BYTES), builder.mul(c_row, four))
        return splitter.largest() if ahead else I64(0)

    return product


def _share(whole: Sequence[Any], number: int, count: int) -> Sequence[Any]:
    return whole[len(whole) * number // count : len(whole) * (number + 1) // count]


def _fetch_to_write(e: Emitter, c: Any, c_row: Any, rows: int, columns: int) -> None:
    """Bring the lines of C, which is written at the end, while the products are made."""
    for i in range(rows):
        row = e.at(c, e.builder.mul(c_row, I64(i)))
        for column in [*range(0, columns, TILE), columns - 1]:
            e.prefetch(e.at(row, I64(column)))


def _lines_of(builder: Any, start: Any, group: Any, count: int, pieces: int) -> list[Any]:
    """The addresses of the cache lines of the tiles that follow those at `start`, in `count` groups."""
    size = 4 * pieces * PIECE
    firsts = [builder.gep(start, [builder.add(builder.mul(group, I64(i)), I64(size))]) for i in range(count)]
    return [builder.gep(first, [I64(line)]) for first in firsts for line in range(0, size, 64)]

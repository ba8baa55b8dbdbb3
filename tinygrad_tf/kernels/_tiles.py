"""Products of small blocks held in cache, built from register tiles: what matmul, attention and others call inside.

Everything here is serial, works on flat arrays of one float type, and is addressed by offsets and strides in elements:
element (i, k) of A is A[a0 + i * a_row + k * a_col]. M rows, N columns, K the depth that is summed over; all >= 1.

    block_product       C[M, N] = A[M, K] @ B[K, N] (+ D), B with contiguous rows, A with any strides
    panel_product       the same for N up to one panel (2 * lanes columns)
    transpose           B = A.T, for an operand that lies the other way round
    pack_panel          up to one panel of B, copied to contiguous memory and padded with zeros
    pack_rows           a block of A, copied in the order in which the tiles read it

Operands of bfloat16, as bits in uint16, are packed as `_pairs.py` says, and panel_product multiplies them, too.

C has contiguous rows, c_row apart. With `add`, D[d0 + i * d_row + j] is added to C[i, j]: pass C, c0 and c_row to
accumulate, or a bias and d_row = 0. Without it D is not read (pass C).
"""
# mypy: allow-untyped-defs

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tinygrad_tf.kernels import _pairs
from tinygrad_tf.kernels import _vector as vector
from tinygrad_tf.kernels._compile import kernel
from tinygrad_tf.kernels._part import part
from tinygrad_tf.kernels._plan import GAP

HEIGHT, LOW_HEIGHT = vector.HEIGHT, vector.LOW_HEIGHT
HAS_MASKED_LOADS = vector.HAS_MASKED_LOADS
PANEL = 2  # vectors in a row of a panel

lanes: Any = vector.lanes
transpose_square: Any = vector.make_transpose(vectors=1)
transpose_group: Any = vector.make_transpose(rows=HEIGHT)
copy_panel_row = vector.make_copy(vectors=PANEL)
copy_column = vector.make_copy(rows=HEIGHT)


def make_panel(vectors: int, ragged: bool) -> Callable[..., Any]:
    """C[M, n] = A[M, K] @ B[K, n] (+ D): tiles downwards, the last rows in low tiles; a_step from one to the next."""
    tile = vector.make_tile(HEIGHT, vectors, ragged_rows=False, ragged_columns=ragged)
    low_tile = vector.make_tile(LOW_HEIGHT, vectors, ragged_rows=True, ragged_columns=ragged)

    @part()
    def panel(M, n, K, A, a0, a_row, a_col, a_step, B, b0, b_row, C, c0, c_row, add, D, d0, d_row):
        i = 0
        while i + HEIGHT <= M:
            tile(K, HEIGHT, n, A, a0, a_row, a_col, B, b0, b_row, C, c0, c_row, add, D, d0, d_row)
            i, a0, c0, d0 = i + HEIGHT, a0 + a_step, c0 + HEIGHT * c_row, d0 + HEIGHT * d_row
        while i < M:
            low = min(LOW_HEIGHT, M - i)
            low_tile(K, low, n, A, a0, a_row, a_col, B, b0, b_row, C, c0, c_row, add, D, d0, d_row)
            i, a0, c0, d0 = i + low, a0 + low * a_row, c0 + low * c_row, d0 + low * d_row

    return panel


full_panel = make_panel(PANEL, ragged=False)
wide_panel = make_panel(PANEL, ragged=True)
narrow_panel = make_panel(1, ragged=True)


@part()
def panel_product(M, n, K, A, a0, a_row, a_col, a_step, B, b0, b_row, C, c0, c_row, add, D, d0, d_row):
    """C[M, n] = A[M, K] @ B[K, n] (+ D), n up to one panel; the next HEIGHT rows of A begin a_step further on.

    Without masked loads (`HAS_MASKED_LOADS`) a B of fewer columns than a panel must be packed.
    """
    if n == PANEL * lanes(A):
        full_panel(M, n, K, A, a0, a_row, a_col, a_step, B, b0, b_row, C, c0, c_row, add, D, d0, d_row)
    elif n > lanes(A):
        wide_panel(M, n, K, A, a0, a_row, a_col, a_step, B, b0, b_row, C, c0, c_row, add, D, d0, d_row)
    else:
        narrow_panel(M, n, K, A, a0, a_row, a_col, a_step, B, b0, b_row, C, c0, c_row, add, D, d0, d_row)


@kernel
def aligned(scratch):
    """The first element of `scratch` that begins a cache line (64 bytes); leave room for as much more."""
    return -scratch.ctypes.data % 64 // scratch.itemsize


@part()
def transpose(M, N, A, a0, a_row, B, b0, b_row):
    """B[N, M] = A[M, N].T; the rows of both are contiguous."""
    square = lanes(A)
    rows, columns = M - M % square, N - N % square
    for i in range(0, rows, square):
        for j in range(0, columns, square):
            transpose_square(A, a0 + i * a_row + j, a_row, B, b0 + j * b_row + i, b_row)
    for i in range(M):
        for j in range(columns if i < rows else 0, N):
            B[b0 + j * b_row + i] = A[a0 + i * a_row + j]


@part(halves=_pairs.pack_panel)
def pack_panel(K, n, B, b0, b_row, b_col, panel, p0):
    """panel[k, 0 : n] = B[k, 0 : n] for k < K, zeros up to the panel's width; B with any strides."""
    width = PANEL * lanes(B)
    if b_col == 1 and n == width:
        for k in range(K):
            copy_panel_row(B, b0 + k * b_row, panel, p0 + k * width)
        return
    if b_row == 1:
        transpose(n, K, B, b0, b_col, panel, p0, width)
    else:
        for k in range(K):
            for j in range(n):
                panel[p0 + k * width + j] = B[b0 + k * b_row + j * b_col]
    if n < width:
        for k in range(K):
            for j in range(n, width):
                panel[p0 + k * width + j] = 0


@part(halves=_pairs.pack_rows)
def pack_rows(M, K, A, a0, a_row, a_col, packed, p0):
    """Groups of HEIGHT rows of A, each group as packed[k, row]; the rows or the columns of A are contiguous.

    To be read with a_row = 1, a_col = HEIGHT, a_step = HEIGHT * K + GAP.
    """
    full, whole, step = M - M % HEIGHT, K - K % lanes(A), HEIGHT * K + GAP
    if a_row == 1:
        for k in range(K):  # column by column, because every column may lie on another page of memory
            source, target = a0 + k * a_col, p0 + k * HEIGHT
            for i in range(0, full, HEIGHT):
                copy_column(A, source + i, packed, target)
                target += step
    else:
        for i in range(0, full, HEIGHT):
            source, target = a0 + i * a_row, p0 + i // HEIGHT * step
            for k in range(0, whole, lanes(A)):
                transpose_group(A, source + k, a_row, packed, target + k * HEIGHT, HEIGHT)
            for k in range(whole, K):
                for r in range(HEIGHT):
                    packed[target + k * HEIGHT + r] = A[source + r * a_row + k]
    for k in range(K):
        for i in range(full, M):
            packed[p0 + full // HEIGHT * step + k * HEIGHT + i - full] = A[a0 + i * a_row + k * a_col]


@part()
def block_product(M, N, K, A, a0, a_row, a_col, B, b0, b_row, C, c0, c_row, add, D, d0, d_row):
    """C[M, N] = A[M, K] @ B[K, N] (+ D), B read in place: for blocks that fit into the first-level cache or two."""
    width = PANEL * lanes(A)
    for j in range(0, N, width):
        n = min(width, N - j)
        if HAS_MASKED_LOADS or n == width:
            a_step = HEIGHT * a_row
            panel_product(
                M, n, K, A, a0, a_row, a_col, a_step, B, b0 + j, b_row, C, c0 + j, c_row, add, D, d0 + j, d_row
            )
        else:
            for i in range(M):
                for column in range(j, N):
                    total = A[a0 + i * a_row] * B[b0 + column]
                    for k in range(1, K):
                        total += A[a0 + i * a_row + k * a_col] * B[b0 + k * b_row + column]
                    C[c0 + i * c_row + column] = total + D[d0 + i * d_row + column] if add else total

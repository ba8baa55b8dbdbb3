"""Products with few rows of A (generation, one token at a time): bound by reading B, which is read once and in place.

    B with contiguous rows (W as it is)     C[i] += A[i, k] * B[k], eight k at a time: long runs of rows of B
    B with contiguous columns (W.T)         dot products, row by row of W
    a linear layer, x @ W.T + bias          four dot products at a time, none of which waits for another; with rows for
                                            a panel, tiles of W @ x.T, so that x is packed and W, the larger, is not

Versions of the first: register tiles 384 bytes wide read B in short pieces, each on another page: (1, 4096) @ (4096,
4096) took 29 ms, NumPy 4.3. Of the last, microseconds for (1, 128) @ (512, 128).T in cache, and for the 24 products of
a token in a model of 3 MB of weights:

    dot products one by one, in a call with as many arguments as any layout needs    10.0    238
    four at a time, in a call with few arguments                                      2.9    196
    blocks of 64 rows of W, for several threads                                       2.6    104

For 16 and for 32 rows, the same 24 products, microseconds: 390 and 520; as all products are made, 600 and 700.
"""
# mypy: allow-untyped-defs

from __future__ import annotations

import numpy as np

from tinygrad_tf.kernels import _vector as vector
from tinygrad_tf.kernels._compile import kernel, parallel
from tinygrad_tf.kernels._product import ACCUMULATE, ADD_BIAS, PUT
from tinygrad_tf.kernels._scalar import widest_vectors
from tinygrad_tf.kernels._tiles import (
    HEIGHT,
    PANEL,
    aligned,
    full_panel,
    lanes,
    narrow_panel,
    pack_panel,
    transpose,
)  # fmt: skip

add_eight_rows, add_row = vector.make_add_rows(8), vector.make_add_rows(1)


@kernel
def dot(K, A, a0, B, b0):
    """The product of two contiguous vectors; LLVM keeps several registers of partial sums."""
    x, w = A[a0 : a0 + K], B[b0 : b0 + K]  # indexed from zero, so that LLVM sees no negative index
    total = x[0] * w[0]
    for k in range(1, K):
        total += x[k] * w[k]
    return total


@kernel
def dots(x, first, second, third, fourth):
    """The products of a vector with four others."""
    zero = x.dtype.type(0)
    a, b, c, d = zero, zero, zero, zero
    for k in range(x.size):
        a += x[k] * first[k]
        b += x[k] * second[k]
        c += x[k] * third[k]
        d += x[k] * fourth[k]
    return a, b, c, d


@parallel
def linear_thin(index, step, x, weight, y, bias, has_bias):
    """`step` (a multiple of 4) columns of y = x @ weight.T + bias, for contiguous arrays."""
    widest_vectors()
    start, stop = index * step, min(index * step + step, weight.shape[0])
    fours = start + (stop - start) // 4 * 4
    for i in range(x.shape[0]):
        row, target = x[i], y[i]
        for j in range(start, fours, 4):
            totals = dots(row, weight[j], weight[j + 1], weight[j + 2], weight[j + 3])
            target[j], target[j + 1], target[j + 2], target[j + 3] = totals
        for j in range(fours, stop):
            target[j] = dots(row, weight[j], weight[j], weight[j], weight[j])[0]
        if has_bias:
            for j in range(start, stop):
                target[j] += bias[j]


@parallel
def linear_panel(index, step, x, weight, y, bias, has_bias):
    """The same for as many rows of x as a panel has columns, or fewer: C = W @ x.T, which is then turned round."""
    (M, K), N, half = x.shape, weight.shape[0], lanes(x)
    start, width = index * step, PANEL * half
    n = min(step, N - start)
    W, w0 = weight.reshape(weight.size), start * K
    scratch = np.empty((K + n) * width + 16, x.dtype)
    panel = aligned(scratch)
    c0 = panel + K * width
    pack_panel(K, M, x.reshape(x.size), 0, 1, K, scratch, panel)
    if half >= M:
        narrow_panel(n, M, K, W, w0, K, 1, HEIGHT * K, scratch, panel, width, scratch, c0, width, False, scratch, c0, 0)
    else:  # the panel is full: what stands for missing columns is zero
        full_panel(
            n, width, K, W, w0, K, 1, HEIGHT * K, scratch, panel, width, scratch, c0, width, False, scratch, c0, 0
        )
    transpose(n, M, scratch, c0, width, y.reshape(y.size), start, N)
    if has_bias:
        for i in range(M):
            for j in range(start, start + n):
                y[i, j] += bias[j]


@parallel
def multiply_thin(
    index, M, N, K, A, a_starts, a_row, a_col, B, b_starts, b_row, b_col, C, mode, bias, columns, group
):  # fmt: skip
    """`group` blocks of C, each `columns` wide and of all M rows; counted along N, then through the stack."""
    across = (N + columns - 1) // columns
    for unit in range(index * group, min((index + 1) * group, a_starts.size * across)):
        item, within = divmod(unit, across)
        j = within * columns
        n, a0, b0, c0 = min(columns, N - j), a_starts[item], b_starts[item] + j * b_col, item * M * N + j
        if b_col == 1:
            if mode != ACCUMULATE:
                for i in range(M):
                    for column in range(n):
                        C[c0 + i * N + column] = bias[j + column] if mode == ADD_BIAS else 0
            for k in range(0, K, 8):
                for i in range(M):
                    a = a0 + i * a_row + k * a_col
                    if k + 8 <= K:
                        add_eight_rows(n, A, a, a_col, B, b0 + k * b_row, b_row, C, c0 + i * N)
                    else:
                        for r in range(K - k):
                            add_row(n, A, a + r * a_col, a_col, B, b0 + (k + r) * b_row, b_row, C, c0 + i * N)
        else:
            for column in range(n):
                for i in range(M):
                    total, c = dot(K, A, a0 + i * a_row, B, b0 + column * b_col), c0 + i * N + column
                    if mode == PUT:
                        C[c] = total
                    else:
                        C[c] = total + (bias[j + column] if mode == ADD_BIAS else C[c])

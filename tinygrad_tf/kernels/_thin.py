"""Products with few rows of A (generation, one token at a time): bound by reading B, which is read once and in place.

    B with contiguous rows (W as it is)     C[i] += A[i, k] * B[k], eight k at a time: long runs of rows of B
    B with contiguous columns (W.T)         dot products, row by row of W
    a linear layer, x @ W.T + bias          many dot products at a time (`_dots.py`)

Versions of the first: register tiles 384 bytes wide read B in short pieces, each on another page: (1, 4096) @ (4096,
4096) took 29 ms, NumPy 4.3. Of the last, microseconds for (1, 128) @ (512, 128).T in cache, and for the 24 products of
a token in a model of 3 MB of weights:

    dot products one by one, in a call with as many arguments as any layout needs    10.0    238
    four at a time, in a call with few arguments                                      2.9    196
    blocks of 64 rows of W, for several threads                                       2.6    104

Of the last with more rows, microseconds for M rows times (512, 128).T, (128, 512).T and (384, 1536).T, two threads:

    M = 9     tiles of W @ x.T, so that x is packed and W is not    20   24   237       (8 rows: four dot products  16)
              sixteen dot products at a time                        11    9    55                                   9
    M = 32    tiles of W @ x.T                                      28   23   185
              sixteen dot products at a time                        29   25   148
"""
# mypy: allow-untyped-defs

from __future__ import annotations

from tinygrad_tf.kernels import _vector as vector
from tinygrad_tf.kernels._compile import kernel, parallel
from tinygrad_tf.kernels._dots import multiply_rows
from tinygrad_tf.kernels._product import ACCUMULATE, ADD_BIAS, PUT

add_eight_rows, add_row = vector.make_add_rows(8), vector.make_add_rows(1)


@kernel
def dot(K, A, a0, B, b0):
    """The product of two contiguous vectors; LLVM keeps several registers of partial sums."""
    x, w = A[a0 : a0 + K], B[b0 : b0 + K]  # indexed from zero, so that LLVM sees no negative index
    total = x[0] * w[0]
    for k in range(1, K):
        total += x[k] * w[k]
    return total


@parallel
def linear_thin(index, step, x, weight, y, bias, has_bias):
    """`step` columns of y = x @ weight.T + bias, for contiguous arrays."""
    (M, K), N = x.shape, weight.shape[0]
    start, stop = index * step, min(index * step + step, N)
    Y = y.reshape(y.size)
    multiply_rows(M, start, stop, K, x.reshape(x.size), 0, K, weight.reshape(weight.size), Y, 0, N, False)
    if has_bias:
        for i in range(M):
            for j in range(start, stop):
                Y[i * N + j] += bias[j]


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

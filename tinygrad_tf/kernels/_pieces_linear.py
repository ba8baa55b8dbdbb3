"""Both products of a linear layer's backward pass in one call: dx = g @ W, and dW = g.T @ x with the sums of g.

They are `_pieces_blocks.multiply` and `_pieces_deep.multiply_deep` one after the other, the same bits. What is saved is
Python in between, which costs 50 microseconds where it has left the cache, as it has after each large product: of a
step of a small GPT, with 17 layers, 3 to 4 %. It takes 1.5 s to compile.
"""
# mypy: allow-untyped-defs

from __future__ import annotations

from tinygrad_tf.kernels._compile import kernel
from tinygrad_tf.kernels._pieces_blocks import multiply
from tinygrad_tf.kernels._pieces_deep import multiply_deep


@kernel
def multiply_gradients(
    M, N, K, g, x, weight, dx, dweight, sums, words, nothing, rows, columns, blocks, depth, units, each,
    deep_rows, deep_columns, deep_blocks, parts, part, stretch,
):  # fmt: skip
    """For g (M, N), x (M, K) and weight (N, K), all flat; returns the bits of the largest magnitudes of g, and of both
    others."""
    of_g, of_weight = multiply(
        M, K, N, g, 0, N, 1, weight, 0, K, 1, dx, False, nothing, words, rows, columns, blocks, depth, units, each
    )
    _, of_x = multiply_deep(
        N, K, M, g, 0, N, x, 0, K, dweight, sums, words, deep_rows, deep_columns, deep_blocks, parts, part, stretch
    )
    return of_g, of_weight, of_x

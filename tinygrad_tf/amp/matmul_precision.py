"""How many bits products of float32 keep: the setting that torch.set_float32_matmul_precision is."""

from __future__ import annotations

from tinygrad_tf.kernels import precision as precision_of_products


def set_float32_matmul_precision(precision: str) -> None:
    """How exact products of float32 matrices, and attention, are on processors with matrix tiles; 'highest' at first.

    'highest' is float32, 24 bits. 'high' takes each number as a sum of two bfloat16, about 16 bits, and is 1.4 times as
    fast; 'medium' as one bfloat16, 8 bits, which also processors with AVX512_BF16 do for products, twice as fast. Sums
    are float32. It holds for the whole process; elsewhere (small products, float64, other processors) products stay as
    exact as they are.

    >>> set_float32_matmul_precision("high")
    >>> get_float32_matmul_precision()
    'high'
    >>> set_float32_matmul_precision("highest")
    """
    if precision not in precision_of_products.PIECES:
        names = ", ".join(map(repr, precision_of_products.PIECES))
        raise ValueError(f"set_float32_matmul_precision: precision must be one of {names}; got {precision!r}")
    precision_of_products.choose(precision)


def get_float32_matmul_precision() -> str:
    """What `set_float32_matmul_precision` was given last, or what a training loop has asked for in this thread."""
    return precision_of_products.chosen()

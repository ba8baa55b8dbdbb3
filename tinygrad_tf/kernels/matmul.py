"""Matrix products: C[M, N] = A[M, K] @ B[K, N], stacks of them, and the linear layer with its gradients.

How. A tile of 12 x 32 sums of C (AVX-512, float32; 6 x 16 with AVX2) stays in registers and grows by one column of A
times one row of B at a time: 14 loads for 384 multiply-adds. A panel is the 32 columns of B that a tile reads, over 384
steps of depth; it is used for all rows of a block of C before the next. Blocks go to threads.

    _vector.py   the tile and other loops on registers, as LLVM code       _plan.py      blocks, and what is packed
    _tiles.py    panels, packing, products of small blocks in cache        _operands.py  any strides as flat arrays
    _product.py  the parallel loops over blocks                            _thin.py      few rows of A
    _pieces.py   float32 on matrix tiles (_matrix_tiles.py and _tile_product.py, in LLVM code), where there are any
    _pieces_product.py  which products go there; _pieces_blocks.py, _pieces_deep.py and _pieces_linear.py multiply
    _pairs.py    bfloat16 in pairs, on vector registers that multiply those _multiply.py  which of these multiplies

Cost, float32, one core with AVX-512 whose measured peak is 177 GFLOP/s: a multiply-add 0.0115 ns; packing an element
0.1 ns from the second-level cache and 0.3 to 0.5 ns from memory; a call 3 microseconds, NumPy's 0.6, so products of up
to 2^18 multiply-adds are left to NumPy, whose BLAS does not use threads for them.

Versions, in GFLOP/s on one thread, best of many on a busy machine (a few percent of noise):

    NN 768x128x384   TN 512x768x128   TN 128x768x512   NN 16384x384x1152
         150              103               98                      A.T and B packed by each block
         158              108              104                      packed groups of rows 64 bytes off a power of two
         153              125              115                      everything packed once, before the blocks
         153              134              137               106    small operands before, large ones by each block
         155              138              144               124    depth 384 for 256, lines of C fetched ahead
         147              152              138               141    OpenBLAS

A of an NN product is read in place: 96 rows at a time touch few enough pages, and packing gains nothing unless its rows
lie 16 KiB or more apart. Buffers begin on a cache line (5 %). What remains below OpenBLAS, on vector registers, are
large products (0.84 to 0.92 at 2048 and 1024 cubed) and one or two columns beyond a panel (N = 65: 0.8 to 1.0).

Results have the same bits for any number of threads: blocks and stretches of depth follow from the shape alone.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tinygrad_tf.kernels import _matrix_tiles, precision
from tinygrad_tf.kernels._half import bits, is_bfloat16
from tinygrad_tf.kernels._multiply import FLOAT32, FLOAT64, NOTHING, multiply_operands, multiply_stacks, stack_of
from tinygrad_tf.kernels._operands import operand
from tinygrad_tf.kernels._pieces_product import (
    in_one_stretch,
    linear_gradients_in_pieces,
    linear_in_pieces,
    multiply_in_pieces,
    weight_gradient_in_pieces,
)
from tinygrad_tf.kernels._plan import DEPTH, LINEAR_THIN, plan_linear_thin, suits_pairs
from tinygrad_tf.kernels._product import ACCUMULATE, ADD_BIAS, PUT
from tinygrad_tf.kernels._thin import linear_thin
from tinygrad_tf.kernels.cast import cast, rounded_bits
from tinygrad_tf.kernels.elementwise import sum_rows

Array = NDArray[Any]
SMALL = 1 << 18  # multiply-adds: up to here NumPy's BLAS runs on the calling thread, and Python's cost decides
SMALL_VECTOR = 1 << 13  # the same where one operand is a vector: OpenBLAS gives those to threads from 9,216 on
WORTH_ROUNDING = 1 << 21  # multiply-adds from which float32 is rounded to pairs of bfloat16, where that is wanted
TINY = 64  # multiply-adds of each product in a stack: NumPy's loop over such is as fast, or faster
DEEPEST_DOT = 4096  # the same where each product is a dot product


def accepts(a: Array, b: Array) -> bool:
    """Whether `matmul` takes these operands: matrices or stacks of them, both float32 or both float64.

    Everything else (vectors, other dtypes, mixed dtypes) is for `np.matmul`.
    """
    dtype = a.dtype
    return a.ndim > 1 and b.ndim > 1 and dtype in (FLOAT32, FLOAT64) and b.dtype == dtype


def reference(a: Array, b: Array) -> Array:
    """The plain formula: c[..., i, j] = sum over k of a[..., i, k] * b[..., k, j]."""
    return np.matmul(a, b)


def matmul(a: Array, b: Array, out: Array | None = None, accumulate: bool = False, whole: bool = False) -> Array:
    """The matrix product a @ b of operands that `accepts` takes, with NumPy's broadcasting of leading dimensions.

    a (..., M, K) and b (..., K, N), any strides; returns (..., M, N) of the same dtype: a new array, or `out`, which
    must have that shape and dtype and may overlap the operands. With `accumulate` the product is added to `out`.
    `whole` says that all numbers are bfloat16 as they are, which matrix tiles multiply faster. Raises ValueError where
    shapes or dtypes do not fit.

    >>> import numpy as np
    >>> matmul(np.ones((2, 3)), np.ones((3, 1)))
    array([[3.],
           [3.]])
    """
    M, K = a.shape[-2:]
    N = b.shape[-1]
    if b.shape[-2] != K:
        raise ValueError(
            f"matmul: a of shape {a.shape} has {K} columns but b of shape {b.shape} has {b.shape[-2]} rows; "
            "these must be the same"
        )
    stack = stack_of(a, b) if a.ndim > 2 or b.ndim > 2 else ()
    if out is not None:
        return _matmul_into(out, a, b, stack, accumulate, whole)
    if accumulate:
        raise ValueError("matmul: accumulate=True adds to out, which must be given; got None")
    if _is_small(math.prod(stack) if stack else 1, M, N, K) and _blas_reads(a) and _blas_reads(b):
        return np.matmul(a, b)
    if stack and (M * N * K <= TINY or (M == N == 1 and K <= DEEPEST_DOT)):
        return np.matmul(a, b)
    if _wants_pairs(a.dtype, math.prod(stack), M, N, K):
        c = np.empty((*stack, M, N), FLOAT32)
        _multiply_pairs(rounded_bits(a), rounded_bits(b), stack, c)
        return c
    if M <= LINEAR_THIN and a.ndim == b.ndim == 2 and b.flags.f_contiguous:  # b lies as the weight of a layer
        return linear(a, b.T)
    c = np.empty((*stack, M, N), a.dtype)
    multiply_stacks(a, b, stack, c, PUT, None, whole)
    return c


def _matmul_into(out: Array, a: Array, b: Array, stack: tuple[int, ...], accumulate: bool, whole: bool) -> Array:
    shape = (*stack, a.shape[-2], b.shape[-1])
    if out.shape != shape or out.dtype != a.dtype:
        raise ValueError(f"matmul: out must be {a.dtype} of shape {shape}, got {out.dtype} of shape {out.shape}")
    if not accumulate:
        out[...] = matmul(a, b, whole=whole)  # the same bits, whoever multiplies
        return out
    direct = out.flags.carray and not np.may_share_memory(out, a) and not np.may_share_memory(out, b)
    c = out if direct else np.array(out, order="C")
    multiply_stacks(a, b, stack, c, ACCUMULATE, None, whole)
    if c is not out:
        out[...] = c
    return out


def linear(x: Array, weight: Array, bias: Array | None = None) -> Array:
    """x @ weight.T + bias: x (M, K), weight (N, K), bias (N,) or None, of one float type; returns (M, N).

    A product of bfloat16 is summed up in float32, and rounded once.
    """
    (M, K), N = x.shape, weight.shape[0]
    if weight.shape[1] != K or (bias is not None and bias.shape != (N,)):
        raise _do_not_fit("linear", "x (M, K), weight (N, K), bias (N,)", x, weight, bias)
    if x.dtype.kind == "V" and is_bfloat16(x.dtype) and is_bfloat16(weight.dtype):
        return product_of_bfloat16(x, weight.T, None if bias is None else cast(bias, np.float32), rounded=True)
    left, right = x.flags, weight.flags
    if _is_small(1, M, N, K) and left.forc and right.forc:
        return linear_reference(x, weight, bias)
    y = np.empty((M, N), x.dtype)
    if _wants_pairs(x.dtype, 1, M, N, K):
        _multiply_pairs(rounded_bits(x), rounded_bits(weight).T, (), y, bias)
        return y
    if bias is not None and not bias.flags.carray:
        bias = np.array(bias, order="C")
    if M <= LINEAR_THIN and y.size and K and left.carray and right.carray:
        linear_thin(*plan_linear_thin(N, K), x, weight, y, y[0] if bias is None else bias, bias is not None)
        return y
    plain = y.dtype == FLOAT32 and left.carray and right.carray and _matrix_tiles.AVAILABLE
    if plain and linear_in_pieces(x, weight, bias, y):
        return y
    mode = PUT if bias is None else ADD_BIAS
    multiply_operands(M, N, K, operand(x, ()), operand(weight.T, ()), y, mode, bias, tiles=not plain)
    return y


def product_of_bfloat16(a: Array, b: Array, bias: Array | None = None, rounded: bool = False) -> Array:
    """a @ b + bias of (stacks of) matrices of bfloat16, summed up in float32, and rounded if so wanted.

    Matrix tiles, and processors that multiply pairs of them, read them as they are.
    """
    M, K, N = *a.shape[-2:], b.shape[-1]
    if a.ndim > 2 and b.ndim == 2 and a.flags.c_contiguous:  # one tall product
        rows = a.reshape(math.prod(a.shape[:-1]), K)
        return product_of_bfloat16(rows, b, bias, rounded).reshape(*a.shape[:-1], N)
    if _matrix_tiles.AVAILABLE and a.size and b.size and a.ndim == b.ndim == 2:
        c = np.empty((M, N), a.dtype if rounded and in_one_stretch(K) else FLOAT32)
        bias_or_nothing = NOTHING[FLOAT32] if bias is None else np.require(bias, None, ["C", "A", "W"])
        (left, (a0,), a_row, a_col), (right, (b0,), b_row, b_col) = (operand(bits(x), ()) for x in (a, b))
        where = left, int(a0), a_row, a_col, right, int(b0), b_row, b_col, bits(c).ravel()
        if multiply_in_pieces(M, N, K, *where, bias is not None, bias_or_nothing, True):
            return cast(c, a.dtype) if rounded else c
    stack = stack_of(a, b) if a.ndim > 2 or b.ndim > 2 else ()
    if suits_pairs(math.prod(stack), M, N, K):
        c = np.empty((*stack, M, N), a.dtype if rounded and K <= DEPTH else FLOAT32)
        _multiply_pairs(bits(a), bits(b), stack, bits(c), bias)
        return cast(c, a.dtype) if rounded else c
    left, right = cast(a, np.float32), cast(b, np.float32)
    c = matmul(left, right, whole=True) if bias is None else linear(left, right.T, bias)
    return cast(c, a.dtype) if rounded else c


def _multiply_pairs(a: Array, b: Array, stack: tuple[int, ...], c: Array, bias: Array | None = None) -> None:
    """c = a @ b + bias for the bits of bfloat16."""
    if a.shape[-1] % 2:  # the last pairs are completed by zeros
        a, b = _longer(a, -1), _longer(b, -2)
    mode = PUT if bias is None else ADD_BIAS
    multiply_stacks(a, b, stack, c, mode, None if bias is None else np.require(bias, None, ["C", "A", "W"]))


def _wants_pairs(dtype: Any, items: int, M: int, N: int, K: int) -> bool:
    """Whether numbers of float32 are to be rounded to bfloat16 (`precision.py`), and are faster so."""
    return (
        precision.pieces() == 1
        and dtype == FLOAT32
        and not _matrix_tiles.AVAILABLE
        and items * M * N * K >= WORTH_ROUNDING
        and suits_pairs(items, M, N, K)
    )


def _longer(x: Array, axis: int) -> Array:
    """x with zeros as its last row or column."""
    shape = list(x.shape)
    shape[axis] += 1
    longer = np.zeros(shape, x.dtype)
    longer[..., : x.shape[-2], : x.shape[-1]] = x
    return longer


def linear_reference(x: Array, weight: Array, bias: Array | None = None) -> Array:
    """The plain formula of `linear`."""
    y: Array = np.matmul(x, weight.T)
    if bias is not None:
        y += bias
    return y


def linear_backward(
    g: Array, x: Array, weight: Array, need_x: bool = True, need_weight: bool = True, need_bias: bool = True
) -> tuple[Array | None, Array | None, Array | None]:
    """Gradients of `linear` for x (M, K), weight (N, K) and bias (N,), given g (M, N); None for those not needed.

    Of bfloat16, that of x is bfloat16, too, and the others are float32, for the caller to round.
    """
    if g.shape != (len(x), len(weight)) or x.shape[1:] != weight.shape[1:]:
        raise _do_not_fit("linear_backward", "g (M, N), x (M, K), weight (N, K)", g, x, weight)
    on_tiles = need_x and need_weight and _matrix_tiles.AVAILABLE
    if on_tiles and g.dtype == x.dtype == weight.dtype == FLOAT32:
        at_once = linear_gradients_in_pieces(g, x, weight, need_bias)
        if at_once is not None:
            return at_once[0], at_once[1], at_once[2] if need_bias else None
    if all(a.dtype == FLOAT32 for a in (g, x, weight)) and _wants_pairs(g.dtype, 1, *g.shape, x.shape[1]):
        return _linear_backward_in_pairs(g, x, weight, need_x, need_weight, need_bias)
    halves = all(is_bfloat16(a.dtype) for a in (g, x, weight))
    if halves:
        dx = product_of_bfloat16(g, weight, rounded=True) if need_x else None
    else:
        g, x, weight = (cast(a, np.float32) if is_bfloat16(a.dtype) else a for a in (g, x, weight))
        dx = matmul(g, weight) if need_x else None
    if need_weight and _matrix_tiles.AVAILABLE and g.dtype != FLOAT64:
        found = weight_gradient_in_pieces(bits(g), bits(x), need_bias)
        if found is not None:
            return dx, found[0], found[1] if need_bias else None
    dbias = sum_rows(g) if need_bias else None
    product = product_of_bfloat16 if halves else matmul
    return dx, product(g.T, x) if need_weight else None, dbias


def _linear_backward_in_pairs(
    g: Array, x: Array, weight: Array, need_x: bool, need_weight: bool, need_bias: bool
) -> tuple[Array | None, Array | None, Array | None]:
    dx = np.empty(x.shape, FLOAT32) if need_x else None
    dweight = np.empty(weight.shape, FLOAT32) if need_weight else None
    halves = rounded_bits(g)
    if dx is not None:
        _multiply_pairs(halves, rounded_bits(weight), (), dx)
    if dweight is not None:
        _multiply_pairs(halves.T, rounded_bits(x), (), dweight)
    return dx, dweight, sum_rows(g) if need_bias else None


def linear_backward_reference(g: Array, x: Array, weight: Array) -> tuple[Array, Array, Array]:
    """The plain formulas of `linear_backward`."""
    return np.matmul(g, weight), np.matmul(g.T, x), g.sum(0)


def _do_not_fit(name: str, wanted: str, *arrays: Array | None) -> ValueError:
    """Kernels do not check bounds: an array that is too small would be read beyond its end."""
    found = ", ".join(str(array.shape) for array in arrays if array is not None)
    return ValueError(f"{name}: the shapes of {wanted} must fit, got {found}")


def _is_small(items: int, M: int, N: int, K: int) -> bool:
    """Whether the product is left to NumPy."""
    return items * M * N * K <= (SMALL if M > 1 and N > 1 else SMALL_VECTOR)


def _blas_reads(x: Array) -> bool:
    """Whether NumPy gives matrices to BLAS as they lie, also transposed or cut from others; if not, it is slow."""
    flags = x.flags
    if flags.c_contiguous or (flags.f_contiguous and x.ndim == 2):
        return True
    (rows, columns), (row, column), size = x.shape[-2:], x.strides[-2:], x.itemsize
    return (column == size and row >= columns * size) or (row == size and column >= rows * size)

"""Choosing between two values at each place, against np.where."""

import ml_dtypes
import numpy as np
import pytest

from tinygrad_tf.kernels.select import select

DTYPES = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.int64, np.uint8, bool, np.complex64]


def values(shape, dtype, seed=0):
    return np.random.default_rng(seed).integers(-5, 5, shape).astype(dtype)


def mask(shape):
    return np.random.default_rng(9).random(shape) < 0.5


def check(condition, a, b):
    got, want = select(condition, a, b), np.where(condition, a, b)
    assert got.dtype == want.dtype and got.shape == want.shape and got.tobytes() == want.tobytes()


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize("shape", [(7,), (3, 5), (2, 130, 257)])
def test_of_two_arrays_and_of_an_array_and_a_number(shape, dtype):
    a, b, condition = values(shape, dtype), values(shape, dtype, 1), mask(shape)
    number = np.dtype(dtype).type(1)
    for one, other in ((a, b), (a, number), (number, b), (np.asarray(number), b)):
        check(condition, one, other)
    for small in (condition[..., :1], condition[0] if len(shape) > 1 else condition):
        check(small, a, b)


@pytest.mark.parametrize("number", [0, 0.0, True, -1.5, np.inf, np.nan, np.float64(0.1), 2**40])
def test_a_number_has_the_dtype_that_numpy_gives_it(number):
    for dtype in (np.float32, np.float64, np.int64, bool):
        check(mask((4, 5)), values((4, 5), dtype), number)
        check(mask((4, 5)), number, values((4, 5), dtype))


def test_what_lies_otherwise_or_is_broadcast_is_chosen_as_well():
    a, b, condition = values((6, 8), np.float32), values((6, 8), np.float32, 1), mask((6, 8))
    check(condition.T, a.T, b.T)
    check(condition[:, ::2], a[:, ::2], b[:, 1::2])
    check(condition, a[:1], b)
    check(condition, a[:, :1], 0.0)
    check(mask((2, 6, 8)), a, b)
    check(mask((2, 1, 8)), a, 0.0)
    check(condition, a, b.astype(np.float64))
    check(np.asarray(True), a, b)
    check(condition[:0], a[:0], b[:0])
    check(mask(3), np.float32(1), 2.0)


def test_nan_is_moved_bit_by_bit():
    a = np.array([0x7FC00001, 0x7F800002, 0xFFC00003], np.uint32).view(np.float32)
    got = select(np.array([True, True, False]), a, a[::-1].copy())
    assert got.view(np.uint32).tolist() == [0x7FC00001, 0x7F800002, 0x7FC00001]


def test_a_number_that_an_integer_cannot_hold_is_refused():
    with pytest.raises(OverflowError):
        select(mask(4), values(4, np.uint8), 300)

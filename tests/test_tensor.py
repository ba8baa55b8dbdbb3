"""How tensors behave: views, indices, in-place writes, dtypes, printing, conversions and errors, as PyTorch's do."""

from __future__ import annotations

import copy
import math
import operator
import pickle
import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinygrad_tf as tg
from tinygrad_tf import Tensor

# --- dtypes -----------------------------------------------------------------------------------------------------------

DTYPES = [tg.bool, tg.uint8, tg.int8, tg.int16, tg.int32, tg.int64, tg.float16, tg.bfloat16, tg.float32, tg.float64]


def test_dtypes_are_named_as_in_pytorch_and_taken_by_numpy() -> None:
    assert str(tg.float32) == "torch.float32" and repr(tg.long) == "torch.int64"
    assert tg.float is tg.float32 and tg.half is tg.float16 and tg.int is tg.int32
    assert np.zeros(2, tg.float16).dtype == np.float16 and np.dtype("int32") == tg.int32 and tg.int32 == np.int32
    assert tg.float32.itemsize == 4 and tg.bfloat16.is_floating_point and not tg.uint8.is_signed
    assert pickle.loads(pickle.dumps(tg.bfloat16)) is tg.bfloat16 and {tg.float32: 1}[np.dtype("float32")] == 1
    assert tg.float32 != tg.float64 and tg.float32 != "float32"


def test_limits_of_dtypes() -> None:
    assert tg.finfo(tg.bfloat16).eps == 2.0**-7 and tg.finfo().max == float(np.finfo(np.float32).max)
    assert (tg.iinfo(tg.int8).min, tg.iinfo(tg.int8).max) == (-128, 127)
    with pytest.raises(TypeError, match="iinfo"):
        tg.finfo(tg.int8)


# PyTorch 2.13's table; b bool, u uint8, i int32, l int64, h float16, g bfloat16, f float32, d float64
KINDS = (tg.bool, tg.uint8, tg.int32, tg.int64, tg.float16, tg.bfloat16, tg.float32, tg.float64)
LETTERS = dict(zip("builhgfd", KINDS, strict=True))
PROMOTED = {
    "bu": "u",
    "ui": "i",
    "il": "l",
    "lh": "h",
    "hg": "f",
    "gf": "f",
    "fd": "d",
    "bd": "d",
    "lf": "f",
    "ug": "g",
}


@pytest.mark.parametrize("pair", PROMOTED)
def test_promotion_of_tensors(pair: str) -> None:
    a, b = (tg.ones(2, dtype=LETTERS[c]) for c in pair)
    wanted = LETTERS[PROMOTED[pair]]
    assert (a + b).dtype is wanted and (b * a).dtype is wanted and tg.promote_types(a.dtype, b.dtype) is wanted


def test_promotion_with_numbers_and_0d_tensors() -> None:
    whole, half = tg.tensor([1, 2]), tg.ones(2, dtype=tg.half)
    assert (whole + 1).dtype is tg.int64 and (whole + 1.5).dtype is tg.float32 and (whole / 2).dtype is tg.float32
    assert (half * 2.5).dtype is tg.half and (half + tg.tensor(2.0)).dtype is tg.half
    assert (half + np.float64(2.0)).dtype is tg.half and (np.float64(2.0) * half).dtype is tg.half
    assert (whole * tg.tensor(2.5)).dtype is tg.float32 and (tg.tensor([True]) + tg.tensor([True])).dtype is tg.bool
    assert (tg.tensor([1], dtype=tg.uint8) + 300).tolist() == [45]
    assert tg.tensor([2, 3]).pow(tg.tensor([-1, 2])).tolist() == [0, 9]


@pytest.mark.parametrize("dtype", [tg.float16, tg.bfloat16], ids=str)
def test_16_bit_tensors_compute_in_float32_and_stay_16_bit(dtype: object) -> None:
    x = tg.full((3, 400), 300.0, dtype=dtype, requires_grad=True)
    assert x.mean().item() == 300.0  # the sum alone would overflow float16
    out = (x @ x.t() / 1e6).sum() + x.norm() + x.std(1).sum()
    assert out.dtype is dtype
    out.backward()
    assert x.grad.dtype is dtype and bool(x.grad.isfinite().all())


@pytest.mark.parametrize("dtype", [tg.uint8, tg.int32, tg.int64, tg.float16, tg.float64], ids=str)
def test_totals_have_the_dtype_that_was_asked_for(dtype: tg.dtype) -> None:
    x = tg.tensor([[1.0, 200.0]])
    for total in (x.sum(dtype=dtype), x.prod(1, dtype=dtype), x.cumsum(1, dtype=dtype), x.cumprod(-1, dtype=dtype)):
        assert total.dtype is dtype and 200 <= total.flatten()[-1].item() <= 201
    assert x.nansum(dtype=dtype).dtype is dtype and x.sum(dtype=tg.bool).item() is True


def test_small_integers_meet_a_larger_dtype_before_they_overflow() -> None:
    a, one = tg.tensor([200], dtype=tg.uint8), tg.ones(1, dtype=tg.float64)
    assert tg.addcmul(one, a, a).tolist() == [40001.0] and tg.addcmul(one, a, a, value=2).tolist() == [80001.0]
    assert one.add(a, alpha=2).tolist() == [401.0] and one.sub(a, alpha=2).tolist() == [-399.0]
    assert one.half().sub(tg.tensor([200]), alpha=0.5).dtype is tg.half  # as without alpha
    np.testing.assert_allclose(tg.hypot(a, one * 100).numpy(), math.hypot(200, 100))
    with pytest.raises(RuntimeError, match="sub: not for bool"):
        tg.tensor([True]).sub(a, alpha=2)
    x = tg.tensor([100.0], dtype=tg.float64, requires_grad=True)
    tg.atan2(a, x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [-200 / (200**2 + 100**2)])
    x = tg.tensor([1.5], dtype=tg.float64, requires_grad=True)
    (a**x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [200**1.5 * math.log(200)], rtol=1e-14)


def test_default_dtype_can_be_chosen() -> None:
    tg.set_default_dtype(tg.float64)
    try:
        assert (
            tg.tensor([0.5]).dtype is tg.float64
            and tg.ones(2).dtype is tg.float64
            and (tg.arange(2) / 2).dtype is tg.float64
        )
        assert repr(tg.tensor([0.5])) == "tensor([0.5000])"
    finally:
        tg.set_default_dtype(tg.float32)
    with pytest.raises(TypeError, match="floating point"):
        tg.set_default_dtype(tg.int64)


def test_import_brings_neither_numba_nor_bfloat16() -> None:
    code = "import sys, tinygrad_tf; print([m for m in ('numba', 'ml_dtypes', 'rich', 'torch') if m in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )


# --- making -----------------------------------------------------------------------------------------------------------


def test_tensor_infers_pytorchs_dtype() -> None:
    assert tg.tensor([True, 2]).dtype is tg.int64 and tg.tensor([1, 2.5]).dtype is tg.float32
    assert tg.tensor([0.5, np.float64(2)]).dtype is tg.float64 and tg.tensor([[1], [np.float64(2)]]).dtype is tg.float64
    assert tg.tensor([np.float32(2), 1]).dtype is tg.float32 and tg.tensor([np.float64(2)]).dtype is tg.float64
    assert tg.tensor([tg.tensor(1.0), 2]).dtype is tg.float32 and tg.tensor([]).dtype is tg.float32
    assert tg.tensor([0.1], dtype=tg.float64).item() == 0.1
    array = np.zeros(2)
    tg.tensor(array)[0] = 1.0
    tg.from_numpy(array)[1] = 1.0
    assert array.tolist() == [0.0, 1.0]


@pytest.mark.parametrize("make", [tg.tensor, tg.as_tensor, tg.Tensor, tg.FloatTensor, tg.ones(1).new_tensor])
def test_a_tensor_in_a_list_is_its_one_element(make: Callable[[object], Tensor]) -> None:
    one, two = tg.tensor([1.0]), tg.tensor([[2.0]], requires_grad=True)
    assert make([one, two, 3]).tolist() == [1.0, 2.0, 3.0] and make([[one], [two]]).tolist() == [[1.0], [2.0]]
    with pytest.raises(ValueError, match=r"only tensors of one element .* got the shape \(2,\); see stack"):
        make([tg.ones(2), tg.ones(2)])


def test_numbers_that_are_infinite_or_assigned_fit_into_16_bits_as_in_pytorch() -> None:
    x, mask = tg.zeros(2, dtype=tg.float16), tg.tensor([True, False])
    assert x.masked_fill(mask, -math.inf).tolist() == [-math.inf, 0.0] and x.masked_fill(mask, 65504).max() == 65504
    assert math.isnan(tg.full((1,), math.nan, dtype=tg.float16).item())
    x[0] = -1e9
    assert x.tolist() == [-math.inf, 0.0] and x.bfloat16().masked_fill(mask, -1e9).min() < -0.9e9


def test_old_constructors_are_types() -> None:
    """As in PyTorch: code asks isinstance(x, torch.LongTensor), and writes them in hints."""
    assert isinstance(tg.ones(2), tg.FloatTensor) and isinstance(tg.nn.Parameter(tg.ones(2)), tg.FloatTensor)
    assert not isinstance(tg.ones(2), (tg.LongTensor, tg.DoubleTensor)) and not isinstance(1.0, tg.FloatTensor)
    assert (tg.LongTensor | None).__args__ == (tg.LongTensor, type(None)) and isinstance(tg.LongTensor, type)
    assert pickle.loads(pickle.dumps(tg.LongTensor)) is tg.LongTensor


def test_old_constructors() -> None:
    assert tg.Tensor(2, 3).shape == (2, 3) and tg.Tensor([1, 2]).dtype is tg.float32
    assert tg.LongTensor([[1, 2]]).dtype is tg.int64 and tg.FloatTensor(2, 3).shape == (2, 3)
    x = tg.ones(2, requires_grad=True)
    (tg.Tensor(x) * 3).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0] and not tg.Tensor(tg.ones(2)).requires_grad
    assert tg.ones(1).type() == "torch.FloatTensor" and tg.ones(1).type("torch.LongTensor").dtype is tg.int64


HALF = tg.zeros(2, dtype=tg.float16)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: tg.tensor([[1, 2], [3]]), ValueError, "same length"),
        (lambda: tg.tensor("abc"), TypeError, "got str"),
        (lambda: tg.tensor(None), TypeError, "got None"),
        (lambda: tg.tensor(1j), TypeError, "complex128"),
        (lambda: tg.zeros(-1), RuntimeError, "negative"),
        (lambda: tg.zeros(2.0), TypeError, "integers"),
        (lambda: tg.arange(5, 1), RuntimeError, "no step of 1"),
        (lambda: tg.ones(2, device="cuda"), AssertionError, "runs on the CPU alone"),
        (lambda: tg.exp(2.0), TypeError, "exp: input must be a tensor, got float"),
        (lambda: tg.ones(2, 3) + tg.ones(4, 3), RuntimeError, r"add: shapes \(2, 3\) and \(4, 3\)"),
        (lambda: tg.ones(2, 3) @ tg.ones(2, 3), RuntimeError, "3 against 2"),
        (lambda: tg.ones(2) @ tg.ones(2, dtype=tg.float64), RuntimeError, "float32 and float64"),
        (lambda: tg.ones(2, 3).sum(2), IndexError, r"sum: dim must be in \[-2, 1\]"),
        (lambda: tg.ones(3)[3], IndexError, "index 3"),
        (lambda: tg.ones(3)[0, 0], IndexError, "too many"),
        (lambda: tg.ones(3)[::-1], ValueError, "positive"),
        (lambda: tg.ones(3)[tg.ones(2)], IndexError, "float32"),
        (lambda: tg.ones(2, 3).view(4), RuntimeError, "does not fit 6"),
        (lambda: tg.ones(2, 3).t().view(6), RuntimeError, "reshape"),
        (lambda: tg.ones(3).expand(2, 4), RuntimeError, "expand"),
        (lambda: tg.cat([tg.ones(2, 3), tg.ones(2, 4)]), RuntimeError, "cat: sizes must agree"),
        (lambda: HALF.masked_fill(HALF == 0, -1e9), RuntimeError, "-1.* does not fit into float16, .* use -inf"),
        (lambda: HALF.clone().fill_(1e5), RuntimeError, "fill_: 100000.0 does not fit into float16"),
        (lambda: HALF.index_fill(0, tg.tensor([0]), -70000), RuntimeError, "index_fill: -70000 does not fit"),
        (lambda: tg.full((2,), 65505, dtype=tg.float16), RuntimeError, "full: 65505 does not fit into float16"),
        (lambda: tg.full((2,), 1e39), RuntimeError, r"full: 1e\+39 does not fit into float32"),
        (lambda: tg.nn.functional.pad(HALF, (1, 1), value=1e9), RuntimeError, "pad: .* does not fit into float16"),
        (lambda: HALF.clamp(max=1e9), RuntimeError, "clamp: 1000000000.0 does not fit into float16"),
        (lambda: tg.ones(2).long().add(1, alpha=0.5), RuntimeError, "add: integers need an integer for alpha, got 0.5"),
        (lambda: tg.linspace(0, 1e39, 3), RuntimeError, r"linspace: end: 1e\+39 does not fit into float32"),
        (lambda: tg.stack([]), RuntimeError, "at least one"),
        (lambda: tg.cat([]), ValueError, "at least one"),
        (lambda: tg.ones(4).split(2.5), TypeError, "split: split_size must be a whole number, got 2.5"),
        (lambda: tg.ones(4).split([1, "3"]), TypeError, "an element of split_size must be a whole number, got '3'"),
        (lambda: tg.ones(4).chunk("2"), TypeError, "chunk: chunks must be a whole number, got '2'"),
        (lambda: tg.ones(4).tensor_split(None), TypeError, "indices_or_sections must be a whole number, got None"),
        (lambda: tg.ones(4).narrow(0, 0, 2.5), TypeError, "narrow: length must be a whole number, got 2.5"),
        (lambda: tg.ones(4).select(0, "a"), TypeError, "select: index must be a whole number, got 'a'"),
        (lambda: tg.ones(4).unflatten(0, ("a", 2)), TypeError, "unflatten: sizes must be integers"),
        (lambda: tg.tensor([1, 2]).mean(), RuntimeError, r"x\.float\(\)\.mean\(\)"),
        (lambda: tg.ones(2).topk(3), RuntimeError, r"k must be in \[0, 2\]"),
        (lambda: tg.ones(0).max(), RuntimeError, "no elements"),
        (lambda: tg.ones(2).item(), RuntimeError, "one element"),
        (lambda: bool(tg.ones(2)), RuntimeError, "ambiguous"),
        (lambda: tg.where(tg.ones(3) > 0, tg.ones(2), 0.0), RuntimeError, r"shapes \(3,\) and \(2,\) do not broadcast"),
        (lambda: tg.ones(2).masked_fill(tg.ones(3) > 0, 0.0), RuntimeError, r"masked_fill.*shapes \(2,\) and \(3,\)"),
        (lambda: f"{tg.ones(2):.2f}", TypeError, "format '.2f' is for one number, got a tensor of"),
        (lambda: tg.ones(2, 2).sum(tg.ones(2, 2)), TypeError, r"dim must be an integer, got Tensor of shape \(2, 2\)"),
        (lambda: tg.ones(2).view(tg.ones(2, 2), 1), TypeError, r"got \(Tensor of shape \(2, 2\), 1\)"),
        (lambda: tg.ones(2, 2).chunk(tg.ones(2, 2)), TypeError, r"whole number, got Tensor of shape \(2, 2\)"),
        (lambda: tg.ones(2, 2).tril(tg.ones(2, 2)), TypeError, r"diagonal must be an integer, got Tensor of shape"),
        (lambda: 1 - tg.tensor([True]), RuntimeError, "bool"),
        (lambda: tg.tensor([1]) // 0, RuntimeError, "division by zero"),
        (lambda: tg.where(tg.tensor([1]), 1.0, 2.0), RuntimeError, "compare first"),
        (lambda: tg.einsum("ij,jk", tg.ones(2, 3), tg.ones(2, 3)), RuntimeError, "'j'.*3 and 2"),
        (lambda: tg.einsum("ij->ik", tg.ones(2, 3)), RuntimeError, "'k'"),
        (lambda: tg.ones(2).gather(0, tg.tensor([2])), RuntimeError, r"\[0, 1\]"),
        (lambda: tg.ones(2).scatter(0, tg.tensor([0])), TypeError, "src must be a tensor or a number, got NoneType"),
        (lambda: tg.ones(3).index_add(0, tg.tensor([0, 1]), tg.ones(3)), RuntimeError, r"the shape \(2,\), .* \(3,\)"),
        (lambda: tg.ones(3, 2).index_copy(0, tg.tensor([0, 1]), tg.ones(2)), RuntimeError, r"\(2, 2\), .* got \(2,\)"),
        (lambda: tg.arange(2).index_copy(0, tg.tensor([0]), tg.ones(1)), RuntimeError, "int64, got float32; cast"),
        (lambda: tg.ones(3).index_fill(0, tg.tensor([0]), tg.ones(2)), RuntimeError, "value must be a number"),
        (lambda: tg.arange(2).masked_scatter(tg.tensor([True, True]), tg.ones(2)), RuntimeError, "dtype of the tensor"),
        (lambda: tg.ones(2).index_put((tg.tensor([9]),), tg.tensor(1.0)), IndexError, "index_put: index 9"),
        (lambda: tg.ones(2).index_put(tg.tensor([0]), tg.tensor(1.0)), TypeError, r"write \(index,\)"),
        (lambda: tg.ones(2).index_put((tg.tensor([0]),), tg.ones(3), True), RuntimeError, "index_put: .*broadcast"),
        (lambda: tg.ones(2).take(tg.tensor([-3])), IndexError, r"take: index must be in \[-2, 1\]"),
        (lambda: tg.ones(2, 2).take_along_dim(tg.tensor([0]), 0), RuntimeError, "as many dimensions"),
        (lambda: tg.ones(2, 3).masked_fill(tg.ones(2, 3), 0.0), RuntimeError, "bool"),
        (lambda: tg.linalg.inv(tg.zeros(2, 2)), RuntimeError, "Singular"),
        (lambda: tg.ones(2).add_(tg.ones(2, 2)), RuntimeError, "does not fit in place"),
        (lambda: tg.tensor([1]).add_(0.5), RuntimeError, "int64; use add"),
        (lambda: tg.ones(1).expand(3).mul_(2), RuntimeError, "clone"),
        (lambda: tg.ones(2, requires_grad=True).numpy(), RuntimeError, "detach"),
        (lambda: tg.ones(2, requires_grad=True).mul_(2), RuntimeError, "leaf"),
    ],
)
def test_errors_name_the_operation_and_what_came(call: object, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()  # type: ignore[operator]


def test_a_missing_name_says_so() -> None:
    with pytest.raises(AttributeError, match=r"tinygrad_tf has no torch\.fx"):
        tg.fx  # noqa: B018


# --- views and indices ------------------------------------------------------------------------------------------------

VIEWS = {
    "view": lambda x: x.view(-1),
    "reshape": lambda x: x.reshape(4, 3),
    "transpose": lambda x: x.transpose(0, 1),
    "T": lambda x: x.T,
    "permute": lambda x: x.permute(1, 0),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "slice": lambda x: x[1:, ::2],
    "one element": lambda x: x[1, 2],
    "row": lambda x: x[1],
    "narrow": lambda x: x.narrow(1, 1, 2),
    "select": lambda x: x.select(1, -1),
    "split": lambda x: x.split(2, 1)[1],
    "chunk": lambda x: x.chunk(2)[0],
    "unbind": lambda x: x.unbind(1)[2],
    "diagonal": lambda x: x.diagonal(),
    "unfold": lambda x: x.unfold(1, 2, 2),
    "as_strided": lambda x: x.as_strided((2, 2), (4, 1), 1),
    "detach": lambda x: x.detach(),
    "data": lambda x: x.data,
    "flatten": lambda x: x.flatten(),
    "unflatten": lambda x: x.unflatten(1, (2, 2)),
    "iteration": lambda x: list(x)[2],
    "contiguous": lambda x: x.contiguous(),
    "numpy": lambda x: tg.from_numpy(x.numpy()),
}
COPIES = {
    "clone": lambda x: x.clone(),
    "list": lambda x: x[[0, 1]],
    "mask": lambda x: x[x > 0],
    "reshape of a transpose": lambda x: x.t().reshape(-1),
    "flip": lambda x: x.flip(0),
    "index_select": lambda x: x.index_select(0, tg.tensor([0])),
    "tensor": lambda x: tg.tensor(x),
    "repeat": lambda x: x.repeat(1, 1),
    "diag": lambda x: x.diag(),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_share_memory(name: str) -> None:
    x = tg.arange(12.0).reshape(3, 4)
    part = VIEWS[name](x)
    before = x.sum().item()
    part.add_(1.0)
    assert x.sum().item() == before + part.numel()


@pytest.mark.parametrize("name", COPIES)
def test_copies_do_not(name: str) -> None:
    x = tg.arange(12.0).reshape(3, 4)
    COPIES[name](x).add_(1.0)
    assert x.tolist() == tg.arange(12.0).reshape(3, 4).tolist()


def test_integers_beside_index_arrays_are_looked_up_first() -> None:
    """NumPy would put the array's axis first: (2, 3)."""
    x = tg.arange(24).reshape(2, 3, 4)
    assert x[0, :, [0, 1]].shape == (3, 2) and x[0, :, tg.tensor([0, 1])].tolist() == x[0][:, :2].tolist()
    assert x[tg.tensor(1), :, [0, 1]].shape == (3, 2) and x[[0], :, [1]].shape == (1, 3)
    x[1, :, [0, 3]] = tg.tensor([-1, -2])
    assert x[1].tolist() == [[-1, 13, 14, -2], [-1, 17, 18, -2], [-1, 21, 22, -2]]


def test_other_forms_of_indices() -> None:
    x = tg.arange(12).reshape(3, 4)
    assert x[..., None, 1].shape == (3, 1) and x[None, ..., -1].shape == (1, 3) and x[True].shape == (1, 3, 4)
    assert x[np.int64(1), tg.tensor(2)].item() == 6 and x[range(2), 0].tolist() == [0, 4]
    assert x[tg.tensor([1, 0, 1], dtype=tg.uint8)].shape == (2, 4) and x[x > 9].tolist() == [10, 11]
    assert x[[[0, 1], [2, 0]], 1].tolist() == [[1, 5], [9, 1]] and x[:, tg.tensor([], dtype=tg.int64)].shape == (3, 0)
    x[x > 9] = 0
    x[0, 1:3] = tg.tensor([7.9, -7.9])
    assert x[0].tolist() == [0, 7, -7, 3] and x[2].tolist() == [8, 9, 0, 0]


def test_lists_of_lists_mean_the_tuple_of_them() -> None:
    torch = pytest.importorskip("torch")
    for make in (
        lambda t: [[0, 1], [1, 0]],
        lambda t: [t.tensor([0, 2]), t.tensor([1, 3])],
        lambda t: [t.tensor(1)],
        lambda t: [[0, 2], 1],
        lambda t: [slice(0, 2), None],
        lambda t: [..., 0],
        lambda t: [(0, 1), range(2)],
        lambda t: [[True, False, True]],
        lambda t: [[0, 1]] * 33,
        lambda t: [True, False, True],
        lambda t: ([[0, 1], [1, 0]],),
    ):
        want, got = (t.arange(12).reshape(3, 4)[make(t)] for t in (torch, tg))
        assert got.tolist() == want.tolist()
        x, y = (t.zeros(3, 4) for t in (torch, tg))
        x[make(torch)], y[make(tg)] = 1.0, 1.0
        assert x.tolist() == y.tolist()


def test_what_is_written_at_index_tensors_has_their_tensors_dtype() -> None:
    """As in PyTorch, which casts what is written into slices, and nothing else."""
    x, mask = tg.zeros(3), tg.tensor([True, False, True])
    x[mask], x[1:] = tg.tensor([2]), tg.tensor([3, 4])
    assert x.tolist() == [2.0, 3.0, 4.0]
    for key, value in ((mask, tg.tensor([1, 2])), (tg.tensor([0, 1]), tg.tensor(1)), ([0, 1], tg.ones(2).double())):
        with pytest.raises(RuntimeError, match="setitem: values at index tensors must have dtype float32, got"):
            x[key] = value
    with pytest.raises(IndexError, match=r"must be int64, int32, uint8 or bool, got int16; use .long\(\)"):
        x[tg.tensor([0, 1], dtype=tg.int16)]


def test_a_second_ellipsis_stands_for_no_axes_as_in_pytorch() -> None:
    torch = pytest.importorskip("torch")
    indices: list[Any] = [(..., ...), (0, ..., ...), (1, ..., 0, ...), (0, ..., 1, ..., 0), ([1, 0], ..., ...)]
    for index in indices:
        found: list[Any] = []
        for t in (torch, tg):
            x = t.arange(12.0).reshape(2, 3, 2).requires_grad_()
            (x[index] ** 2).sum().backward()
            written = t.zeros(2, 3, 2)
            written[index] = 5.0
            found.append((x[index].tolist(), x.grad.tolist(), written.tolist()))
        assert found[0] == found[1], index
    for t in (torch, tg):
        with pytest.raises(IndexError):
            t.zeros(2, 3, 2)[..., ..., 0]


def test_any_sequence_is_an_index_as_a_list_is() -> None:
    """Such as a part of a dataset of indices, by which examples are split."""
    x, numbers = tg.arange(20).view(4, 5), tg.utils.data.Subset([3, 1, 0], [2, 0])
    assert x[numbers].tolist() == x[[0, 3]].tolist() and x[1, numbers].tolist() == [5, 8]
    assert x[tg.utils.data.Subset(tg.arange(3), [2, 0])].item() == x[[tg.tensor(2), tg.tensor(0)]].item() == 10
    x[numbers] = 0
    assert x.sum(1).tolist() == [0, 35, 60, 0]
    for wrong in ("ab", {1: 2}, {1, 2}):
        with pytest.raises(IndexError, match="an index is made of"):
            _ = x[wrong]


def test_truths_beside_integers_are_index_arrays() -> None:
    """True is one more axis, which meets the other arrays; what is written there is not written into a copy."""
    x = tg.arange(12).reshape(3, 4)
    assert x[0, True, [1, 2]].shape == (2,) and x[:, True, [1, 2], None].shape == (3, 2, 1)
    assert x[False, 0].shape == (0, 4) and x[None, True, 0, [0]].shape == (1, 1)
    x[0, True, [1, 2]] = 9
    x[True, 1] += 10
    x[2, True, 0, True] *= 3
    assert x.tolist() == [[0, 9, 9, 3], [14, 15, 16, 17], [24, 9, 10, 11]]
    v = tg.arange(3.0)
    v[True, 0] = 7.0
    assert v.tolist() == [7.0, 1.0, 2.0]
    with pytest.raises(IndexError, match="broadcast"):
        x[[0, 1, 2], False, 1]


def test_integers_that_floats_are_written_into_have_no_graph() -> None:
    x = tg.tensor([1.5, -2.5], requires_grad=True)
    for write in (
        lambda y: y.__setitem__(0, x),
        lambda y: y[0].copy_(x),
        lambda y: y.index_fill_(1, tg.tensor([1]), 3),
    ):
        whole = tg.zeros(2, 2, dtype=tg.int64)
        write(whole)
        assert not whole.requires_grad and whole.grad_fn is None
    assert tg.zeros(2, dtype=tg.int64).copy_(x).tolist() == [1, -2]


def test_numbers_written_into_integers_have_to_fit() -> None:
    x = tg.zeros(3, dtype=tg.uint8)
    x[0], x[1] = -1, 2.7
    assert x.tolist() == [255, 2, 0]
    assert tg.zeros(1, dtype=tg.int64).fill_(-(2**63)).item() == -(2**63)
    for number in (300, -300, math.inf, math.nan):
        with pytest.raises(RuntimeError, match=f"setitem: {number} does not fit into uint8, which ends at 255"):
            x[0] = number


def test_parts_are_counted_in_whole_numbers_of_any_kind() -> None:
    x = tg.arange(6)
    for two in (2, np.int64(2), tg.tensor(2)):
        assert [len(p) for p in x.split(two)] == [2, 2, 2] and [len(p) for p in x.chunk(two)] == [3, 3]
        assert [len(p) for p in x.tensor_split(two)] == [3, 3] and x.narrow(0, two, two).tolist() == [2, 3]
    for places in ((1, 5), np.array([1, 5]), tg.tensor([1, 5])):
        assert [len(p) for p in x.split(places)] == [1, 5]
        assert [len(p) for p in x.tensor_split(places)] == [1, 4, 1]


def test_places_counted_from_the_end_where_pytorch_counts_so() -> None:
    x = tg.arange(6).reshape(2, 3)
    assert x.take(tg.tensor([-1, 0])).tolist() == [5, 0] and tg.tensor(7).take(tg.tensor([-1, 0])).tolist() == [7, 7]
    assert x.take_along_dim(tg.tensor([[-1, 0]]), 1).tolist() == [[2, 0], [5, 3]]
    assert x.index_fill(1, tg.tensor([-1]), 9).tolist() == [[0, 1, 9], [3, 4, 9]]


@pytest.mark.parametrize("dtype", [tg.int64, tg.int32, tg.uint8, tg.float32, tg.bfloat16])
@pytest.mark.parametrize(
    ("reduce", "with_own", "without"),
    [
        ("sum", [10, 6, 12], [5, 6, 5]),
        ("mean", [3, 6, 6], [2, 6, 5]),
        ("prod", [30, 6, 35], [6, 6, 5]),
        ("amax", [5, 6, 7], [3, 6, 5]),
        ("amin", [2, 6, 5], [2, 6, 5]),
    ],
)
def test_scatter_reduce_keeps_the_dtype(dtype: tg.dtype, reduce: str, with_own: list[int], without: list[int]) -> None:
    """Means of integers are rounded down; nothing but the numbers themselves is an extreme, whatever the dtype."""
    x, src = (tg.tensor(values, dtype=dtype) for values in ([5, 6, 7], [2, 3, 5]))
    for include_self, wanted in ((True, with_own), (False, without)):
        out = x.scatter_reduce(0, tg.tensor([0, 0, 2]), src, reduce, include_self=include_self)
        assert out.dtype == dtype
        assert [int(v) for v in out.tolist()] == wanted


def test_extremes_that_meet_share_their_gradient() -> None:
    x = tg.tensor([2.0, math.nan, 3e38], requires_grad=True)
    src = tg.tensor([2.0, 2.0, 5.0, 3e38], requires_grad=True)
    out = x.scatter_reduce(0, tg.tensor([0, 0, 1, 2]), src, "amax")
    assert out[0].item() == 2.0 and math.isnan(out[1]) and out[2].item() == x[2].item()
    (out[::2] * tg.tensor([6.0, 1.0])).sum().backward()
    assert x.grad.tolist() == [2.0, 0.0, 0.5] and src.grad.tolist() == [2.0, 2.0, 0.0, 0.5]


def test_writing_into_what_is_needed_later_is_noticed_and_elsewhere_allowed() -> None:
    x = tg.ones(3, requires_grad=True)
    y = x * 2.0
    z = y * y
    y[0] = 0.0
    with pytest.raises(RuntimeError, match="changed in place"):
        z.sum().backward()
    y = x * 2.0
    z = y + 1.0  # needs no values
    y.zero_()
    z.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0, 2.0]


def test_in_place_forms_return_the_tensor_and_keep_its_memory() -> None:
    x = tg.tensor([0.5, -0.25])
    memory = x.data_ptr()
    for name, arguments in [
        ("add_", (1,)),
        ("mul_", (2,)),
        ("exp_", ()),
        ("clamp_", (0, 9)),
        ("neg_", ()),
        ("pow_", (2,)),
        ("sqrt_", ()),
    ]:
        assert getattr(x, name)(*arguments) is x and x.data_ptr() == memory
    x += 1
    x //= 2
    assert x.data_ptr() == memory and Tensor.add_.__name__ == "add_"


def test_shape_changes_in_place() -> None:
    x = tg.zeros(2, 3)
    assert x.unsqueeze_(0) is x and x.shape == (1, 2, 3) and x.squeeze_(0).t_().shape == (3, 2)
    with pytest.raises(RuntimeError, match="leaf"):
        tg.ones(2, requires_grad=True).unsqueeze_(0)


# --- to Python and NumPy ----------------------------------------------------------------------------------------------


def test_python_protocols() -> None:
    n, x = tg.tensor(2), tg.tensor([1.0, 2.0])
    assert list(range(5))[n] == 2 and "abc"[n] == "c" and int(n) == 2 and float(x[0]) == 1.0 and f"{x[1]:.2f}" == "2.00"
    assert "%d" % n == "2"  # noqa: UP031
    assert len(x) == 2 and 2.0 in x and [v.item() for v in x] == [1.0, 2.0]
    a, b = x
    assert (a + b).item() == 3.0 and {x: 1}[x] == 1 and x.clone() not in {x: 1}
    with pytest.raises(TypeError, match="0-d"):
        len(n)


def test_numpy_functions_take_tensors() -> None:
    x = tg.tensor([1.0, 4.0])
    assert isinstance(np.sqrt(x), Tensor) and np.sqrt(x).tolist() == [1.0, 2.0] and np.asarray(x) is not x
    made = np.float64(2.0) * x.requires_grad_()
    assert isinstance(made, Tensor) and made.requires_grad and made.dtype is tg.float32
    assert isinstance(np.ones(2) - x, Tensor) and (np.array([1.0, 5.0]) < x).tolist() == [False, False]


def test_pickle_and_deepcopy() -> None:
    x = tg.ones(2, dtype=tg.bfloat16, requires_grad=True)
    for twin in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert twin.requires_grad and twin.dtype is tg.bfloat16 and twin.tolist() == [1.0, 1.0] and twin is not x
    with pytest.raises(RuntimeError, match="leaf"):
        copy.deepcopy(x * 2)


def test_device_is_named_but_only_the_cpu_holds_tensors() -> None:
    x = tg.ones(1)
    assert x.device == tg.device("cpu") and str(x.device) == "cpu" and not x.is_cuda and x.to("cpu") is x
    assert tg.device("cuda:1").index == 1 and repr(tg.device("cuda", 0)) == "device(type='cuda', index=0)"
    with pytest.raises(RuntimeError, match="CPU alone"):
        x.to("cuda")
    with pytest.raises(RuntimeError, match="device must be one of"):
        tg.device("gpu")


# --- values at the edges ----------------------------------------------------------------------------------------------


def test_reductions_of_nothing_and_of_one() -> None:
    none = tg.zeros(0, 3)
    assert none.sum(0).tolist() == [0.0] * 3 and none.prod().item() == 1.0 and none.max(1).values.shape == (0,)
    assert math.isnan(tg.zeros(0).mean()) and math.isnan(tg.zeros(0).median())
    with pytest.warns(UserWarning, match="of 1 elements with correction=1 .*unbiased=False"):
        assert math.isnan(tg.ones(1).std())
    with pytest.warns(UserWarning, match="of 1 elements"):
        assert tg.ones(2, 1).var(1).isnan().all()
    assert tg.ones(1).std(unbiased=False).item() == 0.0
    assert none.any().item() is False and none.all().item() is True and none.argmax(1).shape == (0,)


def test_the_middle_of_all_in_every_dtype() -> None:
    for dtype in (tg.float64, tg.float16, tg.bfloat16, tg.int64, tg.uint8):
        x = tg.tensor([[3, 1], [2, 5]], dtype=dtype)
        assert x.median().dtype == dtype and x.median().item() == 2
    x = tg.tensor([[3.0, 1.0], [2.0, 5.0]], dtype=tg.float64, requires_grad=True)
    assert tg.autograd.gradgradcheck(lambda x: x.median() ** 3, x)


def test_norms_of_negative_order_of_what_is_infinite() -> None:
    assert tg.tensor([math.inf, -math.inf]).norm(-1).item() == math.inf
    assert tg.tensor([2.0, 2.0]).norm(-1).item() == 1.0


def test_nan_is_the_largest() -> None:
    x = tg.tensor([1.0, math.nan, 3.0])
    assert math.isnan(x.max()) and x.argmax().item() == 1 and x.topk(2).indices.tolist() == [1, 2]
    assert x.sort(descending=True).indices.tolist() == [1, 2, 0] and x.sort().indices.tolist() == [0, 2, 1]
    assert math.isnan(x.median()) and math.isnan(x.clamp(0, 1)[1]) and x.nan_to_num(9.0).tolist() == [1.0, 9.0, 3.0]


@pytest.mark.parametrize("name", ["max", "min"])
def test_gradients_of_extremes_that_are_nan(name: str) -> None:
    """max() sends its gradient to the NaN that it is, amax(dim) makes that of its row NaN, as PyTorch does."""
    rows = [[1.0, math.nan, 2.0, math.nan], [3.0, 3.0, 3.0, 3.0]]
    x = tg.tensor(rows, requires_grad=True)
    getattr(x, name)().backward()
    assert x.grad.tolist() == [[0.0, 0.5, 0.0, 0.5], [0.0] * 4]
    x.grad = None
    getattr(x, name)(1).values.sum().backward()
    assert x.grad.tolist() == [[0.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]]
    x.grad = None
    getattr(x, "a" + name)(1).sum().backward(create_graph=True)
    assert bool(x.grad[0].isnan().all()) and x.grad[1].tolist() == [0.25] * 4
    y = tg.tensor([2.0, 2.0, 1.0, 1.0], requires_grad=True)
    getattr(y, name)().backward()
    assert y.grad.tolist() == ([0.5, 0.5, 0.0, 0.0] if name == "max" else [0.0, 0.0, 0.5, 0.5])


def test_logsumexp_of_nothing() -> None:
    x = tg.zeros(2, 0, requires_grad=True)
    assert x.logsumexp(1).tolist() == [-math.inf] * 2 and x.logsumexp(1, keepdim=True).shape == (2, 1)
    assert x.logsumexp((0, 1)).item() == -math.inf and x.logsumexp(0).shape == (0,)
    x.logsumexp(1).sum().backward()
    assert x.grad.shape == (2, 0)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_second_derivative_of_a_softmax_of_nothing(name: str) -> None:
    x = tg.zeros(2, 0, requires_grad=True)
    (first,) = tg.autograd.grad((getattr(x, name)(-1) * x).sum(), x, create_graph=True)
    assert first.shape == (2, 0) and tg.autograd.grad(first.sum(), x)[0].shape == (2, 0)


def test_quantiles_beside_what_is_no_number() -> None:
    """A NaN makes that of its row NaN; infinity stays out of what lies beside it."""
    x = tg.tensor([[1.0, 2.0, math.inf], [1.0, math.nan, 2.0], [3.0, 1.0, 2.0]], requires_grad=True)
    for how in ("linear", "lower", "higher", "midpoint", "nearest"):
        found = x.quantile(0.5, 1, interpolation=how)
        np.testing.assert_array_equal(found.detach().numpy(), [2.0, math.nan, 2.0])
    x.quantile(tg.tensor([0.5, 0.0]), 1, keepdim=True).nansum().backward()
    assert x.grad.nansum().item() == 4.0 and math.isnan(x.quantile(0.3))
    assert tg.tensor(3).quantile(0.5, 0, keepdim=True).tolist() == 3.0  # of integers, a float
    with pytest.raises(RuntimeError, match="quantile: there is none of no elements"):
        tg.zeros(2, 0).quantile(0.5, 1)


def test_squares_of_truths_are_numbers() -> None:
    square = tg.tensor([True, False]).square()
    assert square.dtype is tg.int64 and square.tolist() == [1, 0]


def test_truth_of_empty_dims_and_of_bytes() -> None:
    x = tg.tensor([[1.0, 0.0]])
    assert x.any(dim=()).tolist() == [[True, False]] and x.all(dim=[]).tolist() == [[True, False]]
    assert x.any().tolist() is True and x.squeeze([]).shape == (1, 2)
    bytes_ = tg.tensor([3, 0], dtype=tg.uint8)
    assert bytes_.any().dtype is tg.uint8 and bytes_.all(0).tolist() == 0


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda x: x.transpose(0, 2), IndexError),
        (lambda x: x.unbind(), IndexError),
        (lambda x: x.unique(dim=0), IndexError),
        (lambda x: x.narrow(0, 0, 1), RuntimeError),
        (lambda x: x.split(1), RuntimeError),
        (lambda x: x.chunk(1), RuntimeError),
        (lambda x: x.tensor_split(1), RuntimeError),
        (lambda x: x.diff(), RuntimeError),
        (lambda x: x.unflatten(0, (1, 1)), RuntimeError),
        (lambda x: x.trace(), RuntimeError),
        (lambda x: x.flipud(), RuntimeError),
        (lambda x: x.fill_diagonal_(1), RuntimeError),
        (lambda x: x.fill_(x.reshape(1)), RuntimeError),
        (lambda x: float(x.expand(2)), ValueError),
        (lambda x: int(x.expand(2)), ValueError),
        (lambda x: ~x, TypeError),
    ],
)
def test_errors_for_numbers_without_axes_are_pytorchs(call: object, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"0-d|dim|shape|bool or integer"):
        call(tg.tensor(1.0))  # type: ignore[operator]


def test_parts_of_nothing_are_as_many_as_were_asked_for() -> None:
    assert [p.shape for p in tg.zeros(0, 2).chunk(3)] == [(0, 2)] * 3


def test_diagonals_are_filled_where_all_indices_are_equal() -> None:
    assert tg.zeros(2, 2, 2).fill_diagonal_(1).nonzero().tolist() == [[0, 0, 0], [1, 1, 1]]
    assert tg.zeros(5, 2).fill_diagonal_(1).nonzero().tolist() == [[0, 0], [1, 1]]
    assert tg.zeros(5, 2).fill_diagonal_(1, wrap=True).nonzero().tolist() == [[0, 0], [1, 1], [3, 0], [4, 1]]


def test_gradients_of_windows_onto_a_number() -> None:
    x = tg.tensor(3.0, requires_grad=True)
    (x.as_strided((1,), (1,)) ** 2).sum().backward()
    y = x.detach().clone().requires_grad_() * 1.0
    y.as_strided((1,), (1,)).mul_(2.0)
    assert x.grad.item() == 6.0 and y.item() == 6.0


def test_equal_elements() -> None:
    x = tg.tensor([2.0, 1.0, 2.0, 1.0])
    assert x.sort(descending=True).indices.tolist() == [0, 2, 1, 3] and x.sort().indices.tolist() == [1, 3, 0, 2]
    assert x.max(0).indices.item() == 0 and x.cummax(0).indices.tolist() == [0, 0, 2, 2]


@pytest.mark.parametrize(
    ("value", "function", "slope"),
    [
        ([0.0, 0.0], lambda x: x.norm(), [0.0, 0.0]),
        ([3.0, 3.0], lambda x: x.std(), [0.0, 0.0]),
        ([2.0, 1.0, 2.0, 3.0], lambda x: x.median(), [0.5, 0.0, 0.5, 0.0]),
        ([2.0, math.nan, math.nan], lambda x: x.median(), [0.0, 0.5, 0.5]),
        ([0.0, 0.0], lambda x: tg.atan2(x, tg.tensor([0.0, 2.0])).sum(), [0.0, 0.5]),
        ([0.0, 0.0], lambda x: tg.atan2(tg.tensor([0.0, 2.0]), x).sum(), [0.0, -0.5]),
        ([2.0, 0.0, 4.0], lambda x: x.prod(), [0.0, 8.0, 0.0]),
        ([2.0, 0.0, 0.0], lambda x: x.prod(), [0.0, 0.0, 0.0]),
        ([2.0, 0.0, 3.0], lambda x: x.cumprod(0).sum(), [1.0, 8.0, 0.0]),
        ([0.0, -0.0], lambda x: x.abs().sum(), [0.0, 0.0]),
        ([0.0], lambda x: tg.nn.functional.softplus(x).sum(), [0.5]),
        ([-1.0, 0.5, 1.0], lambda x: x.clamp(-1.0, 0.5).sum(), [1.0, 1.0, 0.0]),
        ([1.5, -1.5], lambda x: (x.floor() + x.round() + x.sign()).sum(), [0.0, 0.0]),
        ([-math.inf, -math.inf], lambda x: x.logsumexp(0) * 0.0 + 1.0, [math.nan, math.nan]),
        ([-math.inf, 0.0], lambda x: x.logsumexp(0), [0.0, 1.0]),
        ([1.0, 1.0], lambda x: tg.maximum(x, tg.ones(2)).sum(), [0.5, 0.5]),
        ([2.0, -1.0, 0.5], lambda x: x.logit().nansum(), [math.nan, math.nan, 4.0]),
        ([0.0, 2.0], lambda x: tg.xlogy(x, tg.tensor([math.e, 1.0])).sum(), [1.0, 0.0]),
        ([0.0, 2.0], lambda x: tg.xlogy(0, x).sum() + tg.xlogy(x, x)[1], [0.0, 1.0 + math.log(2.0)]),
        ([1.0, 3.0], lambda x: tg.div(x, tg.tensor([0, 2]), rounding_mode="trunc").sum(), [0.0, 0.0]),
    ],
)
def test_slopes_where_formulas_break(value: list[float], function: object, slope: list[float]) -> None:
    x = tg.tensor(value, requires_grad=True)
    function(x).backward()  # type: ignore[operator]
    np.testing.assert_allclose(x.grad.numpy(), slope, atol=1e-7)


def test_division_and_remainders_of_both_signs() -> None:
    a, b = tg.tensor([7, -7, 7, -7]), tg.tensor([2, 2, -2, -2])
    assert (a // b).tolist() == [3, -4, -4, 3] and (a % b).tolist() == [1, 1, -1, -1]
    assert tg.fmod(a, b).tolist() == [1, -1, 1, -1]
    assert tg.div(a, b, rounding_mode="trunc").tolist() == [3, -3, -3, 3]
    assert tg.div(tg.tensor([1.0, -1.0, 0.0]), 0).tolist()[:2] == [math.inf, -math.inf]


def test_integers_are_divided_as_floats_whether_or_not_a_number_fits_them() -> None:
    torch = pytest.importorskip("torch")
    for t in (torch, tg):
        seven, small = t.tensor([7], dtype=t.int8), t.tensor([7], dtype=t.uint8)
        np.testing.assert_allclose((seven / 300).tolist(), [7 / 300])
        np.testing.assert_allclose((300 / seven).tolist(), [300 / 7])
        np.testing.assert_allclose((small / -1).tolist(), [-7.0])
        np.testing.assert_allclose(t.atan2(seven, t.tensor(300)).tolist(), [math.atan2(7, 300)], rtol=1e-6)
        np.testing.assert_allclose(t.xlogy(seven, 300).tolist(), [7 * math.log(300)], rtol=1e-6)
        assert (seven / 300).dtype == t.float32


@pytest.mark.parametrize("number", [2, 2.5, np.float32(2.5), np.float64(2.5), np.int64(2)], ids=repr)
@pytest.mark.parametrize("dtype", [tg.float32, tg.float64, tg.int64], ids=str)
def test_numbers_beside_large_tensors(number: object, dtype: tg.dtype) -> None:
    """Large arrays go to kernels for two arrays; numbers on either side, and other tensors, give what small ones do."""
    x = (tg.arange(70_000) % 1000 + 1).to(dtype)
    for f in (operator.add, operator.sub, operator.mul, operator.truediv, operator.pow, operator.lt):
        for other in (number, x, x[5:6], x.flip(0)):
            small = other[:1000] if isinstance(other, Tensor) and len(other) > 1 else other
            for sides in ((x, other), (other, x)):
                found = f(*sides)
                wanted = f(*(x[:1000] if side is x else small for side in sides))
                assert found.dtype == wanted.dtype and found.shape == x.shape
                assert np.array_equal(found[:1000].numpy(), wanted.numpy(), equal_nan=True)
                assert isinstance(other, Tensor) or np.array_equal(found[69_000:].numpy(), wanted.numpy())


SECOND = {"tanh": tg.tanh, "sigmoid": tg.sigmoid, "logit": tg.logit, "cube": lambda x: (1 - x) ** 3}


@pytest.mark.parametrize("name", SECOND)
def test_second_derivatives_of_large_tensors(name: str) -> None:
    f = SECOND[name]
    x = tg.linspace(0.1, 0.8, 70_000, dtype=tg.float64).requires_grad_()
    parts = [x.detach()[i : i + 10_000].requires_grad_() for i in range(0, 70_000, 10_000)]

    def second(t: Tensor) -> np.ndarray:
        (slope,) = tg.autograd.grad(f(t).sum(), t, create_graph=True)
        return tg.autograd.grad((slope * slope).sum(), t)[0].numpy()

    np.testing.assert_allclose(second(x), np.concatenate([second(part) for part in parts]), rtol=1e-13)


def test_multinomial_never_draws_what_has_no_weight() -> None:
    with pytest.raises(RuntimeError, match="multinomial"):
        tg.multinomial(tg.tensor([0.0, 1.0]), 2)
    assert set(tg.multinomial(tg.tensor([0.0, 1.0, 1.0]), 200, replacement=True).tolist()) == {1, 2}


# --- printing: what PyTorch 2.13 prints -------------------------------------------------------------------------------

TEXTS = [
    (lambda: tg.tensor(2.5), "tensor(2.5000)"),
    (lambda: tg.tensor([1.0, 2.0, 3.0]), "tensor([1., 2., 3.])"),
    (
        lambda: tg.tensor([[0.1234567, 10.5], [-3, 100]]),
        "tensor([[  0.1235,  10.5000],\n        [ -3.0000, 100.0000]])",
    ),
    (lambda: tg.tensor([1e-5, 1.0]), "tensor([1.0000e-05, 1.0000e+00])"),
    (lambda: tg.tensor([math.nan, math.inf, 1.0]), "tensor([nan, inf, 1.])"),
    (lambda: tg.tensor([True, False]), "tensor([ True, False])"),
    (lambda: tg.tensor([1, -20, 300]), "tensor([  1, -20, 300])"),
    (lambda: tg.zeros(2, 0), "tensor([], size=(2, 0))"),
    (lambda: tg.zeros(0, dtype=tg.int64), "tensor([], dtype=torch.int64)"),
    (lambda: tg.tensor([1, 2], dtype=tg.int32), "tensor([1, 2], dtype=torch.int32)"),
    (lambda: tg.tensor([0.5], dtype=tg.bfloat16), "tensor([0.5000], dtype=torch.bfloat16)"),
    (lambda: tg.ones(2, requires_grad=True), "tensor([1., 1.], requires_grad=True)"),
    (lambda: tg.ones(2, requires_grad=True) + 1, "tensor([2., 2.], grad_fn=<AddBackward0>)"),
    (lambda: tg.zeros(1, 2, 2), "tensor([[[0., 0.],\n         [0., 0.]]])"),
    (
        lambda: tg.arange(2000.0),
        "tensor([0.0000e+00, 1.0000e+00, 2.0000e+00,  ..., 1.9970e+03, 1.9980e+03,\n        1.9990e+03])",
    ),
    (lambda: tg.arange(1200), "tensor([   0,    1,    2,  ..., 1197, 1198, 1199])"),
    (
        lambda: tg.zeros(400, 4),
        "tensor([[0., 0., 0., 0.],\n        [0., 0., 0., 0.],\n        [0., 0., 0., 0.],\n        ...,\n"
        "        [0., 0., 0., 0.],\n        [0., 0., 0., 0.],\n        [0., 0., 0., 0.]])",
    ),
    (lambda: tg.ones(2, 3).shape, "torch.Size([2, 3])"),
    (
        lambda: tg.tensor([3.0, 1.0]).max(0),
        "torch.return_types.max(\nvalues=tensor(3.),\nindices=tensor(0))",
    ),
]


@pytest.mark.parametrize(("make", "text"), TEXTS, ids=range(len(TEXTS)))
def test_text_of_tensors(make: object, text: str) -> None:
    assert repr(make()) == text  # type: ignore[operator]


def test_steps_back_have_pytorchs_names() -> None:
    """Where one step of PyTorch's is one step here: others show what the composition ends with."""
    torch = pytest.importorskip("torch")
    for make in (
        lambda x: x[0],
        lambda x: x[1:],
        lambda x: x[:, 1],
        lambda x: x[0:2, None],
        lambda x: x[...],
        lambda x: x[[0, 2]],
        lambda x: x[x > 4],
        lambda x: x[0, [1, 2]],
        lambda x: x**2,
        lambda x: x.mean(),
        lambda x: x.half(),
        lambda x: x.det(),
        lambda x: (x + 1) * x,
        lambda x: x.relu(),
    ):
        want, got = (make(t.arange(9.0).reshape(3, 3).requires_grad_()).grad_fn.name() for t in (torch, tg))
        assert got == want


def test_what_is_made_like_another_lies_like_it() -> None:
    x = tg.ones(3, 2).t()
    assert tg.full_like(x, 2.0).stride() == tg.ones_like(x).stride() == (1, 2)
    assert tg.full_like(x, 2, dtype=tg.int64, requires_grad=False).tolist() == [[2, 2, 2], [2, 2, 2]]


def test_printoptions() -> None:
    try:
        tg.set_printoptions(precision=2, sci_mode=False)
        assert repr(tg.tensor([1e-5, 1.5])) == "tensor([0.00, 1.50])"
        tg.set_printoptions(threshold=4, edgeitems=1, linewidth=20)
        assert repr(tg.arange(6)) == "tensor([0,  ..., 5])"
        with pytest.raises(ValueError, match="profile"):
            tg.set_printoptions(profile="long")
    finally:
        tg.set_printoptions(profile="default")


# --- against PyTorch, where it is installed ---------------------------------------------------------------------------


def test_random_indices_agree_with_pytorch() -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)

    def part(n: int) -> object:
        kind = rng.integers(6)
        if kind == 0:
            return int(rng.integers(-n, n))
        if kind == 1:
            return slice(int(rng.integers(-n, n)), None, int(rng.integers(1, 3)))
        if kind == 2:
            return rng.integers(-n, n, 2).tolist()
        if kind == 3:
            return rng.integers(-n, n, (2, 1))
        return rng.random(n) < 0.5 if kind == 4 else None

    compared = 0
    for _ in range(300):
        array = rng.normal(size=rng.integers(1, 4, rng.integers(1, 5)))
        key = [part(n) for n in array.shape[: rng.integers(1, array.ndim + 1)]]
        if rng.random() < 0.3:
            key.insert(int(rng.integers(len(key) + 1)), ...)
        results = []
        for t in (torch, tg):
            x = t.from_numpy(array.copy()).requires_grad_()
            try:
                found = x[tuple(t.from_numpy(p) if isinstance(p, np.ndarray) else p for p in key)]
                (found * found).sum().backward()
                results.append((found.detach().numpy(), x.grad.numpy()))
            except IndexError:
                results.append(None)
        assert (results[0] is None) == (results[1] is None), key
        if results[0] is not None:
            compared += 1
            for ours, theirs in zip(results[1], results[0], strict=True):
                np.testing.assert_allclose(ours, theirs, err_msg=str(key))
    assert compared > 150


@pytest.mark.parametrize("name", ["add", "sub", "subtract", "mul", "multiply", "div", "true_divide", "floor_divide"])
def test_a_number_may_come_first(name: str) -> None:
    found = getattr(tg, name)(7.0, tg.tensor([2, 4]))
    assert found.dtype == tg.float32 and (found == getattr(tg, name)(tg.tensor(7.0), tg.tensor([2, 4]))).all()
    with pytest.raises(TypeError, match="input must be a tensor, got str"):
        getattr(tg, name)("7", tg.ones(1))
    with pytest.raises(TypeError, match="input must be a tensor, got float"):
        getattr(tg, name)(7.0, 2.0)


# --- memory -----------------------------------------------------------------------------------------------------------


def test_views_lie_in_the_storage_of_their_tensor() -> None:
    x = tg.zeros(4, 3, dtype=tg.float64)
    storage = x.untyped_storage()
    for view in (x[1:], x.T, x.view(-1)[5:], x.detach()):
        assert view.untyped_storage().data_ptr() == storage.data_ptr() == x.data_ptr()
    assert storage.nbytes() == storage.size() == len(storage) == 96 and sys.getsizeof(storage) > 96
    assert x.clone().untyped_storage().data_ptr() != storage.data_ptr() and x[1:].storage_offset() == 3


def test_a_tensor_of_the_size_of_another() -> None:
    """As the samples of many a variational autoencoder are made: torch.FloatTensor(std.size()).normal_()."""
    x = tg.ones(2, 3)
    for make in (tg.Tensor, tg.FloatTensor, tg.LongTensor):
        assert make(x.size()).shape == (2, 3) and make(x.shape[:1]).shape == (2,)
        assert make((2, 3)).tolist() == [2, 3]  # any other tuple is data
    with pytest.raises(TypeError, match=r"x\.storage\(\) is not here: x\.flatten\(\)\.tolist\(\) gives its numbers"):
        x.storage()


def test_out_takes_what_is_made() -> None:
    """Old code makes tensors into one that is there, which may be empty: torch.arange(0, n, out=torch.LongTensor())."""
    out = tg.LongTensor()
    assert tg.arange(0, 3, out=out) is out and out.tolist() == [0, 1, 2] and out.dtype is tg.int64
    kept = tg.empty(2, 2, dtype=tg.float64)
    memory = kept.data_ptr()
    for make in (tg.zeros, tg.ones, tg.rand, tg.randn, tg.empty):
        assert make(2, 2, out=kept) is kept and kept.data_ptr() == memory and kept.dtype is tg.float64
    assert tg.full((2, 2), 7, out=kept).tolist() == [[7.0, 7.0]] * 2
    assert tg.linspace(0, 1, 3, out=kept).tolist() == [0.0, 0.5, 1.0] and kept.shape == (3,)
    a = tg.ones(2)
    assert tg.add(a, a, out=tg.Tensor()).tolist() == [2.0, 2.0] and tg.cat([a, a], out=tg.empty(0)).shape == (4,)
    with pytest.raises(TypeError, match="arange: out must be a tensor, got list"):
        tg.arange(3, out=[])
    with pytest.raises(RuntimeError, match=r"add: out must be a tensor of shape \(2,\), got"):
        tg.add(a, a, out=tg.empty(3))


def test_resize_means_the_first_elements_in_the_same_memory() -> None:
    x = tg.arange(6.0)
    same = x[:]
    assert x.resize_(2, 3).shape == (2, 3) and x.resize_((2, 2)).tolist() == [[0.0, 1.0], [2.0, 3.0]]
    x.fill_(7.0)
    assert same.tolist() == [7.0] * 4 + [4.0, 5.0]
    assert tg.ones(2).resize_(3).tolist() == [1.0, 1.0, 0.0] and tg.Tensor().resize_(2, 1).shape == (2, 1)
    for bad, words in (
        (lambda: tg.ones(2, requires_grad=True).resize_(1), "a tensor with a graph cannot be resized; use reshape"),
        (lambda: tg.ones(2, 2).T.resize_(4), "resize_: needs a contiguous tensor"),
        (lambda: tg.ones(2).resize_(-1), r"sizes from 0 on, got \(-1,\)"),
    ):
        with pytest.raises(RuntimeError, match=words):
            bad()


def test_random_numbers_in_a_fork_leave_no_trace() -> None:
    tg.manual_seed(3)
    with pytest.raises(KeyError), tg.random.fork_rng():
        inside = tg.rand(2)
        raise KeyError
    assert inside.equal(tg.rand(2))
    with tg.random.fork_rng(enabled=False):
        other = tg.rand(2)
    assert not other.equal(tg.rand(2))


UNFIT: list[Callable[[Any], Any]] = [
    lambda t: t.tensor([1, 300], dtype=t.uint8),
    lambda t: t.tensor(np.int64(-300), dtype=t.uint8),
    lambda t: t.tensor([1.0, math.nan], dtype=t.int64),
    lambda t: t.tensor([[2**31]], dtype=t.int32),
    lambda t: t.tensor(1e10, dtype=t.int8),
    lambda t: t.full((2,), math.inf, dtype=t.int64),
    lambda t: t.full_like(t.tensor([1]), -math.inf),
    lambda t: t.tensor([1]).new_full((1,), math.nan),
    lambda t: t.tensor([1, 2]).masked_fill(t.tensor([True, False]), -math.inf),
    lambda t: t.tensor([1, 2]).masked_fill_(t.tensor([True, False]), math.nan),
    lambda t: t.tensor([1, 2]).index_fill(0, t.tensor([0]), math.inf),
    lambda t: t.tensor([1, 2]).scatter(0, t.tensor([0]), -math.inf),
    lambda t: t.where(t.tensor([True]), t.zeros(1, dtype=t.uint8), 300),
    lambda t: t.nn.functional.pad(t.tensor([1, 2]), (1, 0), value=-math.inf),
]
FIT: list[Callable[[Any], Any]] = [
    lambda t: t.tensor([-1, 255], dtype=t.uint8),
    lambda t: t.tensor(np.array([300, -1]), dtype=t.uint8),
    lambda t: t.tensor([1.9, -1.9], dtype=t.int8),
    lambda t: t.tensor([300.0, 1e300]),
    lambda t: t.full((2,), 1.9, dtype=t.int64),
    lambda t: t.tensor([1, 2]).masked_fill(t.tensor([True, False]), 3.9),
    lambda t: t.tensor([1, 2], dtype=t.uint8).masked_fill(t.tensor([True, False]), -1),
    lambda t: t.where(t.tensor([True, False]), t.tensor([1, 2]), -math.inf),
    lambda t: t.nn.functional.pad(t.tensor([1, 2]), (1, 0), value=1.9),
]


@pytest.mark.parametrize("number", range(len(UNFIT)))
def test_numbers_that_an_integer_cannot_hold_are_refused_as_in_pytorch(number: int) -> None:
    """A mask of -inf in scores that are integers would become -9223372036854775808, without a word."""
    torch = pytest.importorskip("torch")
    for t in (torch, tg):
        with pytest.raises(RuntimeError, match=r"without overflow|does not fit into u?int"):
            UNFIT[number](t)


def test_numbers_that_an_integer_can_hold_are_taken_as_in_pytorch() -> None:
    torch = pytest.importorskip("torch")
    for make in FIT:
        found, wanted = make(tg), make(torch)
        assert str(found.dtype) == str(wanted.dtype) and found.tolist() == wanted.tolist()
    with pytest.raises(RuntimeError, match="9223372036854775808 does not fit into int64"):
        tg.tensor(2**63)
    with pytest.raises(RuntimeError, match=r"-inf does not fit into int64.*use .float"):
        tg.tensor([1]).masked_fill(tg.tensor([True]), tg.tensor(-math.inf))


TOO_LARGE: dict[str, Callable[[Any, Any, float], Any]] = {
    "clamp": lambda t, x, large: x.clamp(max=large),
    "clamp from": lambda t, x, large: x.clamp(min=-large),
    "add": lambda t, x, large: t.add(x, x, alpha=large),
    "sub": lambda t, x, large: t.sub(x, x, alpha=large),
    "addcmul": lambda t, x, large: t.addcmul(x, x, x, value=large),
    "addcdiv": lambda t, x, large: t.addcdiv(x, x, x, value=large),
    "lerp": lambda t, x, large: t.lerp(x, x * 2, large),
    "addmm": lambda t, x, large: t.addmm(x.view(2, 1), x.view(2, 1), x[:1].view(1, 1), alpha=large),
    "where": lambda t, x, large: t.where(x > 0, large, x),
    "leaky_relu": lambda t, x, large: t.nn.functional.leaky_relu(-x, large),
    "elu": lambda t, x, large: t.nn.functional.elu(-x, large),
    "celu": lambda t, x, large: t.nn.functional.celu(-x, large),
    "softplus": lambda t, x, large: t.nn.functional.softplus(x, large),
    "threshold": lambda t, x, large: t.nn.functional.threshold(-x, 0.0, large),
    "hardtanh": lambda t, x, large: t.nn.functional.hardtanh(x, -large, large),
    "constant_": lambda t, x, large: t.nn.init.constant_(x.clone(), large),
    "linspace": lambda t, x, large: t.linspace(0, large, 3, dtype=x.dtype),
    "logspace": lambda t, x, large: t.logspace(0, large, 3, dtype=x.dtype),
}


@pytest.mark.parametrize("name", TOO_LARGE)
def test_numbers_that_floats_cannot_hold_are_refused_as_in_pytorch(name: str) -> None:
    """1e9 in 16 bits: as factors, with which PyTorch computes in 32 bits, it fits, and the result is inf."""
    torch = pytest.importorskip("torch")
    for dtype, large in (("float32", 1e39), ("float16", 1e9), ("float64", 1e39), ("int8", 300)):
        refused = []
        for t in (torch, tg):
            x = t.ones(2, dtype=getattr(t, dtype))
            try:
                TOO_LARGE[name](t, x, large)
                refused.append(False)
            except RuntimeError:
                refused.append(True)
        assert refused[0] is refused[1], dtype


@pytest.mark.parametrize(("name", "count"), [("add", 1), ("sub", 1), ("addcmul", 2), ("addcdiv", 2)])
def test_the_factor_before_the_operands_as_older_programs_have_it(name: str, count: int) -> None:
    torch = pytest.importorskip("torch")
    found = []
    for t in (tg, torch):
        x, operands = t.tensor([1.0, 2.0]), [t.tensor([3.0, 4.0]), t.tensor([4.0, 8.0])][:count]
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            torch.set_warn_always(True)
            results = [getattr(x, f"{name}_")(-0.25, *operands)]
            if count == 1:
                results.append(getattr(x, name)(-0.5, *operands))
            torch.set_warn_always(False)
        assert len(told) == len(results) and all(issubclass(w.category, UserWarning) for w in told)
        found.append([r.tolist() for r in results])
    assert found[0] == found[1]
    with pytest.raises(TypeError, match=rf"write {name}\(.*=...\); got the operands"):
        getattr(tg.ones(2), f"{name}_")(1, *[2] * count)


def test_put_writes_to_places_of_the_flattened_tensor() -> None:
    x = tg.zeros(2, 2)
    assert x.put_(tg.tensor([[1, -1]]), tg.tensor([5.0, 6.0])) is x and x.tolist() == [[0.0, 5.0], [0.0, 6.0]]
    x.put_(tg.tensor([1, 1]), tg.tensor([1.0, 2.0]), accumulate=True)
    assert x.tolist() == [[0.0, 8.0], [0.0, 6.0]]
    y = tg.ones(2, requires_grad=True)
    (tg.zeros(3).put_(tg.tensor([2, 0]), y) * tg.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert y.grad is not None and y.grad.tolist() == [3.0, 1.0]
    with pytest.raises(IndexError, match="source must have an element for each of 2 indices, got 1"):
        x.put_(tg.tensor([0, 1]), tg.tensor([1.0]))
    with pytest.raises(IndexError, match="got 4"):
        x.put_(tg.tensor([4]), tg.tensor([1.0]))


def test_older_ways_to_change_a_shape_in_place() -> None:
    x = tg.arange(6).reshape(2, 3)
    assert x.swapaxes_(0, 1).shape == (3, 2) and x.swapdims_(0, 1).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert tg.zeros(0).resize_as_(x).shape == (2, 3)


def test_what_a_tensor_on_the_cpu_is_not() -> None:
    x = tg.ones(1)
    assert not (x.is_xpu or x.is_mps or x.is_meta or x.is_quantized or x.is_nested or x.is_sparse or x.is_cuda)
    assert x.layout is tg.strided and repr(x.layout) == "torch.strided" and tg.typename(x) == "torch.FloatTensor"
    assert tg.typename(3) == "int" and tg.trapz(tg.ones(3)).item() == 2.0

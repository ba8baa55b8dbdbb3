"""What random programs, run on PyTorch as well, brought to light: values, gradients and errors at the edges."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinygrad_tf as tg
from tinygrad_tf import Tensor, nn
from tinygrad_tf.nn import functional as F

INF, NAN = math.inf, math.nan


# --- writing --------------------------------------------------------------------------------------------------------


def test_what_is_assigned_may_have_axes_of_size_1_in_front() -> None:
    x = tg.arange(6.0).reshape(2, 3).requires_grad_()
    row, one = tg.ones(1, 3, requires_grad=True), tg.ones(1, requires_grad=True)
    y = x * 1.0
    y[0] = row
    y[1, 2] = one
    y[y == 4.0] = one[None, None] * 2.0
    (y * tg.arange(6.0).reshape(2, 3)).sum().backward()
    assert y.tolist() == [[1.0, 1.0, 1.0], [3.0, 2.0, 1.0]]
    assert x.grad is not None and x.grad.tolist() == [[0.0, 0.0, 0.0], [3.0, 0.0, 0.0]]
    assert row.grad is not None and row.grad.tolist() == [[0.0, 1.0, 2.0]]
    assert one.grad is not None and one.grad.tolist() == [5.0 + 2 * 4.0]
    with pytest.raises(RuntimeError, match=r"setitem: .* \(the tensor has shape \(2, 3\)\)"):
        tg.ones(2, 3)[tg.ones(2, 3) > 0] = tg.ones(2, 2)


def test_parts_of_an_expanded_tensor_that_share_no_memory_are_written_to() -> None:
    x = tg.arange(3.0).requires_grad_()
    y = x * 1.0
    rows = y.expand(4, 3)
    rows[1] = 5.0
    rows[2, 1:].mul_(2.0)
    assert y.tolist() == [5.0, 10.0, 10.0]
    (y * tg.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [0.0, 0.0, 0.0]
    same = tg.ones(2).expand(1, 2)
    assert same.mul_(3.0).tolist() == [[3.0, 3.0]]
    for write in (lambda t: t.mul_(2.0), lambda t: t.__setitem__((slice(None), 0), 1.0)):
        with pytest.raises(RuntimeError, match="several elements of this expanded tensor share memory"):
            write(tg.ones(3).expand(2, 3))


def test_a_tensor_written_to_through_a_view_still_retains_its_gradient() -> None:
    x = tg.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2.0
    y.retain_grad()
    y[:1] += x[1:]
    (y * y).sum().backward()
    assert y.grad is not None and y.grad.tolist() == [8.0, 8.0]
    z = x * 2.0
    z.retain_grad()
    z.view(2, 1).mul_(x[:, None])
    z.sum().backward()
    assert z.grad is not None and z.grad.tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.embedding(tg.tensor([1, 0]), x),
        lambda x: F.adaptive_avg_pool1d(x, 1),
        lambda x: F.pad(x, (1, 1), "circular"),
        Tensor.reciprocal,
    ],
)
def test_inputs_that_a_gradient_does_not_need_may_change(function: Callable[[Tensor], Tensor]) -> None:
    x = tg.tensor([[1.0, 2.0], [4.0, 8.0]], requires_grad=True)
    (wanted,) = tg.autograd.grad(function(x).sum(), x)
    y = function(x)
    with tg.no_grad():
        x.mul_(3.0)
    (found,) = tg.autograd.grad(y.sum(), x)
    assert found.equal(wanted)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: tg.logaddexp(x, x * 2.0),
        lambda x: tg.special.logaddexp2(x, x * 2.0),
        Tensor.erfinv,
        lambda x: F.margin_ranking_loss(x, -x, -tg.ones(2), reduction="none"),
        lambda x: F.triplet_margin_loss(x[None], -x[None], x[None] * 2.5, reduction="none"),
    ],
)
def test_results_that_a_gradient_does_not_need_may_change(function: Callable[[Tensor], Tensor]) -> None:
    x = tg.tensor([0.25, 0.5], requires_grad=True)
    (wanted,) = tg.autograd.grad(function(x).sum(), x)
    (found,) = tg.autograd.grad(function(x).mul_(3.0).sum(), x)
    assert tg.allclose(found, wanted * 3.0)


def test_more_operations_in_place() -> None:
    x = tg.tensor([0.5, -2.0])
    assert x.clone().atan2_(tg.ones(2)).equal(x.atan2(tg.ones(2)))
    assert x.clone().hypot_(tg.ones(2)).equal(x.hypot(tg.ones(2)))
    assert x.clone().copysign_(-1.0).tolist() == [-0.5, -2.0]
    assert x.clone().gt_(0).tolist() == [1.0, 0.0] and x.clone().less_equal_(0).tolist() == [0.0, 1.0]
    assert x.clone().fix_().tolist() == [0.0, -2.0] and x.clone().sgn_().tolist() == [1.0, -1.0]
    assert x.clone().xlogy_(tg.ones(2)).tolist() == [0.0, -0.0] and x.clone().absolute_().tolist() == [0.5, 2.0]
    assert tg.tensor([5]).bitwise_left_shift_(1).tolist() == [10] and tg.tensor([5]).bitwise_not_().tolist() == [-6]


# --- values ---------------------------------------------------------------------------------------------------------


def test_scores_just_at_the_margin_are_still_pushed() -> None:
    """The default margin of the ranking loss is 0: scores that are equal at the start have to be moved apart."""
    a, b = tg.ones(2, requires_grad=True), tg.ones(2, requires_grad=True)
    F.margin_ranking_loss(a, b, tg.ones(2), reduction="sum").backward()
    assert a.grad is not None and a.grad.tolist() == [-1.0, -1.0]
    assert b.grad is not None and b.grad.tolist() == [1.0, 1.0]
    x = tg.tensor([2.0], requires_grad=True)
    F.hinge_embedding_loss(x, tg.tensor([-1.0]), margin=2.0).backward()
    assert x.grad is not None and x.grad.tolist() == [-1.0]


def test_angles_of_real_numbers() -> None:
    angles = tg.angle(tg.tensor([-0.0, 0.0, INF, -INF, -1.0, NAN])).tolist()
    assert angles[:5] == [0.0, 0.0, 0.0, pytest.approx(math.pi), pytest.approx(math.pi)] and math.isnan(angles[5])


def test_values_that_random_programs_found() -> None:
    largest = tg.tensor([INF, -INF], dtype=tg.bfloat16).nan_to_num().float().tolist()
    assert largest == [3.3895313892515355e38, -3.3895313892515355e38]
    assert tg.hstack([tg.ones(2, 3, dtype=tg.int64), tg.ones(0)]).dtype == tg.float32  # empty ones have a say, too
    assert tg.tensor(1.0).masked_scatter(tg.tensor(True), tg.tensor(5.0)).item() == 5.0
    assert tg.ones(2).masked_scatter(tg.tensor([True, False]), tg.tensor(5.0)).tolist() == [5.0, 1.0]
    assert tg.remainder(tg.ones(0, dtype=tg.int64), 0).shape == (0,)
    assert tg.ones(2, 0).scatter(0, tg.zeros(2, 0, dtype=tg.int64), tg.ones(1, 1)).shape == (2, 0)
    assert F.linear(tg.ones(2, 3), tg.arange(3.0)).tolist() == [3.0, 3.0]
    assert F.cosine_similarity(tg.ones(1, 2), tg.tensor([[1, 1]])).item() == pytest.approx(1.0)
    assert F.mse_loss(tg.tensor([0.5, 0.5]), tg.tensor([True, False])).item() == 0.25
    assert F.scaled_dot_product_attention(tg.ones(2, 0), tg.ones(3, 0), tg.ones(3, 0)).shape == (2, 0)
    x = tg.ones(2, 3)
    assert x.flatten(1) is x
    assert F.celu(tg.tensor([-1.0, 1.0]).half(), 1e9).tolist() == [-1.0, 1.0]  # alpha is beyond float16
    assert (tg.tensor([2.0]) ** 1e39).item() == INF and tg.tensor([3], dtype=tg.int8).pow(127).item() == -85


@pytest.mark.parametrize("norm", [F.rms_norm, F.layer_norm])
@pytest.mark.parametrize(("dtype", "size"), [(tg.float32, 3e19), (tg.float32, 3e38), (tg.float64, 1e300)])
def test_norms_of_large_numbers_by_their_references_and_differentiated_twice(
    norm: Any, dtype: Any, size: float
) -> None:
    x = tg.tensor([[0.5, -1.0, 1.0, 0.25], [1.0, 0.5, -0.75, -1.0]], dtype=dtype)

    def derivatives(x: Tensor, eps: float) -> list[Tensor]:
        x.requires_grad_()
        y = norm(x, (4,), eps=eps)
        (first,) = tg.autograd.grad((y**3).sum(), x, create_graph=True)
        size = x.detach().abs().max()  # gradients are as small as the numbers are large
        (second,) = tg.autograd.grad((first * size).sum(), x)
        return [y.detach(), first.detach() * size, second * size]

    wanted = derivatives(x.clone(), 0.0)
    for reference in (False, True):
        with tg.use_reference(reference):
            for found, exact in zip(derivatives(x * size, 1e-5), wanted, strict=True):
                np.testing.assert_allclose(found.numpy(), exact.numpy(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("norm", [F.rms_norm, F.layer_norm])
def test_norms_of_float16_by_their_references_sum_in_float32(norm: Any) -> None:
    x = tg.tensor([[500.0, -1000.0, 2000.0, 0.25]], dtype=tg.float16)  # their squares are beyond float16
    with tg.use_reference():
        found = norm(x, (4,))
    assert found.dtype == tg.float16 and found.equal(norm(x, (4,)))


def test_conjugate_transposes_of_real_matrices_are_transposes() -> None:
    x = tg.arange(6.0).reshape(2, 3).requires_grad_(True)
    for turned in (x.H, x.mH, x.adjoint()):
        assert turned.equal(x.T) and turned.data_ptr() == x.data_ptr()
    assert tg.ones(4, 2, 3).mH.shape == tg.ones(4, 2, 3).adjoint().shape == (4, 3, 2)
    with pytest.raises(RuntimeError, match=r"H: needs a matrix, got shape .*; for stacks of them there is mH"):
        tg.ones(4, 2, 3).H  # noqa: B018


# --- errors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: tg.ones(2) & tg.ones(2), NotImplementedError, "bitwise_and: needs bool or integer tensors"),
        (lambda: tg.ones(2).bitwise_not(), NotImplementedError, "bitwise_not: needs bool or integer tensors"),
        (lambda: ~tg.ones(2), TypeError, "~: needs bool or integer tensors"),
        (lambda: tg.ones(0).kthvalue(1), IndexError, "kthvalue: there is none along dim 0"),
        (lambda: tg.utils.data.TensorDataset(tg.ones(2), tg.ones(3)), AssertionError, r"\[2, 3\]"),
        (lambda: nn.MultiheadAttention(0, 3), ValueError, "0 and 3"),
        (lambda: tg.ones(2).cuda(), AssertionError, "CPU alone"),
        (lambda: nn.Linear(2, 2).cuda(), AssertionError, "CPU alone"),
        (lambda: tg.tensor([2], dtype=tg.int8) ** 300, RuntimeError, "the exponent: 300 does not fit into int8"),
        (lambda: tg.ones(1).half() ** 1e9, RuntimeError, "the exponent: 1000000000.0 does not fit into float16"),
        (lambda: tg.ones(1).bfloat16() ** 1e39, RuntimeError, "does not fit into bfloat16"),
        (lambda: tg.arange(0, 1e39, 4e38, dtype=tg.bfloat16), RuntimeError, "arange: .* does not fit into"),
        (lambda: tg.cdist(tg.ones(3), tg.ones(3)), RuntimeError, r"cdist: x1 and x2 must be \(..., rows, D\)"),
    ],
)
def test_errors_are_pytorchs(call: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()


# --- modules --------------------------------------------------------------------------------------------------------


def test_a_parameter_registered_as_none_is_among_the_parameters() -> None:
    module = nn.Module()
    module.register_parameter("bias", None)
    assert module._parameters == {"bias": None} and not list(module.parameters()) and not module.state_dict()
    module.bias = nn.Parameter(tg.ones(2))
    assert list(module._parameters) == ["bias"] and module._parameters["bias"] is module.bias


def test_state_dicts_print_as_ordered_dicts() -> None:
    layer = nn.Linear(1, 1, bias=False)
    with tg.no_grad():
        layer.weight.fill_(2.0)
    assert repr(layer.state_dict()) == "OrderedDict([('weight', tensor([[2.]]))])"


def test_state_dicts_tell_the_version_of_each_module() -> None:
    state = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).state_dict()
    assert state._metadata == {"": {"version": 1}, "0": {"version": 1}, "1": {"version": 2}}

    class Renamed(nn.Module):
        _version = 3

        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(tg.zeros(1))

        def _load_from_state_dict(self, state_dict: Any, prefix: str, local_metadata: Any, *rest: Any) -> None:
            if local_metadata.get("version", 1) < 3:
                state_dict[prefix + "weight"] = state_dict.pop(prefix + "w")
            super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    module = nn.Sequential(Renamed())
    module.load_state_dict({"0.w": tg.ones(1)})
    assert module[0].weight.item() == 1.0
    module.load_state_dict(nn.Sequential(Renamed()).state_dict())
    assert module[0].weight.item() == 0.0


@pytest.mark.parametrize("name", ["elu", "selu", "celu"])
def test_the_slope_at_zero_is_that_from_below(name: str) -> None:
    x = tg.tensor([0.0], requires_grad=True)
    getattr(F, name)(x).sum().backward()
    assert x.grad is not None
    assert x.grad.item() == pytest.approx(1.7581 if name == "selu" else 1, rel=1e-4)

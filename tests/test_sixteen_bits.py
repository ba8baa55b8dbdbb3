"""Sums of many 16-bit numbers: made in float32 and rounded once, wherever an operation or its gradient makes them.

Added up in its own 16 bits, a sum of ones stops at 256 (bfloat16) or 2048 (float16), and one of floats may be infinite
where the mean that is asked for is 100.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinygrad_tf as tg
from tinygrad_tf.nn import functional as F

MANY = 5000
ZEROS = tg.zeros(MANY, dtype=tg.int64)
DTYPES = pytest.mark.parametrize("dtype", [tg.bfloat16, tg.float16], ids=str)


def terms(rows: int = MANY, columns: int = 2) -> np.ndarray:
    """Numbers between 0.5 and 1.5 that have 4 binary places, so that both dtypes hold them exactly."""
    return np.random.default_rng(0).integers(8, 24, (rows, columns)) / 16.0


def close(found: tg.Tensor, exact: tg.Tensor, dtype: Any, roundings: int) -> None:
    """Within a few roundings: each is half of the distance to the next number, which is 2^-7 or 2^-10 of it."""
    assert found.dtype == dtype and exact.dtype == tg.float64
    bound = roundings * (2.0**-8 if dtype == tg.bfloat16 else 2.0**-11)
    np.testing.assert_allclose(found.double().detach().numpy(), exact.detach().numpy(), rtol=1.01 * bound, atol=0)


# What sends one gradient to many terms, and so sums on the way back: f(small, many).
SPREAD: dict[str, Callable[[Any, Any], Any]] = {
    "bias": lambda a, x: x + a,
    "scale": lambda a, x: x * a,
    "0-d": lambda a, x: x * a[0],
    "minus": lambda a, x: x - a,
    "where": lambda a, x: tg.where(x > 0, a, x) * x,
    "positions": lambda a, x: x.view(-1, 5, 2) * a.expand(5, 2),
    "expand": lambda a, x: a.expand(MANY, 2) * x,
    "repeat": lambda a, x: a.repeat(MANY, 1) * x,
    "repeat_interleave": lambda a, x: a.unsqueeze(0).repeat_interleave(MANY, 0) * x,
    "rows at an index": lambda a, x: a.unsqueeze(0)[ZEROS] * x,
    "elements at an index": lambda a, x: a[ZEROS.unsqueeze(1).expand(-1, 2)] * x,
    "gather": lambda a, x: a.unsqueeze(0).gather(0, ZEROS.unsqueeze(1).expand(-1, 2)) * x,
    "index_select": lambda a, x: a.unsqueeze(0).index_select(0, ZEROS) * x,
    "take": lambda a, x: a.take(ZEROS) * x[:, 0],
    "embedding": lambda a, x: F.embedding(ZEROS, a.unsqueeze(0)) * x,
    "many slices": lambda a, x: tg.stack([a[:1] for _ in range(600)]) * x[:600],
    "linear's bias": lambda a, x: F.linear(x, tg.eye(2, dtype=x.dtype), a) * x,
    "product of matrices": lambda a, x: (x @ a.unsqueeze(1)) * x[:, :1],
    "prelu": lambda a, x: F.prelu(-x, a) * x,
    "group_norm": lambda a, x: F.group_norm(x.t().unsqueeze(0), 1, None, a) * x.t(),
    "batch_norm": lambda a, x: F.batch_norm(x, None, None, None, a, training=True) * x,
    "layer_norm": lambda a, x: F.layer_norm(x, (2,), None, a) * x,
    "conv1d's bias": lambda a, x: F.conv1d(x.t().unsqueeze(0), tg.zeros(2, 2, 1, dtype=x.dtype), a) * x.t(),
    "conv_transpose1d's": lambda a, x: F.conv_transpose1d(x.t()[None], tg.zeros(2, 2, 1, dtype=x.dtype), a) * x.t(),
    "overlapping windows": lambda a, x: a.expand(300, 2).t().reshape(-1).unfold(0, 301, 1) * 0.5,
    "cumsum": lambda a, x: a.expand(MANY, 2).cumsum(0)[-1],
}


@DTYPES
@pytest.mark.parametrize("name", SPREAD)
def test_gradients_of_what_is_used_many_times(name: str, dtype: Any) -> None:
    found = []
    for kind in (dtype, tg.float64):
        small = tg.tensor([1.0, 0.5], dtype=kind, requires_grad=True)
        SPREAD[name](small, tg.tensor(terms(), dtype=kind)).sum().backward()
        found.append(small.grad)
    close(*found, dtype, roundings=2)


@DTYPES
@pytest.mark.parametrize("name", ["scale", "rows at an index"])
def test_gradients_that_are_recorded_are_summed_as_well(name: str, dtype: Any) -> None:
    found = []
    for kind in (dtype, tg.float64):
        small = tg.ones(2, dtype=kind, requires_grad=True)
        many = tg.tensor(terms(), dtype=kind, requires_grad=True)
        y = SPREAD[name](small, many) * small.sum()
        (slope,) = tg.autograd.grad(y.sum(), small, create_graph=True)
        slope.sum().backward()
        found.append((slope, small.grad, many.grad))
    for slope, exact in zip(*found, strict=True):
        close(slope, exact, dtype, roundings=3)


# Values that are sums (or products) of many terms: f(x).
TOTALS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: x.sum(0),
    "mean": lambda x: (x * 100).mean(0),
    "nansum": lambda x: x.nansum(0),
    "nanmean": lambda x: (x * 64).nanmean(),
    "cumsum": lambda x: x.cumsum(0),
    "cumprod": lambda x: (x[:64] * 0.5 + 0.5).cumprod(0),
    "prod": lambda x: (x[:64] * 0.5 + 0.5).prod(0),
    "logsumexp": lambda x: x.logsumexp(0),
    "logcumsumexp": lambda x: x.logcumsumexp(0),
    "norm": lambda x: x.norm(dim=0),
    "trace": lambda x: x[:, :1].expand(-1, 300)[:300].trace(),
    "einsum": lambda x: tg.einsum("ij->j", x),
    "matmul": lambda x: x.t() @ x,
    "scatter_add": lambda x: (x[:1] * 4).scatter_add(0, ZEROS.unsqueeze(1).expand(-1, 2), x),
    "scatter_reduce sum": lambda x: x[:1].scatter_reduce(0, ZEROS.unsqueeze(1).expand(-1, 2), x, "sum"),
    "scatter_reduce mean": lambda x: x[:1].scatter_reduce(0, ZEROS.unsqueeze(1).expand(-1, 2), x * 64, "mean"),
    "index_add": lambda x: (x[:1] * 4).index_add(0, ZEROS, x),
    "index_put": lambda x: (x[0] * 4).index_put((ZEROS,), x[:, 0], accumulate=True),
    "index_add_": lambda x: (x[:1] * 4).index_add_(0, ZEROS, x),
    "fold": lambda x: F.fold(x[:300, :1].expand(-1, 300).unsqueeze(0), (1, 599), (1, 300)),
    "avg_pool1d": lambda x: F.avg_pool1d(x.t().unsqueeze(0) * 4096, 16),
    "cross_entropy": lambda x: F.cross_entropy(x * 16, ZEROS),
    "weighted cross_entropy": lambda x: F.cross_entropy(x * 16, ZEROS, weight=x[0]),
    "nll_loss": lambda x: F.nll_loss(-x * 64, ZEROS),
    "weighted nll_loss": lambda x: F.nll_loss(-x * 64, ZEROS, weight=x[0]),
    "kl_div": lambda x: F.kl_div(-x, x * 16, reduction="batchmean"),
}


@DTYPES
@pytest.mark.parametrize("name", TOTALS)
def test_totals_of_many_terms(name: str, dtype: Any) -> None:
    found, exact = (TOTALS[name](tg.tensor(terms(), dtype=kind)) for kind in (dtype, tg.float64))
    close(found, exact, dtype, roundings=3)


@DTYPES
def test_opposite_terms_cancel_before_rounding(dtype: Any) -> None:
    """5001 ones and what was there, -5000 (4992 in bfloat16), leave a number that 16 bits hold exactly."""
    start = tg.tensor([-5000.0], dtype=dtype)
    ones = tg.ones(MANY + 1, dtype=dtype)
    wanted = [start.item() + 5001.0]
    at = tg.zeros(MANY + 1, dtype=tg.int64)
    assert start.scatter_add(0, at, ones).tolist() == wanted
    assert start.index_add(0, at, ones).tolist() == wanted
    assert start.index_put((at,), ones, accumulate=True).tolist() == wanted
    assert start.scatter_reduce(0, at, ones, "sum").tolist() == wanted


@DTYPES
def test_more_ties_than_the_dtype_can_count_still_share_the_gradient(dtype: Any) -> None:
    for extreme in ("max", "min", "amax", "amin"):
        x = tg.ones(70_000, dtype=dtype, requires_grad=True)
        getattr(x, extreme)().backward()
        assert x.grad is not None and x.grad.dtype == dtype
        assert abs(x.grad[0].item() * 70_000 - 1) < 0.01


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_number_is_not_rounded_before_it_meets_16_bits(dtype: str) -> None:
    """0.1 x in 16 bits is 0.1 x rounded once, as in PyTorch; also for its gradients."""
    found = []
    for t in (pytest.importorskip("torch"), tg):
        a = np.random.default_rng(0).normal(size=200).astype(np.float32)
        x = t.tensor(a).to(getattr(t, dtype)).requires_grad_()
        results = [x * 0.1, 3.3 * x, x / 0.7, x * 257, x[3] * 0.1, x.detach().clone().mul_(1e-5)]
        gradients = [t.autograd.grad(y.sum(), x)[0] for y in results[:4]]
        found.append([y.detach().float().numpy() for y in (*results, *gradients)])
        assert all(y.dtype == x.dtype for y in results)
    for want, got in zip(*found, strict=True):
        np.testing.assert_array_equal(got, want)

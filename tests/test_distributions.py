"""Distributions: the same numbers, samples and gradients as in PyTorch, and what is said of misuse."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tinygrad_tf as tg
from tinygrad_tf import distributions as D

MADE: dict[str, Callable[[ModuleType, ModuleType, Any], Any]] = {
    "Normal": lambda t, d, x: d.Normal(x, x.exp()),
    "Normal of a number": lambda t, d, x: d.Normal(x, 2.0),
    "Uniform": lambda t, d, x: d.Uniform(x - 1, x + 1),
    "Bernoulli": lambda t, d, x: d.Bernoulli(x.sigmoid()),
    "Bernoulli of logits": lambda t, d, x: d.Bernoulli(logits=x),
    "Categorical": lambda t, d, x: d.Categorical(x.exp()),
    "Categorical of logits": lambda t, d, x: d.Categorical(logits=x),
    "Independent": lambda t, d, x: d.Independent(d.Normal(x, x.exp()), 1),
    "Laplace": lambda t, d, x: d.Laplace(x, x.exp()),
    "Exponential": lambda t, d, x: d.Exponential(x.exp()),
    "Gumbel": lambda t, d, x: d.Gumbel(x, x.exp()),
    "LogNormal": lambda t, d, x: d.LogNormal(x, x.exp()),
    "RelaxedOneHotCategorical": lambda t, d, x: d.RelaxedOneHotCategorical(t.tensor(0.7, dtype=x.dtype), logits=x),
    "RelaxedOneHotCategorical of weights": lambda t, d, x: d.RelaxedOneHotCategorical(
        t.tensor(2.0, dtype=x.dtype), x.exp()
    ),
    "Geometric": lambda t, d, x: d.Geometric(x.sigmoid()),
    "Geometric of logits": lambda t, d, x: d.Geometric(logits=x),
    "OneHotCategorical": lambda t, d, x: d.OneHotCategorical(logits=x),
    "MultivariateNormal of a covariance": lambda t, d, x: d.MultivariateNormal(x, _covariance(t, x)),
    "MultivariateNormal of a precision": lambda t, d, x: d.MultivariateNormal(x, precision_matrix=_covariance(t, x)),
    "MultivariateNormal of a triangle": lambda t, d, x: d.MultivariateNormal(
        x[0], scale_tril=t.linalg.cholesky(_covariance(t, x))
    ),
}
WITH_GRADIENTS = (
    "Normal", "Uniform", "Independent", "Laplace", "Exponential", "MultivariateNormal", "Gumbel", "LogNormal",
    "Relaxed",
)  # fmt: skip
NO_DIVERGENCE = ("Uniform", "Gumbel", "LogNormal", "Relaxed", "Geometric")
X = np.random.default_rng(2).normal(size=(3, 4))


def _covariance(t: ModuleType, x: Any) -> Any:
    return x.unsqueeze(-1) * x.unsqueeze(-2) + 2.0 * t.eye(4, dtype=x.dtype)


def asked(t: ModuleType, d: ModuleType, name: str) -> list[Any]:
    """What a distribution answers, and the gradients of it all."""
    t.manual_seed(4)
    x = t.tensor(X, requires_grad=True)
    made = MADE[name](t, d, x)
    samples = [made.sample(), made.sample((5,))]
    answers = [made.log_prob(s) for s in samples]
    if not name.startswith(("Uniform", "Relaxed")):  # of the borders a sample has no gradient
        answers += [made.entropy()]
    if name.startswith(WITH_GRADIENTS):
        answers += [made.rsample((2,))]
    if name.startswith((*WITH_GRADIENTS, "Geometric")) and not name.startswith("Relaxed"):
        answers += [made.mean, made.variance, made.stddev]
    if not name.startswith(NO_DIVERGENCE):
        answers += [d.kl_divergence(made, MADE[name](t, d, x.detach() * 0.5))]
    sum((a * a).sum() for a in answers if a.requires_grad).backward()
    return [*samples, *answers, x.grad]


@pytest.mark.parametrize("name", MADE)
def test_distribution_as_in_pytorch(name: str) -> None:
    torch = pytest.importorskip("torch")
    import torch.distributions as theirs

    for got, want in zip(asked(tg, D, name), asked(torch, theirs, name), strict=True):
        assert tuple(got.shape) == tuple(want.shape) and str(got.dtype) == str(want.dtype)
        np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), rtol=1e-6, atol=1e-9)


def test_texts_and_shapes() -> None:
    assert repr(D.Normal(0.0, 1.0)) == "Normal(loc: 0.0, scale: 1.0)"
    assert repr(D.Categorical(tg.ones(2, 3))) == "Categorical(probs: torch.Size([2, 3]))"
    both = D.Independent(D.Normal(tg.zeros(2, 3), 1.0), 1)
    assert both.batch_shape == (2,) and both.event_shape == (3,) and both.sample((4,)).shape == (4, 2, 3)
    assert D.Normal(tg.zeros(2), 1.0).sample().requires_grad is False
    assert tg.distributions is D and D.normal.Normal is D.Normal and D.kl.kl_divergence is D.kl_divergence
    vectors = D.MultivariateNormal(tg.zeros(2), tg.eye(2))
    assert repr(vectors) == "MultivariateNormal(loc: torch.Size([2]), covariance_matrix: torch.Size([2, 2]))"
    assert vectors.scale_tril.equal(tg.eye(2)) and vectors.precision_matrix.equal(tg.eye(2))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: D.Normal(0.0, -1.0), ValueError, "Normal: scale must be positive, got -1.0"),
        (lambda: D.Uniform(1.0, 0.0), ValueError, "Uniform: low must be below high"),
        (lambda: D.Bernoulli(1.5), ValueError, r"Bernoulli: probs must be in \[0, 1\]"),
        (lambda: D.Categorical(), ValueError, "Categorical: give either probs or logits"),
        (lambda: D.Categorical(tg.tensor([-1.0, 2.0])), ValueError, "Categorical: probs must be weights from 0 on"),
        (lambda: D.Categorical(tg.tensor(1.0)), ValueError, r"Categorical: needs a tensor \(..., n\)"),
        (lambda: D.Categorical(tg.ones(3)).log_prob(tg.tensor(3)), ValueError, "value must be from 0 to 2, got 3"),
        (lambda: D.Categorical(tg.ones(3)).rsample(), NotImplementedError, "use sample"),
        (
            lambda: D.Independent(D.Normal(0.0, 1.0), 1),
            ValueError,
            "batch_ndims must be at most 0, got 1",
        ),
        (lambda: D.kl_divergence(D.Normal(0.0, 1.0), D.Uniform(0.0, 1.0)), NotImplementedError, "Normal and Uniform"),
        (lambda: D.Bernoulli(0.5).log_prob(tg.tensor(0.25)), ValueError, "value must be 0 or 1 .* got 0.25"),
        (lambda: D.Gumbel(0.0, -1.0), ValueError, "Gumbel: scale must be positive, got -1.0"),
        (lambda: D.LogNormal(0.0, -1.0), ValueError, "scale must be positive, got -1.0"),
        (lambda: D.Geometric(1.5), ValueError, r"Geometric: probs must be in \(0, 1\], got 1.5"),
        (lambda: D.Geometric(), ValueError, "Geometric: give either probs or logits"),
        (lambda: D.Laplace(0.0, 0.0), ValueError, "Laplace: scale must be positive, got 0.0"),
        (lambda: D.Exponential(-1.0), ValueError, "Exponential: rate must be positive, got -1.0"),
        (
            lambda: D.MultivariateNormal(tg.zeros(2)),
            ValueError,
            "either covariance_matrix or precision",
        ),
        (
            lambda: D.MultivariateNormal(tg.zeros(2), tg.zeros(2)),
            ValueError,
            r"covariance_matrix of shape \(..., k, k\)",
        ),
        (
            lambda: D.MultivariateNormal(tg.zeros(2), tg.tensor([[1.0, 0.5], [0.0, 1.0]])),
            ValueError,
            "covariance_matrix must be symmetric",
        ),
        (
            lambda: D.MultivariateNormal(tg.zeros(2), scale_tril=-tg.eye(2)),
            ValueError,
            "scale_tril must be lower triangular with a positive diagonal",
        ),
    ],
)
def test_misuse_is_told(call: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()

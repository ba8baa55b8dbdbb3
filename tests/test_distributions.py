"""Distributions: the same numbers, samples and gradients as in PyTorch, and what is said of misuse."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tinygrad_tf as tg
from tinygrad_tf import distributions as D
from tinygrad_tf.distributions import _implicit

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
    "RelaxedBernoulli": lambda t, d, x: d.RelaxedBernoulli(t.tensor(0.7, dtype=x.dtype), x.sigmoid()),
    "RelaxedBernoulli of logits": lambda t, d, x: d.RelaxedBernoulli(t.tensor(0.3, dtype=x.dtype), logits=x),
    "OneHotCategoricalStraightThrough": lambda t, d, x: d.OneHotCategoricalStraightThrough(logits=x),
    "Geometric": lambda t, d, x: d.Geometric(x.sigmoid()),
    "Geometric of logits": lambda t, d, x: d.Geometric(logits=x),
    "OneHotCategorical": lambda t, d, x: d.OneHotCategorical(logits=x),
    "Gamma": lambda t, d, x: d.Gamma(x.exp(), (x * 0.5).exp()),
    "Gamma of numbers": lambda t, d, x: d.Independent(d.Gamma(x.exp(), t.tensor(2.0, dtype=x.dtype)), 1),
    "Chi2": lambda t, d, x: d.Chi2(x.exp()),
    "Dirichlet": lambda t, d, x: d.Dirichlet(x.exp()),
    "Beta": lambda t, d, x: d.Beta(x.exp(), (x * 0.5).exp()),
    "StudentT": lambda t, d, x: d.StudentT(x.exp() + 2.0, x, (x * 0.5).exp()),
    "Poisson": lambda t, d, x: d.Poisson((x * 2.0).exp()),
    "Binomial": lambda t, d, x: d.Binomial(5, x.sigmoid()),
    "Binomial of many": lambda t, d, x: d.Binomial(t.tensor(90), logits=x),
    "NegativeBinomial": lambda t, d, x: d.NegativeBinomial((x * 0.3).exp() * 3.0, x.sigmoid()),
    "NegativeBinomial of logits": lambda t, d, x: d.NegativeBinomial(4.0, logits=x),
    "MultivariateNormal of a covariance": lambda t, d, x: d.MultivariateNormal(x, _covariance(t, x)),
    "MultivariateNormal of a precision": lambda t, d, x: d.MultivariateNormal(x, precision_matrix=_covariance(t, x)),
    "MultivariateNormal of a triangle": lambda t, d, x: d.MultivariateNormal(
        x[0], scale_tril=t.linalg.cholesky(_covariance(t, x))
    ),
}


def _flow(d: ModuleType, x: Any) -> Any:
    """Two numbers at once, through transforms with and without parameters."""
    parts = [d.transforms.SigmoidTransform().inv, d.transforms.AffineTransform(x[1, :2], x[2, :2].exp(), event_dim=1)]
    return d.TransformedDistribution(d.Uniform(x[0, :2] * 0.0, 1.0), parts)


MADE |= {
    "Cauchy": lambda t, d, x: d.Cauchy(x[0], x[1].exp()),
    "HalfNormal": lambda t, d, x: d.HalfNormal(x[1].exp()),
    "HalfCauchy": lambda t, d, x: d.HalfCauchy(x[1].exp()),
    "Weibull": lambda t, d, x: d.Weibull(x.exp(), (x * 0.5).exp()),
    "Pareto": lambda t, d, x: d.Pareto(x.exp(), x.abs() + 3.0),
    "Kumaraswamy": lambda t, d, x: d.Kumaraswamy((x * 0.5).exp(), (x * 0.3).exp()),
    "InverseGamma": lambda t, d, x: d.InverseGamma(x.abs() + 3.0, x.exp()),
    "FisherSnedecor": lambda t, d, x: d.FisherSnedecor(x.exp(), x.abs() + 5.0),
    "Multinomial": lambda t, d, x: d.Multinomial(5, x.exp()),
    "Multinomial of logits": lambda t, d, x: d.Multinomial(3, logits=x),
    "MixtureSameFamily": lambda t, d, x: d.MixtureSameFamily(d.Categorical(logits=x), d.Normal(x, x.exp())),
    "MixtureSameFamily of vectors": lambda t, d, x: d.MixtureSameFamily(
        d.Categorical(logits=x[0]), d.Independent(d.Normal(x.t(), x.t().exp()), 1)
    ),
    "TransformedDistribution": lambda t, d, x: _flow(d, x),
    "TransformedDistribution widened": lambda t, d, x: d.TransformedDistribution(
        d.Normal(x[0, 0], 1.0), [d.transforms.AffineTransform(x[1], -2.0), d.transforms.TanhTransform()]
    ),
    "TransformedDistribution softplus": lambda t, d, x: d.TransformedDistribution(
        d.Normal(x, 1.0), [d.transforms.ComposeTransform([d.transforms.SoftplusTransform()])]
    ),
}
WITH_GRADIENTS = (
    "Normal", "Uniform", "Independent", "Laplace", "Exponential", "MultivariateNormal", "Gumbel", "LogNormal",
    "Relaxed", "Gamma", "Chi2", "Dirichlet", "Beta", "StudentT", "Cauchy", "HalfNormal", "Transformed",
    "HalfCauchy", "Weibull", "Pareto", "Kumaraswamy", "InverseGamma", "FisherSnedecor",
)  # fmt: skip
WITH_MEANS = ("Geometric", "Poisson", "Binomial", "NegativeBinomial", "Multinomial", "Mixture")
NO_MEANS = ("Relaxed", "Transformed", "Cauchy", "HalfCauchy")
NO_DIVERGENCE = (
    "HalfCauchy",
    "Kumaraswamy",
    "InverseGamma",
    "Weibull",
    "FisherSnedecor",
    "Multinomial",
    "Mixture",
    "Transformed",
    "Relaxed",
    "StudentT",
    "NegativeBinomial",
)
NO_ENTROPY = (  # of Uniform: see below
    "Uniform", "Relaxed", "Poisson", "NegativeBinomial", "Mixture", "Transformed", "FisherSnedecor",
)  # fmt: skip
COARSE = (  # PyTorch takes implicit gradients from tables
    "Gamma", "Chi2", "Dirichlet", "Beta", "StudentT", "InverseGamma", "FisherSnedecor",
)  # fmt: skip
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
    if not name.startswith(NO_ENTROPY):  # of the borders a sample has no gradient
        answers += [made.entropy()]
    if name.startswith(WITH_GRADIENTS):
        answers += [made.rsample((2,))]
    if name.startswith((*WITH_GRADIENTS, *WITH_MEANS)) and not name.startswith(NO_MEANS):
        answers += [made.mean, made.variance, made.stddev]
    if not name.startswith(NO_DIVERGENCE):
        answers += [d.kl_divergence(made, MADE[name](t, d, x.detach() * 0.5))]
    sum((a * a).sum() for a in answers if a.requires_grad).backward()
    return [*samples, *answers, x.grad]


@pytest.mark.parametrize("name", MADE)
def test_distribution_as_in_pytorch(name: str) -> None:
    torch = pytest.importorskip("torch")
    import torch.distributions as theirs

    found, wanted = asked(tg, D, name), asked(torch, theirs, name)
    for place, (got, want) in enumerate(zip(found, wanted, strict=True), 1):
        assert tuple(got.shape) == tuple(want.shape) and str(got.dtype) == str(want.dtype)
        rtol = 2e-3 if name.startswith(COARSE) and place == len(found) else 1e-6
        np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), rtol=rtol, atol=1e-9)


@pytest.mark.parametrize(
    "name",
    [
        "Normal",
        "Uniform",
        "Cauchy",
        "HalfNormal",
        "TransformedDistribution widened",
        "HalfCauchy",
        "Weibull",
        "Pareto",
        "Kumaraswamy",
    ],
)
def test_shares_below_a_value_as_in_pytorch(name: str) -> None:
    torch = pytest.importorskip("torch")
    import torch.distributions as theirs

    found = []
    for t, d in ((tg, D), (torch, theirs)):
        x = t.tensor(X, requires_grad=True)
        made = MADE[name](t, d, x)
        t.manual_seed(1)
        share = made.cdf(made.sample((3,)))
        value = made.icdf(t.full(made.batch_shape, 0.3, dtype=t.float64))
        (share.square().sum() + value.square().sum()).backward()
        found.append([share.detach().numpy(), value.detach().numpy(), x.grad.numpy()])
    for got, want in zip(*found, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-7, atol=1e-12)


NO_KIND = ("Relaxed", "Mixture", "Transformed", "Kumaraswamy")  # of the last PyTorch's mode is NaN: see below
CORNER = [1.0, 0.0]  # above 1 there is none: the first of equal ones
KINDS = tuple(name for name in MADE if " " not in name and not name.startswith(NO_KIND))


@pytest.mark.parametrize("name", [n for n in KINDS if not n.endswith("StraightThrough")])
def test_modes_and_listed_values_as_in_pytorch(name: str) -> None:
    torch = pytest.importorskip("torch")
    import torch.distributions as theirs

    def answers(t: ModuleType, d: ModuleType) -> list[Any]:
        made = MADE[name](t, d, t.tensor(X))
        found: list[Any] = [made.has_rsample]
        for ask in (lambda: made.mode, made.perplexity, made.enumerate_support, lambda: made.enumerate_support(False)):
            try:
                found.append(ask().numpy())
            except NotImplementedError:
                found.append("none")
        return found

    got, want = answers(tg, D), answers(torch, theirs)
    for mine, their in zip(got, want, strict=True):
        if isinstance(mine, str) or isinstance(their, str):
            assert str(mine) == "none"  # here there may be fewer
        else:
            np.testing.assert_allclose(mine, their, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", ["Laplace", "Exponential", "Gumbel", "LogNormal"])
def test_more_shares_below_a_value_as_in_pytorch(name: str) -> None:
    test_shares_below_a_value_as_in_pytorch(name)


def test_modes_at_corners() -> None:
    made = D.Kumaraswamy(tg.tensor(2.0), 3.0)
    near = made.log_prob(made.mode + tg.tensor([-1e-2, 0.0, 1e-2]))
    assert near.argmax().item() == 1 and abs(made.mode.item() - math.sqrt(0.2)) < 1e-6
    assert D.Dirichlet(tg.tensor([0.5, 0.9])).mode.tolist() == CORNER
    assert tg.isnan(D.Bernoulli(0.5).mode) and D.Categorical(tg.ones(2, 3)).mean.isnan().tolist() == [True, True]
    with pytest.raises(NotImplementedError, match="Normal: its values cannot be listed"):
        D.Normal(0.0, 1.0).enumerate_support()
    with pytest.raises(NotImplementedError, match="RelaxedBernoulli: has no mode"):
        D.RelaxedBernoulli(tg.tensor(1.0), 0.5).mode  # noqa: B018


def test_the_way_back_through_a_transform() -> None:
    x = tg.randn(3, 4, dtype=tg.float64, generator=tg.Generator().manual_seed(0))
    parts = [D.ExpTransform(), D.AffineTransform(1.0, 3.0), D.ExpTransform().inv, D.SigmoidTransform(cache_size=1)]
    for transform in (*parts, D.TanhTransform(), D.SoftplusTransform(), D.ComposeTransform(parts)):
        y = transform(x.abs() + 0.1 if transform is parts[2] else x)
        back = transform.inv(y)
        assert transform.bijective and transform.codomain.check(y).all()
        np.testing.assert_allclose(transform(back).numpy(), y.numpy(), rtol=1e-12)
        same = transform.log_abs_det_jacobian(back, y) + transform.inv.log_abs_det_jacobian(y, back)
        assert not same.any()
    y = parts[3](x)
    assert parts[3].inv(y) is x and parts[3](x) is y
    assert D.identity_transform(x) is x and not D.identity_transform.log_abs_det_jacobian(x, x).any()


def test_a_transform_of_ones_own() -> None:
    class Cubed(D.Transform):
        domain = codomain = D.constraints.real
        bijective = True

        def _call(self, x: tg.Tensor) -> tg.Tensor:
            return x**3

        def _inverse(self, y: tg.Tensor) -> tg.Tensor:
            return y.sign() * y.abs() ** (1 / 3)

        def log_abs_det_jacobian(self, x: tg.Tensor, y: tg.Tensor) -> tg.Tensor:
            return (3 * x**2).log()

    made = D.TransformedDistribution(D.Normal(tg.zeros(2), 1.0), Cubed())
    wanted = D.Normal(0.0, 1.0).log_prob(tg.tensor(2.0)).item() - np.log(12)
    np.testing.assert_allclose(made.log_prob(tg.tensor([8.0, 8.0])).numpy(), wanted, rtol=1e-5)
    assert made.batch_shape == (2,) and made.support is not None and "Cubed()" in repr(made)


def test_constraints_hold_or_not() -> None:
    c, x = D.constraints, tg.tensor([-1.0, 0.0, 0.5, 1.0, tg.nan])
    assert c.real.check(x).tolist() == [True, True, True, True, False]
    assert c.positive.check(x).tolist() == [False, False, True, True, False]
    assert c.unit_interval.check(x).tolist() == [False, True, True, True, False]
    assert c.boolean.check(x).tolist() == [False, True, False, True, False]
    assert c.positive_integer.check(x).tolist() == [False, False, False, True, False]
    assert c.integer_interval(0, 0).check(x).tolist() == [False, True, False, False, False]
    assert c.less_than(0.0).check(x).tolist() == [True, False, False, False, False]
    assert not c.real_vector.check(x) and c.real_vector.event_dim == 1
    assert c.simplex.check(tg.tensor([[0.5, 0.5], [0.5, 0.6]])).tolist() == [True, False]
    assert c.lower_cholesky.check(tg.eye(2)) and not c.lower_cholesky.check(tg.ones(2, 2))
    assert repr(c.positive) == "GreaterThan(lower_bound=0.0)"


def test_distributions_repeated() -> None:
    for made in (D.Normal(0.0, 1.0), D.Gamma(1.0, 2.0), D.Bernoulli(0.5), D.Cauchy(0.0, 1.0), D.LogNormal(0.0, 1.0)):
        more = made.expand((2, 3))
        assert type(more) is type(made) and more.batch_shape == more.sample().shape == (2, 3)
        np.testing.assert_allclose(more.log_prob(tg.ones(2, 3)).numpy(), made.log_prob(tg.tensor(1.0)).item())
    rows = D.Independent(D.Normal(tg.zeros(3), 1.0), 1).expand((2,))
    assert rows.sample().shape == (2, 3) and rows.log_prob(tg.zeros(2, 3)).shape == (2,)
    counts = D.Multinomial(4, tg.ones(3)).expand((2,))
    assert counts.sample((5,)).shape == (5, 2, 3) and counts.mean.shape == (2, 3)


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


# x, parameters, dx/da; of mpmath 1.3 with 25 digits
GAMMA_SLOPES = [
    (1e-6, 0.05, 0.00026635358314383524), (0.01, 0.1, 0.42279343812970277), (0.5, 0.5, 1.3373525943353346),
    (5.0, 0.05, 19.110263957072384), (1.0, 2.0, 0.7507786921262598), (3.0, 2.0, 1.321798518177963),
    (28.0, 30.0, 0.971282368474091), (33.0, 30.0, 1.054254683510781),
]  # fmt: skip
BETA_SLOPES = [
    (0.1, 0.5, 0.5, 0.5585312123807584), (0.9, 0.5, 0.5, 0.26089248531714077), (0.3, 2.0, 3.0, 0.13950891595619247),
    (0.65, 30.0, 20.0, 0.007374573660353514), (0.01, 0.2, 3.0, 0.16937615977374618),
    (0.999, 5.0, 0.3, 0.0002142010289519344),
]  # fmt: skip


def test_samples_move_with_their_parameters() -> None:
    for slope, table in ((_implicit.gamma_slope, GAMMA_SLOPES), (_implicit.beta_slope, BETA_SLOPES)):
        *given, wanted = np.array(table).T
        np.testing.assert_allclose(slope(*given), wanted, rtol=1e-7)  # type: ignore[operator]


def test_gradients_of_samples_are_not_differentiated_again() -> None:
    c = tg.tensor([1.0, 2.0], dtype=tg.float64, requires_grad=True)
    (g,) = tg.autograd.grad(D.Gamma(c, 1.0).rsample().sum(), c, create_graph=True)
    with pytest.raises(RuntimeError, match="cannot be differentiated again"):
        g.sum().backward()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_samples_that_are_rejected_follow_pytorchs_stream(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    import torch.distributions as theirs

    found = []
    for t, d in ((torch, theirs), (tg, D)):
        rates = t.tensor([0.0, 0.3, 3.0, 9.99, 10.0, 40.0, 1e4], dtype=getattr(t, dtype))
        chances = t.tensor([0.0, 0.05, 0.3, 0.5, 0.7, 0.95, 1.0], dtype=getattr(t, dtype))
        t.manual_seed(5)
        drawn = [d.Poisson(rates).sample((40,)), d.Binomial(3, chances).sample((40,))]
        drawn += [d.Binomial(1000, chances).sample((40,)), d.Gamma(rates + 1e-3, 2.0).sample((40,)), t.randn(3)]
        found.append([x.numpy() for x in drawn])
    for got, want in zip(found[1], found[0], strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_moments_where_there_are_none() -> None:
    t = D.StudentT(tg.tensor([0.5, 1.5, 4.0]), 1.0, 2.0)
    assert str(t.mean.tolist()) == "[nan, 1.0, 1.0]" and str(t.variance.tolist()) == "[nan, inf, 8.0]"
    assert D.Gamma(0.5, 1.0).mode.item() == 0.0 and repr(D.Chi2(3.0)) == "Chi2(df: 3.0)"
    more, fewer = D.Binomial(3, 0.5), D.Binomial(2, 0.5)
    assert tg.isinf(D.kl_divergence(more, fewer)) and D.NegativeBinomial(0.0, 0.5).log_prob(tg.tensor(0.0)).item() == 0
    assert tg.isinf(D.kl_divergence(D.Uniform(0.0, 2.0), D.Uniform(0.0, 1.0))) and tg.isinf(D.HalfCauchy(1.0).mean)
    assert tg.isinf(D.kl_divergence(D.Pareto(1.0, 2.0), D.Pareto(2.0, 2.0))) and tg.isinf(D.Pareto(1.0, 0.5).mean)
    assert tg.isinf(D.InverseGamma(1.0, 1.0).mean) and tg.isnan(D.FisherSnedecor(1.0, 2.0).mean)
    assert tg.isnan(D.Kumaraswamy(0.5, 2.0).mode) and repr(D.Pareto(1.0, 3.0)) == "Pareto(alpha: 3.0, scale: 1.0)"
    assert repr(D.Binomial(3, 0.5)) == "Binomial(total_count: 3.0, probs: 0.5)"
    assert D.Binomial(tg.tensor([2, 3]), 0.25).mean.tolist() == [0.5, 0.75]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: D.Multinomial(0.5, tg.ones(2)), NotImplementedError, "total_count must be a whole number"),
        (lambda: D.Multinomial(2, tg.ones(2)).log_prob(tg.ones(2) * 2), ValueError, "counts that add up to 2"),
        (lambda: D.MixtureSameFamily(D.Normal(0.0, 1.0), D.Normal(0.0, 1.0)), ValueError, "must be a Categorical"),
        (
            lambda: D.MixtureSameFamily(D.Categorical(tg.ones(2)), D.Normal(tg.zeros(3), 1.0)),
            ValueError,
            r"component_distribution must be 2, got \(3,\)",
        ),
        (lambda: D.TransformedDistribution(D.Normal(0.0, 1.0), [tg.exp]), ValueError, "transforms must be Transforms"),
        (lambda: D.ExpTransform(cache_size=2), ValueError, "ExpTransform: cache_size must be 0 or 1, got 2"),
        (lambda: D.Gamma(1.0, 1.0).cdf(tg.ones(1)), NotImplementedError, "Gamma: has no cdf"),
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
        (lambda: D.Gamma(0.0, 1.0), ValueError, "Gamma: concentration must be positive, got 0.0"),
        (lambda: D.Weibull(1.0, 0.0), ValueError, "Weibull: concentration must be positive, got 0.0"),
        (lambda: D.HalfCauchy(0.0), ValueError, "scale must be positive, got 0.0"),
        (lambda: D.Chi2(-1.0), ValueError, "Chi2: concentration must be positive"),
        (lambda: D.Dirichlet(tg.tensor(1.0)), ValueError, r"Dirichlet: concentration must be a tensor \(..., n\)"),
        (lambda: D.Beta(1.0, 0.0), ValueError, "Beta: concentration0 must be positive, got 0.0"),
        (lambda: D.StudentT(0.0), ValueError, "StudentT: df must be positive, got 0.0"),
        (lambda: D.Poisson(-1.0), ValueError, "Poisson: rate must be 0 or positive, got -1.0"),
        (lambda: D.Poisson(1.0).rsample(), NotImplementedError, "Poisson: rsample has no gradient"),
        (lambda: D.Poisson(1.0).entropy(), NotImplementedError, "Poisson: has no entropy"),
        (lambda: D.Binomial(2.5, 0.5), ValueError, "Binomial: total_count must be a whole number from 0 on, got 2.5"),
        (lambda: D.Binomial(2), ValueError, "Binomial: give either probs or logits"),
        (lambda: D.Binomial(tg.tensor([2, 3]), 0.5).entropy(), NotImplementedError, "the same total_count everywhere"),
        (lambda: D.NegativeBinomial(2.0, 1.0), ValueError, r"NegativeBinomial: probs must be in \[0, 1\), got 1.0"),
        (
            lambda: D.kl_divergence(D.Binomial(2, 0.5), D.Binomial(3, 0.5)),
            NotImplementedError,
            "where q has more tries",
        ),
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


# A value that cannot occur, and one that can.
OUTSIDE: dict[str, tuple[Callable[[Any], Any], Any, Any]] = {
    "Normal": (lambda d: D.Normal(0.0, 1.0, d), math.nan, -3.0),
    "Laplace": (lambda d: D.Laplace(0.0, 1.0, d), math.nan, -3.0),
    "StudentT": (lambda d: D.StudentT(3.0, validate_args=d), math.nan, 1.0),
    "Exponential": (lambda d: D.Exponential(1.0, d), -1.0, 0.0),
    "Gamma": (lambda d: D.Gamma(2.0, 1.0, d), -1.0, 1.0),
    "Chi2": (lambda d: D.Chi2(tg.tensor(2.0), d), -1.0, 1.0),
    "Beta": (lambda d: D.Beta(1.0, 2.0, d), 1.5, 0.5),
    "Dirichlet": (lambda d: D.Dirichlet(tg.ones(2), d), [0.5, 0.6], [0.5, 0.5]),
    "Uniform": (lambda d: D.Uniform(0.0, 1.0, d), 2.0, 0.5),
    "Uniform of several": (lambda d: D.Uniform(tg.tensor([0.0, 3.0]), 4.0, d), [1.0, 1.0], [1.0, 3.5]),
    "LogNormal": (lambda d: D.LogNormal(0.0, 1.0, d), -1.0, 1.0),
    "HalfNormal": (lambda d: D.HalfNormal(1.0, d), -1.0, 0.0),
    "HalfCauchy": (lambda d: D.HalfCauchy(1.0, d), -1.0, 0.0),
    "Weibull": (lambda d: D.Weibull(1.0, 3.0, d), -0.5, 0.5),
    "Pareto": (lambda d: D.Pareto(1.0, 3.0, d), 0.5, 1.5),
    "Kumaraswamy": (lambda d: D.Kumaraswamy(1.0, 2.0, d), 1.5, 0.5),
    "InverseGamma": (lambda d: D.InverseGamma(1.0, 2.0, d), -1.5, 1.5),
    "FisherSnedecor": (lambda d: D.FisherSnedecor(1.0, 2.0, d), -1.5, 1.5),
    "Poisson": (lambda d: D.Poisson(1.0, d), 1.5, 2.0),
    "Geometric": (lambda d: D.Geometric(0.5, validate_args=d), -1.0, 2.0),
    "Binomial": (lambda d: D.Binomial(3, tg.tensor(0.5), validate_args=d), 4.0, 3.0),
    "NegativeBinomial": (lambda d: D.NegativeBinomial(3, tg.tensor(0.5), validate_args=d), -1.0, 7.0),
    "OneHotCategorical": (lambda d: D.OneHotCategorical(tg.ones(2) / 2, validate_args=d), [1.0, 1.0], [0.0, 1.0]),
    "MultivariateNormal": (
        lambda d: D.MultivariateNormal(tg.zeros(2), tg.eye(2), validate_args=d),
        [0.0, math.nan],
        [0.0, 1.0],
    ),
    "Independent": (lambda d: D.Independent(D.Exponential(tg.ones(2), d), 1), [1.0, -1.0], [1.0, 2.0]),
    "transformed": (lambda d: D.TransformedDistribution(D.Normal(0.0, 1.0, d), [D.ExpTransform()], d), -1.0, 2.0),
}  # fmt: skip


@pytest.mark.parametrize("name", OUTSIDE)
def test_values_that_cannot_occur_are_refused(name: str) -> None:
    """The formulas give numbers for them, too: Pareto's share below half the scale was -7."""
    make, outside, inside = OUTSIDE[name]
    checked, unchecked = make(None), make(False)
    for ask in ("log_prob", "cdf"):
        try:
            getattr(checked, ask)(tg.tensor(inside))
        except NotImplementedError:
            continue
        with pytest.raises(ValueError, match=r"value must be in the support, .* got"):
            getattr(checked, ask)(tg.tensor(outside))
        getattr(unchecked, ask)(tg.tensor(outside))
    assert checked.support.check(tg.tensor(inside)).all() and not checked.support.check(tg.tensor(outside)).all()


def test_independent_ones_have_the_gradients_of_their_base() -> None:
    half = tg.tensor([0.5, 0.5])
    assert D.Independent(D.Normal(half, 1.0), 1).has_rsample and not D.Independent(D.Bernoulli(half), 1).has_rsample

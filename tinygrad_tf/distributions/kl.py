"""How far one distribution is from another."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tinygrad_tf import linalg
from tinygrad_tf.distributions.bernoulli import Bernoulli
from tinygrad_tf.distributions.categorical import Categorical
from tinygrad_tf.distributions.cauchy import Cauchy
from tinygrad_tf.distributions.counts import Binomial, Poisson
from tinygrad_tf.distributions.dirichlet import Beta, Dirichlet
from tinygrad_tf.distributions.distribution import Distribution
from tinygrad_tf.distributions.exponential import Exponential
from tinygrad_tf.distributions.gamma import Gamma
from tinygrad_tf.distributions.geometric import Geometric
from tinygrad_tf.distributions.gumbel import EULER, Gumbel
from tinygrad_tf.distributions.independent import Independent
from tinygrad_tf.distributions.laplace import Laplace
from tinygrad_tf.distributions.lifetimes import Pareto
from tinygrad_tf.distributions.log_normal import LogNormal
from tinygrad_tf.distributions.multivariate_normal import MultivariateNormal
from tinygrad_tf.distributions.normal import Normal
from tinygrad_tf.distributions.one_hot_categorical import OneHotCategorical
from tinygrad_tf.distributions.transformed_distribution import HalfNormal
from tinygrad_tf.distributions.uniform import Uniform
from tinygrad_tf.functions import where
from tinygrad_tf.nn import functional as F
from tinygrad_tf.tensor import Tensor

Formula = Callable[[Any, Any], Tensor]
_formulas: dict[tuple[type, type], Formula] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Formula], Formula]:
    """The function that follows computes KL(p || q) for p and q of these classes, and of those derived from them.

    >>> class Mine(Normal): ...
    >>> @register_kl(Mine, Mine)
    ... def far(p, q):
    ...     return (p.loc - q.loc).abs()
    >>> kl_divergence(Mine(0.0, 1.0), Mine(3.0, 1.0))
    tensor(3.)
    """

    def registered(formula: Formula) -> Formula:
        _formulas[type_p, type_q] = formula
        return formula

    return registered


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """KL(p || q), the mean under p of log p - log q, of two distributions of one kind.

    >>> kl_divergence(Normal(0.0, 1.0), Normal(1.0, 1.0))
    tensor(0.5000)
    """
    for of_p in type(p).__mro__:
        for of_q in type(q).__mro__:
            if (of_p, of_q) in _formulas:
                return _formulas[of_p, of_q](p, q)
    raise NotImplementedError(f"kl_divergence: there is no formula for {type(p).__name__} and {type(q).__name__}")


@register_kl(Normal, Normal)
def _normal(p: Normal, q: Normal) -> Tensor:
    ratio = (p.scale / q.scale) ** 2
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale) ** 2 - 1 - ratio.log())


@register_kl(Categorical, Categorical)
def _categorical(p: Categorical, q: Categorical) -> Tensor:
    return (p.probs * (p.logits - q.logits)).sum(-1)


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Bernoulli, q: Bernoulli) -> Tensor:
    return p.probs * (p.logits - q.logits) + F.logsigmoid(-p.logits) - F.logsigmoid(-q.logits)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot_categorical(p: OneHotCategorical, q: OneHotCategorical) -> Tensor:
    return kl_divergence(p._categorical, q._categorical)


@register_kl(Exponential, Exponential)
def _exponential(p: Exponential, q: Exponential) -> Tensor:
    ratio = q.rate / p.rate
    return ratio - ratio.log() - 1


@register_kl(Laplace, Laplace)
def _laplace(p: Laplace, q: Laplace) -> Tensor:
    distance, ratio = (p.loc - q.loc).abs(), p.scale / q.scale
    return distance / q.scale - ratio.log() - 1 + ratio * (-distance / p.scale).exp()


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate_normal(p: MultivariateNormal, q: MultivariateNormal) -> Tensor:
    spread = (linalg.solve(q.scale_tril, p.scale_tril) ** 2).sum((-2, -1))
    shift = (linalg.solve(q.scale_tril, (q.loc - p.loc).unsqueeze(-1)) ** 2).sum((-2, -1))
    return q.half_log_det() - p.half_log_det() + 0.5 * (spread + shift - p.event_shape[0])


@register_kl(Independent, Independent)
def _independent(p: Independent, q: Independent) -> Tensor:
    if p._event_axes != q._event_axes:
        raise NotImplementedError(f"kl_divergence: there is no formula for {p} and {q}, of different events")
    return p._added(kl_divergence(p.base_dist, q.base_dist))


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Gumbel, q: Gumbel) -> Tensor:
    ratio, shift = p.scale / q.scale, (p.loc - q.loc) / q.scale
    return ((1 + ratio).lgamma() - shift).exp() + shift - ratio.log() + (ratio - 1) * EULER - 1


@register_kl(Geometric, Geometric)
def _geometric(p: Geometric, q: Geometric) -> Tensor:
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(Gamma, Gamma)
def _gamma(p: Gamma, q: Gamma) -> Tensor:
    rates = q.concentration * (p.rate / q.rate).log() + (q.rate - p.rate) * (p.concentration / p.rate)
    shift = (p.concentration - q.concentration) * p.concentration.digamma()
    return rates + q.concentration.lgamma() - p.concentration.lgamma() + shift


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Dirichlet, q: Dirichlet) -> Tensor:
    a, b = p.concentration, q.concentration
    shift = (a - b) * (a.digamma() - a.sum(-1, keepdim=True).digamma())
    return a.sum(-1).lgamma() - b.sum(-1).lgamma() + (b.lgamma() - a.lgamma() + shift).sum(-1)


@register_kl(Beta, Beta)
def _beta(p: Beta, q: Beta) -> Tensor:
    return kl_divergence(p._dirichlet, q._dirichlet)


@register_kl(Poisson, Poisson)
def _poisson(p: Poisson, q: Poisson) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Binomial, Binomial)
def _binomial(p: Binomial, q: Binomial) -> Tensor:
    """Infinite where p has more tries than q can count."""
    if bool((p.total_count < q.total_count).any()):
        raise NotImplementedError("kl_divergence: there is no formula where q has more tries (total_count) than p")
    of_one = p.probs * (p.logits - q.logits) + F.logsigmoid(-p.logits) - F.logsigmoid(-q.logits)
    return where(p.total_count > q.total_count, math.inf, p.total_count * of_one)


@register_kl(HalfNormal, HalfNormal)
@register_kl(LogNormal, LogNormal)
def _one_to_one(p: Any, q: Any) -> Tensor:
    """What maps both in one way brings them neither nearer nor farther."""
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Cauchy, q: Cauchy) -> Tensor:
    return ((p.scale + q.scale) ** 2 + (p.loc - q.loc) ** 2).log() - (4 * p.scale * q.scale).log()


@register_kl(Pareto, Pareto)
def _pareto(p: Pareto, q: Pareto) -> Tensor:
    """Infinite where p has numbers below all of q."""
    ratio = q.alpha / p.alpha
    found = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return where(p.scale < q.scale, math.inf, found)


@register_kl(Uniform, Uniform)
def _uniform(p: Uniform, q: Uniform) -> Tensor:
    """Infinite where p has numbers outside of q."""
    found = ((q.high - q.low) / (p.high - p.low)).log()
    return where((q.low > p.low) | (q.high < p.high), math.inf, found)

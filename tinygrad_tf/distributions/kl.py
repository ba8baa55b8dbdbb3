"""How far one distribution is from another."""

from __future__ import annotations

from tinygrad_tf import linalg
from tinygrad_tf.distributions.bernoulli import Bernoulli
from tinygrad_tf.distributions.categorical import Categorical
from tinygrad_tf.distributions.distribution import Distribution
from tinygrad_tf.distributions.exponential import Exponential
from tinygrad_tf.distributions.independent import Independent
from tinygrad_tf.distributions.laplace import Laplace
from tinygrad_tf.distributions.multivariate_normal import MultivariateNormal
from tinygrad_tf.distributions.normal import Normal
from tinygrad_tf.distributions.one_hot_categorical import OneHotCategorical
from tinygrad_tf.nn import functional as F
from tinygrad_tf.tensor import Tensor


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """KL(p || q), the mean under p of log p - log q, of two distributions of one kind.

    >>> kl_divergence(Normal(0.0, 1.0), Normal(1.0, 1.0))
    tensor(0.5000)
    """
    if isinstance(p, Normal) and isinstance(q, Normal):
        ratio = (p.scale / q.scale) ** 2
        return 0.5 * (ratio + ((p.loc - q.loc) / q.scale) ** 2 - 1 - ratio.log())
    if isinstance(p, Categorical) and isinstance(q, Categorical):
        return (p.probs * (p.logits - q.logits)).sum(-1)
    if isinstance(p, Bernoulli) and isinstance(q, Bernoulli):
        return p.probs * (p.logits - q.logits) + F.logsigmoid(-p.logits) - F.logsigmoid(-q.logits)
    if isinstance(p, OneHotCategorical) and isinstance(q, OneHotCategorical):
        return kl_divergence(p._categorical, q._categorical)
    if isinstance(p, Exponential) and isinstance(q, Exponential):
        ratio = q.rate / p.rate
        return ratio - ratio.log() - 1
    if isinstance(p, Laplace) and isinstance(q, Laplace):
        distance, ratio = (p.loc - q.loc).abs(), p.scale / q.scale
        return distance / q.scale - ratio.log() - 1 + ratio * (-distance / p.scale).exp()
    if isinstance(p, MultivariateNormal) and isinstance(q, MultivariateNormal):
        spread = (linalg.solve(q.scale_tril, p.scale_tril) ** 2).sum((-2, -1))
        shift = (linalg.solve(q.scale_tril, (q.loc - p.loc).unsqueeze(-1)) ** 2).sum((-2, -1))
        return q.half_log_det() - p.half_log_det() + 0.5 * (spread + shift - p.event_shape[0])
    if isinstance(p, Independent) and isinstance(q, Independent) and p._event_axes == q._event_axes:
        return p._added(kl_divergence(p.base_dist, q.base_dist))
    raise NotImplementedError(f"kl_divergence: there is no formula for {type(p).__name__} and {type(q).__name__}")

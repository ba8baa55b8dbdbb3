"""Random variables with PyTorch's names: Normal, Uniform, Categorical and others, and how far one is from another.

`sample` draws without gradients, from the same random numbers as PyTorch; `rsample` draws so that gradients reach the
parameters (Kingma and Welling, 2014). `log_prob` and `entropy` are differentiable. Shapes: a sample is of shape
(*sample_shape, *batch_shape, *event_shape).
"""

from tinygrad_tf.distributions.bernoulli import Bernoulli as Bernoulli
from tinygrad_tf.distributions.categorical import Categorical as Categorical
from tinygrad_tf.distributions.cauchy import Cauchy as Cauchy
from tinygrad_tf.distributions.counts import (
    Binomial as Binomial,
)
from tinygrad_tf.distributions.counts import (
    NegativeBinomial as NegativeBinomial,
)
from tinygrad_tf.distributions.counts import (
    Poisson as Poisson,
)
from tinygrad_tf.distributions.dirichlet import Beta as Beta
from tinygrad_tf.distributions.dirichlet import Dirichlet as Dirichlet
from tinygrad_tf.distributions.distribution import Distribution as Distribution
from tinygrad_tf.distributions.exponential import Exponential as Exponential
from tinygrad_tf.distributions.gamma import Chi2 as Chi2
from tinygrad_tf.distributions.gamma import Gamma as Gamma
from tinygrad_tf.distributions.geometric import Geometric as Geometric
from tinygrad_tf.distributions.gumbel import Gumbel as Gumbel
from tinygrad_tf.distributions.independent import Independent as Independent
from tinygrad_tf.distributions.kl import kl_divergence as kl_divergence
from tinygrad_tf.distributions.kl import register_kl as register_kl
from tinygrad_tf.distributions.laplace import Laplace as Laplace
from tinygrad_tf.distributions.lifetimes import (
    FisherSnedecor as FisherSnedecor,
)
from tinygrad_tf.distributions.lifetimes import (
    HalfCauchy as HalfCauchy,
)
from tinygrad_tf.distributions.lifetimes import (
    InverseGamma as InverseGamma,
)
from tinygrad_tf.distributions.lifetimes import (
    Kumaraswamy as Kumaraswamy,
)
from tinygrad_tf.distributions.lifetimes import (
    Pareto as Pareto,
)
from tinygrad_tf.distributions.lifetimes import (
    Weibull as Weibull,
)
from tinygrad_tf.distributions.log_normal import LogNormal as LogNormal
from tinygrad_tf.distributions.mixture_same_family import MixtureSameFamily as MixtureSameFamily
from tinygrad_tf.distributions.multinomial import Multinomial as Multinomial
from tinygrad_tf.distributions.multivariate_normal import MultivariateNormal as MultivariateNormal
from tinygrad_tf.distributions.normal import Normal as Normal
from tinygrad_tf.distributions.one_hot_categorical import OneHotCategorical as OneHotCategorical
from tinygrad_tf.distributions.one_hot_categorical import (
    OneHotCategoricalStraightThrough as OneHotCategoricalStraightThrough,
)
from tinygrad_tf.distributions.relaxed_categorical import RelaxedBernoulli as RelaxedBernoulli
from tinygrad_tf.distributions.relaxed_categorical import RelaxedOneHotCategorical as RelaxedOneHotCategorical
from tinygrad_tf.distributions.student_t import StudentT as StudentT
from tinygrad_tf.distributions.transformed_distribution import (
    HalfNormal as HalfNormal,
)
from tinygrad_tf.distributions.transformed_distribution import (
    TransformedDistribution as TransformedDistribution,
)
from tinygrad_tf.distributions.transforms import AbsTransform as AbsTransform
from tinygrad_tf.distributions.transforms import AffineTransform as AffineTransform
from tinygrad_tf.distributions.transforms import ComposeTransform as ComposeTransform
from tinygrad_tf.distributions.transforms import ExpTransform as ExpTransform
from tinygrad_tf.distributions.transforms import SigmoidTransform as SigmoidTransform
from tinygrad_tf.distributions.transforms import SoftplusTransform as SoftplusTransform
from tinygrad_tf.distributions.transforms import TanhTransform as TanhTransform
from tinygrad_tf.distributions.transforms import Transform as Transform
from tinygrad_tf.distributions.transforms import identity_transform as identity_transform
from tinygrad_tf.distributions.uniform import Uniform as Uniform

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "Bernoulli",
    "Beta",
    "Binomial",
    "Categorical",
    "Cauchy",
    "Chi2",
    "ComposeTransform",
    "Dirichlet",
    "Distribution",
    "ExpTransform",
    "Exponential",
    "FisherSnedecor",
    "Gamma",
    "Geometric",
    "Gumbel",
    "HalfCauchy",
    "HalfNormal",
    "Independent",
    "InverseGamma",
    "Kumaraswamy",
    "Laplace",
    "LogNormal",
    "MixtureSameFamily",
    "Multinomial",
    "MultivariateNormal",
    "NegativeBinomial",
    "Normal",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "Pareto",
    "Poisson",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
    "SigmoidTransform",
    "SoftplusTransform",
    "StudentT",
    "TanhTransform",
    "Transform",
    "TransformedDistribution",
    "Uniform",
    "Weibull",
    "identity_transform",
    "kl_divergence",
    "register_kl",
]

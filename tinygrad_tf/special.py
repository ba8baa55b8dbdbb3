"""Special functions, as in torch.special; those that are in torch, too, are the same functions.

>>> from tinygrad_tf import arange, special
>>> special.gammaln(arange(1.0, 6.0)).exp()  # factorials
tensor([ 1.,  1.,  2.,  6., 24.])
"""

from __future__ import annotations

import math
from typing import Any

from tinygrad_tf.compositions import erfc, sinc, xlogy
from tinygrad_tf.functions import (
    erf,
    erfinv,
    exp2,
    expm1,
    log1p,
    log_softmax,
    logit,
    logsumexp,
    round,
    softmax,
)
from tinygrad_tf.functions import sigmoid as expit
from tinygrad_tf.methods._tools import check_all, in_place, operand, tensors_only
from tinygrad_tf.methods.composed import as_methods
from tinygrad_tf.ops import bessel, gamma, special
from tinygrad_tf.ops._types import wants_tensor
from tinygrad_tf.tensor import Tensor

# --- of the gamma function --------------------------------------------------------------------------------------------


def lgamma(input: Tensor) -> Tensor:
    """The natural logarithm of |gamma(x)|; inf at 0 and at negative whole numbers. Integers become the default float.

    >>> from tinygrad_tf import lgamma, tensor
    >>> lgamma(tensor([0.5, 1.0, 5.0]))
    tensor([0.5724, 0.0000, 3.1781])
    """
    return gamma.lgamma(input)


def digamma(input: Tensor) -> Tensor:
    """The derivative of lgamma; -inf at 0, NaN at negative whole numbers.

    >>> from tinygrad_tf import digamma, tensor
    >>> digamma(tensor([1.0, 0.5]))
    tensor([-0.5772, -1.9635])
    """
    return gamma.digamma(input)


def polygamma(n: int, input: Tensor) -> Tensor:
    """Derivative number n of digamma, which is that for n = 0; of a tensor, x.polygamma(n).

    >>> from tinygrad_tf import polygamma, tensor
    >>> polygamma(1, tensor([1.0, 0.5]))
    tensor([1.6449, 4.9348])
    """
    if not isinstance(input, Tensor):
        raise wants_tensor("polygamma", "input", input)
    return gamma.polygamma(input, n)


def mvlgamma(input: Tensor, p: int) -> Tensor:
    """The logarithm of the gamma function of p dimensions, which scales the densities of random matrices:
    p (p - 1) / 4 log(pi) + the sum of lgamma(x - i / 2) over i = 0 ... p - 1.

    >>> from tinygrad_tf import mvlgamma, tensor
    >>> mvlgamma(tensor([2.0, 3.5]), 3)
    tensor([1.5963, 3.8959])
    """
    if not isinstance(p, int) or p < 1:
        raise RuntimeError(f"mvlgamma: p must be an integer from 1 on, got {p!r}")
    total = gamma.lgamma(input)
    for i in range(1, p):
        total = total + gamma.lgamma(input - i / 2)
    return total + p * (p - 1) / 4 * math.log(math.pi)


# --- of logarithms and of the normal distribution ---------------------------------------------------------------------


def entr(input: Tensor) -> Tensor:
    """-x log x, of which entropies are sums; 0 at 0, and -inf for negative numbers.

    >>> from tinygrad_tf import special, tensor
    >>> special.entr(tensor([0.0, 0.5, 1.0, -1.0]))
    tensor([0.0000, 0.3466, -0.0000,   -inf])
    """
    return special.entr(input)


def xlog1py(input: Any, other: Any) -> Tensor:
    """input log(1 + other), and 0 where input is 0; either may be a number."""
    if not isinstance(input, Tensor) and not isinstance(other, Tensor):
        raise TypeError(f"xlog1py: needs a tensor, got {type(input).__name__} and {type(other).__name__}")
    return special.xlog1py(operand(input), operand(other))


def ndtr(input: Tensor) -> Tensor:
    """The probability that a standard normal number is at most x.

    >>> from tinygrad_tf import special, tensor
    >>> special.ndtr(tensor([-1.0, 0.0, 1.0]))
    tensor([0.1587, 0.5000, 0.8413])
    """
    return erfc(input * -math.sqrt(0.5)) * 0.5


def logaddexp2(input: Tensor, other: Tensor) -> Tensor:
    """log2(2^input + 2^other) without overflow."""
    return special.logaddexp2(input, other)


# --- Bessel functions -------------------------------------------------------------------------------------------------


def i0(input: Tensor) -> Tensor:
    """The modified Bessel function of the first kind of order 0: the mean of e^(x cos t) over all angles t.

    >>> from tinygrad_tf import special, tensor
    >>> special.i0(tensor([0.0, 1.0, 5.0]))
    tensor([ 1.0000,  1.2661, 27.2399])
    """
    return bessel.i0(input)


def i0e(input: Tensor) -> Tensor:
    """e^-|x| i0(x), which does not overflow."""
    return bessel.i0e(input)


def i1(input: Tensor) -> Tensor:
    """The derivative of i0, which is the function of order 1."""
    return bessel.i1(input)


def i1e(input: Tensor) -> Tensor:
    """e^-|x| i1(x), which does not overflow."""
    return bessel.i1e(input)


__all__ = [
    "digamma", "entr", "erf", "erfc", "erfinv", "exp2", "expit", "expm1", "gammaln", "i0", "i0e", "i1", "i1e",
    "log1p", "log_softmax", "logit", "logsumexp", "multigammaln", "ndtr", "polygamma", "psi", "round", "sinc",
    "softmax", "xlog1py", "xlogy",
]  # fmt: skip

check_all(("digamma", "entr", "i0", "i0e", "i1", "i1e", "lgamma", "logaddexp2", "mvlgamma", "ndtr"), globals())
gammaln, psi, multigammaln = lgamma, digamma, mvlgamma
_methods = {name: globals()[name] for name in ("digamma", "i0", "lgamma", "logaddexp2", "mvlgamma")}
_methods["polygamma"] = tensors_only(gamma.polygamma)
_methods |= {f"{name}_": in_place(method) for name, method in _methods.items() if name != "logaddexp2"}
as_methods(Tensor, " ".join(_methods), _methods)

"""Changes of variables y = f(x) that can be undone: of them TransformedDistribution makes new distributions.

A transform of one's own derives from Transform, names its `domain` and `codomain` (constraints), and has `_call`,
`_inverse` and `log_abs_det_jacobian`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tinygrad_tf.distributions import constraints
from tinygrad_tf.distributions.distribution import eps
from tinygrad_tf.nn import functional as F
from tinygrad_tf.tensor import Tensor


def summed(x: Tensor, count: int) -> Tensor:
    """The sum over the last `count` axes."""
    return x.sum(tuple(range(-count, 0))) if count else x


class Transform:
    """y = f(x), and back; `log_abs_det_jacobian(x, y)` is log |dy / dx|, for each event.

    cache_size: 1 keeps the last x and y, so that the way back from y is exact and costs nothing.
    """

    domain: Any = constraints.real
    codomain: Any = constraints.real
    bijective: Any = False
    sign: Any = 1  # that of the slope, for transforms of single numbers

    def __init__(self, cache_size: int = 0):
        if cache_size not in (0, 1):
            raise ValueError(f"{type(self).__name__}: cache_size must be 0 or 1, got {cache_size!r}")
        self.cache_size = cache_size
        self._last: tuple[Tensor, Tensor] | None = None

    def __call__(self, x: Tensor) -> Tensor:
        if self.cache_size and self._last is not None and self._last[0] is x:
            return self._last[1]
        y = self._call(x)
        self._last = (x, y) if self.cache_size else None
        return y

    def undone(self, y: Tensor) -> Tensor:
        """The x of which y was made."""
        if self.cache_size and self._last is not None and self._last[1] is y:
            return self._last[0]
        x = self._inverse(y)
        self._last = (x, y) if self.cache_size else None
        return x

    @property
    def inv(self) -> Transform:
        """The transform from y to x."""
        return _Inverse(self)

    @property
    def event_dim(self) -> int:
        """How many of the last axes belong together."""
        return max(self.domain.event_dim, self.codomain.event_dim)

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__}: has no _call")

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__}: has no _inverse")

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log |dy / dx|."""
        raise NotImplementedError(f"{type(self).__name__}: has no log_abs_det_jacobian")

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of y, for an x of this shape."""
        return tuple(shape)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of x, for a y of this shape."""
        return tuple(shape)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _Inverse(Transform):
    """A transform the other way round."""

    def __init__(self, transform: Transform):
        super().__init__()
        self.transform, self.bijective = transform, transform.bijective

    domain = property(lambda self: self.transform.codomain)
    codomain = property(lambda self: self.transform.domain)
    sign = property(lambda self: self.transform.sign)

    @property
    def inv(self) -> Transform:
        return self.transform

    def __call__(self, x: Tensor) -> Tensor:
        return self.transform.undone(x)

    def undone(self, y: Tensor) -> Tensor:
        return self.transform(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self.transform.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        return self.transform.inverse_shape(shape)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        return self.transform.forward_shape(shape)

    def __repr__(self) -> str:
        return f"{self.transform}.inv"


class ExpTransform(Transform):
    """y = exp(x)."""

    codomain, bijective = constraints.positive, True

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class SigmoidTransform(Transform):
    """y = 1 / (1 + exp(-x)); the way back keeps away from 0 and 1.

    >>> from tinygrad_tf import tensor
    >>> SigmoidTransform().inv(tensor([0.5, 0.75]))
    tensor([0.0000, 1.0986])
    """

    codomain, bijective = constraints.unit_interval, True

    def _call(self, x: Tensor) -> Tensor:
        return x.sigmoid()

    def _inverse(self, y: Tensor) -> Tensor:
        least = 2.0**-1022 if y.array.dtype.itemsize == 8 else 2.0**-126
        y = y.clamp(least, 1 - eps(y))
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -F.softplus(-x) - F.softplus(x)


class TanhTransform(Transform):
    """y = tanh(x)."""

    codomain, bijective = constraints.interval(-1.0, 1.0), True

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log(1 - tanh(x)^2), in a form that does not round to log(0) for large |x|."""
        return 2.0 * (math.log(2.0) - x - F.softplus(-2.0 * x))


class SoftplusTransform(Transform):
    """y = log(1 + exp(x))."""

    codomain, bijective = constraints.positive, True

    def _call(self, x: Tensor) -> Tensor:
        return F.softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-(-y).expm1()).log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -F.softplus(-x)


class AbsTransform(Transform):
    """y = |x|; of the two ways back, the one to the positive x."""

    codomain = constraints.nonnegative

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class AffineTransform(Transform):
    """y = loc + scale x, for numbers (event_dim=0) or for vectors and what has more axes."""

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0):
        super().__init__(cache_size)
        self.loc, self.scale = loc, scale
        self.domain = self.codomain = constraints.independent(constraints.real, event_dim)

    @property
    def sign(self) -> Any:
        return self.scale.sign() if isinstance(self.scale, Tensor) else (self.scale > 0) - (self.scale < 0)

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        slope = self.scale if isinstance(self.scale, Tensor) else x * 0 + self.scale
        return summed(slope.abs().log().expand(x.shape), self.event_dim)

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        return _common_shape(shape, self.loc, self.scale)

    inverse_shape = forward_shape


def _common_shape(shape: Sequence[int], *operands: Any) -> tuple[int, ...]:
    from tinygrad_tf.compositions import broadcast_shapes

    return tuple(broadcast_shapes(tuple(shape), *(tuple(getattr(x, "shape", ())) for x in operands)))


class ComposeTransform(Transform):
    """One transform after the other."""

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0):
        super().__init__(cache_size)
        self.parts = list(parts)

    @property
    def domain(self) -> Any:
        """The first one's, with the axes that the later ones take together."""
        if not self.parts:
            return constraints.real
        event_dim = self.parts[-1].codomain.event_dim
        for part in reversed(self.parts):
            event_dim = max(event_dim + part.domain.event_dim - part.codomain.event_dim, part.domain.event_dim)
        first = self.parts[0].domain
        return constraints.independent(first, event_dim - first.event_dim)

    @property
    def codomain(self) -> Any:
        """The last one's, with the axes that the earlier ones take together."""
        if not self.parts:
            return constraints.real
        event_dim = self.parts[0].domain.event_dim
        for part in self.parts:
            event_dim = max(event_dim + part.codomain.event_dim - part.domain.event_dim, part.codomain.event_dim)
        last = self.parts[-1].codomain
        return constraints.independent(last, event_dim - last.event_dim)

    @property
    def bijective(self) -> bool:
        return all(part.bijective for part in self.parts)

    @property
    def sign(self) -> Any:
        return math.prod((part.sign for part in self.parts), start=1)

    def _call(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def _inverse(self, y: Tensor) -> Tensor:
        for part in reversed(self.parts):
            y = part.undone(y)
        return y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        total: Any = 0
        event_dim = self.domain.event_dim
        for part in self.parts:
            y = part(x)
            total = total + summed(part.log_abs_det_jacobian(x, y), event_dim - part.domain.event_dim)
            event_dim += part.codomain.event_dim - part.domain.event_dim
            x = y
        return total if self.parts else x * 0

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return tuple(shape)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return tuple(shape)

    def __repr__(self) -> str:
        return f"ComposeTransform({self.parts})"


identity_transform = ComposeTransform([])

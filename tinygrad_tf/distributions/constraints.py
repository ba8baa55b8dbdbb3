"""Which values a parameter may have, or a random variable can take: what transforms name as their domains.

>>> from tinygrad_tf import tensor
>>> positive.check(tensor([-1.0, 2.0]))
tensor([False,  True])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tinygrad_tf.tensor import Tensor


class Constraint:
    """A set of values. check: whether each is in it; event_dim: how many of the last axes one value has."""

    def __init__(self, holds: Callable[[Tensor], Tensor], text: str, event_dim: int = 0, is_discrete: bool = False):
        self.holds, self.text, self.event_dim, self.is_discrete = holds, text, event_dim, is_discrete

    def check(self, value: Tensor) -> Tensor:
        """Whether it is in the set; of shape value.shape without the last event_dim axes."""
        return self.holds(value)

    def holds_for_all(self, value: Tensor) -> bool:
        return bool(self.check(value).all())

    def __repr__(self) -> str:
        return self.text


class _Real(Constraint):
    """Whatever is not NaN, which one sum tells: most values of most variables are asked of this."""

    def holds_for_all(self, value: Tensor) -> bool:
        total = value.array.sum()
        return bool(total == total) or super().holds_for_all(value)


def greater_than(lower_bound: Any) -> Constraint:
    """Above the bound."""
    return Constraint(lambda x: x > lower_bound, f"GreaterThan(lower_bound={lower_bound})")


def greater_than_eq(lower_bound: Any) -> Constraint:
    """From the bound on."""
    return Constraint(lambda x: x >= lower_bound, f"GreaterThanEq(lower_bound={lower_bound})")


def less_than(upper_bound: Any) -> Constraint:
    """Below the bound."""
    return Constraint(lambda x: x < upper_bound, f"LessThan(upper_bound={upper_bound})")


def interval(lower_bound: Any, upper_bound: Any) -> Constraint:
    """Between the bounds, or one of them."""
    text = f"Interval(lower_bound={lower_bound}, upper_bound={upper_bound})"
    return Constraint(lambda x: (x >= lower_bound) & (x <= upper_bound), text)


def integer_interval(lower_bound: Any, upper_bound: Any) -> Constraint:
    """A whole number between the bounds, or one of them."""
    text = f"IntegerInterval(lower_bound={lower_bound}, upper_bound={upper_bound})"
    return Constraint(lambda x: _whole(x) & (x >= lower_bound) & (x <= upper_bound), text, is_discrete=True)


def independent(base_constraint: Constraint, reinterpreted_batch_ndims: int) -> Constraint:
    """One constraint for each number of an event of so many more axes; all must hold."""

    def all_hold(value: Tensor) -> Tensor:
        found = base_constraint.check(value)
        return found.flatten(found.ndim - reinterpreted_batch_ndims).all(-1) if reinterpreted_batch_ndims else found

    text = f"IndependentConstraint({base_constraint}, {reinterpreted_batch_ndims})"
    event_dim = base_constraint.event_dim + reinterpreted_batch_ndims
    return Constraint(all_hold, text, event_dim, base_constraint.is_discrete)


def _whole(x: Tensor) -> Tensor:
    return x % 1 == 0


def _one_of_each(x: Tensor) -> Tensor:
    return ((x == 0) | (x == 1)).all(-1) & (x.sum(-1) == 1)


def _adds_up_to_one(x: Tensor) -> Tensor:
    return (x >= 0).all(-1) & ((x.sum(-1) - 1).abs() < 1e-6)


def _lower_triangular(x: Tensor) -> Tensor:
    return (x.tril() == x).all(-1).all(-1)


real = _Real(lambda x: x == x, "Real()")
real_vector = independent(real, 1)
positive, nonnegative = greater_than(0.0), greater_than_eq(0.0)
unit_interval = interval(0.0, 1.0)
boolean = Constraint(lambda x: (x == 0) | (x == 1), "Boolean()", is_discrete=True)
nonnegative_integer = Constraint(lambda x: _whole(x) & (x >= 0), "IntegerGreaterThan(lower_bound=0)", is_discrete=True)
positive_integer = Constraint(lambda x: _whole(x) & (x >= 1), "IntegerGreaterThan(lower_bound=1)", is_discrete=True)
one_hot = Constraint(_one_of_each, "OneHot()", event_dim=1, is_discrete=True)
simplex = Constraint(_adds_up_to_one, "Simplex()", event_dim=1)
lower_triangular = Constraint(_lower_triangular, "LowerTriangular()", event_dim=2)
lower_cholesky = Constraint(
    lambda x: _lower_triangular(x) & (x.diagonal(0, -2, -1) > 0).all(-1), "LowerCholesky()", event_dim=2
)

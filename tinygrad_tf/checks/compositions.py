"""Rows for short compositions, complex numbers and linear algebra; part of the table in table.py."""

from __future__ import annotations

import tinygrad_tf as tg
from tinygrad_tf import Tensor
from tinygrad_tf.checks.table import inside, layer, normal, op, positive, spread
from tinygrad_tf.nn import functional as F


def rotated(x: Tensor, angle: Tensor) -> Tensor:
    """Rotary positions as Llama has them: pairs times e^(i angle)."""
    turned = tg.view_as_complex(x.reshape(*x.shape[:-1], -1, 2)) * tg.polar(tg.ones_like(angle), angle)
    return tg.view_as_real(turned).flatten(-2)


def positive_definite(x: Tensor) -> Tensor:
    return x @ x.mT + tg.eye(x.shape[-1], dtype=x.dtype) * 2.0


op("copysign", lambda a: tg.copysign(a, tg.tensor([-1.0, 2.0, -0.0, 0.0])), spread(3, 4))
op("copysign of two", tg.copysign, spread(3, 4), spread(3, 4))
op("hypot", tg.hypot, positive(3, 4), positive(4))
op("fmax fmin", lambda a, b: tg.fmax(a, b) * tg.fmin(a, b + 0.03), spread(5), spread(5))
op("deg2rad rad2deg", lambda a: tg.deg2rad(a) * tg.rad2deg(a), normal(4))
op("fill", lambda a, b: a * tg.fill(a, b), normal(3), normal())
op(
    "sparse_coo_tensor",
    lambda v, x: tg.sparse.mm(tg.sparse_coo_tensor(tg.tensor([[0, 1, 1], [1, 0, 0]]), v, (2, 2)), x),
    normal(3),
    normal(2, 3),
)
op("sinc", tg.sinc, spread(5))
op("float_power", lambda a, b: tg.float_power(a, b).to(a.dtype), positive(3, 4), normal(4))
op("ldexp", lambda a, b: tg.ldexp(a, b), normal(3, 4), normal(4))
op("frexp", lambda a: tg.frexp(a).mantissa, spread(6))
op("gradient", lambda a: tg.gradient(a, spacing=0.5, dim=1)[0] + tg.gradient(a, dim=0, edge_order=2)[0], normal(3, 5))
op(
    "gradient between coordinates",
    lambda a: tg.gradient(a, spacing=(tg.tensor([0.0, 0.5, 2.0, 2.5]).to(a.dtype),), dim=1, edge_order=2)[0],
    normal(2, 4),
)
op("nanquantile", lambda a: tg.nanquantile(a, 0.4, dim=1), spread(3, 5))
op("msort", tg.msort, spread(4, 2))
op("renorm", lambda a: tg.renorm(a, 2, 0, 1.0), normal(3, 4))
op("erfc", tg.erfc, normal(4))
op("xlogy", tg.xlogy, normal(3, 4), positive(4))
op("lgamma", tg.lgamma, positive(3, 4))
op("lgamma left of 0", lambda a: (a - 2.0).lgamma(), inside(5))
op("digamma", tg.digamma, positive(3, 4))
op("polygamma", lambda a: a.polygamma(1) + tg.polygamma(2, a), positive(3, 4))
op("mvlgamma", lambda a: tg.mvlgamma(a + 1.5, 3), positive(3))
op("logaddexp2", tg.logaddexp2, normal(3, 1), normal(4))
op("entr", lambda a: tg.special.entr(a), positive(3, 4))
op("xlog1py", lambda a, b: tg.special.xlog1py(a, b), normal(3, 4), positive(4))
op("ndtr", lambda a: tg.special.ndtr(a), normal(4))
op("bessel", lambda a: tg.special.i0(a) * tg.special.i1(a), normal(4))
op("bessel scaled", lambda a: tg.special.i0e(a * 20.0) + tg.special.i1e(a), spread(4))
op(
    "gradient for the coordinates",
    lambda a, b: tg.gradient(a, spacing=(b.exp().cumsum(0),), dim=1, edge_order=2)[0],
    normal(2, 5),
    normal(5),
)
op("select_scatter", lambda a, b: a.select_scatter(b, 1, 2), normal(2, 3), normal(2))
op("slice_scatter", lambda a, b: a.slice_scatter(b, 1, 1, None, 2), normal(2, 5), normal(2, 2))
op("diagonal_scatter", lambda a, b: a.diagonal_scatter(b, 1), normal(3, 3), normal(2))
op("rot90", lambda a: tg.rot90(a, 1) * tg.rot90(a, 3), normal(3, 3))
op("column_stack", lambda a, b: tg.column_stack([a, b]), normal(3), normal(3, 2))
op("dstack", lambda a, b: tg.dstack([a, b]), normal(2, 3), normal(2, 3))
op("inner", tg.inner, normal(2, 3), normal(4, 3))
op("cross", lambda a, b: tg.cross(a, b, dim=-1), normal(2, 3), normal(2, 3))
op("matrix_exp", tg.matrix_exp, inside(3, 3))
op("matrix_power", lambda a: tg.matrix_power(a, 5), inside(3, 3))
op("cov", lambda a: tg.cov(a), normal(3, 5))
op("corrcoef", tg.corrcoef, normal(3, 5))
op("cumulative_trapezoid", lambda a: tg.cumulative_trapezoid(a, dx=0.5), normal(2, 5))
op("logcumsumexp far apart", lambda a: (a * 40.0).logcumsumexp(1), normal(2, 6))
op("diagflat", lambda a: tg.diagflat(a, 1), normal(2, 2))
op("rotary by complex numbers", rotated, normal(2, 3, 4), normal(3, 2))
op(
    "complex quotient",
    lambda a, b, c: abs(tg.complex(a, b) / tg.complex(b, c) - 2.0),
    normal(3),
    positive(3),
    normal(3),
)
op("slogdet", lambda a: tg.slogdet(a)[1], normal(2, 3, 3))
op("logdet", lambda a: tg.logdet(positive_definite(a)), normal(3, 3))
op("cholesky", lambda a: tg.linalg.cholesky(positive_definite(a)), normal(2, 3, 3))
op("dropout of channels, evaluating", lambda a: F.dropout2d(a, 0.5, training=False), normal(1, 2, 3, 3))
layer("nn.BatchNorm2d", lambda: tg.nn.BatchNorm2d(2), normal(3, 2, 2, 2))
layer("nn.BatchNorm3d", lambda: tg.nn.BatchNorm3d(2), normal(2, 2, 1, 2, 2))

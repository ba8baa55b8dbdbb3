"""Short compositions, complex numbers and linear algebra: what PyTorch gives, and what is said of misuse."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tinygrad_tf as tg
from tests.test_nn import rows
from tinygrad_tf.nn import functional as F

BETWEEN = ("linear", "lower", "higher", "midpoint", "nearest")
A, B, S = rows(3, 4), rows(3, 4, seed=1), rows(3, 3)
SPECIAL = np.array([0.0, -0.0, 1.5, -2.0, math.inf, -math.inf, math.nan])
OTHERS = np.array([math.nan, 1.0, -0.0, math.inf, -1.0, 2.0, 3.0])
POSITIVE_DEFINITE = S @ S.T + np.eye(3)


def _of_seed(t: Any, call: Callable[[], Any]) -> Any:
    t.manual_seed(3)
    return call()


FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "copysign": (lambda t, a, b: t.copysign(a, b), (SPECIAL, OTHERS)),
    "copysign number": (lambda t, a: t.copysign(a, -0.0), (SPECIAL,)),
    "hypot": (lambda t, a, b: t.hypot(a, b), (A, B)),
    "fmax": (lambda t, a, b: t.fmax(a, b), (SPECIAL, OTHERS)),
    "fmin": (lambda t, a, b: t.fmin(a, b), (SPECIAL, OTHERS)),
    "nextafter": (lambda t, a, b: t.nextafter(a, b), (SPECIAL, OTHERS)),
    "fill": (lambda t, a, b: a.mul(t.fill(a, b[0, 0])), (A, B)),
    "sparse": (
        lambda t, v, b: t.sparse.mm(t.sparse_coo_tensor([[0, 2, 2], [1, 0, 0]], v[0, :3]), b[:2]),
        (A, B),
    ),
    "sparse with a part of each": (
        lambda t, v: t.sparse_coo_tensor(t.tensor([[2, 0, 2]]), v, (4, 4)).coalesce().to_dense() * 2.0,
        (A,),
    ),
    "degrees": (lambda t, a: t.deg2rad(a) + t.rad2deg(a), (A,)),
    "select_scatter": (lambda t, a, b: t.select_scatter(a, b[0], dim=0, index=-1), (A, B)),
    "slice_scatter": (lambda t, a, b: t.slice_scatter(a, b[:, :2], 1, 1, 4, 2) + a.slice_scatter(b[1:], end=2), (A, B)),
    "diagonal_scatter": (lambda t, a, b: t.diagonal_scatter(a, b[0, :2], -1), (A, B)),
    "sinc": (lambda t, a: t.sinc(a), (SPECIAL[:4],)),
    "einsum by numbers": (lambda t, a, b: t.einsum(a, [0, 1], b, [0, 2], [2, 1]), (A, B)),
    "einsum by numbers, sorted": (lambda t, a, b: t.einsum(a, [51, ...], b, [51, 0]), (A, B)),
    "einsum of two dtypes": (lambda t, a, b: t.einsum("ij,ik->ijk", a, b.double()), (A, B)),
    "erfinv": (lambda t, a: t.erfinv(a), (np.array([-0.999, -0.3, 1e-20, 0.0, 0.6, 0.99999]),)),
    "erfinv of the ends": (lambda t, a: t.special.erfinv(a), (np.array([-1.0, 1.0, 1.5, np.nan]),)),
    "erfinv_": (lambda t, a: (a * 1.0).erfinv_(), (np.array([0.2, -0.7]),)),
    "erfc": (lambda t, a: t.erfc(a), (A,)),
    "xlogy": (lambda t, a, b: t.xlogy(a, b), (np.array([0.0, 0.0, 2.0, 0.0]), np.array([0.0, 2.0, 3.0, math.nan]))),
    "heaviside": (lambda t, a, b: t.heaviside(a, b), (SPECIAL[:6], OTHERS[1:])),
    "tests": (lambda t, a: t.stack([t.signbit(a), t.isposinf(a), t.isneginf(a)]), (SPECIAL,)),
    "var_mean": (lambda t, a: t.cat(t.var_mean(a, axis=1) + t.std_mean(a, dim=1)), (A,)),
    "var of too few": (lambda t, a: a.var(dim=1, correction=4), (A,)),
    "axis": (lambda t, a: t.cat([t.softmax(a, axis=0), a.cumsum(axis=1), t.sort(a, axis=0).values], axis=1), (A,)),
    "atleast": (lambda t, a: t.cat([t.atleast_3d(a), t.atleast_2d(a[0]).unsqueeze(2), t.atleast_3d(a[1:2])]), (A,)),
    "column_stack": (lambda t, a, b: t.column_stack([a[:, 0], b]), (A, B)),
    "dstack": (lambda t, a, b: t.dstack((a, b)), (A, B)),
    "splits": (lambda t, a: t.hsplit(a, 2)[1] * t.vsplit(a, [1])[0].sum(), (A,)),
    "rot90": (lambda t, a: t.stack([t.rot90(a, k) for k in (-1, 0, 1, 2, 3)]), (S,)),
    "flip of nothing": (lambda t, a: a.flip(()), (A,)),
    "unravel_index": (lambda t, a: t.stack(t.unravel_index(t.tensor([0, 7, 11]), (3, 4))) + 0 * a[:2, :3].long(), (A,)),
    "float_power": (lambda t, a: t.float_power(2, a) + a.float_power(3), (A,)),
    "ldexp": (lambda t, a: t.ldexp(a, t.tensor([2.0, -1.0, 0.0, 5.0])), (A,)),
    "frexp": (lambda t, a: t.frexp(a)[0] * 10 + t.frexp(a).exponent, (np.array([1.0, -6.0, 0.0, 1e-310, 1e300]),)),
    "gcd": (lambda t, a: a * 0 + t.gcd(t.tensor([12, 18, 0, -8]), t.tensor([[8], [27], [5]])), (A,)),
    "lcm": (lambda t, a: a * 0 + t.lcm(t.tensor([4, 6, 0, -3], dtype=t.int32), t.tensor([[10], [4], [7]])), (A,)),
    "gradient": (lambda t, a: t.cat([*t.gradient(a), *t.gradient(a, spacing=[2.0, 0.5], edge_order=2)]), (A,)),
    "gradient between coordinates": (
        lambda t, a, x: t.gradient(a, spacing=(x,), dim=-1)[0] + t.gradient(a, spacing=(x,), dim=1, edge_order=2)[0],
        (A, np.array([0.0, 0.5, 2.0, 3.0])),
    ),
    "nanquantile": (lambda t, a: t.nanquantile(a.where(a < 0.5, math.nan), t.tensor([0.1, 0.6]).to(a), 1, True), (A,)),
    "nanquantile of all": (lambda t, a: a.where(a < 0.5, math.nan).nanquantile(0.3, interpolation="lower"), (A,)),
    "msort": (lambda t, a: t.msort(a), (A,)),
    "renorm": (lambda t, a: t.renorm(a, 2, 0, 1.2) + a.renorm(p=1, dim=-1, maxnorm=2.0), (A,)),
    "inner": (lambda t, a, b: t.inner(a, b), (A, B)),
    "cross": (lambda t, a, b: t.cross(a, b, dim=0), (A, B)),
    "matrix_power": (lambda t, a: t.matrix_power(a, 5) + t.matrix_power(a, -2) + t.matrix_power(a, 0), (S,)),
    "matrix_exp": (lambda t, a: t.matrix_exp(t.stack([a, a * 5.0, a - a.mT])), (S,)),
    "multi_dot": (lambda t, a, b: t.linalg.multi_dot([a, b.T, a]), (A, B)),
    "histogram": (lambda t, a: t.histogram(a, 5, range=(-2.0, 3.0), density=True).hist, (A,)),
    "histogram edges": (lambda t, a: t.histogram(a, 4)[1], (A,)),
    "cov": (lambda t, a: t.cov(a) + t.cov(a, correction=0), (A,)),
    "corrcoef": (lambda t, a: t.corrcoef(a), (A,)),
    "cosine_similarity broadcasts": (lambda t, a: t.cosine_similarity(a, a[:, :1], dim=1), (A,)),
    "diag_embed": (lambda t, a: t.diag_embed(a, 1, 0, 2) + t.diag_embed(a, -1, -1, 0), (A,)),
    "cov and corrcoef of one row": (lambda t, a: t.stack([t.cov(a[:1]), t.corrcoef(a[:1]), t.cov(a[0])]), (A,)),
    "clamp of unknowns": (
        lambda t, a, b: t.stack([t.clamp(a, b), t.clamp(a, max=b), t.clamp(a, b, -b), t.clamp(a, 2.0, 1.0)]),
        (SPECIAL, OTHERS),
    ),
    "range": (lambda t, a: t.arange(4.0) + 0 * a[0, 0].to(t.float32), (A,)),
    "cumulative_trapezoid": (lambda t, a, b: t.cumulative_trapezoid(a, b, dim=0), (A, B)),
    "meshgrid": (lambda t, a, b: t.stack(t.meshgrid(a[0], b[0], indexing="xy")), (A, B)),
    "combinations": (lambda t, a: t.combinations(a[0], 3), (A,)),
    "logcumsumexp": (lambda t, a: t.logcumsumexp(a, 0), (np.array([0.0, 100.0, -300.0, 99.0]),)),
    "0 to a power": (lambda t, a: 0**a, (np.array([2.0, 0.0, 0.5]),)),
    "quantiles": (
        lambda t, a: t.stack([a.quantile(t.tensor([0.1, 0.55]).to(a.dtype), 1, interpolation=how) for how in BETWEEN]),
        (A,),
    ),
    "nanmedian": (
        lambda t, a: t.cat([t.nanmedian(a, 1).values, a.nanmedian(axis=0, keepdim=True)[0][0], a.nanmedian()[None]]),
        (np.array([[3.0, math.nan, 1.0, 2.0], [math.nan] * 4, [1.0, 1.5, 2.0, math.nan]]),),
    ),
    "nanmedian of nothing known": (lambda t, a: t.nanmedian(a * math.nan).unsqueeze(0), (A,)),
    "pdist": (lambda t, a: t.cat([t.nn.functional.pdist(a, p) for p in (0.0, 1.0, 2.0, 3.0, math.inf)]), (A,)),
    "pdist of equal rows": (lambda t, a: t.pdist(t.cat([a, a[:1]])), (A,)),
    "rrelu": (lambda t, a: t.rrelu(a) + t.nn.RReLU(0.2, 0.3).eval()(a), (A,)),
    "rrelu, training": (lambda t, a: _of_seed(t, lambda: t.nn.RReLU()(a)), (A,)),
    "rrelu_": (lambda t, a: _of_seed(t, lambda: t.nn.functional.rrelu_(a * 1.0, 0.1, 0.9, True)), (A,)),
    "nearest of two as near": (lambda t, a: a[:, 0].quantile(0.25, interpolation="nearest").unsqueeze(0), (A,)),
    "diff of more": (lambda t, a, b: t.diff(a, prepend=b, append=b[:, :1], n=2), (A, B)),
    "arctan": (lambda t, a: a.arctan() + a.arcsinh(), (A,)),
    "in place": (lambda t, a: t.sin_(a * 2).multiply_(2).atan_().add_(3).log10_().exp2_(), (A * A,)),
    "sizes by name": (
        lambda t, a: a.expand(size=(2, 3, 4)).repeat(repeats=(1, 2, 1)).flip(dims=[0, 1]).permute(dims=(2, 0, 1))
        + t.reshape(a.tile(dims=(2, 2)).view(size=(8, 6)), shape=(4, 2, 6)),
        (A,),
    ),
    "made by size": (
        lambda t, a: t.zeros(size=(3, 4)) + t.ones(size=[4]) + a.new_zeros(size=(4,)) + a.new_ones(size=(3, 4)) * a,
        (A,),
    ),
    "other by name": (lambda t, a, b: t.max(a, other=b) + t.min(input=a, other=b), (A, B)),
    "swapaxes": (lambda t, a: a.swapaxes(axis0=0, axis1=1), (A,)),
    "swapaxes as a function": (lambda t, a: t.swapaxes(a, axis0=0, axis1=1), (A,)),
    "split": (lambda t, a: t.split(tensor=a, split_size_or_sections=[1, 2])[1], (A,)),
    "mode": (lambda t, a: t.mode(a.round(), 0).values + a.round().mode(-1, keepdim=True)[1][0], (A,)),
    "unique_consecutive of rows": (lambda t, a: t.unique_consecutive(t.cat([a, a[2:]]).detach(), dim=0) + 0 * a, (A,)),
    "unique_consecutive of columns": (
        lambda t, a: t.unique_consecutive(t.cat([a[:, :1], a], 1).detach(), True, True, dim=1)[0] + 0 * a,
        (A,),
    ),
    "numpy by force": (lambda t, a: t.from_numpy((a * 1.0).numpy(force=True)) + 0 * a, (A,)),
    "slogdet": (lambda t, a: t.stack(t.linalg.slogdet(a)), (S,)),
    "logdet": (lambda t, a: t.logdet(a), (POSITIVE_DEFINITE,)),
    "cholesky": (lambda t, a: t.linalg.cholesky(a), (POSITIVE_DEFINITE,)),
    "cholesky upper": (lambda t, a: t.linalg.cholesky(a, upper=True), (POSITIVE_DEFINITE,)),
    "matrix_norm": (lambda t, a: t.linalg.matrix_norm(a), (A,)),
    "complex product": (
        lambda t, a, b: t.view_as_real(t.polar(a * a, b) * t.complex(b, a).conj() - t.polar(b * b, a)),
        (A, B),
    ),
    "complex quotient": (lambda t, a, b: (t.complex(a, b) / t.complex(b, a)).abs(), (A, B)),
    "complex shapes": (
        lambda t, a: t.view_as_real(t.view_as_complex(a.reshape(3, 2, 2))[1:].unsqueeze(1).transpose(0, 2)).flatten(2),
        (A,),
    ),
    "var_mean of a truth": (lambda t, a: t.stack([*t.var_mean(a, False), *t.std_mean(a, True)]), (A,)),
    "cov with weights": (
        lambda t, a: t.cov(a, fweights=t.tensor([1, 2, 0, 3]), aweights=a.detach()[0].abs())
        + t.cov(a, fweights=t.tensor([2, 1, 1, 1]))
        + t.cov(a, correction=0, aweights=a.detach()[0].abs()),
        (A,),
    ),
    "cdist by its mode": (lambda t, a, b: t.cdist(a, b, 2.0, "donot_use_mm_for_euclid_dist"), (A, B)),
    "diff no times": (lambda t, a: t.diff(a, 0, prepend=a), (A,)),
    "nuclear norm": (lambda t, a: t.norm(a, "nuc").unsqueeze(0) + a.norm("nuc", dim=(0, 1)), (A,)),
    "norms beside 0": (
        lambda t, a: t.stack([t.linalg.vector_norm(a, p) for p in (0.5, 1.5, -0.5)]),
        (np.array([0.0, 2.0, -1.0]),),
    ),
    "norm 0": (lambda t, a: t.linalg.vector_norm(a * a, 0) + 0.0 * a.sum(), (SPECIAL[:3],)),
    "products that meet": (
        lambda t, a, b: a.scatter_reduce(0, t.tensor([0, 0, 0, 1, 1, 1, 0]), b, "prod", include_self=False)
        + a.scatter_reduce(0, t.tensor([0, 0, 0, 1, 1, 1, 0]), b, "prod"),
        (np.array([3.0, 2.0, 5.0]), np.array([0.0, 3.0, 4.0, 5.0, 0.0, 0.0, 7.0])),
    ),
    "extremes of a number": (lambda t, a, b: a.scatter_reduce(0, t.tensor(0), b, "amin"), (A[0, 0], B[0, 0])),
    "slices named twice": (lambda t, a, b: a.index_fill(1, t.tensor([0, 2, 0]), b), (A, B[0, 0])),
    "gather from a number": (
        lambda t, a: t.gather(a, 0, t.tensor([0, 0])) + a.reshape(1).gather(0, t.tensor(0)),
        (A[0, 0],),
    ),
    "gather of nothing": (lambda t, a: t.gather(a, 0, t.zeros(2, 0, dtype=t.int64)), (A[0],)),
    "take_along_dim of all": (lambda t, a: t.take_along_dim(a, t.tensor([[1, 5]])), (A,)),
    "where of bytes": (lambda t, a, b: t.where((a > 0).to(t.uint8), a, b), (A, B)),
    "complex of a number": (lambda t, a, b: t.view_as_real(t.complex(a, b[0, 0])), (A, B)),
    "group norm of nothing": (lambda t, a: t.nn.functional.group_norm(a[:0], 2), (A,)),
    "windows of nothing": (lambda t, a: t.nn.functional.unfold(a.reshape(1, 3, 4)[:0].unsqueeze(1), 2), (A,)),
    "reflections of nothing": (lambda t, a: t.nn.functional.pad(a.unsqueeze(0)[:0], (1, 2), "reflect"), (A,)),
    "complex angle": (lambda t, a, b: t.complex(a, b).angle() + t.complex(a, b).real, (A, B)),
}  # fmt: skip
NO_GRADIENT = {"tests", "heaviside", "nextafter", "histogram", "histogram edges", "unravel_index"}
VALUE_ONLY = NO_GRADIENT | {"copysign", "copysign number", "fmax", "fmin", "sinc", "xlogy", "var of too few", "range"}
VALUE_ONLY |= {"nanmedian", "nanmedian of nothing known", "clamp of unknowns", "erfinv of the ends"}


@pytest.fixture(scope="module")
def torch() -> ModuleType:
    return pytest.importorskip("torch")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_as_in_pytorch(torch: ModuleType, name: str, dtype: str) -> None:
    function, arrays = FUNCTIONS[name]
    found = []
    for t in (torch, tg):
        leaves = [t.tensor(a.astype(dtype), requires_grad=name not in NO_GRADIENT) for a in arrays]
        out = function(t, *leaves)
        values = [out.detach().numpy()]
        if name not in VALUE_ONLY:
            (out * out).sum().backward()
            values += [leaf.grad.numpy() for leaf in leaves]
        found.append(values)
    rtol, atol = (1e-9, 1e-10) if dtype == "float64" else (1e-4, 1e-5)
    for got, want in zip(found[1], found[0], strict=True):
        assert got.dtype == want.dtype and got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)
    if name.startswith(("copysign", "fm")):
        assert (np.signbit(found[0][0]) == np.signbit(found[1][0]))[found[0][0] == found[0][0]].all()


def test_out_writes_into_a_tensor_that_is_there() -> None:
    place = tg.zeros(2)
    memory = place.data_ptr()
    assert tg.add(tg.ones(2), 1.0, out=place) is place
    assert place.tolist() == [2.0, 2.0] and place.data_ptr() == memory
    with pytest.raises(RuntimeError, match=r"exp: out must be a tensor of shape \(2,\), got torch.Size\(\[3\]\)"):
        tg.exp(tg.zeros(2), out=tg.zeros(3))
    with pytest.raises(RuntimeError, match="gradients do not pass through out="):
        tg.exp(tg.zeros(2, requires_grad=True), out=place)


def test_several_tensors_into_one_that_is_there() -> None:
    place = tg.zeros(2, 2)
    assert tg.stack([tg.ones(2), tg.zeros(2)], out=place) is place and place.tolist() == [[1.0, 1.0], [0.0, 0.0]]
    with pytest.raises(RuntimeError, match=r"cat: out must be a tensor of shape \(4,\), got torch.Size\(\[2, 2\]\)"):
        tg.cat([tg.ones(2), tg.zeros(2)], out=place)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: tg.einsum(tg.ones(2), [52]), ValueError, r"einsum: axes must be lists of numbers.* got \[52\]"),
        (lambda: tg.einsum(tg.ones(2), [0], tg.ones(2), 0), ValueError, "einsum: axes must be lists .* got 0"),
        (lambda: tg.einsum(tg.ones(2), "i"), TypeError, "einsum: equation must be a string such as .* got Tensor"),
        (lambda: tg.eye(-1), RuntimeError, r"eye: a shape has no negative sizes, got \(-1, -1\)"),
        (lambda: tg.histc(tg.ones(2), bins=0), RuntimeError, "histc: bins must be an integer from 1 on, got 0"),
        (lambda: tg.ones(2).clamp("a"), TypeError, "clamp: min must be a number or a tensor, got 'a'"),
        (lambda: tg.quantile(tg.ones(2), 0.5, interpolation="no"), RuntimeError, "interpolation must be one of linear"),
        (lambda: tg.quantile(tg.ones(2), tg.ones(1, 1)), RuntimeError, "q must be a number or a vector"),
        (lambda: tg.cov(tg.ones(2, 3), fweights=tg.ones(3)), RuntimeError, "cov: fweights must be integers, got .*32"),
        (
            lambda: tg.cov(tg.ones(2, 3), aweights=tg.ones(2)),
            RuntimeError,
            "cov: aweights must have one entry for each",
        ),
        (lambda: tg.cov(tg.ones(2, 3), aweights=-tg.ones(3)), RuntimeError, "cov: aweights must not be negative"),
        (lambda: tg.cdist(tg.ones(1, 2), tg.ones(1, 2), 2.0, "fast"), ValueError, "compute_mode must be one of use_mm"),
        (lambda: F.pdist(tg.ones(3)), RuntimeError, r"pdist: input must be a matrix \(N, D\), got shape \(3,\)"),
        (lambda: F.pdist(tg.eye(2), -1.0), RuntimeError, "pdist: p must not be negative, got -1.0"),
        (lambda: F.rrelu(tg.ones(3), 0.5, 0.3), RuntimeError, "rrelu: lower must be at most upper, got 0.5 and 0.3"),
        (lambda: tg.nanmedian(tg.ones(2, 0), 1), IndexError, r"nanmedian: there is no median along dim 1 of shape"),
        (lambda: tg.ones(2, 3).select_scatter(tg.ones(2), 0, 0), RuntimeError, r"replaces, \(3,\), got \(2,\)"),
        (lambda: tg.diff(tg.ones(3), -1), RuntimeError, "diff: n must not be negative, got -1"),
        (lambda: tg.arange(0, math.inf), RuntimeError, "arange: needs finite numbers"),
        (lambda: tg.arange(0, 9, 0.5, dtype=tg.int64), RuntimeError, "arange: step must not be 0 in int64, got 0.5"),
        (lambda: tg.linspace(0, 3, 1.0), TypeError, "linspace: steps must be an integer, got 1.0"),
        (lambda: tg.linspace(tg.ones(2), 3, 4), RuntimeError, "linspace: start must be a number or a 0-d tensor"),
        (lambda: tg.logspace(0, 3, -1), RuntimeError, "logspace: steps must not be negative, got -1"),
        (lambda: tg.isclose(tg.ones(1), tg.ones(1), -1.0), RuntimeError, "isclose: rtol and atol must not be negative"),
        (lambda: tg.polar(2, tg.ones(1)), TypeError, "polar: abs must be a tensor, got int"),
        (lambda: tg.addmm(tg.eye(2).long(), *[tg.eye(2).long()] * 2, alpha=0.5), RuntimeError, "addmm: integers need"),
        (lambda: tg.searchsorted(tg.ones(2), 1.0, side="up"), RuntimeError, "side must be 'left' or 'right'"),
        (lambda: tg.searchsorted(tg.ones(2), 1.0, sorter=tg.ones(2)), RuntimeError, "sorter must be int64"),
        (lambda: tg.ones(3).narrow(0, 4, 0), IndexError, r"narrow: start must be in \[-3, 3\] along dim 0, got 4"),
        (lambda: tg.ones(4)[2:].as_strided((2,), (1,), 1), RuntimeError, "as_strided: size"),
        (
            lambda: tg.gcd(tg.ones(2), tg.tensor(2)),
            NotImplementedError,
            "gcd: needs tensors of integers, got torch.float32",
        ),
        (lambda: tg.lcm(tg.tensor([1, 2]), tg.tensor([1, 2, 3])), RuntimeError, r"lcm: .*\(2,\).*\(3,\)"),
        (lambda: tg.frexp(tg.tensor([1])), RuntimeError, "frexp: needs floating point numbers, got torch.int64"),
        (lambda: tg.float_power(2, 3), TypeError, "float_power: needs a tensor, got int and int"),
        (lambda: tg.gradient(tg.ones(3), edge_order=3), RuntimeError, "gradient: edge_order must be 1 or 2, got 3"),
        (
            lambda: tg.gradient(tg.ones(3, 3), spacing=[1.0]),
            RuntimeError,
            "spacing must be one or 2, one for each axis",
        ),
        (lambda: tg.gradient(tg.ones(2), edge_order=2), RuntimeError, "axis 0 must have at least 3 points, got 2"),
        (lambda: tg.gradient(tg.ones(3), spacing=(tg.ones(2),)), RuntimeError, "must have 3 coordinates for axis 0"),
        (lambda: tg.renorm(tg.eye(2), 0, 0, 1.0), RuntimeError, "renorm: p must be above 0 and maxnorm at least 0"),
    ],
)
def test_bad_arguments_are_told(call: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()


def test_integers_are_counted_and_stay_integers(torch: ModuleType) -> None:
    for t in (torch, tg):
        assert t.arange(-0.9, 2.1, 2.0, dtype=t.uint8).tolist() == [0, 2]
        assert t.arange(0.0, -8.000001, -4.0, dtype=t.int64).tolist() == [0, -4]
        assert t.linspace(4.3, 0, 9, dtype=t.uint8).tolist() == [4, 3, 3, 2, 2, 1, 1, 0, 0]
        assert t.diff(t.tensor([True, False, False])).tolist() == [True, False]
        assert t.logsumexp(t.tensor([True, True]), 0).dtype == t.angle(t.tensor([1])).dtype == t.float32
        assert t.addr(t.tensor([[True]]), t.tensor([True]), t.tensor([False]), beta=3).tolist() == [[True]]
        ones = t.tensordot(t.ones(1, 2, dtype=t.uint8), t.ones(3, 2, dtype=t.uint8), ([0, 1], [0, 1]))
        assert ones.item() == 6 and ones.dtype == t.uint8
        cut = t.nn.functional.hardtanh(t.tensor([-3, 0, 9]), -1.5, 2.5)
        assert cut.tolist() == [-1, 0, 2] and cut.dtype == t.int64


def test_places_in_what_a_sorter_sorts(torch: ModuleType) -> None:
    rows = [[3.0, 1.0, 2.0], [5.0, 6.0, 4.0]]
    for t in (torch, tg):
        x = t.tensor(rows)
        found = t.searchsorted(x, t.tensor([[1.0, 2.5], [9.0, 4.0]]), sorter=x.argsort(), side="right")
        assert found.tolist() == [[1, 2], [3, 1]]


def test_numbers_that_are_none_differ_from_each_other(torch: ModuleType) -> None:
    for t in (torch, tg):
        values, counts = t.unique(t.tensor([math.nan, 1.0, math.nan, 1.0]), return_counts=True)
        assert values[0] == 1.0 and len(values) == 3 and counts.tolist() == [2, 1, 1]
        assert t.unique_consecutive(t.tensor(3.0)).tolist() == [3.0]
        assert t.unique_consecutive(t.zeros(0)).tolist() == []


def test_results_have_pytorchs_names(torch: ModuleType) -> None:
    def text(t: Any) -> list[str]:
        A = t.tensor([[2.0, 0.0], [0.0, 3.0]])
        found = [t.slogdet(A), t.linalg.slogdet(A), t.aminmax(A), t.max(A, 0), t.linalg.eigh(A), t.linalg.lu_factor(A)]
        return [f"{found!r}", f"{t.aminmax(A, dim=0).min} {A.slogdet().logabsdet}"]

    assert text(tg) == text(torch)


def test_strides_count_from_the_start_of_the_memory(torch: ModuleType) -> None:
    for t in (torch, tg):
        x = t.arange(20.0)[10:]
        assert x.as_strided((2, 2), (1, 2), 11).tolist() == [[11.0, 13.0], [12.0, 14.0]]
        assert x.as_strided((2,), (3,)).tolist() == [10.0, 13.0]


def test_numbers_beside_and_halves_widen_nothing(torch: ModuleType) -> None:
    for t in (torch, tg):
        x = t.tensor([0.25, 0.5], dtype=t.bfloat16)
        assert t.xlogy(t.ones(2), 2.5).dtype == t.xlogy(2.5, t.ones(2)).dtype == t.float32
        assert x.logit().dtype == x.logit(0.1).dtype == t.bfloat16 and x.logit()[1].item() == 0.0
        assert t.matrix_exp(t.zeros(2, 2, dtype=t.bfloat16)).tolist() == [[1.0, 0.0], [0.0, 1.0]]
        losses = t.nn.functional.binary_cross_entropy(x, t.ones_like(x), reduction="none")
        assert losses.dtype == t.bfloat16 and losses.tolist() == [1.3828125, 0.69140625]
        grid = t.zeros(1, 2, 2, 2, dtype=t.bfloat16)
        assert t.nn.functional.grid_sample(t.ones(1, 1, 3, 3, dtype=t.bfloat16), grid).dtype == t.bfloat16
        assert t.cov(t.ones(2, 3, dtype=t.bfloat16), aweights=t.ones(3)).dtype == t.float32


def test_lower_triangles_of_singular_matrices_are_numbers(torch: ModuleType) -> None:
    for t in (torch, tg):
        P, L, U = t.linalg.lu(t.ones(3, 2))
        assert (P @ L @ U).tolist() == [[1.0, 1.0]] * 3 and L.tolist() == [[1.0, 0.0], [1.0, 1.0], [1.0, 0.0]]
        with pytest.raises(RuntimeError, match="lu_factor"):
            t.linalg.lu_factor(t.ones(2, 2))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: tg.sum(tg.ones(2), 0, keepdim="yes"), TypeError, "sum: keepdim must be True or False, got 'yes'"),
        (lambda: tg.ones(2).sort(descending="no"), TypeError, "sort: descending must be True or False, got 'no'"),
        (lambda: tg.linalg.svd(tg.eye(2), full_matrices=3), TypeError, "svd: full_matrices must be True or False"),
        (lambda: tg.block_diag(tg.eye(2), 2.5), TypeError, "block_diag: number 1 of the tensors must be a tensor"),
        (lambda: tg.atleast_2d(2.5), TypeError, "atleast_2d: number 0 of the tensors must be a tensor, got float"),
        (lambda: tg.meshgrid(tg.eye(2)), RuntimeError, r"meshgrid: needs vectors of one dtype, got .*\(2, 2\)"),
        (lambda: tg.cartesian_prod(tg.ones(2), tg.arange(2)), RuntimeError, "needs vectors of one dtype"),
        (lambda: tg.combinations(tg.ones(2), -1), RuntimeError, "combinations: needs a vector and r from 0 on"),
        (lambda: tg.tensordot(tg.tensor(1.0), tg.eye(2), ([0, 1], [0, 1])), IndexError, "tensordot: dim must be in"),
        (lambda: tg.isin("a", tg.ones(1)), TypeError, "isin: elements and test_elements must be tensors or numbers"),
        (lambda: tg.angle(None), TypeError, "angle: input must be a tensor, got NoneType"),
        (
            lambda: tg.bincount(tg.arange(2), tg.ones(3)),
            RuntimeError,
            r"weights must have the shape of the input, \(2,",
        ),
        (lambda: tg.histc(tg.ones(2), 2, 1.5, 0), RuntimeError, "histc: min must not be above max, got 1.5 and 0"),
        (lambda: tg.histogram(tg.ones(2), -1), RuntimeError, "histogram: bins must be an integer from 1 on"),
        (lambda: tg.bucketize(tg.ones(2), tg.tensor(1.0)), RuntimeError, "sorted sequence must have at least one"),
        (lambda: tg.tril_indices(-1, 2), RuntimeError, "tril_indices: a shape has no negative sizes"),
        (lambda: tg.ones(2, 2).tril(1.5), TypeError, "tril: diagonal must be an integer, got 1.5"),
        (lambda: tg.full((2,), [1.0]), TypeError, r"full: fill_value must be a number, got \[1.0\]"),
        (lambda: tg.trapezoid(tg.ones(3), tg.ones(2)), RuntimeError, "trapezoid: x must have a point for each of 3"),
        (lambda: F.pixel_shuffle(tg.ones(4), 2), RuntimeError, r"pixel_shuffle: input must be \(..., C, H, W\)"),
        (lambda: F.max_pool1d(tg.ones(1, 4), 2, stride=0), RuntimeError, "max_pool1d: stride must be an integer from"),
        (lambda: F.max_pool1d(tg.ones(1, 4), 2.5), TypeError, "kernel_size must be an integer from 1 on, got 2.5"),
        (lambda: F.avg_pool1d(tg.ones(1, 4), 2, padding=True), TypeError, "padding must be an integer from 0 on"),
        (
            lambda: F.conv1d(tg.ones(1, 4), tg.ones(3, 1, 2), tg.ones(1)),
            RuntimeError,
            "conv1d: bias must have a number",
        ),
        (
            lambda: F.conv_transpose1d(tg.ones(1, 4), tg.ones(1, 3, 2), tg.ones(1)),
            RuntimeError,
            "for each of 3 channels",
        ),
        (
            lambda: F.gaussian_nll_loss(tg.ones(5, 3), tg.ones(5, 3), tg.ones(1)),
            ValueError,
            r"must have the shape \(5, 3",
        ),
        (lambda: F.cosine_embedding_loss(*tg.ones(3, 5)), RuntimeError, "cosine_embedding_loss: needs"),
        (lambda: F.margin_ranking_loss(*tg.ones(2, 5), tg.tensor(1.0)), RuntimeError, "need as many dimensions"),
        (lambda: F.triplet_margin_loss(*tg.ones(2, 5, 2), tg.ones(2)), RuntimeError, "need as many dimensions"),
    ],
)
def test_what_was_computed_or_told_by_numpy_is_refused_by_name(
    call: Callable[[], Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        call()


SQUARES = tg.ones(2, 3)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: tg.logdet(tg.ones(2)), r"logdet: needs \(stacks of\) square matrices, got shape \(2,\)"),
        (lambda: tg.slogdet(SQUARES), "slogdet: needs .* square"),
        (lambda: tg.det(SQUARES), "det: needs .* square"),
        (lambda: tg.inverse(SQUARES), "inv: needs .* square"),
        (lambda: tg.linalg.cholesky(SQUARES), "cholesky: needs .* square"),
        (lambda: tg.linalg.solve(tg.eye(2), tg.ones(3)), "solve: matrices of shape .* do not fit"),
        (lambda: tg.det(tg.eye(2, dtype=tg.int64)), r"det: needs float32 or float64, got int64; use .float\(\)"),
        (lambda: tg.linalg.eigvalsh(tg.eye(2, dtype=tg.half)), "eigvalsh: needs float32 or float64, got float16"),
        (lambda: tg.linalg.multi_dot([tg.ones(2, 2, 2)] * 2), "multi_dot: tensor 0 must be a matrix"),
        (lambda: tg.linalg.multi_dot([tg.ones(2, 2)]), "multi_dot: needs at least two tensors, got 1"),
        (lambda: tg.tensordot(tg.tensor(1.0), tg.tensor(1.0), 2), "tensordot: 2 axes are not there"),
        (lambda: tg.rot90(tg.ones(2, 2), 2, (0, -2)), r"rot90: needs two different dims, got \(0, -2\)"),
        (lambda: tg.rot90(tg.ones(2)), "rot90: needs two dims of a tensor that has as many"),
        (lambda: tg.hsplit(tg.ones(3), 2), r"hsplit: dim 0 of shape \(3,\) has no 2 equal parts"),
        (lambda: tg.vsplit(tg.ones(3), 3), "vsplit: needs at least 2 dimensions, got 1"),
        (lambda: tg.exp(tg.ones(2), out=tg.zeros(2, dtype=tg.int64)), "exp: the result of dtype torch.float32 cannot"),
    ],
)
def test_what_does_not_fit_is_told(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(RuntimeError, match=words):
        call()


def test_the_second_derivative_of_sinc_is_that_of_its_series() -> None:
    """1 - (pi x)^2 / 6 + ... has the curvature -pi^2 / 3 at 0."""
    x = tg.tensor([0.0, 1e-3, 0.5], dtype=tg.float64, requires_grad=True)
    (slope,) = tg.autograd.grad(tg.sinc(x).sum(), x, create_graph=True)
    curvature = tg.autograd.grad(slope.sum(), x)[0].numpy()
    assert slope[0].item() == 0.0
    np.testing.assert_allclose(curvature[:2], -(math.pi**2) / 3, rtol=1e-5)
    np.testing.assert_allclose(curvature[2], 2 * (2 / 0.5**3 - math.pi**2 / 0.5) / (2 * math.pi), rtol=1e-12)


def test_random_numbers_by_name() -> None:
    generator = tg.Generator().manual_seed(3)
    drawn = [f(size=(2, 3), generator=generator).tolist() for f in (tg.rand, tg.randn)]
    like = [f(tg.zeros(2, 3), generator=generator.manual_seed(3)).tolist() for f in (tg.rand_like, tg.randn_like)]
    assert drawn[0] == like[0] and tg.empty(size=(2, 3)).shape == (2, 3)
    whole = tg.randint_like(tg.zeros(50), low=2, high=4, generator=generator)
    assert whole.dtype == tg.float32 and set(whole.tolist()) == {2.0, 3.0}
    assert tg.zeros(50).bernoulli(p=1.0).sum() == 50
    assert tg.bucketize(tg.tensor([1.5]), tg.arange(3), out_int32=True).dtype == tg.int32


def test_complex_numbers_are_pairs() -> None:
    z = tg.polar(tg.tensor([1.0, 2.0]), tg.tensor([0.0, math.pi / 2]))
    assert z.dtype == tg.complex64 and z.shape == (2,) and len(z) == 2 and tg.is_complex(z)
    np.testing.assert_allclose(z.numpy(), [1, 2j], atol=1e-6)
    assert z.to(tg.complex128).dtype == tg.complex128
    assert (1j * z)[0].item() == 1j
    assert repr(tg.complex(tg.ones(1), tg.zeros(1))) == "tensor([1.+0.j])"
    for make, words in (
        (lambda: tg.complex(tg.ones(2), tg.ones(3)), r"complex: shapes \(2,\).* \(3,\) do not broadcast"),
        (lambda: tg.view_as_complex(tg.ones(3)), r"2 entries, got shape \(3,\)"),
        (lambda: tg.view_as_real(tg.ones(3)), "needs a complex tensor, got Tensor"),  # type: ignore[arg-type]
    ):
        with pytest.raises(RuntimeError, match=words):
            make()


def test_arrays_given_to_the_class_become_float32_as_in_pytorch() -> None:
    """What old tutorials write before a model of float32: torch.Tensor(a table that NumPy read)."""
    for dtype in (np.float64, np.int64, np.uint8, np.bool_, np.float16):
        assert tg.Tensor(np.ones((2, 3), dtype)).dtype is tg.float32
    array = np.zeros(2, np.float32)
    shared = tg.Tensor(array)
    array[0] = 1.0
    assert shared.tolist() == [1.0, 0.0]
    assert tg.Tensor(tg.ones(2, dtype=tg.float64)).dtype is tg.float64  # a tensor stays what it is
    assert tg.Tensor(np.int64(2), np.int64(3)).shape == (2, 3) and tg.Tensor([[1]], device="cpu").item() == 1.0
    with pytest.raises(TypeError, match="dtype must be one of"):
        tg.Tensor(np.array(["a"]))
    with pytest.raises(RuntimeError, match="CPU alone"):
        tg.Tensor([1.0], device="cuda")


def test_asarray_shares_memory_or_says_that_it_cannot() -> None:
    array = np.zeros(2)
    shared, copied = tg.asarray(array), tg.asarray(array, copy=True)
    array[0] = 1.0
    assert shared.tolist() == [1.0, 0.0] and copied.tolist() == [0.0, 0.0]
    x = tg.ones(2, requires_grad=True)
    assert tg.asarray(x) is x and not tg.asarray(x, requires_grad=False).requires_grad
    assert tg.asarray([1, 2], dtype=tg.float64, requires_grad=True).is_leaf
    with pytest.raises(ValueError, match="asarray: copy=False, but a list cannot become this tensor without a copy"):
        tg.asarray([1], copy=False)


def test_functions_are_methods_where_pytorch_has_them_as_methods() -> None:
    torch = pytest.importorskip("torch")
    above = {"hardshrink", "prelu"}  # they stand with the layers
    names = [n for n in dir(torch.Tensor) if n[0] != "_" and callable(getattr(torch, n, None)) and n not in above]
    missing = [n for n in names if n in vars(tg) and callable(getattr(tg, n)) and not hasattr(tg.Tensor, n)]
    assert len(names) > 300 and missing == []
    x, y = tg.tensor([3.0, -1.0]), tg.tensor([4.0, 0.0])
    assert x.hypot(y).tolist() == [5.0, 1.0] and x.copysign(y).tolist() == [3.0, 1.0] and x.vdot(y).item() == 12.0
    assert x.real is x and x.conj() is x and x.sgn().tolist() == [1.0, -1.0] and x.angle()[0].item() == 0.0
    with pytest.raises(RuntimeError, match="imag: needs a complex tensor"):
        _ = x.imag


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ([0, 1], [1.0, 2.0]),
            r"indices must be whole numbers of shape \(dimensions, entries\), got torch.int64",
        ),
        (([[0, 1]], [1.0]), "2 columns of indices, but values for 1 entries"),
        (([[0, 5]], [1.0, 2.0], (3,)), r"indices must lie within size \(3,\)"),
        (([[0, -1]], [1.0, 2.0], (3,)), r"indices must lie within size \(3,\)"),
        (([[0, 1]], [1.0, 2.0], (3, 3)), r"size must have the form \(2,\), got \(3, 3\)"),
    ],
)
def test_entries_of_a_sparse_tensor_fit_it(arguments: tuple[Any, ...], words: str) -> None:
    with pytest.raises(RuntimeError, match=words):
        tg.sparse_coo_tensor(*arguments)


def test_a_sparse_tensor_may_be_a_leaf() -> None:
    leaf = tg.sparse_coo_tensor([[0, 0]], [1.0, 2.0], requires_grad=True)
    assert leaf.tolist() == [3.0] and leaf.is_leaf and leaf.requires_grad
    assert tg.sparse.FloatTensor(tg.tensor([[1]]), tg.tensor([2])).dtype == tg.float32

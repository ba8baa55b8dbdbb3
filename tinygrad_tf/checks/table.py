"""The one table of differentiable things: a row for every operation, layer and model.

`tinygrad-tf gradcheck` checks its gradients; tests/test_table.py asks more of every row.

A row names how to build a function and the leaves it is differentiated by. Domains are part of the row: `spread` keeps
values apart, where an operation has kinks or ties.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import tinygrad_tf as tg
from tinygrad_tf import Tensor, models, nn, ops
from tinygrad_tf.nn import functional as F

Maker = Callable[[np.random.Generator], np.ndarray]
Built = tuple[Callable[[], Tensor], list[Tensor]]


def normal(*shape: int) -> Maker:
    return lambda rng: rng.normal(size=shape)


def positive(*shape: int) -> Maker:
    return lambda rng: rng.uniform(0.5, 2.0, size=shape)


def inside(*shape: int) -> Maker:
    """Between -0.9 and 0.9."""
    return lambda rng: rng.uniform(-0.9, 0.9, size=shape)


def spread(*shape: int) -> Maker:
    """Values at least 0.1 apart from each other and from 0, in random order."""

    def make(rng: np.random.Generator) -> np.ndarray:
        n = math.prod(shape)
        return (rng.permutation(n) * 0.2 - 0.1 * n + 0.07).reshape(shape)

    return make


@dataclass(frozen=True)
class Case:
    """A row: `build(rng, dtype)` gives a function and the leaves that it is differentiated by.

    What it was built from is kept, so that other libraries can be asked for the same: `function(*inputs)` for an
    operation, `function(make(), *inputs)` for a module.
    """

    name: str
    build: Callable[[np.random.Generator, Any], Built]
    order: int = 2
    strides: bool = True  # False where the memory's layout matters, as for view
    function: Callable[..., Any] | None = None
    inputs: tuple[Maker, ...] = ()
    make: Callable[[], nn.Module] | None = None


CASES: list[Case] = []
ZEROS = tg.tensor([[1.0, 0.0, 1.0], [1.0, 1.0, 0.0], [1.0, 0.0, 1.0], [1.0, 1.0, 1.0]])


def op(name: str, function: Callable[..., Any], *inputs: Maker, order: int = 2, strides: bool = True) -> None:
    def build(rng: np.random.Generator, dtype: Any) -> Built:
        leaves = [tg.as_tensor(m(rng).astype(dtype)).requires_grad_() for m in inputs]
        return lambda: function(*leaves), leaves

    CASES.append(Case(name, build, order, strides, function, inputs))


def layer(
    name: str, make: Callable[[], nn.Module], *inputs: Maker, call: Callable[..., Any] | None = None, order: int = 2
) -> None:
    """A module: differentiated by its inputs and by all its parameters."""

    def build(rng: np.random.Generator, dtype: Any) -> Built:
        tg.manual_seed(int(rng.integers(1000)))
        module = make().to(np.dtype(dtype))
        for p in module.parameters():
            p.array[...] = rng.normal(size=p.shape) * 0.5
        leaves = [tg.as_tensor(m(rng).astype(dtype)).requires_grad_() for m in inputs]
        return lambda: run(module, *leaves), [*leaves, *module.parameters()]

    run = call or (lambda module, *tensors: module(*tensors))
    CASES.append(Case(name, build, order, True, run, inputs, make))


# --- elementwise ------------------------------------------------------------------------------------------------------

op("add", lambda a, b: a + b, normal(3, 4), normal(3, 4))
op("add broadcast row", lambda a, b: a + b, normal(3, 4), normal(4))
op("add broadcast both", lambda a, b: a + b, normal(3, 1), normal(2, 1, 4))
op("add scalar tensor", lambda a, b: a + b, normal(), normal(2, 3))
op("sub", lambda a, b: a - b, normal(3, 4), normal(1, 4))
op("sub from number", lambda a: 2.0 - a, normal(3))
op("mul", lambda a, b: a * b, normal(3, 4), normal(3, 4))
op("mul broadcast", lambda a, b: a * b, normal(2, 3, 1), normal(3, 4))
op("mul itself", lambda a: a * a, normal(5))
op("mul number", lambda a: a * 3, normal(2, 2))
op("div", lambda a, b: a / b, normal(3, 4), positive(4))
op("div number by", lambda a: 2.0 / a, positive(3))
op("neg", lambda a: -a, normal(3))
op("pow number", lambda a: a**3, normal(3, 4))
op("pow fraction", lambda a: a**1.5, positive(3, 4))
op("pow tensor", lambda a, b: a**b, positive(3, 4), normal(4))
op("pow of number", lambda b: 2.0**b, normal(3))
op("exp", Tensor.exp, normal(3, 4))
op("log", Tensor.log, positive(3, 4))
op("log1p", Tensor.log1p, positive(3, 4))
op("sqrt", Tensor.sqrt, positive(3, 4))
op("rsqrt", Tensor.rsqrt, positive(3, 4))
op("tanh", Tensor.tanh, normal(3, 4))
op("sigmoid", Tensor.sigmoid, normal(3, 4))
op("sin", Tensor.sin, normal(3, 4))
op("cos", Tensor.cos, normal(3, 4))
op("erf", Tensor.erf, normal(3, 4))
op("erfinv", lambda a: (a * 0.3).erfinv(), positive(3, 4))
op("abs", Tensor.abs, spread(3, 4))
op("relu", Tensor.relu, spread(3, 4))
op("clamp", lambda a: a.clamp(-0.5, 0.6), spread(3, 4))
op("ceil floor round", lambda a: a.ceil() + a.floor() * 2.0 + a.round(), spread(5))
op("cast", lambda a: tg.engine.cast(a * a, dtype=a.dtype), normal(3, 4))
op("clamp below", lambda a: a.clamp(min=-0.3), spread(7))
op("maximum", ops.elementwise.maximum, spread(3, 4), lambda rng: rng.permutation(4) * 0.2 - 0.35)
op("minimum", ops.elementwise.minimum, spread(3, 4), lambda rng: rng.permutation(4) * 0.2 - 0.35)
op("where", lambda a, b: tg.where(tg.tensor([True, False, True]), a, b), normal(2, 3), normal(3))
op("masked_fill", lambda a: a.masked_fill(tg.tensor([True, False, True]), 2.0), normal(2, 3))
op("masked_fill scalar tensor", lambda a, b: a.masked_fill(tg.tensor([True, False, True]), b), normal(2, 3), normal())
op("exp2", Tensor.exp2, normal(3, 4))
op("expm1", Tensor.expm1, normal(3, 4))
op("log2", Tensor.log2, positive(3, 4))
op("log10", Tensor.log10, positive(3, 4))
op("square", Tensor.square, normal(3, 4))
op("reciprocal", Tensor.reciprocal, positive(3, 4))
op("tan", Tensor.tan, inside(3, 4))
op("asin", Tensor.asin, inside(3, 4))
op("acos", Tensor.acos, inside(3, 4))
op("atan", Tensor.atan, normal(3, 4))
op("sinh", Tensor.sinh, normal(3, 4))
op("cosh", Tensor.cosh, normal(3, 4))
op("asinh", Tensor.asinh, normal(3, 4))
op("acosh", lambda a: (a + 1.0).acosh(), positive(3, 4))
op("atanh", Tensor.atanh, inside(3, 4))
op("logit", lambda a: (a * 0.3).logit(), positive(3, 4))
op("atan2", tg.atan2, positive(3, 4), positive(4))
op("logaddexp", tg.logaddexp, normal(3, 1), normal(4))
op("remainder", lambda a, b: a % b, lambda rng: np.array([7.3, -7.3, 5.1]), lambda rng: np.array([2.0, 2.0, -3.0]))
op(
    "div towards zero",
    lambda a, b: tg.div(a, b, rounding_mode="trunc") + a * b,
    lambda rng: np.array([7.3, -7.3, 5.1]),
    lambda rng: np.array([2.0, 2.0, -3.0]),
)
op("fmod", tg.fmod, lambda rng: np.array([7.3, -7.3, 5.1]), lambda rng: np.array([2.0, 2.0, -3.0]))
op("lerp", tg.lerp, normal(3, 4), normal(4), normal(3, 1))
op("lerp number", lambda a, b: tg.lerp(a, b, 0.7), normal(3), normal(3))
op("addcmul", lambda a, b, c: tg.addcmul(a, b, c, value=0.5), normal(3, 4), normal(4), normal(3, 1))
op("addcdiv", lambda a, b, c: tg.addcdiv(a, b, c, value=0.5), normal(3, 4), normal(4), positive(3, 1))
op("clamp tensors", tg.clamp, spread(3, 4), lambda rng: np.full((4,), -0.55), lambda rng: np.full((3, 1), 0.65))
op(
    "nan_to_num",
    lambda a: tg.nan_to_num(a + tg.tensor([0.0, math.inf, math.nan], dtype=a.dtype), posinf=1.0, neginf=2.0),
    spread(2, 3),
)
op("cube in place", lambda a: (a * 1.0).pow_(3).sub_(a, alpha=2), normal(3, 4))
op("silu", F.silu, normal(3, 4))
op("softplus", F.softplus, spread(3, 4))
op("logsigmoid", F.logsigmoid, spread(3, 4))
op("gelu", F.gelu, normal(3, 5))
op("gelu tanh", lambda x: F.gelu(x, approximate="tanh"), normal(3, 5))

# --- reductions -------------------------------------------------------------------------------------------------------

op("sum", Tensor.sum, normal(3, 4))
op("sum dim", lambda a: a.sum(1), normal(3, 4, 2))
op("sum dims keepdim", lambda a: a.sum((0, -1), keepdim=True), normal(3, 4, 2))
op("sum of 0-d", Tensor.sum, normal())
op("mean", lambda a: a.mean(-1), normal(3, 4))
op("mean all", Tensor.mean, normal(3, 4))
op("var", lambda a: a.var(-1), normal(3, 4))
op("std", lambda a: a.std(0, unbiased=False), normal(3, 4))
op("amax", lambda a: a.amax(-1), spread(3, 4))
op("amin all", Tensor.amin, spread(3, 4))
op("max", Tensor.max, spread(3, 4))
op("min", Tensor.min, spread(3, 4))
op("max dim", lambda a: a.max(0).values, spread(3, 4))
op("cumsum", lambda a: a.cumsum(1), normal(3, 4))
op("cumprod", lambda a: a.cumprod(1), normal(3, 4))
op("cumprod zeros", lambda a: (a * ZEROS.to(a.dtype)).cumprod(0), normal(4, 3))
op("prod", Tensor.prod, normal(3, 2))
op("prod dim", lambda a: a.prod(0, keepdim=True), normal(3, 4))
op("prod one zero", lambda a: (a * ZEROS.to(a.dtype)).prod(0), normal(4, 3))
op("norm", Tensor.norm, normal(3, 4))
op("norm rows", lambda a: a.norm(dim=1, keepdim=True), normal(3, 4))
op("norm 1", lambda a: a.norm(1, 0), spread(3, 4))
op("norm 3", lambda a: a.norm(3, -1), spread(3, 4))
op("norm inf", lambda a: a.norm(math.inf, 1), lambda rng: rng.permutation(12).reshape(3, 4) * 0.2 + 0.1)
op("logsumexp", lambda a: a.logsumexp(1), normal(3, 4))
op("logsumexp axes", lambda a: a.logsumexp((0, 2), keepdim=True), normal(2, 3, 2))
op("logcumsumexp", lambda a: a.logcumsumexp(1), normal(3, 4))
op("var_mean", lambda a: tg.var_mean(a, 1)[0] * tg.var_mean(a, 1)[1], normal(3, 4))
op("nanmean", lambda a: a.nanmean(1), normal(3, 4))
op("cummax", lambda a: a.cummax(1).values, spread(3, 4))
op("diff", lambda a: a.diff(n=2, dim=0), normal(4, 3))
op("sort", lambda a: a.sort(0, descending=True).values, spread(4, 3))
op("topk", lambda a: a.topk(2, 0).values, spread(4, 3))
op("kthvalue", lambda a: a.kthvalue(2).values, spread(3, 4))
op("median", lambda a: a.median(1).values, spread(3, 4))
op("median of all", lambda a: a.median(), spread(3, 4))
op("mode", lambda a: a.mode(1).values, spread(3, 4))
op("quantile", lambda a: a.quantile(0.3, 1), spread(3, 4))
op("trapezoid", lambda y, x: tg.trapezoid(y, x.exp()), normal(2, 4), normal(4))
op("cosine_similarity", tg.cosine_similarity, normal(3, 4), normal(1, 4))
op("nanmedian", lambda a: a.nanmedian(1).values, spread(3, 4))
op("nanmedian of all", lambda a: a.nanmedian(), spread(3, 4))
op("pdist", F.pdist, normal(4, 3))
op("cdist", tg.cdist, normal(3, 2), normal(4, 2))

# --- shape and index --------------------------------------------------------------------------------------------------

op("reshape", lambda a: a.reshape(2, 6), normal(3, 4))
op("view -1", lambda a: a.view(-1, 2), normal(3, 4), strides=False)
op("transpose", lambda a: a.transpose(0, -1), normal(2, 3, 4))
op("permute", lambda a: a.permute(2, 0, 1), normal(2, 3, 4))
op("movedim", lambda a: a.movedim(0, 2), normal(2, 3, 4))
op("flip", lambda a: a.flip(0, 1), normal(2, 3))
op("expand", lambda a: a.expand(2, 3, 4), normal(3, 1))
op("unsqueeze squeeze", lambda a: a.unsqueeze(1).squeeze(1), normal(3, 4))
op("flatten", lambda a: a.flatten(1), normal(2, 3, 4))
op("contiguous", lambda a: a.t().contiguous(), normal(3, 4))
op("clone", Tensor.clone, normal(3))
op("cat", lambda a, b: tg.cat([a, b, a], 1), normal(2, 3), normal(2, 1))
op("stack", lambda a, b: tg.stack([a, b], -1), normal(2, 3), normal(2, 3))
op("split", lambda a: a.split(2, 1)[1] * a.split([1, 4], 1)[1][:, :2], normal(2, 5))
op("chunk", lambda a: a.chunk(2, 0)[0] * a.chunk(2, 0)[1], normal(4, 3))
op("unbind", lambda a: a.unbind(0)[0] * a.unbind(0)[2], normal(3, 4))
op("getitem int", lambda a: a[1], normal(3, 4))
op("getitem slice", lambda a: a[1:, ::2], normal(3, 4))
op("getitem None and ellipsis", lambda a: a[..., None, 1], normal(3, 4))
op("getitem repeated", lambda a: a[tg.tensor([0, 2, 2, 0])], normal(3, 4))
op("getitem two arrays", lambda a: a[tg.tensor([0, 2]), tg.tensor([1, 1])], normal(3, 4))
op("getitem mask", lambda a: a[tg.tensor([True, False, True])], normal(3, 4))
op("gather", lambda a: a.gather(1, tg.tensor([[0, 0, 3], [1, 1, 1]])), normal(2, 4))
op("gather negative dim", lambda a: a.gather(-1, tg.tensor([[0, 0, 3]])), normal(2, 4))
op("getitem integer beside array", lambda a: a[1, :, [0, 2, 2]], normal(2, 3, 4))
op("getitem mask and slice", lambda a: a[tg.tensor([True, False, True]), 1:], normal(3, 4))
op("scatter", lambda a, b: a.scatter(1, tg.tensor([[0, 2], [1, 3]]), b), normal(2, 4), normal(2, 3))
op(
    "scatter_add",
    lambda a, b: a.scatter_add(0, tg.tensor([[0, 0, 1], [1, 0, 0], [1, 1, 1]]), b),
    normal(2, 3),
    normal(3, 3),
)
op(
    "scatter_reduce amax",
    lambda a, b: a.scatter_reduce(0, tg.tensor([0, 0, 1]), b, "amax"),
    lambda rng: np.array([0.3, -1.0]),
    spread(3),
)
op("scatter_reduce mean", lambda a, b: a.scatter_reduce(0, tg.tensor([0, 0, 1]), b, "mean"), normal(3), normal(3))
op("index_select", lambda a: a.index_select(1, tg.tensor([2, 0, 2])), normal(2, 3))
op("index_add", lambda a, b: a.index_add(0, tg.tensor([1, 1, 0]), b, alpha=2), normal(2, 3), normal(3, 3))
op("index_copy", lambda a, b: a.index_copy(0, tg.tensor([2, 0]), b), normal(3, 2), normal(2, 2))
op("index_fill", lambda a: a.index_fill(1, tg.tensor([0, 2]), 3.0), normal(2, 3))
op("index_put", lambda a, b: a.index_put((tg.tensor([0, 0]),), b, accumulate=True), normal(2, 3), normal(2, 3))
op("take", lambda a: a.take(tg.tensor([[0, 5], [5, 1]])), normal(2, 3))
op("take_along_dim", lambda a: a.take_along_dim(tg.tensor([[1, 0, 1]]), 0), normal(2, 3))
op("masked_select", lambda a: a.masked_select(tg.tensor([True, False, True])), normal(2, 3))
op("masked_scatter", lambda a, b: a.masked_scatter(tg.tensor([True, False, True]), b), normal(2, 3), normal(5))
op("tril", lambda a: tg.tril(a), normal(3, 4))
op("triu", lambda a: tg.triu(a, 1), normal(2, 3, 3))
op("diagonal", lambda a: a.diagonal(1, 0, 2), normal(3, 2, 3))
op("diag", lambda a: tg.diag(a, -1), normal(3))
op("diag of a matrix", lambda a: tg.diag(a, 1), normal(3, 4))
op("diag_embed", lambda a: a.diag_embed(1), normal(2, 3))
op("unfold", lambda a: a.unfold(1, 3, 2), normal(2, 7))
op("as_strided", lambda a: a.contiguous().as_strided((2, 3), (1, 1), 1), normal(6))
op("roll", lambda a: a.roll((1, -1), (0, 1)), normal(3, 4))
op("repeat", lambda a: a.repeat(2, 1, 3), normal(2, 3))
op("tile", lambda a: a.tile(2), normal(2, 3))
op("repeat_interleave", lambda a: a.repeat_interleave(tg.tensor([2, 0, 1]), 1), normal(2, 3))
op("tensor_split", lambda a: a.tensor_split(2, 1)[0] * a.tensor_split((2, 3), 1)[1], normal(3, 4))
op("meshgrid", lambda a, b: tg.meshgrid(a, b, indexing="xy")[0] * tg.meshgrid(a, b)[1].t(), normal(3), normal(2))
op("setitem integer beside array", lambda a, b: _written_mixed(a, b), normal(2, 3, 4), normal(2, 3))
op("in place through a diagonal", lambda a: _written_diagonal(a), normal(3, 3))
op("turned in place", lambda a: (a * 2.0).unsqueeze_(0).transpose_(0, 1).mul_(a[0]), normal(3, 3))
op("setitem", lambda a, b: _written(a, b), normal(3, 4), normal(4))
op("setitem through a view", lambda a, b: _written_view(a, b), normal(3, 4), normal(3))
op("in place", lambda a, b: (a * 1.0).mul_(b).add_(a), normal(3, 4), normal(4))


def _written(a: Tensor, b: Tensor) -> Tensor:
    out = a * a
    out[1] = b * 2.0
    out[0, 1:3] = out[2, :2]
    return out * a


def _written_mixed(a: Tensor, b: Tensor) -> Tensor:
    out = a * 2.0
    out[1, :, [0, 3]] = b.t()
    return out * a


def _written_diagonal(a: Tensor) -> Tensor:
    out = a * 1.0
    out.diagonal().mul_(a[0])
    return out * out


def _written_view(a: Tensor, b: Tensor) -> Tensor:
    out = a * 2.0
    column = out.t()[1]
    column.mul_(b)
    return out * out + column.sum()


# --- products ---------------------------------------------------------------------------------------------------------

op("matmul", lambda a, b: a @ b, normal(3, 4), normal(4, 2))
op("matmul transposed", lambda a, b: a.t() @ b.t(), normal(4, 3), normal(2, 4))
op("matmul batched", lambda a, b: a @ b, normal(2, 1, 3, 4), normal(3, 4, 2))
op("matmul vector", lambda a, b: a @ b, normal(4), normal(4, 3))
op("matmul by vector", lambda a, b: a @ b, normal(2, 3, 4), normal(4))
op("matmul dot", lambda a, b: a @ b, normal(4), normal(4))
op("mm", tg.mm, normal(3, 4), normal(4, 2))
op("bmm", tg.bmm, normal(2, 3, 4), normal(2, 4, 2))
op("dot", tg.dot, normal(4), normal(4))
op("outer", tg.outer, normal(3), normal(4))
op("addmm", lambda a, b, c: tg.addmm(a, b, c, beta=0.5, alpha=2), normal(2), normal(3, 4), normal(4, 2))
op("baddbmm", tg.baddbmm, normal(2, 3, 2), normal(2, 3, 4), normal(2, 4, 2))
op("einsum attention", lambda q, k: tg.einsum("bhid,bhjd->bhij", q, k), normal(2, 2, 3, 2), normal(2, 2, 4, 2))
op("einsum three", lambda a, b, c: tg.einsum("ab,bc,cd->ad", a, b, c), normal(2, 3), normal(3, 2), normal(2, 3))
op("einsum diagonal", lambda a: tg.einsum("bii->i", a), normal(2, 3, 3))
op("einsum dots", lambda a, b: tg.einsum("...i,ij->j...", a, b), normal(2, 3, 4), normal(4, 2))
op("einsum of one", lambda a, b: tg.einsum("ij,ij->i", a, b), normal(3, 4), normal(3, 1))
op("tensordot", lambda a, b: tg.tensordot(a, b, dims=([0, 2], [1, 0])), normal(2, 3, 4), normal(4, 2, 5))
op("kron", tg.kron, normal(2, 2), normal(3))
op("inverse", lambda a: tg.linalg.inv(a @ a.mT + 1.0), normal(2, 2, 2))
op("det", lambda a: tg.linalg.det(a), normal(2, 3, 3))
op("solve", tg.linalg.solve, normal(3, 3), normal(3, 2))
op("solve vector", tg.linalg.solve, normal(3, 3), normal(3))
op("linear", F.linear, normal(2, 3, 4), normal(5, 4), normal(5))
op("linear no bias", F.linear, normal(3, 4), normal(5, 4))
op(
    "linear transposed input",
    lambda x, w, b: F.linear(x.transpose(0, 1), w, b),
    normal(2, 3, 4),
    normal(5, 4),
    normal(5),
)
op("embedding", lambda w: F.embedding(tg.tensor([[1, 1, 3], [1, 0, 0]]), w), normal(4, 3))

# --- softmax, normalisation, losses -----------------------------------------------------------------------------------

op("softmax", lambda x: F.softmax(x, -1), normal(3, 5))
op("softmax first axis", lambda x: F.softmax(x, 0), normal(3, 2, 5))
op("log_softmax", lambda x: F.log_softmax(x, -1), normal(3, 5))
op("log_softmax middle axis", lambda x: F.log_softmax(x, 1), normal(3, 2, 5))
op("layer_norm", lambda x, w, b: F.layer_norm(x, (5,), w, b, eps=0.1), normal(2, 3, 5), normal(5), normal(5))
op("layer_norm plain", lambda x: F.layer_norm(x, 5), normal(3, 5))
op("layer_norm two axes", lambda x, w: F.layer_norm(x, (3, 4), w), normal(2, 3, 4), normal(3, 4))
op(
    "batch_norm",
    lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True, eps=0.1),
    normal(4, 3, 2), normal(3), normal(3),
)  # fmt: skip
op("batch_norm of rows", lambda x: F.batch_norm(x, None, None, training=True, eps=0.1), normal(6, 3))
op(
    "batch_norm with given statistics",
    lambda x, w, b: F.batch_norm(x, tg.tensor([1.0, 0.0, -2.0]), tg.tensor([1.0, 0.5, 3.0]), w, b),
    normal(4, 3, 2), normal(3), normal(3),
)  # fmt: skip
op("group_norm", lambda x, w, b: F.group_norm(x, 2, w, b, eps=0.1), normal(3, 4, 2), normal(4), normal(4))
op("rms_norm", lambda x, w: F.rms_norm(x, (5,), w, eps=0.1), normal(2, 3, 5), normal(5))
op("cross_entropy", lambda x: F.cross_entropy(x, tg.tensor([1, 0, 3])), normal(3, 4))
op("cross_entropy ignored", lambda x: F.cross_entropy(x, tg.tensor([1, -100, 3])), normal(3, 4))
op("cross_entropy smoothed", lambda x: F.cross_entropy(x, tg.tensor([1, 0, 3]), label_smoothing=0.2), normal(3, 4))
op(
    "cross_entropy weighted",
    lambda x: F.cross_entropy(
        x, tg.tensor([1, 0, 3]), tg.tensor([0.5, 1.0, 2.0, 0.1], dtype=x.dtype), reduction="none", label_smoothing=0.1
    ),
    normal(3, 4),
)
op("cross_entropy spatial", lambda x: F.cross_entropy(x, tg.tensor([[1, 0], [2, 2]]), reduction="sum"), normal(2, 3, 2))
op("mse_loss", F.mse_loss, normal(3, 4), normal(3, 4))

# --- attention --------------------------------------------------------------------------------------------------------

sdpa = F.scaled_dot_product_attention
CAUSAL_HOLE = tg.tensor([[True, False, False], [True, True, False], [False, False, False], [True, True, True]])
op("attention", sdpa, normal(2, 2, 4, 3), normal(2, 2, 5, 3), normal(2, 2, 5, 2))
op(
    "attention causal",
    lambda q, k, v: sdpa(q, k, v, is_causal=True),
    normal(1, 2, 4, 3),
    normal(1, 2, 4, 3),
    normal(1, 2, 4, 3),
)
op("attention causal wide", lambda q, k, v: sdpa(q, k, v, is_causal=True), normal(2, 3), normal(5, 3), normal(5, 3))
op("attention masked", lambda q, k, v: sdpa(q, k, v, CAUSAL_HOLE), normal(2, 4, 3), normal(2, 3, 3), normal(2, 3, 3))
op("attention bias", sdpa, normal(1, 2, 3, 2), normal(1, 2, 4, 2), normal(1, 2, 4, 2), normal(3, 4))
op("attention scale", lambda q, k, v: sdpa(q, k, v, scale=0.3), normal(3, 2), normal(4, 2), normal(4, 2))
op(
    "attention grouped",
    lambda q, k, v: sdpa(q, k, v, enable_gqa=True),
    normal(1, 4, 3, 2),
    normal(1, 2, 3, 2),
    normal(1, 2, 3, 2),
)
op(
    "attention split heads",
    lambda x: sdpa(*(t.view(2, 3, 2, 2).transpose(1, 2) for t in x.split(4, 2)), is_causal=True),
    normal(2, 3, 12),
)

# --- layers and models ------------------------------------------------------------------------------------------------

layer("Linear", lambda: nn.Linear(4, 3), normal(2, 4))
layer("Embedding", lambda: nn.Embedding(5, 3, padding_idx=0), call=lambda m: m(tg.tensor([1, 3, 3])) * 2.0)
layer("LayerNorm", lambda: nn.LayerNorm(4), normal(2, 3, 4))
layer("RMSNorm", lambda: nn.RMSNorm(4, eps=1e-3), normal(2, 4))
layer("Sequential", lambda: nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)), normal(5, 3))
layer("MultiHeadAttention", lambda: nn.MultiHeadAttention(4, 2), normal(2, 3, 4))
layer("MultiHeadAttention cross", lambda: nn.MultiHeadAttention(4, 2), normal(1, 2, 4), normal(1, 3, 4))
layer(
    "MultiHeadAttention weights",
    lambda: nn.MultiHeadAttention(4, 2),
    normal(1, 3, 4),
    call=lambda m, x: m(x, is_causal=True, need_weights=True)[1],
)
layer("FeedForward gelu", lambda: nn.FeedForward(3, 5, "gelu"), normal(2, 3))
layer("Block pre-norm", lambda: nn.Block(4, 2, 6), normal(1, 3, 4), call=lambda m, x: m(x, is_causal=True))
layer("Block post-norm", lambda: nn.Block(4, 2, 6, norm_first=False), normal(1, 3, 4))
layer("SinusoidalPositions", lambda: nn.SinusoidalPositions(5, 4), normal(2, 3, 4))
layer("LearnedPositions", lambda: nn.LearnedPositions(5, 4), normal(2, 3, 4))
layer(
    "GPT",
    lambda: models.GPT(models.GPTConfig(vocab_size=5, context=4, layers=2, heads=2, channels=4, bias=True)),
    call=lambda m: m.loss(tg.tensor([[0, 1, 2, 3]]), tg.tensor([[1, 2, 3, 4]])),
)
layer("Bilinear", lambda: nn.Bilinear(3, 2, 4), normal(5, 3), normal(5, 2))
layer("BatchNorm1d", lambda: nn.BatchNorm1d(3, track_running_stats=False), normal(5, 3))
layer("GroupNorm", lambda: nn.GroupNorm(2, 4), normal(2, 4, 3))
layer("InstanceNorm1d", lambda: nn.InstanceNorm1d(3, affine=True, track_running_stats=True), normal(2, 3, 4))
layer("InstanceNorm2d", lambda: nn.InstanceNorm2d(3, affine=True), normal(2, 3, 2, 2))
op("rrelu", lambda a: F.rrelu(a, 0.1, 0.3), spread(3, 4))
layer("PReLU", lambda: nn.PReLU(3), spread(2, 3))
for _activation in (
    nn.ELU(0.5), nn.CELU(0.5), nn.SELU(), nn.LeakyReLU(), nn.Mish(), nn.Softplus(2.0), nn.LogSigmoid(), nn.Softsign(),
    nn.Tanhshrink(), nn.Softshrink(), nn.Hardshrink(), nn.Hardtanh(), nn.Hardswish(), nn.Threshold(0.1, 2.0), nn.GLU(),
    nn.Softmin(-1), nn.LogSoftmax(-1),
):  # fmt: skip
    op(f"nn.{_activation!r}", _activation, spread(3, 4))
op("normalize", lambda x: F.normalize(x), normal(3, 4))
op("cosine_similarity same shape", F.cosine_similarity, normal(3, 4), normal(3, 4))
op("pad", lambda x: F.pad(x, (1, -1, 2, 0), value=3.0), normal(3, 4))
op("pad reflect", lambda x: F.pad(x, (2, 1), "reflect"), normal(3, 4))
op("nll_loss", lambda x: F.nll_loss(x, tg.tensor([1, -100, 3])), normal(3, 4))
op("kl_div", lambda x, y: F.kl_div(x, y, reduction="sum"), normal(3, 4), positive(3, 4))
op("cross_entropy soft", F.cross_entropy, normal(3, 4), positive(3, 4))
op("binary_cross_entropy", lambda x, y: F.binary_cross_entropy(x.sigmoid(), y.sigmoid()), normal(3, 4), normal(3, 4))
op("binary_cross_entropy_with_logits", F.binary_cross_entropy_with_logits, normal(3, 4), positive(3, 4))
op("l1_loss", F.l1_loss, spread(3, 4), normal(3, 4))
op("smooth_l1_loss", lambda x, y: F.smooth_l1_loss(x, y, beta=0.3), spread(3, 4), normal(3, 4))
op("huber_loss", lambda x, y: F.huber_loss(x, y, delta=0.3), spread(3, 4), normal(3, 4))
op("gaussian_nll_loss", F.gaussian_nll_loss, normal(3, 4), normal(3, 4), positive(3, 4))
op("triplet_margin_loss", F.triplet_margin_loss, normal(3, 4), normal(3, 4), normal(3, 4))
layer("MultiheadAttention", lambda: nn.MultiheadAttention(4, 2), normal(3, 2, 4), call=lambda m, x: m(x, x, x)[0])
layer(
    "MultiheadAttention weights, bias_kv",
    lambda: nn.MultiheadAttention(4, 2, add_bias_kv=True, kdim=3, vdim=5, batch_first=True),
    normal(1, 2, 4),
    normal(1, 3, 3),
    normal(1, 3, 5),
    call=lambda m, q, k, v: m(q, k, v, is_causal=True)[1],
)
layer("TransformerEncoderLayer", lambda: nn.TransformerEncoderLayer(4, 2, 6, 0.0, "gelu"), normal(3, 1, 4))
layer(
    "TransformerDecoderLayer",
    lambda: nn.TransformerDecoderLayer(4, 2, 6, 0.0, "gelu", norm_first=True),
    normal(2, 1, 4),
    normal(3, 1, 4),
)

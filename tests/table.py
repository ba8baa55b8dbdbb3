"""The one table of differentiable things: a row for every operation, layer and model. test_table.py runs all its tests.

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


def spread(*shape: int) -> Maker:
    """Values at least 0.1 apart from each other and from 0, in random order."""

    def make(rng: np.random.Generator) -> np.ndarray:
        n = math.prod(shape)
        return (rng.permutation(n) * 0.2 - 0.1 * n + 0.07).reshape(shape)

    return make


@dataclass(frozen=True)
class Case:
    """function(*tensors) for an operation, or `build(rng, dtype)` for anything else."""

    name: str
    build: Callable[[np.random.Generator, Any], Built]
    order: int = 2
    strides: bool = True  # False where the memory's layout matters, as for view


CASES: list[Case] = []


def op(name: str, function: Callable[..., Any], *inputs: Maker, order: int = 2, strides: bool = True) -> None:
    def build(rng: np.random.Generator, dtype: Any) -> Built:
        leaves = [Tensor(m(rng).astype(dtype), requires_grad=True) for m in inputs]
        return lambda: function(*leaves), leaves

    CASES.append(Case(name, build, order, strides))


def layer(name: str, make: Callable[[], nn.Module], *inputs: Maker, call: Callable[..., Any] | None = None, order: int = 2) -> None:
    """A module: differentiated by its inputs and by all its parameters."""

    def build(rng: np.random.Generator, dtype: Any) -> Built:
        tg.manual_seed(int(rng.integers(1000)))
        module = make().to(np.dtype(dtype))
        for p in module.parameters():
            p.array[...] = rng.normal(size=p.shape) * 0.5
        leaves = [Tensor(m(rng).astype(dtype), requires_grad=True) for m in inputs]
        run = call or (lambda m, *xs: m(*xs))
        return lambda: run(module, *leaves), [*leaves, *module.parameters()]

    CASES.append(Case(name, build, order))


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
op("abs", Tensor.abs, spread(3, 4))
op("relu", Tensor.relu, spread(3, 4))
op("clamp", lambda a: a.clamp(-0.5, 0.6), spread(3, 4))
op("clamp below", lambda a: a.clamp(min=-0.3), spread(7))
op("maximum", ops.elementwise.maximum, spread(3, 4), lambda rng: rng.permutation(4) * 0.2 - 0.35)
op("minimum", ops.elementwise.minimum, spread(3, 4), lambda rng: rng.permutation(4) * 0.2 - 0.35)
op("where", lambda a, b: tg.where(tg.tensor([True, False, True]), a, b), normal(2, 3), normal(3))
op("masked_fill", lambda a: a.masked_fill(tg.tensor([True, False, True]), 2.0), normal(2, 3))
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
op("max dim", lambda a: a.max(0).values, spread(3, 4))
op("cumsum", lambda a: a.cumsum(1), normal(3, 4))

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
op("tril", lambda a: tg.tril(a), normal(3, 4))
op("setitem", lambda a, b: _written(a, b), normal(3, 4), normal(4))
op("setitem through a view", lambda a, b: _written_view(a, b), normal(3, 4), normal(3))
op("in place", lambda a, b: (a * 1.0).mul_(b).add_(a), normal(3, 4), normal(4))


def _written(a: Tensor, b: Tensor) -> Tensor:
    out = a * a
    out[1] = b * 2.0
    out[0, 1:3] = out[2, :2]
    return out * a


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
op("linear", F.linear, normal(2, 3, 4), normal(5, 4), normal(5))
op("linear no bias", F.linear, normal(3, 4), normal(5, 4))
op("linear transposed input", lambda x, w, b: F.linear(x.transpose(0, 1), w, b), normal(2, 3, 4), normal(5, 4), normal(5))
op("embedding", lambda w: F.embedding(tg.tensor([[1, 1, 3], [1, 0, 0]]), w), normal(4, 3))

# --- softmax, normalisation, losses -----------------------------------------------------------------------------------

op("softmax", lambda x: F.softmax(x, -1), normal(3, 5))
op("softmax first axis", lambda x: F.softmax(x, 0), normal(3, 2, 5))
op("log_softmax", lambda x: F.log_softmax(x, -1), normal(3, 5))
op("log_softmax middle axis", lambda x: F.log_softmax(x, 1), normal(3, 2, 5))
op("layer_norm", lambda x, w, b: F.layer_norm(x, (5,), w, b, eps=0.1), normal(2, 3, 5), normal(5), normal(5))
op("layer_norm plain", lambda x: F.layer_norm(x, 5), normal(3, 5))
op("layer_norm two axes", lambda x, w: F.layer_norm(x, (3, 4), w), normal(2, 3, 4), normal(3, 4))
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
op("attention causal", lambda q, k, v: sdpa(q, k, v, is_causal=True), normal(1, 2, 4, 3), normal(1, 2, 4, 3), normal(1, 2, 4, 3))
op("attention causal wide", lambda q, k, v: sdpa(q, k, v, is_causal=True), normal(2, 3), normal(5, 3), normal(5, 3))
op("attention masked", lambda q, k, v: sdpa(q, k, v, CAUSAL_HOLE), normal(2, 4, 3), normal(2, 3, 3), normal(2, 3, 3))
op("attention bias", sdpa, normal(1, 2, 3, 2), normal(1, 2, 4, 2), normal(1, 2, 4, 2), normal(3, 4))
op("attention scale", lambda q, k, v: sdpa(q, k, v, scale=0.3), normal(3, 2), normal(4, 2), normal(4, 2))
op("attention grouped", lambda q, k, v: sdpa(q, k, v, enable_gqa=True), normal(1, 4, 3, 2), normal(1, 2, 3, 2), normal(1, 2, 3, 2))
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

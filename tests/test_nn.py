"""Modules and their functions: what PyTorch gives for the same seed and input, and what is said when they are misused."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tinygrad_tf as tg
from tinygrad_tf import nn
from tinygrad_tf.nn import functional as F

# --- the same values, gradients and dtypes as PyTorch -----------------------------------------------------------------

Function = Callable[..., Any]


def rows(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).normal(size=shape) * 2.0


def spread(*shape: int) -> np.ndarray:
    """No two entries, and no entry and a kink at -3, -1, -0.5, 0, 0.5, 1, 3 or 6, lie close together."""
    return np.random.default_rng(1).permutation(np.linspace(-8.03, 8.09, math.prod(shape))).reshape(shape)


def shares(*shape: int) -> np.ndarray:
    return np.random.default_rng(2).uniform(0.05, 0.95, size=shape)


X, Y = rows(4, 5), rows(4, 5, seed=3)
SIGNS = np.where(rows(4) > 0, 1.0, -1.0)
CLASSES = np.array([1, 4, 0, -100])
FUNCTIONS: dict[str, tuple[Function, tuple[np.ndarray, ...]]] = {
    **{
        name: (lambda t, x, name=name: getattr(t.nn.functional, name)(x), (spread(4, 6),))
        for name in (
            "relu relu6 leaky_relu elu celu selu gelu silu mish sigmoid hardsigmoid hardswish logsigmoid tanh tanhshrink "
            "hardtanh softplus softsign softshrink hardshrink glu"
        ).split()
    },
    "elu near 0": (lambda t, x: t.nn.functional.elu(x, 0.7), (np.array([-1e-7, -1e-3, 1e-7, 0.0]),)),
    "celu alpha": (lambda t, x: t.nn.functional.celu(x, 2.0), (spread(4, 6),)),
    "softplus beta": (lambda t, x: t.nn.functional.softplus(x, 3.0, 4.0), (spread(4, 6),)),
    "threshold": (lambda t, x: t.nn.functional.threshold(x, 0.3, 20.0), (spread(4, 6),)),
    "gelu tanh": (lambda t, x: t.nn.functional.gelu(x, approximate="tanh"), (spread(4, 6),)),
    "glu first": (lambda t, x: t.nn.functional.glu(x, 0), (spread(4, 6),)),
    "prelu": (lambda t, x, w: t.nn.functional.prelu(x, w), (spread(2, 3, 4), shares(3))),
    "softmin": (lambda t, x: t.nn.functional.softmin(x, dim=1), (X,)),
    "relu in place": (lambda t, x: t.nn.functional.relu(x * 1.0, inplace=True), (spread(4, 6),)),
    "linear": (lambda t, x, w, b: t.nn.functional.linear(x, w, b), (X, rows(3, 5), rows(3))),
    "bilinear": (lambda t, x, y, w, b: t.nn.functional.bilinear(x, y, w, b), (X, rows(4, 3), rows(2, 5, 3), rows(2))),
    "group_norm": (
        lambda t, x, w, b: t.nn.functional.group_norm(x, 2, w, b),
        (rows(3, 4, 5), rows(4), rows(4, seed=1)),
    ),
    "batch_norm": (
        lambda t, x, w, b: t.nn.functional.batch_norm(x, None, None, w, b, training=True),
        (rows(6, 3), rows(3), rows(3, seed=1)),
    ),
    "normalize": (lambda t, x: t.nn.functional.normalize(x), (X,)),
    "normalize p=1": (lambda t, x: t.nn.functional.normalize(x, p=1.0, dim=0), (X,)),
    "normalize p=3": (lambda t, x: t.nn.functional.normalize(x, p=3.0), (X,)),
    "cosine_similarity": (lambda t, x, y: t.nn.functional.cosine_similarity(x, y), (X, Y)),
    "pairwise_distance": (lambda t, x, y: t.nn.functional.pairwise_distance(x, y, keepdim=True), (X, Y)),
    "pad": (lambda t, x: t.nn.functional.pad(x, (1, 2, 0, 3), value=7.0), (X,)),
    "pad cuts": (lambda t, x: t.nn.functional.pad(x, (-1, 2, 1, -2)), (X,)),
    "pad reflect": (lambda t, x: t.nn.functional.pad(x, (2, 3), "reflect"), (X,)),
    "pad replicate": (lambda t, x: t.nn.functional.pad(x, (2, 3), "replicate"), (X,)),
    "pad circular": (lambda t, x: t.nn.functional.pad(x, (2, 3), "circular"), (X,)),
    "mse_loss": (lambda t, x, y: t.nn.functional.mse_loss(x, y), (X, Y)),
    "mse_loss weighted": (lambda t, x, y, w: t.nn.functional.mse_loss(x, y, weight=w), (X, Y, shares(4, 5))),
    "l1_loss": (lambda t, x, y: t.nn.functional.l1_loss(x, y, reduction="sum"), (X, Y)),
    "smooth_l1_loss": (lambda t, x, y: t.nn.functional.smooth_l1_loss(x, y, beta=0.7), (X, Y)),
    "smooth_l1_loss beta 0": (lambda t, x, y: t.nn.functional.smooth_l1_loss(x, y, beta=0.0), (X, Y)),
    "huber_loss": (lambda t, x, y: t.nn.functional.huber_loss(x, y, delta=0.7), (X, Y)),
    "kl_div": (lambda t, x, y: t.nn.functional.kl_div(x, y, reduction="batchmean"), (X, shares(4, 5))),
    "kl_div none": (lambda t, x, y: t.nn.functional.kl_div(x, y, reduction="none"), (X, shares(4, 5))),
    "kl_div log": (lambda t, x, y: t.nn.functional.kl_div(x, y, reduction="sum", log_target=True), (X, Y)),
    "bce": (lambda t, x, y: t.nn.functional.binary_cross_entropy(x, y), (shares(4, 5), shares(5, 4).T)),
    "bce at 0 and 1": (
        lambda t, x: t.nn.functional.binary_cross_entropy(x, t.tensor([1.0, 0.0, 1.0, 0.0], dtype=x.dtype)),
        (np.array([0.0, 0.0, 1.0, 1.0]),),
    ),
    "bce weighted": (
        lambda t, x, y, w: t.nn.functional.binary_cross_entropy(x, y, weight=w.detach(), reduction="sum"),
        (shares(4, 5), shares(5, 4).T, shares(5)),
    ),
    "bce logits": (lambda t, x, y: t.nn.functional.binary_cross_entropy_with_logits(x, y), (X * 30, shares(4, 5))),
    "bce logits pos_weight": (
        lambda t, x, y, w: t.nn.functional.binary_cross_entropy_with_logits(x, y, pos_weight=w.detach()),
        (X, shares(4, 5), shares(5)),
    ),
    "gaussian_nll_loss": (lambda t, x, y, v: t.nn.functional.gaussian_nll_loss(x, y, v, full=True), (X, Y, shares(4, 5))),
    "cosine_embedding_loss": (
        lambda t, x, y, s: t.nn.functional.cosine_embedding_loss(x, y, s.detach(), margin=0.1),
        (X, Y, SIGNS),
    ),
    "margin_ranking_loss": (
        lambda t, x, y, s: t.nn.functional.margin_ranking_loss(x, y, s.detach(), margin=0.1),
        (rows(4), rows(4, seed=1), SIGNS),
    ),
    "triplet_margin_loss": (
        lambda t, x, y, z: t.nn.functional.triplet_margin_loss(x, y, z, swap=True),
        (X, Y, rows(4, 5, seed=5)),
    ),
    "cross_entropy soft": (
        lambda t, x, y, w: t.nn.functional.cross_entropy(x, y, w.detach(), label_smoothing=0.1),
        (X, shares(4, 5), shares(5)),
    ),
    "cross_entropy": (lambda t, x: t.nn.functional.cross_entropy(x, t.tensor(CLASSES)), (X,)),
    "nll_loss": (lambda t, x: t.nn.functional.nll_loss(x, t.tensor(CLASSES)), (X,)),
    "nll_loss weighted": (lambda t, x, w: t.nn.functional.nll_loss(x, t.tensor(CLASSES), w.detach()), (X, shares(5))),
    "nll_loss one": (lambda t, x: t.nn.functional.nll_loss(x, t.tensor(2)), (rows(5),)),
    "nll_loss none": (
        lambda t, x: t.nn.functional.nll_loss(x, t.tensor([[0, 2], [1, 1], [2, -100]]), reduction="none"),
        (rows(3, 4, 2),),
    ),
}


ROUNDED_BY_PYTORCH = ("hardsigmoid", "bce at 0 and 1")  # its 1 / 6 is a float32, its 1e-12 an approximation


def value_and_gradients(t: Any, function: Function, arrays: tuple[np.ndarray, ...], dtype: str) -> list[np.ndarray]:
    leaves = [t.tensor(np.ascontiguousarray(a.astype(dtype)), requires_grad=True) for a in arrays]
    out = function(t, *leaves)
    (out * out).sum().backward()
    return [np.asarray(out.detach().numpy())] + [
        np.zeros(a.shape, dtype) if leaf.grad is None else np.asarray(leaf.grad.numpy())
        for leaf, a in zip(leaves, arrays, strict=True)
    ]


@pytest.fixture(scope="module")
def torch() -> ModuleType:
    return pytest.importorskip("torch")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_as_in_pytorch(torch: ModuleType, name: str, dtype: str) -> None:
    function, arrays = FUNCTIONS[name]
    wanted = value_and_gradients(torch, function, arrays, dtype)
    found = value_and_gradients(tg, function, arrays, dtype)
    exact = dtype == "float64" and name not in ROUNDED_BY_PYTORCH
    rtol, atol = (1e-10, 1e-12) if exact else (2e-5, 2e-6)
    for got, want in zip(found, wanted, strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=rtol, atol=atol * max(1.0, float(np.abs(want).max(initial=0.0))))


# --- modules: the same weights for the same seed, the same names, the same printed form -------------------------------

ALL_PLAIN = (
    "ReLU ReLU6 LeakyReLU ELU CELU SELU GELU SiLU Mish Sigmoid Hardsigmoid Hardswish LogSigmoid Tanh Tanhshrink Hardtanh "
    "Softplus Softsign Softshrink Hardshrink GLU Softmax LogSoftmax Softmin L1Loss MSELoss SmoothL1Loss HuberLoss "
    "CrossEntropyLoss NLLLoss KLDivLoss BCELoss BCEWithLogitsLoss GaussianNLLLoss CosineEmbeddingLoss MarginRankingLoss "
    "TripletMarginLoss Identity Flatten CosineSimilarity PairwiseDistance"
).split()
MODULES: dict[str, Callable[[Any], Any]] = {
    "Linear": lambda n: n.Linear(5, 3),
    "Linear large": lambda n: n.Linear(300, 200, bias=False),
    "Embedding": lambda n: n.Embedding(10, 7, padding_idx=-2),
    "Bilinear": lambda n: n.Bilinear(3, 4, 5),
    "LayerNorm": lambda n: n.LayerNorm((3, 4), bias=False),
    "RMSNorm": lambda n: n.RMSNorm(4),
    "BatchNorm1d": lambda n: n.BatchNorm1d(5),
    "GroupNorm": lambda n: n.GroupNorm(2, 4),
    "PReLU": lambda n: n.PReLU(3),
    "MultiheadAttention": lambda n: n.MultiheadAttention(8, 2),
    "MultiheadAttention kdim": lambda n: n.MultiheadAttention(8, 2, kdim=3, vdim=5, add_bias_kv=True, bias=False),
    "TransformerEncoder": lambda n: n.TransformerEncoder(n.TransformerEncoderLayer(8, 2, 16), 3, n.LayerNorm(8)),
    "TransformerDecoderLayer": lambda n: n.TransformerDecoderLayer(8, 2, 16, norm_first=True, bias=False),
    "Transformer": lambda n: n.Transformer(8, 2, 2, 1, 16),
    "Sequential": lambda n: n.Sequential(n.Linear(2, 3), n.ReLU(inplace=True), n.Dropout(0.1), n.Unflatten(1, (3, 1))),
    "containers": lambda n: n.ModuleDict({"a": n.Linear(1, 2), "b": n.ModuleList([n.Tanh(), n.Tanh(), n.Linear(1, 1)])}),
    "plain": lambda n: n.ModuleList([getattr(n, name)() for name in ALL_PLAIN]),
}


@pytest.mark.parametrize("name", MODULES)
def test_module_starts_as_in_pytorch(torch: ModuleType, name: str) -> None:
    torch.manual_seed(7)
    theirs = MODULES[name](torch.nn)
    tg.manual_seed(7)
    ours = MODULES[name](nn)
    wanted, found = theirs.state_dict(), ours.state_dict()
    assert list(found) == list(wanted)
    for key, value in wanted.items():
        np.testing.assert_array_equal(found[key].numpy(), value.numpy(), err_msg=key)
        assert found[key].numpy().dtype == value.numpy().dtype
    assert [n for n, _ in ours.named_modules()] == [n for n, _ in theirs.named_modules()]
    assert repr(ours) == repr(theirs).replace("NonDynamicallyQuantizableLinear", "Linear")
    assert torch.rand(3).tolist() == tg.rand(3).tolist()  # as many random numbers were drawn

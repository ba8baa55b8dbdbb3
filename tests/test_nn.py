"""Modules and their functions: what PyTorch gives for the same seed and input, and what is said of misuse."""

from __future__ import annotations

import copy
import math
import warnings
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
        for name in [
            "relu",
            "relu6",
            "leaky_relu",
            "elu",
            "celu",
            "selu",
            "gelu",
            "silu",
            "mish",
            "sigmoid",
            "hardsigmoid",
            "hardswish",
            "logsigmoid",
            "tanh",
            "tanhshrink",
            "hardtanh",
            "softplus",
            "softsign",
            "softshrink",
            "hardshrink",
            "glu",
        ]
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
    "instance_norm": (
        lambda t, x, w, b: t.nn.functional.instance_norm(x, None, None, w, b),
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
    "huber_loss weighted": (lambda t, x, y, w: t.nn.functional.huber_loss(x, y, weight=w), (X, Y, shares(4, 5))),
    "kl_div": (lambda t, x, y: t.nn.functional.kl_div(x, y, reduction="batchmean"), (X, shares(4, 5))),
    "kl_div none": (lambda t, x, y: t.nn.functional.kl_div(x, y, reduction="none"), (X, shares(4, 5))),
    "kl_div log": (lambda t, x, y: t.nn.functional.kl_div(x, y, reduction="sum", log_target=True), (X, Y)),
    "bce": (lambda t, x, y: t.nn.functional.binary_cross_entropy(x, y), (shares(4, 5), shares(5, 4).T)),
    "bce at 0 and 1": (
        lambda t, x: t.nn.functional.binary_cross_entropy(x, t.tensor([1.0, 0.0, 1.0, 0.0], dtype=x.dtype)),
        (np.array([0.0, 0.0, 1.0, 1.0]),),
    ),
    "bce right at 0 and 1": (  # where the slope is 0, not 1
        lambda t, x, y: t.nn.functional.binary_cross_entropy(x, y.detach()),
        (np.array([0.0, 1.0, 0.5]), np.array([0.0, 1.0, 1.0])),
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
    "bce logits of another dtype": (  # the target's is the result's
        lambda t, x, y: t.nn.functional.binary_cross_entropy_with_logits(x.double(), y.detach(), reduction="none"),
        (X, shares(4, 5)),
    ),
    "gaussian_nll_loss": (
        lambda t, x, y, v: t.nn.functional.gaussian_nll_loss(x, y, v, full=True),
        (X, Y, shares(4, 5)),
    ),
    "cosine_embedding_loss": (
        lambda t, x, y, s: t.nn.functional.cosine_embedding_loss(x, y, s.detach(), margin=0.1),
        (X, Y, SIGNS),
    ),
    "cosine_embedding_loss of zeros and at the margin": (
        lambda t, x, y, s: t.nn.functional.cosine_embedding_loss(x, y, s.detach()),
        (
            np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]]),
            np.array([[1.0, 1.0], [0.0, 1.0], [1.0, 0.0]]),
            SIGNS[:3] * 0 - 1,
        ),
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


ROUNDED_BY_PYTORCH = (  # its 1 / 6 is a float32, and so is its 1e-12
    "hardsigmoid",
    "bce at 0 and 1",
    "cosine_embedding_loss of zeros and at the margin",
)


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

ALL_PLAIN = [
    "ReLU",
    "ReLU6",
    "LeakyReLU",
    "ELU",
    "CELU",
    "SELU",
    "GELU",
    "SiLU",
    "Mish",
    "Sigmoid",
    "Hardsigmoid",
    "Hardswish",
    "LogSigmoid",
    "Tanh",
    "Tanhshrink",
    "Hardtanh",
    "Softplus",
    "Softsign",
    "Softshrink",
    "Hardshrink",
    "GLU",
    "Softmax",
    "LogSoftmax",
    "Softmin",
    "L1Loss",
    "MSELoss",
    "SmoothL1Loss",
    "HuberLoss",
    "CrossEntropyLoss",
    "NLLLoss",
    "KLDivLoss",
    "BCELoss",
    "BCEWithLogitsLoss",
    "GaussianNLLLoss",
    "CosineEmbeddingLoss",
    "MarginRankingLoss",
    "TripletMarginLoss",
    "Identity",
    "Flatten",
    "CosineSimilarity",
    "PairwiseDistance",
]
MODULES: dict[str, Callable[[Any], Any]] = {
    "Linear": lambda n: n.Linear(5, 3),
    "Linear large": lambda n: n.Linear(300, 200, bias=False),
    "Embedding": lambda n: n.Embedding(10, 7, padding_idx=-2),
    "Bilinear": lambda n: n.Bilinear(3, 4, 5),
    "LayerNorm": lambda n: n.LayerNorm((3, 4), bias=False),
    "RMSNorm": lambda n: n.RMSNorm(4),
    "BatchNorm1d": lambda n: n.BatchNorm1d(5),
    "GroupNorm": lambda n: n.GroupNorm(2, 4),
    "InstanceNorm1d": lambda n: n.InstanceNorm1d(5),
    "InstanceNorm2d": lambda n: n.InstanceNorm2d(5, affine=True, track_running_stats=True),
    "cells": lambda n: n.ModuleList([n.RNNCell(2, 3), n.LSTMCell(2, 3, bias=False), n.GRUCell(2, 3)]),
    "RNNCell relu": lambda n: n.RNNCell(2, 3, nonlinearity="relu"),
    "PReLU": lambda n: n.PReLU(3),
    "MultiheadAttention": lambda n: n.MultiheadAttention(8, 2),
    "MultiheadAttention kdim": lambda n: n.MultiheadAttention(8, 2, kdim=3, vdim=5, add_bias_kv=True, bias=False),
    "TransformerEncoder": lambda n: n.TransformerEncoder(n.TransformerEncoderLayer(8, 2, 16), 3, n.LayerNorm(8)),
    "TransformerDecoderLayer": lambda n: n.TransformerDecoderLayer(8, 2, 16, norm_first=True, bias=False),
    "Transformer": lambda n: n.Transformer(8, 2, 2, 1, 16),
    "Sequential": lambda n: n.Sequential(n.Linear(2, 3), n.ReLU(inplace=True), n.Dropout(0.1), n.Unflatten(1, (3, 1))),
    "containers": lambda n: n.ModuleDict(
        {"a": n.Linear(1, 2), "b": n.ModuleList([n.Tanh(), n.Tanh(), n.Linear(1, 1)])}
    ),
    "ends": lambda n: n.ModuleList([n.ConstantPad1d(1, 0.5), n.ConstantPad2d((1, 2, 0, 1), 2), n.ZeroPad2d(1)]),
    "Upsample": lambda n: n.ModuleList([n.Upsample(scale_factor=2), n.Upsample(scale_factor=(2, 3)), n.Upsample(4)]),
    "LSTM": lambda n: n.LSTM(3, 4, 2, bias=False, proj_size=2),
    "plain": lambda n: n.ModuleList([getattr(n, name)() for name in ALL_PLAIN]),
}


@pytest.mark.parametrize("name", MODULES)
def test_module_starts_as_in_pytorch(torch: ModuleType, name: str) -> None:
    starts_as_in_pytorch(torch, MODULES[name])


def starts_as_in_pytorch(torch: ModuleType, make: Callable[[Any], Any], printed: bool = True) -> None:
    """The same names, weights and printed form from the same seed, and as many random numbers drawn."""
    torch.manual_seed(7)
    theirs = make(torch.nn)
    tg.manual_seed(7)
    ours = make(nn)
    wanted, found = theirs.state_dict(), ours.state_dict()
    assert list(found) == list(wanted)
    for key, value in wanted.items():
        np.testing.assert_array_equal(found[key].numpy(), value.numpy(), err_msg=key)
        assert found[key].numpy().dtype == value.numpy().dtype
    assert [n for n, _ in ours.named_modules()] == [n for n, _ in theirs.named_modules()]
    if printed:
        assert repr(ours) == repr(theirs)
    assert torch.rand(3).tolist() == tg.rand(3).tolist()


def test_dropout_of_everything_draws_nothing_and_of_half_numbers_keeps_their_dtype(torch: ModuleType) -> None:
    for t in (torch, tg):
        t.manual_seed(3)
        x = t.ones(2, 4, 3, dtype=t.bfloat16)
        for layer in (t.nn.Dropout(1.0), t.nn.Dropout1d(1.0), t.nn.AlphaDropout(1.0)):
            assert not layer(x).any()
        t_first = t.rand(1)
        t.manual_seed(3)
        assert t.equal(t.rand(1), t_first)
        for layer in (t.nn.AlphaDropout(0.4), t.nn.FeatureAlphaDropout(0.4), t.nn.Dropout(0.4)):
            assert layer(x).dtype == t.bfloat16


def test_channels_have_a_number_each_and_nothing_is_changed_if_they_have_not() -> None:
    mean, var = tg.zeros(3), tg.ones(3)
    for function, words in (
        (lambda: F.batch_norm(tg.rand(4, 3), mean, var, tg.ones(1), training=True), "batch_norm: weight must have 3"),
        (lambda: F.instance_norm(tg.rand(4, 3, 2), mean, var, bias=tg.ones(2)), "instance_norm: bias must have 3"),
        (lambda: F.group_norm(tg.rand(4, 3), 1, tg.ones(4)), "group_norm: weight must have 3 entries"),
        (lambda: F.group_norm(tg.rand(4), 1), r"group_norm: input must be \(N, C, ...\)"),
        (lambda: F.batch_norm(tg.rand(4), None, None, training=True), r"batch_norm: input must be \(N, C, ...\)"),
        (lambda: F.prelu(tg.rand(2, 3), tg.ones(2)), "prelu: weight must have 1 or 3 slopes"),
        (lambda: F.softshrink(tg.rand(2), -0.5), "softshrink: lambd must not be negative"),
    ):
        with pytest.raises(RuntimeError, match=words):
            function()
    assert mean.tolist() == [0.0] * 3 and var.tolist() == [1.0] * 3
    for function in (lambda: F.hardtanh(tg.rand(2), 1.0, 0.5), lambda: F.triplet_margin_loss(*tg.ones(3, 1, 2), -1.0)):
        with pytest.raises(ValueError, match="must"):
            function()


def test_divergence_from_what_is_no_distribution_is_no_number() -> None:
    loss = F.kl_div(tg.zeros(3), tg.tensor([0.0, 1.0, -1.0]), reduction="none")
    assert loss[:2].tolist() == [0.0, 0.0] and loss[2].isnan()


@pytest.mark.parametrize("rows_of_x", [(), (2,), (128,), (2, 64)])
def test_biases_that_broadcast_and_those_that_do_not(rows_of_x: tuple[int, ...]) -> None:
    x, weight = tg.ones(*rows_of_x, 256), tg.full((512, 256), 0.5)
    for bias in (tg.ones(1), tg.tensor(1.0), tg.arange(512.0)):
        bias.requires_grad_()
        out = nn.functional.linear(x, weight, bias)
        assert out.shape == (*rows_of_x, 512)
        assert bool((out == 128 + bias.detach()).all())
        out.sum().backward()
        assert bias.grad.shape == bias.shape and bias.grad.sum().item() == out.numel()
    for shape in ((3,), (511,), (513,), (1000,), (512, 1), (4, 6)):
        if shape == (512, 1) and not rows_of_x:
            continue
        with pytest.raises(RuntimeError, match=r"^linear: (the )?bias"):
            nn.functional.linear(x, weight, tg.zeros(shape))


# --- attention and Transformers: as PyTorch's with the same weights ---------------------------------------------------

BOOL_MASK = np.triu(np.ones((5, 7), bool), 3)
FLOAT_MASK = rows(5, 7)
PADDING = np.array([[False] * 6 + [True], [False] * 7])
ATTENTION: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plain": ({}, {}),
    "heads apart": ({}, {"average_attn_weights": False}),
    "no weights": ({"bias": False}, {"need_weights": False}),
    "bool mask": ({}, {"attn_mask": BOOL_MASK}),
    "float mask": ({}, {"attn_mask": FLOAT_MASK}),
    "mask by head": ({}, {"attn_mask": np.stack([np.roll(BOOL_MASK, i, 1) for i in range(4)])}),
    "padding": ({}, {"key_padding_mask": PADDING}),
    "both": ({"batch_first": True}, {"key_padding_mask": PADDING, "attn_mask": BOOL_MASK}),
    "mixed": ({}, {"key_padding_mask": np.where(PADDING, -math.inf, 0.0), "attn_mask": FLOAT_MASK}),
    "bias_kv": ({"add_bias_kv": True}, {"key_padding_mask": PADDING, "attn_mask": BOOL_MASK}),
    "zero_attn": ({"add_zero_attn": True, "add_bias_kv": True}, {"attn_mask": FLOAT_MASK}),
    "kdim": ({"kdim": 6, "vdim": 10}, {}),
}  # fmt: skip


def copied(theirs: Any, ours: Any) -> None:
    """Give both the same numbers, none of them 0."""
    rng = np.random.default_rng(5)
    for (name, a), (other, b) in zip(theirs.named_parameters(), ours.named_parameters(), strict=True):
        assert name == other
        values = rng.normal(size=tuple(a.shape)) * 0.4
        a.data[...] = type(a)(a.data.new_tensor(values)).data
        b.data = tg.tensor(values, dtype=tg.float64)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ATTENTION)
def test_multihead_attention_as_in_pytorch(torch: ModuleType, name: str) -> None:
    settings, call = ATTENTION[name]
    theirs, ours = (
        torch.nn.MultiheadAttention(8, 2, **settings).double(),
        nn.MultiheadAttention(8, 2, **settings).double(),
    )
    copied(theirs, ours)
    first = settings.get("batch_first", False)
    arrays = [rows(5, 2, 8), rows(7, 2, settings.get("kdim", 8), seed=1), rows(7, 2, settings.get("vdim", 8), seed=2)]
    arrays = [np.ascontiguousarray(a.transpose(1, 0, 2)) if first else a for a in arrays]
    found = []
    for t, module in ((torch, theirs), (tg, ours)):
        inputs = [t.tensor(a, requires_grad=True) for a in arrays]
        out, weights = module(*inputs, **{k: t.tensor(v) if isinstance(v, np.ndarray) else v for k, v in call.items()})
        total = (out * out).sum() if weights is None else (out * out).sum() + (weights**3).sum()
        total.backward()
        assert (weights is None) == (call.get("need_weights") is False)
        gradients = [x.grad.numpy() for x in (*inputs, *module.parameters())]
        found.append([out.detach().numpy(), *([] if weights is None else [weights.detach().numpy()]), *gradients])
    for got, want in zip(found[1], found[0], strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-10)


def test_multihead_attention_is_causal_with_and_without_mask() -> None:
    attention, x = nn.MultiheadAttention(8, 2, batch_first=True), tg.tensor(rows(2, 4, 8), dtype=tg.float32)
    causal = nn.Transformer.generate_square_subsequent_mask(4)
    plain, weights = attention(x, x, x, is_causal=True)
    masked, same = attention(x, x, x, attn_mask=causal, is_causal=True)
    np.testing.assert_allclose(plain.detach().numpy(), masked.detach().numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(weights.detach().numpy(), same.detach().numpy(), rtol=1e-5, atol=1e-6)
    assert (weights.detach().numpy()[:, np.triu(np.ones((4, 4), bool), 1)] == 0).all()
    padding = tg.tensor([[False, False, False, True]] * 2)
    both = attention(x, x, x, key_padding_mask=padding, is_causal=True)[1]
    assert (both.detach().numpy()[:, 3, 3] == 0).all() and (both.detach().numpy()[:, 0, 1:] == 0).all()


def test_multihead_attention_of_one_sequence_and_of_nothing() -> None:
    attention, x = nn.MultiheadAttention(8, 2), tg.tensor(rows(3, 8), dtype=tg.float32)
    out, weights = attention(x, x, x)
    assert out.shape == (3, 8) and weights.shape == (3, 3)
    nothing = attention(x, x, x, attn_mask=tg.ones(3, 3, dtype=tg.bool))[1]
    assert (nothing.detach().numpy() == 0).all()  # not NaN


@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize("batched", [False, True])
def test_attention_by_given_weights_as_in_pytorch(torch: ModuleType, separate: bool, batched: bool) -> None:
    """As CLIP pools its pictures: one query, three matrices, no bias of its own behind the keys."""
    lead, arrays = (3,) if batched else (), [rows(12, 4), rows(12), rows(1, 1, 4), rows(1, 1, 4), rows(4, 4), rows(4)]
    padding = np.array([[False, True, False, False, True]] * 3)
    found = []
    for t in (torch, tg):
        query, key, value = (t.tensor(rows(n, *lead, 4, seed=n), requires_grad=True) for n in (2, 5, 5))
        weight, bias, key_behind, value_behind, out, out_bias = (t.tensor(a, requires_grad=True) for a in arrays)
        parts = dict(zip(("q_proj_weight", "k_proj_weight", "v_proj_weight"), weight.chunk(3), strict=True))
        y, shares = t.nn.functional.multi_head_attention_forward(
            *(query, key, value, 4, 2, None if separate else weight, bias, key_behind, value_behind, True, 0.5),
            *(out, out_bias, False),
            key_padding_mask=t.tensor(padding if batched else padding[0]),
            use_separate_proj_weight=separate,
            average_attn_weights=False,
            **(parts if separate else {}),
        )
        (y * y).sum().backward()
        leaves = (query, key, value, weight, bias, key_behind, value_behind, out, out_bias)
        found.append([y.detach().numpy(), shares.detach().numpy(), *(x.grad.numpy() for x in leaves)])
    for got, want in zip(found[1], found[0], strict=True):
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-8, atol=1e-9)
    assert nn.MultiheadAttention(4, 2).q_proj_weight is None  # which CLIP asks every layer for
    x = tg.ones(2, 1, 4)
    some = (2, tg.ones(12, 4), None, None, None, False, 0.0, tg.ones(4, 4), None)
    with pytest.raises(ValueError, match="last size of query must be 8, got 4"):
        F.multi_head_attention_forward(x, x, x, 8, *some)
    with pytest.raises(NotImplementedError, match="static_k and static_v are not taken"):
        F.multi_head_attention_forward(x, x, x, 4, *some, static_k=x)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
def test_transformer_as_in_pytorch(torch: ModuleType, norm_first: bool, batch_first: bool) -> None:
    settings = {"norm_first": norm_first, "batch_first": batch_first, "dropout": 0.0, "activation": "gelu"}
    theirs = torch.nn.Transformer(8, 2, 2, 2, 16, **settings).double()
    ours = nn.Transformer(8, 2, 2, 2, 16, **settings).double()
    copied(theirs, ours)
    source, target = rows(2, 5, 8), rows(2, 4, 8, seed=1)
    padding = np.array([[False] * 4 + [True], [False] * 5])
    found = []
    for t, model in ((torch, theirs), (tg, ours)):
        src, tgt = (
            t.tensor(a if batch_first else np.ascontiguousarray(a.transpose(1, 0, 2)), requires_grad=True)
            for a in (source, target)
        )
        mask = model.generate_square_subsequent_mask(4, dtype=t.float64)
        pad = t.tensor(padding)
        out = model(src, tgt, tgt_mask=mask, src_key_padding_mask=pad, memory_key_padding_mask=pad, tgt_is_causal=True)
        (out * out).sum().backward()
        found.append([out.detach().numpy(), src.grad.numpy(), tgt.grad.numpy()])
    for got, want in zip(found[1], found[0], strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("momentum", [0.1, None])
def test_batch_norm_keeps_running_statistics(torch: ModuleType, momentum: float | None) -> None:
    theirs, ours = torch.nn.BatchNorm1d(3, momentum=momentum), nn.BatchNorm1d(3, momentum=momentum)
    for step in range(3):
        x = rows(4, 3, 5, seed=step).astype(np.float32)
        want, got = theirs(torch.tensor(x)), ours(tg.tensor(x))
        np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), rtol=1e-4, atol=1e-5)
    for name, value in theirs.state_dict().items():
        np.testing.assert_allclose(ours.state_dict()[name].numpy(), value.numpy(), rtol=1e-5, atol=1e-6)
    x = rows(1, 3, seed=9).astype(np.float32)
    want, got = theirs.eval()(torch.tensor(x)), ours.eval()(tg.tensor(x))
    np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(4, 3, 5), (3, 5), (4, 3, 2, 5)])
def test_instance_norm_keeps_running_statistics(torch: ModuleType, shape: tuple[int, ...]) -> None:
    made = [
        (n.InstanceNorm2d if len(shape) == 4 else n.InstanceNorm1d)(3, affine=True, track_running_stats=True)
        for n in (torch.nn, nn)
    ]
    theirs, ours = made
    for step in range(4):
        if step == 3:
            theirs.eval(), ours.eval()
        x = rows(*shape, seed=step).astype(np.float32)
        want, got = theirs(torch.tensor(x)), ours(tg.tensor(x))
        np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), rtol=1e-4, atol=1e-5)
    for name, value in theirs.state_dict().items():
        np.testing.assert_allclose(ours.state_dict()[name].numpy(), value.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("kind", ["TransformerEncoderLayer", "TransformerDecoderLayer"])
def test_layers_drop_what_pytorch_drops(torch: ModuleType, kind: str, batch_first: bool, norm_first: bool) -> None:
    """With batch_first, too, where the output of attention lies in memory with the times first."""
    found = []
    for t in (torch, tg):
        t.manual_seed(0)
        layer = getattr(t.nn, kind)(8, 2, 16, 0.5, batch_first=batch_first, norm_first=norm_first)
        x = t.randn(2, 3, 8)
        found.append((layer(x) if "Encoder" in kind else layer(x, x)).detach().numpy())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-4, atol=1e-5)


def test_dropout_of_a_single_recurrent_layer_warns_that_it_does_nothing() -> None:
    with pytest.warns(UserWarning, match="LSTM: dropout=0.5 does nothing"):
        nn.LSTM(3, 4, dropout=0.5)


def test_dropout_drops_what_pytorch_drops(torch: ModuleType) -> None:
    torch.manual_seed(3)
    tg.manual_seed(3)
    x = rows(6, 7).astype(np.float32)
    np.testing.assert_array_equal(
        F.dropout(tg.tensor(x), 0.3).numpy(), torch.nn.functional.dropout(torch.tensor(x), 0.3).numpy()
    )
    tg.manual_seed(4)
    soft = F.gumbel_softmax(tg.tensor(x), hard=True)
    assert set(np.unique(soft.numpy())) == {0.0, 1.0} and (soft.numpy().sum(-1) == 1).all()


# --- modules as containers, their state, hooks ------------------------------------------------------------------------


def test_lists_change_as_lists_do() -> None:
    a, b, c = nn.Linear(1, 1), nn.Linear(1, 2), nn.Linear(1, 3)
    layers = nn.ModuleList([a, b])
    layers.insert(1, c)
    assert list(layers) == [a, c, b] and layers.pop(0) is a and [n for n, _ in layers.named_children()] == ["0", "1"]
    layers[0] = a
    assert list(layers + nn.ModuleList([c])) == [a, b, c] and list(layers[1:]) == [b] and layers[-1] is b
    shared = nn.ModuleList([a, a, b])
    del shared[0]
    assert list(shared) == [a, b]
    with pytest.raises(IndexError, match="2 entries, got index 2"):
        shared[2]
    names = nn.ModuleDict({"x": a})
    names.update({"y": b})
    assert "y" in names and names.pop("x") is a and list(names.keys()) == ["y"] and names.y is b
    with pytest.raises(KeyError, match="keys"):
        names["keys"] = a
    parameters = nn.ParameterDict({"w": tg.ones(2)})
    assert isinstance(parameters["w"], nn.Parameter) and [n for n, _ in parameters.named_parameters()] == ["w"]


class Shortened(nn.Linear):
    """Takes weights of more rows, renamed since, as modules of public repositories do."""

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        state_dict[f"{prefix}weight"] = state_dict.pop(f"{prefix}old")[: self.out_features]
        super()._load_from_state_dict(state_dict, prefix, *args)
        args[2].remove(f"{prefix}bias")  # may be missing


def test_a_module_may_change_what_it_is_given_to_load() -> None:
    model = nn.Sequential(nn.Tanh(), Shortened(3, 2))
    bias = model[1].bias.detach().clone()
    given = {"1.old": tg.arange(12.0).reshape(4, 3)}
    assert repr(model.load_state_dict(given)) == "<All keys matched successfully>"
    assert model[1].weight.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]] and model[1].bias.equal(bias)
    assert list(given) == ["1.old"]
    with pytest.raises(RuntimeError, match=r"1\.weight must have the shape \(2, 3\), got \(2, 5\)"):
        model.load_state_dict({"1.old": tg.ones(4, 5)})


def test_parameters_in_lists_and_dictionaries_print_as_in_pytorch(torch: ModuleType) -> None:
    theirs, ours = (
        t.nn.ModuleList(
            [
                t.nn.ParameterDict({"a": t.nn.Parameter(t.ones(2, 3)), "b": t.nn.Parameter(t.ones(2).double())}),
                t.nn.ParameterList([t.nn.Parameter(t.ones(2, 3)), t.nn.Parameter(t.ones(1).half())]),
                t.nn.ParameterList(),
            ]
        )
        for t in (torch, tg)
    )
    assert repr(ours) == repr(theirs)


@pytest.mark.parametrize("kind", [tg.DoubleTensor, "torch.DoubleTensor", tg.float64, np.float64])
def test_a_module_takes_the_types_of_old_tutorials(kind: Any) -> None:
    assert nn.Linear(2, 1).type(kind).weight.dtype is tg.float64


def test_what_a_module_holds_can_be_exchanged_by_name() -> None:
    """As code does that puts adapters into a model: `model._modules[name] = ...`."""
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1))
    for name, module in model._modules.items():
        if isinstance(module, nn.ReLU):
            model._modules[name] = nn.Tanh()
    assert isinstance(model[1], nn.Tanh) and list(model._modules) == ["0", "1", "2"]
    assert model._modules.pop("2") is not None and len(model) == 2
    first = model[0]
    first._parameters["weight"] = nn.Parameter(tg.ones(2, 2))
    del first._parameters["bias"]
    first._buffers["scale"] = tg.ones(1)
    assert list(first.state_dict()) == ["weight", "scale"] and first.weight.tolist() == [[1.0, 1.0]] * 2
    del first._buffers["scale"]
    first._parameters.update(weight=nn.Parameter(tg.zeros(2, 2)))
    assert list(first.state_dict()) == ["weight"] and not first.weight.any() and not hasattr(first, "bias")
    model._modules.clear()
    assert not list(model.children()) and copy.deepcopy(first._parameters).keys() == {"weight"}


def test_hooks_on_state_dicts() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    called: list[Any] = []

    def rename(state: dict[str, Any], prefix: str, *args: Any) -> None:
        for name in [n for n in state if n.startswith(prefix)]:
            state[name.replace("kernel", "weight")] = state.pop(name)

    handles = [
        model[1]._register_load_state_dict_pre_hook(rename),
        model.register_load_state_dict_pre_hook(lambda module, state, prefix, *args: called.append((module, prefix))),
        model.register_load_state_dict_post_hook(lambda module, keys: keys.unexpected_keys.clear()),
        model[0].register_state_dict_post_hook(lambda module, state, prefix, _: state.pop(f"{prefix}bias")),
    ]
    assert list(model.state_dict()) == ["0.weight", "1.weight", "1.bias"]
    model.load_state_dict({"0.weight": tg.ones(2, 2), "1.kernel": tg.ones(1, 2), "1.bias": tg.ones(1), "other": 1})
    assert called == [(model, "")] and model[1].weight.tolist() == [[1.0, 1.0]]
    for handle in handles:
        handle.remove()
    with pytest.raises(RuntimeError, match=r"missing: 0\.bias, 1\.weight"):
        model.load_state_dict({"0.weight": tg.ones(2, 2), "1.kernel": tg.ones(1, 2), "1.bias": tg.ones(1)})
    assert copy.deepcopy(model).state_dict().keys() == model.state_dict().keys()


def test_load_state_dict_says_what_is_wrong_and_changes_nothing() -> None:
    model = nn.Linear(2, 3)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    for state, words in (
        ({"weight": tg.ones(3, 2)}, r"missing: bias \(strict=False"),
        ({**before, "more": tg.ones(1)}, r"unexpected: more \(strict=False"),
        ({"weight": tg.ones(3, 5), "bias": tg.ones(3)}, r"\(3, 2\), got \(3, 5\)"),
        ({"weight": 1.0, "bias": tg.ones(3)}, "must be a Tensor, got float"),
    ):
        with pytest.raises(RuntimeError, match=words):
            model.load_state_dict(state)
        for name, value in model.state_dict().items():
            np.testing.assert_array_equal(value.numpy(), before[name].numpy())
    assert model.load_state_dict({"bias": tg.ones(3)}, strict=False).missing_keys == ["weight"]
    assert model.bias.tolist() == [1.0, 1.0, 1.0]


def test_a_copied_parameter_has_no_gradient_and_lies_in_memory_as_it_did() -> None:
    layer = nn.Linear(2, 3)
    layer(tg.ones(2)).sum().backward()
    assert layer.weight.grad is not None and copy.deepcopy(layer).weight.grad is None
    x = tg.ones(2, 3, requires_grad=True)
    x.sum().backward()
    assert copy.deepcopy(x).grad.tolist() == x.grad.tolist()
    assert copy.deepcopy(tg.ones(2, 3).t()).stride() == (1, 3)


def test_layers_of_no_inputs_have_nothing_to_draw() -> None:
    with pytest.warns(UserWarning, match="without elements is not initialised"):
        layer = nn.Linear(0, 2)
    assert layer(tg.ones(3, 0)).tolist() == [[0.0, 0.0]] * 3


def test_gradients_that_are_infinite_are_clipped_without_a_word() -> None:
    p = nn.Parameter(tg.zeros(2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for norm_type in (2.0, 1.0, -1.0, math.inf):
            p.grad = tg.tensor([math.inf, 0.0])
            nn.utils.clip_grad_norm_([p], 1.0, norm_type)


def test_a_sequence_is_repeated_as_in_pytorch(torch: ModuleType) -> None:
    for t in (torch, tg):
        layers = t.nn.Sequential(t.nn.Linear(1, 1), t.nn.ReLU())
        twice, thrice = layers * 2, 3 * layers
        assert twice[0] is twice[2] is layers[0] and len(thrice) == 6 and len(list(twice.parameters())) == 2
        layers *= 2
        assert len(layers) == 4 and layers[3] is layers[1] and list(layers.state_dict())[-1] == "2.bias"
        for times, error in ((0, ValueError), (1.5, TypeError)):
            with pytest.raises(error):
                layers * times
        for given in ("no", 0, layers):  # for example model.train(batches)
            with pytest.raises(ValueError, match="mode"):
                layers.train(given)


def test_parameters_that_were_used_up_are_told(torch: ModuleType) -> None:
    for t in (torch, tg):
        parameters = t.nn.Linear(2, 1).parameters()
        assert len(list(parameters)) == 2
        with pytest.warns(UserWarning, match="no gradient"):
            t.nn.utils.clip_grad_norm_(parameters, 1.0)


def test_tied_weights_are_one_parameter_and_stay_tied_when_copied() -> None:
    model = nn.Sequential(nn.Embedding(5, 3), nn.Linear(3, 5, bias=False))
    model[1].weight = model[0].weight
    twin = copy.deepcopy(model)
    assert len(list(twin.parameters())) == 1 and twin[0].weight is twin[1].weight is not model[0].weight
    assert list(model.state_dict()) == ["0.weight", "1.weight"]


def test_hooks_see_and_replace() -> None:
    layer = nn.Linear(2, 2)
    with pytest.raises(TypeError, match="hook must be a function"):
        layer.register_forward_hook(3)  # type: ignore[arg-type]
    seen: list[Any] = []
    first = layer.register_forward_pre_hook(lambda module, args: (args[0] * 0.0,))
    layer.register_forward_hook(lambda module, args, kwargs, out: seen.append((args, kwargs)), with_kwargs=True)
    layer.register_forward_hook(lambda module, args, out: out + 1.0, prepend=True)
    out = layer(tg.ones(1, 2))
    np.testing.assert_allclose(out.detach().numpy()[0], layer.bias.detach().numpy() + 1.0)
    assert seen[0][0][0].tolist() == [[0.0, 0.0]] and seen[0][1] == {}
    first.remove()
    layer(tg.ones(1, 2))
    assert seen[1][0][0].tolist() == [[1.0, 1.0]]


def test_recurrent_layers_list_their_weights() -> None:
    layer = nn.LSTM(3, 4, num_layers=2, bidirectional=True)
    assert layer._flat_weights_names == [name for name, _ in layer.named_parameters()]
    assert [[tuple(p.shape) for p in group] for group in layer.all_weights][1:3] == [
        [(16, 3), (16, 4), (16,), (16,)],
        [(16, 8), (16, 4), (16,), (16,)],
    ]


def test_module_casts_in_place() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    weight = model[0].weight
    assert model.to(tg.float64) is model and model[0].weight is weight and weight.dtype == tg.float64
    assert model[1].num_batches_tracked.dtype == tg.int64
    assert model.bfloat16()[0].weight.dtype == tg.bfloat16
    assert model.to("cpu", tg.float32)[1].running_mean.dtype == tg.float32
    with pytest.raises(RuntimeError, match="CPU alone"):
        model.cuda()


@pytest.mark.parametrize("lead", [(), (2, 3), (2, 2, 2)])
def test_attention_to_no_keys_gives_zeros(lead: tuple[int, ...]) -> None:
    """Also behind dimensions that are laid together for the kernel, and recorded for second derivatives."""
    query, key = tg.ones(*lead, 4, 8, requires_grad=True), tg.ones(*lead, 0, 8, requires_grad=True)
    for mask in (None, tg.zeros(*lead, 4, 0)):
        out = F.scaled_dot_product_attention(query, key, key, attn_mask=mask)
        assert out.shape == query.shape and not out.any()
        gradients = tg.autograd.grad(out.sum(), [query, key], create_graph=True)
        assert not gradients[0].any() and gradients[1].shape == key.shape


# --- misuse is told in one line ---------------------------------------------------------------------------------------


SAME = [tg.ones(3, 1, 4)] * 3


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: nn.MultiheadAttention(10, 3), AssertionError, "10 and 3"),
        (lambda: nn.MultiheadAttention(4, 2)(SAME[0], *[tg.ones(3, 1, 5)] * 2), ValueError, "key must be 4, got 5"),
        (lambda: nn.MultiheadAttention(4, 2)(*SAME, attn_mask=tg.ones(2, 3)), RuntimeError, r"\(3, 3\).*\(2, 3\)"),
        (
            lambda: F.scaled_dot_product_attention(*[tg.ones(3, 4)] * 3, enable_gqa=True),
            IndexError,
            r"enable_gqa=True needs \(..., H, T, D\), got \(3, 4\)",
        ),
        (
            lambda: F.scaled_dot_product_attention(tg.ones(2, 3, 4), *[tg.ones(0, 3, 4)] * 2, enable_gqa=True),
            RuntimeError,
            "2 query heads are no multiple of 0 key heads",
        ),
        (lambda: nn.MultiheadAttention(4, 2)(*SAME, attn_mask=tg.ones(3, 3, dtype=tg.uint8)), TypeError, "use .bool"),
        (lambda: nn.Embedding(3, 2, padding_idx=3), ValueError, "3 rows, got 3"),
        (lambda: nn.Embedding(3, 2, max_norm=1.0)(tg.tensor([3])), IndexError, "3"),
        (lambda: nn.GroupNorm(3, 4), ValueError, "4 .*3"),
        (lambda: nn.BatchNorm1d(3)(tg.ones(1, 3)), ValueError, "more than one value"),
        (lambda: nn.BatchNorm1d(3)(tg.ones(2, 4)), ValueError, r"\(N, 3\)"),
        (lambda: nn.InstanceNorm1d(3)(tg.ones(2, 4, 5)), ValueError, r"\(N, 3, L\) or \(3, L\), got \(2, 4, 5\)"),
        (lambda: nn.InstanceNorm2d(3)(tg.ones(2, 3, 1, 1)), ValueError, "more than one value per channel"),
        (lambda: nn.Transformer(4, 2)(tg.ones(3, 1, 4), tg.ones(3, 2, 4)), RuntimeError, "same N"),
        (lambda: nn.TransformerEncoderLayer(4, 2, activation="tanh"), RuntimeError, "tanh"),
        (lambda: F.one_hot(tg.tensor([0, 5]), 3), RuntimeError, r"\[0, 2\].*5"),
        (lambda: F.glu(tg.ones(2, 3)), RuntimeError, "even"),
        (lambda: F.embedding(tg.tensor([0]), tg.ones(3)), RuntimeError, r"weight must have the shape .*, got \(3,\)"),
        (lambda: F.embedding(tg.tensor([0]), tg.ones(3, 1, 1)), RuntimeError, "weight must have the shape"),
        (lambda: F.embedding(tg.tensor([0]), tg.ones(3, 1), 3), ValueError, "padding_idx must be within the 3 rows"),
        (lambda: F.embedding(tg.tensor([0]), tg.ones(3, 1), -4), ValueError, "padding_idx .* got -4"),
        (lambda: F.pad(tg.ones(2, 3), (1, 2, 3)), RuntimeError, "pairs"),
        (lambda: F.pad(tg.ones(2, 3), (3, 0), "reflect"), RuntimeError, "can add 2"),
        (lambda: F.pad(tg.ones(2), (1, 1), "mirror"), NotImplementedError, "mirror"),
        (lambda: F.mse_loss(tg.ones(2), tg.ones(2), reduction="average"), ValueError, "average"),
        (lambda: F.nll_loss(tg.ones(2, 3), tg.tensor([0])), ValueError, r"\(2,\), got \(1,\)"),
        (lambda: F.nll_loss(tg.ones(2, 3), tg.tensor([[0], [1]])), RuntimeError, r"\(2,\), got \(2, 1\)"),
        (lambda: F.nll_loss(tg.ones(2, 3), tg.tensor([0, 3])), IndexError, r"nll_loss: target.* \[0, 2\] .* got 3"),
        (lambda: F.nll_loss(tg.ones(2, 3), tg.tensor([0, 1]), tg.ones(2)), RuntimeError, "each of 3 classes, got"),
        (lambda: F.cross_entropy(tg.ones(2, 3), tg.tensor([0])), ValueError, r"\(2,\), got \(1,\)"),
        (lambda: F.cross_entropy(tg.ones(2, 3), tg.tensor([[0], [1]])), RuntimeError, r"\(2,\), got \(2, 1\)"),
        (lambda: F.cross_entropy(tg.ones(2, 3), tg.tensor([0, 1]), tg.ones(2)), RuntimeError, "each of 3 classes, got"),
        (lambda: F.layer_norm(tg.ones(2), ()), RuntimeError, "normalized_shape"),
        (lambda: F.binary_cross_entropy(tg.tensor([2.0]), tg.tensor([1.0])), RuntimeError, r"\[0, 1\]"),
        (lambda: F.scaled_dot_product_attention(*SAME, tg.ones(3, 2)), RuntimeError, r"got \(3, 2\)"),
        (lambda: F.mse_loss(tg.ones(2), X), TypeError, "mse_loss: target must be a tensor, got ndarray; make one"),
        (lambda: F.tanh(X), TypeError, "tanh: input must be a tensor, got ndarray"),
        (lambda: nn.ReLU()([1.0, 2.0]), TypeError, "relu: input must be a tensor, got list"),
        (lambda: tg.ones(2).isclose(1.0), TypeError, "isclose: other must be a tensor, got float"),
        (lambda: tg.ones(2).view_as(None), TypeError, "view_as: other must be a tensor, got NoneType"),
        (lambda: tg.hypot(tg.ones(2), other=3.0), TypeError, "hypot: other must be a tensor, got float"),
        (lambda: tg.linalg.inv([[1.0]]), TypeError, "inv: A must be a tensor, got list"),
        (lambda: nn.CrossEntropyLoss(tg.ones(2, 3), tg.tensor([0, 1])), RuntimeError, "then called with input"),
        (lambda: nn.MSELoss(tg.ones(2), tg.ones(2)), RuntimeError, "then called with input"),
        (lambda: F.linear(tg.ones(2), None), TypeError, "linear: weight must be a tensor, got NoneType"),
        (lambda: setattr(nn.BatchNorm1d(2), "running_mean", 3.0), TypeError, "running_mean is a buffer: .* got float"),
        (lambda: setattr(nn.Sequential(nn.ReLU()), "0", 3), TypeError, "0 is a module: .* got int"),
        (lambda: nn.ModuleDict({1: nn.ReLU()}), TypeError, "must be a string without '.', got 1"),
        (lambda: nn.HuberLoss(delta="1"), TypeError, "HuberLoss: delta must be a number of Python, got str"),
        (lambda: F.huber_loss(tg.ones(2), tg.ones(2), delta=0.0), RuntimeError, "delta must be above 0, got 0.0"),
        (lambda: F.huber_loss(tg.ones(2), tg.ones(2), delta=None), TypeError, "delta must be a number, got NoneType"),
        (lambda: F.smooth_l1_loss(tg.ones(2), tg.ones(2), beta=math.nan), RuntimeError, "beta .* got nan"),
        (lambda: F.cross_entropy(tg.ones(2, 3), tg.tensor([True, False])), RuntimeError, "targets must be integers"),
        (lambda: nn.Hardtanh(2.0), ValueError, "Hardtanh: min_val must be below max_val, got 2.0 and 1.0"),
        (lambda: nn.TripletMarginLoss(0.0), ValueError, "TripletMarginLoss: margin must be above 0, got 0.0"),
        (lambda: nn.GRU(3, 4, 2, 0.1), TypeError, "GRU: bias must be True or False, got 0.1"),
        (lambda: nn.LSTM(3, 4, batch_first=1), TypeError, "LSTM: batch_first must be True or False, got 1"),
        (lambda: nn.RNN(3, 4, dropout=True), ValueError, r"RNN: dropout must be a number in \[0, 1\], got True"),
        (lambda: nn.RNN(3, 4, dropout="0.1"), ValueError, "RNN: dropout must be a number"),
        (lambda: nn.Dropout(0.1)(tg.arange(4)), RuntimeError, "dropout: input must be floating point .* got"),
        (lambda: nn.AlphaDropout(0.1)(tg.arange(4)), RuntimeError, "alpha_dropout: input must be floating point"),
        (lambda: nn.Module()(), NotImplementedError, "no forward"),
        (lambda: nn.Module().register_buffer("a.b", None), KeyError, "a.b"),
        (lambda: nn.Module().add_module("x", tg.ones(1)), TypeError, "Module"),
        (lambda: nn.Linear(2, 2).get_parameter("wait"), AttributeError, "no parameter 'wait'"),
    ],
)  # fmt: skip
def test_misuse_is_told(make: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words) as told:
        make()
    assert "\n" not in str(told.value)


def test_a_module_without_forward_has_one_that_says_so() -> None:
    """As in PyTorch: layers ask for it by super(), and programs look at its signature."""

    class Scaled(nn.Module):
        def forward(self, x):
            return 2.0 * super().forward(x)

    class Twice(Scaled, nn.Tanh):
        pass

    assert Twice()(tg.zeros(1)).tolist() == [0.0] and hasattr(nn.ModuleList(), "forward")
    with pytest.raises(NotImplementedError, match="Scaled has no forward"):
        Scaled()(tg.zeros(1))
    assert not hasattr(nn.Module, "backward") and callable(nn.Module.forward)


def test_parameters_come_in_the_order_of_their_names() -> None:
    shared, model = nn.Linear(2, 2), nn.Module()
    model.first, model.again = nn.Sequential(shared, nn.ReLU(), nn.Linear(2, 3)), shared
    model.own, model.tied = nn.Parameter(tg.ones(1)), shared.weight
    assert [id(p) for p in model.parameters()] == [id(p) for _, p in model.named_parameters()]
    assert [id(m) for m in model.modules()] == [id(m) for _, m in model.named_modules()]
    assert [id(p) for p in model.parameters(recurse=False)] == [id(model.own), id(shared.weight)]

    class Choosy(nn.Linear):
        def named_parameters(self, *args, **kwargs):
            return (pair for pair in super().named_parameters(*args, **kwargs) if pair[0] == "bias")

    layer = Choosy(2, 2)
    assert list(layer.parameters()) == [layer.bias]


@pytest.mark.parametrize("options", [{}, {"label_smoothing": 0.1}, {"weight": tg.tensor([1.0, 2.0, 3.0])}], ids=str)
def test_targets_that_are_all_ignored_have_no_gradient(options: dict[str, Any]) -> None:
    """The mean of no losses is NaN, as PyTorch has it; but it makes no weight NaN."""
    x = tg.ones(2, 3, requires_grad=True)
    loss = F.cross_entropy(x, tg.tensor([-100, -100]), **options)
    loss.backward()
    assert math.isnan(loss) and x.grad.tolist() == [[0.0] * 3] * 2


def test_glu_of_nothing() -> None:
    x = tg.ones(3, 0, requires_grad=True)
    F.glu(x).sum().backward()
    assert F.glu(x).shape == (3, 0) and x.grad.shape == (3, 0)


@pytest.mark.parametrize("reference", [False, True], ids=["kernels", "reference"])
def test_the_padding_row_gets_no_gradient_of_any_order(reference: bool) -> None:
    ids = tg.tensor([[0, 1], [1, 2]])
    for padding in (1, -2):
        weight = tg.ones(3, 2, dtype=tg.float64, requires_grad=True)
        with tg.use_reference(reference):
            y = F.embedding(ids, weight, padding)
            (first,) = tg.autograd.grad((y * y * y).sum(), weight, create_graph=True)
            (second,) = tg.autograd.grad(first.sum(), weight)
        assert first.tolist() == [[3.0, 3.0], [0.0, 0.0], [3.0, 3.0]]
        assert second.tolist() == [[6.0, 6.0], [0.0, 0.0], [6.0, 6.0]]


@pytest.mark.parametrize("dtype", [tg.float16, tg.bfloat16, tg.float32, tg.float64], ids=str)
def test_rms_norm_takes_the_eps_of_the_dtype_that_it_sums_in(dtype: Any) -> None:
    """Numbers of 2^-10 beside PyTorch's eps of 2^-23 (2^-52 for float64), which decides how large they become."""
    eps = 2.0**-52 if dtype == tg.float64 else 2.0**-23
    x = tg.full((2, 8), 2.0**-10, dtype=dtype)
    wanted = 2.0**-10 / math.sqrt(2.0**-20 + eps)
    for found in (F.rms_norm(x, (8,)), nn.RMSNorm(8, dtype=dtype)(x), F.rms_norm(x.view(2, 2, 4), (2, 4))):
        assert found.dtype == dtype
        np.testing.assert_allclose(found.double().detach().numpy(), wanted, rtol=tg.finfo(dtype).eps)


def test_what_was_a_number_comes_behind_what_was_set_in_between(torch: ModuleType) -> None:
    def model(n: Any) -> Any:
        class Net(n.Module):
            def __init__(self) -> None:
                super().__init__()
                self.dropout, self.weight, self.first = 0.1, "none", None
                self.bias, self.linear = n.Parameter(n.Linear(1, 1).bias.detach()), n.Linear(1, 1)
                self.dropout, self.weight = n.Dropout(self.dropout), n.Parameter(self.bias.detach())
                self.linear = n.Identity()  # keeps its place

        return Net()

    ours, theirs = model(nn), model(torch.nn)
    assert repr(ours) == repr(theirs)
    assert [name for name, _ in ours.named_parameters()] == [name for name, _ in theirs.named_parameters()]


def test_a_layer_may_complete_the_state_of_its_copy() -> None:
    class Layer(nn.Linear):
        def __setstate__(self, state: dict[str, Any]) -> None:
            super().__setstate__({"activation": F.relu, **state})

    layer = Layer(2, 2)
    copied = copy.deepcopy(layer)
    assert copied.activation is F.relu and copied.weight.tolist() == layer.weight.tolist()


def test_a_list_of_modules_keeps_the_places_without_one() -> None:
    layers = nn.ModuleList([None, nn.Linear(1, 1)])
    layers.append(None).insert(0, nn.ReLU())
    assert [type(layer).__name__ for layer in layers] == ["ReLU", "NoneType", "Linear", "NoneType"]
    assert layers[1] is None and layers[-1] is None and list(layers.state_dict()) == ["2.weight", "2.bias"]
    assert [name for name, _ in layers.named_children()] == ["0", "2"] and "(1): None" in repr(layers)
    del layers[1]
    assert len(layers) == 3 and layers[2] is None


def test_what_is_not_a_number_stays_where_it_is() -> None:
    inf, nan = math.inf, math.nan
    x = tg.tensor([inf, nan, -1.0], requires_grad=True)
    for exponential in (F.elu, F.celu):
        (gradient,) = tg.autograd.grad(exponential(x).sum(), x)
        assert gradient[:2].tolist() == [1.0, 1.0]
    assert math.isnan(F.threshold(x, 0.5, 9.0)[1].item())
    for shrink in (F.hardshrink, F.softshrink):
        assert math.isnan(shrink(x)[1].item())
        (gradient,) = tg.autograd.grad(shrink(x).sum(), x)
        assert gradient.tolist() == [1.0, 1.0, 1.0]
    means = F.adaptive_avg_pool1d(tg.tensor([[[nan, 1.0, 2.0, 3.0, 5.0]]]), 3)
    assert math.isnan(means[0, 0, 0].item()) and means[0, 0, 1:].tolist() == [2.0, 4.0]
    assert F.prelu(tg.tensor(-2.0), tg.tensor([0.5])).shape == ()


RESET: dict[str, Callable[[ModuleType, Any], Any]] = {
    "LayerNorm": lambda n, kinds: n.LayerNorm(4, **kinds),
    "RMSNorm": lambda n, kinds: n.RMSNorm(4, **kinds),
    "GroupNorm": lambda n, kinds: n.GroupNorm(2, 4, **kinds),
    "BatchNorm1d": lambda n, kinds: n.BatchNorm1d(4, **kinds),
    "InstanceNorm2d": lambda n, kinds: n.InstanceNorm2d(4, affine=True, track_running_stats=True, **kinds),
    "PReLU": lambda n, kinds: n.PReLU(3, **kinds),
    "LSTM": lambda n, kinds: n.LSTM(3, 4, **kinds),
    "GRU": lambda n, kinds: n.GRU(3, 4, 2, bidirectional=True, **kinds),
    "RNN": lambda n, kinds: n.RNN(3, 4, **kinds),
    "RNNCell": lambda n, kinds: n.RNNCell(3, 4, **kinds),
    "LSTMCell": lambda n, kinds: n.LSTMCell(3, 4, **kinds),
    "GRUCell": lambda n, kinds: n.GRUCell(3, 4, bias=False, **kinds),
    "Embedding": lambda n, kinds: n.Embedding(4, 3, padding_idx=1, **kinds),
    "Bilinear": lambda n, kinds: n.Bilinear(2, 3, 4, **kinds),
}


@pytest.mark.parametrize("name", RESET)
def test_layers_begin_anew_as_in_pytorch(torch: ModuleType, name: str) -> None:
    """By reset_parameters, which programs call on every module that has it, and in the dtype that was asked for."""
    found = []
    for t in (torch, tg):
        t.manual_seed(3)
        layer = RESET[name](t.nn, {"device": "cpu", "dtype": t.float64})
        with t.no_grad():
            for value in layer.state_dict().values():
                value += 2
        layer.reset_parameters()
        found.append([value.numpy() for value in layer.state_dict().values()])
    for want, got in zip(*found, strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-14)


def test_a_norm_of_ones_own_says_where_it_starts() -> None:
    class Other(nn.LayerNorm):
        def reset_parameters(self) -> None:
            nn.init.constant_(self.weight, 3)

    assert Other(2).weight.tolist() == [3.0, 3.0]
    norm = nn.BatchNorm1d(2, affine=False)
    norm(tg.randn(5, 2))
    norm.reset_running_stats()
    assert [v.tolist() for v in norm.buffers()] == [[0.0, 0.0], [1.0, 1.0], 0]


# --- losses of margins and alignments, bags ---------------------------------------------------------------------------

FRAMES = rows(6, 3, 4, seed=7)
SPOKEN = np.array([[1, 2, 2, 1], [3, 1, 0, 0], [1, 1, 1, 1]])  # the last needs 7 frames
SETTINGS = {"mean": {}, "sum": {"zero_infinity": True}, "none": {}}


@pytest.mark.parametrize("in_one_axis", [False, True])
@pytest.mark.parametrize("reduction", SETTINGS)
def test_ctc_loss_as_in_pytorch(torch: ModuleType, reduction: str, in_one_axis: bool) -> None:
    """Texts of several lengths, one of them empty, and one that has no room."""
    lengths = [3, 0, 4]
    found = []
    for t in (torch, tg):
        x = t.tensor(FRAMES, requires_grad=True)
        texts = np.concatenate([row[:n] for row, n in zip(SPOKEN, lengths, strict=True)]) if in_one_axis else SPOKEN
        loss = t.nn.CTCLoss(0, reduction, **SETTINGS[reduction])
        out = loss(x.log_softmax(-1), t.tensor(texts), t.tensor([6, 4, 5]), t.tensor(lengths))
        out.sum().backward()
        found.append((out.detach().numpy(), x.grad.numpy()))
    np.testing.assert_allclose(found[1][0], found[0][0], rtol=1e-10)
    some = np.s_[:, :2] if reduction == "none" else np.s_[:]
    assert np.isfinite(found[1][1]).all()
    if reduction != "mean":  # which is inf
        np.testing.assert_allclose(found[1][1][some], found[0][1][some], rtol=1e-9, atol=1e-12)


BAGS: dict[str, Function] = {
    "offsets": lambda t, w, mode: t.nn.functional.embedding_bag(
        t.tensor([1, 2, 4, 5, 4, 3, 2, 2]), w, t.tensor([0, 3, 3, 7]), mode=mode
    ),
    "a last offset, and padding": lambda t, w, mode: t.nn.functional.embedding_bag(
        t.tensor([1, 2, 4, 5, 4]), w, t.tensor([0, 2, 5]), mode=mode, include_last_offset=True, padding_idx=-2
    ),
    "rows": lambda t, w, mode: t.nn.EmbeddingBag.from_pretrained(w, mode=mode)(t.tensor([[1, 1], [0, 3]])) * w[0],
    "only padding": lambda t, w, mode: t.nn.functional.embedding_bag(
        t.tensor([[1, 1], [0, 3]]), w, mode=mode, padding_idx=1
    ),
    "nothing": lambda t, w, mode: t.nn.functional.embedding_bag(
        t.tensor([], dtype=t.int64), w, t.tensor([0, 0]), mode=mode
    ),
}


SHORTENED: list[dict[str, Any]] = [
    {"max_norm": 2.0},
    {"max_norm": True, "norm_type": 1.0},
    {"scale_grad_by_freq": True},
    {"max_norm": 0.8, "norm_type": math.inf, "scale_grad_by_freq": True, "padding_idx": 1},
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rules", SHORTENED)
def test_rows_that_are_shortened_and_gradients_by_frequency_as_in_pytorch(
    torch: ModuleType, rules: dict[str, Any], dtype: str
) -> None:
    found = []
    for t in (torch, tg):
        layer = t.nn.Embedding.from_pretrained(t.tensor(rows(6, 3).astype(dtype)), freeze=False, **rules)
        out = layer(t.tensor([[1, 5], [4, 5], [5, 0]]))
        (out * out).sum().backward()
        bag = t.nn.EmbeddingBag.from_pretrained(t.tensor(rows(6, 3).astype(dtype)), **{**rules, "mode": "sum"})
        found.append([repr(layer), repr(bag)])
        found[-1] += [x.detach().numpy() for x in (out, layer.weight, layer.weight.grad, bag(t.tensor([[1, 5]])))]
    assert found[0][:2] == found[1][:2]
    for got, want in zip(found[1][2:], found[0][2:], strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5 if dtype == "float32" else 1e-12, atol=1e-12)


def test_a_row_that_was_shortened_since_is_noticed() -> None:
    tg.manual_seed(0)  # a row that is shortened may by rounding be a little too long still, and is shortened again
    layer = nn.Embedding(3, 2, max_norm=1e-3)
    before = layer.weight * layer.weight
    layer(tg.tensor([1]))
    with pytest.raises(RuntimeError, match="changed"):
        before.sum().backward()
    again = layer.weight * layer.weight
    layer(tg.tensor([1]))  # which is short enough now
    again.sum().backward()
    with pytest.raises(ValueError, match="'sum' and 'mean', got 'max'"):
        nn.EmbeddingBag(3, 2, mode="max", scale_grad_by_freq=True)(tg.tensor([[1]]))


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("name", BAGS)
def test_bags_as_in_pytorch(torch: ModuleType, name: str, mode: str) -> None:
    wanted, found = (
        value_and_gradients(t, lambda t, w: BAGS[name](t, w, mode), (rows(6, 3),), "float64") for t in (torch, tg)
    )
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)


def test_losses_of_margins_in_all_reductions_as_in_pytorch(torch: ModuleType) -> None:
    import torch as theirs

    signs, labels = (
        np.where(Y > 0, 1.0, -1.0),
        np.array([[3, 0, -1, 1, 2], [1, 1, -1, 0, 0], [-1, 2, 3, 4, 0], [4] * 5]),
    )
    for reduction in ("mean", "sum", "none"):
        found = []
        for t in (theirs, tg):
            x, s, r = t.tensor(X), t.tensor(signs), {"reduction": reduction}
            losses = [
                t.nn.HingeEmbeddingLoss(0.5, **r)(x, s),
                t.nn.SoftMarginLoss(**r)(x * 100, s),
                t.nn.MultiMarginLoss(2, 0.7, t.tensor(shares(5)), **r)(x, t.tensor([1, 4, 0, 2])),
                t.nn.MultiMarginLoss(**r)(x[0], t.tensor(2)),
                t.nn.MultiLabelMarginLoss(**r)(x, t.tensor(labels)),
                t.nn.MultiLabelMarginLoss(**r)(x[1], t.tensor(labels[1])),
                t.nn.MultiLabelSoftMarginLoss(t.tensor(shares(5)), **r)(x, t.tensor(shares(4, 5))),
                t.nn.TripletMarginWithDistanceLoss(distance_function=lambda a, b: (a - b).abs().sum(-1), **r)(x, -x, s),
                t.nn.PoissonNLLLoss(log_input=False, full=True, eps=0.1, **r)(x.abs(), (s + 1) * 2),
            ]
            found.append([loss.numpy() for loss in losses])
        for want, got in zip(*found, strict=True):
            assert got.shape == want.shape
            np.testing.assert_allclose(got, want, rtol=1e-7)


X2, IDS, WEIGHT = tg.ones(2, 3), tg.tensor([0, 1]), tg.ones(3, requires_grad=True)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: F.multi_margin_loss(tg.ones(2, 3), tg.tensor([0, 3])), IndexError, r"in \[0, 2\] .* got 3"),
        (lambda: F.multi_margin_loss(tg.ones(2, 3), tg.tensor([0])), RuntimeError, r"got \(2, 3\) and \(1,\)"),
        (lambda: nn.MultiMarginLoss(3), ValueError, "p must be 1 or 2, got 3"),
        (lambda: F.multilabel_margin_loss(tg.ones(3), tg.tensor([5, 0, 0])), IndexError, r"in \[0, 2\] .* got 5"),
        (lambda: F.multilabel_margin_loss(*[tg.ones(2, 1, 3)] * 2), RuntimeError, r"or \(C,\), got \(2, 1, 3\)"),
        (lambda: F.multilabel_soft_margin_loss(tg.ones(3), tg.ones(2)), ValueError, r"shape \(3,\), got \(2,\)"),
        (lambda: nn.TripletMarginWithDistanceLoss(margin=0), ValueError, "margin must be above 0, got 0"),
        (lambda: F.ctc_loss(tg.ones(3), tg.ones(1), [3], [1]), RuntimeError, r"got \(3,\) and \(1,\)"),
        (lambda: F.ctc_loss(tg.ones(3, 2), tg.tensor([2]), [3], [1]), IndexError, r"targets: .* in \[0, 1\] .* got 2"),
        (lambda: F.ctc_loss(tg.ones(3, 2), tg.tensor([1]), [4], [1]), RuntimeError, "lengths must be from 0 to 3"),
        (lambda: F.ctc_loss(tg.ones(3, 2), tg.tensor([1]), [3], [1], 2), RuntimeError, "blank must be from 0"),
        (lambda: F.ctc_loss(tg.ones(3, 2), tg.tensor([1]), [3], [1, 1]), RuntimeError, "lengths must be 1 int"),
        (lambda: F.ctc_loss(tg.ones(3, 2, 2), tg.ones(4).long(), [3, 3], [3, 3]), RuntimeError, "add up to the 4 t"),
        (lambda: F.cross_entropy(tg.ones(()), tg.ones(())), IndexError, "got a number"),
        (lambda: F.nll_loss(tg.ones(()), tg.tensor(0)), ValueError, "got a number"),
        (lambda: F.cross_entropy(X2, X2, ignore_index=0), RuntimeError, "ignore_index is for ids; .* leave it, got 0"),
        (lambda: F.cross_entropy(X2, X2, label_smoothing=1.5), RuntimeError, r"in \[0, 1\], got 1.5"),
        (lambda: F.cross_entropy(X2, X2, weight=tg.ones(2, 1)), RuntimeError, r"each of 3 classes, got \(2, 1\)"),
        (lambda: F.cross_entropy(X2, IDS, weight=WEIGHT), RuntimeError, "weight gets no gradient .* weight.detach"),
        (lambda: F.nll_loss(X2, IDS, weight=WEIGHT), RuntimeError, "weight gets no gradient .* weight.detach"),
        (lambda: F.multi_margin_loss(X2, IDS, weight=tg.ones(4)), RuntimeError, r"each of 3 classes, got \(4,\)"),
        (lambda: F.binary_cross_entropy(tg.ones(2), 2 * tg.ones(2)), RuntimeError, r"target must be in \[0, 1\]"),
        (lambda: F.mse_loss(X2, X2, weight=tg.ones(3)), ValueError, r"shape \(2, 3\), got \(3,\)"),
        (lambda: F.l1_loss(X2, X2, weight=tg.ones(3)), ValueError, r"shape \(2, 3\), got \(3,\)"),
        (lambda: F.huber_loss(X2, X2, weight=tg.ones(3)), ValueError, r"shape \(2, 3\), got \(3,\)"),
        (lambda: F.gaussian_nll_loss(X2, X2, tg.ones(1, 1)), ValueError, r"1 for one of the sizes.*, got \(1, 1\)"),
        (lambda: nn.EmbeddingBag(3, 2, mode="min"), ValueError, "mode must be one of .* got 'min'"),
        (lambda: F.embedding_bag(tg.tensor([0]), tg.ones(3, 2)), ValueError, "axis need offsets"),
        (lambda: F.embedding_bag(tg.tensor([[0]]), tg.ones(3, 2), tg.tensor([0])), ValueError, "offsets are for ids"),
        (lambda: F.embedding_bag(tg.tensor([0]), tg.ones(3, 2), tg.tensor([1])), RuntimeError, "offset must be 0"),
        (lambda: F.embedding_bag(tg.tensor([0]), tg.ones(3, 2), tg.tensor([0, 2])), RuntimeError, "rise up to 1"),
        (lambda: F.embedding_bag(tg.ones(1), tg.ones(3, 2), tg.tensor([0])), RuntimeError, "be integers"),
        (
            lambda: F.embedding_bag(tg.tensor([[0]]), tg.ones(3, 2), per_sample_weights=tg.ones(1, 1)),
            NotImplementedError, "are for mode 'sum', got 'mean'",
        ),
    ],
)  # fmt: skip
def test_misuse_of_losses_and_bags_is_told(make: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        make()


def test_layers_of_channels_as_in_pytorch(torch: ModuleType) -> None:
    found: list[list[Any]] = [[], []]
    for t, answers in ((torch, found[0]), (tg, found[1])):
        x, n = t.tensor(rows(2, 6, 4, 3)), t.nn
        layers = (n.LocalResponseNorm(3, 0.5, 0.6, 2.0), n.LocalResponseNorm(4), n.Softmax2d(), n.ChannelShuffle(3))
        layers += (n.UpsamplingNearest2d(scale_factor=2), n.UpsamplingBilinear2d((7, 5)))
        answers += [repr(layer) for layer in layers] + [layer(x).numpy() for layer in layers]
        f = t.nn.functional
        for write in (
            f.relu_,
            f.leaky_relu_,
            f.elu_,
            f.celu_,
            f.selu_,
            f.hardtanh_,
            lambda y, f=f: f.threshold_(y, 1, 2),
        ):
            y = x.clone()
            assert write(y) is y
            answers.append(y.numpy())
    assert found[1][:6] == found[0][:6]
    for want, got in zip(found[0][6:], found[1][6:], strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)
    for wrong, words in (
        (lambda: F.local_response_norm(tg.ones(2, 3), 2), r"\(N, C, ...\), got \(2, 3\)"),
        (lambda: F.local_response_norm(tg.ones(2, 3, 1), 0), "size must be above 0, got 0"),
        (lambda: F.channel_shuffle(tg.ones(2, 3, 1), 2), "must divide the 3 channels, got 2"),
        (lambda: nn.Softmax2d()(tg.ones(2, 3)), r"got \(2, 3\)"),
    ):
        with pytest.raises((ValueError, RuntimeError), match=words):
            wrong()


class _Counts(nn.Module):
    """As users write one that has more to save than tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.count = nn.Linear(2, 2), 0

    def get_extra_state(self) -> Any:
        return {"count": self.count}

    def set_extra_state(self, state: Any) -> None:
        self.count = state["count"]


def test_what_else_a_module_saves() -> None:
    model, other = nn.Sequential(_Counts(), nn.Tanh()), nn.Sequential(_Counts(), nn.Tanh())
    model[0].count, seen = 5, []
    hook = model[0].register_state_dict_pre_hook(lambda module, prefix, keep_vars: seen.append((prefix, keep_vars)))
    state = model.state_dict()
    hook.remove()
    assert seen == [("0.", False)] and state["0._extra_state"] == {"count": 5}
    assert str(other.load_state_dict(state)) == "<All keys matched successfully>" and other[0].count == 5
    assert other[0].layer.weight.equal(model[0].layer.weight) and len(seen) == 1
    del state["0._extra_state"]
    with pytest.raises(RuntimeError, match=r"missing: 0\._extra_state"):
        other.load_state_dict(state)
    with pytest.raises(RuntimeError, match="unexpected: _extra_state"):
        nn.Tanh().load_state_dict({"_extra_state": 1})


def test_a_module_is_put_at_a_dotted_name() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.ReLU()))
    model.set_submodule("1.0", nn.Tanh())
    assert repr(model[1]) == "Sequential(\n  (0): Tanh()\n)" and model.share_memory() is model
    with pytest.raises(ValueError, match="needs a dotted name and a module, got ''"):
        model.set_submodule("", nn.Tanh())
    for call in (lambda: model.set_submodule("9.x", nn.Tanh()), lambda: model.set_submodule("1.7", nn.Tanh(), True)):
        with pytest.raises(AttributeError, match="has no module"):
            call()


def test_norms_are_of_the_kinds_that_pytorch_says(torch: ModuleType) -> None:
    """Programs ask so, to leave the scales of some norms out of weight decay, or to set others to evaluation."""
    names = [f"{kind}{n}d" for kind in ("BatchNorm", "InstanceNorm") for n in (1, 2, 3)]
    bases = {"_NormBase": "batchnorm", "_BatchNorm": "batchnorm", "_InstanceNorm": "instancenorm"}
    theirs = {name: getattr(getattr(torch.nn.modules, file), name) for name, file in bases.items()}
    ours = {name: getattr(nn.norm, name) for name in bases}
    for kinds, library in ((theirs, torch.nn), (ours, nn)):
        kinds.update({name: getattr(library, name) for name in names})
    for one in names:
        for other in ours:
            assert issubclass(ours[one], ours[other]) == issubclass(theirs[one], theirs[other]), (one, other)
    assert not isinstance(nn.LazyBatchNorm2d(), nn.BatchNorm1d)


def test_layers_derive_from_one_another_as_pytorchs_do(torch: ModuleType) -> None:
    """Programs set p of each nn.Dropout, and initialise each nn.Embedding: not those of other classes with it."""
    classes = {name for name, value in vars(nn).items() if isinstance(value, type) and hasattr(torch.nn, name)}
    classes -= {f"LazyBatchNorm{n}d" for n in (1, 2, 3)}  # which become plain ones with their first input
    assert {"ReLU6", "Dropout2d", "EmbeddingBag", "Fold", "ZeroPad2d", "ReflectionPad2d"} < classes
    for one in classes:
        theirs = {name for name in classes if issubclass(getattr(torch.nn, one), getattr(torch.nn, name))}
        assert {name for name in classes if issubclass(getattr(nn, one), getattr(nn, name))} == theirs, one


INTEGERS_REFUSED = ["gelu", "silu", "mish", "elu", "selu", "celu", "softplus", "hardsigmoid", "hardswish", "leaky_relu"]
INTEGERS_REFUSED += ["logsigmoid", "hardshrink", "softshrink", "glu", "softmax", "log_softmax", "softmin"]


def test_functions_that_pytorch_has_of_floats_alone_refuse_integers() -> None:
    torch = pytest.importorskip("torch")
    for t in (torch, tg):
        functional = t.nn.functional
        for name in INTEGERS_REFUSED:
            settings = {"dim": 0} if "softm" in name else {}
            with pytest.raises(NotImplementedError):
                getattr(functional, name)(t.arange(4), **settings)
        with pytest.raises(NotImplementedError):
            t.arange(3).frac()
        with pytest.raises(RuntimeError):
            functional.layer_norm(t.arange(3), (3,), t.ones(3))
        with pytest.raises(RuntimeError):
            functional.scaled_dot_product_attention(*[t.arange(4).view(1, 1, 2, 2)] * 3)
        assert functional.threshold(t.arange(4), 1.5, 7.9).tolist() == [7, 7, 2, 3]
    with pytest.raises(NotImplementedError, match=r"^silu: needs a floating point tensor, got int64; use .float\(\)$"):
        tg.nn.functional.silu(tg.arange(3))


AT_THE_EDGE = [-math.inf, -1.0, -0.5, 0.0, 0.5, 1.0, math.inf, math.nan]


@pytest.mark.parametrize("bound", [1.0, 0.5, 3.0])
@pytest.mark.parametrize("name", ["smooth_l1_loss", "huber_loss"])
def test_losses_that_get_straight_at_their_bound_and_at_infinity_as_in_pytorch(name: str, bound: float) -> None:
    """Also where the target is met, and at the bound: first and second derivatives."""
    found = []
    for t in (pytest.importorskip("torch"), tg):
        x = t.tensor(AT_THE_EDGE, dtype=t.float64, requires_grad=True)
        loss = getattr(t.nn.functional, name)(x, t.zeros(8, dtype=t.float64), reduction="none", **{BOUNDS[name]: bound})
        (slope,) = t.autograd.grad(loss.sum(), x, create_graph=True)
        (curve,) = t.autograd.grad((slope * t.arange(8.0)).sum(), x)
        found.append([v.detach().numpy() for v in (loss, slope, curve[1:-1])])
    for want, got in zip(*found, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)


BOUNDS = {"smooth_l1_loss": "beta", "huber_loss": "delta"}


@pytest.mark.filterwarnings("ignore:.*broadcast")
def test_what_losses_make_of_odd_targets_and_variances_as_in_pytorch() -> None:
    found = []
    for t in (pytest.importorskip("torch"), tg):
        f, x, none = t.nn.functional, t.tensor(X), {"reduction": "none"}
        variances = t.tensor([[0.1, math.inf, 2.0, 3.0, 1e-9]], dtype=t.float64, requires_grad=True)
        unlikely = f.gaussian_nll_loss(x, t.tensor(Y), variances, **none)  # the same for all rows
        others = t.tensor([1.0, -1.0, 0.0, 2.0])
        found.append([unlikely, f.cosine_embedding_loss(x, t.tensor(Y), others, **none)])
        found[-1] += t.autograd.grad(unlikely[:, :1].sum(), variances)
        weights = t.tensor(shares(5))
        found[-1].append(f.mse_loss(x[0], t.tensor(Y[:2, :1]), weight=weights))  # divided by the sum of the weights
    for want, got in zip(*found, strict=True):
        np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), rtol=1e-12)


LOSSES = ["mse", "smooth_l1", "huber", "soft_margin", "hinge_embedding", "binary_cross_entropy", "kl_div", "l1"]
LOSSES += ["binary_cross_entropy_with_logits", "poisson_nll", "multilabel_margin", "multilabel_soft_margin"]


@pytest.mark.filterwarnings("ignore:reduction. 'mean'", "ignore:kl_div")
def test_losses_refuse_the_integers_that_pytorch_refuses() -> None:
    torch = pytest.importorskip("torch")

    def refused(t: Any, name: str, *inputs: Any) -> type[Exception] | None:
        functional = t.nn.functional
        function = getattr(functional, name, None) or getattr(functional, f"{name}_loss")
        try:
            function(*inputs)
        except RuntimeError as error:
            return type(error)
        return None

    for name in LOSSES:
        for dtypes in (("int64", "int64"), ("int64", "float32"), ("float32", "int64"), ("float32", "float32")):
            told = []
            for t in (torch, tg):
                told.append(refused(t, name, *[t.ones(1, 2, dtype=getattr(t, d)) for d in dtypes]))
            assert told[0] is told[1] or {*told} == {RuntimeError, NotImplementedError}, (name, dtypes)
    for t in (torch, tg):
        scores, ids = t.ones(2, 3).long(), t.tensor([0, 1])
        for name in ("cross_entropy", "nll_loss", "multi_margin_loss"):
            assert refused(t, name, scores, ids) is NotImplementedError


@pytest.mark.parametrize(("shape", "groups"), [((4, 2, 3), 2), ((2, 3, 3, 4), 1), ((3, 2, 1, 2, 3), 1)])
def test_dirac_weights_hand_channels_on(shape: tuple[int, ...], groups: int) -> None:
    torch = pytest.importorskip("torch")
    found = [t.nn.init.dirac_(t.full(shape, 2.0), groups).tolist() for t in (tg, torch)]
    assert found[0] == found[1]
    with pytest.raises(ValueError, match=r"3 to 5 dimensions, got shape \(2, 2\)"):
        tg.nn.init.dirac_(tg.ones(2, 2))
    with pytest.raises(ValueError, match="groups must divide the 3 outputs, got 2"):
        tg.nn.init.dirac_(tg.ones(3, 2, 1), 2)


def test_modes_are_switched_by_each_modules_own_train() -> None:
    """As adapters that merge their weights into a layer's do, and layers that are never to train."""

    class Frozen(nn.BatchNorm1d):
        def train(self, mode: bool = True) -> Frozen:
            return super().train(False)

    model = nn.Sequential(nn.Sequential(Frozen(2)), nn.Dropout())
    assert model.train() is model and model[1].training and not model[0][0].training
    model.eval()
    assert not any(module.training for module in model.modules())


def test_lists_of_parameters_in_a_list_of_parameters() -> None:
    torch = pytest.importorskip("torch")
    found = []
    for t in (tg, torch):
        rows = t.nn.ParameterList([t.nn.ParameterList([t.ones(2), t.zeros(1)]), t.nn.Parameter(t.ones(3))])
        rows[0].append(t.ones(4))
        shapes = {name: tuple(p.shape) for name, p in rows.named_parameters()}
        found.append((shapes, list(rows.state_dict()), len(rows), len(rows[0]), type(rows[0]).__name__))
    assert found[0] == found[1]
    with pytest.raises(TypeError, match="a list or dictionary of parameters holds tensors, got int"):
        tg.nn.ParameterList([3])

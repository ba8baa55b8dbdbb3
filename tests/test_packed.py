"""Sequences of different lengths without their padding: packed and padded again, through recurrent layers, misuse."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tinygrad_tf as tg
from tinygrad_tf import nn
from tinygrad_tf.nn.utils import rnn

LENGTHS = {"sorted": [5, 3, 3, 1], "in any order": [2, 5, 1, 3]}
LAYERS: dict[str, dict[str, Any]] = {
    "RNN": {"num_layers": 2},
    "LSTM": {"num_layers": 2, "bidirectional": True},
    "GRU": {"bidirectional": True, "bias": False},
}


def through_a_layer(t: ModuleType, name: str, lengths: list[int], start: bool) -> list[Any]:
    """Outputs, lengths, last states and the gradients of a layer that is given a packed batch."""
    t.manual_seed(0)
    layer = getattr(t.nn, name)(3, 4, **LAYERS[name]).double()
    tools = t.nn.utils.rnn
    x = t.tensor(np.random.default_rng(1).normal(size=(4, 5, 3)), requires_grad=True)
    packed = tools.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    hx = None
    if start:
        states = layer.num_layers * (2 if layer.bidirectional else 1)
        hx = t.linspace(-1.0, 1.0, states * 16, dtype=t.float64).reshape(states, 4, 4)
        hx = (hx, -hx) if name == "LSTM" else hx
    out, last = layer(packed, hx)
    padded, found = tools.pad_packed_sequence(out, total_length=6, padding_value=-1.0)
    states = t.stack(last) if name == "LSTM" else last
    ((padded**2).sum() + (states**3).sum()).backward()
    return [padded, found, states, x.grad, *[p.grad for p in layer.parameters()]]


@pytest.mark.parametrize("start", [False, True])
@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("name", LAYERS)
def test_a_packed_batch_through_a_layer_as_in_pytorch(name: str, lengths: str, start: bool) -> None:
    torch = pytest.importorskip("torch")
    found, wanted = (through_a_layer(t, name, LENGTHS[lengths], start) for t in (tg, torch))
    for got, want in zip(found, wanted, strict=True):
        got, want = got.detach().numpy(), want.detach().numpy()
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-11)


def test_padding_does_not_reach_the_last_state() -> None:
    layer = nn.GRU(2, 3, bidirectional=True)
    x, lengths = tg.randn(5, 2, 2), [5, 2]
    _, last = layer(rnn.pack_padded_sequence(x, lengths))
    for i, n in enumerate(lengths):
        _, alone = layer(x[:n, i : i + 1])
        assert tg.allclose(last[:, i], alone[:, 0], atol=1e-6)


def test_packed_steps_follow_one_another() -> None:
    packed = rnn.pack_sequence([tg.tensor([1, 2]), tg.tensor([4, 5, 6])], enforce_sorted=False)
    assert packed.data.tolist() == [4, 1, 5, 2, 6] and packed.batch_sizes.tolist() == [2, 2, 1]
    assert packed.sorted_indices is not None and packed.sorted_indices.tolist() == [1, 0]
    assert [s.tolist() for s in rnn.unpack_sequence(packed)] == [[1, 2], [4, 5, 6]]
    assert packed.to(tg.float64).data.dtype == tg.float64
    sorted_already = rnn.pack_sequence([tg.tensor([1, 2]), tg.tensor([4])])
    assert sorted_already.sorted_indices is None and sorted_already.data.tolist() == [1, 4, 2]


X = tg.ones(4, 2, 3)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: rnn.pack_padded_sequence(X, [1, 2]), RuntimeError, r"must not increase, got \[1, 2\]; sort the batch"),
        (lambda: rnn.pack_padded_sequence(X, [4, 0]), RuntimeError, r"every length must be from 1 to 4, got \[4, 0\]"),
        (lambda: rnn.pack_padded_sequence(X, [5, 1]), RuntimeError, r"every length must be from 1 to 4, got \[5, 1\]"),
        (lambda: rnn.pack_padded_sequence(X, [4]), RuntimeError, r"lengths must have 2 entries, got shape \(1,\)"),
        (
            lambda: rnn.pad_packed_sequence(rnn.pack_padded_sequence(X, [4, 1]), total_length=3),
            ValueError,
            "total_length must be at least 4, got 3",
        ),
        (
            lambda: nn.LSTM(5, 2)(rnn.pack_padded_sequence(X, [4, 1])),
            RuntimeError,
            r"LSTM: the packed data must be \(steps, I\) with I = 5, got \(5, 3\)",
        ),
        (lambda: nn.RNN(3, 2)([1.0]), TypeError, "RNN: input must be a tensor or a PackedSequence, got list"),
    ],
)
def test_misuse_is_told(call: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()

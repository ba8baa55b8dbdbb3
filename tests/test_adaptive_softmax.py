"""AdaptiveLogSoftmaxWithLoss: weights, results and messages as PyTorch's, and clusters that nobody asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinygrad_tf as tg
from tinygrad_tf import nn


def test_it_is_pytorchs() -> None:
    torch = pytest.importorskip("torch")
    found: list[list[Any]] = []
    for t in (torch, tg):
        t.manual_seed(3)
        layer = t.nn.AdaptiveLogSoftmaxWithLoss(16, 30, [5, 12, 20], div_value=2.0)
        x, target = t.randn(6, 16), t.tensor([0, 4, 5, 19, 20, 29])
        output, loss = layer(x, target)
        loss.backward()
        alone = layer(x[1], target[1])
        found.append([repr(layer), type(alone).__name__, tuple(alone.output.shape), layer.predict(x).tolist()])
        found[-1] += [output.detach().numpy(), loss.item(), layer.log_prob(x).detach().numpy(), alone.loss.item()]
        found[-1] += [p.grad.numpy() for p in layer.parameters()]
    assert found[0][:4] == found[1][:4] and len(found[0]) == len(found[1])
    for wanted, got in zip(found[0][4:], found[1][4:], strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-6)


def test_outputs_are_the_log_probabilities_of_the_targets() -> None:
    layer = nn.AdaptiveLogSoftmaxWithLoss(8, 20, [4])
    x, target = tg.randn(3, 8), tg.tensor([1, 0, 3])  # of the head alone
    output, loss = layer(x, target)
    np.testing.assert_allclose(output.tolist(), layer.log_prob(x).gather(1, target[:, None])[:, 0].tolist(), rtol=1e-5)
    loss.backward()
    assert layer.tail[0][0].weight.grad is None and layer.head.weight.grad is not None
    before = layer.head.weight.clone()
    layer.reset_parameters()
    assert not layer.head.weight.equal(before)


@pytest.mark.parametrize("cutoffs", [[], [0, 3], [3, 3], [5, 3], [4, 20], [2.5]])
def test_cutoffs_that_do_not_rise(cutoffs: Any) -> None:
    with pytest.raises(ValueError, match="cutoffs must be rising whole numbers from 1 to n_classes - 1 = 19, got"):
        nn.AdaptiveLogSoftmaxWithLoss(8, 20, cutoffs)


def test_what_does_not_fit() -> None:
    layer = nn.AdaptiveLogSoftmaxWithLoss(8, 20, [4])
    with pytest.raises(RuntimeError, match=r"got \(3, 8\) and \(2,\)"):
        layer(tg.randn(3, 8), tg.tensor([1, 2]))
    with pytest.raises(RuntimeError, match=r"must be in \[0, 19\], got values from 1 to 20"):
        layer(tg.randn(2, 8), tg.tensor([1, 20]))

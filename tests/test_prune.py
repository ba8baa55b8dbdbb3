"""Pruning: PyTorch's masks, names, buffers, gradients and values, one after the other and all at once."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinygrad_tf as tg
from tinygrad_tf import nn
from tinygrad_tf.nn.utils import _pruning, prune

X = np.random.default_rng(5).normal(size=(2, 3, 5, 5)).astype(np.float32)


def network(t: Any) -> Any:
    rng = np.random.default_rng(0)
    net = t.nn.Sequential(t.nn.Conv2d(3, 4, 3), t.nn.Flatten(), t.nn.Linear(36, 6), t.nn.Tanh(), t.nn.Linear(6, 2))
    with t.no_grad():
        for p in net.parameters():
            # No two alike: PyTorch's order of equal ones differs between processors.
            p.copy_(t.tensor(rng.uniform(-0.45, 0.55, tuple(p.shape))))
    return net


def every_third(t: Any) -> Any:
    """A method as users write it, for PyTorch's base class or ours."""

    class EveryThird(t.nn.utils.prune.BasePruningMethod):  # type: ignore[misc]
        PRUNING_TYPE = "unstructured"

        def compute_mask(self, t: Any, default_mask: Any) -> Any:
            mask = default_mask.clone()
            mask.view(-1)[::3] = 0
            return mask

    return EveryThird


def halves(t: Any, like: Any) -> Any:
    return (t.arange(like.numel()) % 2).reshape(like.shape)


# Each does something to the network n by p, the module nn.utils.prune of the library t.
PROGRAMS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "identity": lambda t, p, n: p.identity(n[2], "weight"),
    "l1 share": lambda t, p, n: p.l1_unstructured(n[2], "weight", 0.3),
    "l1 count": lambda t, p, n: p.l1_unstructured(n[0], name="weight", amount=17),
    "l1 of nothing": lambda t, p, n: p.l1_unstructured(n[0], "bias", 0),
    "l1 of all": lambda t, p, n: p.l1_unstructured(n[0], "bias", 1.0),
    "l1 by other scores": lambda t, p, n: p.l1_unstructured(
        n[4], "weight", 5, importance_scores=n[4].weight.detach() ** 2 - 0.2
    ),
    "twice": lambda t, p, n: [p.l1_unstructured(n[2], "weight", 0.3) for _ in range(2)],
    "weight and bias": lambda t, p, n: [p.l1_unstructured(n[2], k, 0.5) for k in ("weight", "bias")],
    "random": lambda t, p, n: p.random_unstructured(n[2], "weight", 0.4),
    "random twice": lambda t, p, n: [p.random_unstructured(n[2], "weight", 50) for _ in range(2)],
    "random of nothing": lambda t, p, n: [
        p.random_unstructured(n[2], "bias", 0),
        p.random_unstructured(n[0], "bias", 2),
    ],
    "random rows": lambda t, p, n: p.random_structured(n[2], "weight", 0.5, dim=0),
    "random columns, then rows": lambda t, p, n: [p.random_structured(n[2], "weight", 2, d) for d in (-1, 0, 1)],
    "rows": lambda t, p, n: p.ln_structured(n[2], "weight", 2, n=2, dim=0),
    "rows by the largest": lambda t, p, n: p.ln_structured(n[2], "weight", 0.3, n=float("inf"), dim=0),
    "channels": lambda t, p, n: p.ln_structured(n[0], "weight", 0.5, n=1, dim=1),
    "channels, then filters": lambda t, p, n: [p.ln_structured(n[0], "weight", 1, 2, d) for d in (1, 0, -1)],
    "no rows": lambda t, p, n: p.ln_structured(n[2], "weight", 0.01, n=2, dim=0),
    "rows by other scores": lambda t, p, n: p.ln_structured(
        n[4], "weight", 1, 2, 0, importance_scores=n[4].weight.detach().flip(0)
    ),
    "entries, then rows, then entries": lambda t, p, n: [
        p.l1_unstructured(n[2], "weight", 40),
        p.ln_structured(n[2], "weight", 2, 2, 0),
        p.l1_unstructured(n[2], "weight", 0.5),
    ],
    "a mask": lambda t, p, n: p.custom_from_mask(n[2], "weight", halves(t, n[2].weight)),
    "a mask after others": lambda t, p, n: [
        p.l1_unstructured(n[2], "weight", 0.5),
        p.custom_from_mask(n[2], "weight", mask=halves(t, n[2].weight)),
    ],
    "of the user": lambda t, p, n: every_third(t).apply(n[2], "weight"),
    "of the user, after others": lambda t, p, n: [
        p.l1_unstructured(n[2], "weight", 0.5),
        every_third(t).apply(n[2], "weight"),
    ],
    "everywhere": lambda t, p, n: p.global_unstructured(
        [(n[0], "weight"), (n[2], "weight"), (n[2], "bias")], pruning_method=p.L1Unstructured, amount=0.4
    ),
    "everywhere, twice": lambda t, p, n: [
        p.global_unstructured([(n[i], "weight") for i in (0, 2, 4)], p.L1Unstructured, amount=amount)
        for amount in (100, 0.5)
    ],
    "everywhere at random": lambda t, p, n: p.global_unstructured(
        [(n[i], "weight") for i in (0, 2)], p.RandomUnstructured, amount=0.3
    ),
    "everywhere by other scores": lambda t, p, n: p.global_unstructured(
        [(n[2], "weight"), (n[4], "weight")],
        p.L1Unstructured,
        importance_scores={(n[4], "weight"): n[4].weight.detach() * 0 + 9},
        amount=0.5,
    ),
    "taken back": lambda t, p, n: [p.l1_unstructured(n[2], "weight", 0.3), p.remove(n[2], "weight")],
    "taken back after two": lambda t, p, n: [
        p.l1_unstructured(n[2], "weight", 0.3),
        p.l1_unstructured(n[2], "bias", 0.3),
        p.ln_structured(n[2], "weight", 1, 1, 0),
        p.remove(n[2], "weight"),
    ],
}


def outcome(t: Any, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Names, types of hooks, and all numbers: before a step, of the gradients, and after it."""
    net = network(t)
    t.manual_seed(0)
    PROGRAMS[name](t, t.nn.utils.prune, net)
    words: dict[str, Any] = {
        "state": list(net.state_dict()),
        "parameters": [k for k, _ in net.named_parameters()],
        "buffers": [k for k, _ in net.named_buffers()],
        "pruned": [t.nn.utils.prune.is_pruned(m) for m in (net, *net)],
    }
    for i in (0, 2, 4):
        hooks = list(net[i]._forward_pre_hooks.values())
        words[f"hooks {i}"] = [
            (type(h).__name__, h._tensor_name, isinstance(h, t.nn.utils.prune.PruningContainer)) for h in hooks
        ]
    numbers = {k: v.numpy().copy() for k, v in net.state_dict().items()}
    optimizer = t.optim.SGD(net.parameters(), lr=0.1)
    out = net(t.tensor(X))
    (out**2).sum().backward()
    numbers["out"] = out.detach().numpy()
    numbers |= {f"gradient of {k}": p.grad.numpy().copy() for k, p in net.named_parameters()}
    optimizer.step()
    numbers["after"] = net(t.tensor(X)).detach().numpy()
    numbers["weight"] = net[2].weight.detach().numpy()
    words["weight"] = isinstance(net[2].weight, t.nn.Parameter)
    return words, numbers


@pytest.mark.parametrize("name", PROGRAMS)
def test_all_is_as_in_pytorch(name: str) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch.nn.utils.prune")
    words, numbers = outcome(tg, name)
    wanted_words, wanted = outcome(torch, name)
    assert words == wanted_words
    assert numbers.keys() == wanted.keys()
    for key, array in wanted.items():
        assert numbers[key].dtype == array.dtype
        np.testing.assert_allclose(numbers[key], array, rtol=1e-4, atol=1e-4, err_msg=key)


def test_without_pytorch_too() -> None:
    layer = nn.Linear(3, 2)
    layer.weight.data.copy_(tg.tensor([[1.0, -2.0, 3.0], [-4.0, 5.0, -6.0]]))
    parameter = layer.weight
    prune.l1_unstructured(layer, "weight", 2)
    prune.ln_structured(layer, "weight", 1, n=2, dim=1)
    assert layer.weight_orig is parameter
    assert layer.weight_mask.tolist() == [[0.0, 0.0, 1.0], [0.0, 1.0, 1.0]]
    layer(tg.ones(1, 3)).sum().backward()
    assert parameter.grad.tolist() == layer.weight_mask.tolist()
    container = _pruning.hook_of(layer, "weight")
    assert isinstance(container, prune.PruningContainer) and len(container) == 2
    assert [type(method) for method in container] == [prune.L1Unstructured, prune.LnStructured]
    assert isinstance(container[1], prune.LnStructured) and container[-1].n == 2
    prune.remove(layer, "weight")
    assert layer.weight is parameter and not prune.is_pruned(layer) and not layer._buffer_names
    assert parameter.tolist() == [[0.0, 0.0, 3.0], [0.0, 5.0, -6.0]]


def test_a_pruned_network_is_saved_copied_and_trained() -> None:
    net = network(tg)
    prune.global_unstructured([(net[0], "weight"), (net[2], "weight")], prune.L1Unstructured, amount=0.5)
    twin = network(tg)
    for i in (0, 2):
        prune.identity(twin[i], "weight")
    twin.load_state_dict(net.state_dict())
    x = tg.tensor(X)
    np.testing.assert_array_equal(twin(x).detach().numpy(), net(x).detach().numpy())
    with tg.no_grad():
        net(x)
    other = copy.deepcopy(net)
    optimizer = tg.optim.Adam(other.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        (other(x) ** 2).sum().backward()
        optimizer.step()
    other(x)
    assert int((other[2].weight == 0).sum()) == int((net[2].weight_mask == 0).sum()) > 0
    np.testing.assert_array_equal(twin(x).detach().numpy(), net(x).detach().numpy())
    net.double()
    assert net(x.double()).dtype == tg.float64


def test_a_tensor_alone() -> None:
    method = prune.L1Unstructured(amount=2)
    t = tg.tensor([4.0, -1.0, 2.0, 3.0])
    assert method.prune(t).tolist() == [4.0, 0.0, 0.0, 3.0]
    assert method.prune(t, importance_scores=tg.tensor([1.0, 2.0, 3.0, 4.0])).tolist() == [0.0, 0.0, 2.0, 3.0]
    assert method.prune(t, default_mask=tg.tensor([0.0, 1.0, 1.0, 1.0])).tolist() == [0.0, 0.0, 0.0, 3.0]


class Odd(prune.BasePruningMethod):
    def compute_mask(self, t: tg.Tensor, default_mask: tg.Tensor) -> Any:
        return tg.ones(1)


class Strange(prune.L1Unstructured):
    PRUNING_TYPE = "by the moon"


def named(method: prune.BasePruningMethod, name: str) -> prune.BasePruningMethod:
    method._tensor_name = name
    return method


LINEAR = nn.Linear(3, 2)
PRUNED = prune.identity(nn.Linear(3, 2), "weight")


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: prune.l1_unstructured(LINEAR, "weight", -1), ValueError, "amount must be .*from 0 on.*got -1"),
        (lambda: prune.l1_unstructured(LINEAR, "weight", 1.5), ValueError, r"a float from 0 to 1, got 1\.5"),
        (lambda: prune.l1_unstructured(LINEAR, "weight", math.nan), ValueError, "got nan"),
        (lambda: prune.l1_unstructured(LINEAR, "weight", 7), ValueError, "at most the 6 that are left, got 7"),
        (lambda: prune.l1_unstructured(LINEAR, "weight", "all"), TypeError, "whole number or a share.*got str"),
        (lambda: prune.l1_unstructured(LINEAR, "weights", 1), AttributeError, "Linear has no parameter 'weights'"),
        (lambda: prune.l1_unstructured(LINEAR, "training", 1), AttributeError, "Linear has no parameter 'training'"),
        (lambda: prune.ln_structured(LINEAR, "bias", 1, 2, 0), ValueError, r"at least two dimensions, got \(2,\)"),
        (lambda: prune.ln_structured(LINEAR, "weight", 1, 2, 2), IndexError, r"dim must be in \[-2, 1\], got 2"),
        (lambda: prune.random_structured(LINEAR, "weight", 4, 1), ValueError, "at most the 3 that are left, got 4"),
        (lambda: prune.custom_from_mask(LINEAR, "weight", tg.ones(2)), ValueError, r"shape \(2, 3\) .*got \(2,\)"),
        (lambda: prune.l1_unstructured(LINEAR, "weight", 1, tg.ones(2)), ValueError, "importance_scores must be"),
        (lambda: prune.l1_unstructured(LINEAR, "weight", 1, 3.0), ValueError, "importance_scores must be .*got float"),
        (lambda: prune.remove(LINEAR, "weight"), ValueError, "'weight' of Linear is not pruned"),
        (lambda: Odd.apply(LINEAR, "weight"), ValueError, r"Odd: compute_mask must return .*\(2, 3\), got \(1,\)"),
        (lambda: Strange.apply(PRUNED, "weight", 1), ValueError, "PRUNING_TYPE must be .*got 'by the moon'"),
        (lambda: prune.BasePruningMethod(), TypeError, "abstract"),
        (lambda: prune.PruningContainer(3), TypeError, "method must be a BasePruningMethod, got int"),
        (
            lambda: prune.PruningContainer(named(Odd(), "a"), named(Odd(), "b")),
            ValueError,
            "must prune 'a', got one for 'b'",
        ),
        (
            lambda: prune.global_unstructured([(LINEAR, "weight")], prune.LnStructured, amount=1, n=1),
            TypeError,
            "pruning_method must be unstructured, and LnStructured is structured",
        ),
        (lambda: prune.global_unstructured([LINEAR], prune.L1Unstructured, amount=1), TypeError, "pairs, at least one"),
        (lambda: prune.global_unstructured([], prune.L1Unstructured, amount=1), TypeError, "pairs, at least one"),
        (
            lambda: prune.global_unstructured([(LINEAR, "weight")], prune.L1Unstructured, [tg.ones(2, 3)], amount=1),
            TypeError,
            "importance_scores must be a dictionary, got list",
        ),
    ],
)
def test_misuse_is_told_and_changes_nothing(call: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words) as told:
        call()
    assert "\n" not in str(told.value)
    assert list(LINEAR.state_dict()) == ["weight", "bias"] and not prune.is_pruned(LINEAR)
    assert list(PRUNED.state_dict()) == ["bias", "weight_orig", "weight_mask"] and len(PRUNED._forward_pre_hooks) == 1

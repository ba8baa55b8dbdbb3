"""Parameters that are computed from others: as in PyTorch, trained, taken away again, and what is said of misuse."""

from __future__ import annotations

import copy
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tinygrad_tf as tg
from tinygrad_tf import nn
from tinygrad_tf.nn.utils import parametrizations, parametrize


class Symmetric(nn.Module):
    def forward(self, x: tg.Tensor) -> tg.Tensor:
        return x.triu() + x.triu(1).transpose(0, 1)

    def right_inverse(self, x: tg.Tensor) -> tg.Tensor:
        return x.triu()


class Twice(nn.Module):
    calls = 0

    def forward(self, x: tg.Tensor) -> tg.Tensor:
        self.calls += 1
        return x * 2


class FirstRow(nn.Module):
    def forward(self, x: tg.Tensor) -> tg.Tensor:
        return x[:1]


NORMS: dict[str, Callable[[ModuleType], Any]] = {
    "weight_norm": lambda n: n.utils.parametrizations.weight_norm(n.Linear(3, 4)),
    "of all": lambda n: n.utils.parametrizations.weight_norm(n.Linear(3, 4), dim=None),
    "of columns": lambda n: n.utils.parametrizations.weight_norm(n.Linear(3, 4), dim=1),
    "older form": lambda n: n.utils.weight_norm(n.Linear(3, 4)),
    "older form of columns": lambda n: n.utils.weight_norm(n.Linear(3, 4), dim=1),
}


SPECTRAL: dict[str, Callable[[ModuleType], Any]] = {
    "Linear": lambda n: n.utils.parametrizations.spectral_norm(n.Linear(4, 6)),
    "three iterations": lambda n: n.utils.parametrizations.spectral_norm(n.Linear(4, 6), n_power_iterations=3, dim=1),
    "ConvTranspose1d": lambda n: n.utils.parametrizations.spectral_norm(n.ConvTranspose1d(3, 6, 2)),
    "a vector": lambda n: n.utils.parametrizations.spectral_norm(n.Linear(4, 6), "bias"),
    "older form": lambda n: n.utils.spectral_norm(n.Linear(4, 6)),
    "older form of Conv1d": lambda n: n.utils.spectral_norm(n.Conv1d(3, 6, 2), n_power_iterations=2),
    "older form of ConvTranspose1d": lambda n: n.utils.spectral_norm(n.ConvTranspose1d(3, 6, 2)),
}


@pytest.mark.parametrize("name", SPECTRAL)
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_spectral_norm_as_in_pytorch(name: str) -> None:
    torch = pytest.importorskip("torch")
    found = []
    for t in (tg, torch):
        t.manual_seed(0)
        layer = SPECTRAL[name](t.nn)
        x = t.linspace(-1.0, 1.0, 12).reshape(3, 4)
        steps = t.optim.SGD(layer.parameters(), lr=0.1)
        for _ in range(3):
            steps.zero_grad()
            (layer(x) * layer(x)).sum().backward()  # twice: u and v move on in between
            steps.step()
        out = layer.eval()(x)
        found.append({k: v.detach().numpy() for k, v in layer.state_dict().items()} | {"out": out.detach().numpy()})
    assert list(found[0]) == list(found[1])
    for key, got in found[0].items():
        np.testing.assert_allclose(got, found[1][key], rtol=1e-4, atol=1e-5)


def test_spectral_norm_makes_the_largest_singular_value_one_and_can_be_undone() -> None:
    layer = nn.utils.parametrizations.spectral_norm(nn.Linear(5, 5), n_power_iterations=50)
    layer(tg.ones(1, 5))
    assert np.linalg.norm(layer.weight.detach().numpy(), 2) == pytest.approx(1.0, abs=1e-4)
    old = nn.utils.spectral_norm(nn.Linear(5, 3))
    x = tg.ones(1, 5)
    before = old(x)
    old.eval()
    nn.utils.remove_spectral_norm(old)
    assert list(old.state_dict()) == ["bias", "weight"] and old(x).allclose(before)
    with pytest.raises(ValueError, match="Linear has no spectral_norm on 'weight'"):
        nn.utils.remove_spectral_norm(old)
    for make in (nn.utils.spectral_norm, nn.utils.parametrizations.spectral_norm):
        with pytest.raises(ValueError, match="spectral_norm: Linear has no parameter 'foo'"):
            make(nn.Linear(1, 1), "foo")
        with pytest.raises(ValueError, match="n_power_iterations must be at least 1, got 0"):
            make(nn.Linear(1, 1), n_power_iterations=0)


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_weight_norm_as_in_pytorch(name: str) -> None:
    torch = pytest.importorskip("torch")
    found = []
    for t in (tg, torch):
        t.manual_seed(0)
        layer = NORMS[name](t.nn)
        steps = t.optim.SGD(layer.parameters(), lr=0.1)
        for _ in range(2):
            steps.zero_grad()
            layer(t.linspace(-1.0, 1.0, 6).reshape(2, 3)).pow(2).sum().backward()
            steps.step()
        found.append({k: v.detach().numpy() for k, v in layer.state_dict().items()})
    assert list(found[0]) == list(found[1])
    for key, got in found[0].items():
        np.testing.assert_allclose(got, found[1][key], rtol=1e-4, atol=1e-5)


def test_a_parametrized_weight_is_computed_and_its_original_is_trained() -> None:
    layer = parametrize.register_parametrization(nn.Linear(3, 3), "weight", Symmetric())
    parametrize.register_parametrization(layer, "weight", Twice())
    assert type(layer).__name__ == "ParametrizedLinear" and isinstance(layer, nn.Linear)
    assert [name for name, _ in layer.named_parameters()] == ["bias", "parametrizations.weight.original"]
    layer(tg.ones(1, 3)).sum().backward()
    gradient = layer.parametrizations.weight.original.grad
    assert tg.allclose(gradient, 2 * (tg.ones(3, 3).triu() + tg.ones(3, 3).triu(1)))
    assert "(1): Twice()" in repr(layer)
    twin = copy.deepcopy(layer)
    with tg.no_grad():
        twin.parametrizations.weight.original.zero_()
    assert (twin.weight == 0).all() and not (layer.weight == 0).any()
    twin.load_state_dict(layer.state_dict())
    assert tg.equal(twin.weight, layer.weight)


def test_assigning_goes_through_the_right_inverse() -> None:
    layer = parametrize.register_parametrization(nn.Linear(2, 2), "weight", Symmetric())
    layer.weight = tg.tensor([[1.0, 2.0], [2.0, 3.0]])
    assert layer.weight.tolist() == [[1.0, 2.0], [2.0, 3.0]]
    assert layer.parametrizations.weight.original.tolist() == [[1.0, 2.0], [0.0, 3.0]]


@pytest.mark.parametrize("leave", [True, False])
def test_a_parametrization_can_be_taken_away(leave: bool) -> None:
    layer = nn.Linear(2, 2)
    before = layer.weight
    parametrize.register_parametrization(layer, "weight", Twice())
    parametrize.remove_parametrizations(layer, "weight", leave_parametrized=leave)
    assert type(layer) is nn.Linear and isinstance(layer.weight, nn.Parameter)
    assert not parametrize.is_parametrized(layer) and list(layer.state_dict()) == ["bias", "weight"]
    assert tg.equal(layer.weight, before * 2 if leave else before)
    old = nn.utils.remove_weight_norm(nn.utils.weight_norm(layer))
    assert tg.allclose(old.weight, before * 2 if leave else before) and not old._forward_pre_hooks


def test_cached_values_are_computed_once_and_buffers_can_be_parametrized() -> None:
    twice, norm = Twice(), nn.BatchNorm1d(2)
    parametrize.register_parametrization(norm, "running_mean", twice)
    calls = twice.calls
    with parametrize.cached():
        assert norm.running_mean is norm.running_mean
    assert twice.calls == calls + 1 and norm.running_mean is not norm.running_mean
    assert "parametrizations.running_mean.original" in norm.state_dict() and "running_mean" not in norm.state_dict()


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda m: parametrize.register_parametrization(m, "weight", FirstRow()),
            ValueError,
            r"'weight' of shape \(2, 2\) .* would become of shape \(1, 2\) .* pass unsafe=True",
        ),
        (lambda m: parametrize.register_parametrization(m, "foo", Twice()), ValueError, "no parameter or buffer 'foo'"),
        (lambda m: parametrize.register_parametrization(m, "weight", abs), TypeError, "must be a Module, got builtin"),
        (lambda m: parametrize.remove_parametrizations(m, "weight"), ValueError, "no parametrization on 'weight'"),
        (
            lambda m: parametrize.remove_parametrizations(parametrizations.weight_norm(m), "weight", False),
            ValueError,
            "computed from several tensors; pass leave_parametrized=True",
        ),
        (lambda m: nn.utils.weight_norm(m, "foo"), ValueError, "Linear has no parameter 'foo'"),
        (lambda m: nn.utils.remove_weight_norm(m), ValueError, "Linear has no weight_norm on 'weight'"),
    ],
)
def test_misuse_is_told(call: Callable[[Any], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call(nn.Linear(2, 2))


def test_a_normed_weight_prints_as_pytorchs() -> None:
    torch = pytest.importorskip("torch")
    for name in ("weight_norm", "spectral_norm"):
        wanted, found = (repr(getattr(t.nn.utils.parametrizations, name)(t.nn.Linear(2, 3))) for t in (torch, tg))
        assert found == wanted


@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5)])
@pytest.mark.parametrize("made_by", [None, "matrix_exp", "cayley", "householder"])
def test_orthogonal_weights_as_in_pytorch(shape: tuple[int, int], made_by: str | None) -> None:
    torch = pytest.importorskip("torch")
    found = []
    for t in (torch, tg):
        t.manual_seed(1)
        layer = t.nn.utils.parametrizations.orthogonal(t.nn.Linear(*shape, dtype=t.float64), orthogonal_map=made_by)
        results = [layer.weight]
        optimizer = t.optim.SGD(layer.parameters(), 0.1)
        for _ in range(2):
            optimizer.zero_grad()
            (layer(t.ones(2, shape[0], dtype=t.float64)) ** 3).sum().backward()
            optimizer.step()
            results += [layer.parametrizations.weight.original.grad.clone(), layer.weight]
        found.append([x.detach().numpy() for x in results])
        few = layer.weight if shape[0] > shape[1] else layer.weight.T
        np.testing.assert_allclose((few @ few.T).detach().numpy(), np.eye(min(shape)), atol=2e-6)
    for got, want in zip(found[1], found[0], strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)


def test_misuse_of_orthogonal_is_told() -> None:
    orthogonal = parametrizations.orthogonal
    with pytest.raises(ValueError, match="orthogonal: Linear has no parameter or buffer 'w'"):
        orthogonal(nn.Linear(2, 2), "w")
    with pytest.raises(ValueError, match=r"bias must be a matrix or several, got shape \(2,\)"):
        orthogonal(nn.Linear(2, 2), "bias")
    with pytest.raises(ValueError, match="orthogonal_map must be one of matrix_exp, cayley, householder, got 'qr'"):
        orthogonal(nn.Linear(2, 2), orthogonal_map="qr")
    with pytest.raises(NotImplementedError, match="without use_trivialization the weight cannot be set"):
        orthogonal(nn.Linear(2, 2), use_trivialization=False).weight = tg.eye(2)

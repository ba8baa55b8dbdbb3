"""Optimisers and schedules: PyTorch's numbers step by step, state that survives, errors that help."""

from __future__ import annotations

import copy
import functools
import math
import warnings
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tinygrad_tf as tg
from tinygrad_tf import nn, optim
from tinygrad_tf.optim import lr_scheduler


@pytest.fixture(scope="module")
def torch() -> ModuleType:
    return pytest.importorskip("torch")


# --- optimisers -------------------------------------------------------------------------------------------------------

OPTIMIZERS: dict[str, Callable[[Any, list[Any]], Any]] = {
    "SGD": lambda o, p: o.SGD(p, lr=0.1),
    "SGD momentum": lambda o, p: o.SGD(p, lr=0.1, momentum=0.9, dampening=0.2, weight_decay=0.1),
    "SGD nesterov": lambda o, p: o.SGD(p, lr=0.1, momentum=0.9, nesterov=True, maximize=True),
    "Adam": lambda o, p: o.Adam(p, lr=0.1),
    "Adam decay": lambda o, p: o.Adam(p, lr=0.1, betas=(0.8, 0.9), eps=1e-3, weight_decay=0.1, maximize=True),
    "Adam amsgrad": lambda o, p: o.Adam(p, lr=0.1, weight_decay=0.1, amsgrad=True),
    "Adam decoupled": lambda o, p: o.Adam(p, lr=0.1, weight_decay=0.1, decoupled_weight_decay=True),
    "Adam decoupled of all": lambda o, p: o.Adam(p, weight_decay=0.1, amsgrad=True, decoupled_weight_decay=True),
    "AdamW": lambda o, p: o.AdamW(p, lr=0.1),
    "AdamW amsgrad": lambda o, p: o.AdamW(p, lr=0.1, weight_decay=0.3, amsgrad=True, maximize=True),
    "Adagrad": lambda o, p: o.Adagrad(p, lr=0.1),
    "Adagrad decay": lambda o, p: o.Adagrad(p, 0.1, lr_decay=0.3, weight_decay=0.1, initial_accumulator_value=0.5),
    "RMSprop": lambda o, p: o.RMSprop(p, lr=0.1),
    "Adafactor": lambda o, p: o.Adafactor(p),
    "Adafactor of all": lambda o, p: o.Adafactor(p, 0.3, -0.5, (1e-4, 0.1), 1.5, weight_decay=0.1, maximize=True),
    "Adadelta": lambda o, p: o.Adadelta(p),
    "Adadelta of all": lambda o, p: o.Adadelta(p, lr=0.5, rho=0.8, eps=1e-4, weight_decay=0.1, maximize=True),
    "Adamax": lambda o, p: o.Adamax(p, lr=0.1),
    "Adamax of all": lambda o, p: o.Adamax(p, lr=0.1, betas=(0.8, 0.9), weight_decay=0.1, maximize=True),
    "NAdam": lambda o, p: o.NAdam(p, lr=0.1),
    "NAdam of all": lambda o, p: o.NAdam(p, lr=0.1, weight_decay=0.1, momentum_decay=0.1, decoupled_weight_decay=True),
    "RAdam": lambda o, p: o.RAdam(p, lr=0.1),
    "RAdam soon": lambda o, p: o.RAdam(p, lr=0.1, betas=(0.8, 0.9), weight_decay=0.1),
    "RAdam decoupled": lambda o, p: o.RAdam(p, lr=0.1, weight_decay=0.1, decoupled_weight_decay=True, maximize=True),
    "ASGD": lambda o, p: o.ASGD(p, lr=0.1, t0=2),
    "ASGD of all": lambda o, p: o.ASGD(p, 0.1, lambd=0.1, alpha=0.5, t0=0, weight_decay=0.1, maximize=True),
    "Rprop": lambda o, p: o.Rprop(p, lr=0.1),
    "Rprop of all": lambda o, p: o.Rprop(p, 0.1, etas=(0.3, 1.5), step_sizes=(0.02, 0.15), maximize=True),
    "RMSprop centered": lambda o, p: o.RMSprop(p, lr=0.1, momentum=0.9, centered=True, weight_decay=0.1, maximize=True),
    "groups": lambda o, p: o.AdamW([{"params": p[:1], "weight_decay": 0.0}, {"params": p[1:], "lr": 0.3}], lr=0.1),
}


def parameters(t: Any, dtype: str) -> list[Any]:
    rng = np.random.default_rng(0)
    return [t.nn.Parameter(t.tensor(rng.normal(size=shape).astype(dtype))) for shape in ((3, 4), (5,), (2, 2, 2))]


def train(t: Any, optimizer: Any, params: list[Any], steps: int, first: int = 0) -> None:
    for step in range(first, first + steps):
        rng = np.random.default_rng([1, step])
        for i, p in enumerate(params):
            g = rng.normal(size=tuple(p.shape)).astype(str(p.dtype).split(".")[-1])
            p.grad = None if (step + i) % 3 == 2 else t.tensor(g)  # now and then one takes no part
        optimizer.step()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer_as_in_pytorch(torch: ModuleType, name: str, dtype: str) -> None:
    make = OPTIMIZERS[name]
    theirs, ours = parameters(torch, dtype), parameters(tg, dtype)
    train(torch, make(torch.optim, theirs), theirs, 7)
    train(tg, make(optim, ours), ours, 7)
    for got, want in zip(ours, theirs, strict=True):
        tolerance = 1e-11 if dtype == "float64" else 2e-5
        np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_state_goes_on_bit_for_bit(name: str, tmp_path: Any) -> None:
    make = OPTIMIZERS[name]
    at_once, in_two = parameters(tg, "float32"), parameters(tg, "float32")
    train(tg, make(optim, at_once), at_once, 8)
    first = make(optim, in_two)
    train(tg, first, in_two, 5)
    tg.save({"optimizer": first.state_dict()}, tmp_path / "state.pt")
    second = make(optim, in_two)
    second.load_state_dict(tg.load(tmp_path / "state.pt")["optimizer"])
    train(tg, second, in_two, 3, first=5)
    for a, b in zip(at_once, in_two, strict=True):
        np.testing.assert_array_equal(a.array, b.array)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "settings",
    [{}, {"nesterov": False, "momentum": 0.5, "weight_decay": 0.0}, {"adjust_lr_fn": "match_rms_adamw", "ns_steps": 2}],
)
def test_muon_as_in_pytorch(torch: ModuleType, settings: dict[str, Any], dtype: str) -> None:
    """Steps of size 1 in bfloat16, whose sums the two libraries take in different orders: they agree to its precision.

    The mean of the gradients, in the dtype of the parameters, is the same.
    """
    for shape in ((3, 4), (6, 2), (5, 5)):
        found = []
        for t in (torch, tg):
            p = [t.nn.Parameter(t.tensor(np.random.default_rng(0).normal(size=shape).astype(dtype)))]
            optimizer = t.optim.Muon(p, lr=0.1, **settings)
            for step in range(4):
                p[0].grad = t.tensor(np.random.default_rng([1, step]).normal(size=shape).astype(dtype))
                optimizer.step()
            state = optimizer.state_dict()
            found.append((p[0].detach().numpy(), state["state"][0]["momentum_buffer"].numpy(), state["param_groups"]))
        assert found[0][2] == found[1][2]
        np.testing.assert_allclose(found[1][0], found[0][0], atol=0.1 * 4 * 2**-7)
        np.testing.assert_allclose(found[1][1], found[0][1], rtol=1e-5)


def test_muon_moves_all_directions_alike() -> None:
    tg.manual_seed(0)
    weight = nn.Parameter(tg.zeros(4, 6))
    weight.grad = tg.diag(tg.tensor([10.0, 1.0, 2.0, 0.5])) @ tg.randn(4, 6)
    optim.Muon([weight], lr=1.0).step()
    sizes = tg.linalg.svdvals(weight.detach())
    assert sizes.min().item() > 0.5 and sizes.max().item() < 1.3


def test_a_copied_optimizer_leaves_the_first_alone() -> None:
    """A compiled step may remember where its arrays lie; a deep copy must find its own."""
    model = nn.ParameterList(parameters(tg, "float32"))
    optimizer = optim.AdamW(list(model), lr=0.1)
    train(tg, optimizer, list(model), 2)
    twin_model, twin = copy.deepcopy((model, optimizer))
    before = [p.array.copy() for p in model]
    train(tg, twin, list(twin.param_groups[0]["params"]), 2)
    for p, kept, other in zip(model, before, twin_model, strict=True):
        np.testing.assert_array_equal(p.array, kept)
        assert not np.array_equal(other.array, kept)


def test_state_dict_has_pytorchs_form(torch: ModuleType) -> None:
    theirs, ours = parameters(torch, "float32"), parameters(tg, "float32")
    first, second = torch.optim.AdamW(theirs), optim.AdamW(ours)
    train(torch, first, theirs, 2)
    train(tg, second, ours, 2)
    wanted, found = first.state_dict(), second.state_dict()
    assert found["state"].keys() == wanted["state"].keys()
    assert found["state"][0].keys() == wanted["state"][0].keys()
    assert found["param_groups"][0].items() <= {**wanted["param_groups"][0], "params": [0, 1, 2]}.items()


def test_closure_is_called_with_gradients_on() -> None:
    p = nn.Parameter(tg.tensor([1.0]))
    optimizer = optim.SGD([p], lr=0.5)

    def closure() -> tg.Tensor:
        optimizer.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 1.0
    assert p.item() == 0.0


class Halve(optim.Optimizer):
    """What a user writes: defaults of its own, groups given, `step` of its own."""

    def __init__(self, groups: list[dict[str, Any]]):
        super().__init__(groups, defaults={})

    @tg.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["steps"] = self.state[p].get("steps", 0) + 1
                p.mul_(group["by"])


class Bare(optim.Optimizer):
    """The annotated transformer's: it never calls super().__init__()."""

    def __init__(self) -> None:
        self.param_groups = [{"lr": 0}]

    def step(self) -> None:  # type: ignore[override]
        pass

    def zero_grad(self, set_to_none: bool = False) -> None:
        pass


def test_optimizers_of_users() -> None:
    p = nn.Parameter(tg.tensor([4.0]))
    optimizer = Halve([{"params": [p], "by": 0.5}])
    optimizer.step()
    optimizer.step()
    assert p.item() == 1.0 and optimizer.state[p]["steps"] == 2
    assert p.requires_grad
    schedule = lr_scheduler.LambdaLR(Bare(), lambda step: 1.0)
    schedule.optimizer.step()
    schedule.step()
    assert schedule.get_last_lr() == [0.0]


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda p: optim.SGD([], lr=0.1), ValueError, "empty"),
        (lambda p: optim.SGD([p, p], lr=0.1), ValueError, "twice"),
        (lambda p: optim.SGD([p * 2], lr=0.1), ValueError, "leaf"),
        (lambda p: optim.SGD([p.array], lr=0.1), TypeError, "ndarray"),
        (lambda p: optim.SGD([p], lr=-1.0), ValueError, "lr.*-1"),
        (lambda p: optim.Adam([p], lr=math.nan), ValueError, "lr.*nan"),
        (lambda p: optim.Adam([p], betas=(0.9, 1.0)), ValueError, "betas"),
        (lambda p: optim.Adam([p], betas=0.9), TypeError, "Adam: betas must be two numbers, .* got 0.9"),
        (lambda p: optim.SGD([p], lr="0.1"), TypeError, "lr must be a number, got str"),
        (lambda p: optim.SGD([{"params": {p}}]), TypeError, "a set has not; give a list"),
        (lambda p: optim.SGD([p]).add_param_group([p]), TypeError, 'dictionary with "params", got list'),
        (lambda p: optim.SGD([p], nesterov=True), ValueError, "momentum"),
        (lambda p: optim.RMSprop([p], momentum=-0.1), ValueError, "momentum.*-0.1"),
        (lambda p: optim.Adagrad([p], initial_accumulator_value=-0.1), ValueError, "initial_accumulator_value.*-0.1"),
        (lambda p: optim.Adadelta([p], rho=1.5), ValueError, r"Adadelta: rho must be in \[0, 1\], got 1.5"),
        (lambda p: optim.Adafactor([p], beta2_decay=0.1), ValueError, "Adafactor: beta2_decay must not be positive"),
        (lambda p: optim.Adafactor([p], d=0.5), ValueError, "Adafactor: d must be at least 1, got 0.5"),
        (lambda p: optim.Adafactor([p], eps=1e-3), TypeError, "Adafactor: eps must be two numbers"),
        (
            lambda p: optim.Muon([p]),
            ValueError,
            "parameters must be matrices, got shape .* to AdamW",
        ),
        (
            lambda p: optim.Muon([p], adjust_lr_fn="no"),
            ValueError,
            "adjust_lr_fn must be None, .* got 'no'",
        ),
        (lambda p: optim.Muon([p], ns_steps=100), ValueError, "Muon: ns_steps must be from 0 to 99, got 100"),
        (lambda p: optim.RAdam([p], betas=(0.9, 1.0)), ValueError, r"RAdam: betas\[1\] must be in \[0, 1\), got 1.0"),
        (lambda p: optim.NAdam([p], momentum_decay=-1.0), ValueError, "momentum_decay.*-1"),
        (lambda p: lr_scheduler.StepLR(None, 1), TypeError, "StepLR: optimizer must be an Optimizer, got NoneType"),
        (lambda p: optim.Optimizer([p], {}).step(), NotImplementedError, "update_group"),
        (
            lambda p: optim.AdamW([p]).load_state_dict(optim.AdamW([p, nn.Parameter(p)]).state_dict()),
            ValueError,
            "sizes",
        ),
    ],
)
def test_misuse_is_told(make: Callable[[Any], Any], error: type[Exception], words: str) -> None:
    p = nn.Parameter(tg.tensor([1.0]))
    p.grad = tg.tensor([1.0])
    with pytest.raises(error, match=words):
        make(p)


KINDS = [
    "Adafactor",
    "SGD",
    "Adam",
    "AdamW",
    "RMSprop",
    "Adagrad",
    "Adadelta",
    "Adamax",
    "NAdam",
    "RAdam",
    "Rprop",
    "ASGD",
]


def test_groups_have_pytorchs_settings() -> None:
    """Programs read them, as group["fused"], and print them."""
    torch = pytest.importorskip("torch")
    for name in KINDS:
        groups = []
        for t in (torch, tg):
            optimizer = getattr(t.optim, name)([t.nn.Parameter(t.ones(2))], lr=0.1)
            groups.append({k: v for k, v in optimizer.param_groups[0].items() if k != "params"})
        assert groups[0] == groups[1], name
        if name in ("SGD", "Adam", "AdamW"):
            assert list(groups[0]) == list(groups[1]), name
    p = tg.nn.Parameter(tg.ones(1))
    assert optim.Adamax([p], capturable=True).param_groups[0]["capturable"] is True
    assert optim.SGD([p], 0.1, foreach=True).param_groups[0]["foreach"] is True


# --- schedules --------------------------------------------------------------------------------------------------------

Schedule = Callable[[Any, Any], Any]
SCHEDULES: dict[str, Schedule] = {
    "StepLR": lambda s, o: s.StepLR(o, 3, 0.5),
    "MultiStepLR": lambda s, o: s.MultiStepLR(o, [8, 2, 3]),
    "ConstantLR": lambda s, o: s.ConstantLR(o, 0.5, 4),
    "LinearLR": lambda s, o: s.LinearLR(o, 0.1, 0.8, 6),
    "ExponentialLR": lambda s, o: s.ExponentialLR(o, 0.9),
    "PolynomialLR": lambda s, o: s.PolynomialLR(o, 7, 2.0),
    "LambdaLR": lambda s, o: s.LambdaLR(o, [lambda step: (step + 1) / 4, lambda step: 0.9**step]),
    "MultiplicativeLR": lambda s, o: s.MultiplicativeLR(o, lambda step: 0.9 + 0.01 * step),
    "CosineAnnealingLR": lambda s, o: s.CosineAnnealingLR(o, 5, 0.01),
    "CosineAnnealingWarmRestarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 3, 2, 0.01),
    "CosineAnnealingWarmRestarts equal": lambda s, o: s.CosineAnnealingWarmRestarts(o, 4),
    "OneCycleLR": lambda s, o: s.OneCycleLR(o, [1.0, 2.0], total_steps=14),
    "OneCycleLR three": lambda s, o: s.OneCycleLR(o, 1.0, None, 2, 7, 0.3, "linear", three_phase=True),
    "CyclicLR": lambda s, o: s.CyclicLR(o, 0.1, 1.0, 3),
    "CyclicLR halved": lambda s, o: s.CyclicLR(o, [0.1, 0.2], [1.0, 0.5], 2, 3, mode="triangular2"),
    "CyclicLR fading": lambda s, o: s.CyclicLR(o, 0.1, 1.0, 3, 1, "exp_range", 0.9, cycle_momentum=False),
    "CyclicLR of one's own": lambda s, o: s.CyclicLR(
        o, 0.1, 1.0, 3, scale_fn=lambda n: 1 / (n + 1), scale_mode="iterations"
    ),
    "SequentialLR": lambda s, o: s.SequentialLR(
        o, [s.LinearLR(o, 0.1, total_iters=3), s.CosineAnnealingLR(o, 6), s.ExponentialLR(o, 0.5)], [3, 9]
    ),
    "ChainedScheduler": lambda s, o: s.ChainedScheduler([s.ConstantLR(o, 0.1, 4), s.ExponentialLR(o, 0.9)]),
}  # fmt: skip


def two_groups(t: Any, kind: str = "SGD") -> Any:
    first, second = (t.nn.Parameter(t.ones(1)) for _ in range(2))
    groups = [{"params": [first]}, {"params": [second], "lr": 0.5}]
    return t.optim.SGD(groups, lr=1.0, momentum=0.9) if kind == "SGD" else t.optim.AdamW(groups, lr=1.0)


def settings(optimizer: Any) -> list[float]:
    return [float(v) for g in optimizer.param_groups for v in (g["lr"], g.get("momentum", 0.0), *g.get("betas", ()))]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["SGD", "AdamW"])
@pytest.mark.parametrize("name", SCHEDULES)
def test_schedule_as_in_pytorch(torch: ModuleType, name: str, kind: str) -> None:
    theirs, ours = two_groups(torch, kind), two_groups(tg, kind)
    first, second = SCHEDULES[name](torch.optim.lr_scheduler, theirs), SCHEDULES[name](lr_scheduler, ours)
    for step in range(15):  # to the step behind the 14 of one cycle, which a loop of 14 asks for
        np.testing.assert_allclose(settings(ours), settings(theirs), rtol=1e-9, atol=1e-15)
        np.testing.assert_allclose(second.get_last_lr(), first.get_last_lr(), rtol=1e-9, atol=1e-15)
        for optimizer, schedule in ((theirs, first), (ours, second)) if step < 14 else ():
            optimizer.step()
            schedule.step()


def test_schedules_above_a_floor_and_those_from_the_base_rate_in_a_chain(torch: ModuleType) -> None:
    def rates(t: Any) -> list[float]:
        found = []
        for kinds in (
            (lambda s, o: s.LinearLR(o, 0.2, 0.5, 2), lambda s, o: s.CosineAnnealingLR(o, 4, eta_min=0.01)),
            (lambda s, o: s.StepLR(o, 1, 0.5), lambda s, o: s.CosineAnnealingWarmRestarts(o, 3, eta_min=0.01)),
        ):
            optimizer = t.optim.SGD([t.nn.Parameter(t.ones(1))], lr=0.1)
            schedule = t.optim.lr_scheduler.ChainedScheduler([kind(t.optim.lr_scheduler, optimizer) for kind in kinds])
            for _ in range(9):
                optimizer.step()
                schedule.step()
                found.append(optimizer.param_groups[0]["lr"])
        return found

    assert rates(tg) == pytest.approx(rates(torch))


def test_what_adam_saved_goes_on_as_adamw_and_groups_are_printed_apart(torch: ModuleType) -> None:
    for t in (torch, tg):
        p = t.nn.Parameter(t.ones(1))
        adam, adamw = t.optim.Adam([p]), t.optim.AdamW([p])
        adamw.load_state_dict(adam.state_dict())
        assert adamw.param_groups[0]["decoupled_weight_decay"] is True
        assert "\n\nParameter Group 1\n" in repr(t.optim.SGD([{"params": [p]}, {"params": [t.ones(1)]}], lr=0.1))


@pytest.mark.filterwarnings("ignore")
def test_two_schedules_on_one_optimizer_multiply(torch: ModuleType) -> None:
    found = []
    for t in (torch, tg):
        optimizer = two_groups(t)
        s = t.optim.lr_scheduler
        schedules = [s.ExponentialLR(optimizer, 0.9), s.LinearLR(optimizer, 0.2, total_iters=4), s.StepLR(optimizer, 3)]
        rates = []
        for _ in range(8):
            rates += settings(optimizer)
            for schedule in schedules:
                schedule.step()
        found.append(rates)
    np.testing.assert_allclose(found[1], found[0], rtol=1e-12)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "options", [{}, {"mode": "max", "threshold": 0.3, "threshold_mode": "abs"}, {"cooldown": 2, "min_lr": 0.2}]
)
def test_plateau_as_in_pytorch(torch: ModuleType, options: dict[str, Any]) -> None:
    found = []
    for t in (torch, tg):
        optimizer = two_groups(t)
        schedule = t.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1, **options)
        rates = []
        for metric in (3.0, 2.0, 2.1, 2.2, 2.3, 1.9, 1.9, 1.9, 1.9, -1.0, -1.0, -1.0001, -1.2, -1.2):
            schedule.step(t.tensor(metric))
            rates += settings(optimizer)
        found.append(rates)
    np.testing.assert_allclose(found[1], found[0], rtol=1e-12)


def test_plateau_takes_in_groups_that_are_added(torch: ModuleType) -> None:
    for t in (torch, tg):
        optimizer = two_groups(t)
        plateau = t.optim.lr_scheduler.ReduceLROnPlateau
        schedules = [plateau(optimizer, factor=0.5, patience=0, min_lr=low) for low in (0.1, [0.1, 0.1])]
        optimizer.add_param_group({"params": [t.nn.Parameter(t.zeros(2))], "lr": 0.15})
        for _ in range(2):
            schedules[0].step(1.0)
        assert optimizer.param_groups[2]["lr"] == 0.1 and schedules[0].min_lrs == [0.1] * 3
        schedules[1].step(1.0)
        with pytest.raises(RuntimeError, match="min_lrs"):
            schedules[1].step(1.0)


CONTINUED = ["LambdaLR", "MultiplicativeLR", "StepLR", "MultiStepLR", "ConstantLR", "LinearLR", "ExponentialLR"]
CONTINUED += ["PolynomialLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "OneCycleLR"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CONTINUED)
def test_a_new_schedule_goes_on_from_a_loaded_optimizer(name: str) -> None:
    """It is made with last_epoch, the step before: the rate is in the optimizer already (pytorch/pytorch #60265)."""
    for stop in range(1, 8):
        whole, again = two_groups(tg), two_groups(tg)
        schedule = SCHEDULES[name](lr_scheduler, whole)
        for _ in range(stop):
            schedule.step()
        again.load_state_dict(copy.deepcopy(whole.state_dict()))
        maker = SimpleNamespace(**{name: functools.partial(getattr(lr_scheduler, name), last_epoch=stop - 1)})
        second = SCHEDULES[name](maker, again)
        for _ in range(4):
            np.testing.assert_allclose(settings(again), settings(whole), rtol=1e-12)
            second.step()
            schedule.step()


@pytest.mark.filterwarnings("ignore")
def test_groups_that_are_added_later_follow_the_schedule(torch: ModuleType) -> None:
    def rates(t: Any, name: str) -> list[float]:
        optimizer = two_groups(t)
        schedule = SCHEDULES[name](t.optim.lr_scheduler, optimizer)
        schedule.step()
        optimizer.add_param_group({"params": [t.nn.Parameter(t.ones(1))], "lr": 0.3})
        found = []
        for _ in range(3):
            schedule.step()
            found += settings(optimizer)
        return found

    for name in sorted(set(CONTINUED) - {"LambdaLR", "MultiplicativeLR", "CosineAnnealingWarmRestarts", "OneCycleLR"}):
        np.testing.assert_allclose(rates(tg, name), rates(torch, name), rtol=1e-9, err_msg=name)
    for name in ("LambdaLR", "OneCycleLR"):
        with pytest.raises(ValueError, match=r"has 3 parameter groups.*make a new schedule after add_param_group"):
            rates(tg, name)


class Decay:
    """A function with a memory."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, step: int) -> float:
        self.calls += 1
        return 1.0 / self.calls


def test_functions_of_a_schedule_save_their_attributes(torch: ModuleType) -> None:
    for t in (torch, tg):
        schedule = t.optim.lr_scheduler.LambdaLR(two_groups(t), [Decay(), lambda step: 1.0])
        state = schedule.state_dict()
        assert state["lr_lambdas"] == [{"calls": 1}, None]
        again = Decay()
        t.optim.lr_scheduler.LambdaLR(two_groups(t), [again, lambda step: 1.0]).load_state_dict(
            {**state, "lr_lambdas": [{"calls": 7}, None]}
        )
        assert again.calls == 7


def test_names_of_parameters_are_kept(torch: ModuleType) -> None:
    for t in (torch, tg):
        optimizer = t.optim.SGD(t.nn.Linear(2, 1).named_parameters(), lr=0.1)
        assert optimizer.state_dict()["param_groups"][0]["param_names"] == ["weight", "bias"]
        for group in ([t.nn.Parameter(t.ones(1))], [("a", t.nn.Parameter(t.ones(1))), t.nn.Parameter(t.ones(1))]):
            with pytest.raises(ValueError, match="name"):
                optimizer.add_param_group({"params": group})


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_goes_on_where_it_was(name: str, tmp_path: Any) -> None:
    whole, parts = two_groups(tg), two_groups(tg)
    schedule, first = SCHEDULES[name](lr_scheduler, whole), SCHEDULES[name](lr_scheduler, parts)
    rates = []
    for step in range(12):
        rates.append(settings(whole))
        if step < 5:
            first.step()
        schedule.step()
    tg.save([parts.state_dict(), first.state_dict()], tmp_path / "state.pt")
    again = two_groups(tg)
    second = SCHEDULES[name](lr_scheduler, again)
    saved = tg.load(tmp_path / "state.pt")
    again.load_state_dict(saved[0])
    second.load_state_dict(saved[1])
    for step in range(5, 12):
        assert settings(again) == rates[step]
        second.step()


def test_boundaries_of_the_two_schedules_of_the_papers() -> None:
    warmup = lr_scheduler.warmup_cosine
    assert warmup(0, peak=6e-4, floor=0.0, warmup=2000, total=6000) == pytest.approx(2.998501e-07)
    assert warmup(100, peak=1.0, floor=0.1, warmup=100, total=100) == 1.0
    assert warmup(9999, peak=1.0, floor=0.1, warmup=100, total=200) == 0.1
    assert lr_scheduler.noam(0, channels=512) == lr_scheduler.noam(1, channels=512) == pytest.approx(1.746928e-07)


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "Adagrad", "RMSprop"])
def test_ways_to_compute_a_step_that_are_not_there_are_refused(name: str) -> None:
    make, parameters = getattr(tg.optim, name), [tg.nn.Parameter(tg.ones(1))]
    with pytest.raises(ValueError, match="differentiable=True is not supported"):
        make(parameters, differentiable=True)
    ways = ["foreach"] if name == "RMSprop" else ["foreach", "fused"]
    for way in ways:  # each is one of PyTorch's ways to the same numbers
        make(parameters, **{way: True})
    if len(ways) == 2:
        with pytest.raises(RuntimeError, match="foreach and fused cannot both be True"):
            make(parameters, foreach=True, fused=True)
        make(parameters, foreach=False, fused=True)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda o: lr_scheduler.LambdaLR(o, [abs]), "2 for the parameter groups"),
        (lambda o: lr_scheduler.SequentialLR(o, [lr_scheduler.StepLR(o, 1)], [3]), "milestone"),
        (lambda o: lr_scheduler.SequentialLR(o, [lr_scheduler.StepLR(two_groups(tg), 1)], []), "another optimizer"),
        (lambda o: lr_scheduler.OneCycleLR(o, 1.0), "total_steps"),
        (lambda o: lr_scheduler.OneCycleLR(o, 1.0, 0), "number of steps must be an integer above 0, got 0"),
        (lambda o: optim.swa_utils.get_ema_avg_fn(1.5), "decay must be from 0 to 1, got 1.5"),
        (lambda o: optim.swa_utils.get_ema_multi_avg_fn(-0.5), "decay must be from 0 to 1, got -0.5"),
        (lambda o: lr_scheduler.ReduceLROnPlateau(o, "small"), "small"),
        (lambda o: lr_scheduler.CosineAnnealingLR(o, 0), "T_max"),
        (lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 1.5), "T_0 .* got 1.5"),
        (lambda o: lr_scheduler.CyclicLR(o, 0.1, 1.0, mode="round"), "mode must be one of triangular, triangular2"),
    ],
)
def test_schedules_tell_misuse(make: Callable[[Any], Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make(two_groups(tg))


def test_a_schedule_says_that_its_step_comes_second() -> None:
    for make in (lambda o: lr_scheduler.StepLR(o, 2), lambda o: lr_scheduler.OneCycleLR(o, 1.0, 5)):
        optimizer = two_groups(tg)
        schedule = make(optimizer)
        with pytest.warns(UserWarning, match=r"LR.step\(\) was called before optimizer.step\(\)"):
            schedule.step()
        optimizer.step()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            schedule.step()
            right = two_groups(tg)
            parts = [lr_scheduler.ConstantLR(right, 0.5, 1), lr_scheduler.StepLR(right, 1)]
            for schedule in (make(right), lr_scheduler.SequentialLR(right, parts, [1])):
                right.step()
                schedule.step()
                schedule.step()
            again = two_groups(tg)
            again.step()
            make(again).load_state_dict(make(right).state_dict())
    with pytest.raises(ValueError, match="step 6 was asked for, but total_steps is 5"):
        cycle = lr_scheduler.OneCycleLR(right, 1.0, 5)
        for _ in range(6):
            cycle.step()


def test_optimisers_and_schedules_written_for_older_versions() -> None:
    from tinygrad_tf.optim.lr_scheduler import _LRScheduler
    from tinygrad_tf.optim.optimizer import required

    class Plain(optim.Optimizer):
        def __init__(self, params: Any, lr: Any = required):
            super().__init__(params, {"lr": lr})

    class Halving(_LRScheduler):
        def get_lr(self) -> list[float]:
            return [base * 0.5**self.last_epoch for base in self.base_lrs]

    p = nn.Parameter(tg.ones(1))
    with pytest.raises(ValueError, match="Plain: parameter group 0 must give 'lr'"):
        Plain([p])
    optimizer = Plain([{"params": [p], "lr": 0.8}])
    schedule = Halving(optimizer)
    assert (
        isinstance(optim.lr_scheduler.StepLR(optimizer, 1), _LRScheduler) and repr(required) == "<required parameter>"
    )
    optimizer.step = lambda: None  # type: ignore[method-assign,assignment]
    schedule.step()
    assert optimizer.param_groups[0]["lr"] == 0.4


class _Plain(optim.Optimizer):
    """As users write one: a step of their own, on the base class."""

    def __init__(self, params: Any) -> None:
        super().__init__(params, {"lr": 0.5})

    def step(self, closure: Any = None) -> Any:
        for p in self.param_groups[0]["params"]:
            p.data -= 0.5 * p.grad.data
        return None if closure is None else closure()


class _Above(optim.SGD):
    def step(self, closure: Any = None) -> Any:
        return super().step(closure)


@pytest.mark.parametrize("make", [_Plain, _Above, optim.SGD], ids=["own step", "step above a step", "SGD"])
def test_hooks_around_a_step(make: Callable[..., Any]) -> None:
    p = nn.Parameter(tg.ones(1))
    optimizer, seen = make([p], **({} if make is _Plain else {"lr": 0.5})), []
    before = optimizer.register_step_pre_hook(lambda o, args, kwargs: seen.append((p.item(), len(args), *kwargs)))
    optimizer.register_step_post_hook(lambda o, args, kwargs: seen.append(p.item()))
    p.grad = tg.ones(1)
    assert optimizer.step(closure=lambda: 7) == 7 and seen == [(1.0, 1, "closure"), 0.5]
    before.remove()
    copied = copy.deepcopy(optimizer)
    copied.param_groups[0]["params"][0].grad = tg.ones(1)
    copied.step()  # a copy has no hooks
    optimizer.step(None)
    assert seen[2:] == [0.0]
    optimizer.register_step_pre_hook(lambda o, args, kwargs: 3)
    with pytest.raises(RuntimeError, match=r"None or \(args, kwargs\), got 3"):
        optimizer.step()


def test_hooks_on_the_state_of_an_optimizer() -> None:
    optimizer, seen = optim.SGD([nn.Parameter(tg.ones(1))], lr=0.5), []
    optimizer.register_state_dict_pre_hook(lambda o: seen.append("before"))
    optimizer.register_state_dict_post_hook(lambda o, state: {**state, "more": 1})
    optimizer.register_state_dict_post_hook(lambda o, state: seen.append(len(state)), prepend=True)
    state = optimizer.state_dict()
    assert seen == ["before", 2] and state["more"] == 1
    state["param_groups"][0]["lr"] = 0.25
    optimizer.register_load_state_dict_pre_hook(lambda o, given: given.pop("more") and None)
    optimizer.register_load_state_dict_post_hook(lambda o: seen.append(o.param_groups[0]["lr"]))
    optimizer.load_state_dict(state)
    assert seen[2:] == [0.25] and "more" in state


AVERAGES: dict[str, Callable[[Any], dict[str, Any]]] = {
    "equal": lambda swa: {},
    "equal, with buffers": lambda swa: {"use_buffers": True},
    "equal, one by one": lambda swa: {"avg_fn": swa.get_swa_avg_fn()},
    "equal, in a list": lambda swa: {"multi_avg_fn": swa.get_swa_multi_avg_fn()},
    "exponential": lambda swa: {"avg_fn": swa.get_ema_avg_fn(0.8)},
    "exponential, with buffers": lambda swa: {"multi_avg_fn": swa.get_ema_multi_avg_fn(0.8), "use_buffers": True},
    "of one's own": lambda swa: {"avg_fn": lambda average, new, count: average + (new - average) * 0.1 * count},
}


@pytest.mark.parametrize("name", AVERAGES)
def test_averaged_weights_as_in_pytorch(torch: ModuleType, name: str) -> None:
    """Training goes on with a schedule that ends in another, then the batch norm of the average meets the data."""
    import torch.optim.swa_utils as theirs

    found = []
    for t, swa in ((torch, theirs), (tg, optim.swa_utils)):
        t.manual_seed(0)
        model = t.nn.Sequential(t.nn.Linear(3, 4), t.nn.BatchNorm1d(4), t.nn.Tanh(), t.nn.Linear(4, 1)).double()
        x = t.linspace(-1, 1, 24, dtype=t.float64).reshape(8, 3).sin()
        optimizer = t.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        first, last = t.optim.lr_scheduler.ExponentialLR(optimizer, 0.9), swa.SWALR(optimizer, 0.03, anneal_epochs=3)
        averaged, rates = swa.AveragedModel(model, **AVERAGES[name](swa)), []
        for epoch in range(9):
            for rows in (x[:4], x[4:]):
                optimizer.zero_grad()
                (model(rows) - rows.prod(1, keepdim=True)).square().mean().backward()
                optimizer.step()
            if epoch > 3:
                averaged.update_parameters(model)
            (last if epoch > 3 else first).step()
            rates.append(optimizer.param_groups[0]["lr"])
        before = [value.clone().numpy() for value in averaged.state_dict().values()]
        swa.update_bn([(x[:4], None), (x[4:], None)], averaged)
        found.append([np.array(rates), *before, *(v.numpy() for v in averaged.state_dict().values())])
        assert averaged.module[1].momentum == 0.1 and optimizer.param_groups[0]["swa_lr"] == 0.03
    for want, got in zip(*found, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-7)  # PyTorch's shares of a list are float32


@pytest.mark.parametrize(("steps", "way"), [(0, "cos"), (1, "linear"), (4, "linear"), (4, "cos")])
def test_a_rate_for_each_group_at_the_end_as_in_pytorch(torch: ModuleType, steps: int, way: str) -> None:
    import torch.optim.swa_utils as theirs

    found: list[list[Any]] = [[], []]
    for t, swa, rates in ((torch, theirs, found[0]), (tg, optim.swa_utils, found[1])):
        groups = [{"params": [t.nn.Parameter(t.ones(1))], "lr": lr} for lr in (0.3, 0.1)]
        optimizer = t.optim.SGD(groups, lr=0.1)
        schedule = swa.SWALR(optimizer, [0.01, 0.5], steps, way)
        for _ in range(6):
            optimizer.step()
            rates.append(schedule.get_last_lr())
            schedule.step()
    np.testing.assert_allclose(found[1], found[0], rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda o: optim.swa_utils.SWALR(o, 0.1, anneal_strategy="sin"), ValueError, "'cos' or 'linear', got 'sin'"),
        (lambda o: optim.swa_utils.SWALR(o, 0.1, -1), ValueError, "anneal_epochs must be an integer from 0 on, got -1"),
        (lambda o: optim.swa_utils.SWALR(o, [0.1, 0.2]), ValueError, "one rate, or 1, got 2"),
        (lambda o: optim.swa_utils.get_ema_avg_fn(2), ValueError, "from 0 to 1, got 2"),
        (lambda o: optim.swa_utils.AveragedModel(nn.Tanh(), None, max, max), AssertionError, "either avg_fn or multi"),
    ],
)
def test_misuse_of_averages_is_told(call: Callable[[Any], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call(optim.SGD([nn.Parameter(tg.ones(1))], lr=0.1))


def test_a_schedule_is_told_by_the_name_of_its_module() -> None:
    optimizer = optim.SGD([nn.Parameter(tg.ones(1))], lr=0.1)
    for schedule in (lr_scheduler.StepLR(optimizer, 1), lr_scheduler.MultiStepLR(optimizer, [1, 2])):
        assert schedule.__module__ == lr_scheduler.__name__


def test_parameters_as_one_vector_and_gradients_cut_as_in_pytorch(torch: ModuleType) -> None:
    found = []
    for t in (torch, tg):
        model = t.nn.Linear(3, 2)
        t.nn.utils.vector_to_parameters(t.arange(8.0), model.parameters())
        model.weight.grad, model.bias.grad = t.arange(6.0).reshape(2, 3) - 3.0, t.tensor([0.5, -9.0])
        t.nn.utils.clip_grad_value_(model.parameters(), 2.0)
        vector = t.nn.utils.parameters_to_vector(model.parameters())
        found.append([x.tolist() for x in (model.weight, model.bias, model.weight.grad, model.bias.grad, vector)])
    assert found[0] == found[1]


@pytest.mark.parametrize("name", ["StepLR", "MultiStepLR", "CosineAnnealingLR", "SWALR"])
def test_what_a_schedule_of_pytorch_saved_goes_on_here(torch: ModuleType, name: str) -> None:
    settings: dict[str, Any] = {
        "StepLR": {"step_size": 2, "gamma": 0.5},
        "MultiStepLR": {"milestones": [2, 2, 6], "gamma": 0.5},
        "CosineAnnealingLR": {"T_max": 12},
        "SWALR": {"swa_lr": 0.01},
    }

    def made(lib: Any) -> Any:
        optimizer = lib.optim.SGD([lib.nn.Parameter(lib.ones(1))], lr=0.5)
        where = lib.optim.swa_utils if name == "SWALR" else lib.optim.lr_scheduler
        return optimizer, getattr(where, name)(optimizer, **settings[name])

    (their_optimizer, theirs), (optimizer, ours) = made(torch), made(tg)
    for _ in range(5):
        their_optimizer.step()
        theirs.step()
    ours.load_state_dict(copy.deepcopy(theirs.state_dict()))
    for _ in range(6):
        optimizer.step(), ours.step(), their_optimizer.step(), theirs.step()
        assert optimizer.param_groups[0]["lr"] == pytest.approx(their_optimizer.param_groups[0]["lr"], rel=1e-9)


@pytest.mark.parametrize("name", ["OneCycleLR", "CyclicLR"])
def test_each_group_has_its_own_momenta_as_in_pytorch(torch: ModuleType, name: str) -> None:
    settings: dict[str, Any] = {"OneCycleLR": {"total_steps": 12}, "CyclicLR": {"base_lr": 0.1, "step_size_up": 4}}
    found = []
    for lib in (torch, tg):
        groups = [{"params": [lib.nn.Parameter(lib.ones(1))]} for _ in range(2)]
        optimizer = lib.optim.SGD(groups, lr=0.5, momentum=0.9)
        momenta = {"base_momentum": [0.5, 0.6], "max_momentum": [0.8, 0.9]}
        schedule = getattr(lib.optim.lr_scheduler, name)(optimizer, max_lr=[0.3, 0.4], **momenta, **settings[name])
        for _ in range(10):
            optimizer.step()
            schedule.step()
            found.append([(float(g["lr"]), float(g["momentum"])) for g in optimizer.param_groups])
    np.testing.assert_allclose(found[10:], found[:10], rtol=1e-9)


def test_a_parameter_that_is_one_number_keeps_its_momentum(torch: ModuleType) -> None:
    found = []
    for lib in (torch, tg):
        p = lib.nn.Parameter(lib.tensor(2.0))
        optimizer = lib.optim.SGD([p], lr=0.1, momentum=0.9, maximize=True)
        for _ in range(4):
            p.grad = lib.tensor(1.0)
            optimizer.step()
        found.append(p.item())
    assert found[1] == pytest.approx(found[0])
    p = nn.Parameter(tg.tensor(2.0, dtype=tg.bfloat16))
    optimizer = optim.SGD([p], lr=0.1, momentum=0.9, weight_decay=0.1)
    (p * p).backward()
    optimizer.step()
    assert optimizer.state[p]["momentum_buffer"].dtype == tg.bfloat16


JOINED: dict[str, Callable[[Any, Any], Any]] = {
    "a factor at each step, from a milestone on": lambda s, o: s.SequentialLR(
        o, [s.MultiplicativeLR(o, lambda step: 0.9), s.MultiplicativeLR(o, lambda step: 0.5 + 0.1 * step)], [3]
    ),
    "no warmup at all": lambda s, o: s.SequentialLR(o, [s.LinearLR(o, 0.1), s.CosineAnnealingLR(o, 6)], [0]),
    "a cycle that has base rates of its own": lambda s, o: s.SequentialLR(
        o, [s.ExponentialLR(o, 0.9), s.OneCycleLR(o, 1.0, 12)], [2]
    ),
    "a cycle beside a curve": lambda s, o: (s.LinearLR(o, 0.5), s.CyclicLR(o, 0.01, 1.0, 3))[1],
    "behind a rate of 0": lambda s, o: s.PolynomialLR(o, total_iters=4),
    "a floor as high as a base rate": lambda s, o: s.ChainedScheduler(
        [s.LinearLR(o, 0.1, 0.2, 3), s.CosineAnnealingLR(o, 4, eta_min=0.5)]
    ),
}


@pytest.mark.parametrize("name", JOINED)
def test_schedules_that_are_joined_as_in_pytorch(torch: ModuleType, name: str) -> None:
    """With a rate that is set by hand on the way, and a step that is asked for by its number."""
    found = []
    for t in (torch, tg):
        optimizer = two_groups(t)
        schedule, rates = JOINED[name](t.optim.lr_scheduler, optimizer), settings(optimizer)
        for step in range(10):
            optimizer.step()
            if step == 5:
                optimizer.param_groups[0]["lr"] = 0.05
            schedule.step()
            rates += settings(optimizer)
        found.append(rates)
    np.testing.assert_allclose(found[1], found[0], rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("name", ["StepLR", "MultiStepLR", "PolynomialLR", "CosineAnnealingLR", "SequentialLR"])
def test_what_a_schedule_saved_here_goes_on_in_pytorch(torch: ModuleType, name: str) -> None:
    theirs, ours = two_groups(torch), two_groups(tg)
    first, second = SCHEDULES[name](torch.optim.lr_scheduler, theirs), SCHEDULES[name](lr_scheduler, ours)
    for _ in range(5):
        ours.step(), second.step()
    first.load_state_dict(copy.deepcopy(second.state_dict()))
    for one, other in zip(theirs.param_groups, ours.param_groups, strict=True):
        one["lr"] = other["lr"]
    for _ in range(6):
        ours.step(), second.step(), theirs.step(), first.step()
        np.testing.assert_allclose(settings(ours), settings(theirs), rtol=1e-9)


def test_adagrad_has_its_sums_before_the_first_step_as_in_pytorch(torch: ModuleType) -> None:
    found: list[Any] = []
    for t in (torch, tg):
        used, unused = t.nn.Parameter(t.ones(2)), t.nn.Parameter(t.ones(3))
        optimizer = t.optim.Adagrad([used, unused], lr=0.1, initial_accumulator_value=0.5)
        used.sum().backward()
        optimizer.step()
        state = optimizer.state_dict()["state"]
        found.append([(i, s["step"].item(), s["sum"].tolist()) for i, s in state.items()])
    assert found[0] == found[1] == [(0, 1.0, [1.5, 1.5]), (1, 0.0, [0.5, 0.5, 0.5])]
    optimizer.add_param_group({"params": [tg.nn.Parameter(tg.ones(1))], "initial_accumulator_value": 2.0})
    assert optimizer.state_dict()["state"][2]["sum"].tolist() == [2.0]


def test_adafactor_in_bfloat16_as_in_pytorch(torch: ModuleType) -> None:
    found = []
    for t in (torch, tg):
        matrix, vector = (t.nn.Parameter((t.arange(n) / 4.0 - 1.0).to(t.bfloat16)) for n in (12, 3))
        matrix = t.nn.Parameter(matrix.detach().reshape(4, 3))
        optimizer = t.optim.Adafactor([matrix, vector], lr=0.1)
        for _ in range(4):
            optimizer.zero_grad()
            (matrix * vector).square().sum().backward()
            optimizer.step()
        found.append([p.detach().float().numpy() for p in (matrix, vector)])
    for theirs, ours in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=0.02)


def test_gradients_are_clipped_by_a_norm_that_is_known(torch: ModuleType) -> None:
    found = []
    for t in (torch, tg):
        first, second = t.nn.Parameter(t.zeros(2)), t.nn.Parameter(t.zeros(()))
        for p, value in ((first, [3.0, -4.0]), (second, 12.0)):
            p.grad = t.tensor(value)
        norm = t.nn.utils.get_total_norm([first.grad, second.grad])
        for limit in (6.5, 100.0):
            assert t.nn.utils.clip_grads_with_norm_((p for p in (first, second)), limit, norm) is None
        found.append([norm.item(), *first.grad.tolist(), second.grad.item()])
    assert found[1] == pytest.approx(found[0], rel=1e-6) and found[1][1] == pytest.approx(1.5)


def test_sparse_adam_as_in_pytorch() -> None:
    """Of an embedding that asks for sparse gradients, with a row of padding and rows that come later."""
    torch = pytest.importorskip("torch")
    found = []
    for t in (torch, tg):
        t.manual_seed(0)
        words = t.nn.Embedding(6, 3, padding_idx=0, sparse=True)
        optimizer = t.optim.SparseAdam(words.parameters(), lr=0.1, betas=(0.8, 0.99))
        for ids in ([1, 3, 3, 0], [1, 5], [2, 5, 3]):
            optimizer.zero_grad()
            (words(t.tensor(ids)) ** 2 + words(t.tensor(ids))).sum().backward()
            optimizer.step()
        state = optimizer.state_dict()
        found.append([words.weight.detach().numpy(), state["state"][0]["exp_avg"].numpy()])
        found[-1].append(state["state"][0]["step"])
        assert {k: v for k, v in state["param_groups"][0].items() if k != "params"} == {
            "lr": 0.1,
            "betas": (0.8, 0.99),
            "eps": 1e-8,
            "maximize": False,
        }
    for wanted, got in zip(*found, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)

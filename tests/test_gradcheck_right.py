"""No right gradient is accused: many right functions, badly scaled ones among them; and no wrong one passes unseen."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import tinygrad_tf as tg
from tinygrad_tf.autograd import GradcheckError, GradcheckWarning, gradcheck, gradgradcheck, gradient_report
from tinygrad_tf.autograd.check import Settings
from tinygrad_tf.autograd.other_ways import check_other_ways
from tinygrad_tf.autograd.report import NOISY, RIGHT, WRONG, Report
from tinygrad_tf.tensor import Tensor

Function = Callable[..., Any]
SCALES = [1e-8, 1e-4, 1.0, 1e4, 1e8]


def leaf(array: Any) -> Tensor:
    return tg.as_tensor(np.asarray(array, np.float64)).requires_grad_()


def normal(*shape: int, seed: int = 0) -> Tensor:
    return leaf(np.random.default_rng([seed, *shape]).standard_normal(shape))


def positive(*shape: int) -> Tensor:
    return leaf(np.random.default_rng([1, *shape]).uniform(0.5, 2.0, shape))


def scaled() -> list[tuple[str, Function, tuple[Tensor, ...]]]:
    """Functions whose inner argument or whose result is tiny or huge."""
    found: list[tuple[str, Function, tuple[Tensor, ...]]] = []
    for k in SCALES:
        found += [
            (f"sin({k:g} x)", lambda x, k=k: (x * k).sin(), (normal(5),)),
            (f"{k:g} tanh(x)", lambda x, k=k: x.tanh() * k, (normal(5),)),
            (f"sum sin({k:g} x)", lambda x, k=k: (x * k).sin().sum(), (normal(5, seed=1),)),
            (f"({k:g} x)^3", lambda x, k=k: (x * k) ** 3, (normal(4),)),
            (f"log x at {k:g}", lambda x: x.log(), (leaf(np.array([0.3, 1.0, 2.5]) * k),)),
            (f"sqrt x at {k:g}", lambda x: x.sqrt(), (leaf(np.array([0.3, 1.0, 2.5]) * k),)),
            (f"1/x at {k:g}", lambda x: 1 / x, (leaf(np.array([-0.3, 1.0, 2.5]) * k),)),
            (f"x^2 y at {k:g}", lambda x, y: x * x * y, (leaf(np.array([0.7, -2.0]) * k), normal(2))),
            (f"softmax at {k:g}", lambda x: x.softmax(-1), (leaf(np.array([0.3, 1.0, 0.7]) * min(k, 10)),)),
            (f"x + {k:g}", lambda x, k=k: x * x + k, (normal(3),)),
        ]
    spread = 10.0 ** np.arange(-8, 9)
    found += [
        ("one scale for each", lambda x: (x * tg.as_tensor(spread)).sin(), (normal(17),)),
        ("summed", lambda x: (x * tg.as_tensor(spread)).sin().sum(), (normal(17, seed=2),)),
        ("logs of all sizes", lambda x: x.log().sum(), (leaf(spread),)),
        ("offset lost again", lambda x: ((x + 1e6) - 1e6).exp(), (normal(4),)),
        ("float32 inside", lambda x: x.float().sin().double(), (normal(6),)),
        ("wiggle on a line", lambda x: (x * 1e4).sin() * 1e-6 + x, (normal(6),)),
    ]
    return found


def plain() -> list[tuple[str, Function, tuple[Tensor, ...]]]:
    return [
        ("square", lambda x: x * x, (normal(3, 4),)),
        ("matmul", lambda a, b: a @ b, (normal(3, 4), normal(4, 2))),
        ("batched matmul", lambda a, b: a @ b, (normal(2, 3, 4), normal(4, 2))),
        ("div", lambda a, b: a / b, (normal(3, 4), positive(4))),
        ("power", lambda a, b: a**b, (positive(5), normal(5))),
        ("power -1.5", lambda a: a**-1.5, (positive(5),)),
        ("exp log", lambda x: (x.exp() + 1).log(), (normal(6),)),
        ("relu", lambda x: x.relu(), (normal(20),)),
        ("relu near 0", lambda x: (x * 1.0).relu().sum(), (leaf([1e-5, -1e-5, 1e-3, 1.0]),)),
        ("abs", lambda x: x.abs(), (normal(9),)),
        ("clamp", lambda x: x.clamp(-0.5, 0.5), (normal(9),)),
        ("amax", lambda x: x.amax(1), (normal(4, 5),)),
        ("max", lambda x: x.max(1).values, (normal(4, 5),)),
        (
            "mean var",
            lambda x: (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True) + 1e-5).sqrt(),
            (normal(3, 6),),
        ),
        ("log_softmax", lambda x: x.log_softmax(0), (normal(4, 3),)),
        ("softmax, sharp", lambda x: (x * 20).softmax(-1), (normal(4, 3),)),
        ("getitem", lambda x: x[[0, 0, 2]], (normal(4, 3),)),
        ("slice", lambda x: x[1:, ::2] * 2, (normal(4, 5),)),
        ("transpose", lambda x: x.transpose(0, 1).reshape(6), (normal(2, 3),)),
        ("cumsum", lambda x: x.cumsum(1), (normal(2, 5),)),
        ("cat", lambda a, b: tg.cat([a, b * 2], 0), (normal(2, 3), normal(1, 3))),
        ("gather", lambda x: x.gather(1, tg.tensor([[0, 0], [2, 1]])), (normal(2, 3),)),
        ("where", lambda a, b: tg.where(tg.tensor([True, False, True]), a, b), (normal(3), normal(3, seed=1))),
        ("expand", lambda x: x.expand(3, 4).sin(), (normal(1, 4),)),
        ("squared at 0", lambda x: x * x, (leaf([0.0, 1.0]),)),
        ("constant", lambda x: x * 0 + 1, (normal(3),)),
        ("two outputs", lambda x: (x * 2, x.sum()), (normal(3),)),
        ("same input twice", lambda x: x * x.sum(), (normal(3),)),
        ("exactly zero", lambda x, b: ((x + b).softmax(-1) * x).sum(), (normal(4), leaf(0.3))),
        ("0-d", lambda x: x.sin() * x, (leaf(0.7),)),
        ("empty", lambda x: x * 2, (leaf(np.zeros((0, 3))),)),
        ("sigmoid far out", lambda x: x.sigmoid(), (leaf([-30.0, 30.0, 5.0]),)),
        ("many entries", lambda x: (x * x).tanh().sum(), (normal(5000),)),
        ("many outputs", lambda x: (x * x).tanh(), (normal(3000),)),
    ]


SCALED = {name: (function, inputs) for name, function, inputs in scaled()}
CORPUS = SCALED | {name: (function, inputs) for name, function, inputs in plain()}


@cache
def report_of(name: str) -> Report:
    """The report on a function of the corpus: several tests look at it."""
    return gradient_report(*CORPUS[name])


@pytest.mark.parametrize("name", CORPUS)
def test_no_right_gradient_is_accused(name: str) -> None:
    report = report_of(name)
    assert report.verdict in (RIGHT, NOISY), str(report)
    assert report.passes(), str(report)


def test_the_corpus_is_large_and_mostly_decided() -> None:
    assert len(CORPUS) == len(scaled()) + len(plain()) >= 60
    undecided = [name for name in SCALED if report_of(name).verdict == NOISY]
    assert len(undecided) <= 3, undecided


@pytest.mark.parametrize("wrong", [1.01, 0.999, 1.0001])
@pytest.mark.parametrize("scale", SCALES)
def test_a_slightly_wrong_gradient_is_seen_at_any_scale(scale: float, wrong: float) -> None:
    """Half of the function is detached and comes back through a factor: the value is right, the slope is not."""

    def function(x: Any) -> Any:
        y = x.tanh() * scale
        return y * wrong + (y - y * wrong).detach()

    assert gradient_report(function, normal(4)).verdict == WRONG


def test_one_wrong_entry_among_thousands_is_seen() -> None:
    mask = np.ones(2500)
    mask[1234] = 0

    def function(x: Any) -> Any:
        y = (x * x * 0.5).sin()
        return (y * tg.as_tensor(mask) + (y * tg.as_tensor(1 - mask)).detach()).sum()

    report = gradient_report(function, normal(2500))
    assert report.verdict == WRONG
    pair = report.pairs[0]
    assert [int(i) for i in pair.entries[pair.wrong.any(0)]] == [1234]


@pytest.mark.parametrize(
    ("function", "point"),
    [
        (lambda x: x.relu(), [0.0, 1.0]),
        (lambda x: x.abs(), [1.0, 0.0]),
        (lambda x: x.amax(), [1.0, 1.0, 0.0]),
        (lambda x: x.clamp(-1, 1), [1.0, 0.3]),
        (lambda x: (x.relu() * 3).sum(), [0.5, 0.0]),
        (lambda x: (x - x.detach()).abs().sum() + x.relu().sum(), [2.0]),
        (lambda x: x.abs().sqrt(), [0.0, 1.0]),
        (lambda x: (x > 0).double() + x * 0, [0.0]),
    ],
)
def test_kinks_and_jumps_are_told_apart_from_mistakes(function: Function, point: list[float]) -> None:
    report = gradient_report(function, leaf(point))
    if point == [2.0]:  # the detached abs: a kink only if x moves alone, which it does not
        assert report.verdict in (RIGHT, "not differentiable here")
    else:
        assert report.verdict == "not differentiable here", str(report)


@pytest.mark.parametrize(
    "function, point",
    [
        (lambda x: x.median(), [2.0, 2.0, 2.0, 1.0, 3.0]),
        (lambda x: x.median(0).values, [2.0, 2.0, 2.0]),
        (lambda x: x.sort().values[1], [2.0, 2.0, 2.0, 5.0]),
        (lambda x: x.kthvalue(2).values * x[0], [2.0, 2.0, 2.0]),
    ],
)
def test_a_median_of_equal_numbers_is_not_differentiable(function: Function, point: list[float]) -> None:
    report = gradient_report(function, leaf(point))
    assert report.verdict == "not differentiable here", str(report)
    assert "no gradient is right" in str(report)


def test_a_kink_nearer_than_eps_is_said_to_be_near() -> None:
    lines = str(gradient_report(lambda x: x.relu(), leaf([1e-7, 1.0])))
    assert "near d the output[0] / d " in lines and "nearer than eps, there is a kink" in lines
    assert "    at d the output[0]" in str(gradient_report(lambda x: x.relu(), leaf([0.0, 1.0])))


@pytest.mark.parametrize("distance", [1e-3, 1e-4, 1e-5, -1e-5, -1e-3])
def test_a_kink_that_is_near_but_not_here_does_no_harm(distance: float) -> None:
    report = gradient_report(lambda x: x.relu().sum(), leaf([distance, 1.0, -2.0]))
    assert report.verdict == RIGHT, str(report)
    assert report.worst_error < 1e-8


CONSTANT: dict[str, Function] = {  # what stays the same, whatever x is
    "sum of a softmax": lambda x: x.softmax(-1).sum(-1),
    "that less 1": lambda x: x.softmax(-1).sum(-1) - 1,
    "sum of a norm": lambda x: tg.nn.functional.layer_norm(x, (3,)).sum(-1),
    "mean of a norm": lambda x: tg.nn.functional.layer_norm(x, (3,)).mean(),
    "length of a direction": lambda x: (x / x.norm(dim=-1, keepdim=True)).norm(dim=-1),
    "spread of a norm": lambda x: (x / x.std(-1, keepdim=True)).std(-1) - 1,
    "angle with itself": lambda x: tg.nn.functional.cosine_similarity(x, 3 * x, dim=-1),
    "attention to ones": lambda x: (x @ x.T).softmax(-1) @ tg.ones(2, 1, dtype=tg.float64) - 1,
    "sin2 + cos2": lambda x: x.sin() ** 2 + x.cos() ** 2 - 1,
    "its own likelihood": lambda x: x.log_softmax(-1).logsumexp(-1),
}


@pytest.mark.parametrize("name", CONSTANT)
def test_what_rounding_leaves_of_a_gradient_of_zero_is_no_mistake(name: str) -> None:
    for seed, scale in enumerate([1.0, 1e-4, 1e4]):
        report = gradient_report(CONSTANT[name], leaf(normal(2, 3, seed=seed).array * scale))
        assert report.verdict == RIGHT and report.worst_error < 1e-6, str(report)


def test_a_gradient_of_zero_that_is_more_than_rounding_is_wrong() -> None:
    def function(x: Any) -> Any:
        return (x.softmax(-1).sum(-1) - 1) + (x - x.detach()).sum(-1) * 1e-9

    assert gradient_report(function, normal(4, 3)).verdict == WRONG
    assert gradient_report(lambda x: (x * x).detach() + x * 0 + 1e6, normal(3)).verdict == WRONG


@pytest.mark.parametrize(
    ("function", "point"),
    [
        (lambda x: tg.nn.functional.softshrink(x - 1000, 1), [1000.2, 1003.0]),
        (lambda x: tg.nn.functional.hardshrink((x - 1000).sum(), 1), [1000.2, 0.0]),
        (lambda x: x.round(), [1000.2, 333.3]),
        (lambda x: (x * 10).round() / 10, [502.0, -330.3]),
        (lambda x: x - x.floor(), [1e9 + 0.3, 12345.6]),
        (lambda x: x.sin(), [1e9, 3e7]),
    ],
)
def test_small_steps_are_heard_against_large_ones(function: Function, point: list[float]) -> None:
    """Flat places, stairs and teeth that are small beside x."""
    report = gradient_report(function, leaf(point))
    assert report.verdict == RIGHT and report.passes(), str(report)


@pytest.mark.parametrize("lose", [lambda x: x.float().sin().double(), lambda x: (x + 1e9) - 1e9])
def test_what_is_stored_with_few_digits_is_not_called_flat(lose: Function) -> None:
    assert gradient_report(lambda x: lose(x.detach()) + 0 * x, leaf([0.3, 0.7])).verdict == WRONG
    assert gradient_report(lose, leaf([0.3, 0.7])).verdict in (RIGHT, NOISY)


@pytest.mark.parametrize("offset", [1e9, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e18])
def test_a_gradient_lost_behind_cancellation_is_never_called_right(offset: float) -> None:
    """What is left of a slope are stairs, or nothing at all, as of round: where zero would be the right gradient."""
    lost: list[Function] = [
        lambda x: (x.detach() * 2 + offset) - offset,
        lambda x: ((x.detach() ** 2).sum() + offset) - offset,
        lambda x: ((x.detach() + offset) - offset).sin() + 0 * x,
    ]
    for function, point in itertools.product(lost, ([0.3, 0.5, -1.2], [1.0, 2.0, 1.0])):
        report = gradient_report(function, leaf(point))
        assert report.verdict != RIGHT and not report.passes(), str(report)
    assert gradient_report(lost[0], normal(4), settings=Settings(fast=True)).verdict != RIGHT


def test_what_rounding_hides_does_not_pass_and_says_why() -> None:
    with pytest.raises(GradcheckError, match=r"not known for output 0 .* too noisy to tell") as caught:
        gradcheck(lambda x: (x.detach() * 2 + 1e15) - 1e15, leaf([0.3, -1.2]))
    assert "as large as the gradient, so that nothing is proven: do large numbers cancel" in str(caught.value)
    assert gradient_report(lambda x: (x * 2 + 1e16) - 1e16, normal(3)).verdict == NOISY  # nor is a right one accused


def test_outputs_that_are_nan_are_said_to_be_none() -> None:
    report = gradient_report(lambda x: x * float("nan"), leaf([1.0, 2.0]))
    assert "not finite here or right beside" in str(report) and not report.passes()


def test_stairs_are_believed_if_they_do_not_depend_on_the_precision() -> None:
    for number in (np.float64, np.float32):
        x = tg.as_tensor(np.array([1000.2, 333.3], number)).requires_grad_()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GradcheckWarning)
            assert gradient_report(lambda x: x.round() / 3, x).verdict == RIGHT
    factor = tg.tensor([2.0], dtype=tg.float64)  # keeps the result in float64
    assert gradient_report(lambda x: x.round() * factor, leaf([1000.2, 333.3])).verdict == NOISY
    assert gradient_report(lambda x: (x * factor).relu(), leaf([-100.2, 33.3])).verdict == RIGHT


def test_zeros_and_small_entries_in_float32_are_not_hidden() -> None:
    x = tg.as_tensor(np.random.default_rng(0).standard_normal((6, 3)).astype(np.float32)).requires_grad_()
    b = tg.ones(3, requires_grad=True)
    with pytest.warns(UserWarning, match="too coarse"):
        report = gradient_report(lambda x, b: (x - x.mean(0)) / (x.var(0) + 0.01).sqrt() + b, (x, b))
    assert report.passes(rtol=1e-2) and report.verdicts["input 1"] == RIGHT, str(report)


def test_a_large_noisy_input_is_checked_in_seconds() -> None:
    report = gradient_report(lambda x: ((x.detach() + 1e12) - 1e12).sum(), normal(2100))
    assert report.verdict == WRONG and report.evaluations < 40_000


def test_tiny_inputs_in_float32_are_moved_by_tiny_steps() -> None:
    x = tg.as_tensor(np.array([0.3, -1.2, 0.8], np.float32) * np.float32(1e-11)).requires_grad_()
    with pytest.warns(UserWarning, match="too coarse"):
        report = gradient_report(lambda x: (x * 1e11).tanh() * 2, x)
    assert report.verdict == RIGHT, str(report)


def test_what_is_not_deterministic_is_called_so() -> None:
    random = np.random.default_rng(0)
    report = gradient_report(lambda x: x * tg.as_tensor(random.standard_normal(3)), normal(3))
    assert report.verdict == "not deterministic"
    assert not report.passes()


def test_numbers_of_the_report_bound_the_error() -> None:
    """The true error of the numeric derivative is within what the report says, over functions of many kinds."""
    checked = 0
    for name, (function, inputs) in itertools.islice(SCALED.items(), 30):
        moved = gradient_report(function, tuple(leaf(x.array * 1.1) for x in inputs))
        for pair in (*report_of(name).pairs, *moved.pairs):
            sure = np.isfinite(pair.error)
            assert (pair.off[sure] <= pair.error[sure]).all()
            checked += int(sure.sum())
    assert checked > 500


# --- other ways to the same derivatives -------------------------------------------------------------------------------


class Cubed(tg.autograd.Function):
    """Right backwards, but for the derivative of backward: it takes its input as a constant."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * 3 * x**2 + (g - g.detach())  # one more g, of no value


class Counted(tg.autograd.Function):
    """Right for the first passes of its backward alone."""

    passes = 0

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        Counted.passes += 1
        return g * 2 if Counted.passes < 20 else g * 3


def test_every_way_that_pytorch_checks() -> None:
    x = tg.tensor([0.5, -1.0, 2.0], dtype=tg.float64, requires_grad=True)
    w = tg.tensor([[0.5, 2.0, 1.0]], dtype=tg.float64, requires_grad=True)

    def function(x: Any, w: Any) -> Any:
        return x.exp() * w, (w @ x).sin()

    assert gradcheck(function, (x, w), check_batched_grad=True, check_forward_ad=True, check_batched_forward_grad=True)
    assert gradcheck(function, (x, w), check_forward_ad=True, check_backward_ad=False, masked=True)
    assert gradgradcheck(function, (x, w), check_batched_grad=True, check_fwd_over_rev=True, masked=True)
    assert gradcheck(lambda x: x * 2, x, check_forward_ad=True)
    assert gradcheck(Cubed.apply, x)
    with pytest.raises(GradcheckError, match=r"J v found forwards gives .* where backward gives"):
        gradcheck(Cubed.apply, x, check_forward_ad=True)
    with pytest.raises(ValueError, match="check_batched_forward_grad=True needs check_forward_ad=True"):
        gradcheck(function, (x, w), check_batched_forward_grad=True)


def test_batched_gradients_that_differ_are_told() -> None:
    x = tg.tensor([0.5, -1.0], dtype=tg.float64, requires_grad=True)
    report = Report()
    Counted.passes = 17  # two rows alone, and the third pass is the first of both together
    check_other_ways(report, Counted.apply, x, batched=True)
    assert report.problems == [("wrong", "batched gradients of input 0 are not those of one pass each")]
    Counted.passes = 0
    check_other_ways(fine := Report(), Counted.apply, x, batched=True)
    assert not fine.problems

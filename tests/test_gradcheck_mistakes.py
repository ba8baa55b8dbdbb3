"""Mistakes that are told by more than single numbers: an eps, an axis, a mask, a lost share; and float32."""

from __future__ import annotations

import math
import re
import warnings
from typing import Any

import numpy as np
import pytest

import tinygrad_tf as tg
from tinygrad_tf.autograd import Function, check_backward, check_module, gradcheck, gradient_report
from tinygrad_tf.autograd.numeric import plateau
from tinygrad_tf.autograd.report import Report


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, 7, *shape]).standard_normal(shape)


def softmax(x: np.ndarray, axis: int = -1) -> np.ndarray:
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def softmax_backward(g: np.ndarray, x: np.ndarray, over: int | None = -1) -> np.ndarray:
    y = softmax(x)
    return y * (g - (g * y).sum(axis=over, keepdims=True))


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0)


EPS = 0.01


def scale(x: np.ndarray, kind: str, ddof: int = 0) -> np.ndarray:
    """1 / the deviation, with eps inside of the root, outside, or nowhere; or 1."""
    v = x.var(-1, keepdims=True, ddof=ddof)
    found: dict[str, np.ndarray] = {
        "inside": 1 / np.sqrt(v + EPS),
        "outside": 1 / (np.sqrt(v) + EPS),
        "none": 1 / np.sqrt(v),
        "one": np.ones_like(v),
    }
    return found[kind]


def norm(x: np.ndarray, w: np.ndarray, kind: str = "inside") -> np.ndarray:
    return w * (x - x.mean(-1, keepdims=True)) * scale(x, kind)


def norm_backward(
    g: np.ndarray, x: np.ndarray, w: np.ndarray, kind: str = "inside", ddof: int = 0, over: int = -1, last: str = ""
) -> tuple[np.ndarray, np.ndarray]:
    """last: the kind of the factor in front of it all, if it is another one."""
    s = scale(x, kind, ddof)
    y, d = (x - x.mean(-1, keepdims=True)) * s, g * w
    dx = d - d.mean(over, keepdims=True) - y * (d * y).mean(over, keepdims=True)
    return dx * scale(x, last or kind, ddof), (g * y).sum(0)


def norm_outside_backward(g: np.ndarray, x: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    s, c = scale(x, "outside"), x - x.mean(-1, keepdims=True)
    d = g * w * s - (g * w * c).mean(-1, keepdims=True) * s * s * c * scale(x, "none")
    return d - d.mean(-1, keepdims=True), (g * c * s).sum(0)


def rms_norm(x: np.ndarray) -> np.ndarray:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS)


def rms_norm_backward(g: np.ndarray, x: np.ndarray, eps: float = EPS, term: float = 1.0) -> np.ndarray:
    s = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + eps)
    return (g - term * x * s * s * (g * x).mean(-1, keepdims=True)) * s


def two_layers(x: np.ndarray, w: np.ndarray, v: np.ndarray) -> np.ndarray:
    return relu(x @ w) @ v


def two_layers_backward(g: np.ndarray, x: np.ndarray, w: np.ndarray, v: np.ndarray, of: str = "z") -> tuple[Any, ...]:
    z = x @ w
    dh = g @ v.T
    mask = {"z": z, "x": x, "out": relu(z) @ v, "gradient": dh}[of] > 0
    dz = dh * mask
    return dz @ w.T, x.T @ dz, relu(z).T @ g


def tied(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    return np.tanh(x @ w) @ w.T


def tied_backward(g: np.ndarray, x: np.ndarray, w: np.ndarray, shares: str = "both") -> tuple[np.ndarray, np.ndarray]:
    h = np.tanh(x @ w)
    dz = (g @ w) * (1 - h * h)
    first, second = x.T @ dz, g.T @ h
    return dz @ w.T, {"both": first + second, "first": first, "second": second}[shares]


def table_loss(table: np.ndarray, ids: np.ndarray) -> Any:
    return (np.tanh(table[ids]).sum(0) * 2 + np.tanh(table).sum(0)).sum()


def table_backward(g: Any, table: np.ndarray, ids: np.ndarray, shares: str = "both") -> np.ndarray:
    slope = g * (1 - np.tanh(table) ** 2)
    found = slope if shares != "rows" else np.zeros_like(slope)
    if shares != "head":
        found = found.copy()
        np.add.at(found, ids, 2 * slope[ids])
    return found


def causal(k: np.ndarray, q: np.ndarray, v: np.ndarray) -> np.ndarray:
    return softmax(np.where(np.tri(len(q), dtype=bool), q @ k.T, -np.inf)) @ v


def causal_backward(g: np.ndarray, k: np.ndarray, q: np.ndarray, v: np.ndarray, masked: bool = True) -> Any:
    scores = q @ k.T
    p = softmax(np.where(np.tri(len(q), dtype=bool), scores, -np.inf) if masked else scores)
    ds = p * (g @ v.T - (p * (g @ v.T)).sum(-1, keepdims=True))
    return ds.T @ q, ds @ k, p.T @ g


X, W, SQUARE, ROW = numbers(3, 5), numbers(5) + 2, numbers(4, 4), numbers(4, seed=3)
LAYERS = (numbers(3, 4, seed=1), numbers(4, 4, seed=2), numbers(4, 4, seed=3))
TIED, TABLE = (numbers(3, 4), numbers(4, 3)), (numbers(6, 3), np.array([1, 4, 2]))
ATTENTION = tuple(numbers(4, 3, seed=i) for i in range(3))
POSITIVE = np.abs(numbers(2, 4)) + 0.02

# name: forward, right backward, wrong backward, inputs, what is said
MISTAKES: dict[str, tuple[Any, Any, Any, tuple[Any, ...], str]] = {
    "eps left out of a norm": (
        norm,
        norm_backward,
        lambda *a: norm_backward(*a, kind="none"),
        (X, W),
        r"eps is left out: .* sqrt\(var \+ eps\)",
    ),
    "eps outside of the root": (
        norm,
        norm_backward,
        lambda *a: norm_backward(*a, kind="outside"),
        (X, W),
        "eps is outside of the root",
    ),
    "eps inside of the root": (
        lambda x, w: norm(x, w, "outside"),
        norm_outside_backward,
        norm_backward,
        (X, W),
        "eps is inside of the root",
    ),
    "a small eps left out": (
        lambda x, w: norm(x / 30, w),
        lambda g, x, w: (norm_backward(g, x / 30, w)[0] / 30, norm_backward(g, x / 30, w)[1]),
        lambda g, x, w: (norm_backward(g, x / 30, w, kind="none")[0] / 30, norm_backward(g, x / 30, w)[1]),
        (X * 30, W),
        "eps is left out",
    ),
    "n - 1 in backward": (
        norm,
        norm_backward,
        lambda *a: norm_backward(*a, ddof=1),
        (X, W),
        "n - 1 in backward and n in forward",
    ),
    "not divided by the deviation": (
        norm,
        norm_backward,
        lambda *a: norm_backward(*a, last="one"),
        (X, W),
        "not divided by the deviation",
    ),
    "eps left out of an RMS norm": (
        rms_norm,
        rms_norm_backward,
        lambda g, x: rms_norm_backward(g, x, eps=0.0),
        (X,),
        r"left out: .*mean\(x\^2\)",
    ),
    "the term of an RMS norm": (
        rms_norm,
        rms_norm_backward,
        lambda g, x: rms_norm_backward(g, x, term=5.0),
        (X,),
        "what lies along the input",
    ),
    "a mean too many": (
        rms_norm,
        rms_norm_backward,
        lambda g, x: rms_norm_backward(g, x) - rms_norm_backward(g, x).mean(-1, keepdims=True),
        (X,),
        "a mean too many",
    ),
    "eps left out of a root": (
        lambda x: np.sqrt(x + EPS),
        lambda g, x: g / 2 / np.sqrt(x + EPS),
        lambda g, x: g / 2 / np.sqrt(x),
        (POSITIVE,),
        "eps is left out: forward adds one to x",
    ),
    "eps left out of a division": (
        lambda a, b: a / (b + EPS),
        lambda g, a, b: (g / (b + EPS), (-g * a / (b + EPS) ** 2).sum(0)),
        lambda g, a, b: (g / (b + EPS), (-g * a / b**2).sum(0)),
        (numbers(3, 4), POSITIVE[0]),
        "eps is left out: forward adds one to b",
    ),
    "a softmax over the wrong axis": (
        softmax,
        softmax_backward,
        lambda g, x: softmax_backward(g, x, over=0),
        (numbers(3, 4),),
        "over the wrong axis: the function mixes elements along axis 1, and the gradient those along axis 0",
    ),
    "a softmax over all axes": (
        softmax,
        softmax_backward,
        lambda g, x: softmax_backward(g, x, over=None),
        (numbers(3, 4),),
        "over too many axes",
    ),
    "a norm over the wrong axis": (
        norm,
        norm_backward,
        lambda *a: norm_backward(*a, over=0),
        (X, W),
        "over the wrong axis",
    ),
    "a bias summed over the wrong axis": (
        lambda x, b: x * b,
        lambda g, x, b: (g * b, (g * x).sum(0)),
        lambda g, x, b: (g * b, (g * x).sum(1)),
        (SQUARE, ROW),
        "summed over the wrong axis: over axis 1 in place of 0 of x",
    ),
    "behind a loss": (
        lambda x, b: np.tanh(x * b).sum(),
        lambda g, x, b: (lambda d: (d * b, (d * x).sum(0)))(g / np.cosh(x * b) ** 2),
        lambda g, x, b: (lambda d: (d * b, (d * x).sum(1)))(g / np.cosh(x * b) ** 2),
        (SQUARE, ROW),
        "summed over the wrong axis: over axis 1 in place of 0 of x",
    ),
    "spread over the wrong axis": (
        lambda x: (x * x).mean(0),
        lambda g, x: 2 * x * g / 4,
        lambda g, x: 2 * x * g[:, None] / 4,
        (SQUARE,),
        "spread over the wrong axis: axis 0 of the output belongs to axis 1 of the input",
    ),
    "a relu masked by its layer's input": (
        two_layers,
        two_layers_backward,
        lambda *a: two_layers_backward(*a, of="x"),
        LAYERS,
        "another mask: .* it is zero where x is not positive",
    ),
    "a relu masked by the result": (
        two_layers,
        two_layers_backward,
        lambda *a: two_layers_backward(*a, of="out"),
        LAYERS,
        "it is zero where the result is not positive",
    ),
    "the opposite mask of what is left": (
        lambda x, m: relu(x) * m,
        lambda g, x, m: g * (x > 0) * m,
        lambda g, x, m: g * (x > 0) * (1 - m),
        (numbers(3, 4), np.eye(3, 4, dtype=int)),
        "the gradient flows only where it must be zero",
    ),
    "no causal mask": (
        causal,
        causal_backward,
        lambda *a: causal_backward(*a, masked=False),
        ATTENTION,
        "the causal mask is missing",
    ),
    "one share of x f(x)": (
        lambda x: x * sigmoid(x),
        lambda g, x: g * sigmoid(x) * (1 + x * (1 - sigmoid(x))),
        lambda g, x: g * sigmoid(x),
        (numbers(3, 4),),
        "x is used more than once, and only one share",
    ),
    "the other share of x f(x)": (
        lambda x: x * sigmoid(x),
        lambda g, x: g * sigmoid(x) * (1 + x * (1 - sigmoid(x))),
        lambda g, x: g * x * sigmoid(x) * (1 - sigmoid(x)),
        (numbers(3, 4),),
        "one share of its gradient is lost",
    ),
    "tied weights, the last use alone": (
        tied,
        tied_backward,
        lambda *a: tied_backward(*a, shares="second"),
        TIED,
        "w is used more than once, and only one",
    ),
    "tied weights, the first use alone": (
        tied,
        tied_backward,
        lambda *a: tied_backward(*a, shares="first"),
        TIED,
        "w is used more than once, and one share",
    ),
    "a table without its look-up": (
        table_loss,
        table_backward,
        lambda *a: table_backward(*a, shares="head"),
        TABLE,
        "wrong are just the rows",
    ),
    "a table with its look-up alone": (
        table_loss,
        table_backward,
        lambda *a: table_backward(*a, shares="rows"),
        TABLE,
        "only the rows that are looked up",
    ),
    "a factor of both sizes": (
        lambda x: np.tanh(x / 1e-9),
        lambda g, x: g / np.cosh(x / 1e-9) ** 2 / 1e-9,
        lambda g, x: g / np.cosh(x / 1e-9) ** 2,
        (numbers(3, 4) * 1e-9,),
        "a constant factor: the gradient is 1e-09 times",
    ),
    "the root of n less 1": (
        lambda x: x.std(0, ddof=1),
        lambda g, x: g * (x - x.mean(0)) / 4 / x.std(0, ddof=1),
        lambda g, x: g * (x - x.mean(0)) / 5 / x.std(0),
        (numbers(5, 2),),
        "sqrt.4/5., of the size of axis 0 of the input",
    ),
    "the result as a factor": (
        relu,
        lambda g, x: g * (x > 0),
        lambda g, x: g * relu(x),
        (numbers(6),),
        "multiplied by .* once more than it must",
    ),
    "float16 in backward": (
        np.sin,
        lambda g, x: g * np.cos(x),
        lambda g, x: (g * np.cos(x)).astype(np.float16).astype(float),
        (numbers(6),),
        "rounded to float16",
    ),
    "one of two halves of a pool": (
        lambda x: x.reshape(3, 2).mean(1),
        lambda g, x: np.repeat(g, 2) / 2,
        lambda g, x: np.tile(g, 2) / 2,
        (numbers(6),),
        "permuted",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_named(name: str) -> None:
    forward, right, wrong, inputs, words = MISTAKES[name]
    assert check_backward(forward, right, inputs).verdict == "right"
    report = check_backward(forward, wrong, inputs, raise_exception=False)
    assert report.verdict == "wrong" and any(re.search(words, d) for d in report.diagnosis), str(report)


def test_a_mask_of_the_gradient_itself_is_told_by_its_sign() -> None:
    inputs = (numbers(3, 4),)
    report = check_backward(relu, lambda g, x: g * (x > 0) * (g > 0), inputs, raise_exception=False)
    assert "a mask is taken from the gradient itself (grad > 0)" in report.problems[0][1]


# --- what does not fit is not said ------------------------------------------------------------------------------------

SILENT: dict[str, tuple[Any, Any, tuple[Any, ...], str]] = {
    "sums of a softmax are 1": (
        lambda x: np.log(np.exp(x).sum(1)),
        lambda g, x: np.ones_like(x) * g[:, None],
        (numbers(3, 4),),
        "summed over",
    ),
    "so are those of the maximum": (
        lambda x: x.max(1),
        lambda g, x: np.ones_like(x) * g[:, None],
        (numbers(3, 4),),
        "summed over",
    ),
    "a tiny gradient is no slice of a huge one": (
        lambda x: np.tanh(x / 1e-5),
        lambda g, x: g / np.cosh(x / 1e-5) ** 2,
        (numbers(3, 4) * 1e-5,),
        "not summed",
    ),
    "a huge gradient does not make the function flat": (
        lambda x: np.tanh(x / 1e9),
        lambda g, x: g / np.cosh(x / 1e9) ** 2,
        (numbers(3, 4) * 1e9,),
        "stand-in|softmax",
    ),
    "a constant factor is no eps": (np.tanh, lambda g, x: 1.1 * g / np.cosh(x) ** 2, (numbers(3, 4),), "eps"),
    "a sum over another axis is no mask": (softmax, lambda g, x: softmax_backward(g, x, over=0), (SQUARE,), "mask"),
    "a wrong formula is no share": (
        lambda x: x * sigmoid(x),
        lambda g, x: g * sigmoid(x) * (1 + x * sigmoid(x)),
        (numbers(3, 4),),
        "share",
    ),
}


@pytest.mark.parametrize("name", SILENT)
def test_what_does_not_fit_is_not_said(name: str) -> None:
    forward, wrong, inputs, words = SILENT[name]
    report = check_backward(forward, wrong, inputs, raise_exception=False)
    assert report.verdict == "wrong" and not any(re.search(words, d) for d in report.diagnosis), str(report)


def test_large_steps_alone_do_not_acquit() -> None:
    """A far too small analytic value has nothing to do with what steps see that are too large for the function."""
    differences = np.array([[52.0], [207.0], [829.0], [5e4], [5.1e4], [5.1e4]])
    value, _ = plateau(differences, np.array([0.5]), np.array([5.1e4]))
    assert math.isnan(float(value[0]))


# --- float32 ----------------------------------------------------------------------------------------------------------


def loss(z: np.ndarray, target: np.ndarray) -> Any:
    shifted = z - z.max(-1, keepdims=True)
    return -(shifted - np.log(np.exp(shifted).sum(-1, keepdims=True)))[np.arange(len(z)), target].mean()


def loss_backward(g: Any, z: np.ndarray, target: np.ndarray) -> np.ndarray:
    p = softmax(z)
    p[np.arange(len(z)), target] -= 1
    return p * g / len(z)


IN_FLOAT32: dict[str, tuple[Any, Any, tuple[Any, ...]]] = {
    "norm": (norm, norm_backward, (X, W)),
    "rms_norm": (rms_norm, rms_norm_backward, (X,)),
    "softmax of large numbers": (softmax, softmax_backward, (4 * X,)),
    "cross-entropy": (loss, loss_backward, (4 * X, np.array([1, 4, 0]))),
    "tied": (tied, tied_backward, TIED),
    "attention": (causal, causal_backward, ATTENTION),
    "tiny": (lambda x: x**5, lambda g, x: 5 * g * x**4, (np.array([1e-3, 0.02, 0.3, 4.0]),)),
    "a mean that matters": (norm, norm_backward, (X + 100, W)),
}


def short(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(x.astype(np.float32) if x.dtype == np.float64 else x for x in inputs)


def quietly(*arguments: Any) -> Report:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return check_backward(*arguments, raise_exception=False)


@pytest.mark.parametrize("name", IN_FLOAT32)
def test_right_gradients_in_float32_are_right_however_small_their_entries(name: str) -> None:
    forward, backward, inputs = IN_FLOAT32[name]
    report = quietly(forward, backward, short(inputs))
    assert report.verdict == "right", str(report)


def test_a_wrong_entry_is_seen_in_float32_beside_large_ones() -> None:
    """With differences of float32 it is below the uncertainty."""
    x = np.array([1e-3, 0.02, 0.3, 4.0], np.float32)
    wrong = np.array([1, 1.01, 1, 1], np.float32)
    report = quietly(lambda x: (x**2).sum(), lambda g, x: g * 2 * x * wrong, (x,))
    assert report.verdict == "wrong" and report.pairs[0].wrong.sum() == 1


def test_what_is_nearly_right_is_not_said_to_be_in_the_wrong_order() -> None:
    """The Jacobian of a gain is its own transpose, and the gradient is as near to the one as to the other."""
    off = 1 + 3e-4 * numbers(4, 4, seed=8)
    report = quietly(lambda x, w: x * w, lambda g, x, w: (g * w, (g * x * off).sum(0)), short((SQUARE, ROW)))
    assert report.verdicts == {"x": "right", "w": "wrong"} and not report.diagnosis, str(report)


def test_a_function_that_insists_on_float32_is_checked_in_it() -> None:
    def forward(x: np.ndarray) -> np.ndarray:
        assert x.dtype == np.float32
        return np.sin(x)

    x = numbers(4).astype(np.float32)
    assert quietly(forward, lambda g, x: g * np.cos(x), (x,)).verdict == "right"
    assert quietly(forward, lambda g, x: g * np.sin(x), (x,)).verdict == "wrong"


def test_tensors_of_float32_keep_their_memory_and_their_dtype() -> None:
    x = tg.tensor(numbers(3, 4).astype(np.float32), requires_grad=True)
    before, seen = x.detach().numpy().copy(), set()

    def function(x: Any) -> Any:
        seen.add(str(x.dtype))
        return tg.softmax(x, -1)

    report = gradient_report(function, (x,))
    assert report.verdict == "right" and report.worst_error < 1e-4 and len(seen) == 2
    assert x.dtype == tg.float32 and x.grad is None and np.array_equal(x.detach().numpy(), before)
    assert gradcheck(function, (x,), check_grad_dtypes=True)


def test_the_sum_of_a_softmax_in_float32_is_right_though_rounding_is_all_it_has() -> None:
    x = tg.tensor(numbers(5).astype(np.float32), requires_grad=True)
    assert gradient_report(lambda x: tg.softmax(x, -1).sum(), (x,)).verdict == "right"


# --- every way in -----------------------------------------------------------------------------------------------------


class Silu(Function):
    """x sigmoid(x), with one share of its gradient."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * tg.sigmoid(x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * tg.sigmoid(x)


class Gate(tg.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = tg.nn.Parameter(tg.tensor(numbers(4).astype(np.float32)))

    def forward(self, x: Any) -> Any:
        return x * Silu.apply(self.weight)


def test_functions_and_modules_are_told_the_same() -> None:
    x = tg.tensor(numbers(4), requires_grad=True)
    words = "is used more than once, and only one share of its gradient is there"
    assert words in gradient_report(lambda x: Silu.apply(x), (x,)).diagnosis[0]
    report = check_module(Gate(), numbers(3, 4), raise_exception=False)
    assert report.verdicts == {"x": "right", "weight": "wrong"} and f"weight {words}" in report.diagnosis[0]


def test_what_is_of_another_package_is_refused_by_name() -> None:
    class Foreign:
        __module__ = "torch.nn"

    for check in (lambda x: gradcheck(lambda x: x, (x,)), lambda x: check_module(x, numbers(3))):
        with pytest.raises(TypeError, match=r"a Foreign of PyTorch itself.*import tinygrad_tf as torch"):
            check(Foreign())
    with pytest.raises(TypeError, match="of PyTorch itself"):
        check_backward(lambda x: x, lambda g, x: g, (Foreign(),))

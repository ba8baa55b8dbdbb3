"""NumPy's arrays beside tensors: those of other classes, those that take results, its warnings, read-only memory."""

from __future__ import annotations

import contextlib
import contextvars
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinygrad_tf as tg
from tinygrad_tf import engine, nn
from tinygrad_tf._quiet import computed, quiet
from tinygrad_tf.checks.table import CASES, Case
from tinygrad_tf.nn import functional as F

pytestmark = pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")  # of np.matrix

VALUES = [[1.0, 2.0], [3.0, 4.0]]
SQUARES = [[1.0, 4.0], [9.0, 16.0]]


class Own(np.ndarray):
    """A class with a product of its own, as np.matrix has one."""

    def __mul__(self, other: Any) -> Any:
        raise AssertionError("a tensor's product is not this one's")

    __rmul__ = __mul__


def of_class(name: str, folder: Path) -> np.ndarray:
    """The VALUES as an array of a class that is not NumPy's plain one."""
    array = np.array(VALUES)
    if name == "matrix":
        return np.asmatrix(array)
    if name == "masked array":
        return np.ma.masked_array(array, mask=False)
    if name == "memory map":
        mapped: Any = np.memmap(folder / "values", np.float64, "w+", shape=(2, 2))
        mapped[...] = array
        return mapped
    return array.view(Own)


TAKERS: dict[str, Callable[[Any], Any]] = {
    "tensor": tg.tensor,
    "as_tensor": tg.as_tensor,
    "from_numpy": tg.from_numpy,
    "Tensor": tg.Tensor,
    "DoubleTensor": tg.DoubleTensor,
    "new_tensor": lambda x: tg.ones(1, dtype=tg.float64).new_tensor(x),
    "Parameter": lambda x: nn.Parameter(tg.from_numpy(x)),
    "a list": lambda x: tg.tensor([x])[0],
    "written": lambda x: tg.zeros(2, 2, dtype=tg.float64).copy_(x),
}


@pytest.mark.parametrize("name", ["matrix", "masked array", "memory map", "another class"])
@pytest.mark.parametrize("taker", TAKERS)
def test_arrays_of_other_classes_become_plain_ones(taker: str, name: str, tmp_path: Path) -> None:
    array = of_class(name, tmp_path)
    x = TAKERS[taker](array)
    assert type(x.array) is np.ndarray and (x * x).tolist() == SQUARES and x[0].shape == (2,)
    if taker in ("from_numpy", "as_tensor"):
        assert np.shares_memory(x.array, array)


@pytest.mark.parametrize("name", ["matrix", "masked array", "memory map", "another class"])
def test_arrays_of_other_classes_are_operands_like_plain_ones(name: str, tmp_path: Path) -> None:
    x, other = tg.tensor(VALUES, dtype=tg.float64, requires_grad=True), of_class(name, tmp_path)
    for out in (x * other, tg.mul(x, other), tg.where(x > 0, x * other, other)):
        assert type(out.array) is np.ndarray and out.tolist() == SQUARES
    (x * other).sum().backward()
    assert type(x.grad.array) is np.ndarray and x.grad.tolist() == VALUES


@pytest.mark.parametrize("taker", [*TAKERS, "operand"])
def test_masked_entries_are_told(taker: str) -> None:
    array = np.ma.masked_array(VALUES, mask=[[False, True], [False, False]])
    take = TAKERS.get(taker, lambda x: tg.ones(2, 2) + x)
    with pytest.raises(TypeError, match=r"masked entries, got an array with 1; fill them first: x\.filled\(value\)"):
        take(array)
    assert take(array.filled(5.0)).array[0, 1] in (5.0, 6.0)


# --- NumPy's functions that write into an array -----------------------------------------------------------------------


def test_an_array_that_a_tensor_is_added_to_stays_an_array() -> None:
    array = kept = np.ones(2, np.float32)
    array += tg.tensor([1.0, 2.0])
    array *= tg.tensor([2.0, 2.0], dtype=tg.float64)
    assert array is kept and array.tolist() == [4.0, 6.0]
    assert np.add(array, tg.ones(2), out=kept) is kept and kept.tolist() == [5.0, 7.0]
    with pytest.raises(RuntimeError, match=r"requires a gradient; use tensor\.detach\(\)\.numpy\(\)"):
        array += tg.ones(2, requires_grad=True)
    with pytest.raises(TypeError, match="add: out must be a NumPy array, got a tensor"):
        np.add(array, array, out=tg.ones(2))
    assert kept.tolist() == [5.0, 7.0]


# --- memory that is not written to ------------------------------------------------------------------------------------


def read_only(kind: str) -> tg.Tensor:
    if kind == "buffer":
        return tg.frombuffer(np.arange(3.0).tobytes(), dtype=tg.float64)
    array = np.arange(6.0)
    array.flags.writeable = False
    return tg.from_numpy(array[:3] if kind == "slice" else array)


@pytest.mark.parametrize("kind", ["array", "slice", "buffer"])
def test_read_only_memory_is_named(kind: str) -> None:
    x = read_only(kind)
    for write in (lambda: x.add_(1), lambda: x.fill_(1), lambda: x.__setitem__(0, 1.0), lambda: x[1:].mul_(2)):
        with pytest.raises(RuntimeError, match=r"memory of a read-only array or buffer; use \.clone\(\) first"):
            write()
    assert x[:3].tolist() == [0.0, 1.0, 2.0] and x.clone().add_(1)[0] == 1.0


def test_read_only_views_of_what_can_be_written_to_are_named() -> None:
    view = np.arange(3.0)[:]
    view.flags.writeable = False
    with pytest.raises(RuntimeError, match="add_: this is a read-only view of an array that can be written to; use"):
        tg.from_numpy(view).add_(1)


def test_what_of_an_expanded_tensor_is_each_once_can_be_written_to() -> None:
    base = tg.ones(3, 1)
    base.expand(3, 2)[:, 0].add_(1)
    assert base.tolist() == [[2.0]] * 3
    with pytest.raises(RuntimeError, match="several elements of this expanded tensor share memory"):
        base.expand(3, 2).add_(1)


# Views of 12 elements, and whether two of their elements share memory.
OVERLAPPING: dict[str, tuple[Callable[[tg.Tensor], tg.Tensor], bool]] = {
    "windows": (lambda x: x.unfold(0, 3, 1), True),
    "windows side by side": (lambda x: x.unfold(0, 3, 3), False),
    "windows with gaps": (lambda x: x.unfold(0, 2, 4), False),
    "windows of a matrix": (lambda x: x.view(3, 4).unfold(1, 2, 1), True),
    "strides": (lambda x: tg.as_strided(x, (2, 3), (1, 1)), True),
    "strides that miss each other": (lambda x: tg.as_strided(x, (2, 2), (3, 2)), False),
    "strides of 2 and 3": (lambda x: tg.as_strided(x, (2, 3), (3, 2)), False),  # 0 2 4, 3 5 7: each once
    "strides of 2 and 4": (lambda x: tg.as_strided(x, (2, 3), (4, 2)), True),
    "transposed": (lambda x: x.view(3, 4).t(), False),
    "every other": (lambda x: x[::2], False),
    "a block": (lambda x: x.view(3, 4)[1:, :2], False),
}


@pytest.mark.parametrize("name", OVERLAPPING)
def test_elements_that_share_memory_are_not_computed_in_place(name: str) -> None:
    view, overlap = OVERLAPPING[name]
    x = tg.arange(12.0)
    before = view(x).clone()
    if overlap:
        with pytest.raises(RuntimeError, match=r"add_: elements of this tensor share memory, .*use \.clone\(\) first"):
            view(x).add_(1)
        assert x.tolist() == list(range(12))
    else:
        assert view(x).add_(1).tolist() == (before + 1).tolist() and x.sum().item() == 66 + before.numel()
    view(x).fill_(-1)  # one value everywhere depends on no order
    assert bool((view(x) == -1).all())


def test_writes_to_windows_have_no_gradient() -> None:
    x, values = tg.zeros(5), tg.ones(3, 3, requires_grad=True)
    with pytest.raises(RuntimeError, match="elements of this tensor share memory"):
        x.unfold(0, 3, 1).copy_(values)
    x.unfold(0, 3, 3).copy_(values[:1])
    x.sum().backward()
    assert values.grad.tolist() == [[1.0] * 3, [0.0] * 3, [0.0] * 3]


def test_memory_that_a_stride_of_0_repeats_is_not_written_to() -> None:
    for x in (tg.ones(1).expand(3), tg.as_strided(tg.ones(1), (3,), (0,))):
        for write in (lambda x=x: x.add_(1), lambda x=x: x.fill_(2)):
            with pytest.raises(RuntimeError, match="several elements of this expanded tensor share memory"):
                write()


# --- NumPy's warnings: NaN and infinity are values --------------------------------------------------------------------

EXTREMES = np.array([3e38, -3e38, np.inf, -np.inf, np.nan, 0.0, 1e-42, -1.0, 2.0], np.float32)


@pytest.mark.parametrize("case", [c for c in CASES if c.function is not None and c.make is None], ids=lambda c: c.name)
def test_no_operation_warns(case: Case) -> None:
    """Every row of the table, of float32 and of float16, forwards and backwards, at numbers that break it."""
    for dtype in (np.float32, np.float16):
        run, leaves = case.build(np.random.default_rng(0), dtype)
        rng = np.random.default_rng(1)
        for leaf in leaves:
            with np.errstate(all="ignore"):
                leaf.array[...] = rng.choice(EXTREMES, leaf.array.shape)
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            with contextlib.suppress(RuntimeError, ValueError, TypeError):  # what is told of such numbers
                run().sum().backward()


X = tg.from_numpy(EXTREMES)
QUIET: dict[str, Callable[[], Any]] = {
    "compare": lambda: (X.half() > 1e6, X == 1e300, X.isclose(X)),
    "make": lambda: (tg.full((1,), float("inf")), tg.Tensor([1e300]), X.new_tensor([1e300]), tg.tensor([1e300])),
    "cast": lambda: [X.to(kind) for kind in (tg.float16, tg.bfloat16, tg.int32, tg.bool, tg.float64)],
    "mix": lambda: (
        tg.tensor([70000]) * tg.tensor(2.0, dtype=tg.half),
        tg.ones(2) * tg.tensor(1e300, dtype=tg.float64),
    ),
    "in place": lambda: (X.clone().mul_(X), tg.ones(1).add_(tg.tensor(1e300, dtype=tg.float64))),
    "assign": lambda: tg.zeros(9, dtype=tg.half).copy_(X),
    "scatter": lambda: X.scatter_reduce(0, tg.zeros(9, dtype=tg.int64), X, "prod"),
    "linalg": lambda: (tg.linalg.slogdet(X.view(3, 3)), X.view(3, 3) @ X.view(3, 3)),
    "normal": lambda: tg.zeros(4, dtype=tg.half).normal_(0, 1e6),
    "loss": lambda: F.gaussian_nll_loss(X, X.flip(0), X * X),
}


@pytest.mark.parametrize("name", QUIET)
def test_nothing_else_warns(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        QUIET[name]()


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "Adagrad", "RMSprop"])
def test_no_step_warns(name: str) -> None:
    p = nn.Parameter(X.clone())
    optimizer = getattr(tg.optim, name)([p], lr=1e30)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        for sign in (1.0, -1.0, 1.0):
            (p * X * sign).sum().backward()  # inf and -inf meet in .grad
            optimizer.step()


def test_quiet_ends_with_its_block_inside_of_itself_and_after_an_error() -> None:
    """Also where the user's own settings are set inside of it, and the user's variables of the context stay."""
    mine = contextvars.ContextVar("mine", default=0)
    mine.set(1)
    with np.errstate(over="raise"):
        outside = np.geterr()
        with quiet():
            with quiet(), pytest.raises(ZeroDivisionError), quiet():
                assert set(np.geterr().values()) == {"ignore"} and mine.get() == 1
                raise ZeroDivisionError
            assert set(np.geterr().values()) == {"ignore"}
            with np.errstate(over="raise"), pytest.raises(FloatingPointError):
                np.float32(3e38) * np.float32(10.0)
            assert computed(computed, (mine.get, [], {}), {}) == 1
        assert np.geterr() == outside


def test_numpys_own_settings_stay_those_of_the_user() -> None:
    """In every thread, and while operations run inside of others, whether they fail or not."""
    seen: list[Any] = []

    def run() -> None:
        before = np.geterr()
        assert (tg.tensor([3e38]) * 10.0).item() == np.inf
        with pytest.raises(RuntimeError, match="inner sizes"):
            tg.ones(2, 3) @ tg.ones(2, 3)
        seen.append(np.geterr() == before)
        with np.errstate(over="raise"):
            assert (tg.tensor([3e38]) * 10.0).item() == np.inf
            with pytest.raises(FloatingPointError):
                np.float32(3e38) * np.array([10.0], np.float32)
        with pytest.warns(RuntimeWarning, match="overflow"):
            np.array([3e38], np.float32) * np.float32(10.0)

    run()
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [True, True]


def test_an_operation_may_run_inside_another() -> None:
    """As when somebody looks at tensors in a debugger that stopped in a forward."""

    @engine.primitive(x=lambda g: g)
    def outer(x: np.ndarray) -> np.ndarray:
        assert (tg.tensor([3e38]) * 10.0).item() == np.inf
        with pytest.raises(RuntimeError, match="negative integer powers"):
            tg.tensor([2]) ** -1
        raise RuntimeError("told once")

    calls = []
    failing = engine.primitive(x=lambda g: g)(lambda x: calls.append(1) or outer(tg.ones(1)))
    with pytest.raises(RuntimeError, match="told once"):
        failing(tg.ones(1))
    assert calls == [1]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.clip(x, 0.0, 1.0),
        lambda x: np.clip(x, None, 2.0),
        np.round,
        np.transpose,
        lambda x: np.reshape(x, (4,)),
        np.argmax,
        lambda x: np.argmax(x, 1),
        np.cumsum,
        np.argsort,
        lambda x: np.repeat(x, 2),
        np.linalg.inv,
        lambda x: np.take(x, 0),
    ],
)
def test_numpys_functions_of_a_tensor_give_a_tensor(function: Any) -> None:
    """As in PyTorch: images + noise, clipped by np.clip, go into the model."""
    torch = pytest.importorskip("torch")
    wanted, found = (function(t.tensor([[4.0, 1.0], [2.0, -3.0]])) for t in (torch, tg))
    assert isinstance(wanted, torch.Tensor) and isinstance(found, tg.Tensor)
    assert str(found.dtype) == str(wanted.dtype) and found.tolist() == wanted.tolist()

"""L-BFGS: PyTorch's trajectories, state that goes on, line searches that keep their promise, errors that help."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tinygrad_tf as tg
from tests.reference.lbfgs import PROBLEMS, SETTINGS, run_all, trajectory
from tests.reference.make import LBFGS_PATH
from tinygrad_tf import nn
from tinygrad_tf.optim import LBFGS, _line_search
from tinygrad_tf.optim._line_search import LineSearch, Trial, cubic_minimum
from tinygrad_tf.optim.lbfgs import two_loops


@pytest.fixture(scope="module")
def torch() -> ModuleType:
    return pytest.importorskip("torch")


@cache
def stored() -> dict[str, np.ndarray]:
    with np.load(LBFGS_PATH) as file:
        return {name: file[name] for name in file.files if name != "made_with"}


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_trajectories_are_pytorchs(problem: str, settings: str) -> None:
    wanted, found = stored()[f"{problem}, {settings}"], trajectory(tg, problem, SETTINGS[settings])
    np.testing.assert_array_equal(found[:, 1], wanted[:, 1])  # how often the closure ran
    np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-8)


def test_the_stored_trajectories_are_those_of_the_installed_torch(torch: ModuleType) -> None:
    found = run_all(torch)
    assert found.keys() == stored().keys()
    for name, array in found.items():
        np.testing.assert_allclose(array, stored()[name], rtol=1e-8, atol=1e-8, err_msg=name)


def valley(t: Any, start: list[float] | None = None, **settings: Any) -> tuple[Any, Any, Callable[[], Any]]:
    x = t.nn.Parameter(t.tensor(start or [-1.2, 1.0], dtype=t.float64))
    optimizer = t.optim.LBFGS([x], **settings)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2
        loss.backward()
        return loss

    return x, optimizer, closure


def test_state_and_settings_have_pytorchs_form(torch: ModuleType) -> None:
    states = []
    for t in (torch, tg):
        _, optimizer, closure = valley(t, max_iter=6, line_search_fn="strong_wolfe")
        fresh = optimizer.state_dict()
        assert fresh["state"] == {} and fresh["param_groups"][0]["max_eval"] == 7
        optimizer.step(closure)
        states.append(optimizer.state_dict())
    theirs, ours = states
    assert ours["param_groups"] == theirs["param_groups"]
    assert ours["state"].keys() == theirs["state"].keys() == {0}
    found, wanted = ours["state"][0], theirs["state"][0]
    assert found.keys() == wanted.keys()
    for name in ("n_iter", "func_evals"):
        assert found[name] == wanted[name]
    for name in ("t", "prev_loss", "H_diag"):
        assert math.isclose(float(found[name]), float(wanted[name]), rel_tol=1e-8)
    for name in ("d", "prev_flat_grad"):
        np.testing.assert_allclose(found[name].numpy(), wanted[name].numpy(), rtol=1e-8)
    for name in ("old_dirs", "old_stps"):
        np.testing.assert_allclose([a.numpy() for a in found[name]], [a.numpy() for a in wanted[name]], rtol=1e-8)
    np.testing.assert_allclose(found["ro"], [float(r) for r in wanted["ro"]], rtol=1e-8)
    assert len(found["al"]) == len(wanted["al"]) == 100  # history_size: PyTorch fills in what is not used yet
    for weight, same in zip(found["al"], wanted["al"], strict=True):
        assert (weight is None) == (same is None) and (same is None or math.isclose(weight, float(same), rel_tol=1e-7))


def converted(value: Any, t: Any) -> Any:
    """A state with the tensors of the library t."""
    if isinstance(value, dict):
        return {name: converted(part, t) for name, part in value.items()}
    if isinstance(value, list):
        return [converted(part, t) for part in value]
    return t.tensor(np.array(value.detach().numpy())) if hasattr(value, "detach") else value


@pytest.mark.parametrize("line_search", [None, "strong_wolfe"])
@pytest.mark.parametrize("moves", [1, 4])
def test_states_go_on_in_pytorch_and_back(torch: ModuleType, moves: int, line_search: str | None) -> None:
    settings = {"lr": 0.5, "max_iter": moves, "history_size": 3, "line_search_fn": line_search}
    for one, other in ((torch, tg), (tg, torch)):
        x, optimizer, closure = valley(one, **settings)
        optimizer.step(closure)
        y, second, second_closure = valley(other, x.tolist(), **settings)
        second.load_state_dict(converted(copy.deepcopy(optimizer.state_dict()), other))
        for _ in range(3):
            optimizer.step(closure)
            second.step(second_closure)
        np.testing.assert_allclose(y.tolist(), x.tolist(), rtol=1e-7)


@pytest.mark.parametrize("line_search", [None, "strong_wolfe"])
def test_state_goes_on_bit_for_bit(line_search: str | None, tmp_path: Any) -> None:
    settings = {"lr": 0.5, "max_iter": 3, "history_size": 2, "line_search_fn": line_search}
    x, optimizer, closure = valley(tg, **settings)
    optimizer.step(closure)
    optimizer.step(closure)
    tg.save({"x": x.detach(), "optimizer": optimizer.state_dict()}, tmp_path / "state")
    kept = copy.deepcopy(optimizer.state_dict()["state"][0]), optimizer.state_dict()["state"][0]
    optimizer.step(closure)
    for name in ("old_dirs", "ro"):  # a state asked for before is not written to by later steps
        assert len(kept[0][name]) == len(kept[1][name])
    assert kept[0]["ro"] == kept[1]["ro"] != optimizer.state_dict()["state"][0]["ro"]
    loaded = tg.load(tmp_path / "state")
    y, second, second_closure = valley(tg, loaded["x"].tolist(), **settings)
    second.load_state_dict(loaded["optimizer"])
    second.step(second_closure)
    np.testing.assert_array_equal(x.array, y.array)
    assert second.state[y]["n_iter"] == optimizer.state[x]["n_iter"] == 6  # two for each 3 * 5 // 4 evaluations


def test_loaded_state_takes_the_dtype_of_the_parameters() -> None:
    _, optimizer, closure = valley(tg, max_iter=5)
    optimizer.step(closure)
    p = nn.Parameter(tg.tensor([-1.2, 1.0]))
    single = LBFGS([p], max_iter=5)
    single.load_state_dict(optimizer.state_dict())
    single.step(lambda: (loss := (p * p).sum(), loss.backward())[0])
    state = single.state[p]
    assert {t.dtype for t in (p, state["d"], *state["old_dirs"], *state["old_stps"])} == {tg.float32}


@pytest.mark.parametrize("dtype", [tg.float32, tg.float64])
def test_a_quadratic_is_solved_and_keeps_its_dtype(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    a = tg.tensor(rng.normal(size=(6, 6)), dtype=dtype)
    b, x = tg.tensor(rng.normal(size=6), dtype=dtype), nn.Parameter(tg.zeros(6, dtype=dtype))
    optimizer = LBFGS([x], max_iter=200, line_search_fn="strong_wolfe")

    def closure() -> tg.Tensor:
        optimizer.zero_grad()
        loss = ((a @ x - b) ** 2).sum() + 0.1 * (x * x).sum()
        loss.backward()
        return loss

    with tg.no_grad():  # the closure records all the same
        optimizer.step(closure)
    assert x.dtype == optimizer.state[x]["d"].dtype == dtype and x.requires_grad
    exact = np.linalg.solve(a.array.T @ a.array + 0.1 * np.eye(6), a.array.T @ b.array)
    np.testing.assert_allclose(x.detach().numpy(), exact, atol=2e-3 if dtype == tg.float32 else 1e-5)


def test_the_product_is_that_with_the_matrix_of_the_book() -> None:
    """Equation 7.16 of Nocedal and Wright: H' = V^T H V + ro s s^T with V = 1 - ro y s^T, one remembered pair each."""
    rng = np.random.default_rng(0)
    history, matrix = [], np.eye(5) * 0.7
    for _ in range(3):
        y, s = rng.normal(size=(2, 5))
        s *= np.sign(y @ s)
        ro = 1.0 / float(y @ s)
        history.append((y, s, ro))
        v = np.eye(5) - ro * np.outer(y, s)
        matrix = v.T @ matrix @ v + ro * np.outer(s, s)
    q = rng.normal(size=5)
    product, weights = two_loops(q, history, 0.7)
    np.testing.assert_allclose(product, matrix @ q, rtol=1e-10)
    assert weights[-1] == float(history[-1][1] @ q) * history[-1][2]


# --- the line search --------------------------------------------------------------------------------------------------

LINES: dict[str, tuple[Callable[[float], float], Callable[[float], float]]] = {  # phi and its slope
    "parabola": (lambda t: (t - 3.0) ** 2, lambda t: 2.0 * (t - 3.0)),
    "flat, then steep": (lambda t: math.exp(t) - 3.0 * t, lambda t: math.exp(t) - 3.0),
    "waves": (lambda t: -t + 0.6 * math.sin(4 * t), lambda t: -1.0 + 2.4 * math.cos(4 * t) - 2.4),
    "a kink": (lambda t: abs(t - 1.0) + 0.01 * t * t, lambda t: (1.0 if t > 1.0 else -1.0) + 0.02 * t),
    "a wall": (lambda t: t * t - t if t < 1.0 else math.inf, lambda t: 2 * t - 1 if t < 1.0 else math.inf),
    "an end": (lambda t: -math.log(1.0 - t) - 2 * t if t < 1.0 else math.nan, lambda t: 1.0 / (1.0 - t) - 2),
}


def search(name: str, first: float, most: int = _line_search.MOST_TRIALS) -> tuple[Trial, list[float], Trial]:
    phi, slope = LINES[name]
    tried: list[float] = []

    def evaluate(t: float) -> Trial:
        tried.append(t)
        return Trial(t, phi(t), np.zeros(1), slope(t))

    start = Trial(0.0, phi(0.0), np.zeros(1), slope(0.0))
    return LineSearch(evaluate, start, 1.0, most).run(first), tried, start


@pytest.mark.parametrize("first", [1e-4, 0.1, 0.7, 1.3, 5.0, 50.0])
@pytest.mark.parametrize("name", [name for name in LINES if name not in ("a kink", "waves")])
def test_the_step_meets_the_strong_wolfe_conditions(name: str, first: float) -> None:
    found, tried, start = search(name, first)
    assert found.t in tried and len(tried) <= 26
    assert found.value <= start.value + 1e-4 * found.t * start.slope
    assert abs(found.slope) <= 0.9 * abs(start.slope)


def test_where_no_step_meets_them_the_lowest_is_taken() -> None:
    found, tried, _ = search("a kink", 0.3)
    assert found.value == min(LINES["a kink"][0](t) for t in tried)
    assert abs(found.t - 1.0) < 1e-2


@pytest.mark.parametrize("most", [1, 2, 3, 9])
def test_no_more_trials_than_allowed(most: int) -> None:
    found, tried, _ = search("a kink", 1e-9, most)
    assert len(tried) == most
    assert found.t in (0.0, *tried)


def scripted(*values: tuple[float, float]) -> tuple[Trial, list[float]]:
    """A search from value 0 and slope -1 whose trials have these values and slopes, wherever they are."""
    tried: list[float] = []

    def evaluate(t: float) -> Trial:
        tried.append(t)
        return Trial(t, values[len(tried) - 1][0], np.zeros(1), values[len(tried) - 1][1])

    start = Trial(0.0, 0.0, np.zeros(1), -1.0)
    return LineSearch(evaluate, start, 1.0, len(values)).run(1.0), tried


def test_a_step_grows_until_the_function_rises() -> None:
    """A value that is not below the last one ends the growth, from the third trial on, as in PyTorch."""
    found, tried = scripted((-10.0, -1.0), (-9.0, -1.0), (-8.0, -1.0), (-9.5, 0.0))
    assert tried[0] < tried[1] < tried[2] and tried[1] < tried[3] < tried[2]
    assert found.t == tried[3]


def test_of_two_ends_the_lower_is_kept() -> None:
    """Even where it has not fallen enough."""
    found, tried = scripted((5.0, 1.0), (-1e-6, 1.0), (-5e-7, 1.0))
    assert found.t == tried[1]


def test_a_level_step_that_has_hardly_fallen_is_not_taken() -> None:
    found, tried = scripted((-5e-5, 0.0), (-1.0, 0.0))
    assert tried[1] < tried[0] and found.t == tried[1]


def test_no_two_trials_follow_each_other_at_an_end() -> None:
    _, tried = scripted((-10.0, 0.95), (-9.9, -10.0), (-10.0, 0.0))
    assert 0.9 < tried[1] < tried[0]  # at the right end, which may happen once
    assert math.isclose(tried[2], tried[0] - 0.1 * (tried[0] - tried[1]))
    _, tried = scripted((-10.0, -1.0), (5.0, 1.0), (-9.9, 1.0), (-10.0, 0.0))
    assert tried[0] < tried[2] < tried[0] + 0.1 * (tried[1] - tried[0])  # at the left end
    assert math.isclose(tried[3] - tried[0], 0.1 * (tried[2] - tried[0]), rel_tol=1e-6)


def test_a_function_without_end_is_followed_for_26_trials() -> None:
    tried: list[float] = []

    def evaluate(t: float) -> Trial:
        tried.append(t)
        return Trial(t, -t, np.zeros(1), -1.0)

    found = LineSearch(evaluate, Trial(0.0, 0.0, np.zeros(1), -1.0), 1.0, 99).run(1.0)
    assert len(tried) == 26 and found.t == tried[-1] > 1e9


def test_the_cubic_is_met_exactly() -> None:
    def at(t: float) -> Trial:  # (t - 1) (t - 2) (t + 3), least at (sqrt(21)) / 3
        return Trial(t, t**3 - 7 * t + 6, np.zeros(1), 3 * t * t - 7)

    least = math.sqrt(7 / 3)
    for a, b in ((-1.0, 2.0), (0.5, 4.0), (3.0, 9.0), (1.0, 1.2)):
        for first, second in ((a, b), (b, a)):
            assert math.isclose(cubic_minimum(at(first), at(second), -10.0, 10.0), least, rel_tol=1e-12)
    assert cubic_minimum(at(0.5), at(4.0), 2.0, 4.0) == 2.0
    assert cubic_minimum(at(0.5), at(4.0), 0.5, 1.0) == 1.0
    falling = Trial(0.0, 0.0, np.zeros(1), -1.0), Trial(1.0, -1.0, np.zeros(1), -1.0)
    assert cubic_minimum(*falling, 0.0, 10.0) == 5.0  # a line has no least value
    assert cubic_minimum(falling[0], Trial(1.0, math.nan, np.zeros(1), -1.0), 0.0, 1.0) == 0.5


def test_a_loss_that_is_no_number_shortens_the_step() -> None:
    p = nn.Parameter(tg.tensor([2.0, 4.0], dtype=tg.float64))
    optimizer = LBFGS([p], lr=100.0, line_search_fn="strong_wolfe", max_iter=50)

    def closure() -> tg.Tensor:
        optimizer.zero_grad()
        loss = (p * 3 - p.log()).sum()  # NaN below 0, which the first trial reaches
        loss.backward()
        return loss

    optimizer.step(closure)
    np.testing.assert_allclose(p.detach().numpy(), 1 / 3, atol=1e-5)


# --- misuse -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (
            lambda p: LBFGS([{"params": [p]}, {"params": [nn.Parameter(p)]}]),
            ValueError,
            "there can be one parameter group",
        ),
        (lambda p: LBFGS([p]).add_param_group({"params": [nn.Parameter(p)]}), ValueError, "one parameter group"),
        (lambda p: LBFGS([p], lr=-1), ValueError, "lr must not be negative, got -1"),
        (lambda p: LBFGS([p], tolerance_grad=math.nan), ValueError, "tolerance_grad must not be negative, got nan"),
        (lambda p: LBFGS([p], history_size=0), ValueError, "history_size must be a whole number of at least 1, got 0"),
        (lambda p: LBFGS([p], line_search_fn="wolfe"), RuntimeError, "None or 'strong_wolfe', got 'wolfe'"),
        (lambda p: LBFGS([p]).step(), TypeError, "step needs a closure"),
        (lambda p: LBFGS([p]).step(lambda: None), TypeError, "the closure returned None; end it with `return loss`"),
    ],
)
def test_misuse_is_told(make: Callable[[Any], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words) as told:
        make(nn.Parameter(tg.tensor([1.0])))
    assert "\n" not in str(told.value)

"""Trajectories of L-BFGS on torch and on tinygrad_tf: Rosenbrock's valley, logistic regression, a small network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Problem = tuple[list[Any], Callable[[], Any]]  # the parameters, and the loss as a function of nothing


def rosenbrock(torch: Any) -> Problem:
    x = torch.nn.Parameter(torch.tensor(np.linspace(-1.2, 1.0, 4)))
    return [x], lambda: ((1 - x[:-1]) ** 2 + 100 * (x[1:] - x[:-1] ** 2) ** 2).sum()


def logistic(torch: Any) -> Problem:
    """Two parameters, a matrix's column and a number, and one that the loss does not use."""
    rng = np.random.default_rng(0)
    x, y = torch.tensor(rng.normal(size=(50, 4))), torch.tensor((rng.normal(size=50) > 0).astype(float))
    w, b, unused = (torch.nn.Parameter(torch.zeros(shape, dtype=torch.float64)) for shape in ((4, 1), (), (2,)))
    loss = torch.nn.functional.binary_cross_entropy_with_logits
    return [w, unused, b], lambda: loss((x @ w)[:, 0] + b, y) + 0.01 * (w * w).sum()


def network(torch: Any) -> Problem:
    rng = np.random.default_rng(1)
    x, y = torch.tensor(rng.normal(size=(30, 3))), torch.tensor(rng.normal(size=(30, 2)))
    model = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)).to(torch.float64)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.tensor(rng.normal(size=tuple(p.shape)) * 0.5))
    return list(model.parameters()), lambda: torch.nn.functional.mse_loss(model(x), y)


def one_number(torch: Any, start: float, f: Callable[[Any], Any]) -> Problem:
    x = torch.nn.Parameter(torch.tensor(start, dtype=torch.float64))
    return [x], lambda: f(x)


def kink(torch: Any) -> Problem:
    return one_number(torch, -3.0, lambda x: (x - 1.0).abs() + 0.05 * (x + 2.0) ** 2 + 0.3 * (x - 2.5).abs())


def waves(torch: Any) -> Problem:
    return one_number(torch, 4.0, lambda x: x * x / 8.0 + (5.0 * x).sin() + 0.3 * (17.0 * x).cos())


def walls(torch: Any) -> Problem:
    return one_number(torch, 0.2, lambda x: (x - 0.9) ** 2 - 1e-3 * (1.0 + 1e-6 - (0.01 * x).tanh()).log() + x**8)


PROBLEMS: dict[str, Callable[[Any], Problem]] = {"rosenbrock": rosenbrock, "logistic": logistic, "network": network}
PROBLEMS |= {"kink": kink, "waves": waves, "walls": walls}
SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {"lr": 0.1, "max_iter": 10},
    "short memory": {"lr": 0.1, "max_iter": 5, "history_size": 2},
    "searching": {"max_iter": 10, "line_search_fn": "strong_wolfe"},
    "from short steps": {"lr": 0.01, "max_iter": 7, "history_size": 3, "line_search_fn": "strong_wolfe"},
    "from long steps": {"lr": 30.0, "max_iter": 5, "line_search_fn": "strong_wolfe"},
    "one by one": {"max_iter": 1, "max_eval": 20, "line_search_fn": "strong_wolfe"},
    "many trials": {"lr": 5e-3, "max_iter": 3, "max_eval": 99, "line_search_fn": "strong_wolfe"},
    "many trials from far": {"lr": 1e4, "max_iter": 3, "max_eval": 99, "line_search_fn": "strong_wolfe"},
    "few evaluations": {"max_iter": 30, "max_eval": 4, "line_search_fn": "strong_wolfe"},
    "content with a small gradient": {"tolerance_grad": 0.05, "line_search_fn": "strong_wolfe"},
    "content with a small change": {"lr": 0.1, "tolerance_change": 1e-3},
}
STEPS = 4


def trajectory(torch: Any, problem: str, settings: dict[str, Any]) -> np.ndarray:
    """For each step the loss before it, how often the closure ran in it, and the parameters after it."""
    params, loss = PROBLEMS[problem](torch)
    optimizer = torch.optim.LBFGS(params, **settings)
    runs = 0

    def closure() -> Any:
        nonlocal runs
        runs += 1
        optimizer.zero_grad()
        value = loss()
        value.backward()
        return value

    rows = []
    for _ in range(STEPS):
        value = optimizer.step(closure).item()
        rows.append(np.concatenate([[value, runs], *[p.detach().numpy().reshape(-1) for p in params]]))
        runs = 0
    return np.array(rows)


def run_all(torch: Any) -> dict[str, np.ndarray]:
    return {
        f"{problem}, {name}": trajectory(torch, problem, settings)
        for problem in PROBLEMS
        for name, settings in SETTINGS.items()
    }

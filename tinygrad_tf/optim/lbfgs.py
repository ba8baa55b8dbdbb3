"""L-BFGS (Liu and Nocedal, 1989): Newton's step from the last few changes of position and gradient.

Algorithm and equation numbers are those of Nocedal and Wright, Numerical Optimization, 2nd edition, 2006.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from tinygrad_tf._quiet import quiet
from tinygrad_tf.engine import make, recording
from tinygrad_tf.optim._line_search import LineSearch, Trial
from tinygrad_tf.optim.optimizer import Optimizer, refuse_negative
from tinygrad_tf.tensor import Tensor

LEAST_CURVATURE = 1e-10  # y . s of a pair that is remembered; below it the estimate would not stay positive definite


class LBFGS(Optimizer):
    """x += t d with d = -H g, where H, the inverse of the second derivatives, is estimated from the last steps.

    For functions that give the same value when they are asked twice: all the data, no dropout. `step(closure)` makes up
    to max_iter such moves, and begins none after it has asked `closure` for the loss (and for the gradients, which it
    leaves by backward()) max_eval times, by default max_iter * 5 // 4; a line search may ask once more.

    lr: the step t; with line_search_fn="strong_wolfe" only the first that is tried of each line. tolerance_grad: enough
    when no entry of the gradient is larger. tolerance_change: enough when neither the loss nor any parameter moves by
    more. history_size: how many steps are remembered, each with two arrays of the size of all parameters.

    All parameters form one group. The state belongs to the first parameter: d, t, prev_flat_grad and prev_loss of the
    last move; the remembered changes of the gradient, y (`old_dirs`), and of the position, s (`old_stps`), with
    1 / (y . s) (`ro`) and the weights of the last product with them (`al`); the start H_diag; n_iter and func_evals.

    >>> from tinygrad_tf import nn, optim, tensor
    >>> x = nn.Parameter(tensor([-1.2, 1.0]))
    >>> optimizer = optim.LBFGS([x], line_search_fn="strong_wolfe", max_iter=50)
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2
    ...     loss.backward()
    ...     return loss
    >>> float(optimizer.step(closure))  # the loss before the step
    24.2...
    >>> bool((x - 1).abs().max() < 1e-3)
    True
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ):
        refuse_negative(lr=lr, tolerance_grad=tolerance_grad, tolerance_change=tolerance_change)
        if not (isinstance(history_size, int) and history_size >= 1):
            raise ValueError(f"LBFGS: history_size must be a whole number of at least 1, got {history_size!r}")
        if line_search_fn not in (None, "strong_wolfe"):
            raise RuntimeError(f"LBFGS: line_search_fn must be None or 'strong_wolfe', got {line_search_fn!r}")
        settings = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
        }
        super().__init__(params, settings)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """The one group; a second is an error."""
        if self.param_groups:
            raise ValueError(
                "LBFGS: there can be one parameter group, as one curvature is estimated for all parameters; give all "
                "in one list"
            )
        super().add_param_group(param_group)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Up to max_iter moves. closure() zeroes the gradients, computes the loss, calls backward and returns the loss.

        Returns the loss before the first move.
        """
        if closure is None:
            raise TypeError("LBFGS: step needs a closure that computes the loss, calls backward and returns the loss")
        run = _Run(self.param_groups[0], closure)
        loss = run.ask()
        with recording(False), quiet():
            run.go(self.state[run.params[0]])
        return loss

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take state and settings over; vectors take the parameters' dtype, PyTorch's tensors of one number are it."""
        super().load_state_dict(state_dict)
        dtype = self.param_groups[0]["params"][0].dtype

        def fitting(value: Any) -> Any:
            if isinstance(value, list):
                return [fitting(part) for part in value]
            if isinstance(value, Tensor):
                return value.to(dtype) if value.ndim else value.item()
            return value

        for state in self.state.values():
            state.update({name: fitting(value) for name, value in state.items()})


class _Run:
    """One call of `step`: the loss and its gradient where the parameters are now, and how often the closure ran."""

    def __init__(self, group: dict[str, Any], closure: Callable[[], Any]):
        self.group, self.closure, self.asked = group, closure, 0
        self.params: list[Tensor] = group["params"]
        self.warnings = np.geterr()  # the closure runs with the user's settings
        self.loss: float
        self.gradient: np.ndarray

    def ask(self) -> Any:
        """Run the closure."""
        with recording(True), np.errstate(**self.warnings):
            loss = self.closure()
        if loss is None:
            raise TypeError("LBFGS: the closure returned None; end it with `return loss`")
        self.asked += 1
        self.loss = float(loss)
        parts = [np.zeros_like(p.array) if p._grad is None else p._grad.array for p in self.params]
        self.gradient = np.concatenate([part.reshape(-1) for part in parts])
        return loss

    def go(self, state: dict[str, Any]) -> None:
        """Moves, until one of the settings says that it is enough."""
        group, moves, before = self.group, 0, state.get("n_iter", 0)
        enough = largest(self.gradient) <= group["tolerance_grad"]
        while not enough and moves < group["max_iter"]:
            moves += 1
            direction, t = self.direction(state), float(group["lr"])
            if before + moves == 1:  # there is no curvature to tell how far to go
                t *= min(1.0, 1.0 / float(np.abs(self.gradient).sum()))
            slope, loss = float(self.gradient @ direction), self.loss
            state.update(d=make(direction), t=t, prev_flat_grad=make(self.gradient), prev_loss=loss)
            if slope > -group["tolerance_change"]:
                break
            t = state["t"] = self.along(direction, t, slope, last=moves == group["max_iter"])
            enough = (
                self.asked >= group["max_eval"]
                or largest(self.gradient) <= group["tolerance_grad"]
                or largest(direction) * abs(t) <= group["tolerance_change"]
                or abs(self.loss - loss) < group["tolerance_change"]
            )
        state["n_iter"], state["func_evals"] = before + moves, state.get("func_evals", 0) + self.asked

    def direction(self, state: dict[str, Any]) -> np.ndarray:
        """-H g; the newest change of position and gradient is taken into H, if the function is convex along it."""
        if "d" not in state:
            state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1.0)
            return -self.gradient
        changes, steps, ro = state["old_dirs"], state["old_stps"], state["ro"]
        y, s = self.gradient - state["prev_flat_grad"].array, state["d"].array * state["t"]
        curvature = float(y @ s)
        if curvature > LEAST_CURVATURE:
            changes, steps, ro = (
                [*past, newest][-self.group["history_size"] :]
                for past, newest in ((changes, make(y)), (steps, make(s)), (ro, 1.0 / curvature))
            )
            state.update(old_dirs=changes, old_stps=steps, ro=ro)
            state["H_diag"] = curvature / float(y @ y)  # equation 7.20
        history = [(y.array, s.array, r) for y, s, r in zip(changes, steps, ro, strict=True)]
        direction, weights = two_loops(-self.gradient, history, state["H_diag"])
        state["al"] = [*weights, *[None] * (self.group["history_size"] - len(weights))]  # as long as PyTorch's
        return direction

    def along(self, direction: np.ndarray, t: float, slope: float, last: bool) -> float:
        """Move along the direction, by t or as far as the line search says; the step that was taken."""
        origin = [p.array.copy() for p in self.params]

        def evaluate(t: float) -> Trial:
            self.move(origin, t, direction)
            self.ask()
            return Trial(t, self.loss, self.gradient, float(self.gradient @ direction))

        if self.group["line_search_fn"] is not None:
            start = Trial(0.0, self.loss, self.gradient, slope)
            search = LineSearch(evaluate, start, largest(direction), self.group["max_eval"] - self.asked + 1)
            t, self.loss, self.gradient, _ = search.run(t)
            self.move(origin, t, direction)  # the trial that is taken may not be the last
        elif last:
            self.move(origin, t, direction)  # the next call of step will ask there
        else:
            evaluate(t)
        return t

    def move(self, origin: list[np.ndarray], t: float, direction: np.ndarray) -> None:
        """Put the parameters at origin + t direction."""
        start = 0
        for p, array in zip(self.params, origin, strict=True):
            part = direction[start : start + array.size].reshape(array.shape)
            p.array[...] = array + part * t
            p.storage.written()
            start += array.size


def largest(array: np.ndarray) -> float:
    return float(np.abs(array).max(initial=0.0))


def two_loops(
    q: np.ndarray, history: list[tuple[np.ndarray, np.ndarray, float]], scale: float
) -> tuple[np.ndarray, list[float]]:
    """H q by the remembered (y, s, 1 / (y . s)), the oldest first, and the weights of the s (algorithm 7.4).

    scale: H before them is this number times the identity.
    """
    weights = []
    for y, s, ro in reversed(history):
        weights.append(float(s @ q) * ro)
        q = q - y * weights[-1]
    q = q * scale
    weights.reverse()
    for (y, s, ro), weight in zip(history, weights, strict=True):
        q = q + s * (weight - float(y @ q) * ro)
    return q, weights

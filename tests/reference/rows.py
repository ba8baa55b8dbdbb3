"""The rows of the table of everything differentiable, asked of another library with PyTorch's names.

The functions of the rows find `tg`, `nn` and `F` among their globals; `rebound` gives them those of the other library.
Rows that speak of what only this package has cannot be run there.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import numpy as np

from tinygrad_tf import Tensor
from tinygrad_tf.checks import CASES, Case
from tinygrad_tf.nn import Module

SEED = 20


def rebound(function: Callable[..., Any], library: Any) -> Callable[..., Any]:
    """The same function, with the other library under the names that it uses."""
    if isinstance(function, Module):
        return eval(f"nn.{function!r}", {"nn": library.nn})
    if not of_the_table(function):
        found = counterpart(function, library)
        if found is None:
            raise LookupError(f"no {function}")
        return found
    rebinding = _Globals(function.__globals__, library)
    cells = tuple(types.CellType(rebinding.convert(cell.cell_contents)) for cell in function.__closure__ or ())
    defaults = tuple(rebinding.convert(value) for value in function.__defaults__ or ())
    return types.FunctionType(function.__code__, rebinding, function.__name__, defaults, cells)


def of_the_table(function: Any) -> bool:
    return isinstance(function, types.FunctionType) and function.__module__.startswith("tinygrad_tf.checks")


def counterpart(function: Any, library: Any) -> Any:
    """What the library has under the name of a function of the package; None if nothing."""
    name = getattr(function, "__name__", getattr(getattr(function, "forward", None), "__name__", ""))
    in_class = getattr(function, "__qualname__", "").startswith("Tensor.")
    owners = (library.Tensor,) if in_class else (library.nn.functional, library.linalg, library)
    found = (getattr(owner, name, None) for owner in owners)  # which may be a file of that name
    return next((thing for thing in found if callable(thing)), None)


class _Globals(dict[str, Any]):
    """The globals of a function, with what is ours replaced; what refers to it is converted when the function runs."""

    def __init__(self, original: dict[str, Any], library: Any) -> None:
        self.library = library
        names = {name: value for name, value in original.items() if not isinstance(value, types.FunctionType)}
        super().__init__({name: self.convert(value) for name, value in names.items()})
        self.update(tg=library, nn=library.nn, F=library.nn.functional, Tensor=library.Tensor)
        for name, value in original.items():
            if of_the_table(value):
                self[name] = types.FunctionType(value.__code__, self, name, value.__defaults__, value.__closure__)
            elif isinstance(value, types.FunctionType):
                self[name] = counterpart(value, library)

    def convert(self, value: Any) -> Any:
        return self.library.tensor(value.numpy()) if isinstance(value, Tensor) else value


def run_row(library: Any, case: Case, dtype: Any) -> dict[str, np.ndarray]:
    """The value of a row, and the gradients of a fixed projection of it by inputs and parameters.

    Raises any error that the library raises for what it does not have, LookupError for what cannot be asked.
    """
    if case.function is None:
        raise LookupError(f"{case.name} is built by hand")
    rng = np.random.default_rng(SEED)
    arguments: list[Any] = []
    leaves: list[Any] = []
    if case.make is not None:
        module = rebound(case.make, library)().to(getattr(library, np.dtype(dtype).name))
        for name, parameter in sorted(module.named_parameters()):
            numbers = (rng.normal(size=tuple(parameter.shape)) * 0.5).astype(dtype)
            with library.no_grad():
                parameter.copy_(library.from_numpy(numbers))
            leaves.append((name, parameter))
        arguments.append(module)
    for number, maker in enumerate(case.inputs):
        array = np.asarray(maker(rng)).astype(dtype)
        leaves.append((f"input {number}", library.from_numpy(array.copy()).requires_grad_()))
        arguments.append(leaves[-1][1])
    library.manual_seed(0)
    out = rebound(case.function, library)(*arguments)
    if not isinstance(out, library.Tensor) or not out.dtype.is_floating_point:
        raise LookupError(f"{case.name} gives no tensor of real numbers")
    cotangent = library.from_numpy(rng.normal(size=tuple(out.shape)).astype(str(out.dtype).removeprefix("torch.")))
    found = {"value": out.detach().numpy()}
    if not out.requires_grad:
        return found
    gradients = library.autograd.grad([out], [leaf for _, leaf in leaves], [cotangent], allow_unused=True)
    for (name, leaf), gradient in zip(leaves, gradients, strict=True):
        array = np.zeros(tuple(leaf.shape), dtype) if gradient is None else gradient.detach().numpy()
        found[f"gradient of {name}"] = array
    return found


def run_rows(library: Any) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """{row/what: array} of the rows that the library runs, and {row: why not} of the others."""
    values: dict[str, np.ndarray] = {}
    refused: dict[str, str] = {}
    for case in CASES:
        try:
            found = run_row(library, case, np.float64)
        except Exception as error:
            refused[case.name] = f"{type(error).__name__}: {error}".splitlines()[0]
        else:
            values |= {f"{case.name}/{what}": array for what, array in found.items()}
    return values, refused

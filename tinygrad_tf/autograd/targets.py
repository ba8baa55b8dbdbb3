"""What `tinygrad-tf gradcheck file.py::function` checks: functions in a file, their backwards, and their inputs.

In the file, for a function `layer`:
  - `layer_backward(grad_output, *inputs)` (or with a cache) makes it a hand-written NumPy pair; without it, it is a
    function of Tensors;
  - `layer_inputs`, a tuple of arrays or a function that returns one, says where to check; or shapes are given from
    outside, and random numbers of these shapes are taken;
  - a module (an instance, or a class that needs no arguments) is checked over its inputs and parameters;
  - another object (or class) with `forward` and `backward` is a NumPy pair, and may keep in itself what backward needs,
    and its parameters;
  - a NumPy function that returns (loss, gradient) or (loss, gradients) is checked against itself;
  - a subclass of autograd.Function is checked as what its `apply` computes;
  - a function without parameters is simply called: it makes its own checks, or returns (function, inputs).
"""

from __future__ import annotations

import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tinygrad_tf import engine
from tinygrad_tf.autograd.arguments import names_of, required
from tinygrad_tf.autograd.function import Function
from tinygrad_tf.autograd.gradcheck import GradcheckError, gradient_report
from tinygrad_tf.autograd.modules import check_module
from tinygrad_tf.autograd.pairs import check_backward
from tinygrad_tf.autograd.report import WRONG, Report
from tinygrad_tf.engine import make

Shapes = Sequence[tuple[int, ...]]
MODULES_HAVE = "named_parameters"  # which is how they are told, here below nn


class TargetError(Exception):
    """A target that cannot be checked: one line that says why."""


@dataclass
class Job:
    """One check to make, what to call it, and the user's file that it is in."""

    name: str
    run: Callable[[], Report]
    file: str = ""


def told(error: BaseException, file: str) -> str:
    """An error in a word and its message, with the line of the user's file where it arose."""
    found = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == _full(file)]
    place = f" ({os.path.basename(file)}, line {found[-1]})" if found else ""
    return f"{type(error).__name__}{f': {error}' if str(error) else ''}{place}"


def _full(path: str) -> str:
    return os.path.abspath(path) if path else ""


def find(target: str, shapes: Shapes = (), seed: int = 0) -> list[Job]:
    """The jobs that `file.py::name` (or `file.py` for all that can be checked there) stands for."""
    path, _, name = target.partition("::")
    module = load(path)
    if name:
        if not hasattr(module, name):
            names = ", ".join(sorted(n for n, _ in _checkable(module))) or "none that can be checked"
            raise TargetError(f"{path} has no {name!r}; it has: {names}")
        return [Job(name, lambda: check(module, name, shapes, seed), path)]
    jobs = [Job(n, partial(check, module, n, (), seed), path) for n, ready in _checkable(module) if ready]
    if not jobs:
        raise TargetError(f"{path} has nothing to check by itself: {_what_to_name(path, module)}")
    return jobs


def _what_to_name(path: str, module: Any) -> str:
    names = sorted(name for name, _ in _checkable(module))
    if not names:
        return "write a function in it, or a module"
    which = names[0] if len(names) == 1 else f"one of {', '.join(names)}"
    return f"name {which} (as {path}::{names[0]} --shape 3,4), or add {names[0]}_inputs to the file"


def load(path: str) -> Any:
    """The file as a module; its folder is importable while it loads."""
    file = Path(path)
    if not os.path.isfile(path):
        if os.path.isdir(path):
            raise TargetError(f"{path} is a directory; name a file in it")
        raise TargetError(f"no such file: {path or repr('')}")
    name = file.stem if file.stem not in sys.modules else f"{file.stem} (checked)"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise TargetError(f"not a Python file: {path}")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(file.parent.resolve()))
    sys.modules[name] = module  # where dataclasses, and pickle, look for it
    try:
        spec.loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a script may call sys.exit, a test file pytest.skip
        del sys.modules[name]
        raise TargetError(f"{path} cannot be imported: {told(error, path)}") from error
    finally:
        sys.path.pop(0)
    return module


def _checkable(module: Any) -> Iterator[tuple[str, bool]]:
    """Names of what can be checked in a file, and whether that needs no shapes."""
    for name, thing in list(vars(module).items()):
        ready = hasattr(module, f"{name}_inputs") and (callable(thing) or _is_pair(thing))
        if not name.endswith(("_backward", "_inputs")) and not name.startswith("_"):
            if inspect.isfunction(thing) and name.startswith("check_") and thing.__module__ == module.__name__:
                ready = ready or not inspect.signature(thing).parameters
            if ready or _is_own(thing, module):
                yield name, ready


def _is_own(thing: Any, module: Any) -> bool:
    """Whether it is a function, an operation or a module of that file."""
    if inspect.isclass(thing):
        return thing.__module__ == module.__name__ and (issubclass(thing, Function) or hasattr(thing, MODULES_HAVE))
    return hasattr(thing, MODULES_HAVE) or (inspect.isfunction(thing) and thing.__module__ == module.__name__)


def _is_pair(thing: Any) -> bool:
    """Whether it is a layer written by hand, with both methods."""
    return callable(getattr(thing, "forward", None)) and callable(getattr(thing, "backward", None))


def check(module: Any, name: str, shapes: Shapes, seed: int) -> Report:
    """Check one thing of a loaded file."""
    thing = getattr(module, name)
    if inspect.isclass(thing):
        thing = _applied(thing) if issubclass(thing, Function) else _made(thing, name)
    backward = getattr(module, f"{name}_backward", None)
    if hasattr(thing, MODULES_HAVE):
        return check_module(thing, _inputs(module, name, thing.forward, shapes, seed), raise_exception=False)
    if _is_pair(thing):
        inputs = _inputs(module, name, thing.forward, shapes, seed)
        return check_backward(thing.forward, thing.backward, inputs, raise_exception=False)
    if not callable(thing):
        raise TargetError(f"{name} is a {type(thing).__name__}, not a function or a module")
    if not required(thing) and not shapes and not hasattr(module, f"{name}_inputs"):
        return _called(name, thing)
    inputs = _inputs(module, name, thing, shapes, seed)
    if backward is not None:
        return check_backward(thing, backward, inputs, raise_exception=False)
    if _returns_gradients(thing, inputs):
        return check_backward(thing, None, inputs, raise_exception=False)
    return _of_tensors(name, thing, inputs)


def _applied(operation: type[Function]) -> Callable[..., Any]:
    """A custom operation as a function that has the names of its inputs."""

    def apply(*inputs: Any) -> Any:
        return operation.apply(*inputs)

    parameters = list(inspect.signature(operation.forward).parameters.values())
    apply.__signature__ = inspect.Signature(parameters[int(operation.setup_context is None) :])  # type: ignore[attr-defined]
    return apply


def _made(thing: Any, name: str) -> Any:
    try:
        return thing()
    except TypeError as error:
        raise TargetError(f"{name} cannot be made without arguments ({error}); name an instance instead") from error


def _inputs(module: Any, name: str, function: Any, shapes: Shapes, seed: int) -> tuple[Any, ...]:
    given = getattr(module, f"{name}_inputs", None)
    if shapes:
        random = np.random.default_rng(seed)
        return tuple(random.standard_normal(shape) for shape in shapes)
    if given is None:
        needed = [p.name for p in required(function)]
        example = " ".join("--shape 3,4" for _ in needed)
        raise TargetError(
            f"{name} needs inputs for {', '.join(needed)}: add {name}_inputs to the file, or say {example}"
        )
    found = given() if callable(given) else given
    return tuple(found) if isinstance(found, (tuple, list, Iterator)) else (found,)


def _returns_gradients(function: Any, inputs: tuple[Any, ...]) -> bool:
    """Whether it is a NumPy function that gives a loss and, beside it, arrays."""
    try:
        found = function(*(x.copy() if isinstance(x, np.ndarray) else x for x in inputs))
    except Exception:
        return False  # a function of Tensors, or one that will say itself what it does not like
    if not isinstance(found, tuple) or len(found) < 2 or not isinstance(found[0], (float, np.ndarray)):
        return False
    return np.size(found[0]) == 1 and all(isinstance(x, (np.ndarray, dict, tuple, list)) for x in found[1:])


def _of_tensors(name: str, function: Any, inputs: tuple[Any, ...]) -> Report:
    tensors = []
    for x in inputs:
        if isinstance(x, np.ndarray):
            x = make(x)
            if x.array.dtype.kind == "f":
                engine.leaf(x)
        tensors.append(x)
    return gradient_report(function, tensors, names=names_of(function, len(tensors)), title=name)


def _called(name: str, function: Any) -> Report:
    """A function that makes its own checks: True, None or a report is fine; (function, inputs) is checked."""
    try:
        result = function()
    except GradcheckError as error:
        if error.report is None:
            raise
        return error.report
    if isinstance(result, Report):
        return result
    if isinstance(result, tuple) and len(result) == 2 and callable(result[0]):
        return gradient_report(result[0], result[1], title=name)
    report = Report(title=name)
    result = bool(result) if isinstance(result, np.bool_) else result
    if result is False:
        report.problems.append((WRONG, f"{name}() returned False"))
    elif result is not None and result is not True:
        raise TargetError(f"{name}() must check something, or return (function, inputs), got {type(result).__name__}")
    return report

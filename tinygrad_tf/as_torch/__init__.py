"""Code written for PyTorch runs as it stands: `import torch` is answered by this package.

    python -m tinygrad_tf.as_torch train.py ARGS    run a script (or -m MODULE ARGS)
    python -m tinygrad_tf.as_torch --names          what there is, and how it differs from PyTorch

In a notebook, call `install()` before anything imports torch. The files beside this one also hold all that such code
only imports, or asks a question whose answer on a CPU is no: cuda, distributed, backends, settings of compilers. The
package looks here for names that it has not got, and says which one is missing if it is not here either.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import sys
import types
from typing import Any

import tinygrad_tf
from tinygrad_tf.as_torch._modules import OWN_PARTS, extras, in_the_package
from tinygrad_tf.as_torch._names import DIFFERENCES, OURS, list_of_names, names
from tinygrad_tf.as_torch._stand_ins import ROOT, missing

__all__ = ["DIFFERENCES", "OURS", "OWN_PARTS", "extras", "find", "install", "list_of_names", "names"]


def find(package: str, name: str) -> Any:
    """What these files answer for an attribute that `package` (a dotted name below torch, or "") has not got."""
    dotted = f"{package}.{name}" if package else name
    if name.startswith("__"):
        raise AttributeError(name)
    if dotted in extras() and not in_the_package(dotted):
        return extras()[dotted]
    if package in extras() and name in vars(extras()[package]):
        return vars(extras()[package])[name]
    with contextlib.suppress(ModuleNotFoundError):
        return importlib.import_module(f"{ROOT}.{dotted}")
    raise missing(dotted)


PRINTED: dict[str, type] = {  # classes that programs print, as in print(type(x)), by their place in PyTorch
    "torch.Tensor": tinygrad_tf.Tensor,
    "torch.Size": tinygrad_tf.Size,
    "torch.dtype": tinygrad_tf.dtype,
    "torch.device": tinygrad_tf.device,
    "torch.nn.parameter.Parameter": tinygrad_tf.nn.Parameter,
}


class _Loader(importlib.abc.Loader):
    """Gives a module that is there already, and leaves it as it was."""

    def __init__(self, module: types.ModuleType):
        self.module, self.spec = module, module.__spec__

    def create_module(self, spec: Any) -> types.ModuleType:
        return self.module

    def exec_module(self, module: types.ModuleType) -> None:
        module.__spec__ = self.spec


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if fullname.partition(".")[0] != "torch":
            return None
        dotted = fullname.partition(".")[2]
        module: Any = tinygrad_tf
        if dotted:
            try:
                module = find(*_split(dotted))
            except AttributeError as error:
                raise ModuleNotFoundError(str(error), name=fullname) from None
        if not isinstance(module, types.ModuleType):
            raise ModuleNotFoundError(f"torch.{dotted} is not a module", name=fullname)
        if not hasattr(module, "__path__") and any(other.startswith(f"{dotted}.") for other in extras()):
            module.__path__ = []  # a file here, and in PyTorch a folder with modules of its own
        return importlib.machinery.ModuleSpec(fullname, _Loader(module), is_package=hasattr(module, "__path__"))


def _split(dotted: str) -> tuple[str, str]:
    package, _, name = dotted.rpartition(".")
    return package, name


def install() -> None:
    """From now on `import torch` and `import torch.x.y` give this package; a RuntimeError if PyTorch is loaded already.

    `torch.__version__` then is that of the PyTorch whose ways these are, with our own behind it: code asks for it in
    order to know what it may use. `print(type(x))` of a tensor says `<class 'torch.Tensor'>`.

    >>> install()
    >>> import torch
    >>> torch.ones(2) + 1
    tensor([2., 2.])
    """
    if getattr(sys.modules.get("torch"), "__name__", ROOT) != ROOT:
        raise RuntimeError(
            "PyTorch itself is imported already; call tinygrad_tf.as_torch.install() before `import torch`"
        )
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    sys.modules["torch"] = tinygrad_tf
    tinygrad_tf.__version__ = vars(extras()["version"])["__version__"]
    for path, printed in PRINTED.items():
        printed.__module__, _, printed.__qualname__ = path.rpartition(".")

"""What PyTorch code asks for and a package on the CPU answers in a line or two: no, nothing, the thing itself."""

from __future__ import annotations

import contextlib
import enum
import json
import os
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

import numpy as np

import tinygrad_tf
from tinygrad_tf import engine

ROOT = "tinygrad_tf"


def missing(name: str) -> AttributeError:
    return AttributeError(f"{ROOT} has no torch.{name}; see the list of what it has: python -m {ROOT}.as_torch --names")


def no(*args: Any, **kwargs: Any) -> bool:
    return False


def zero(*args: Any, **kwargs: Any) -> int:
    return 0


def nothing(*args: Any, **kwargs: Any) -> None:
    """There is nothing to seed, to wait for or to free."""


def older(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function by the name that it had before it ended in _; using that warns, as in PyTorch."""

    def renamed(*args: Any, **kwargs: Any) -> Any:
        new = function.__name__
        warnings.warn(f"{new.rstrip('_')} is the older name of {new}", FutureWarning, stacklevel=2)
        return function(*args, **kwargs)

    return renamed


def refused(name: str, why: str = "runs on the CPU alone, in one process") -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"{ROOT} {why}: torch.{name} cannot be used")

    return refuse


def refused_class(name: str, *why: str) -> type:
    return type(name.rpartition(".")[2], (), {"__init__": refused(name, *why), "__doc__": "Cannot be made here."})


class OutOfMemoryError(RuntimeError):
    """What PyTorch raises when a GPU's memory is full: programs catch it. Here memory is NumPy's: MemoryError."""


class ProfilerActivity(enum.Enum):
    """What PyTorch's profiler may be asked to watch."""

    CPU, CUDA = 0, 1


def profiler_parts() -> dict[str, Any]:
    """Names of PyTorch's profiler, which programs import for the day on which they need it."""
    why = "has no profiler (see cProfile, or utils.benchmark for a statement)"
    functions = {name: refused(f"profiler.{name}", why) for name in ("schedule", "tensorboard_trace_handler")}
    return {"profile": refused_class("profiler.profile", why), "ProfilerActivity": ProfilerActivity, **functions}


@contextlib.contextmanager
def allowed(classes: Any = None) -> Iterator[None]:
    """Classes that PyTorch may make while it reads a file. Here a file makes none, whatever is allowed: see load."""
    yield


def compile(model: Any = None, **settings: Any) -> Any:
    """The model or function itself: kernels are compiled already, and Python code stays code that you can step into."""
    return (lambda function: function) if model is None else model


def itself(function: Any = None, *args: Any, **kwargs: Any) -> Any:
    """A decorator, with or without arguments, that changes nothing."""
    return function if callable(function) else lambda inner: inner


class _VariableType(type):
    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, engine.Tensor)


class Variable(metaclass=_VariableType):
    """What tensors with gradients were once wrapped in: the tensor itself, as a leaf."""

    def __new__(cls, data: Any, requires_grad: bool = False, volatile: bool = False) -> Any:
        return data.detach().requires_grad_(requires_grad)


def set_default_device(device: Any) -> None:
    """Every tensor is on the CPU; another device is an error."""
    tinygrad_tf.zeros(0, device=device)


def set_default_tensor_type(kind: Any) -> None:
    """The type of tensors made of Python floats: torch.DoubleTensor, or its name."""
    tinygrad_tf.set_default_dtype(tinygrad_tf.zeros(0).type(kind).dtype)


class SDPBackend(enum.Enum):
    """The names of attention kernels that PyTorch chooses from."""

    ERROR, MATH, FLASH_ATTENTION, EFFICIENT_ATTENTION, CUDNN_ATTENTION = -1, 0, 1, 2, 3


@contextlib.contextmanager
def sdpa_kernel(backends: Any = None, *args: Any, **kwargs: Any) -> Iterator[None]:
    """Changes nothing: there is one attention kernel."""
    yield


@contextlib.contextmanager
def cudnn_flags(*args: Any, **kwargs: Any) -> Iterator[None]:
    """Settings of a GPU's library, for a while: changes nothing."""
    yield


def typename(value: Any) -> str:
    """The type of a tensor with its dtype, as torch.FloatTensor; of other things their class."""
    if isinstance(value, tinygrad_tf.Tensor):
        kind: str = value.type()
        return kind
    return f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")


class memory_format(enum.Enum):
    """How PyTorch lays images out in memory. Here every tensor is laid out in the order of its axes."""

    contiguous_format, preserve_format, channels_last, channels_last_3d = range(4)


class record_function(contextlib.ContextDecorator):
    """Names a part of a program for PyTorch's profiler, which is not here: changes nothing."""

    def __init__(self, name: str, args: str | None = None):
        self.name = name

    def __enter__(self) -> record_function:
        return self

    def __exit__(self, *_: Any) -> None:
        """There is nothing to write down."""


class ReduceOp(enum.Enum):
    """How PyTorch's processes combine tensors."""

    SUM, AVG, PRODUCT, MIN, MAX = range(5)


class SummaryWriter:
    """Scalars as lines of JSON in LOG_DIR/scalars.jsonl: tag, value, step, time. There are no pictures of them.

    Texts, settings and histograms are lines, too; of images, figures and graphs a line says that they were left out.
    """

    def __init__(self, log_dir: str | os.PathLike[str] | None = None, *args: Any, **kwargs: Any):
        self.log_dir = str(Path("runs", time.strftime("%b%d_%H-%M-%S")) if log_dir is None else log_dir)
        Path(self.log_dir).mkdir(parents=True, exist_ok=True)
        self.file = self._opened()

    def _opened(self) -> TextIO:
        return open(Path(self.log_dir, "scalars.jsonl"), "a", encoding="utf-8")

    def add_scalar(
        self, tag: str, scalar_value: Any, global_step: int | None = None, *args: Any, **kwargs: Any
    ) -> None:
        self._write(tag, global_step, value=float(scalar_value))

    def _write(self, tag: str, step: int | None, **content: Any) -> None:
        if self.file.closed:  # PyTorch's goes on, too
            self.file = self._opened()
        self.file.write(json.dumps({"tag": tag, **content, "step": step, "time": time.time()}) + "\n")

    def add_scalars(self, main_tag: str, tag_scalar_dict: dict[str, Any], global_step: int | None = None) -> None:
        for tag, value in tag_scalar_dict.items():
            self.add_scalar(f"{main_tag}/{tag}", value, global_step)

    def add_text(self, tag: str, text_string: str, global_step: int | None = None, *args: Any) -> None:
        self._write(tag, global_step, text=text_string)

    def add_histogram(
        self, tag: str, values: Any, global_step: int | None = None, bins: Any = 30, *args: Any, **kwargs: Any
    ) -> None:
        array = tinygrad_tf.as_tensor(values).detach().float().numpy()
        counts, edges = np.histogram(array[np.isfinite(array)], bins=bins if isinstance(bins, int) else 30)
        self._write(tag, global_step, counts=counts.tolist(), edges=edges.tolist())

    def add_hparams(self, hparam_dict: dict[str, Any], metric_dict: dict[str, Any], *args: Any, **kwargs: Any) -> None:
        self._write("hparams", None, settings={k: str(v) for k, v in hparam_dict.items()})
        self.add_scalars("hparams", metric_dict)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("add_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return lambda tag="", *args, **kwargs: self._write(tag if isinstance(tag, str) else "", None, left_out=name[4:])

    def get_logdir(self) -> str:
        return self.log_dir

    def flush(self) -> None:
        if not self.file.closed:
            self.file.flush()

    def close(self) -> None:
        self.file.close()

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def data_parallel_class() -> type:
    from tinygrad_tf import nn

    class DataParallel(nn.Module):
        """A module that is copied to all GPUs. Without one, as in PyTorch: `module` itself, under that name."""

        def __init__(self, module: nn.Module, device_ids: Any = None, output_device: Any = None, dim: int = 0):
            super().__init__()
            if device_ids:
                raise RuntimeError(f"{ROOT} runs on the CPU alone: DataParallel has no use for device_ids={device_ids}")
            self.module = module

        def forward(self, *inputs: Any, **kwargs: Any) -> Any:
            return self.module(*inputs, **kwargs)

    return DataParallel


def script_module_class() -> type:
    from tinygrad_tf import nn

    class ScriptModule(nn.Module):
        """A module that PyTorch compiles. Here it is one like any other: its methods stay Python."""

    return ScriptModule


def set_num_threads(count: int) -> None:
    """How many threads the kernels use; results are the same bits for any number."""
    _pool().set_num_threads(count)


def get_num_threads() -> int:
    return _pool().get_num_threads()


def _pool() -> Any:
    from tinygrad_tf.kernels import _threads

    return _threads.pool

"""Code written for PyTorch runs as it stands: `import torch` is answered by this package.

    python -m tinygrad_tf.as_torch train.py ARGS    run a script (or -m MODULE ARGS)
    python -m tinygrad_tf.as_torch --names          what there is, and how it differs from PyTorch

In a notebook, call `install()` before anything imports torch. This file also holds all that such code only imports, or
asks a question whose answer on a CPU is no: cuda, distributed, backends, settings of compilers. The package looks here
for names that it has not got, and says which one is missing if it is not here either.
"""

from __future__ import annotations

import contextlib
import enum
import importlib
import importlib.abc
import importlib.machinery
import inspect
import json
import multiprocessing
import os
import runpy
import sys
import time
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import tinygrad_tf
from tinygrad_tf import engine

ROOT = "tinygrad_tf"


def missing(name: str) -> AttributeError:
    return AttributeError(f"{ROOT} has no torch.{name}; see the list of what it has: python -m {ROOT}.as_torch --names")


# --- what the answer on a CPU is -----------------------------------------------------------------------------------


def _no(*args: Any, **kwargs: Any) -> bool:
    return False


def _zero(*args: Any, **kwargs: Any) -> int:
    return 0


def _nothing(*args: Any, **kwargs: Any) -> None:
    """There is nothing to seed, to wait for or to free."""


def _refused(name: str, why: str = "runs on the CPU alone, in one process") -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"{ROOT} {why}: torch.{name} cannot be used")

    return refuse


def _refused_class(name: str) -> type:
    return type(name.rpartition(".")[2], (), {"__init__": _refused(name), "__doc__": "Cannot be made here."})


def compile(model: Any = None, **settings: Any) -> Any:
    """The model or function itself: kernels are compiled already, and Python code stays code that you can step into."""
    return (lambda function: function) if model is None else model


def _itself(function: Any = None, *args: Any, **kwargs: Any) -> Any:
    """A decorator, with or without arguments, that changes nothing."""
    return function if callable(function) else lambda inner: inner


class _VariableType(type):
    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, engine.Tensor)


class Variable(metaclass=_VariableType):
    """What tensors with gradients were once wrapped in: the tensor itself, as a leaf."""

    def __new__(cls, data: Any, requires_grad: bool = False, volatile: bool = False) -> Any:
        return data.detach().requires_grad_(requires_grad)


def _set_default_device(device: Any) -> None:
    """Every tensor is on the CPU; another device is an error."""
    tinygrad_tf.zeros(0, device=device)


def _set_default_tensor_type(kind: Any) -> None:
    """The type of tensors made of Python floats: torch.DoubleTensor, or its name."""
    tinygrad_tf.set_default_dtype(tinygrad_tf.zeros(0).type(kind).dtype)


def _foreach_copy_(targets: Sequence[Any], sources: Sequence[Any], non_blocking: bool = False) -> None:
    """Copy each source into its target."""
    for target, source in zip(targets, sources, strict=True):
        target.copy_(source)


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
    """Scalars as lines of JSON in LOG_DIR/scalars.jsonl: tag, value, step, time. There are no pictures of them."""

    def __init__(self, log_dir: str | os.PathLike[str] | None = None, *args: Any, **kwargs: Any):
        self.log_dir = str(Path("runs", time.strftime("%b%d_%H-%M-%S")) if log_dir is None else log_dir)
        Path(self.log_dir).mkdir(parents=True, exist_ok=True)
        self.file = open(Path(self.log_dir, "scalars.jsonl"), "a", encoding="utf-8")  # noqa: SIM115 - closed by close

    def add_scalar(
        self, tag: str, scalar_value: Any, global_step: int | None = None, *args: Any, **kwargs: Any
    ) -> None:
        line = {"tag": tag, "value": float(scalar_value), "step": global_step, "time": time.time()}
        self.file.write(json.dumps(line) + "\n")

    def add_scalars(self, main_tag: str, tag_scalar_dict: dict[str, Any], global_step: int | None = None) -> None:
        for tag, value in tag_scalar_dict.items():
            self.add_scalar(f"{main_tag}/{tag}", value, global_step)

    def flush(self) -> None:
        self.file.flush()

    def close(self) -> None:
        self.file.close()

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def _data_parallel() -> type:
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


def _set_num_threads(count: int) -> None:
    """How many threads the kernels use; results are the same bits for any number."""
    _pool().set_num_threads(count)


def _get_num_threads() -> int:
    return _pool().get_num_threads()


def _pool() -> Any:
    from tinygrad_tf.kernels import _threads

    return _threads.pool


def _modules() -> dict[str, dict[str, Any]]:
    """Names that are not in the package's own tree, by module; "" is torch itself."""
    from tinygrad_tf import amp, func, nn
    from tinygrad_tf.func import _trees

    data_parallel = {"DataParallel": _data_parallel()}
    cuda: tuple[str, ...] = ("set_device", "synchronize", "current_device", "get_device_name", "get_device_properties")
    cuda += ("get_device_capability", "Stream", "Event", "stream", "mem_get_info", "current_stream")
    processes: tuple[str, ...] = (
        "init_process_group",
        "destroy_process_group",
        "all_reduce",
        "all_gather",
        "all_gather_into_tensor",
    )
    processes += ("reduce_scatter_tensor", "barrier", "broadcast", "get_rank", "get_world_size", "new_group")
    threads = {"set_num_threads": _set_num_threads, "get_num_threads": _get_num_threads}
    counters = ("max_memory_allocated", "memory_allocated", "max_memory_reserved", "memory_reserved", "device_count")
    return {
        "": {
            "autocast": amp.autocast,
            "is_autocast_enabled": amp.is_autocast_enabled,
            "get_autocast_dtype": amp.get_autocast_dtype,
            "compile": compile,
            "memory_format": memory_format,
            **{form.name: form for form in memory_format},
            "vmap": func.vmap,
            "_foreach_copy_": _foreach_copy_,
            "newaxis": None,
            "set_default_device": _set_default_device,
            "get_default_device": lambda: tinygrad_tf.device("cpu"),
            "set_default_tensor_type": _set_default_tensor_type,
            **{name: getattr(nn.functional, name) for name in ALSO_IN_TORCH},
            **{f"{name}_": getattr(tinygrad_tf.Tensor, f"{name}_") for name in IN_PLACE},
            "set_float32_matmul_precision": _nothing,
            "get_float32_matmul_precision": lambda: "highest",
            "use_deterministic_algorithms": _nothing,
            "are_deterministic_algorithms_enabled": lambda: True,
            **threads,
        },
        "autograd": {"Variable": Variable},
        "autograd.profiler": {"record_function": record_function},
        "profiler": {"record_function": record_function},
        "functional": {name: getattr(tinygrad_tf, name) for name in FUNCTIONAL},
        "accelerator": {
            "is_available": _no,
            "current_accelerator": _nothing,
            "device_count": _zero,
            **{name: _refused(f"accelerator.{name}") for name in ("current_device_index", "synchronize")},
        },
        "special": {
            "expit": tinygrad_tf.sigmoid,
            "softmax": nn.functional.softmax,
            "log_softmax": nn.functional.log_softmax,
            **{name: getattr(tinygrad_tf, name) for name in SPECIAL},
        },
        "cuda": {
            **{name: _refused(f"cuda.{name}") for name in cuda},
            **dict.fromkeys(counters, _zero),
            **dict.fromkeys(("is_available", "is_bf16_supported", "is_initialized"), _no),
            **dict.fromkeys(("manual_seed", "manual_seed_all", "empty_cache", "reset_peak_memory_stats"), _nothing),
        },
        "cuda.amp": {"autocast": lambda *args, **kwargs: amp.autocast(enabled=False), "GradScaler": amp.GradScaler},
        "mps": {"is_available": _no, "manual_seed": _nothing, **{n: _refused(f"mps.{n}") for n in ("synchronize",)}},
        "xpu": {
            "is_available": _no,
            "device_count": _zero,
            "get_device_properties": _refused("xpu.get_device_properties"),
        },
        "backends.mps": {"is_available": _no, "is_built": _no},
        "backends.cuda": {"is_built": _no, "sdp_kernel": sdpa_kernel},
        "backends.cuda.matmul": {"allow_tf32": False},
        "backends.cudnn": {
            "allow_tf32": False,
            "benchmark": False,
            "deterministic": True,
            "is_available": _no,
            "flags": cudnn_flags,
        },
        "distributed": {
            "is_available": _no,
            "is_initialized": _no,
            "ReduceOp": ReduceOp,
            **{name: _refused(f"distributed.{name}") for name in processes},
        },
        "distributed.nn": {name: _refused(f"distributed.nn.{name}") for name in ("all_gather", "all_reduce")},
        "distributed.optim": {"ZeroRedundancyOptimizer": _refused_class("distributed.optim.ZeroRedundancyOptimizer")},
        "multiprocessing": {
            "spawn": _refused("multiprocessing.spawn"),
            **{name: getattr(multiprocessing, name) for name in multiprocessing.__all__},
        },
        "nn.utils.stateless": {"functional_call": func.functional_call},
        "nn": data_parallel,
        "nn.parallel": {
            **data_parallel,
            "DistributedDataParallel": _refused_class("nn.parallel.DistributedDataParallel"),
        },
        "nn.attention": {"SDPBackend": SDPBackend, "sdpa_kernel": sdpa_kernel},
        "nn.modules": {name: value for name, value in vars(nn).items() if _is_layer_of_pytorch(name, value)},
        "utils.data.distributed": {"DistributedSampler": _refused_class("utils.data.distributed.DistributedSampler")},
        "utils._pytree": {
            "tree_flatten": _trees.flattened,
            "tree_unflatten": _trees.unflattened,
            "tree_leaves": _trees.leaves_of,
            "tree_map": _trees.tree_map,
        },
        "utils.tensorboard": {"SummaryWriter": SummaryWriter},
        "jit": dict.fromkeys(("script", "trace", "ignore", "export", "unused"), _itself),
        "compiler": {"disable": _itself, "is_compiling": _no},
        "_dynamo": {"disable": _itself, "reset": _nothing},
        "_dynamo.config": {"suppress_errors": False, "cache_size_limit": 8},
        "_inductor.config": {"coordinate_descent_tuning": False},
        "version": {"__version__": tinygrad_tf.__version__, "cuda": None, "hip": None},
    }


def _is_layer_of_pytorch(name: str, value: Any) -> bool:
    return inspect.isclass(value) and hasattr(value, "register_buffer") and name not in OWN_PARTS


ALSO_IN_TORCH = (  # functions of nn.functional that PyTorch has under torch, too
    "adaptive_avg_pool1d", "avg_pool1d", "batch_norm", "bilinear", "binary_cross_entropy_with_logits", "celu", "conv1d",
    "conv2d", "conv_transpose1d", "conv_transpose2d", "dropout", "embedding", "group_norm", "hardshrink", "kl_div",
    "layer_norm", "max_pool1d", "max_pool2d", "pairwise_distance", "pixel_shuffle", "pixel_unshuffle", "prelu",
    "rms_norm", "selu", "threshold",
)  # fmt: skip
FUNCTIONAL = ("cartesian_prod", "cdist", "einsum", "meshgrid", "norm", "split", "tensordot", "unique")
IN_PLACE = (  # methods that PyTorch has as functions, too
    "abs", "ceil", "clamp", "clamp_max", "clamp_min", "cos", "detach", "erf", "exp", "exp2", "expm1", "fill", "floor",
    "frac", "log", "log10", "log1p", "log2", "neg", "reciprocal", "relu", "round", "rsqrt", "sigmoid", "sin", "sqrt",
    "square", "tan", "tanh", "trunc", "zero",
)  # fmt: skip
SPECIAL = ("erf", "erfc", "exp2", "expm1", "log1p", "logit", "logsumexp", "round", "sinc", "xlogy")


class _Module(types.ModuleType):
    """A module of the list above. Settings may be assigned; a name that is not there says so."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise missing(f"{self.__name__.removeprefix('torch.')}.{name}")


def _built() -> dict[str, types.ModuleType]:
    """All modules of the list, each an attribute of the one above it."""
    modules: dict[str, types.ModuleType] = {}
    for dotted, names in _modules().items():
        parts = dotted.split(".") if dotted else []
        for end in range(1, len(parts) + 1):
            path = ".".join(parts[:end])
            if path not in modules and not _own(path):
                modules[path] = _Module(f"torch.{path}")
                modules[path].__path__ = []
                parent = ".".join(parts[: end - 1])
                if parent in modules:
                    setattr(modules[parent], parts[end - 1], modules[path])
        target = modules.setdefault(dotted, _Module(f"torch.{dotted}".rstrip(".")))
        target.__dict__.update(names)
    return modules


def _own(path: str) -> bool:
    """Whether the package itself has this module."""
    place = Path(tinygrad_tf.__path__[0], *path.split("."))
    return place.is_dir() or place.with_suffix(".py").is_file()


_modules_built: dict[str, types.ModuleType] = {}


def extras() -> dict[str, types.ModuleType]:
    """The modules of this file by dotted name below torch; the names of torch itself under ""."""
    if not _modules_built:
        _modules_built.update(_built())
    return _modules_built


def find(package: str, name: str) -> Any:
    """What this file answers for an attribute that `package` (a dotted name below torch, or "") has not got."""
    dotted = f"{package}.{name}" if package else name
    if name.startswith("__"):
        raise AttributeError(name)
    if dotted in extras() and not _own(dotted):
        return extras()[dotted]
    if package in extras() and name in vars(extras()[package]):
        return vars(extras()[package])[name]
    with contextlib.suppress(ModuleNotFoundError):
        return importlib.import_module(f"{ROOT}.{dotted}")
    raise missing(dotted)


# --- import torch -----------------------------------------------------------------------------------------------------


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
        return importlib.machinery.ModuleSpec(fullname, _Loader(module), is_package=hasattr(module, "__path__"))


def _split(dotted: str) -> tuple[str, str]:
    package, _, name = dotted.rpartition(".")
    return package, name


def install() -> None:
    """From now on `import torch` and `import torch.x.y` give this package; a RuntimeError if PyTorch is loaded already.

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


# --- the list of names ------------------------------------------------------------------------------------------------

NAMESPACES = (
    "", "Tensor", "linalg", "autograd", "autograd.functional", "func", "distributions", "amp", "nn", "nn.functional",
    "nn.init", "nn.utils", "nn.utils.rnn", "nn.Module", "optim", "optim.Optimizer", "optim.lr_scheduler", "testing",
    "utils.benchmark", "utils.checkpoint", "utils.data",
)  # fmt: skip

OURS = "not in PyTorch"
GRADIENT_CHECKS = ("GradcheckError", "GradcheckWarning", "check_backward", "check_module", "gradient_report")
OWN_PARTS = (  # parts of this package's own Transformers, in nn
    "AdditiveAttention", "AlibiPositions", "AttentionPositions", "Block", "BlockSparseAttention", "FeedForward",
    "KeyValueCache", "LearnedPositions", "LinearAttention", "LocalAttention", "MultiHeadAttention", "NoPositions",
    "RelativePositions", "Remembered", "RotaryPositions", "SequenceBatchNorm", "SinusoidalPositions", "alibi_slopes",
    "causal_mask", "combine_masks", "make_attention", "make_norm", "padding_mask", "rotation", "sinusoidal_table",
    "window_mask",
)  # fmt: skip
TEXTS: tuple[str, ...] = (
    "CharTokenizer",
    "Text",
    "load_tokens",
    "random_windows",
    "read_text",
    "read_texts",
    "save_tokens",
)
TEXTS += ("split_tokens", "standard_library_text", "token_dtype", "validation_batches")
TEXTS += ("PairBatch", "PairTokenizer", "batches_by_length", "pad_rows", "pair_batch")
DIFFERENCES = {  # name: how it differs from PyTorch, and why
    "load": "never unpickles: files of torch.save are refused, safetensors files are read; a pickle may run any code",
    "save": "writes one safetensors file, with the structure as JSON; functions and whole modules are refused",
    "empty": "gives zeros: leftovers in memory have cost people days",
    "compile": "returns its argument: there is nothing to compile",
    "ComplexTensor": f"{OURS}: a pair of real tensors with a few methods, since complex numbers are seldom needed here",
    "view_as_real": "copies: a complex tensor is a pair of tensors",
    "view_as_complex": "the parts are views of the pairs; the result is a ComplexTensor, which has a few methods",
    "histogram": "weights must be a tensor of the input's size; for a histogram without edges see histc",
    "Tensor.to_sparse": "the tensor itself: sparse tensors do not exist",
    "nn.functional.interpolate": "no antialias, no volumes (N, C, D, H, W): pictures and sequences only",
    "nn.functional.adaptive_max_pool1d": "no return_indices; see max_pool1d",
    "nn.functional.adaptive_max_pool2d": "no return_indices; see max_pool2d",
    "nn.LazyLinear": "its weights can be loaded only after the first input: before, they have no elements",
    "utils.checkpoint.checkpoint": "one way for both values of use_reentrant; the second run never stops early",
    "linalg.svd": "has no gradient, nor have qr, eigh, pinv, lstsq and what is made of them: call them on x.detach()",
    "func.jacfwd": "the same as jacrev: there is no forward mode",
    "func.vmap": "calls the function with one slice after the other, so that any function will do; it is not faster",
    "vmap": "see func.vmap",
    "nn.Module.register_backward_hook": "as register_full_backward_hook: PyTorch's old one gives the gradients of the "
    "last operation's inputs",
    "nn.MultiheadAttention": "is_causal needs no mask; a query without keys gives zeros, not NaN; the weights returned "
    "are those before dropout: the first two are traps, the last makes rows that add up to 1",
    "nn.TransformerEncoder": "padded positions are computed, too, where PyTorch's fast path gives zeros",
    "nn.functional.scaled_dot_product_attention": "the mask must broadcast to the scores, not the other way round",
    "nn.functional.embedding": "no max_norm, no scale_grad_by_freq; gradients are dense: sparse tensors do not exist",
    "nn.Embedding": "no max_norm, no scale_grad_by_freq; gradients are dense: sparse tensors do not exist",
    "nn.utils.clip_grad_norm_": "the norm is taken in float64, so that large gradients do not become inf",
    "utils.data.DataLoader": "workers are threads that share the dataset, not processes with copies",
    "amp.autocast": "rounds as bfloat16 hardware does, but computes in float32: it is not faster",
    "optim.lr_scheduler.warmup_cosine": f"{OURS}: the rate of nanoGPT's schedule as a function",
    "optim.lr_scheduler.noam": f"{OURS}: the rate of the Transformer paper's schedule as a function",
    "optim.Optimizer.update_group": f"{OURS}: what an optimiser here defines: one step for one group",
    "use_reference": f"{OURS}: runs fused operations by their plain formulas",
    "amp.is_autocast_enabled": f"{OURS} by this name: there it is torch.is_autocast_enabled, which is here, too",
    "amp.get_autocast_dtype": f"{OURS} by this name: there it is torch.get_autocast_dtype, which is here, too",
    "autograd.is_grad_enabled": f"{OURS} by this name: there it is torch.is_grad_enabled, which is here, too",
    "utils.data.WorkerInfo": f"{OURS} by this name: what get_worker_info returns",
    **{f"nn.{name}": f"{OURS}: a part of this package's own Transformers" for name in OWN_PARTS},
    **{f"autograd.{name}": f"{OURS}: checking of gradients" for name in GRADIENT_CHECKS},
    **{f"utils.data.{name}": f"{OURS}: texts and their tokens" for name in TEXTS},
}


def names() -> list[str]:
    """All public names below torch, sorted: of the package and of this file."""
    found = {f"{path}.{name}" for path, module in extras().items() for name in vars(module) if _public(module, name)}
    for space in NAMESPACES:
        holder = _resolve(space)
        if holder is not None:
            found |= {f"{space}.{name}" for name in dir(holder) if _public(holder, name)}
    return sorted(name.removeprefix(".") for name in found)


def _public(holder: Any, name: str) -> bool:
    """Whether a name is offered: not a helper, an attribute of the engine, or something that the file only imports."""
    value = inspect.getattr_static(holder, name, None)
    if inspect.isclass(holder):
        offered = callable(value) or inspect.isdatadescriptor(value) or isinstance(value, (staticmethod, classmethod))
        return offered and not name.startswith("_") and (name == "grad" or name not in engine.Tensor.__slots__)
    if name.startswith("_") or isinstance(value, (types.ModuleType, TypeVar, ParamSpec)):
        return False
    if "__all__" in vars(holder):
        return name in holder.__all__
    home = getattr(value, "__module__", None)
    if isinstance(holder, _Module) or holder is tinygrad_tf:
        return True
    return home is not None and home.startswith(holder.__name__)


def _resolve(dotted: str) -> Any:
    value: Any = tinygrad_tf
    for part in dotted.split(".") if dotted else ():
        value = getattr(value, part, None)
    return value


def list_of_names() -> str:
    """The list that --names prints."""
    return "\n".join(f"torch.{n}  # {DIFFERENCES[n]}" if n in DIFFERENCES else f"torch.{n}" for n in names())


# --- the command line -------------------------------------------------------------------------------------------------


def main(arguments: list[str]) -> int:
    """Run a script or a module with `import torch` answered by this package, or print the list of names."""
    if arguments == ["--names"]:
        print(list_of_names())
        return 0
    as_module = arguments[:1] == ["-m"]
    rest = arguments[1:] if as_module else arguments
    if not rest or rest[0].startswith("-"):
        print(f"usage: python -m {ROOT}.as_torch (SCRIPT | -m MODULE | --names) [ARGS ...]", file=sys.stderr)
        return 2
    if not as_module and not Path(rest[0]).is_file():
        print(f"{rest[0]}: no such file", file=sys.stderr)
        return 2
    install()
    sys.argv = rest
    if as_module:
        sys.path.insert(0, os.getcwd())
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = str(Path(rest[0]).resolve().parent)
        runpy.run_path(rest[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    from tinygrad_tf import as_torch  # this very file under its own name, where the package looks for it

    sys.exit(as_torch.main(sys.argv[1:]))

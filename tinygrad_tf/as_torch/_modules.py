"""The modules below torch, and names in them, that are not in the package's own tree."""

from __future__ import annotations

import copy
import functools
import inspect
import multiprocessing
import types
import typing
from pathlib import Path
from typing import Any

import tinygrad_tf
from tinygrad_tf._layout import layout
from tinygrad_tf._version import __version__
from tinygrad_tf.as_torch._lists import of_lists
from tinygrad_tf.as_torch._stand_ins import (
    OutOfMemoryError,
    ReduceOp,
    SDPBackend,
    SummaryWriter,
    Variable,
    allowed,
    compile,
    cudnn_flags,
    data_parallel_class,
    get_num_threads,
    itself,
    memory_format,
    missing,
    no,
    nothing,
    older,
    profiler_parts,
    record_function,
    refused,
    refused_class,
    script_module_class,
    sdpa_kernel,
    set_default_device,
    set_default_tensor_type,
    set_num_threads,
    typename,
    zero,
)

PYTORCH = "2.9.0"  # whose ways these are, where code asks for a version; one that is right as a text, too
OWN_PARTS = (  # parts of this package's own Transformers, in nn
    "AdditiveAttention", "AlibiPositions", "AttentionPositions", "Block", "BlockSparseAttention", "FeedForward",
    "KeyValueCache", "LearnedPositions", "LinearAttention", "LocalAttention", "MultiHeadAttention", "NoPositions",
    "RelativePositions", "Remembered", "RotaryPositions", "SequenceBatchNorm", "SinusoidalPositions", "alibi_slopes",
    "causal_mask", "combine_masks", "make_attention", "make_norm", "padding_mask", "rotation", "sinusoidal_table",
    "window_mask",
)  # fmt: skip


def _modules() -> dict[str, dict[str, Any]]:
    """Names that are not in the package's own tree, by module; "" is torch itself."""
    from tinygrad_tf import amp, distributions, func, nn
    from tinygrad_tf.engine import RemovableHandle
    from tinygrad_tf.func import _trees
    from tinygrad_tf.methods.types import TYPE_NAMES
    from tinygrad_tf.nn import flex_attention, recurrent
    from tinygrad_tf.nn._state import IncompatibleKeys
    from tinygrad_tf.nn.multihead import NonDynamicallyQuantizableLinear as last_map
    from tinygrad_tf.optim import Optimizer
    from tinygrad_tf.utils import data

    data_parallel = {"DataParallel": data_parallel_class()}
    shares = {"DistributedSampler": refused_class("utils.data.distributed.DistributedSampler")}
    cuda: tuple[str, ...] = ("set_device", "synchronize", "current_device", "get_device_name", "get_device_properties")
    cuda += ("get_device_capability", "Stream", "Event", "stream", "mem_get_info", "current_stream", "get_rng_state")
    cuda += ("set_rng_state", "memory_stats", "memory_summary", "cudart", "device", "graph")
    downloads: tuple[str, ...] = ("load", "load_state_dict_from_url", "download_url_to_file", "list", "help")
    to_extend: tuple[str, ...] = ("load", "load_inline", "CppExtension", "CUDAExtension", "BuildExtension")
    processes: tuple[str, ...] = (
        "init_process_group",
        "destroy_process_group",
        "all_reduce",
        "all_gather",
        "all_gather_into_tensor",
    )
    processes += ("reduce_scatter_tensor", "barrier", "broadcast", "get_rank", "get_world_size", "new_group")
    processes += ("reduce", "reduce_scatter", "gather", "scatter", "send", "recv", "isend", "irecv", "all_to_all")
    processes += ("all_to_all_single", "all_gather_object", "gather_object", "broadcast_object_list", "get_backend")
    threads = {"set_num_threads": set_num_threads, "get_num_threads": get_num_threads}
    counters = ("max_memory_allocated", "memory_allocated", "max_memory_reserved", "memory_reserved", "device_count")
    forgotten: tuple[str, ...] = ("manual_seed", "manual_seed_all", "empty_cache", "reset_peak_memory_stats")
    forgotten += ("ipc_collect", "reset_max_memory_allocated", "set_rng_state_all")
    return {
        "": {
            "autocast": amp.autocast,
            "is_autocast_enabled": amp.is_autocast_enabled,
            "is_autocast_cpu_enabled": amp.is_autocast_enabled,
            "get_autocast_dtype": amp.get_autocast_dtype,
            "get_autocast_cpu_dtype": amp.get_autocast_dtype,
            "get_autocast_gpu_dtype": lambda: tinygrad_tf.float16,
            "GradScaler": amp.GradScaler,
            "torch": tinygrad_tf,
            "compile": compile,
            "memory_format": memory_format,
            **{form.name: form for form in memory_format},
            "vmap": func.vmap,
            **of_lists(),
            "has_mps": False,
            "layout": layout,
            "strided": layout.strided,
            "typename": typename,
            "set_flush_denormal": no,
            "newaxis": None,
            "OutOfMemoryError": OutOfMemoryError,
            "set_default_device": set_default_device,
            "get_default_device": lambda: tinygrad_tf.device("cpu"),
            "set_default_tensor_type": set_default_tensor_type,
            **{name: getattr(nn.functional, name) for name in ALSO_IN_TORCH},
            **{f"{name}_": getattr(tinygrad_tf.Tensor, f"{name}_") for name in IN_PLACE},
            **{name: getattr(tinygrad_tf.Tensor, name) for name in ("detach", "get_device", "is_signed")},
            "set_float32_matmul_precision": amp.set_float32_matmul_precision,
            "get_float32_matmul_precision": amp.get_float32_matmul_precision,
            "use_deterministic_algorithms": nothing,
            "are_deterministic_algorithms_enabled": lambda: True,
            **threads,
            "set_num_interop_threads": nothing,
            "get_num_interop_threads": lambda: 1,
        },
        "autograd": {"Variable": Variable},
        "autograd.profiler": {"record_function": record_function, "profile": profiler_parts()["profile"]},
        "profiler": {"record_function": record_function, **profiler_parts()},
        "functional": {"F": nn.functional, **{name: getattr(tinygrad_tf, name) for name in FUNCTIONAL}},
        "accelerator": {
            "is_available": no,
            "current_accelerator": nothing,
            "device_count": zero,
            **{
                name: refused(f"accelerator.{name}")
                for name in ("current_device_index", "device_index", "set_device_index", "synchronize")
            },
        },
        "cuda": {
            "_initialized": False,
            "OutOfMemoryError": OutOfMemoryError,
            **{name: refused(f"cuda.{name}") for name in cuda},
            **dict.fromkeys(counters, zero),
            **dict.fromkeys(("is_available", "is_bf16_supported", "is_initialized"), no),
            **dict.fromkeys(forgotten, nothing),
            "get_rng_state_all": list,
            **{name: refused_class(f"cuda.{name}") for name in TYPE_NAMES.values()},
        },
        "hub": {name: refused(f"hub.{name}", "downloads nothing") for name in downloads},
        "utils.model_zoo": {"load_url": refused("utils.model_zoo.load_url", "downloads nothing")},
        "onnx": {"export": refused("onnx.export", "writes no other programs' files (see save)")},
        "serialization": dict.fromkeys(("add_safe_globals", "clear_safe_globals", "safe_globals"), allowed),
        **{f"distributions.{file}": {name: getattr(distributions, name)} for file, name in DISTRIBUTIONS.items()},
        "_C": {"_LinAlgError": tinygrad_tf.linalg.LinAlgError, **dict.fromkeys(SCRIPT_SETTINGS, nothing)},
        "cuda.amp": {
            "autocast": lambda *args, **kwargs: amp.autocast("cuda", enabled=False),
            "GradScaler": amp.GradScaler,
            "custom_fwd": functools.partial(amp.custom_fwd, device_type="cuda"),
            "custom_bwd": functools.partial(amp.custom_bwd, device_type="cuda"),
        },
        "cuda.nvtx": {name: refused(f"cuda.nvtx.{name}") for name in ("range", "range_push", "range_pop", "mark")},
        "cuda.memory": {
            name: refused(f"cuda.memory.{name}") for name in ("_record_memory_history", "_dump_snapshot", "_snapshot")
        },
        "cuda.amp.grad_scaler": {"GradScaler": amp.GradScaler},
        "mps": {
            "is_available": no,
            "manual_seed": nothing,
            **{name: refused(f"mps.{name}") for name in ("synchronize", "empty_cache", "current_allocated_memory")},
        },
        "xpu": {
            "is_available": no,
            "device_count": zero,
            "get_device_properties": refused("xpu.get_device_properties"),
        },
        "backends.mps": {"is_available": no, "is_built": no},
        "backends.cuda": {"is_built": no, "sdp_kernel": sdpa_kernel},
        "backends.cuda.matmul": {"allow_tf32": False},
        "backends.cudnn": {
            "allow_tf32": False,
            "benchmark": False,
            "deterministic": True,
            "is_available": no,
            "enabled": True,
            "version": nothing,
            "flags": cudnn_flags,
        },
        **{f"backends.{name}": {"is_available": no} for name in ("mkl", "mkldnn", "openmp")},
        "distributed": {
            **dict.fromkeys(("is_available", "is_initialized", "is_nccl_available", "is_mpi_available"), no),
            "ReduceOp": ReduceOp,
            **{name: refused_class(f"distributed.{name}") for name in ("ProcessGroup", "Work")},
            **{name: refused(f"distributed.{name}") for name in processes},
        },
        "distributed.device_mesh": {
            "init_device_mesh": refused("distributed.device_mesh.init_device_mesh"),
            "DeviceMesh": refused_class("distributed.device_mesh.DeviceMesh"),
        },
        "distributed.elastic.multiprocessing.errors": {"record": itself},
        "distributed.nn": {name: refused(f"distributed.nn.{name}") for name in ("all_gather", "all_reduce")},
        "distributed.optim": {"ZeroRedundancyOptimizer": refused_class("distributed.optim.ZeroRedundancyOptimizer")},
        "multiprocessing": {
            "spawn": refused("multiprocessing.spawn"),
            **{name: getattr(multiprocessing, name) for name in multiprocessing.__all__},
        },
        "nn.utils.stateless": {"functional_call": func.functional_call},
        "_vmap_internals": {"_vmap": func.vmap},
        "overrides": {"has_torch_function": no},
        "nn.functional": {
            "has_torch_function": no,
            "upsample": nn.functional.interpolate,
            **{name: _upsampled(mode) for name, mode in OLDER_RESIZES.items()},
        },
        "optim.lr_scheduler": {"Optimizer": Optimizer},
        "nn.init": {name: older(getattr(nn.init, f"{name}_")) for name in OLDER_INITS},
        "nn": {
            **data_parallel,
            "SyncBatchNorm": refused_class("nn.SyncBatchNorm"),
            "RNNBase": recurrent.RNNBase,
            "NLLLoss2d": nn.NLLLoss,
        },
        "nn.utils": {"clip_grad_norm": older(nn.utils.clip_grad_norm_)},
        "nn.parallel": {
            **data_parallel,
            **{name: refused(f"nn.parallel.{name}") for name in ("data_parallel", "scatter", "gather", "replicate")},
            "DistributedDataParallel": refused_class("nn.parallel.DistributedDataParallel"),
        },
        "nn.attention": {"SDPBackend": SDPBackend, "sdpa_kernel": sdpa_kernel},
        "nn.attention.flex_attention": {
            **{name: vars(flex_attention)[name] for name in flex_attention.__all__},
            "_DEFAULT_SPARSE_BLOCK_SIZE": flex_attention.BLOCK,
            "_mask_mod_signature": flex_attention.MaskMod,
            "_score_mod_signature": flex_attention.ScoreMod,
        },
        **dict.fromkeys(("nn.modules", *(f"nn.modules.{file}" for file in FILES_OF_LAYERS)), _layers()),
        "nn.modules.transformer": _layers() | _parts_of_stacks(),
        "nn.modules.linear": _layers() | {last_map.__name__: last_map},
        "nn.modules.module": _layers() | {"_IncompatibleKeys": IncompatibleKeys},
        "nn.modules.utils": {
            "_ntuple": _repeated,
            **{name: _repeated(n) for n, name in enumerate(("_single", "_pair", "_triple", "_quadruple"), 1)},
        },
        "nn.utils.clip_grad": _functions(nn.utils) | {"clip_grad_norm": older(nn.utils.clip_grad_norm_)},
        "nn.utils.convert_parameters": _functions(nn.utils),
        "autograd.variable": {"Variable": Variable},
        "utils.hooks": {"RemovableHandle": RemovableHandle},
        "utils.cpp_extension": {name: refused(f"utils.cpp_extension.{name}", "compiles no C++") for name in to_extend},
        **dict.fromkeys(("utils.data", "utils.data.distributed"), shares),
        "utils.data._utils.collate": {"default_collate": data.default_collate, "default_convert": data.default_convert},
        "types": {"Number": int | float | bool, "Device": typing.Any, "_size": typing.Any},
        "nn.common_types": {f"_size_{name}_t": typing.Any for name in ("any", "1", "2", "3")},
        "_tensor": {"Tensor": tinygrad_tf.Tensor},
        "utils._pytree": {
            "tree_flatten": _trees.flattened,
            "tree_unflatten": _trees.unflattened,
            "tree_leaves": _trees.leaves_of,
            "tree_map": _trees.tree_map,
        },
        **{f"utils.tensorboard{file}": {"SummaryWriter": SummaryWriter} for file in ("", ".writer")},
        "jit": {
            **dict.fromkeys(("script", "script_method", "trace", "ignore", "export", "unused"), itself),
            "annotate": lambda kind, value: value,
            "ScriptModule": script_module_class(),
            "ScriptFunction": refused_class("jit.ScriptFunction"),
            **{name: refused(f"jit.{name}", "has no files of compiled models (see save)") for name in ("save", "load")},
            **dict.fromkeys(("is_scripting", "is_tracing"), no),
        },
        "_jit_internal": {name: getattr(typing, name) for name in ("Any", "Dict", "List", "Optional", "Tuple")},
        "compiler": {"disable": itself, "allow_in_graph": itself, "is_compiling": no, "reset": nothing},
        "_dynamo": {"disable": itself, "allow_in_graph": itself, "is_compiling": no, "reset": nothing},
        "_dynamo.config": {"suppress_errors": False, "cache_size_limit": 8},
        "_inductor.config": {"coordinate_descent_tuning": False},
        "version": {"__version__": f"{PYTORCH}+tinygrad_tf.{__version__}", "cuda": None, "hip": None},
    }


def _layers() -> dict[str, Any]:
    """PyTorch's layers, and the classes that losses derive from, which PyTorch has in files below torch.nn.modules."""
    from tinygrad_tf import nn
    from tinygrad_tf.nn import convolution, dropout, loss, norm, recurrent

    bases = {"_Loss": loss._Loss, "_WeightedLoss": loss._WeightedLoss}
    bases |= {"_ConvNd": convolution._Convolution, "_DropoutNd": dropout._DropoutNd, "RNNBase": recurrent.RNNBase}
    bases |= {name: vars(norm)[name] for name in ("_NormBase", "_BatchNorm", "_InstanceNorm")}
    return {name: value for name, value in vars(nn).items() if _is_layer_of_pytorch(name, value)} | bases


def _parts_of_stacks() -> dict[str, Any]:
    """What layers written after PyTorch's import from there: an activation by its name, and copies of a layer."""
    from tinygrad_tf import nn
    from tinygrad_tf.nn.transformer import _activation

    def copies(module: Any, N: int) -> Any:
        return nn.ModuleList(copy.deepcopy(module) for _ in range(N))

    return {"_get_activation_fn": _activation, "_get_clones": copies}


def _functions(module: types.ModuleType) -> dict[str, Any]:
    found = inspect.getmembers(module, inspect.isfunction)
    return {name: value for name, value in found if value.__module__ == module.__name__ and name[0] != "_"}


def _repeated(count: int) -> Any:
    """What layers for images make of their sizes: a pair of a number, a tuple of any other sequence."""
    return lambda size: (size,) * count if isinstance(size, (int, float)) else tuple(size)


def _upsampled(mode: str) -> Any:
    """What interpolate was called before it had modes."""
    from tinygrad_tf.nn import functional

    def interpolate(input: Any, size: Any = None, scale_factor: Any = None) -> Any:
        align = {} if mode == "nearest" else {"align_corners": True}
        return functional.interpolate(input, size, scale_factor, mode, **align)

    return older(interpolate)


def _is_layer_of_pytorch(name: str, value: Any) -> bool:
    return inspect.isclass(value) and hasattr(value, "register_buffer") and name not in OWN_PARTS


DISTRIBUTIONS = {  # files in which PyTorch has those that stand together here
    "beta": "Beta",
    "binomial": "Binomial",
    "chi2": "Chi2",
    "fishersnedecor": "FisherSnedecor",
    "half_cauchy": "HalfCauchy",
    "half_normal": "HalfNormal",
    "inverse_gamma": "InverseGamma",
    "kumaraswamy": "Kumaraswamy",
    "negative_binomial": "NegativeBinomial",
    "pareto": "Pareto",
    "poisson": "Poisson",
    "studentT": "StudentT",
    "weibull": "Weibull",
}
SCRIPT_SETTINGS = (  # of the compiler behind torch.jit
    "_jit_override_can_fuse_on_cpu", "_jit_override_can_fuse_on_gpu", "_jit_set_autocast_mode",
    "_jit_set_profiling_executor", "_jit_set_profiling_mode",
)  # fmt: skip
OLDER_RESIZES = {"upsample_nearest": "nearest", "upsample_bilinear": "bilinear"}
OLDER_INITS = (  # names that these had before they ended in _
    "constant", "eye", "kaiming_normal", "kaiming_uniform", "normal", "orthogonal", "uniform", "xavier_normal",
    "xavier_uniform",
)  # fmt: skip
FILES_OF_LAYERS = (  # below torch.nn.modules
    "activation", "batchnorm", "container", "conv", "distance", "dropout", "flatten", "fold", "instancenorm", "linear",
    "loss", "module", "normalization", "padding", "pixelshuffle", "pooling", "rnn", "sparse", "transformer",
    "upsampling",
)  # fmt: skip
ELSEWHERE = (
    "distributions.",
    "nn.modules.",
    "nn.utils.clip_grad",
    "nn.utils.convert_parameters",
)  # where names are a second time
ALSO_IN_TORCH = (  # functions of nn.functional that PyTorch has under torch, too
    "adaptive_avg_pool1d", "avg_pool1d", "batch_norm", "bilinear", "binary_cross_entropy_with_logits", "celu",
    "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "dropout", "embedding",
    "group_norm", "hardshrink", "kl_div", "layer_norm", "max_pool1d", "max_pool2d", "max_pool3d", "pairwise_distance",
    "pdist", "pixel_shuffle", "pixel_unshuffle", "prelu", "rms_norm", "rrelu", "selu", "threshold",
)  # fmt: skip
FUNCTIONAL = ("cartesian_prod", "cdist", "einsum", "meshgrid", "norm", "split", "tensordot", "unique")
IN_PLACE = (  # methods that PyTorch has as functions, too
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "clamp", "clamp_max", "clamp_min", "clip", "cos",
    "cosh", "detach", "erf", "exp", "exp2", "expm1", "fill", "floor", "frac", "index_put", "log", "log10",
    "log1p", "log2", "logit", "nan_to_num", "neg", "negative", "reciprocal", "relu", "round", "rsqrt", "sigmoid", "sin",
    "sinh", "sqrt", "square", "tan", "tanh", "trunc", "zero",
)  # fmt: skip


class Module(types.ModuleType):
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
            if path not in modules and not in_the_package(path):
                modules[path] = Module(f"torch.{path}")
                modules[path].__path__ = []
                parent = ".".join(parts[: end - 1])
                if parent in modules:
                    setattr(modules[parent], parts[end - 1], modules[path])
        target = modules.setdefault(dotted, Module(f"torch.{dotted}".rstrip(".")))
        target.__dict__.update(names)
    return modules


def in_the_package(path: str) -> bool:
    """Whether the package itself has this module."""
    place = Path(tinygrad_tf.__path__[0], *path.split("."))
    return place.is_dir() or place.with_suffix(".py").is_file()


_modules_built: dict[str, types.ModuleType] = {}


def extras() -> dict[str, types.ModuleType]:
    """The modules of this list by dotted name below torch; the names of torch itself under ""."""
    if not _modules_built:
        _modules_built.update(_built())
    return _modules_built

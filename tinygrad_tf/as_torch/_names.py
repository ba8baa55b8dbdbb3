"""The list of names that `--names` prints: what there is, and how it differs from PyTorch."""

from __future__ import annotations

import inspect
import types
from typing import Any, ParamSpec, TypeVar

import tinygrad_tf
from tinygrad_tf import engine
from tinygrad_tf.as_torch._modules import ELSEWHERE, OWN_PARTS, Module, extras

NAMESPACES = (
    "", "Tensor", "linalg", "fft", "sparse", "autograd", "autograd.forward_ad", "autograd.functional", "autograd.graph",
    "func", "distributions", "amp", "nn", "nn.functional", "nn.init", "nn.utils", "nn.utils.prune", "nn.utils.rnn",
    "nn.Module", "optim", "optim.Optimizer", "optim.lr_scheduler", "optim.swa_utils", "special", "testing",
    "utils.benchmark", "utils.checkpoint", "utils.data",
)  # fmt: skip

OURS = "not in PyTorch"
GRADIENT_CHECKS = ("GradcheckError", "GradcheckWarning", "check_backward", "check_module", "gradient_report")
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
    "load": "runs no code of a file: of torch.save's files plain data alone is read; safetensors files are read, too",
    "save": "writes one safetensors file, with the structure as JSON; functions and whole modules are refused",
    "empty": "gives zeros: leftovers in memory have cost people days",
    "compile": "returns its argument: there is nothing to compile",
    "ComplexTensor": f"{OURS}: a pair of real tensors with a few methods, since complex numbers are seldom needed here",
    "view_as_real": "copies: a complex tensor is a pair of tensors",
    "view_as_complex": "the parts are views of the pairs; the result is a ComplexTensor, which has a few methods",
    "histogram": "weights must be a tensor of the input's size; for a histogram without edges see histc",
    "Tensor.grad_fn": "what is one step there may be several here, as std is: the last has its name",
    "nn.Module.load_state_dict": "a state that does not fit changes nothing; PyTorch loads what fits of it",
    **dict.fromkeys(
        ("cosine_similarity", "nn.functional.cosine_similarity", "nn.CosineSimilarity"),
        "the gradient of a vector shorter than eps is that of the value; PyTorch's is as if it were not cut at eps",
    ),
    **dict.fromkeys(
        ("addmm", "addmv", "addr", "baddbmm"),
        "floats for beta and alpha beside integers are refused, where PyTorch cuts off their fractions",
    ),
    **dict.fromkeys(
        ("cholesky_solve", "cholesky_inverse"), "what the other triangle holds is not read, and its gradient is 0"
    ),
    **dict.fromkeys(
        ("polygamma", "Tensor.polygamma", "special.polygamma"),
        "from order 1 on infinite at 0 and negative integers, and 0 at infinity; PyTorch: large numbers, and NaN",
    ),
    **dict.fromkeys(("ldexp", "Tensor.ldexp"), "has a gradient beside negative integers, too, where PyTorch gives 0"),
    **dict.fromkeys(("as_strided", "Tensor.as_strided"), "of a contiguous tensor alone"),
    **dict.fromkeys(
        ("scatter_reduce", "Tensor.scatter_reduce"),
        "with include_self=False the gradient of an extreme goes to src alone; PyTorch takes an equal self's share off",
    ),
    "Tensor.to_sparse": "the tensor itself: sparse tensors do not exist",
    "Tensor.coalesce": "the tensor itself: sparse tensors do not exist",
    **dict.fromkeys(("sparse_coo_tensor", "sparse.FloatTensor"), "gives an ordinary tensor: sparse ones do not exist"),
    "nn.functional.interpolate": "no mode 'lanczos', no dtype uint8",
    "utils.checkpoint.checkpoint": "one way for both values of use_reentrant; the second run never stops early",
    "linalg.det": "of a singular matrix has the gradient that it has, its cofactors; PyTorch gives 0",
    "linalg.lstsq": "the gradient of the solution heeds rcond; PyTorch's is that without it",
    "linalg.lu": "no pivot=False, which PyTorch has for CUDA alone; nor has lu_factor",
    "autograd.forward_ad.make_dual": "not under no_grad: tangents come by way of two reverse passes; the dual tensor "
    "requires a gradient",
    "autograd.forward_ad.unpack_dual": "what was computed under no_grad, or by a gradient without create_graph=True, "
    "has no tangent",
    "func.jacfwd": "the same as jacrev: there is no forward mode",
    "func.vmap": "calls the function with one slice after the other, so that any function will do; it is not faster",
    "vmap": "see func.vmap",
    "nn.Module.register_backward_hook": "as register_full_backward_hook: PyTorch's old one gives the gradients of the "
    "last operation's inputs",
    "distributions.Kumaraswamy": "its mode is where the density is highest; PyTorch's is NaN",
    "nn.MultiheadAttention": "is_causal needs no mask; a query without keys gives zeros, not NaN; the weights returned "
    "are those before dropout: the first two are traps, the last makes rows that add up to 1",
    "nn.TransformerEncoder": "padded positions are computed, too, where PyTorch's fast path gives zeros",
    "nn.functional.scaled_dot_product_attention": "the mask must broadcast to the scores, not the other way round",
    "nn.functional.embedding": "gradients are dense: sparse tensors do not exist",
    "nn.Embedding": "gradients are dense: sparse tensors do not exist",
    **dict.fromkeys(
        ("nn.EmbeddingBag", "nn.functional.embedding_bag"),
        "gradients are dense: sparse tensors do not exist; ids behind a last offset do not count in any mode; "
        "scale_grad_by_freq divides by the id's own count, where PyTorch's sums divide by another's",
    ),
    **dict.fromkeys(
        ("nn.CTCLoss", "nn.functional.ctc_loss"),
        "the gradient is that of log_probs whatever they come from, where PyTorch's is right behind log_softmax alone; "
        "a text that does not fit gives the gradient 0, not NaN",
    ),
    "nn.utils.clip_grad_norm_": "the norm is taken in float64, so that large gradients do not become inf",
    "utils.data.DataLoader": "workers are threads that share the dataset, not processes with copies",
    "amp.autocast": "products are summed up in float32, and rounded once",
    "autograd.graph.saved_tensors_hooks": "unpack must return the shape and dtype that were packed; a tensor that pack "
    "left where it is must not be changed in place, which PyTorch does not notice",
    "optim.LBFGS": "a step of its line search to where the loss is infinite or NaN counts as too long, and a shorter "
    "one is tried; PyTorch's goes on to weights of NaN",
    "optim.SparseAdam": "gradients are dense: a row whose gradient is 0 throughout counts as one without",
    "optim.lr_scheduler.warmup_cosine": f"{OURS}: the rate of nanoGPT's schedule as a function",
    "optim.lr_scheduler.noam": f"{OURS}: the rate of the Transformer paper's schedule as a function",
    "optim.Optimizer.update_group": f"{OURS}: what an optimiser here defines: one step for one group",
    "use_reference": f"{OURS}: runs fused operations by their plain formulas",
    "amp.is_autocast_enabled": f"{OURS} by this name: there it is torch.is_autocast_enabled, which is here, too",
    **{
        f"amp.{name}": f"{OURS} by this name: there it is torch.{name}, which is here, too"
        for name in ("get_float32_matmul_precision", "set_float32_matmul_precision")
    },
    "set_float32_matmul_precision": "holds on processors with matrix tiles; 'medium' also with AVX512_BF16",
    "amp.get_autocast_dtype": f"{OURS} by this name: there it is torch.get_autocast_dtype, which is here, too",
    **{
        f"autograd.{name}": f"{OURS} by this name: there it is torch.{name}, which is here, too"
        for name in ("is_grad_enabled", "is_inference_mode_enabled")
    },
    "inference_mode": "marks the tensors made inside, and forbids them nothing afterwards",
    "autograd.graph.allow_mutation_on_saved_tensors": "copies all that is saved, at once; PyTorch what is changed",
    "autograd.graph.register_multi_grad_hook": "waits for the gradient that the pass starts with, too, which PyTorch "
    "does not count",
    "utils.data.WorkerInfo": f"{OURS} by this name: what get_worker_info returns",
    **{f"nn.{name}": f"{OURS}: a part of this package's own Transformers" for name in OWN_PARTS},
    **{f"autograd.{name}": f"{OURS}: checking of gradients" for name in GRADIENT_CHECKS},
    **{f"utils.data.{name}": f"{OURS}: texts and their tokens" for name in TEXTS},
}


def names() -> list[str]:
    """All public names below torch, sorted: of the package and of this file; layers in one place of several."""
    once = {path: module for path, module in extras().items() if not path.startswith(ELSEWHERE)}
    found = {f"{path}.{name}" for path, module in once.items() for name in vars(module) if _public(module, name)}
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
    if isinstance(holder, Module) or holder is tinygrad_tf:
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

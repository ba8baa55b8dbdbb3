"""What training loops do with parameters and gradients: clipping, and one long vector of all parameters."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from tinygrad_tf import kernels
from tinygrad_tf._quiet import quiet
from tinygrad_tf.engine import make
from tinygrad_tf.functions import cat
from tinygrad_tf.nn.utils import parametrizations as parametrizations
from tinygrad_tf.nn.utils import parametrize as parametrize
from tinygrad_tf.nn.utils import prune as prune
from tinygrad_tf.nn.utils import rnn as rnn
from tinygrad_tf.nn.utils.parametrizations import old_weight_norm as weight_norm
from tinygrad_tf.nn.utils.parametrizations import remove_weight_norm as remove_weight_norm
from tinygrad_tf.nn.utils.spectral import old_spectral_norm as spectral_norm
from tinygrad_tf.nn.utils.spectral import remove_spectral_norm as remove_spectral_norm
from tinygrad_tf.random import get_rng_state, set_rng_state
from tinygrad_tf.tensor import Tensor


def _gradients(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    given = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    if not given and isinstance(parameters, Iterator):
        warnings.warn(
            "the iterator of parameters was used up before: no gradient is clipped; give a list", stacklevel=3
        )
    return [p.grad for p in given if p.grad is not None]


def get_total_norm(
    tensors: Iterable[Tensor], norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None
) -> Tensor:
    """The norm of all tensors (gradients) as one long vector, gathered in float64, so that no square overflows."""
    arrays = [g.array for g in tensors]
    dtype = arrays[0].dtype if arrays else np.dtype(np.float32)
    norm_type = float(norm_type)
    if norm_type == 2.0 and arrays:
        total = float(kernels.adamw.global_norm(arrays))
    else:
        with quiet():
            norms = [np.linalg.norm(a.reshape(-1).astype(np.float64), norm_type) for a in arrays]
            total = float(np.linalg.norm(norms, norm_type)) if norms else 0.0
    if error_if_nonfinite and not math.isfinite(total):
        raise RuntimeError(f"the norm of the gradients is {total}, so they cannot be clipped; they are unchanged")
    return make(np.asarray(total, dtype))


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale all gradients so that their common norm is at most max_norm (Pascanu et al., 2013); return the norm before.

    >>> from tinygrad_tf import nn, tensor
    >>> p = nn.Parameter(tensor([0.0, 0.0]))
    >>> p.grad = tensor([3.0, 4.0])
    >>> clip_grad_norm_([p], 1.0)
    tensor(5.)
    """
    gradients = _gradients(parameters)
    norm = get_total_norm(gradients, norm_type, error_if_nonfinite)
    _clip(gradients, max_norm, norm)
    return norm


def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """The second half of clip_grad_norm_, for a norm that is known: get_total_norm of some or of all gradients.

    >>> from tinygrad_tf import nn, tensor
    >>> p = nn.Parameter(tensor([0.0, 0.0]))
    >>> p.grad = tensor([3.0, 4.0])
    >>> clip_grads_with_norm_([p], 1.0, tensor(10.0))
    >>> p.grad
    tensor([0.3000, 0.4000])
    """
    _clip(_gradients(parameters), max_norm, total_norm)


def _clip(gradients: list[Tensor], max_norm: float, total_norm: Tensor) -> None:
    total = float(total_norm)
    share = float(max_norm) / (total + 1e-6)
    if share < 1.0 or not math.isfinite(total):
        _scale([g.array for g in gradients], share)
        for g in gradients:
            g.storage.written()


def _scale(arrays: list[np.ndarray], share: float) -> None:
    """Multiply in place: a few small arrays one by one, as looking them all up for the kernel would cost more."""
    if sum([a.size for a in arrays]) >= 1 << 16:
        kernels.adamw.scale_(arrays, share)
    else:
        with quiet():  # of an infinite norm, which is a value
            for a in arrays:
                a *= a.dtype.type(share)


def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None) -> None:
    """Cut every entry of every gradient to [-clip_value, clip_value]."""
    for g in _gradients(parameters):
        np.clip(g.array, -clip_value, clip_value, out=g.array)
        g.storage.written()


def skip_init(module_cls: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """module_cls(*args, **kwargs), whose weights are about to be overwritten: no random number is taken for them.

    The weights hold numbers all the same, where PyTorch's hold what was left in memory.
    """
    before = get_rng_state()
    try:
        return module_cls(*args, **kwargs)
    finally:
        set_rng_state(before)


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All parameters, flattened, one behind the other."""
    return cat([p.reshape(-1) for p in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Any]) -> None:
    """Write the pieces of a vector into the parameters, as parameters_to_vector put them one behind the other."""
    start = 0
    for p in parameters:
        size = p.array.size
        p.array[...] = vec.array[start : start + size].reshape(p.array.shape)
        p.storage.written()
        start += size

"""Pruning: parts of a weight are held at zero by a mask, as in torch.nn.utils.prune.

A pruned module trains NAME_orig, a parameter, and keeps NAME_mask, a buffer; NAME is their product, made anew before
each forward by a hook. Gradients reach NAME_orig where the mask is 1. Pruning again looks only at what is left.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from numbers import Integral, Real
from typing import Any

from tinygrad_tf.autograd.grad_mode import no_grad
from tinygrad_tf.creation import ones_like, rand, rand_like, zeros_like
from tinygrad_tf.functions import cat, kthvalue, norm, topk
from tinygrad_tf.nn.module import Module
from tinygrad_tf.nn.utils._pruning import BasePruningMethod as BasePruningMethod
from tinygrad_tf.nn.utils._pruning import PruningContainer as PruningContainer
from tinygrad_tf.nn.utils._pruning import checked_scores, hook_of, remove_hook
from tinygrad_tf.tensor import Tensor

__all__ = [
    "BasePruningMethod",
    "CustomFromMask",
    "Identity",
    "L1Unstructured",
    "LnStructured",
    "PruningContainer",
    "RandomStructured",
    "RandomUnstructured",
    "custom_from_mask",
    "global_unstructured",
    "identity",
    "is_pruned",
    "l1_unstructured",
    "ln_structured",
    "random_structured",
    "random_unstructured",
    "remove",
]

Amount = int | float

# --- the methods ------------------------------------------------------------------------------------------------------


class Identity(BasePruningMethod):
    """Prunes nothing: names and hooks are there, with a mask of ones."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask


class RandomUnstructured(BasePruningMethod):
    """Prunes entries at random: `amount` of them, or (a float) that share."""

    def __init__(self, amount: Amount):
        self.amount = _checked_amount(amount)

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return _pruned(t, default_mask, self.amount, lambda count: topk(rand_like(t).reshape(-1), count))


class L1Unstructured(BasePruningMethod):
    """Prunes the entries that are smallest in absolute value: `amount` of them, or (a float) that share."""

    def __init__(self, amount: Amount):
        self.amount = _checked_amount(amount)

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return _pruned(t, default_mask, self.amount, lambda count: topk(t.abs().reshape(-1), count, largest=False))


class _Structured(BasePruningMethod):
    """Prunes whole slices along an axis: `keeps` says of which something is left."""

    PRUNING_TYPE = "structured"
    amount: Amount
    dim: int

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        if t.ndim < 2:
            raise ValueError(
                f"{type(self).__name__}: structured pruning needs at least two dimensions, got {tuple(t.shape)}"
            )
        if not -t.ndim <= self.dim < t.ndim:
            raise IndexError(f"{type(self).__name__}: dim must be in [{-t.ndim}, {t.ndim - 1}], got {self.dim}")
        size = t.shape[self.dim]
        count = _count(self.amount, size)
        if not count:
            return default_mask
        kept = self.keeps(t, count)
        shape = [size if d == self.dim % t.ndim else 1 for d in range(t.ndim)]
        return default_mask * kept.to(default_mask.dtype).reshape(shape)

    @abstractmethod
    def keeps(self, t: Tensor, count: int) -> Tensor:
        """1 for each slice that stays, 0 for the `count` others."""


class RandomStructured(_Structured):
    """Prunes slices along `dim` at random: `amount` of them, or (a float) that share."""

    def __init__(self, amount: Amount, dim: int = -1):
        self.amount, self.dim = _checked_amount(amount), dim

    def keeps(self, t: Tensor, count: int) -> Tensor:
        numbers = rand(t.shape[self.dim])
        return numbers > kthvalue(numbers, count).values


class LnStructured(_Structured):
    """Prunes the slices along `dim` of the smallest n-norm: `amount` of them, or (a float) that share."""

    def __init__(self, amount: Amount, n: Any, dim: int = -1):
        self.amount, self.n, self.dim = _checked_amount(amount), n, dim

    def keeps(self, t: Tensor, count: int) -> Tensor:
        others = tuple(d for d in range(t.ndim) if d != self.dim % t.ndim)
        norms = norm(t, p=self.n, dim=others)
        kept = zeros_like(norms)
        kept[topk(norms, norms.numel() - count).indices] = 1
        return kept


class CustomFromMask(BasePruningMethod):
    """Prunes where a given mask is 0."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor):
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        if self.mask.shape != default_mask.shape:
            raise ValueError(
                f"custom_from_mask: mask must have the shape {tuple(default_mask.shape)} of the tensor, "
                f"got {tuple(self.mask.shape)}"
            )
        return default_mask * self.mask.to(default_mask.dtype)


# --- as functions -----------------------------------------------------------------------------------------------------


def identity(module: Module, name: str) -> Module:
    """Prepare module.NAME for pruning, with a mask of ones."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: Amount) -> Module:
    """Prune entries at random: `amount` of them, or (a float) that share of those that are left."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Module, name: str, amount: Amount, importance_scores: Tensor | None = None) -> Module:
    """Prune the entries that are smallest in absolute value (Han et al., 2015).

    >>> from tinygrad_tf import nn, tensor
    >>> layer = nn.Linear(2, 2)
    >>> layer.weight.data.copy_(tensor([[3.0, -1.0], [0.5, 2.0]]))
    tensor([[ 3.0000, -1.0000],
            [ 0.5000,  2.0000]])
    >>> l1_unstructured(layer, "weight", amount=0.5).weight.detach()
    tensor([[3., -0.],
            [0., 2.]])
    >>> sorted(layer.state_dict())
    ['bias', 'weight_mask', 'weight_orig']
    """
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: Amount, dim: int) -> Module:
    """Prune slices along `dim` at random: `amount` of them, or (a float) that share of those that are left."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Module, name: str, amount: Amount, n: Any, dim: int, importance_scores: Tensor | None = None
) -> Module:
    """Prune the slices along `dim` of the smallest n-norm; n as `norm` takes it."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Prune where `mask`, of the tensor's shape, is 0."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]],
    pruning_method: type[BasePruningMethod],
    importance_scores: dict[tuple[Module, str], Tensor] | None = None,
    **kwargs: Any,
) -> None:
    """Prune the tensors (module, name), ... as if they were one: the smallest of all, wherever they are.

    >>> from tinygrad_tf import nn
    >>> net = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
    >>> weights = [(layer, "weight") for layer in net]
    >>> global_unstructured(weights, L1Unstructured, amount=0.5)
    >>> sum(int((layer.weight == 0).sum()) for layer in net)
    9
    """
    places = list(parameters)
    if not all(isinstance(place, tuple) and len(place) == 2 for place in places) or not places:
        raise TypeError("global_unstructured: parameters must be (module, name) pairs, at least one")
    scores = importance_scores or {}
    if not isinstance(scores, dict):
        raise TypeError(f"global_unstructured: importance_scores must be a dictionary, got {type(scores).__name__}")
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            f"global_unstructured: pruning_method must be unstructured, and {pruning_method.__name__} is "
            f"{method.PRUNING_TYPE}"
        )
    tensors = [getattr(module, name) for module, name in places]
    masks = [getattr(m, f"{name}_mask", ones_like(t)) for (m, name), t in zip(places, tensors, strict=True)]
    method._tensor_name = "all"
    with no_grad():
        given = [checked_scores(scores.get(place, t), t) for place, t in zip(places, tensors, strict=True)]
        rows = [cat([t.reshape(-1) for t in parts]) for parts in (given, masks)]
        mask = PruningContainer(method).compute_mask(*rows)
    for place, t, part in zip(places, tensors, mask.split([t.numel() for t in tensors]), strict=True):
        custom_from_mask(*place, part.reshape(t.shape))


def remove(module: Module, name: str) -> Module:
    """Make module.NAME an ordinary parameter again, with what was pruned at zero."""
    hook = hook_of(module, name)
    if hook is None:
        raise ValueError(f"remove: {name!r} of {type(module).__name__} is not pruned")
    hook.remove(module)
    remove_hook(module, hook)
    return module


def is_pruned(module: Module) -> bool:
    """Whether anything in the module, or in those inside it, is pruned.

    >>> from tinygrad_tf import nn
    >>> layer = nn.Linear(2, 2)
    >>> is_pruned(layer), is_pruned(identity(layer, "weight")), is_pruned(remove(layer, "weight"))
    (False, True, False)
    """
    hooks = (hook for inner in module.modules() for hook in inner._forward_pre_hooks.values())
    return any(isinstance(hook, BasePruningMethod) for hook in hooks)


# --- helpers ----------------------------------------------------------------------------------------------------------


def _checked_amount(amount: Any) -> Amount:
    if not isinstance(amount, Real):
        raise TypeError(f"prune: amount must be a whole number or a share from 0 to 1, got {type(amount).__name__}")
    if not (int(amount) >= 0 if isinstance(amount, Integral) else 0.0 <= float(amount) <= 1.0):
        raise ValueError(f"prune: amount must be a whole number from 0 on, or a float from 0 to 1, got {amount}")
    return int(amount) if isinstance(amount, Integral) else float(amount)


def _count(amount: Amount, size: int) -> int:
    """How many of `size` entries are to go."""
    if isinstance(amount, int) and amount > size:
        raise ValueError(f"prune: amount must be at most the {size} that are left, got {amount}")
    return amount if isinstance(amount, int) else round(amount * size)


def _pruned(t: Tensor, default_mask: Tensor, amount: Amount, chosen: Callable[[int], Any]) -> Tensor:
    """The mask, with zeros at the indices that are chosen, as many as `amount` says."""
    mask, count = default_mask.clone(), _count(amount, t.numel())
    if count:
        mask.view(-1)[chosen(count).indices] = 0
    return mask

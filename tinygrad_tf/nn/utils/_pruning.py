"""What all methods of pruning share (prune.py): masks, names and hooks at a module, one method after the other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

from tinygrad_tf.autograd.grad_mode import no_grad
from tinygrad_tf.creation import ones_like
from tinygrad_tf.nn.module import Module
from tinygrad_tf.nn.parameter import Parameter
from tinygrad_tf.tensor import Tensor


class BasePruningMethod(ABC):
    """What chooses the entries to prune: derive from it, set PRUNING_TYPE, write `compute_mask`, and call `apply`.

    PRUNING_TYPE says what compute_mask gets to see when the tensor was pruned before: "unstructured" the entries that
    are left, in one row; "structured" the slices along `self.dim` of which something is left; "global" everything.

    >>> from tinygrad_tf import nn
    >>> class EveryOther(BasePruningMethod):
    ...     PRUNING_TYPE = "unstructured"
    ...     def compute_mask(self, t, default_mask):
    ...         mask = default_mask.clone()
    ...         mask.view(-1)[::2] = 0
    ...         return mask
    >>> layer = nn.Linear(3, 2)
    >>> _ = EveryOther.apply(layer, "weight")
    >>> layer.weight_mask
    tensor([[0., 1., 0.],
            [1., 0., 1.]])
    """

    PRUNING_TYPE: str = "unstructured"
    _tensor_name: str

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask, of ones and zeros, from how important the entries are (t) and what was pruned (default_mask)."""

    def __call__(self, module: Module, inputs: Any) -> None:
        """Before each forward: NAME is computed again."""
        module.__dict__[self._tensor_name] = self.apply_mask(module)

    def apply_mask(self, module: Module) -> Tensor:
        """NAME_mask * NAME_orig."""
        original: Tensor = getattr(module, f"{self._tensor_name}_orig")
        mask: Tensor = getattr(module, f"{self._tensor_name}_mask")
        return mask.to(original.dtype) * original

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: Tensor | None = None, **kwargs: Any
    ) -> BasePruningMethod:
        """Prune module.NAME by cls(*args, **kwargs); return what stands as a hook at the module: it, or a container.

        importance_scores: how important each entry is, of the shape of the tensor; by default its own values.
        """
        method, before = cls(*args, **kwargs), hook_of(module, name)
        method._tensor_name = name
        current = getattr(module, name, None)
        if not isinstance(current, Tensor) or (before is None and not isinstance(current, Parameter)):
            raise AttributeError(f"prune: {type(module).__name__} has no parameter {name!r}")
        scores = checked_scores(current if importance_scores is None else importance_scores, current)
        hook = method if before is None else PruningContainer(*before, method)
        default = ones_like(current) if before is None else getattr(module, f"{name}_mask").detach().clone()
        with no_grad():
            mask = hook.compute_mask(scores.detach(), default)
        if not isinstance(mask, Tensor) or mask.shape != current.shape:
            got = tuple(mask.shape) if isinstance(mask, Tensor) else type(mask).__name__
            raise ValueError(
                f"{cls.__name__}: compute_mask must return a tensor of the shape {tuple(current.shape)}, got {got}"
            )
        if before is None:
            module.register_parameter(f"{name}_orig", module.__dict__[name])
            del module.__dict__[name]
        else:
            remove_hook(module, before)
        module.register_buffer(f"{name}_mask", mask.to(current.dtype))
        hook(module, ())
        module.register_forward_pre_hook(hook)
        return hook

    def prune(self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None) -> Tensor:
        """`t` itself, pruned: no module takes part.

        >>> from tinygrad_tf import nn, tensor
        >>> nn.utils.prune.L1Unstructured(amount=1).prune(tensor([3.0, -1.0, 2.0]))
        tensor([3., -0., 2.])
        """
        scores = checked_scores(t if importance_scores is None else importance_scores, t)
        return t * self.compute_mask(scores, ones_like(t) if default_mask is None else default_mask)

    def remove(self, module: Module) -> None:
        """Give the parameter its name back, with the pruned values; the hook is left to the caller."""
        name = self._tensor_name
        parameter = module.__dict__.pop(f"{name}_orig")
        del module.__dict__[name]
        with no_grad():
            parameter.data = getattr(module, f"{name}_mask").to(parameter.dtype) * parameter
        del module.__dict__[f"{name}_mask"]
        kept = {known: stored for known, stored in module._buffer_names.items() if known != f"{name}_mask"}
        object.__setattr__(module, "_buffer_names", kept)
        setattr(module, name, parameter)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter((self,))


class PruningContainer(BasePruningMethod):
    """Several methods that pruned one tensor, in their order; the last one decides among what the others have left."""

    def __init__(self, *args: BasePruningMethod):
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod) -> None:
        if not isinstance(method, BasePruningMethod):
            raise TypeError(f"PruningContainer: method must be a BasePruningMethod, got {type(method).__name__}")
        own = getattr(self, "_tensor_name", method._tensor_name)
        if method._tensor_name != own:
            raise ValueError(f"PruningContainer: all methods must prune {own!r}, got one for {method._tensor_name!r}")
        self._tensor_name = own
        self._pruning_methods += (method,)

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        method, mask = self._pruning_methods[-1], default_mask.clone()
        left = _left(method, default_mask)
        mask[left] = method.compute_mask(t[left], mask[left]).to(mask.dtype)
        return mask

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, index: int) -> BasePruningMethod:
        return self._pruning_methods[index]


def _left(method: BasePruningMethod, mask: Tensor) -> Any:
    """The index of what a method gets to see of a tensor that was pruned before."""
    if method.PRUNING_TYPE == "unstructured":
        return mask == 1
    if method.PRUNING_TYPE == "structured":
        dim: int = getattr(method, "dim", -1) % mask.ndim
        others = [d for d in range(mask.ndim) if d != dim]
        return (*[slice(None)] * dim, mask.sum(others) != 0)
    if method.PRUNING_TYPE == "global":
        return ...
    raise ValueError(
        f"{type(method).__name__}: PRUNING_TYPE must be 'unstructured', 'structured' or 'global', "
        f"got {method.PRUNING_TYPE!r}"
    )


def hook_of(module: Module, name: str) -> BasePruningMethod | None:
    """The method, or the container of methods, that prunes module.NAME."""
    for hook in module._forward_pre_hooks.values():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            return hook
    return None


def remove_hook(module: Module, hook: BasePruningMethod) -> None:
    hooks = module._forward_pre_hooks
    for key in [key for key, known in hooks.items() if known is hook]:
        del hooks[key]


def checked_scores(scores: Any, t: Tensor) -> Tensor:
    if not isinstance(scores, Tensor) or scores.shape != t.shape:
        got = tuple(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
        raise ValueError(f"prune: importance_scores must be a tensor of the shape {tuple(t.shape)}, got {got}")
    return scores

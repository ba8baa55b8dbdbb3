"""Parametrizations that are used by name."""

from __future__ import annotations

from typing import Any

from tinygrad_tf.nn.module import Module
from tinygrad_tf.nn.parameter import Parameter
from tinygrad_tf.nn.utils import parametrize
from tinygrad_tf.nn.utils.orthogonal import orthogonal
from tinygrad_tf.nn.utils.spectral import spectral_norm
from tinygrad_tf.tensor import Tensor


def _norm(v: Tensor, dim: int | None) -> Tensor:
    """The norm over all axes but `dim`, which stay with size 1."""
    axes = tuple(i for i in range(v.ndim) if dim is None or i != dim % v.ndim)
    return (v * v).sum(axes, keepdim=dim is not None).sqrt()


class _WeightNorm(Module):
    """w = g v / |v|, with a length g for each entry of axis `dim` (Salimans and Kingma, 2016)."""

    def __init__(self, dim: int | None = 0):
        super().__init__()
        self.dim = dim

    def forward(self, g: Tensor, v: Tensor) -> Tensor:
        return v * (g / _norm(v, self.dim))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return _norm(weight, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Train the lengths (original0) and the directions (original1) of the rows of a weight apart.

    >>> from tinygrad_tf import nn
    >>> layer = weight_norm(nn.Linear(2, 3))
    >>> [name for name, _ in layer.named_parameters()][1:]
    ['parametrizations.weight.original0', 'parametrizations.weight.original1']
    """
    return parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)


class OldWeightNorm:
    """nn.utils.weight_norm, the older form: NAME_g and NAME_v, from which a hook computes NAME before each forward."""

    def __init__(self, module: Module, name: str, dim: int):
        self.name, self.dim = name, None if dim == -1 else dim
        weight = module.__dict__.pop(name)
        setattr(module, f"{name}_g", Parameter(_norm(weight, self.dim).detach()))
        setattr(module, f"{name}_v", Parameter(weight.detach()))
        self(module, ())
        self.handle = module.register_forward_pre_hook(self)

    def __call__(self, module: Module, args: Any) -> None:
        module.__dict__[self.name] = self.computed(module)

    def computed(self, module: Module) -> Tensor:
        v = getattr(module, f"{self.name}_v")
        return v * (getattr(module, f"{self.name}_g") / _norm(v, self.dim))


def old_weight_norm(module: Module, name: str = "weight", dim: int = 0) -> Module:
    """As parametrizations.weight_norm, with parameters NAME_g (lengths) and NAME_v (directions); dim -1: one length."""
    if not isinstance(module.__dict__.get(name), Parameter):
        raise ValueError(f"weight_norm: {type(module).__name__} has no parameter {name!r}")
    OldWeightNorm(module, name, dim)
    return module


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """Undo nn.utils.weight_norm: the weight is an ordinary parameter again."""
    for hook in list(module._forward_pre_hooks.values()):
        if isinstance(hook, OldWeightNorm) and hook.name == name:
            weight = hook.computed(module).detach()
            for part in (name, f"{name}_g", f"{name}_v"):
                del module.__dict__[part]
            setattr(module, name, Parameter(weight))
            hook.handle.remove()
            return module
    raise ValueError(f"remove_weight_norm: {type(module).__name__} has no weight_norm on {name!r}")


__all__ = ["orthogonal", "spectral_norm", "weight_norm"]

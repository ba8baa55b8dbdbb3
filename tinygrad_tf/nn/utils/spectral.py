"""Spectral norm: a weight divided by its largest singular value (Miyato et al., 2018), as critics of GANs have it.

The singular vectors u and v are kept in buffers, and follow the weight by a step or more of the power method at each
forward in training.
"""

from __future__ import annotations

from typing import Any

from tinygrad_tf.autograd import no_grad
from tinygrad_tf.creation import randn
from tinygrad_tf.nn import functional as F
from tinygrad_tf.nn.convolution import ConvTranspose1d, ConvTranspose2d
from tinygrad_tf.nn.module import Module
from tinygrad_tf.nn.parameter import Parameter
from tinygrad_tf.nn.utils import parametrize
from tinygrad_tf.tensor import Tensor


def _matrix(weight: Tensor, dim: int) -> Tensor:
    """The weight as a matrix whose rows are the entries of axis `dim`."""
    return weight.movedim(dim, 0).flatten(1)


def _axis(module: Module, dim: int | None) -> int:
    """The axis of outputs, which comes second in transposed convolutions."""
    return int(isinstance(module, (ConvTranspose1d, ConvTranspose2d))) if dim is None else dim


def _start(matrix: Tensor, eps: float) -> list[Tensor]:
    """A random u and v."""
    return [F.normalize(randn(n, dtype=matrix.dtype), dim=0, eps=eps) for n in matrix.shape]


def _divided(weight: Tensor, matrix: Tensor, u: Tensor, v: Tensor) -> Tensor:
    """weight / (u^T W v); copies of u and v, which the next forward changes while backward still needs these."""
    return weight / u.clone().dot(matrix.mv(v.clone()))


def _check_iterations(count: int) -> None:
    if count < 1:
        raise ValueError(f"spectral_norm: n_power_iterations must be at least 1, got {count}")


class _SpectralNorm(Module):
    """The parametrization: weight to weight / its largest singular value; a vector to one of length 1."""

    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12):
        super().__init__()
        _check_iterations(n_power_iterations)
        self.n_power_iterations, self.dim, self.eps = n_power_iterations, dim, eps
        if weight.ndim > 1:
            with no_grad():
                matrix = _matrix(weight.detach(), dim)
                u, v = _start(matrix, eps)
                self.register_buffer("_u", u)
                self.register_buffer("_v", v)
                self._iterate(matrix, 15)

    def _iterate(self, matrix: Tensor, count: int) -> None:
        with no_grad():
            for _ in range(count):
                self._u.copy_(F.normalize(matrix.mv(self._v), dim=0, eps=self.eps))
                self._v.copy_(F.normalize(matrix.t().mv(self._u), dim=0, eps=self.eps))

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = _matrix(weight, self.dim)
        if self.training:
            self._iterate(matrix, self.n_power_iterations)
        return _divided(weight, matrix, self._u, self._v)

    def right_inverse(self, value: Tensor) -> Tensor:
        return value


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """nn.utils.parametrizations.spectral_norm: the weight is divided by its largest singular value.

    >>> from tinygrad_tf import nn
    >>> layer = nn.utils.parametrizations.spectral_norm(nn.Linear(20, 40))
    >>> abs(nn.functional.linear(layer.weight.T, layer.weight.T).norm(2).item()) < 10
    True
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"spectral_norm: {type(module).__name__} has no parameter {name!r}")
    norm = _SpectralNorm(weight, n_power_iterations, _axis(module, dim), eps)
    return parametrize.register_parametrization(module, name, norm)


class OldSpectralNorm:
    """The older form: NAME_orig, NAME_u and NAME_v, from which a hook computes NAME before each forward."""

    def __init__(self, module: Module, name: str, count: int, dim: int, eps: float):
        _check_iterations(count)
        self.name, self.count, self.dim, self.eps = name, count, dim, eps
        weight = module.__dict__.pop(name)
        setattr(module, f"{name}_orig", weight)
        object.__setattr__(module, name, weight.detach())
        with no_grad():
            u, v = _start(_matrix(weight.detach(), dim), eps)
        module.register_buffer(f"{name}_u", u)
        module.register_buffer(f"{name}_v", v)
        self.handle = module.register_forward_pre_hook(self)

    def __call__(self, module: Module, args: Any) -> None:
        module.__dict__[self.name] = self.computed(module, module.training)

    def computed(self, module: Module, iterate: bool) -> Tensor:
        weight, u, v = (getattr(module, f"{self.name}_{part}") for part in ("orig", "u", "v"))
        matrix = _matrix(weight, self.dim)
        with no_grad():
            for _ in range(self.count if iterate else 0):
                v.copy_(F.normalize(matrix.t().mv(u), dim=0, eps=self.eps))
                u.copy_(F.normalize(matrix.mv(v), dim=0, eps=self.eps))
        return _divided(weight, matrix, u, v)


def old_spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """nn.utils.spectral_norm: as parametrizations.spectral_norm, with NAME_orig and buffers NAME_u and NAME_v."""
    if not isinstance(module.__dict__.get(name), Parameter):
        raise ValueError(f"spectral_norm: {type(module).__name__} has no parameter {name!r}")
    OldSpectralNorm(module, name, n_power_iterations, _axis(module, dim), eps)
    return module


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """Undo nn.utils.spectral_norm: the divided weight is an ordinary parameter."""
    for hook in list(module._forward_pre_hooks.values()):
        if isinstance(hook, OldSpectralNorm) and hook.name == name:
            weight = hook.computed(module, False).detach()
            for part in (name, f"{name}_orig", f"{name}_u", f"{name}_v"):
                module._buffers.pop(part, None) if part in module._buffers else module.__dict__.pop(part)
            setattr(module, name, Parameter(weight))
            hook.handle.remove()
            return module
    raise ValueError(f"remove_spectral_norm: {type(module).__name__} has no spectral_norm on {name!r}")


__all__ = ["spectral_norm"]

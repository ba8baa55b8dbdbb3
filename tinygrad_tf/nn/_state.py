"""State dicts: a module's parameters and persistent buffers by their dotted names, handed out and taken back."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from tinygrad_tf.complex_numbers import ComplexTensor
from tinygrad_tf.tensor import Tensor

if TYPE_CHECKING:
    from tinygrad_tf.nn.module import Module


EXTRA = "_extra_state"  # the name of what a class of one's own gives and takes by get_extra_state and set_extra_state


class IncompatibleKeys(NamedTuple):
    """What load_state_dict(strict=False) found missing in the dictionary, and what it had no use for."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"_IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"


def empty_state() -> OrderedDict[str, Any]:
    """A state_dict without entries yet; its attribute _metadata is for the version that each module gives its part.

    It is a plain OrderedDict, as in PyTorch, so that it prints as one.
    """
    state: Any = OrderedDict()
    state._metadata = OrderedDict()
    return cast("OrderedDict[str, Any]", state)


def _own(module: Module) -> dict[str, Any]:
    """The parameters and persistent buffers that a module itself has."""
    kept = {name: module.__dict__.get(name) for name, persistent in module._buffer_names.items() if persistent}
    return {name: tensor for name, tensor in {**module._parameters, **kept}.items() if tensor is not None}


def names_of_own(module: Module, prefix: str) -> list[str]:
    return [prefix + name for name in _own(module)]


def collect_state(module: Module, state: dict[str, Any], prefix: str, keep_vars: bool) -> None:
    """Add what the module holds, and what the modules inside it hold, to `state`."""
    for hook in list(module._state_pre_hooks.values()):
        hook(module, prefix, keep_vars)
    about = {"version": module._version}
    if hasattr(state, "_metadata"):
        state._metadata[prefix[:-1]] = about
    for name, tensor in _own(module).items():
        state[prefix + name] = tensor if keep_vars else tensor.detach()
    if hasattr(type(module), "get_extra_state"):
        state[prefix + EXTRA] = module.get_extra_state()
    for name, child in module._modules.items():  # by its method, which a class may have changed
        child.state_dict(destination=state, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
    for hook in list(module._state_hooks.values()):
        hook(module, state, prefix, about)


def load_state(module: Module, given: Mapping[str, Any], strict: bool, assign: bool) -> IncompatibleKeys:
    """Take `given` over into the module: all of it that has a place there, or nothing and an error."""
    if not isinstance(given, Mapping):
        raise TypeError(f"load_state_dict needs a dictionary of tensors by name, got {type(given).__name__}")
    given, forgiven, unexpected, errors = _asked(module, dict(given), getattr(given, "_metadata", {}))
    own = module.state_dict(keep_vars=True)
    missing = [name for name in own if name not in given and name not in forgiven]
    keys = IncompatibleKeys(missing, [*(name for name in given if name not in own), *unexpected])
    for _, child in module.named_modules():
        for hook in list(child._load_post_hooks.values()):
            hook(child, keys)
    errors += [*(_wrong_keys(keys) if strict else ()), *_wrong_values(own, given)]
    if errors:
        raise RuntimeError(f"load_state_dict of {type(module).__name__}: " + "; ".join(errors))
    for path, child in module.named_modules(remove_duplicate=False):
        if (extra := f"{path}.{EXTRA}" if path else EXTRA) in own and extra in given:
            child.set_extra_state(given[extra])
    for name in (name for name in own if name in given):
        for part, value in zip(_parts(own[name]), _parts(given[name]), strict=True):
            if assign:
                part.data = value
            else:
                part.array[...] = value.array
                part.storage.written()
    return keys


def _parts(entry: Any) -> tuple[Tensor, ...]:
    """The real tensors that an entry of a state is made of; none of an extra state."""
    if isinstance(entry, ComplexTensor):
        return entry.real, entry.imag
    return (entry,) if isinstance(entry, Tensor) else ()


def _asked(
    module: Module, given: dict[str, Any], about: Mapping[str, dict[str, Any]]
) -> tuple[dict[str, Any], set[str], list[str], list[str]]:
    """What the modules inside make of `given`; the names that they do not miss; what else they find wrong."""
    missing: list[str] = []
    unexpected: list[str] = []
    errors: list[str] = []
    forgiven: set[str] = set()
    for path, child in module.named_modules(remove_duplicate=False):
        prefix = f"{path}." if path else ""
        wanted = names_of_own(child, prefix)
        child._load_from_state_dict(given, prefix, about.get(path, {}), True, missing, unexpected, errors)
        forgiven |= set(wanted) - set(missing)
    return given, forgiven, unexpected, errors


def _wrong_keys(keys: IncompatibleKeys) -> Iterator[str]:
    if keys.missing_keys:
        yield f"missing: {', '.join(keys.missing_keys)} (strict=False leaves what is missing as it is)"
    if keys.unexpected_keys:
        yield f"unexpected: {', '.join(keys.unexpected_keys)} (strict=False ignores what is unexpected)"


def _wrong_values(own: Mapping[str, Any], given: Mapping[str, Any]) -> Iterator[str]:
    for name, value in given.items():
        kind = ComplexTensor if isinstance(own.get(name), ComplexTensor) else Tensor
        if not isinstance(own.get(name), kind):  # an extra state, or nothing
            continue
        if not isinstance(value, kind):
            yield f"{name} must be a {kind.__name__}, got {type(value).__name__}"
        elif (came := _parts(value)[0].array.shape) != (shape := _parts(own[name])[0].array.shape):
            yield f"{name} must have the shape {shape}, got {came}"

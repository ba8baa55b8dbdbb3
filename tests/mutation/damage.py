"""How a gradient is damaged, and the mutants of every operation."""

from __future__ import annotations

import itertools
import pkgutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from tinygrad_tf.engine import Fused, Node, Operation, Primitive, Tensor, make, primitive
from tinygrad_tf.operation import Edges
from tinygrad_tf.regions import Region

Map = Callable[[np.ndarray, tuple[int, ...]], np.ndarray]


@dataclass(frozen=True)
class Change:
    """A linear map of a gradient, given the shape of the input it is for, and the transposed map."""

    name: str
    there: Map
    back: Map
    fits: Callable[[tuple[int, ...], tuple[int, ...]], bool] = lambda shape, wanted: True

    def __call__(self, part: Any, wanted: tuple[int, ...]) -> Any:
        """The changed gradient: an array, a Region or (recorded, so that it is differentiated right) a Tensor."""
        if isinstance(part, Region):
            value = self(part.value, part.value.shape)
            return part if value is part.value else Region(part.index, value, part.repeats)
        if not self.fits(np.shape(part), wanted):
            return part
        if not isinstance(part, Tensor):
            return self.there(np.asarray(part), wanted)
        turned = Change(self.name, self.back, self.there)
        return primitive(x=lambda g: turned(g, wanted))(lambda x: self.there(x, wanted))(part)


def last_row(x: np.ndarray, wanted: tuple[int, ...]) -> np.ndarray:
    out = x.copy()
    out[-1] *= 1.01
    return out


def summed_axes(shape: tuple[int, ...], wanted: tuple[int, ...]) -> list[int]:
    """The axes over which the engine will sum, for the input was broadcast along them."""
    extra = len(shape) - len(wanted)
    return [i for i, n in enumerate(shape) if n > 1 and (i < extra or wanted[i - extra] == 1)]


def not_summed(x: np.ndarray, wanted: tuple[int, ...]) -> np.ndarray:
    axes, out = summed_axes(x.shape, wanted), np.zeros_like(x)
    first = tuple(slice(0, 1) if i in axes else slice(None) for i in range(x.ndim))
    out[first] = x[first]
    return out


def symmetric(name: str, map_: Map, fits: Callable[..., bool] = lambda shape, wanted: True) -> Change:
    return Change(name, map_, map_, fits)


def long(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    return bool(shape) and shape[-1] > 1


CHANGES = [
    symmetric("times 1.01", lambda x, _: x * 1.01),
    symmetric("sign", lambda x, _: -x),
    symmetric("zero", lambda x, _: np.zeros_like(x)),
    symmetric("last row 1 % off", last_row, lambda shape, _: bool(shape) and shape[0] > 1),
    symmetric("transposed", lambda x, _: x.swapaxes(-1, -2), lambda s, _: len(s) > 1 and s[-1] == s[-2] > 1),
    symmetric("reversed", lambda x, _: x[..., ::-1], long),
    Change("one place off", lambda x, _: np.roll(x, 1, -1), lambda x, _: np.roll(x, -1, -1), long),
    symmetric("not summed", not_summed, lambda shape, wanted: bool(summed_axes(shape, wanted))),
]


@dataclass
class Site:
    """One run of a rule: what is known where the gradient of input number `part` is handed over."""

    pull: Callable[..., Sequence[Any]]
    node: Node
    g: Any
    create_graph: bool
    parts: list[Any]
    part: int

    def again(self, g: Any, saved: Any = None) -> Any:
        """The same rule with another gradient from above, or with other saved values."""
        before, self.node.saved = self.node.saved, self.node.saved if saved is None else saved
        try:
            return self.pull(self.node, self.node.edges, g, self.create_graph)[self.part]
        finally:
            self.node.saved = before


Damage = Callable[[Site], Any]  # gives back the very same part where it does not apply


def other_gradient(site: Site) -> Any:
    """The gradient that belongs to another input of the same shape."""
    mine = site.parts[site.part]
    for i, part in enumerate(site.parts):
        if i != site.part and part is not None and type(part) is not Region and np.shape(part) == np.shape(mine):
            return part
    return mine


def repeats_once(site: Site) -> Any:
    """Of indices that occur more than once, only the last counts."""
    part = site.parts[site.part]
    return Region(part.index, part.value, False) if isinstance(part, Region) and part.repeats else part


def swapped(a: str, b: str) -> Damage:
    def damage(site: Site) -> Any:
        saved = {entry[0]: entry for entry in site.node.saved or ()}
        x, y = (saved[name][1] if name in saved else None for name in (a, b))
        if not (isinstance(x, np.ndarray) and isinstance(y, np.ndarray)) or x is y or x.shape != y.shape:
            return site.parts[site.part]
        saved[a], saved[b] = (a, *saved[b][1:]), (b, *saved[a][1:])
        return site.again(site.g, list(saved.values()))

    return damage


def replaced(name: str, change: Callable[[Any], Any]) -> Damage:
    """One saved value is another."""

    def damage(site: Site) -> Any:
        saved = [(n, change(x), None, None) if n == name else (n, x, *rest) for n, x, *rest in site.node.saved or ()]
        same = all(new[1] is old[1] for new, old in zip(saved, site.node.saved or (), strict=True))
        return site.parts[site.part] if same else site.again(site.g, saved)

    return damage


def a_little_off(x: Any) -> Any:
    if isinstance(x, tuple):
        return tuple(a_little_off(item) for item in x)
    return x * 1.01 if isinstance(x, np.ndarray) and x.dtype.kind == "f" else x


def constant(x: Any) -> Any:
    return make(x) if isinstance(x, np.ndarray) and x.dtype.kind == "f" else x


# --- Mutants ----------------------------------------------------------------------------------------------------------


@dataclass
class Mutant:
    """One damage: of the gradient of one input (None: of all, where their number varies), in one kind of run."""

    operation: Operation
    part: int | None
    where: str  # arrays, tensors or reference
    name: str
    damage: Any
    applied: bool = False

    def __str__(self) -> str:
        of = "" if self.part is None else f"({self.operation.inputs[self.part]})"
        return f"{label(self.operation)}{of} {self.where}: {self.name}"

    @contextmanager
    def planted(self) -> Iterator[None]:
        attribute, damaged = ("reference", self.reference) if self.where == "reference" else ("pull", self.pull)
        before = vars(self.operation).get(attribute)
        setattr(self.operation, attribute, damaged(getattr(self.operation, attribute)))
        try:
            yield
        finally:
            if before is None:  # the method of the class comes to light again
                delattr(self.operation, attribute)
            else:
                setattr(self.operation, attribute, before)

    def pull(self, original: Callable[..., Sequence[Any]]) -> Callable[..., Any]:
        def pull(node: Node, edges: Edges, g: Any, create_graph: bool, own: bool = False) -> Sequence[Any]:
            parts = list(original(node, edges, g, create_graph))
            if create_graph != (self.where == "tensors"):
                return parts
            damaged = list(parts)
            for i in range(len(parts)) if self.part is None else [self.part]:
                edge, change = edges[i], self.damage
                if parts[i] is not None and edge is not None:
                    site = Site(original, node, g, create_graph, parts, i)
                    damaged[i] = change(parts[i], edge.shape) if isinstance(change, Change) else change(site)
                    self.applied |= damaged[i] is not parts[i]
            return damaged

        return pull

    def reference(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def bent(x: Any) -> Any:
            """x itself, with a damaged gradient."""
            if not isinstance(x, Tensor) or x.node is None or not self.damage.fits(x.array.shape, x.array.shape):
                return x
            self.applied = True
            return primitive(x=lambda g: self.damage(g, x.array.shape))(lambda x: x)(x)

        def reference(*inputs: Any, **options: Any) -> Any:
            if isinstance(self.damage, Change):
                return original(*(bent(x) if i == self.part else x for i, x in enumerate(inputs)), **options)
            self.applied = True
            return self.damage(original(*inputs, **options))

        return reference


def label(operation: Operation) -> str:
    return f"{operation.forward.__module__.rpartition('.')[2]}.{operation.name}"


def all_operations() -> list[Operation]:
    """Every operation of the package, found in its modules."""
    ops = import_module("tinygrad_tf.ops")
    for module in pkgutil.iter_modules(ops.__path__, "tinygrad_tf.ops."):
        import_module(module.name)
    modules = [module for name, module in sorted(sys.modules.items()) if name.split(".")[0] == "tinygrad_tf"]
    found = {id(x): x for module in modules for x in vars(module).values() if isinstance(x, (Primitive, Fused))}
    return sorted(found.values(), key=label)


def rules_of(operation: Operation) -> list[int | None]:
    """The inputs that have a gradient."""
    if isinstance(operation, Fused):
        return list(range(len(operation.inputs)))
    assert isinstance(operation, Primitive)
    return [None if operation.variadic else i for i, rule in enumerate(operation.rules) if rule is not None]


def mutants_of(operation: Operation, part: int | None) -> Iterator[Mutant]:
    damages: list[tuple[str, Any]] = [(change.name, change) for change in CHANGES]
    damages += [("another input's gradient", other_gradient), ("repeats count once", repeats_once)]
    reads = operation.reads if isinstance(operation, Fused) else operation.needs[part or 0]  # type: ignore[attr-defined]
    names = [n for n in ("kept", *operation.inputs, "result") if n in reads or n == "kept"]
    pairs = [(a, b) for a, b in itertools.combinations([*operation.inputs, "result"], 2) if a in names or b in names]
    damages += [(f"{a} and {b} swapped", swapped(a, b)) for a, b in pairs]
    for name, damage in damages + [(f"saved {n} 1 % off", replaced(n, a_little_off)) for n in names]:
        yield Mutant(operation, part, "arrays", name, damage)
    if isinstance(operation, Fused):
        for change in CHANGES:
            yield Mutant(operation, part, "reference", change.name, change)
        if part == 0:
            yield Mutant(operation, None, "reference", "value times 1.01", lambda out: out * 1.01)
            yield Mutant(operation, None, "reference", "value and 0.01", lambda out: out + 0.01)
        return
    damages += [(f"{n} taken as constant", replaced(n, constant)) for n in names]
    for name, damage in [*damages, ("g taken as constant", lambda site: site.again(make(site.g.array)))]:
        yield Mutant(operation, part, "tensors", name, damage)

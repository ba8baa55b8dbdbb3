"""Gradient checkpointing: keep the inputs of a part of the model, and compute the rest again in the backward pass.

A forward pass keeps what every operation needs for its gradient. A checkpointed part forgets all of it; when the
backward pass comes to the part, its forward is run once more, and what the operations need is there again (Chen et
al., 2016, "Training deep nets with sublinear memory cost", section 4). One more forward pass buys memory: of a stack of
n blocks only the n inputs and the inside of one block are alive at once. Gradients are the same, bit for bit: dropout
draws the same numbers, autocast is as it was.

How it is done here: the Nodes of the part stay in the graph, so that the backward pass goes over them as it always
does. Only `node.saved` is replaced by a promise, which is kept (for all Nodes of the part) when the first one asks.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from tinygrad_tf import random
from tinygrad_tf.autograd._packing import held, released, state, suspended
from tinygrad_tf.engine import Node, Storage, Tensor, clock, current_node, mode, recording
from tinygrad_tf.graph import Saved
from tinygrad_tf.nn import Module, Sequential
from tinygrad_tf.ops._precision import state as precision


class CheckpointError(RuntimeError):
    """The second run of a checkpointed function was not like the first, or its inputs have changed since."""


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = False,
    preserve_rng_state: bool = True,
    context_fn: Callable[[], tuple[Any, Any]] | None = None,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """`function(*args, **kwargs)`, of which the backward pass will compute again what its gradients need.

    The function must do the same each time; random numbers are drawn again from the same state (preserve_rng_state).
    Whatever it does besides it does twice: BatchNorm moves its running statistics at both runs. context_fn gives two
    context managers, for the first run and for the second. A CheckpointError tells, in the backward pass, that the
    second run was another one, or that an input or a weight was changed in between; with debug=True it lists all that
    both runs recorded, and determinism_check='none' leaves shapes and dtypes out of the comparison.
    For programs written for PyTorch: use_reentrant works as the newer way, False, whatever it is; early_stop=True may
    end the second run where nothing more is needed, and here never does.

    >>> import tinygrad_tf as tg
    >>> x = tg.tensor([1.0, 2.0], requires_grad=True)
    >>> y = checkpoint(lambda x: (x * x).exp(), x)
    >>> y.sum().backward()
    >>> x.grad
    tensor([  5.4366, 218.3926])
    """
    first, second = context_fn() if context_fn is not None else (contextlib.nullcontext(), contextlib.nullcontext())
    if not mode.grad:
        with first:
            return function(*args, **kwargs)
    if determinism_check not in ("default", "none"):
        raise ValueError(f"checkpoint: determinism_check must be 'default' or 'none', got {determinism_check!r}")
    region = _Region(function, args, kwargs, preserve_rng_state, second)
    region.whole_names, region.debug = determinism_check == "default", debug
    with suspended(), first, _own_casts():
        outputs = function(*args, **kwargs)
    region.forget(outputs)
    return outputs


def checkpoint_sequential(
    functions: Sequential | Sequence[Callable[..., Any]],
    segments: int,
    input: Any,
    use_reentrant: bool | None = False,
    preserve_rng_state: bool = True,
) -> Any:
    """A chain of functions, or an nn.Sequential, in `segments` parts, each of which but the last is checkpointed.

    >>> from tinygrad_tf import nn, ones
    >>> layers = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 2), nn.Tanh())
    >>> tuple(checkpoint_sequential(layers, 2, ones(1, 2)).shape)
    (1, 2)
    """
    chain: list[Callable[..., Any]] = list(functions.children()) if isinstance(functions, Module) else list(functions)
    if not 1 <= segments <= len(chain):
        raise ValueError(f"checkpoint_sequential: segments must be in [1, {len(chain)}], got {segments}")
    size = len(chain) // segments
    for start in range(0, size * (segments - 1), size):
        part = _chained(chain[start : start + size])
        input = checkpoint(part, input, use_reentrant=use_reentrant, preserve_rng_state=preserve_rng_state)
    return _chained(chain[size * (segments - 1) :])(input)


def get_device_states(*args: Any) -> tuple[list[int], list[Any]]:
    """Devices that the tensors are on beside the CPU, and where their random numbers stand: there are none.

    Layers that are undone in the backward pass, as in the Reformer, ask for them before they compute again.
    """
    return [], []


def set_device_states(devices: Sequence[int], states: Sequence[Any]) -> None:
    """Let other devices' random numbers go on from what `get_device_states` gave: there are none."""


def _chained(functions: Sequence[Callable[..., Any]]) -> Callable[[Any], Any]:
    def run(x: Any) -> Any:
        for function in functions:
            x = function(x)
        return x

    return run


class _Promise:
    """Stands for what a Node saved: iterating over it finds it."""

    def __init__(self, find: Callable[[], list[Saved]]):
        self.find = find

    def __iter__(self) -> Iterator[Saved]:
        return iter(self.find())


class _Region:
    """A checkpointed call: what it takes to run it again. Its Nodes hold it, so it holds them only weakly."""

    def __init__(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], replay: bool, context: Any
    ):
        self.function, self.args, self.kwargs, self.context = function, args, kwargs, context
        self.inputs = [(t, current_node(t)) for t in _tensors((args, kwargs))]
        hooks = state.innermost()
        if hooks is not None:  # these keep the arguments, and no change of the arguments' memory matters any more
            self.args, self.kwargs, self.inputs = held(args, hooks), held(kwargs, hooks), []
        self.random = random.get_rng_state() if replay else None
        self.settings = mode.reference, precision.dtype
        self.begun = self.ended = next(clock)
        self.nodes: list[weakref.ref[Node]] = []
        self.whole_names, self.debug = True, False
        self.names: list[str] = []  # what each Node is, to be compared with the second run
        self.leaves: list[weakref.ref[Node]] = []  # weights that the function reads without being given them

    def forget(self, outputs: Any) -> None:
        """Drop what the Nodes of the first run saved."""
        self.ended = next(clock)
        nodes = _recorded_since(self.begun, outputs)
        self.names = [self.described(node) for node in nodes]
        self.nodes = [weakref.ref(node) for node in nodes]
        outside = {edge for node in nodes for edge in node.edges if edge is not None and edge.age <= self.begun}
        self.leaves = [weakref.ref(edge) for edge in outside if edge.operation is None]
        for i, node in enumerate(nodes):
            node.saved = _Promise(lambda i=i: self.saved(i))  # type: ignore[misc,assignment]

    def saved(self, i: int) -> list[Saved]:
        """What Node i needs; the first to ask has the function run again, for all of them."""
        self.check()
        begun, outputs = self.run_again()
        again = _recorded_since(begun, outputs)
        names = [self.described(node) for node in again]
        if names != self.names:
            raise CheckpointError(
                f"checkpoint: the second run of the function differs from the first: {self.told(names)}"
            )
        twins = dict(zip(again, self.nodes, strict=True))
        found = [_moved(node, twins, begun) for node in again]
        for reference, new, saved in zip(self.nodes, again, found, strict=True):
            node = reference()
            if node is not None and node.saved is not None:
                node.saved = saved
                _adopt(node, new, saved, twins)
        return found[i]

    def run_again(self) -> tuple[int, Any]:
        now = random.get_rng_state() if self.random is not None else None
        before = mode.reference, precision.dtype
        begun = next(clock)
        try:
            if self.random is not None:
                random.set_rng_state(self.random)
            mode.reference, precision.dtype = self.settings
            with recording(True), suspended(), self.context, _own_casts():
                return begun, self.function(*released(self.args), **released(self.kwargs))
        finally:
            mode.reference, precision.dtype = before
            if now is not None:
                random.set_rng_state(now)

    def check(self) -> None:
        """Inputs and weights must be as they were."""
        owners = [node.owner() for ref in self.leaves if (node := ref()) is not None and node.owner is not None]
        changed = [t for t, node in self.inputs if t.node is not node or t.storage.changed > self.ended]
        changed += [t for t in owners if t is not None and t.storage.changed > self.ended]
        if changed:
            raise CheckpointError(
                f"checkpoint: an input or weight of shape {changed[0].array.shape} was changed in place between the "
                "forward and the backward pass, so its function cannot be run again; change a copy (.clone())"
            )

    def described(self, node: Node) -> str:
        return f"{node.kind} of shape {node.shape} and {node.dtype}" if self.whole_names else node.kind

    def told(self, names: list[str]) -> str:
        """The first difference, in words, or everything."""
        if self.debug:
            return f"first, from its end, {'; '.join(self.names)}; then {'; '.join(names)}"
        for i, (before, now) in enumerate(zip(self.names, names, strict=False)):
            if before != now:
                return f"operation {i + 1} from its end was {before}, now it is {now}"
        return f"it recorded {len(self.names)} operations, now {len(names)}"


def _recorded_since(time: int, outputs: Any) -> list[Node]:
    """The Nodes younger than `time` that the outputs depend on, in an order that two equal runs share."""
    found: dict[Node, None] = {}
    waiting = [current_node(t) for t in _tensors(outputs)][::-1]
    while waiting:
        node = waiting.pop()
        if node is None or node.age <= time or node in found:
            continue
        found[node] = None
        waiting.extend(reversed(node.edges))
    return list(found)


def _moved(node: Node, twins: dict[Node, weakref.ref[Node]], begun: int) -> list[Saved]:
    """What a Node of the second run saved, for its twin in the first: edges lead into the first graph.

    Memory that was made in the second run is younger than the twin; what was written there before the Node of the
    second run used it has nothing to do with changes after the use, which the engine looks for.
    """
    if node.saved is None:
        return []
    if isinstance(node.saved, _Promise):  # a checkpoint inside of this one
        return _Promise(lambda: _moved_list(list(node.saved or ()), node, twins, begun))  # type: ignore[return-value]
    return _moved_list(node.saved, node, twins, begun)


def _moved_list(saved: Iterable[Saved], node: Node, twins: dict[Node, weakref.ref[Node]], begun: int) -> list[Saved]:
    moved: list[Saved] = []
    for name, value, storage, edge in saved:
        if storage is not None and begun < storage.changed <= node.age:
            storage = Storage()
        twin = twins.get(edge) if edge is not None else None
        moved.append((name, value, storage, edge if twin is None else twin()))
    return moved


def _adopt(node: Node, new: Node, saved: Any, twins: dict[Node, weakref.ref[Node]]) -> None:
    """An operation of the user's own (autograd.Function) keeps a context, whose ways lead into the second graph."""
    for name, context, _, _ in saved if isinstance(saved, list) else ():
        if name == "context" and hasattr(context, "_node"):
            node.operation, context._node = new.operation, weakref.ref(node)
            context._saved = [
                (value, storage, twins[source]() if source in twins else source)
                for value, storage, source in context._saved
            ]


@contextlib.contextmanager
def _own_casts() -> Iterator[None]:
    """Casts of weights that autocast keeps must not come from outside: the second run would not find them."""
    before = precision.weights, precision.last
    precision.weights, precision.last = {}, {}
    try:
        yield
    finally:
        precision.weights, precision.last = before


def _tensors(value: Any) -> Iterator[Tensor]:
    """The tensors in nested tuples, lists and dictionaries."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from _tensors(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _tensors(part)

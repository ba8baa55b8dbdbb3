"""Functions of functions, as in torch.func: grad, vjp, jvp, jacrev, hessian, vmap; modules with other weights.

What is differentiated by may be a tensor, or tensors in tuples, lists and dictionaries (a "tree"); the derivatives come
in the same form. The transformations may be nested: every one works on copies of its own, and its results still depend
on what was there before, so that the next one outside can differentiate them again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tinygrad_tf import autograd, random
from tinygrad_tf.autograd import enable_grad
from tinygrad_tf.creation import zeros_like
from tinygrad_tf.engine import Node, current_node
from tinygrad_tf.functions import is_floating_point, stack
from tinygrad_tf.nn.module import Module
from tinygrad_tf.tensor import Tensor

Func = Callable[..., Any]
Argnums = int | tuple[int, ...]

# --- trees ------------------------------------------------------------------------------------------------------------


def _leaves(tree: Any) -> list[Any]:
    """What a tree holds, from left to right."""
    if isinstance(tree, Mapping):
        return [leaf for part in tree.values() for leaf in _leaves(part)]
    if isinstance(tree, (tuple, list)):
        return [leaf for part in tree for leaf in _leaves(part)]
    return [tree]


def _filled(tree: Any, leaves: Iterator[Any]) -> Any:
    """A tree of the same form that holds other leaves."""
    if isinstance(tree, Mapping):
        return {key: _filled(part, leaves) for key, part in tree.items()}
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*[_filled(part, leaves) for part in tree])
    if isinstance(tree, (tuple, list)):
        return type(tree)(_filled(part, leaves) for part in tree)
    return next(leaves)


def _mapped(tree: Any, function: Func) -> Any:
    return _filled(tree, iter([function(leaf) for leaf in _leaves(tree)]))


# --- one transformation -----------------------------------------------------------------------------------------------


class _Level:
    """The inputs of one transformation: copies that it differentiates by, and what depends on nothing but them."""

    def __init__(self, name: str, trees: Any):
        self.name, self.own = name, set[Node | None]()
        self.trees = _mapped(trees, self._copy)
        self.leaves = [leaf for leaf in _leaves(self.trees) if isinstance(leaf, Tensor)]

    def _copy(self, x: Any) -> Any:
        if not isinstance(x, Tensor):
            raise ValueError(f"{self.name}: can only differentiate by tensors, got {type(x).__name__}")
        if not is_floating_point(x):
            raise RuntimeError(f"{self.name}: can only differentiate by floating point tensors, got {x.dtype}")
        if x.requires_grad:  # of a level outside: its own step in that graph
            return x.view_as(x)
        made = x.detach().requires_grad_()
        self.own.add(made.node)
        return made

    def gradients(self, outputs: Sequence[Tensor], weights: Sequence[Any]) -> list[Tensor]:
        """Of the outputs, weighted and added, by all copies; zeros where there is no way to one."""
        reached = [(y, w) for y, w in zip(outputs, weights, strict=True) if y.requires_grad]
        found: Sequence[Any] = [None] * len(self.leaves)
        if reached and self.leaves:
            ys, ws = zip(*reached, strict=True)
            found = autograd.grad(ys, self.leaves, ws, create_graph=True, allow_unused=True)
        return [zeros_like(x) if g is None else g for g, x in zip(found, self.leaves, strict=True)]

    def outside(self, tree: Any) -> Any:
        """The results for the level outside: without a graph, unless they depend on more than this level's copies."""
        return _mapped(tree, lambda t: t.detach() if isinstance(t, Tensor) and not self._depends(t) else t)

    def _depends(self, t: Tensor) -> bool:
        todo, seen = [current_node(t)], set[int]()
        while todo:
            node = todo.pop()
            if node is None or id(node) in seen:
                continue
            if node.operation is None and node not in self.own:
                return True
            seen.add(id(node))
            todo.extend(node.edges)
        return False


def _chosen(name: str, argnums: Argnums, args: Sequence[Any]) -> tuple[int, ...]:
    numbers = argnums if isinstance(argnums, tuple) else (argnums,)
    for n in numbers:
        if not isinstance(n, int) or not -len(args) <= n < len(args):
            raise RuntimeError(f"{name}: argnums must name some of the {len(args)} positional arguments, got {argnums}")
    return tuple(n % len(args) for n in numbers)


def _called(name: str, func: Func, argnums: Argnums, has_aux: bool, args: Any, kwargs: Any) -> tuple[_Level, Any, Any]:
    """The function at copies of the chosen arguments: the level, its outputs, and what it returns besides."""
    numbers = _chosen(name, argnums, args)
    level = _Level(name, [args[n] for n in numbers])
    given = list(args)
    for n, tree in zip(numbers, level.trees, strict=True):
        given[n] = tree
    out = func(*given, **kwargs)
    if not has_aux:
        return level, out, None
    if not isinstance(out, tuple) or len(out) != 2:
        raise RuntimeError(
            f"{name}: has_aux=True wants a function that returns (output, aux), got {type(out).__name__}"
        )
    return level, out[0], out[1]


def _one_or_all(argnums: Argnums, found: Sequence[Any]) -> Any:
    return tuple(found) if isinstance(argnums, tuple) else found[0]


def _tensors(name: str, tree: Any) -> list[Tensor]:
    for leaf in (leaves := _leaves(tree)):
        if not isinstance(leaf, Tensor):
            raise RuntimeError(f"{name}: the function must return tensors, got {type(leaf).__name__}")
    return leaves


# --- derivatives ------------------------------------------------------------------------------------------------------


def grad_and_value(func: Func, argnums: Argnums = 0, has_aux: bool = False) -> Func:
    """As `grad`, and the value: (gradient, value), or (gradient, (value, aux)) with has_aux.

    >>> import tinygrad_tf as tg
    >>> grad_and_value(lambda x: (x**3).sum())(tg.tensor([1.0, 2.0]))
    (tensor([ 3., 12.]), tensor(9.))
    """

    @functools.wraps(func)
    def derived(*args: Any, **kwargs: Any) -> Any:
        with enable_grad():
            level, out, aux = _called("grad", func, argnums, has_aux, args, kwargs)
            if not isinstance(out, Tensor) or out.array.ndim:
                got = f"shape {tuple(out.shape)}" if isinstance(out, Tensor) else type(out).__name__
                raise RuntimeError(f"grad: the function must return one number, a tensor of shape (), got {got}")
            found = _filled(level.trees, iter(level.gradients([out], [None])))
        value = level.outside(out)
        gradient = _one_or_all(argnums, level.outside(found))
        return gradient, ((value, level.outside(aux)) if has_aux else value)

    return derived


def grad(func: Func, argnums: Argnums = 0, has_aux: bool = False) -> Func:
    """The function that gives the gradient of func's only result, by argument `argnums` (or a tuple of them).

    has_aux: func returns (result, aux), and the gradient comes as (gradient, aux).

    >>> import tinygrad_tf as tg
    >>> slope = grad(lambda x: x**3)
    >>> slope(tg.tensor(2.0)), grad(slope)(tg.tensor(2.0))
    (tensor(12.), tensor(12.))
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def derived(*args: Any, **kwargs: Any) -> Any:
        gradient, value = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return derived


def vjp(func: Func, *primals: Any, has_aux: bool = False) -> Any:
    """(output, function, aux with has_aux): the function takes v, in the output's form, to the tuple of v^T J.

    >>> import tinygrad_tf as tg
    >>> output, back = vjp(lambda x: x * x, tg.tensor([1.0, 2.0]))
    >>> back(tg.tensor([1.0, 10.0]))
    (tensor([ 2., 40.]),)
    """
    with enable_grad():
        level, out, aux = _called("vjp", func, tuple(range(len(primals))), has_aux, primals, {})
    outputs = _tensors("vjp", out)

    def back(*cotangents: Any) -> tuple[Any, ...]:
        given = _tensors("vjp", cotangents)
        if [tuple(v.shape) for v in given] != [tuple(y.shape) for y in outputs]:
            wanted, got = ([tuple(t.shape) for t in ts] for ts in (outputs, given))
            raise RuntimeError(f"vjp: the vectors must have the outputs' shapes {wanted}, got {got}")
        with enable_grad():
            found = _filled(level.trees, iter(level.gradients(outputs, given)))
        return tuple(level.outside(found))

    return (level.outside(out), back, level.outside(aux)) if has_aux else (level.outside(out), back)


def jvp(func: Func, primals: tuple[Any, ...], tangents: tuple[Any, ...], *, has_aux: bool = False) -> Any:
    """(output, J v, aux with has_aux): how the output changes when the primals move along the tangents.

    >>> import tinygrad_tf as tg
    >>> jvp(lambda x: x * x, (tg.tensor([1.0, 2.0]),), (tg.tensor([1.0, 0.0]),))
    (tensor([1., 4.]), tensor([2., 0.]))
    """
    if not isinstance(primals, tuple) or not isinstance(tangents, tuple):
        raise RuntimeError("jvp: primals and tangents must be tuples, as in jvp(f, (x,), (v,))")
    with enable_grad():
        level, out, aux = _called("jvp", func, tuple(range(len(primals))), has_aux, primals, {})
        outputs, along = _tensors("jvp", out), _tensors("jvp", tangents)
        if [tuple(v.shape) for v in along] != [tuple(x.shape) for x in level.leaves]:
            raise RuntimeError("jvp: every tangent must have the shape of its primal")
        ones = [zeros_like(y).requires_grad_() for y in outputs]  # v^T J is linear in v: by v it gives J
        back = level.gradients(outputs, ones)
        linear = [(g, v) for g, v in zip(back, along, strict=True) if g.requires_grad]
        pushed: Sequence[Any] = [None] * len(outputs)
        if linear:
            gs, vs = zip(*linear, strict=True)
            pushed = autograd.grad(gs, ones, vs, create_graph=True, allow_unused=True)
        level.own.update(v.node for v in ones)
    moved = _filled(out, iter([zeros_like(y) if p is None else p for p, y in zip(pushed, outputs, strict=True)]))
    results = level.outside([out, moved])
    return (*results, level.outside(aux)) if has_aux else tuple(results)


def jacrev(func: Func, argnums: Argnums = 0, *, has_aux: bool = False, chunk_size: int | None = None) -> Func:
    """The function that gives d output / d argument, of shape (*output.shape, *argument.shape), row by row.

    chunk_size is how many rows PyTorch computes at once; here they come one by one.

    >>> import tinygrad_tf as tg
    >>> jacrev(lambda x: x * x)(tg.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """

    @functools.wraps(func)
    def derived(*args: Any, **kwargs: Any) -> Any:
        with enable_grad():
            level, out, aux = _called("jacrev", func, argnums, has_aux, args, kwargs)
            rows = [_rows(level, y) for y in _tensors("jacrev", out)]
        found = _filled(out, iter([_one_or_all(argnums, _filled(level.trees, iter(row))) for row in rows]))
        found = level.outside(found)
        return (found, level.outside(aux)) if has_aux else found

    return derived


def _rows(level: _Level, output: Tensor) -> list[Tensor]:
    """The jacobian of one output by every copy of the level."""
    rows = [level.gradients([y], [None]) for y in output.reshape(-1)]
    shape = tuple(output.shape)
    if not rows:
        return [x.new_zeros(*shape, *x.shape) for x in level.leaves]
    return [stack([row[i] for row in rows]).reshape(*shape, *x.shape) for i, x in enumerate(level.leaves)]


def jacfwd(func: Func, argnums: Argnums = 0, has_aux: bool = False, *, randomness: str = "error") -> Func:
    """The same as `jacrev`: there is no forward mode here, so that both go backwards."""
    return jacrev(func, argnums, has_aux=has_aux)


def hessian(func: Func, argnums: Argnums = 0) -> Func:
    """The function that gives the second derivatives: the jacobian of the jacobian.

    >>> import tinygrad_tf as tg
    >>> hessian(lambda x: (x**3).sum())(tg.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)


# --- one function for many inputs -------------------------------------------------------------------------------------


def vmap(
    func: Func, in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *, chunk_size: int | None = None
) -> Func:
    """The function for a batch: func is called with each slice of the arguments, and the results are stacked.

    in_dims: the axis of each argument that is sliced, None to pass it whole; a number for all, or a tree. out_dims: the
    axis of the results along which they are stacked. randomness: "error" forbids random numbers in func, "different"
    draws new ones for each slice, "same" the same ones. chunk_size changes nothing, as the slices come one by one.

    >>> import tinygrad_tf as tg
    >>> vmap(tg.dot)(tg.ones(3, 2), tg.arange(6.0).view(3, 2))
    tensor([1., 5., 9.])
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"vmap: randomness must be 'error', 'different' or 'same', got {randomness!r}")

    @functools.wraps(func)
    def batched(*args: Any, **kwargs: Any) -> Any:
        tree = [*args, kwargs]
        axes = [*_spread(in_dims, list(args)), *([0] * len(_leaves(kwargs)))]
        leaves = _leaves(tree)
        size = _batch_size(leaves, axes)
        before, outs = random.get_rng_state(), []
        for i in range(size):
            parts = [x if axis is None else x.select(axis, i) for x, axis in zip(leaves, axes, strict=True)]
            *inputs, options = _filled(tree, iter(parts))
            if randomness == "same":
                random.set_rng_state(before)
            outs.append(func(*inputs, **options))
        if randomness == "error" and not np.array_equal(np.asarray(before), np.asarray(random.get_rng_state())):
            raise RuntimeError(
                "vmap: the function draws random numbers; say with randomness='different' or 'same' which it should get"
            )
        return _stacked(outs, out_dims)

    return batched


def _spread(dims: Any, tree: Any) -> list[Any]:
    """One axis for each leaf of the tree, from one for all or from a tree that is not as deep."""
    if dims is None or isinstance(dims, int):
        return [dims] * len(_leaves(tree))
    parts = list(tree.values()) if isinstance(tree, Mapping) else tree
    given = [dims.get(key) for key in tree] if isinstance(dims, Mapping) and isinstance(tree, Mapping) else list(dims)
    if not isinstance(parts, (tuple, list)) or len(given) != len(parts):
        raise ValueError(f"vmap: in_dims must have an entry for each argument, got {dims!r}")
    return [axis for d, part in zip(given, parts, strict=True) for axis in _spread(d, part)]


def _batch_size(leaves: Sequence[Any], axes: Sequence[Any]) -> int:
    sizes = []
    for x, axis in zip(leaves, axes, strict=True):
        if axis is None:
            continue
        if not isinstance(x, Tensor):
            raise ValueError(f"vmap: in_dims has an axis for {type(x).__name__}, which is no tensor; give it None")
        if not -x.array.ndim <= axis < x.array.ndim:
            raise ValueError(f"vmap: in_dims has the axis {axis} for a tensor of shape {tuple(x.shape)}")
        sizes.append(x.size(axis))
    if not sizes:
        raise ValueError("vmap: in_dims must give an axis for at least one tensor")
    if min(sizes) != max(sizes) or not sizes[0]:
        raise ValueError(f"vmap: the sliced axes must have one and the same size, not 0, got {sizes}")
    return sizes[0]


def _stacked(outs: list[Any], out_dims: Any) -> Any:
    for leaf in (leaves := _leaves(outs[0])):
        if not isinstance(leaf, Tensor):
            raise ValueError(f"vmap: the function must return tensors, got {type(leaf).__name__}")
    dims = [out_dims] * len(leaves) if isinstance(out_dims, int) else _leaves(out_dims)
    if len(dims) != len(leaves):
        raise ValueError(f"vmap: out_dims must have {len(leaves)} entries, got {out_dims!r}")
    columns = zip(*[_leaves(out) for out in outs], strict=True)
    return _filled(outs[0], iter([stack(c, d) for c, d in zip(columns, dims, strict=True)]))


# --- modules as functions of their weights ----------------------------------------------------------------------------


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: Any,
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with other tensors for its parameters and buffers: a dictionary by their names, or several.

    Those that are not named stay as they are, and names that the module has not got do nothing; with strict=True both
    are errors. tie_weights: a parameter that
    the module has under two names is replaced under both.

    >>> import tinygrad_tf as tg
    >>> layer = tg.nn.Linear(2, 1)
    >>> functional_call(layer, {"weight": tg.ones(1, 2), "bias": tg.zeros(1)}, tg.tensor([3.0, 4.0]))
    tensor([7.])
    """
    dicts = parameter_and_buffer_dicts
    given = {k: v for d in (dicts if isinstance(dicts, (tuple, list)) else [dicts]) for k, v in d.items()}
    arguments = () if args is None else args if isinstance(args, tuple) else (args,)
    with _replaced(module, given, tie_weights, strict):
        return module(*arguments, **(kwargs or {}))


@contextmanager
def _replaced(module: Module, given: dict[str, Any], tie_weights: bool, strict: bool) -> Iterator[None]:
    places = {**dict(module.named_parameters(remove_duplicate=False)), **dict(module.named_buffers())}
    unknown = [name for name in given if name not in places]
    missing = [name for name in places if name not in given]
    if strict and (unknown or missing):
        raise RuntimeError(f"functional_call: the module has no {unknown}; missing are {missing}")
    values = given = {name: value for name, value in given.items() if name in places}
    if tie_weights:
        by_identity = {id(places[name]): value for name, value in given.items()}
        values = {name: by_identity[id(t)] for name, t in places.items() if id(t) in by_identity}
    before = []
    try:
        for name, value in values.items():
            path, _, last = name.rpartition(".")
            owner = module.get_submodule(path) if path else module
            before.append((owner, last, owner.__dict__[last]))
            owner.__dict__[last] = value
        yield
    finally:
        for owner, last, value in reversed(before):
            owner.__dict__[last] = value


def stack_module_state(models: Sequence[Module]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters and the buffers of several models of one kind by name, each stacked along a new first axis."""
    if not models:
        raise RuntimeError("stack_module_state: needs at least one model")
    parameters = {
        name: stack([dict(m.named_parameters())[name].detach() for m in models]).requires_grad_(p.requires_grad)
        for name, p in models[0].named_parameters()
    }
    buffers = {name: stack([dict(m.named_buffers())[name] for m in models]) for name, _ in models[0].named_buffers()}
    return parameters, buffers


__all__ = [
    "functional_call",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "stack_module_state",
    "vjp",
    "vmap",
]

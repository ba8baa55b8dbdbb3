"""grad, vjp, jvp, linearize, jacrev, jacfwd and hessian: functions that give the derivatives of a function."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakSet

from tinygrad_tf.autograd import enable_grad
from tinygrad_tf.autograd.dependence import depends_on_others
from tinygrad_tf.autograd.pushforward import Pushforward, gradients
from tinygrad_tf.creation import zeros_like
from tinygrad_tf.engine import Node
from tinygrad_tf.func._trees import filled, leaves_of, mapped
from tinygrad_tf.functions import is_floating_point, stack
from tinygrad_tf.tensor import Tensor

Func = Callable[..., Any]
Argnums = int | tuple[int, ...]


class _Running(threading.local):
    """The levels whose functions are running, from the outermost in."""

    def __init__(self) -> None:
        self.levels: list[_Level] = []


_running = _Running()
_copies = WeakSet[Node | None]()  # of all levels


class _Unclaimed:
    """The copies that no function which is still running differentiates by: they are nobody's any more."""

    def __contains__(self, node: object) -> bool:
        return node in _copies and not any(node in level.own for level in _running.levels)


class _Level:
    """The inputs of one transformation: copies that it differentiates by, and what depends on nothing but copies."""

    def __init__(self, name: str, trees: Any):
        self.name, self.own = name, set[Node | None]()
        self.trees = mapped(trees, self._copy)
        self.leaves = [leaf for leaf in leaves_of(self.trees) if isinstance(leaf, Tensor)]

    def _copy(self, x: Any) -> Any:
        if not isinstance(x, Tensor):
            raise ValueError(f"{self.name}: can only differentiate by tensors, got {type(x).__name__}")
        if not is_floating_point(x):
            raise RuntimeError(f"{self.name}: can only differentiate by floating point tensors, got {x.dtype}")
        if x.requires_grad:  # of a level outside: its own step in that graph
            return x.view_as(x)
        made = x.detach().requires_grad_()
        self.adopt([made])
        return made

    def adopt(self, leaves: Sequence[Tensor]) -> None:
        """Count leaves among the level's own copies."""
        nodes = [leaf.node for leaf in leaves]
        self.own.update(nodes)
        _copies.update(nodes)

    def call(self, func: Func, args: Sequence[Any], kwargs: Any) -> Any:
        """The function, as the innermost level that is running."""
        _running.levels.append(self)
        try:
            return func(*args, **kwargs)
        finally:
            _running.levels.pop()

    def gradients(self, outputs: Sequence[Tensor], weights: Sequence[Any]) -> list[Tensor]:
        """Of the outputs, weighted and added, by all copies; zeros where there is no way to one."""
        found = gradients(outputs, self.leaves, weights, True)
        return [zeros_like(x) if g is None else g for g, x in zip(found, self.leaves, strict=True)]

    def outside(self, tree: Any) -> Any:
        """The results for the level outside: without a graph, unless they depend on what is outside, too."""

        def handed_over(t: Any) -> Any:
            return t.detach() if isinstance(t, Tensor) and not depends_on_others(t, _Unclaimed()) else t

        return mapped(tree, handed_over)


class _Linear:
    """J at the place where a function was called, as a function of tangents."""

    def __init__(self, level: _Level, out: Any):
        self.level, self.out = level, out
        self.outputs = _tensors(level.name, out)
        self.push = Pushforward(self.outputs, level.leaves)
        level.adopt(self.push.weights)

    def along(self, tangents: Any) -> Any:
        """J v, in the form of the function's results."""
        name, vectors = self.level.name, _tensors(self.level.name, tangents)
        wanted, got = ([tuple(t.shape) for t in ts] for ts in (self.level.leaves, vectors))
        if got != wanted:
            raise RuntimeError(f"{name}: every tangent must have the shape of its primal, {wanted}, got {got}")
        moved = self.push.along(vectors, create_graph=True)
        parts = [zeros_like(y) if p is None else p for p, y in zip(moved, self.outputs, strict=True)]
        return filled(self.out, iter(parts))


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
    out = level.call(func, given, kwargs)
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
    for leaf in (leaves := leaves_of(tree)):
        if not isinstance(leaf, Tensor):
            raise RuntimeError(f"{name}: the function must return tensors, got {type(leaf).__name__}")
    return leaves


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
            found = filled(level.trees, iter(level.gradients([out], [None])))
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
            found = filled(level.trees, iter(level.gradients(outputs, given)))
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
        moved = _Linear(level, out).along(tangents)
    results = level.outside([out, moved])
    return (*results, level.outside(aux)) if has_aux else tuple(results)


def linearize(func: Func, *primals: Any) -> tuple[Any, Func]:
    """(output, function): the function takes tangents, in the primals' form, to J times them, as jvp does.

    func is called once; after it, each call of the function costs one pass backwards.

    >>> import tinygrad_tf as tg
    >>> output, push = linearize(lambda x: x * x, tg.tensor([1.0, 2.0]))
    >>> push(tg.tensor([1.0, 0.0])), push(tg.tensor([0.0, 1.0]))
    (tensor([2., 0.]), tensor([0., 4.]))
    """
    with enable_grad():
        level, out, _ = _called("linearize", func, tuple(range(len(primals))), False, primals, {})
        linear = _Linear(level, out)

    def push(*tangents: Any) -> Any:
        with enable_grad():
            moved = linear.along(tangents)
        return level.outside(moved)

    return level.outside(out), push


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
        found = filled(out, iter([_one_or_all(argnums, filled(level.trees, iter(row))) for row in rows]))
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
    """The same as `jacrev`: there is no forward mode here, so that both go backwards, and no vmap inside
    that `randomness` could tell anything.

    >>> import tinygrad_tf as tg
    >>> jacfwd(tg.square)(tg.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    return jacrev(func, argnums, has_aux=has_aux)


def hessian(func: Func, argnums: Argnums = 0) -> Func:
    """The function that gives the second derivatives: the jacobian of the jacobian.

    >>> import tinygrad_tf as tg
    >>> hessian(lambda x: (x**3).sum())(tg.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)

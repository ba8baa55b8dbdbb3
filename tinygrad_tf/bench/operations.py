"""Single operations at the sizes of the mac configuration, as one writes them in PyTorch; products also in NumPy.

An operation is a function without arguments that runs once and returns its results, gradients among them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tinygrad_tf.bench.gpt import CONFIGURATIONS

Run = Callable[[], list[Any]]
MAC = CONFIGURATIONS["mac"]
ROWS, C, V = MAC.batch * MAC.context, MAC.channels, MAC.vocabulary
LINEARS = {"qkv": (C, 3 * C), "proj": (C, C), "up": (C, 4 * C), "down": (4 * C, C), "head": (C, V)}
HEADS = (MAC.batch, MAC.heads, MAC.context, C // MAC.heads)
IMAGES, FILTERS = (64, 16, 14, 14), (32, 16, 3, 3)


def products() -> dict[str, tuple[str, int, int, int]]:
    """name -> (layout, M, K, N): the three products of each linear layer; a T stands for a transposed operand."""
    found = {}
    for layer, (inputs, outputs) in LINEARS.items():
        for layout, M, K, N in (
            ("NT", ROWS, inputs, outputs),  # y = x W.T
            ("NN", ROWS, outputs, inputs),  # dx = dy W
            ("TN", outputs, ROWS, inputs),  # dW = dy.T x
        ):
            found[f"{layout} {M}x{K}x{N} ({layer})"] = (layout, M, K, N)
    return found


def functions() -> dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]]:
    """name -> (function of F and tensors, their shapes)."""
    targets = np.random.default_rng(1).integers(0, V, ROWS)
    scores = (MAC.batch * MAC.heads * MAC.context, MAC.context)
    return {
        f"linear {ROWS}x{C} to {4 * C}": (lambda torch, F, *x: F.linear(*x), [(ROWS, C), (4 * C, C), (4 * C,)]),
        f"softmax {scores[0]}x{scores[1]}": (lambda torch, F, x: F.softmax(x, dim=-1), [scores]),
        f"layer norm {ROWS}x{C}": (lambda torch, F, x, w, b: F.layer_norm(x, (C,), w, b), [(ROWS, C), (C,), (C,)]),
        f"GELU {ROWS}x{4 * C}": (lambda torch, F, x: F.gelu(x), [(ROWS, 4 * C)]),
        f"attention {'x'.join(map(str, HEADS))}": (
            lambda torch, F, *x: F.scaled_dot_product_attention(*x, is_causal=True),
            [HEADS] * 3,
        ),
        f"attention by hand {'x'.join(map(str, HEADS))}": (_attention_by_hand, [HEADS] * 3),
        f"convolution, ReLU, pooling {'x'.join(map(str, IMAGES))}": (_convolved, [IMAGES, FILTERS, FILTERS[:1]]),
        f"cross-entropy {ROWS}x{V}": (
            lambda torch, F, x: F.cross_entropy(x, torch.from_numpy(targets)),
            [(ROWS, V)],
        ),
    }


def _attention_by_hand(torch: Any, F: Any, q: Any, k: Any, v: Any) -> Any:
    """As lessons write it, in single operations."""
    T, D = q.shape[-2:]
    scores = q @ k.transpose(-2, -1) * D**-0.5
    scores = scores.masked_fill(torch.ones(T, T).tril() == 0, float("-inf"))
    return F.softmax(scores, dim=-1) @ v


def _convolved(torch: Any, F: Any, x: Any, weight: Any, bias: Any) -> Any:
    """A layer of a small network that reads digits."""
    return F.max_pool2d(F.relu(F.conv2d(x, weight, bias, padding=1)), 2)


def recurrent_layers() -> dict[str, int]:
    """The names of recurrent layers, forward and backward, each with its number of gates."""
    return {f"{kind} {MAC.context}x{MAC.batch}x{C}": gates for kind, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1))}


def names() -> dict[str, float]:
    """All operations by name, each with the multiply-adds of its products; 0 where these are not what counts."""
    found: dict[str, float] = {name: M * K * N for name, (_, M, K, N) in products().items()}
    for name in functions():
        work = ROWS * 4 * C * C if name.startswith("linear") else 0
        found[f"{name} forward"], found[f"{name} forward + backward"] = work, 3 * work
    found |= {layer: 3 * gates * 2 * ROWS * C * C for layer, gates in recurrent_layers().items()}
    return {**found, "AdamW, all weights": 0}


def make(torch: Any, name: str) -> Run:
    """The operation of that name for a library; `torch` may be NumPy for products."""
    if name in products():
        return _product(torch, *products()[name])
    if name.startswith("AdamW"):
        return _adamw(torch)
    if name in recurrent_layers():
        return _recurrent_layer(torch, name.split()[0])
    base, backward = name.removesuffix(" + backward"), name.endswith("backward")
    function, shapes = functions()[base.removesuffix(" forward")]
    return _function(torch, function, shapes, backward)


def _array(generator: np.random.Generator, *shape: int) -> np.ndarray:
    return generator.standard_normal(shape).astype(np.float32)


def _product(torch: Any, layout: str, M: int, K: int, N: int) -> Run:
    generator = np.random.default_rng(0)
    a = _array(generator, *((M, K) if layout[0] == "N" else (K, M)))
    b = _array(generator, *((K, N) if layout[1] == "N" else (N, K)))
    left, right = (x if torch is np else torch.from_numpy(x) for x in (a, b))
    left = left if layout[0] == "N" else left.T
    right = right if layout[1] == "N" else right.T
    return _without_gradients(torch, lambda: torch.matmul(left, right))


def _without_gradients(torch: Any, function: Callable[[], Any]) -> Run:
    if torch is np:
        return lambda: [function()]

    def run() -> list[Any]:
        with torch.no_grad():
            return [function()]

    return run


def _function(torch: Any, function: Callable[..., Any], shapes: list[tuple[int, ...]], backward: bool) -> Run:
    generator, F = np.random.default_rng(0), torch.nn.functional
    inputs = [torch.from_numpy(_array(generator, *shape)) for shape in shapes]
    if not backward:
        return _without_gradients(torch, lambda: function(torch, F, *inputs))
    for x in inputs:
        x.requires_grad_(True)
    upper = torch.from_numpy(_array(generator, *function(torch, F, *inputs).shape))

    def run() -> list[Any]:
        y = function(torch, F, *inputs)
        y.backward(upper)
        results = [y.detach(), *(x.grad for x in inputs)]
        for x in inputs:
            x.grad = None
        return results

    return run


def _recurrent_layer(torch: Any, kind: str) -> Run:
    """A step through time of all weights: outputs, and the gradients of input and parameters."""
    generator = np.random.default_rng(0)
    layer = getattr(torch.nn, kind)(C, C)
    leaves = list(layer.parameters())
    with torch.no_grad():
        for parameter in leaves:
            parameter.copy_(torch.from_numpy(_array(generator, *parameter.shape) / C**0.5))
    x, upper = (torch.from_numpy(_array(generator, MAC.context, MAC.batch, C)) for _ in range(2))
    leaves.append(x.requires_grad_(True))

    def run() -> list[Any]:
        y, _ = layer(x)
        y.backward(upper)
        results = [y.detach(), *(leaf.grad for leaf in leaves)]
        for leaf in leaves:
            leaf.grad = None
        return results

    return run


def _adamw(torch: Any) -> Run:
    generator = np.random.default_rng(0)
    shapes = [(V, C), (MAC.context, C), (V, C), (C,), (C,)]
    for inputs, outputs in list(LINEARS.values())[:4] * MAC.layers:
        shapes += [(outputs, inputs), (outputs,)]
    shapes += [(C,)] * (4 * MAC.layers)
    parameters = [torch.nn.Parameter(torch.from_numpy(_array(generator, *shape))) for shape in shapes]
    for parameter in parameters:
        parameter.grad = torch.from_numpy(_array(generator, *parameter.shape))
    optimizer = torch.optim.AdamW(parameters, lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1)

    def run() -> list[Any]:
        optimizer.step()
        return [parameter.detach() for parameter in parameters]

    return run

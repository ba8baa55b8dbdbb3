"""Mixed precision on torch and on tinygrad_tf: what autocast lowers and raises, and the dynamics of GradScaler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

DTYPES = ("bfloat16", "float16")
SHAPES: dict[str, tuple[int, ...]] = {"x": (4, 5), "w": (6, 5), "b": (6,), "q": (1, 2, 7, 4), "m": (7, 7)}

# Each gets the module and, by name, the float32 tensors of SHAPES.
PROGRAMS: dict[str, Callable[..., Any]] = {
    "linear": lambda t, x, w, b, **_: t.nn.functional.linear(x, w, b),
    "matmul": lambda t, x, w, **_: x @ w.t(),
    "mm": lambda t, x, w, **_: t.mm(x, w.t()),
    "attention": lambda t, q, **_: t.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True),
    "attention mask": lambda t, q, **_: t.nn.functional.scaled_dot_product_attention(
        q, q * 0.5, q, attn_mask=t.tensor([[True, False, True, True, False, True, True]])
    ),
    "gelu keeps 16 bits": lambda t, x, w, **_: t.nn.functional.gelu(x @ w.t()),
    "layer_norm": lambda t, x, w, b, **_: t.nn.functional.layer_norm(x @ w.t(), (6,)),
    "softmax": lambda t, x, w, **_: t.nn.functional.softmax(x @ w.t(), -1),
    "residual": lambda t, x, w, **_: x[:, :1] + x @ w.t(),
    "cat": lambda t, x, w, **_: t.cat([x, x @ w.t()], 1),
    "stack": lambda t, x, w, **_: t.stack([x, (x @ w.t())[:, :5]]),
    "cross_entropy": lambda t, x, w, **_: t.nn.functional.cross_entropy(x @ w.t(), t.tensor([0, 5, 2, 3])),
    "mse_loss": lambda t, x, w, **_: t.nn.functional.mse_loss(x @ w.t(), t.ones(4, 6)),
    "l1_loss": lambda t, x, w, **_: t.nn.functional.l1_loss(x @ w.t(), t.ones(4, 6)),
    "smooth_l1_loss": lambda t, x, w, **_: t.nn.functional.smooth_l1_loss(x @ w.t(), t.ones(4, 6)),
    "bce_with_logits": lambda t, x, w, **_: t.nn.functional.binary_cross_entropy_with_logits(x @ w.t(), t.ones(4, 6)),
    "two layers": lambda t, x, w, b, **_: t.nn.functional.linear(
        t.tanh(t.nn.functional.linear(x, w, b)), w.t().contiguous()
    ),
}


def run_program(torch: Any, name: str, dtype: str) -> dict[str, np.ndarray]:
    """Value, its dtype's size, and the gradients of a fixed projection."""
    rng = np.random.default_rng(sum(map(ord, name)))
    leaves = {
        key: torch.from_numpy(rng.normal(size=shape).astype(np.float32)).requires_grad_()
        for key, shape in SHAPES.items()
    }
    with torch.autocast("cpu", dtype=getattr(torch, dtype)):
        out = PROGRAMS[name](torch, **leaves)
    cotangent = torch.from_numpy(np.asarray(rng.normal(size=tuple(out.shape)).astype(np.float32)))
    out.float().backward(cotangent)
    found = {f"{name}/{dtype}/bits": np.array(8 * out.element_size()), f"{name}/{dtype}/value": as_array(out)}
    for key, leaf in leaves.items():
        if leaf.grad is not None:
            found[f"{name}/{dtype}/grad {key}"] = as_array(leaf.grad)
    return found


def as_array(x: Any) -> np.ndarray:
    return np.array(x.detach().float().numpy())


# The largest gradient of each step; inf and nan are overflows.
GRADIENTS = (1.0, 2.0, np.inf, 1.0, 1.0, 1.0, np.nan, 1.0, 1e-6, 1.0, 1.0)


def scaler_trace(torch: Any) -> dict[str, np.ndarray]:
    """Scale and parameters after each step, with overflows on the way; two optimisers, one of which unscales first."""
    first = torch.nn.Parameter(torch.ones(3))
    second = torch.nn.Parameter(torch.ones(2))
    optimizers = [torch.optim.SGD([first], lr=0.1), torch.optim.Adam([second], lr=0.1)]
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_factor=4.0, backoff_factor=0.25, growth_interval=3)
    rows = []
    for size in GRADIENTS:
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss = (first * torch.tensor([size, 0.5, 0.25])).sum() + (second * 0.5).sum()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizers[0])
        for optimizer in optimizers:
            scaler.step(optimizer)
        scaler.update()
        rows.append([scaler.get_scale(), *first.detach().tolist(), *second.detach().tolist()])
    state = scaler.state_dict()
    return {
        "scaler/trace": np.array(rows),
        "scaler/state": np.array([state[key] for key in sorted(state)], float),
        "scaler/names": np.array(sorted(state)),
    }


def run_all(torch: Any) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {}
    for name in PROGRAMS:
        for dtype in DTYPES:
            found.update(run_program(torch, name, dtype))
    return {**found, **scaler_trace(torch)}

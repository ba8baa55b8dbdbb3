"""Programs that run alike on torch and on tinygrad_tf: operations, layers, and ten training steps of a small GPT.

make.py runs them on torch and stores what comes out; test_reference.py runs them on tinygrad_tf and compares.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Program = tuple[Callable[..., Any], list[tuple[int, ...]]]

# name: (function of the module and the inputs, shapes of the inputs); inputs are normal numbers from a fixed seed
OPERATIONS: dict[str, Program] = {
    "add": (lambda t, a, b: a + b, [(3, 4), (4,)]),
    "sub": (lambda t, a, b: a - b, [(3, 1), (2, 1, 4)]),
    "mul": (lambda t, a, b: a * b, [(3, 4), (3, 4)]),
    "div": (lambda t, a, b: a / (b * b + 1), [(3, 4), (4,)]),
    "pow": (lambda t, a: a**3, [(3, 4)]),
    "exp": (lambda t, a: a.exp(), [(3, 4)]),
    "log": (lambda t, a: (a * a + 1).log(), [(3, 4)]),
    "sqrt": (lambda t, a: (a * a + 1).sqrt(), [(3, 4)]),
    "tanh": (lambda t, a: a.tanh(), [(3, 4)]),
    "sigmoid": (lambda t, a: a.sigmoid(), [(3, 4)]),
    "relu": (lambda t, a: t.nn.functional.relu(a), [(3, 4)]),
    "clamp": (lambda t, a: a.clamp(-0.5, 0.5), [(3, 4)]),
    "where": (lambda t, a, b: t.where(a > b, a, b * 2), [(3, 4), (3, 4)]),
    "sum": (lambda t, a: a.sum((0, 2), keepdim=True), [(2, 3, 4)]),
    "mean": (lambda t, a: a.mean(-1), [(2, 3, 4)]),
    "var": (lambda t, a: a.var(1), [(3, 4)]),
    "amax ties": (lambda t, a: (a * 0 + t.tensor([1.0, 2.0, 2.0])).amax(-1) * a.sum(), [(2, 3)]),
    "max dim": (lambda t, a: a.max(1).values, [(3, 4)]),
    "cumsum": (lambda t, a: a.cumsum(1), [(3, 4)]),
    "matmul": (lambda t, a, b: a @ b, [(2, 1, 3, 4), (3, 4, 5)]),
    "matmul vector": (lambda t, a, b: a @ b, [(4,), (4, 3)]),
    "transpose": (lambda t, a: a.transpose(0, 2), [(2, 3, 4)]),
    "permute view": (lambda t, a: a.permute(1, 0, 2).contiguous().view(3, 8), [(2, 3, 4)]),
    "cat": (lambda t, a, b: t.cat([a, b], 1), [(2, 3), (2, 2)]),
    "stack": (lambda t, a, b: t.stack([a, b], 1), [(2, 3), (2, 3)]),
    "split": (lambda t, a: a.split(2, 1)[1] * 3, [(2, 5)]),
    "index repeated": (lambda t, a: a[t.tensor([2, 0, 2])], [(3, 4)]),
    "index mask": (lambda t, a: a[a > 0], [(3, 4)]),
    "gather": (lambda t, a: a.gather(1, t.tensor([[0, 0], [3, 1], [2, 2]])), [(3, 4)]),
    "setitem": (lambda t, a, b: _written(a, b), [(3, 4), (4,)]),
    "write through a view": (lambda t, a, b: _written_view(a, b), [(3, 4), (3,)]),
    "masked_fill": (lambda t, a: a.masked_fill(t.tensor([True, False, True, False]), 2.0), [(3, 4)]),
    "softmax": (lambda t, a: t.nn.functional.softmax(a, -1), [(3, 7)]),
    "log_softmax": (lambda t, a: t.nn.functional.log_softmax(a, 0), [(3, 7)]),
    "gelu": (lambda t, a: t.nn.functional.gelu(a), [(3, 7)]),
    "gelu tanh": (lambda t, a: t.nn.functional.gelu(a, approximate="tanh"), [(3, 7)]),
    "silu": (lambda t, a: t.nn.functional.silu(a), [(3, 7)]),
    "layer_norm": (lambda t, a, w, b: t.nn.functional.layer_norm(a, (5,), w, b), [(2, 3, 5), (5,), (5,)]),
    "rms_norm": (lambda t, a, w: t.nn.functional.rms_norm(a, (5,), w, eps=1e-5), [(2, 3, 5), (5,)]),
    "linear": (lambda t, a, w, b: t.nn.functional.linear(a, w, b), [(2, 3, 4), (5, 4), (5,)]),
    "embedding": (lambda t, w: t.nn.functional.embedding(t.tensor([[1, 1, 3], [1, 0, 0]]), w), [(4, 3)]),
    "cross_entropy": (lambda t, a: t.nn.functional.cross_entropy(a, t.tensor([1, 0, 3])), [(3, 4)]),
    "cross_entropy all": (
        lambda t, a, w: t.nn.functional.cross_entropy(
            a, t.tensor([1, -100, 3]), weight=(w * w + 0.1).detach(), label_smoothing=0.1
        ),
        [(3, 4), (4,)],
    ),
    "attention": (lambda t, q, k, v: t.nn.functional.scaled_dot_product_attention(q, k, v), [(2, 2, 3, 4)] * 3),
    "attention causal": (
        lambda t, q, k, v: t.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True),
        [(1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 5, 4)],
    ),
    "attention mask": (
        lambda t, q, k, v: t.nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask=t.tensor([[True, False, True], [False, True, False]])
        ),
        [(1, 2, 2, 4), (1, 2, 3, 4), (1, 2, 3, 4)],
    ),
    "attention bias": (
        lambda t, q, k, v, m: t.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=m, scale=0.5),
        [(1, 2, 2, 4), (1, 2, 3, 4), (1, 2, 3, 4), (2, 3)],
    ),
}


def _written(a: Any, b: Any) -> Any:
    out = a * a
    out[1] = b * 2.0
    out[0, 1:3] = out[2, :2]
    return out * a


def _written_view(a: Any, b: Any) -> Any:
    out = a * 2.0
    column = out.t()[1]
    column.mul_(b)
    return out * out + column.sum()


def inputs(name: str, shapes: list[tuple[int, ...]]) -> list[np.ndarray]:
    rng = np.random.default_rng(sum(map(ord, name)))
    return [rng.normal(size=s) for s in shapes]


def run_operation(torch: Any, name: str) -> dict[str, np.ndarray]:
    """The value, the dtype, and the gradients of a fixed projection, in float64 and float32."""
    function, shapes = OPERATIONS[name]
    found: dict[str, np.ndarray] = {}
    for dtype in (np.float64, np.float32):
        leaves = [torch.from_numpy(x.astype(dtype)).requires_grad_() for x in inputs(name, shapes)]
        out = function(torch, *leaves)
        cotangent = np.random.default_rng(1).normal(size=tuple(out.shape)).astype(out.detach().numpy().dtype)
        out.backward(torch.from_numpy(np.asarray(cotangent)))
        key = np.dtype(dtype).name
        found[f"{name}/{key}/value"] = out.detach().numpy()
        for i, leaf in enumerate(leaves):
            if leaf.grad is not None:
                found[f"{name}/{key}/grad{i}"] = leaf.grad.numpy()
    return found


def small_gpt(torch: Any) -> Any:
    """Two pre-norm layers, written in PyTorch's vocabulary; weights from NumPy by name."""
    nn, F = torch.nn, torch.nn.functional
    L, H, C, T, V = 2, 2, 16, 8, 11

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(C), nn.LayerNorm(C)
            self.qkv, self.proj = nn.Linear(C, 3 * C), nn.Linear(C, C)
            self.up, self.down, self.gelu = nn.Linear(C, 4 * C), nn.Linear(4 * C, C), nn.GELU()

        def forward(self, x: Any) -> Any:
            B, T_, _ = x.size()
            q, k, v = (t.view(B, T_, H, C // H).transpose(1, 2) for t in self.qkv(self.norm1(x)).split(C, dim=2))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.proj(y.transpose(1, 2).contiguous().view(B, T_, C))
            return x + self.down(self.gelu(self.up(self.norm2(x))))

    class GPT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.token, self.position = nn.Embedding(V, C), nn.Embedding(T, C)
            self.blocks = nn.ModuleList([Block() for _ in range(L)])
            self.norm, self.head = nn.LayerNorm(C), nn.Linear(C, V, bias=False)

        def forward(self, ids: Any, targets: Any) -> Any:
            x = self.token(ids) + self.position(torch.arange(ids.size(1)))
            for block in self.blocks:
                x = block(x)
            return F.cross_entropy(self.head(self.norm(x)).view(-1, V), targets.view(-1))

    model, rng = GPT(), np.random.default_rng(0)
    with torch.no_grad():
        for _, p in model.named_parameters():
            std = 0.1 / math.sqrt(2 * L) if p.dim() > 1 else 0.01
            p.copy_(torch.from_numpy(rng.normal(0, std, tuple(p.shape)).astype(np.float32)))
    return model


def ten_steps(torch: Any) -> dict[str, np.ndarray]:
    """Loss and gradient norm of each of ten AdamW steps with clipping, and the weights' norms at the end."""
    model, rng = small_gpt(torch), np.random.default_rng(1)
    groups = [
        {"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": 0.1},
        {"params": [p for p in model.parameters() if p.dim() <= 1], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=1e-2, betas=(0.9, 0.99))
    losses, norms = [], []
    for _ in range(10):
        tokens = rng.integers(0, 11, (4, 9))
        loss = model(torch.from_numpy(tokens[:, :-1].copy()), torch.from_numpy(tokens[:, 1:].copy()))
        loss.backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)))
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    weights = [float(np.linalg.norm(p.detach().numpy())) for p in model.parameters()]
    return {"gpt/losses": np.array(losses), "gpt/norms": np.array(norms), "gpt/weights": np.array(weights)}


def run_all(torch: Any) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {}
    for name in OPERATIONS:
        found.update(run_operation(torch, name))
    return {**found, **ten_steps(torch)}

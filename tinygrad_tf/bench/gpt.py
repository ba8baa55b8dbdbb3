"""A small GPT as one writes it in PyTorch: the same lines run on `torch` and on this package.

Nothing here imports either: `torch` is an argument. Shapes: B batch, T time, H heads, C channels, V vocabulary.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Sizes:
    """Of a model and its batch."""

    layers: int
    heads: int
    channels: int
    context: int
    batch: int
    vocabulary: int = 65

    @property
    def multiply_adds(self) -> int:
        """Of the products in one training step: a backward pass is two products for each of the forward one.

        Attention is counted up to the diagonal, and the scores that its backward pass makes again are not.
        """
        C, T, rows = self.channels, self.context, self.batch * self.context
        matrices = rows * (self.layers * 12 * C * C + C * self.vocabulary)
        attention = self.layers * self.batch * C * T * (T + 1)  # scores and values, T (T + 1) / 2 pairs of C each
        return 3 * (matrices + attention)


CONFIGURATIONS = {
    "tiny": Sizes(2, 2, 32, 16, 4),  # Python's cost for each operation decides
    "mac": Sizes(4, 4, 128, 64, 12),  # nanoGPT's for a small computer
    "baby": Sizes(6, 6, 384, 256, 64),  # nanoGPT's train_shakespeare_char
}


def build(torch: Any, sizes: Sizes, seed: int = 0, std: float = 0.02) -> Any:
    """The model: ids (B, T) to logits (B, T, V), with weights that depend on the seed alone, not on the library."""
    nn, F = torch.nn, torch.nn.functional
    H, C, T, V = sizes.heads, sizes.channels, sizes.context, sizes.vocabulary

    class Block(nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(C), nn.LayerNorm(C)
            self.qkv, self.proj = nn.Linear(C, 3 * C), nn.Linear(C, C)
            self.up, self.down, self.gelu = nn.Linear(C, 4 * C), nn.Linear(4 * C, C), nn.GELU()

        def forward(self, x: Any, cache: Any = None) -> Any:
            B, Tq, _ = x.size()
            q, k, v = self.qkv(self.norm1(x)).split(C, dim=2)
            q, k, v = (t.view(B, Tq, H, C // H).transpose(1, 2) for t in (q, k, v))
            if cache is not None:
                k, v = cache.update(k, v)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=cache is None)
            x = x + self.proj(y.transpose(1, 2).contiguous().view(B, Tq, C))
            return x + self.down(self.gelu(self.up(self.norm2(x))))

    class GPT(nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.token, self.position = nn.Embedding(V, C), nn.Embedding(T, C)
            self.blocks = nn.ModuleList([Block() for _ in range(sizes.layers)])
            self.norm, self.head = nn.LayerNorm(C), nn.Linear(C, V, bias=False)

        def forward(self, ids: Any, caches: Any = None) -> Any:
            start = 0 if caches is None else caches[0].length
            x = self.token(ids) + self.position(torch.arange(start, start + ids.size(1)))
            for i, block in enumerate(self.blocks):
                x = block(x, None if caches is None else caches[i])
            return self.head(self.norm(x))

    model, generator = GPT(), np.random.default_rng(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1:
                ends_branch = name.endswith(("proj.weight", "down.weight"))
                spread = std / math.sqrt(2 * sizes.layers) if ends_branch else std
                weights = generator.normal(0, spread, tuple(parameter.shape)).astype(np.float32)
                parameter.copy_(torch.from_numpy(weights))
            elif name.endswith("bias"):
                parameter.zero_()
    return model


def trainer(torch: Any, sizes: Sizes, bfloat16: bool = False) -> Callable[[], float]:
    """A function that does one training step (forward, backward, clipping to 1, AdamW) and returns the loss.

    bfloat16: products run in it, as autocast has them.
    """
    F, V = torch.nn.functional, sizes.vocabulary
    model = build(torch, sizes)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1)
    windows = np.random.default_rng(1).integers(0, V, (8, 2, sizes.batch, sizes.context))
    batches = [(torch.from_numpy(ids), torch.from_numpy(targets)) for ids, targets in windows]
    done = 0

    def step() -> float:
        nonlocal done
        ids, targets = batches[done % len(batches)]
        done += 1
        with torch.amp.autocast("cpu", dtype=torch.bfloat16) if bfloat16 else contextlib.nullcontext():
            loss = F.cross_entropy(model(ids).view(-1, V), targets.view(-1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return float(loss.item())

    return step


class HandWrittenCache:
    """Keys and values of one layer in memory that is there from the start, as a PyTorch user would write it."""

    def __init__(self, torch: Any, sizes: Sizes) -> None:
        shape = (sizes.batch, sizes.heads, sizes.context, sizes.channels // sizes.heads)
        self.keys, self.values, self.length = torch.zeros(shape), torch.zeros(shape), 0

    def update(self, key: Any, value: Any) -> tuple[Any, Any]:
        """Keep those of one more token (B, H, 1, D); give all so far."""
        end = self.length + key.size(2)
        self.keys[:, :, self.length : end] = key
        self.values[:, :, self.length : end] = value
        self.length = end
        return self.keys[:, :, :end], self.values[:, :, :end]


def first_tokens(sizes: Sizes) -> np.ndarray:
    """A token for each text to begin with, (B, 1)."""
    return np.arange(sizes.batch, dtype=np.int64)[:, None] % sizes.vocabulary


def generate_with_cache(torch: Any, sizes: Sizes) -> Callable[[], np.ndarray]:
    """A function that goes on after one token until the context is full: the likeliest tokens, (B, context - 1)."""
    model = generator(torch, sizes)

    def run() -> np.ndarray:
        with torch.no_grad():
            caches = [HandWrittenCache(torch, sizes) for _ in range(sizes.layers)]
            ids, found = torch.from_numpy(first_tokens(sizes)), []
            for _ in range(sizes.context - 1):
                ids = model(ids, caches)[:, -1].argmax(-1, keepdim=True)
                found.append(ids)
            return np.asarray(torch.cat(found, 1).numpy())

    return run


def generate_without_cache(torch: Any, sizes: Sizes, tokens: int) -> Callable[[], np.ndarray]:
    """The same where every token costs a pass over the whole context, which moves on with the text: (B, tokens)."""
    model = generator(torch, sizes)

    def run() -> np.ndarray:
        with torch.no_grad():
            ids = torch.from_numpy(np.tile(first_tokens(sizes), sizes.context))
            for _ in range(tokens):
                following = model(ids)[:, -1].argmax(-1, keepdim=True)
                ids = torch.cat([ids[:, 1:], following], 1)
            return np.asarray(ids[:, -tokens:].numpy())

    return run


def generator(torch: Any, sizes: Sizes) -> Any:
    """The model that texts are written with."""
    model = build(torch, sizes, std=0.2)  # as if it had learnt something: the likeliest token stands out
    model.eval()
    return model

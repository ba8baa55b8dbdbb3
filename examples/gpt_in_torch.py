"""A GPT written for PyTorch trains on this package as it is, to the same loss, and is done sooner.

Nothing of the package is named in this file. The model and its training are nanoGPT's small configuration (4 layers,
4 heads, 128 channels, 12 x 64 characters, 2,000 steps); both libraries draw the same weights and the same batches from
the seed, so that their losses agree until rounding, which training magnifies, drives them apart. Only the command says
who computes:

    python -m tinygrad_tf.as_torch examples/gpt_in_torch.py [TEXT]        this package
    python examples/gpt_in_torch.py [TEXT]                                PyTorch, where it is installed

TEXT is a file in UTF-8; without it, about a megabyte of Python's standard library. Prints the loss as it falls, then
that over the whole validation split, and how long it took, compiling included.
"""

from __future__ import annotations

import math
import os
import sys
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

SMALL = bool(os.environ.get("TINYGRAD_TF_SMALL"))
L, H, C, T, B = (1, 2, 32, 16, 4) if SMALL else (4, 4, 128, 64, 12)  # layers, heads, channels, time, batch
STEPS, WARMUP, EVALUATE = (60, 5, 20) if SMALL else (2000, 100, 250)
PEAK, FLOOR = 1e-3, 1e-4  # learning rates


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(C, bias=False), nn.LayerNorm(C, bias=False)
        self.qkv, self.proj = nn.Linear(C, 3 * C, bias=False), nn.Linear(C, C, bias=False)
        self.up, self.down = nn.Linear(C, 4 * C, bias=False), nn.Linear(4 * C, C, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, time, _ = x.size()
        q, k, v = (t.view(batch, time, H, C // H).transpose(1, 2) for t in self.qkv(self.norm1(x)).split(C, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(batch, time, C))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, C), nn.Embedding(T, C)
        self.blocks = nn.Sequential(*(Block() for _ in range(L)))
        self.norm, self.head = nn.LayerNorm(C, bias=False), nn.Linear(C, vocabulary, bias=False)
        self.token.weight = self.head.weight
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                residual = name.endswith(("proj.weight", "down.weight"))
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * L) if residual else 0.02)

    def forward(self, ids: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        x = self.token(ids) + self.position(torch.arange(ids.size(1)))
        logits = self.head(self.norm(self.blocks(x)))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def read_text() -> str:
    if len(sys.argv) > 1:
        return Path(sys.argv[1]).read_text(encoding="utf-8")
    files = sorted(Path(os.__file__).parent.glob("*.py"))
    return "".join(file.read_text(encoding="utf-8") for file in files)[: 20_000 if SMALL else 1_115_394]


def learning_rate(step: int) -> float:
    if step < WARMUP:
        return PEAK * (step + 1) / (WARMUP + 1)
    return FLOOR + (PEAK - FLOOR) * (1 + math.cos(math.pi * (step - WARMUP) / (STEPS - WARMUP))) / 2


def random_batch(ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    starts = torch.randint(len(ids) - T, (B,)).tolist()
    return torch.stack([ids[s : s + T] for s in starts]), torch.stack([ids[s + 1 : s + 1 + T] for s in starts])


@torch.no_grad()
def sampled_loss(model: GPT, ids: torch.Tensor) -> float:
    return sum(model(*random_batch(ids)).item() for _ in range(20)) / 20


@torch.no_grad()
def whole_loss(model: GPT, ids: torch.Tensor) -> float:
    """Over all windows of T characters."""
    count = (len(ids) - 1) // T
    inputs, targets = ids[: count * T].view(count, T), ids[1 : count * T + 1].view(count, T)
    parts = [(model(x, y).item(), len(x)) for x, y in zip(inputs.split(64), targets.split(64), strict=True)]
    return sum(loss * size for loss, size in parts) / count


def main() -> None:
    text = read_text()
    symbols = {symbol: i for i, symbol in enumerate(sorted(set(text)))}
    ids = torch.tensor([symbols[symbol] for symbol in text])
    training, validation = ids[: len(ids) * 9 // 10], ids[len(ids) * 9 // 10 :]
    torch.manual_seed(1337)
    model = GPT(len(symbols))
    decayed = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=PEAK, betas=(0.9, 0.99))
    start = time.perf_counter()
    for step in range(STEPS):
        if step % EVALUATE == 0:
            losses = f"loss {sampled_loss(model, training):.4f}  validation {sampled_loss(model, validation):.4f}"
            print(f"step {step:5d}  {losses}  {time.perf_counter() - start:.0f} s", flush=True)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step)
        loss = model(*random_batch(training))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    final = whole_loss(model, validation)
    print(f"loss {final:.4f} over the whole validation split, in {time.perf_counter() - start:.1f} s")
    assert final < (0.95 if SMALL else 0.6) * math.log(len(symbols)), "the model has not learned"


if __name__ == "__main__":
    main()

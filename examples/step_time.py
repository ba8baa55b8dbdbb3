"""How long a training step takes, here and in PyTorch: the same lines run on both, in turns.

    python examples/step_time.py            # a small GPT: 4 layers, 4 heads, 128 channels, context 64, batch 12
    python examples/step_time.py tiny       # where Python's cost for each operation decides

Each library has a process of its own; the two take turns, so that a drift of the machine's speed meets both. Look at
the ratio, and at the losses, which agree. Without PyTorch only our time is shown.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

SMALL = bool(os.environ.get("TINYGRAD_TF_SMALL"))
SIZES = {  # layers, heads, channels, time, batch
    "small": (4, 4, 128, 64, 12),
    "tiny": (2, 2, 32, 16, 4),
}
VOCABULARY = 65
ROUNDS, STEPS = (2, 3) if SMALL else (7, 15)


def trainer(library: str, size: str) -> Callable[[], float]:
    """A function that makes one training step (forward, backward, clipping, AdamW) and returns the loss."""
    torch: Any = importlib.import_module(library)
    nn, F = torch.nn, torch.nn.functional
    L, H, C, T, B = SIZES[size]

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(C), nn.LayerNorm(C)
            self.qkv, self.proj = nn.Linear(C, 3 * C), nn.Linear(C, C)
            self.up, self.down, self.gelu = nn.Linear(C, 4 * C), nn.Linear(4 * C, C), nn.GELU()

        def forward(self, x: Any) -> Any:
            q, k, v = self.qkv(self.norm1(x)).split(C, dim=2)
            q, k, v = (t.view(B, T, H, C // H).transpose(1, 2) for t in (q, k, v))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.proj(y.transpose(1, 2).contiguous().view(B, T, C))
            return x + self.down(self.gelu(self.up(self.norm2(x))))

    class GPT(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.token, self.position = nn.Embedding(VOCABULARY, C), nn.Embedding(T, C)
            self.blocks = nn.ModuleList([Block() for _ in range(L)])
            self.norm, self.head = nn.LayerNorm(C), nn.Linear(C, VOCABULARY, bias=False)

        def forward(self, ids: Any, targets: Any) -> Any:
            x = self.token(ids) + self.position(torch.arange(T))
            for block in self.blocks:
                x = block(x)
            return F.cross_entropy(self.head(self.norm(x)).view(-1, VOCABULARY), targets.view(-1))

    torch.manual_seed(0)  # the same numbers in both
    model, rng = GPT(), np.random.default_rng(0)
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() > 1:
                p.copy_(torch.from_numpy(rng.normal(0, 0.02, tuple(p.shape)).astype(np.float32)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1)
    ids, targets = (torch.from_numpy(rng.integers(0, VOCABULARY, (B, T))) for _ in range(2))

    def step() -> float:
        loss = model(ids, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    return step


def worker(library: str, size: str) -> None:
    """Answer each line on standard input with the median time of some steps, and the last loss."""
    step = trainer(library, size)
    step()
    print("ready", flush=True)
    for _ in sys.stdin:
        times, loss = [], 0.0
        for _ in range(STEPS):
            start = time.perf_counter()
            loss = step()
            times.append(time.perf_counter() - start)
        print(statistics.median(times), loss, flush=True)


def main(size: str) -> None:
    libraries = ["tinygrad_tf"] + (["torch"] if importlib.util.find_spec("torch") else [])
    processes = {}
    for name in libraries:
        command = [sys.executable, __file__, "--worker", name, size]
        processes[name] = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert processes[name].stdout.readline().strip() == "ready", f"{name} made no first step"
    rows: dict[str, list[tuple[float, float]]] = {name: [] for name in libraries}
    for _ in range(ROUNDS):
        for name, process in processes.items():
            print("go", file=process.stdin, flush=True)
            seconds, loss = map(float, process.stdout.readline().split())
            rows[name].append((seconds, loss))
    for process in processes.values():
        process.stdin.close()
        process.wait()
    for name in libraries:
        milliseconds = 1e3 * statistics.median(seconds for seconds, _ in rows[name])
        print(f"{name:12} {milliseconds:8.2f} ms a step, loss {rows[name][-1][1]:.5f}")
    if len(libraries) == 2:
        pairs = list(zip(rows["torch"], rows["tinygrad_tf"], strict=True))
        print(f"torch / tinygrad_tf: {statistics.median(t[0] / o[0] for t, o in pairs):.2f}")
        assert all(abs(t[1] - o[1]) < 1e-3 * t[1] for t, o in pairs)


if __name__ == "__main__":
    if "--worker" in sys.argv:
        worker(*sys.argv[2:4])
    else:
        main(sys.argv[1] if len(sys.argv) > 1 else "small")

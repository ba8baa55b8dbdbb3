"""Always taking the likeliest letter ends in a loop; drawing or a ban on repeats breaks it, beams do not.

A small model is trained for some seconds on a part of Python's standard library, and goes on writing in several ways.
Look at the bars: the share of what was written that had been written before (pieces of 6 characters that occur earlier
in the same text), beside that of the real text. Greedy decoding comes to a state that it has been in, and from there it
can only go round. Beam search looks for the likeliest text, and a loop is likely: it needs the ban, too. The penalty
makes all tokens less likely that occurred; it helps where tokens are words, but of letters nearly all have occurred
soon, and then it changes little. A model that repeats even when it draws may have learned it: look for duplicates in
the data (the last line).

    python examples/greedy_repeats.py        writes greedy_repeats.png
"""

from __future__ import annotations

import os

import numpy as np
from matplotlib import pyplot as plt

import tinygrad_tf as tg
from tinygrad_tf.generation import GenerationConfig, generate_batch
from tinygrad_tf.models import GPT, GPTConfig
from tinygrad_tf.utils.data.text import standard_library_text
from tinygrad_tf.utils.data.tokenizer import CharTokenizer

SMALL = bool(os.environ.get("TINYGRAD_TF_SMALL"))
STEPS, NEW, WINDOW, PIECE = (120, 100, 32, 6) if SMALL else (600, 200, 64, 6)
WAYS = {
    "greedy": {"temperature": 0},
    "4 beams": {"num_beams": 4},
    "4 beams, no piece of 6 twice": {"num_beams": 4, "no_repeat_ngram": 6},
    "greedy, no piece of 6 twice": {"temperature": 0, "no_repeat_ngram": 6},
    "greedy, repetition penalty 1.5": {"temperature": 0, "repetition_penalty": 1.5},
    "temperature 0.8": {"temperature": 0.8},
    "top-k 10": {"top_k": 10},
    "top-p 0.9": {"top_p": 0.9},
}


def repeated(text: str, piece: int = PIECE) -> float:
    """The share of the pieces of a text that occur earlier in it."""
    pieces = [text[i : i + piece] for i in range(len(text) - piece + 1)]
    return 1 - len(set(pieces)) / len(pieces)


def train(ids: np.ndarray, vocabulary: int, steps: int = STEPS) -> GPT:
    tg.manual_seed(0)
    random = np.random.default_rng(0)
    model = GPT(GPTConfig(vocabulary, context=NEW + 10, layers=2, heads=4, channels=64, positions="rope"))
    optimizer = tg.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(steps):
        starts = random.integers(0, len(ids) - WINDOW - 1, 16)
        batch = tg.tensor(np.stack([ids[start : start + WINDOW + 1] for start in starts]))
        loss = model.loss(batch[:, :-1], batch[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % (steps // 4) == 0 or step == steps - 1:
            print(f"step {step:4d}  loss {loss.item():.2f}")
    return model


def write(model: GPT, tokenizer: CharTokenizer, prompts: list[str], way: dict[str, float]) -> list[str]:
    """What the model writes behind each of the prompts."""
    config = GenerationConfig(max_new_tokens=NEW, **way)
    ids = [tokenizer.encode(prompt).tolist() for prompt in prompts]
    return [tokenizer.decode(row) for row in generate_batch(model, ids, config, generator=0).rows()]


def main() -> None:
    code = standard_library_text(characters=300_000).content
    text = " ".join(code.split())  # without its indents: runs of spaces would be loops of another kind
    tokenizer = CharTokenizer(text)
    model = train(tokenizer.encode(text), tokenizer.vocabulary_size)
    starts = np.random.default_rng(1).integers(0, len(text) - NEW - 10, 4)
    prompts = [text[start : start + 10] for start in starts]
    shares = {"the real text": float(np.mean([repeated(text[s + 10 : s + 10 + NEW]) for s in starts]))}
    for name, way in WAYS.items():
        written = write(model, tokenizer, prompts, way)
        shares[name] = float(np.mean([repeated(t) for t in written]))
        print(f"{name:32s} {shares[name]:4.0%} repeated: {written[0][-50:]!r}")
    lines = [line for line in code.splitlines() if len(line) > 40]
    again = 1 - len(set(lines)) / len(lines)
    print(f"the real text: {shares['the real text']:.0%} repeated; {again:.0%} of its longer lines occur before in it")

    figure, ax = plt.subplots(figsize=(9, 4), layout="constrained")
    bars = ax.barh(list(shares), [100 * share for share in shares.values()], color=["gray"] + ["tab:blue"] * len(WAYS))
    ax.bar_label(bars, fmt="%.0f %%", padding=3)
    ax.invert_yaxis()
    ax.set(title="how much of a text was in it before", xlim=(0, 110), xlabel="percent")
    figure.savefig("greedy_repeats.png", dpi=110)

    assert shares["greedy"] > 0.5 and shares["4 beams"] > 0.4
    assert shares["greedy, no piece of 6 twice"] == shares["4 beams, no piece of 6 twice"] == 0
    drawn = [shares[name] for name in ("temperature 0.8", "top-k 10", "top-p 0.9")]
    assert max(drawn) < shares["greedy"] / 2


if __name__ == "__main__":
    main()

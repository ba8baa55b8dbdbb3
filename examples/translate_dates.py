"""An encoder-decoder learns to read dates in two dozen ways of writing, and says where it looked.

"Friday, March 5th, 1999" -> "1999-03-05": 9,000 generated pairs to learn from, 1,000 of other days to be tested on.
Every answer must be right to the last character. Look at the picture: rows are the characters that were written,
columns the ones that were read, and each row shows where the decoder looked (the attention of all heads and layers,
averaged). Month and day were read somewhere else in the text than they are written: the bright places jump, as in the
picture of Bahdanau et al. (2015, figure 3). Sorting pairs by length, label smoothing and a learning rate that rises and
falls again are what makes it fast.

    python examples/translate_dates.py        writes translate_dates.png; about a minute on two cores
"""

from __future__ import annotations

import datetime
import os

import numpy as np
from matplotlib import pyplot as plt

import tinygrad_tf as tg
from tinygrad_tf.models import Transformer, TransformerConfig
from tinygrad_tf.training import PairConfig, PairTrainer, answers, exact_matches
from tinygrad_tf.utils.data.pairs import PAD, START, PairTokenizer

SMALL = bool(os.environ.get("TINYGRAD_TF_SMALL"))
PAIRS, STEPS = (1000, 120) if SMALL else (10_000, 1200)
FORMATS = (
    "{d} {B} {Y}", "{B} {d}, {Y}", "{b} {d}, {Y}", "{d} {b} {Y}", "{A}, {B} {d}, {Y}", "{a} {d} {b} {Y}",
    "the {th} of {B} {Y}", "{B} {th}, {Y}", "{th} {B} {Y}", "{A} the {th} of {B}, {Y}", "{Y} {B} {d}", "{d} {BIG} {Y}",
    "{dd}.{mm}.{Y}", "{d}.{m}.{Y}", "{dd}.{mm}.{yy}", "{mm}/{dd}/{Y}", "{m}/{d}/{Y}", "{mm}/{dd}/{yy}", "{Y}/{mm}/{dd}",
    "{Y}{mm}{dd}", "{dd}-{b}-{Y}", "{d}-{b}-{yy}", "{A} {d}/{b}/{Y}", "{b}. {d} '{yy}",
)  # fmt: skip
FIRST, LAST = datetime.date(1950, 1, 1), datetime.date(2049, 12, 31)  # so that two digits of a year are enough


def written(day: datetime.date, form: str) -> str:
    """A day in one of the ways of writing."""
    n = day.day
    ending = "th" if 10 < n < 14 else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    month, weekday = f"{day:%B}", f"{day:%A}"
    words = {"B": month, "b": month[:3], "BIG": month.upper(), "A": weekday, "a": weekday[:3], "th": f"{n}{ending}"}
    numbers = {"d": n, "dd": f"{n:02}", "m": day.month, "mm": f"{day.month:02}", "Y": day.year}
    return form.format(**words, **numbers, yy=f"{day.year % 100:02}")


def make_pairs(count: int, seed: int = 0) -> list[tuple[str, str]]:
    """Different days, each written in one of the ways, with their ISO form."""
    random = np.random.default_rng(seed)
    days = random.permutation((LAST - FIRST).days + 1)[:count]
    dates = [FIRST + datetime.timedelta(days=int(i)) for i in days]
    return [(written(day, FORMATS[random.integers(len(FORMATS))]), day.isoformat()) for day in dates]


def make_model(vocabulary: int) -> Transformer:
    tg.manual_seed(0)
    sizes = {"d_model": 64, "num_heads": 4, "d_ff": 256, "encoder_layers": 2, "decoder_layers": 2, "max_len": 64}
    return Transformer(TransformerConfig(vocabulary, **sizes, dropout=0.0, norm_first=True, pad=PAD))


def draw(model: Transformer, tokenizer: PairTokenizer, source: str, target: str) -> np.ndarray:
    """The picture of one translation; gives the averaged weights (T, S)."""
    ids = tg.tensor([tokenizer.encode(source)]), tg.tensor([[START, *tokenizer.encode(target)[:-1]]])
    weights = np.mean([w.numpy()[0] for w in model.cross_attention_weights(*ids)], axis=(0, 1))
    figure, ax = plt.subplots(figsize=(0.32 * len(source) + 1.4, 0.32 * len(target) + 1.2), layout="constrained")
    image = ax.imshow(weights, vmin=0, vmax=1, cmap="viridis")
    ax.set_xticks(range(len(source)), list(source))
    ax.set_yticks(range(len(target)), list(target))
    ax.set(xlabel="key: read", ylabel="query: written")
    figure.colorbar(image, label="attention")
    figure.savefig("translate_dates.png", dpi=120)
    return weights


def main() -> None:
    texts = make_pairs(PAIRS)
    tokenizer = PairTokenizer("".join(a + b for a, b in texts))
    pairs = [(tokenizer.encode(source), tokenizer.encode(target)) for source, target in texts]
    held = PAIRS // 10
    model = make_model(len(tokenizer))
    config = PairConfig(steps=STEPS, batch=64, learning_rate=4e-3, schedule="linear", label_smoothing=0.1)
    print(f"{len(FORMATS)} ways of writing, {PAIRS - held} pairs; {model.num_parameters:,} parameters")
    for record in PairTrainer(config, model, pairs[held:]).train():
        if record.step % (STEPS // 4) == 0:
            right = exact_matches(model, pairs[: min(held, 250)])
            print(f"step {record.step:5d}  loss {record.loss:.3f}  {right:6.1%} right")
    right = exact_matches(model, pairs[:held])
    said = answers(model, [source for source, _ in pairs[:3]])
    for (source, _), answer in zip(texts, said, strict=False):
        print(f"{source!r} -> {tokenizer.decode(answer)!r}")
    print(f"{right:.2%} of {held} unseen days are right to the last character")

    day = datetime.date(1999, 3, 5)
    source = written(day, "{A}, {B} {th}, {Y}")
    weights = draw(model, tokenizer, source, day.isoformat())
    year = source.index("1999")
    on_year = weights[:4, year : year + 4].sum(1).mean()
    print(f"while it writes the year, {on_year:.0%} of its attention is on {source[year : year + 4]!r}")
    if SMALL:
        assert record.loss < 1.6
    else:
        assert right >= 0.99 and on_year > 0.3


if __name__ == "__main__":
    main()

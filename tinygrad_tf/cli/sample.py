"""`tinygrad-tf sample`: text from a trained model, shown as it is written."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from tinygrad_tf.creation import from_numpy
from tinygrad_tf.generation import generate
from tinygrad_tf.training.checkpoint import Run
from tinygrad_tf.training.trainer import build_model
from tinygrad_tf.utils.data import CharTokenizer
from tinygrad_tf.utils.errors import InputError


def sample(
    folder: str, prompt: str, length: int, temperature: float, top_k: int | None, seed: int | None, which: str
) -> int:
    """Print the prompt and `length` characters after it."""
    run = Run.open(folder)
    prompt = prompt or default_prompt(run.tokenizer)
    ids = run.tokenizer.encode(prompt, "--prompt")
    step, weights = run.weights(which)
    model = build_model(run.config, len(run.tokenizer))
    try:
        model.load_state_dict({name: from_numpy(array) for name, array in weights.items()})
    except RuntimeError as error:
        raise InputError(f"{folder}: the weights of step {step} do not fit its config.json: {error}") from None
    if len(ids) > run.config.context:
        notice = f"the model sees only the last {run.config.context} of the prompt's {len(ids)} characters"
        print(f"tinygrad-tf sample: {notice}", file=sys.stderr, flush=True)
    generator = np.random.default_rng(seed)
    _show(prompt.lstrip("\n"))
    last = prompt
    for last in characters(model, run.tokenizer, ids, length, temperature, top_k, generator):
        _show(last)
    if not last.endswith("\n"):
        _show("\n")
    return 0


def characters(
    model: Any,
    tokenizer: CharTokenizer,
    ids: Any,
    length: int,
    temperature: float,
    top_k: int | None,
    generator: np.random.Generator,
) -> Iterator[str]:
    """The generated characters, one by one."""
    for token in generate(model, ids, length, temperature, top_k, generator):
        yield tokenizer.decode([token])


def default_prompt(tokenizer: CharTokenizer) -> str:
    """A line break, as at the start of a line of text; else the vocabulary's first character."""
    return "\n" if "\n" in tokenizer else tokenizer.characters[0]


def _show(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()

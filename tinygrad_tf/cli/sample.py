"""`tinygrad-tf sample`: text from a trained model, shown as it is written."""

from __future__ import annotations

import dataclasses
import re
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinygrad_tf.creation import from_numpy
from tinygrad_tf.generation import ContextNotice, GenerationConfig, beam_search, stream
from tinygrad_tf.training.checkpoint import Run
from tinygrad_tf.training.trainer import build_model
from tinygrad_tf.utils.data import CharTokenizer
from tinygrad_tf.utils.errors import InputError

FLAGS = {"max_new_tokens": "--length", "num_beams": "--beams", "no_repeat_ngram": "--no-repeat"}
DARING = 0.8  # the temperature, unless another is given


@dataclass(frozen=True)
class Request:
    """What the command line asks for. rules: fields of GenerationConfig, those that were named."""

    folder: str
    prompt: str
    rules: Mapping[str, Any]
    stops: Sequence[str] = ()  # the text ends behind any of these
    seed: int | None = None
    which: str = "latest"


def sample(request: Request) -> int:
    """Print the prompt and what the model writes behind it."""
    stops = [_readable(text) for text in request.stops]
    config = _config(request.rules, stops)
    run = Run.open(request.folder)
    stop_ids = [run.tokenizer.encode(stop, "--stop") for stop in stops]
    if config.num_beams > 1:
        config = dataclasses.replace(config, stop_tokens=tuple(int(ids[0]) for ids in stop_ids))
    prompt = request.prompt or default_prompt(run.tokenizer)
    ids = run.tokenizer.encode(prompt, "--prompt")
    model = _model(run, request.which)
    if len(ids) > run.config.context:
        notice = f"the model sees only the last {run.config.context} of the prompt's {len(ids)} characters"
        print(f"tinygrad-tf sample: {notice}", file=sys.stderr, flush=True)
    _show(prompt.lstrip("\n"))
    last = prompt
    if config.num_beams > 1:
        last = _likeliest(model, run.tokenizer, ids, config)
        _show(last)
    else:
        text = ""
        for last in characters(model, run.tokenizer, ids, config, np.random.default_rng(request.seed)):
            _show(last)
            text += last
            if any(text.endswith(stop) for stop in stops):
                break
    if not last.endswith("\n"):
        _show("\n")
    return 0


def characters(
    model: Any, tokenizer: CharTokenizer, ids: Any, config: GenerationConfig, generator: np.random.Generator
) -> Iterator[str]:
    """The generated characters, one by one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ContextNotice)  # long texts outgrow the context, as they must
        tokens = stream(model, ids, config, generator)
    while True:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ContextNotice)
            token = next(tokens, None)
        if token is None:
            return
        yield tokenizer.decode([token])


def default_prompt(tokenizer: CharTokenizer) -> str:
    """A line break, as at the start of a line of text; else the vocabulary's first character."""
    return "\n" if "\n" in tokenizer else tokenizer.characters[0]


def _config(rules: Mapping[str, Any], stops: Sequence[str]) -> GenerationConfig:
    """The rules, checked; errors name the options."""
    given = {name: value for name, value in rules.items() if value is not None}
    beams = given.get("num_beams", 1)
    if beams == 1:
        given.setdefault("temperature", DARING)
    for stop in stops:
        if not stop:
            raise InputError("--stop must be a text of at least one character")
        if beams > 1 and len(stop) > 1:
            raise InputError(f"--stop {stop!r}: with --beams it must be a single character")
    try:
        return GenerationConfig(**given)
    except InputError as error:
        raise InputError(_with_flags(str(error))) from None


def _with_flags(message: str) -> str:
    """An error about fields of GenerationConfig, about options."""
    for field in dataclasses.fields(GenerationConfig):
        flag = FLAGS.get(field.name, "--" + field.name.replace("_", "-"))
        message = re.sub(rf"\b{field.name}=", f"{flag} ", message)
        message = re.sub(rf"(?<!-)\b{field.name}\b", flag, message)
    return re.sub(r"\b(\d+)\.0\b", r"\1", message)  # 2, as it is written on a command line


def _model(run: Run, which: str) -> Any:
    step, weights = run.weights(which)
    model = build_model(run.config, len(run.tokenizer))
    try:
        model.load_state_dict({name: from_numpy(array) for name, array in weights.items()})
    except RuntimeError as error:
        line = (
            f"{run.folder}: the weights of step {step} do not fit its config.json (was it edited? put it back): {error}"
        )
        raise InputError(line) from None
    return model


def _likeliest(model: Any, tokenizer: CharTokenizer, ids: Any, config: GenerationConfig) -> str:
    """The best beam, which is known at its end only."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ContextNotice)
        return tokenizer.decode(beam_search(model, [ids.tolist()], config)[0][0].tokens)


def _readable(text: str) -> str:
    """What a shell passes on as a backslash and a letter."""
    return text.replace("\\n", "\n").replace("\\t", "\t")


def _show(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()

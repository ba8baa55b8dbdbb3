"""From the fields of TrainConfig to command line options, and from mistyped words to the nearest one."""

from __future__ import annotations

import dataclasses
import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any

import typer
import typer.core

from tinygrad_tf.training.config import TrainConfig, flag, kind, parse_number
from tinygrad_tf.utils.errors import InputError

METAVARS = {int: "N", float: "X", str: "TEXT"}

# What nanoGPT calls them; many come with its command lines in mind.
OTHER_NAMES = {
    "n-layer": "layers",
    "n-head": "heads",
    "n-embd": "channels",
    "block-size": "context",
    "batch-size": "batch",
    "max-iters": "steps",
    "lr-decay-iters": "decay-steps",
    "warmup-iters": "warmup-steps",
    "lr": "learning-rate",
    "min-lr": "min-learning-rate",
    "grad-clip": "gradient-clip",
    "eval-iters": "eval-batches",
    "out-dir": "out",
    "max-new-tokens": "length",
    "start": "prompt",
}


class PlainUsage(typer.core.TyperCommand):
    """A command whose usage line says RUN, as all other lines do: newer versions of typer put braces around it."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [piece.strip("{}") for piece in super().collect_usage_pieces(ctx)]


def argument(metavar: str) -> Any:
    """A positional argument. The command's docstring tells what it is: typer would add the Python type to its name."""
    return typer.Argument(metavar=metavar, hidden=True, show_default=False)


def option(text: str, metavar: str, default: str | None = None) -> Any:
    """An option that arrives as text: numbers are read by `parse_number`, whose errors name the option."""
    return typer.Option(help=_help(text, default), metavar=metavar, show_default=False)


def _help(text: str, default: str | None) -> str:
    return f"{text} [default: {default}]" if default is not None else text


def with_settings(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give the command one option for each field of TrainConfig in place of its parameter `settings`."""
    own = [p for p in inspect.signature(command, eval_str=True).parameters.values() if p.name != "settings"]
    fields = [_parameter(field) for field in dataclasses.fields(TrainConfig)]

    def wrapper(**given: Any) -> Any:
        settings = {p.name: given.pop(p.name) for p in fields}
        return command(settings=settings, **given)

    parameters = [*own, *fields]
    wrapper.__name__, wrapper.__doc__ = command.__name__, command.__doc__
    wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {p.name: p.annotation for p in parameters}
    return wrapper


def _parameter(field: dataclasses.Field[Any]) -> inspect.Parameter:
    wanted, text = kind(field.name), field.metadata["help"]
    annotation: Any
    if wanted is bool:
        name, state = flag(field.name), "on" if field.default else "off"
        info = typer.Option(f"{name}/--no-{name[2:]}", help=_help(text, state), show_default=False)
        annotation = Annotated[bool | None, info]
    else:
        default = None if field.default is None else str(field.default) if wanted is str else f"{field.default:g}"
        choices = "|".join(field.metadata["choices"])
        annotation = Annotated[str | None, option(text, choices or METAVARS[wanted], default)]
    return inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def read_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that were named on the command line, numbers as such."""
    return {
        name: parse_number(flag(name), value, kind(name)) if isinstance(value, str) and kind(name) is not str else value
        for name, value in given.items()
        if value is not None
    }


def read_number(name: str, text: str | None, wanted: type, least: float, otherwise: Any = None) -> Any:
    """The number behind an option that is no setting, at least `least`; `otherwise` when it was not given."""
    if text is None:
        return otherwise
    value = parse_number(name, text, wanted)
    if not least <= value < float("inf"):
        finite = " and finite" if value == float("inf") else ""
        raise InputError(f"{name} must be at least {least:g}{finite}, got {text}")
    return value


def nearest(word: str, words: Iterable[str]) -> str:
    """ "; did you mean --dropout?" for the nearest of `words`, or nothing."""
    words = list(words)
    name = word.lstrip("-").replace("_", "-").lower()
    known = f"--{OTHER_NAMES.get(name, '')}"
    if known in words:
        return f"; its name here is {known}"
    found = difflib.get_close_matches(word.replace("_", "-"), words, 1, 0.6)
    begun = [other for other in words if len(name) > 2 and other.startswith(f"--{name}")]
    longer = [other for other in words if len(name) > 1 and name in other]
    likely = begun or found or longer
    return f"; did you mean {likely[0]}?" if likely else ""

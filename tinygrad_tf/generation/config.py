"""GenerationConfig: everything that decides how text goes on, checked when it is made."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from tinygrad_tf._arguments import check_choice
from tinygrad_tf.utils.errors import InputError

CACHES = ("growing", "window", "paged", "none")


@dataclass(frozen=True)
class GenerationConfig:
    """How tokens are chosen. None switches a rule off; a value out of range is an InputError that names it.

    >>> GenerationConfig(top_p=0.9).top_p
    0.9
    >>> GenerationConfig(top_p=1.5)
    Traceback (most recent call last):
    tinygrad_tf.utils.errors.InputError: top_p must be a number from 0 to 1, got 1.5
    """

    max_new_tokens: int = 100  # a text ends here at the latest
    stop_tokens: tuple[int, ...] = ()  # a text ends behind any of these; one id may be given alone
    pad_token: int | None = None  # fills shorter rows behind their end; by default the first stop token, else 0

    # Sampling, in the order in which the rules apply; the prompt counts as text, too
    repetition_penalty: float = 1.0  # above 1, tokens that occurred become less likely
    no_repeat_ngram: int | None = None  # no sequence of so many tokens twice
    temperature: float = 1.0  # 0: always the likeliest token
    top_k: int | None = None  # only the k likeliest tokens
    top_p: float | None = None  # only the likeliest tokens that together reach this probability
    min_p: float | None = None  # only tokens at least so many times as likely as the likeliest

    # Beam search, which looks for the likeliest text instead of drawing one
    num_beams: int = 1
    length_penalty: float = 0.0  # alpha of Wu et al.; 0: plain log-probability, above: longer texts

    # Work
    context: int | None = None  # tokens that the model looks back on; by default as many as its own config says
    cache: str = "growing"  # 'growing', 'window' (with window), 'paged' (with block_size), 'none'
    window: int | None = None  # tokens that a window cache keeps
    block_size: int = 16  # tokens in a block of a paged cache
    prefill_chunk: int | None = None  # the most prompt tokens that go through the model at once

    def __post_init__(self) -> None:
        stop = self.stop_tokens
        try:
            stop = (stop,) if isinstance(stop, Integral) else tuple(stop)
        except TypeError:
            raise InputError(f"stop_tokens must be token ids, got {stop!r}") from None
        for token in stop:
            _whole("stop_tokens", token, 0)
        object.__setattr__(self, "stop_tokens", tuple(int(token) for token in stop))
        _whole("max_new_tokens", self.max_new_tokens, 0)
        for name, least in (
            ("top_k", 1),
            ("no_repeat_ngram", 1),
            ("pad_token", 0),
            ("context", 1),
            ("window", 1),
            ("prefill_chunk", 1),
        ):
            if getattr(self, name) is not None:
                _whole(name, getattr(self, name), least)
        _whole("num_beams", self.num_beams, 1)
        _whole("block_size", self.block_size, 1)
        _number("temperature", self.temperature, "a number from 0 (always the likeliest) upwards", 0.0)
        _number("length_penalty", self.length_penalty, "a number from 0 (plain log-probability) to 100", 0.0, 100.0)
        for name in ("top_p", "min_p"):
            if getattr(self, name) is not None:
                _number(name, getattr(self, name), "a number from 0 to 1", 0.0, 1.0)
        _number("repetition_penalty", self.repetition_penalty, "a number above 0 (1: no penalty)", math.ulp(0.0))
        check_choice("cache", self.cache, CACHES, InputError)
        if (self.cache == "window") != (self.window is not None):
            raise InputError(f"cache='window' and window=... belong together, got {self.cache!r} and {self.window}")
        self._check_beams()

    def _check_beams(self) -> None:
        if self.num_beams == 1:
            if self.length_penalty:
                raise InputError(f"length_penalty={self.length_penalty} compares beams: give num_beams above 1, too")
            return
        defaults = {field.name: field.default for field in dataclasses.fields(self)}
        for name in ("temperature", "top_k", "top_p", "min_p", "repetition_penalty"):
            if getattr(self, name) != defaults[name]:
                raise InputError(
                    f"num_beams={self.num_beams} looks for the likeliest text and draws nothing: leave out {name}"
                )

    @property
    def padding(self) -> int:
        """The token that stands behind the end of a row."""
        if self.pad_token is not None:
            return int(self.pad_token)
        return self.stop_tokens[0] if self.stop_tokens else 0


def _whole(name: str, value: Any, least: int) -> None:
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise InputError(f"{name} must be a whole number, got {value!r}")
    if value < least:
        raise InputError(f"{name} must be at least {least}, got {value}")


def _number(name: str, value: Any, wanted: str, least: float, most: float = math.inf) -> None:
    if not isinstance(value, Real) or isinstance(value, bool) or not least <= float(value) <= most or value == math.inf:
        raise InputError(f"{name} must be {wanted}, got {value!r}")

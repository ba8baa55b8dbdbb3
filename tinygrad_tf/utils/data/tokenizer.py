"""Characters as token ids."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tinygrad_tf.utils.errors import InputError

FORMAT = 1
NOT_A_TOKEN = -1


class CharTokenizer:
    """One token per character: the ids 0 ... V-1 are the characters in sorted order (by code point).

    >>> tokenizer = CharTokenizer("hello")
    >>> tokenizer.characters
    'ehlo'
    >>> tokenizer.encode("hole")
    array([1, 3, 2, 0])
    >>> tokenizer.decode([1, 3, 2, 0])
    'hole'
    """

    def __init__(self, text: str):
        """The vocabulary is the set of characters of `text`; an empty text is an InputError."""
        found = _code_points(text)
        if not found.size:
            raise InputError("a vocabulary needs at least one character, got an empty text")
        occurs = np.zeros(int(found.max()) + 1, np.bool_)
        occurs[found] = True  # in a tenth of the time that sorting takes
        points = np.flatnonzero(occurs).astype(np.uint32)
        self._points = points
        self.characters: str = _text(points)

    @property
    def vocabulary_size(self) -> int:
        return len(self.characters)

    def __len__(self) -> int:
        return len(self.characters)

    def __contains__(self, character: object) -> bool:
        return isinstance(character, str) and len(character) == 1 and character in self.characters

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CharTokenizer) and self.characters == other.characters

    def __hash__(self) -> int:
        return hash(self.characters)

    def __repr__(self) -> str:
        return f"CharTokenizer({self.characters!r})"

    def encode(self, text: str, name: str = "the text") -> NDArray[np.int64]:
        """The ids of `text`, shape (len(text),), int64.

        A character that the vocabulary lacks is an InputError that names it and its place; `name` says in it what
        `text` is.
        """
        ids = self._ids(_code_points(text))
        unknown = np.flatnonzero(ids == NOT_A_TOKEN)
        if unknown.size:
            raise InputError(self._unknown(text, int(unknown[0]), name))
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        """The text of `ids`; an id outside 0 ... V-1 is an InputError."""
        try:
            array = np.asarray(ids if isinstance(ids, np.ndarray) else list(ids))
        except TypeError:
            raise InputError(f"decode: token ids must be a sequence of integers, got {ids!r}") from None
        if array.size and array.dtype.kind not in "iu":
            raise InputError(f"decode: token ids must be integers, got {array.dtype}")
        array = array.astype(np.int64).ravel()
        wrong = array[(array < 0) | (array >= len(self.characters))]
        if wrong.size:
            raise InputError(f"decode: token id {wrong[0]} is outside the vocabulary, 0 to {len(self.characters) - 1}")
        return _text(self._points[array])

    def state(self) -> dict[str, Any]:
        """What is saved: a dict for JSON with a format version."""
        return {"format": FORMAT, "kind": "characters", "characters": self.characters}

    @classmethod
    def from_state(cls, state: Any, name: str = "tokenizer") -> CharTokenizer:
        """The inverse of `state`; anything else is an InputError that names its place, `name`."""
        if not isinstance(state, dict) or state.get("kind") != "characters":
            raise InputError(f"{name}: not a character tokenizer")
        if state.get("format") != FORMAT:
            raise InputError(f"{name}: format {state.get('format')!r} is not known here, only {FORMAT}")
        characters = state.get("characters")
        if not isinstance(characters, str) or not characters or list(characters) != sorted(set(characters)):
            raise InputError(f"{name}: 'characters' must be different characters in sorted order")
        return cls(characters)

    def save(self, path: Any) -> None:
        """Write the vocabulary as JSON."""
        with open(path, "w", encoding="utf-8") as file:
            json.dump(self.state(), file, ensure_ascii=True)

    @classmethod
    def load(cls, path: Any) -> CharTokenizer:
        """Read what `save` wrote; an InputError names the file and what is wrong with it."""
        try:
            with open(path, encoding="utf-8") as file:
                return cls.from_state(json.load(file), str(path))
        except OSError as error:
            raise InputError(f"{path}: {error.strerror or error}") from error
        except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
            raise InputError(f"{path}: not JSON ({error})") from error

    def _ids(self, points: NDArray[np.uint32]) -> NDArray[np.int64]:
        """A table from code point to id; anything above its end is unknown."""
        table = np.full(int(self._points[-1]) + 2, NOT_A_TOKEN, np.int64)
        table[self._points] = np.arange(len(self._points))
        return table[np.minimum(points, len(table) - 1)]

    def _unknown(self, text: str, position: int, name: str) -> str:
        character = text[position]
        line, column = text.count("\n", 0, position) + 1, position - text.rfind("\n", 0, position)
        place = f"character {position + 1}" if line == 1 else f"line {line}, column {column}"
        return (
            f"{name}: {character!r} (U+{ord(character):04X}, at {place}) is not among the {len(self)} characters of "
            f"the vocabulary, {_shown(self.characters)}; leave it out, or train on a text that has it"
        )


def _shown(characters: str, most: int = 60) -> str:
    return repr(characters) if len(characters) <= most else repr(characters[:most]) + " ..."


def _code_points(text: str) -> NDArray[np.uint32]:
    if not isinstance(text, str):
        raise InputError(f"a text must be a str, got {type(text).__name__}")
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)


def _text(points: NDArray[Any]) -> str:
    return points.astype("<u4").tobytes().decode("utf-32-le", "surrogatepass")

"""Reading texts: the user's files, or the Python standard library's own source."""

from __future__ import annotations

import codecs
import os
import sys
import sysconfig
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tinygrad_tf.utils.errors import InputError

# The default text stops here: it is more than the default run sees (2,000 steps of 12 * 64 characters), and reading it
# takes a tenth of a second.
DEFAULT_CHARACTERS = 3_000_000
BEGINNING = 1 << 16  # bytes in which an encoding is looked for
MARKS = {b"\xff\xfe\0\0": "utf-32", b"\0\0\xfe\xff": "utf-32", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
BREAKS = "\n \u3000\u3001\u3002\uff0c"  # line end, space; the space, commas and full stop of Chinese and Japanese
NO_TEXT = ("Cc", "Cn", "Co", "Cs")  # control characters, unassigned ones, those of private use, halves of pairs
NAMED = 3  # files that the source of a text names; there may be thousands


@dataclass(frozen=True)
class Text:
    """A text and where it comes from."""

    content: str
    source: str  # in words, for people
    files: int

    @property
    def characters(self) -> int:
        return len(self.content)


def read_text(path: str | os.PathLike[str], encoding: str = "utf-8") -> str:
    """The text of one file ("-": standard input), decoded as UTF-8 whatever the locale; line ends become a line feed.

    A file that is missing, a directory, empty or not in that encoding is an InputError; it gives the byte offset. So is
    UTF-16 or UTF-32 without a byte-order mark, which is UTF-8, too, with a NUL beside every letter.
    """
    name = _named(path)
    if not name:
        raise InputError("'': no such file")
    try:
        data = sys.stdin.buffer.read() if str(path) == "-" else Path(path).read_bytes()
    except FileNotFoundError:
        raise InputError(f"{name}: no such file") from None
    except IsADirectoryError:
        raise InputError(f"{name}: is a directory; name the text files in it") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{name}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if not data:
        raise InputError(f"{name}: is empty")
    text = _decode(data, name, encoding).replace("\r\n", "\n").replace("\r", "\n")
    if not text:
        raise InputError(f"{name}: is empty but for a byte-order mark")
    return text


def _decode(data: bytes, name: str, encoding: str) -> str:
    try:
        text = data.decode(encoding).removeprefix("\ufeff")
    except UnicodeError as error:
        offset = error.start if isinstance(error, UnicodeDecodeError) else 0
        guess = next((name for mark, name in MARKS.items() if data.startswith(mark)), "") or _several(data[:BEGINNING])
        raise InputError(
            f"{name}: is not {encoding.upper()} text: byte 0x{data[offset]:02x} at offset {offset}; save it as UTF-8, "
            f"or say what it is with --encoding (for example --encoding {guess or 'latin-1'})"
        ) from None
    except (LookupError, ValueError):  # ValueError: a NUL in the name
        raise InputError(f"--encoding {encoding!r} is not known to Python; utf-8, latin-1 and cp1252 are") from None
    if "\0" in text and encoding.lower() in ("utf-8", "utf8") and (guess := _wide(data[:BEGINNING])):
        raise InputError(
            f"{name}: looks like {guess.upper()} without a byte-order mark: as UTF-8 it has NULs between its letters; "
            f"say --encoding {guess}, or save it as UTF-8 (--encoding latin-1 takes the NULs as they are)"
        )
    return text


def _wide(data: bytes) -> str:
    """The encoding of several bytes a character that control bytes at one place of all characters tell, or nothing.

    The upper byte is NUL in Latin letters, spaces and line ends, 4 in Cyrillic ones, and so on: never what UTF-8 has
    there. NULs here and there, as in logs or between names, tell nothing.
    """
    upper = [
        len(part) and sum(byte < 32 and byte not in b"\t\n\r" for byte in part) / len(part) for part in _fourths(data)
    ]
    nuls = [part.count(0) for part in _fourths(data)]
    for encoding, places in (
        ("utf-32-le", (1, 2, 3)),
        ("utf-32-be", (0, 1, 2)),
        ("utf-16-le", (1, 3)),
        ("utf-16-be", (0, 2)),
    ):
        others = set(range(4)) - set(places)
        if min(upper[i] for i in places) > 0.9 and sum(nuls[i] for i in places) > max(
            1, 20 * sum(nuls[i] for i in others)
        ):
            return encoding
    return ""


def _several(data: bytes) -> str:
    """The encoding of two or four bytes a character in which all of the bytes are text, or nothing.

    Text it is if every character is assigned, none is a control character, and one of the breaks between words occurs:
    half of such a break is a control byte, as it stands in no text of one byte a character.
    """
    for encoding in ("utf-32-le", "utf-32-be", "utf-16-le", "utf-16-be"):
        try:
            text = codecs.getincrementaldecoder(encoding)().decode(data)  # the last character may be cut off
        except UnicodeError:
            continue
        if any(mark in text for mark in BREAKS) and all(
            letter in "\t\n\r" or unicodedata.category(letter) not in NO_TEXT for letter in text
        ):
            return encoding
    return ""


def _fourths(data: bytes) -> list[bytes]:
    return [data[i::4] for i in range(4)]


def read_texts(paths: Sequence[str | os.PathLike[str]], encoding: str = "utf-8") -> Text:
    """Several files joined in the given order, each on a new line; the errors are those of `read_text`."""
    if not paths:
        raise InputError("no text file was named")
    parts = [read_text(path, encoding) for path in paths]
    joined = [part if part.endswith("\n") else part + "\n" for part in parts[:-1]] + parts[-1:]
    return Text("".join(joined), _source(paths), len(parts))


def _source(paths: Sequence[str | os.PathLike[str]]) -> str:
    names = [_named(path) for path in paths]
    return ", ".join(names) if len(names) <= NAMED else ", ".join([*names[:NAMED], "..."])


def _named(path: str | os.PathLike[str]) -> str:
    return "standard input" if str(path) == "-" else str(path)


def standard_library_text(folder: str | os.PathLike[str] | None = None, characters: int = DEFAULT_CHARACTERS) -> Text:
    """The modules of Python's own standard library on this machine, by name, up to `characters` characters.

    Files that are not plain ASCII are left out, so that the vocabulary has about a hundred symbols. The same Python
    gives the same text each time. Without sources (a frozen or zipped Python) it is an InputError.
    """
    root = Path(folder if folder is not None else sysconfig.get_path("stdlib"))
    parts: list[str] = []
    room = characters
    for path in sorted(root.glob("*.py")):
        content = _plain(path)
        if content and len(content) <= room:
            parts.append(content)
            room -= len(content)
    if not parts:
        raise InputError(f"the source of Python's standard library is not at {root}; name a text file: train FILE")
    return Text("".join(parts), f"Python's standard library, {root}", len(parts))


def _plain(path: Path) -> str | None:
    try:
        data = path.read_bytes()
    except OSError:
        return None
    if not data.isascii():
        return None
    content = data.decode("ascii").replace("\r\n", "\n")
    return content if content.endswith("\n") or not content else content + "\n"

"""Texts, the character tokenizer, token files and windows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tinygrad_tf.utils.data import (
    CharTokenizer,
    load_tokens,
    random_windows,
    read_text,
    read_texts,
    save_tokens,
    split_tokens,
    standard_library_text,
    token_dtype,
    validation_batches,
)
from tinygrad_tf.utils.errors import InputError

UNUSUAL = "né “quoted” 漢字 \U0001f600\t\n\x00é"


def test_tokenizer_is_sorted_and_inverts_itself():
    tokenizer = CharTokenizer(UNUSUAL)
    assert tokenizer.characters == "".join(sorted(set(UNUSUAL)))
    ids = tokenizer.encode(UNUSUAL)
    assert ids.dtype == np.int64 and [tokenizer.characters[i] for i in ids] == list(UNUSUAL)
    assert tokenizer.decode(ids) == UNUSUAL == tokenizer.decode(ids.tolist())
    assert tokenizer.encode("").shape == (0,) and tokenizer.decode([]) == ""
    assert all(character in tokenizer for character in UNUSUAL)
    assert UNUSUAL[:2] not in tokenizer and "" not in tokenizer and 0 not in tokenizer


def test_unknown_character_is_named_with_its_place():
    tokenizer = CharTokenizer("abc\n")
    with pytest.raises(InputError, match=r"prompt: 'd' \(U\+0064, at character 3\).* 4 characters"):
        tokenizer.encode("abd", "prompt")
    with pytest.raises(InputError, match=r"line 2, column 2\)"):
        tokenizer.encode("abc\nbé")
    with pytest.raises(InputError):  # between two known characters, and below the first
        tokenizer.encode("\t")
    with pytest.raises(InputError, match="outside the vocabulary, 0 to 3"):
        tokenizer.decode([0, -1])
    with pytest.raises(InputError, match="id 4"):
        tokenizer.decode([4])
    with pytest.raises(InputError, match="empty"):
        CharTokenizer("")


def test_tokenizer_file(tmp_path):
    path = tmp_path / "tokenizer.json"
    CharTokenizer(UNUSUAL).save(path)
    assert CharTokenizer.load(path) == CharTokenizer(UNUSUAL)
    assert '"format": 1' in path.read_text("ascii")
    for broken in ("", "{}", "[1]", '{"format": 2, "kind": "characters", "characters": "ab"}'):
        path.write_text(broken)
        with pytest.raises(InputError, match=r"tokenizer\.json"):
            CharTokenizer.load(path)
    for characters in ('"ba"', '"aa"', '""', "3"):
        path.write_text(f'{{"format": 1, "kind": "characters", "characters": {characters}}}')
        with pytest.raises(InputError, match="sorted order"):
            CharTokenizer.load(path)
    with pytest.raises(InputError, match="No such file"):
        CharTokenizer.load(tmp_path / "none")


def test_text_files_are_utf8_with_plain_line_ends(tmp_path):
    first, second = tmp_path / "a.txt", tmp_path / "b.txt"
    first.write_bytes("\ufeffé\r\n漢\r.".encode())
    second.write_bytes(b"end\n")
    assert read_text(first) == "é\n漢\n."
    text = read_texts([first, second])
    assert text.content == "é\n漢\n.\nend\n" and (text.files, text.characters) == (2, 10)
    first.write_bytes("café".encode("latin-1"))
    assert read_text(first, "latin-1") == "café"


@pytest.mark.parametrize("text", ["Two lines\nof text.\n", "ab", "Привет, мир!\nИ ещё строка."])
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_wide_characters_without_a_mark_are_not_taken_for_text_with_nuls(
    tmp_path: Path, text: str, encoding: str
) -> None:
    path = tmp_path / "wide.txt"
    path.write_bytes(text.encode(encoding))
    with pytest.raises(InputError, match=f"wide.txt: looks like {encoding.upper()} .*--encoding {encoding}"):
        read_text(path)
    assert read_text(path, encoding) == text
    assert "\0" in read_text(path, "latin-1")


@pytest.mark.parametrize(
    "text", ["日本語の文章です。" * 9, "中文，今天\n" * 9, "안녕하세요 오늘은 날씨가" * 9, "𠀀語\n" * 40_000]
)
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_chinese_and_the_like_in_wide_characters_without_a_mark_is_told(
    tmp_path: Path, text: str, encoding: str
) -> None:
    path = tmp_path / "wide.txt"
    path.write_bytes(text.encode(encoding))
    with pytest.raises(InputError, match=f"is not UTF-8 .*for example --encoding {encoding}"):
        read_text(path)


@pytest.mark.parametrize("encoding", ["shift_jis", "euc_jp", "gb18030"])
def test_other_encodings_of_chinese_and_the_like_are_not_taken_for_wide_characters(
    tmp_path: Path, encoding: str
) -> None:
    path = tmp_path / "other.txt"
    path.write_bytes("日本語の文章です。\n天気、今日\n".encode(encoding))
    with pytest.raises(InputError, match="for example --encoding latin-1"):
        read_text(path)


def test_of_many_files_the_first_are_named(tmp_path: Path) -> None:
    paths = [tmp_path / f"{i}.txt" for i in range(9)]
    for path in paths:
        path.write_text("a")
    text = read_texts(paths)
    assert text.source == f"{paths[0]}, {paths[1]}, {paths[2]}, ..." and text.files == 9


@pytest.mark.parametrize("text", ["a/b\0c/d/e\0fg\0" * 9, "a line\0\n" * 9, "a\0", "\0", "a\0\0b", "ü\0é" * 5])
def test_texts_with_a_nul_here_and_there_are_read(tmp_path: Path, text: str) -> None:
    path = tmp_path / "log.txt"
    path.write_bytes(text.encode())
    assert read_text(path) == text


@pytest.mark.parametrize(
    "content, message",
    [
        (b"", "is empty"),
        (b"\xef\xbb\xbf", "is empty"),
        (b"caf\xe9 ol\xe9", "0xe9 at offset 3"),
        (b"\xff\xfea", "utf-16"),
    ],
)
def test_unusable_text_files(tmp_path, content, message):
    path = tmp_path / "text.txt"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as error:
        read_text(path)
    assert "text.txt" in str(error.value) and "\n" not in str(error.value)


def test_missing_files_and_directories(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_text(tmp_path / "none")
    with pytest.raises(InputError, match="is a directory"):
        read_text(tmp_path)
    with pytest.raises(InputError, match="'latin-99' is not known"):
        (tmp_path / "a").write_text("a")
        read_text(tmp_path / "a", "latin-99")


def test_standard_library_text(tmp_path):
    text = standard_library_text(characters=200_000)
    assert 150_000 < text.characters <= 200_000 and text.content.isascii() and text.files > 3
    assert text == standard_library_text(characters=200_000)
    with pytest.raises(InputError, match="train FILE"):
        standard_library_text(tmp_path)
    (tmp_path / "b.py").write_text("b = 1")
    (tmp_path / "a.py").write_text("a = 1\n")
    (tmp_path / "c.py").write_bytes("é = 1\n".encode())
    assert standard_library_text(tmp_path).content == "a = 1\nb = 1\n"


@pytest.mark.parametrize("size, dtype", [(256, np.uint8), (257, np.uint16), (65536, np.uint16), (65537, np.uint32)])
def test_token_files_are_small_and_mapped(tmp_path, size, dtype):
    path = tmp_path / "tokens.npy"
    save_tokens(path, np.array([0, size - 1, 3]), size)
    tokens = load_tokens(path, size)
    assert tokens.dtype == dtype == token_dtype(size) and tokens.tolist() == [0, size - 1, 3]
    assert isinstance(tokens, np.memmap) and not tokens.flags.writeable
    with pytest.raises(InputError, match="vocabulary"):
        load_tokens(path, size - 1)


def test_broken_token_files(tmp_path):
    path = tmp_path / "tokens.npy"
    with pytest.raises(InputError, match="no such file"):
        load_tokens(path, 5)
    save_tokens(path, np.arange(5), 5)
    whole = path.read_bytes()
    for broken in (b"", b"garbage", whole[:-2], whole[:20]):
        path.write_bytes(broken)
        with pytest.raises(InputError, match="not a token file"):
            load_tokens(path, 5)
    np.save(path, np.zeros((2, 2), np.uint8))
    with pytest.raises(InputError, match="not a token file"):
        load_tokens(path, 5)


def test_split_takes_the_last_tenth_and_checks_both_lengths():
    train, validation = split_tokens(np.arange(1005), 64, 0.1)
    assert len(train) == 905 and validation[0] == 905 and len(validation) == 100
    with pytest.raises(InputError, match=r"validation split has 10 characters of 100, needs at least 65"):
        split_tokens(np.arange(100), 64)
    with pytest.raises(InputError, match=r"training split has 10 .* smaller --validation-fraction"):
        split_tokens(np.arange(100), 64, 0.9)
    assert len(split_tokens(np.arange(650), 64)[1]) == 65
    with pytest.raises(InputError):
        split_tokens(np.arange(640), 64)
    for fraction in (0.0, 1.0, -0.1, float("nan")):
        with pytest.raises(InputError, match="between 0 and 1"):
            split_tokens(np.arange(1000), 4, fraction)


def test_random_windows_reach_both_ends_and_follow_the_generator():
    tokens = np.arange(6, dtype=np.uint8)
    x, y = random_windows(tokens, 200, 4, np.random.default_rng(1))
    assert x.shape == y.shape == (200, 4) and x.dtype == y.dtype == np.int64
    assert (y == x + 1).all() and (np.diff(x) == 1).all()
    assert set(x[:, 0]) == {0, 1}  # the last window ends at the last token
    again, _ = random_windows(tokens, 200, 4, np.random.default_rng(1))
    assert (again == x).all()
    assert (random_windows(np.arange(5), 3, 4, np.random.default_rng(0))[0] == [0, 1, 2, 3]).all()


@pytest.mark.parametrize("length", [5, 6, 8, 9, 10, 37, 41])
def test_validation_batches_meet_every_target_once(length):
    targets = np.concatenate([y.ravel() for _, y in validation_batches(np.arange(length), 3, 4)])
    assert sorted(targets) == list(range(1, length))
    for x, y in validation_batches(np.arange(length), 3, 4):
        assert (y == x + 1).all() and len(x) <= 3


def test_some_validation_batches_are_spread_evenly():
    batches = list(validation_batches(np.arange(1001), 2, 10, windows=7))
    starts = np.concatenate([x[:, 0] for x, _ in batches])
    assert (
        [len(x) for x, _ in batches] == [2, 2, 2, 1] and len(set(starts)) == 7 and starts[0] == 0 and starts[-1] == 990
    )
    assert len(list(validation_batches(np.arange(41), 3, 4, windows=100))) == 4  # fewer than asked for: all of them


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: CharTokenizer(["a"]), "a text must be a str, got list"),
        (lambda: CharTokenizer("ab").encode(None), "a text must be a str, got NoneType"),
        (lambda: CharTokenizer("ab").decode(3), "token ids must be a sequence of integers, got 3"),
        (lambda: random_windows(np.arange(8), 2, 8, np.random.default_rng(0)), "context . 1 = 9 tokens, got 8"),
        (
            lambda: random_windows(np.arange(9), -1, 8, np.random.default_rng(0)),
            "batch must be an integer above 0, got -1",
        ),
        (lambda: list(validation_batches(np.arange(9), 1, 0)), "context must be an integer above 0, got 0"),
    ],
)
def test_what_is_no_text_and_no_size_is_told(call, words):
    with pytest.raises(InputError, match=words):
        call()


def test_nested_beyond_any_sense_is_broken(tmp_path):
    from tinygrad_tf.training.files import read_json

    (tmp_path / "deep.json").write_text("[" * 100_000)
    for read in (read_json, CharTokenizer.load):
        with pytest.raises(InputError, match=r"deep\.json: .*not JSON"):
            read(tmp_path / "deep.json")


def test_windows_of_a_list():
    inputs, targets = random_windows(list(range(50)), 3, 4, np.random.default_rng(0))
    assert (targets == inputs + 1).all() and inputs.shape == (3, 4)

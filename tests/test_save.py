"""save and load: what comes back is what was saved; nothing is unpickled; errors name the file and the remedy."""

from __future__ import annotations

import argparse
import contextlib
import io
import math
import pickle
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinygrad_tf as tg
from tinygrad_tf import nn
from tinygrad_tf.utils.errors import InputError


def there_and_back(obj: Any) -> Any:
    file = io.BytesIO()
    tg.save(obj, file)
    file.seek(0)
    return tg.load(file)


@pytest.mark.parametrize(
    "obj",
    [
        None, True, 7, 10**30, -1.5, math.inf, "text \N{SNOWMAN}", b"\x00\xff", [], {}, (), [1, [2.0, (3, "x")]],
        {1: "a", "b": {2.5: None}, (1, 2): [3]}, {"nested": [{"deep": (1,)}] * 2}, {1, 2}, tg.float32, tg.bfloat16,
        tg.device("cpu"), argparse.Namespace(lr=0.1, names=["a"]), OrderedDict([("z", 1), ("a", 2)]), tg.Size([2, 3]),
        {"tensor": "x"}, {"dict": [1]},
    ],
    ids=repr,
)  # fmt: skip
def test_plain_values_come_back(obj: Any) -> None:
    again = there_and_back(obj)
    assert again == obj and type(again) is type(obj)


def test_not_a_number_comes_back() -> None:
    assert math.isnan(there_and_back([math.nan])[0])
    value = there_and_back(np.float32(1.5))
    assert value == 1.5 and type(value) is np.float32
    np.testing.assert_array_equal(there_and_back(np.arange(3)), np.arange(3))


BASE = np.arange(24.0).reshape(4, 6)


@pytest.mark.parametrize(
    "array",
    [BASE.T, BASE[:, ::2], BASE[::-1], np.asfortranarray(BASE), np.broadcast_to(BASE[0], (3, 6)), BASE.astype(">f8"),
     BASE[0, 0], np.zeros((0, 3)), BASE > 3, BASE.astype(np.uint8), BASE.astype(np.float16)],
)  # fmt: skip
def test_data_order_not_memory_order(array: np.ndarray, tmp_path: Path) -> None:
    saved = tg.from_numpy(np.asarray(array)) if array.dtype.isnative else array
    tg.save({"x": saved}, tmp_path / "x.pt")
    again = np.asarray(tg.load(tmp_path / "x.pt")["x"])
    np.testing.assert_array_equal(again, array)
    assert again.dtype == array.dtype.newbyteorder("=") and again.flags.writeable


def test_tensors_keep_dtype_and_kind() -> None:
    tensors = [tg.ones(2, dtype=d) for d in (tg.bfloat16, tg.float16, tg.int8, tg.bool, tg.uint64)]
    for got, want in zip(there_and_back(tensors), tensors, strict=True):
        assert got.dtype == want.dtype and got.tolist() == want.tolist()
    parameter, wanted, plain = there_and_back([nn.Parameter(tg.ones(2)), tg.ones(2, requires_grad=True), tg.ones(2)])
    assert type(parameter) is nn.Parameter and parameter.requires_grad
    assert type(wanted) is type(plain) is tg.Tensor and wanted.requires_grad and not plain.requires_grad


def test_tied_weights_are_stored_once_and_names_never_collide() -> None:
    t = tg.ones(100, 100)
    file = io.BytesIO()
    tg.save({"a": t, "b": t, "view": t.t()}, file)
    assert len(file.getvalue()) < 2.1 * t.array.nbytes
    again = there_and_back({"a.b": tg.zeros(1), "a": {"b": tg.ones(1)}})
    assert again["a.b"].item() == 0.0 and again["a"]["b"].item() == 1.0


def test_other_tools_read_the_tensors_and_we_read_theirs(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.numpy")
    model = nn.Linear(3, 2)
    tg.save(model.state_dict(), tmp_path / "ours.safetensors")
    theirs = safetensors.load_file(tmp_path / "ours.safetensors")
    np.testing.assert_array_equal(theirs["weight"], model.weight.array)
    safetensors.save_file({"w": BASE}, tmp_path / "theirs.safetensors")
    np.testing.assert_array_equal(tg.load(tmp_path / "theirs.safetensors")["w"].numpy(), BASE)


@pytest.mark.parametrize(
    ("obj", "words"),
    [
        (nn.Linear(1, 1), "the object is a Linear.*state_dict"),
        ({"model": {"f": print}}, r"model\.f is a builtin"),
        ([1, 2j], r"1 is a complex"),
        ({"x": tg.ones(1).array.astype("complex64")}, "x has dtype complex64"),
    ],
)
def test_what_cannot_be_saved_is_named(obj: Any, words: str, tmp_path: Path) -> None:
    tg.save({"good": 1}, tmp_path / "x.pt")
    with pytest.raises(TypeError, match=words):
        tg.save(obj, tmp_path / "x.pt")
    assert tg.load(tmp_path / "x.pt") == {"good": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["x.pt"]  # no part of a file left over


def test_an_object_that_contains_itself() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(ValueError, match="contains itself"):
        tg.save(loop, io.BytesIO())


class Bomb:
    def __reduce__(self) -> Any:
        return pytest.fail, ("unpickled",)


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    path = tmp_path / "bomb.pt"
    path.write_bytes(pickle.dumps(Bomb()))
    for weights_only in (True, False):
        with pytest.raises(InputError, match="run any code"):
            tg.load(path, weights_only=weights_only)


def test_broken_and_missing_files(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nowhere\.pt: no such file"):
        tg.load(tmp_path / "nowhere.pt")
    with pytest.raises(InputError, match="cannot be read"):
        tg.load(tmp_path)
    with pytest.raises(InputError, match="cannot be written"):
        tg.save(1, tmp_path / "no" / "folder.pt")
    tg.save({"x": tg.ones(4), "y": [1, {"z": (2,)}]}, tmp_path / "x.pt")
    whole = (tmp_path / "x.pt").read_bytes()
    rng = np.random.default_rng(0)
    for trial in range(200):
        data = bytearray(whole)
        if trial % 2:
            data = data[: rng.integers(len(data))]
        else:
            data[rng.integers(len(data) - 16)] = rng.integers(256)
        with contextlib.suppress(InputError):  # it may still be a right file, with other content
            tg.load(io.BytesIO(bytes(data)))


def test_wrong_device_is_told() -> None:
    file = io.BytesIO()
    tg.save(1, file)
    file.seek(0)
    with pytest.raises(RuntimeError, match="CPU alone"):
        tg.load(file, map_location="cuda")
    assert tg.load(file, map_location=lambda storage, location: storage) == 1

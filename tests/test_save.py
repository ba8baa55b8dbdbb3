"""save and load: what comes back is what was saved; nothing is unpickled; errors name the file and the remedy."""

from __future__ import annotations

import argparse
import contextlib
import copy
import io
import json
import math
import os
import pickle
import random
import zipfile
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


def rotations(length: int) -> nn.Module:
    """A module as LLaMA's code has it: the rotations of the positions are a complex buffer."""
    module = nn.Linear(2, 2)
    module.register_buffer("freqs_cis", tg.polar(tg.ones(length, 2), tg.randn(length, 2)))
    return module


@pytest.mark.parametrize("assign", [False, True])
def test_a_complex_buffer_is_saved_and_loaded(assign: bool) -> None:
    first, second = rotations(3), rotations(3)
    file = io.BytesIO()
    tg.save(first.state_dict(), file)
    file.seek(0)
    state = tg.load(file)
    assert list(state) == ["weight", "bias", "freqs_cis"] and state["freqs_cis"].dtype == tg.complex64
    second.load_state_dict(state, assign=assign)
    assert second.freqs_cis.numpy().tolist() == first.freqs_cis.numpy().tolist()
    assert first.double().freqs_cis.dtype == tg.complex64  # rotations keep their dtype
    twin = copy.deepcopy(first)
    twin.freqs_cis.copy_(tg.ones(3, 2))
    assert twin.freqs_cis.numpy().tolist() == [[1, 1]] * 3 != first.freqs_cis.numpy().tolist()
    with pytest.raises(RuntimeError, match=r"freqs_cis must have the shape \(4, 2\), got \(3, 2\)"):
        rotations(4).load_state_dict(state)
    with pytest.raises(RuntimeError, match="freqs_cis must be a ComplexTensor, got Tensor"):
        second.load_state_dict({**state, "freqs_cis": tg.ones(3, 2)})
    with pytest.raises(RuntimeError, match="weight must be a Tensor, got ComplexTensor"):
        second.load_state_dict({**state, "weight": tg.polar(tg.ones(2, 2), tg.ones(2, 2))})


# --- files of PyTorch's torch.save ------------------------------------------------------------------------------------

PROGRAM = b"""(dVw
ctorch._utils
_rebuild_tensor_v2
((Vstorage
ctorch
FloatStorage
V0
Vcpu
I6
tQI1
(I2
I2
t(I1
I2
tI01
ccollections
OrderedDict
(tRtRsVargs
cargparse
Namespace
(tR(dVlr
F0.5
sbsVkind
ctorch
bfloat16
s."""  # {"w": a view of storage 0, "args": Namespace(lr=0.5), "kind": torch.bfloat16}, in pickle's protocol 0


def torch_zip(program: bytes, byteorder: bytes = b"little", **storages: bytes) -> io.BytesIO:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", program)
        archive.writestr("archive/byteorder", byteorder)
        for name, content in storages.items():
            archive.writestr(f"archive/data/{name[1:]}", content)
    file.seek(0)
    return file


def test_a_file_of_torch_save_is_read_without_pytorch() -> None:
    got = tg.load(torch_zip(PROGRAM, _0=np.arange(6, dtype=np.float32).tobytes()))
    assert got["w"].tolist() == [[1.0, 3.0], [2.0, 4.0]] and got["w"].requires_grad
    assert got["args"] == argparse.Namespace(lr=0.5) and got["kind"] is tg.bfloat16
    other = tg.load(torch_zip(PROGRAM, b"big", _0=np.arange(6, dtype=">f4").tobytes()))  # of another machine
    assert other["w"].tolist() == got["w"].tolist()


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (PROGRAM.replace(b"I6\ntQI1", b"I6\ntQI3"), r"of shape \(2, 2\) reaches behind its storage of 6 elements"),
        (PROGRAM.replace(b"I6\ntQI1", b"I6\ntQI-1"), "is a broken file of torch.save"),
        (PROGRAM.replace(b"V0\nVcpu", b"V1\nVcpu"), "is a broken file of torch.save .KeyError: 'data/1'"),
        (PROGRAM[:-1], "is a broken file of torch.save"),
        (PROGRAM.replace(b"FloatS", b"QInt8S"), "holds a torch.QInt8Storage, which is not plain data"),
        (b"cos\nsystem\n(Vfalse\ntR.", "holds a os.system, which is not plain data, and loading it could run any code"),
        (b"c__builtin__\neval\n(V1\ntR.", "holds a __builtin__.eval, which is not plain data"),
        (b"(i__builtin__\neval\n.", "holds the instruction INST, which is not plain data"),
        (b"Vx\n(V1\ntR.", "holds a call of what is no name"),
        (b"cnumpy\ndtype\n(VO8\ntR.", "holds a NumPy dtype 'O8'"),  # whose bytes would be taken for addresses
        (b"(lVx\nb.", "holds a list with attributes"),
    ],
)
def test_what_a_file_of_torch_save_may_not_hold(program: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        tg.load(torch_zip(program, _0=bytes(24)))
    assert "\n" not in str(error.value)


def test_other_archives_and_pickles_are_told_apart(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", a=np.ones(2))
    with pytest.raises(InputError, match=r"x\.npz: is a zip archive, but not of torch.save; numpy.load reads .npz"):
        tg.load(tmp_path / "x.npz")
    with pytest.raises(InputError, match=r"is a pickle, but not of torch\.save, and unpickling it could run any code"):
        tg.load(io.BytesIO(pickle.dumps({"a": 1})))
    script = torch_zip(PROGRAM, _0=bytes(24))
    with zipfile.ZipFile(script, "a") as archive:
        archive.writestr("archive/constants.pkl", b"")
    script.seek(0)
    with pytest.raises(InputError, match=r"is a TorchScript program; in PyTorch, save the state_dict\(\)"):
        tg.load(script)
    content = b'{"w":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1]}}'
    with pytest.raises(InputError, match="w has dtype F8_E4M3; there are F64, F32"):
        tg.load(io.BytesIO(len(content).to_bytes(8, "little") + content + b"\0"))


def assert_alike(got: Any, want: Any, torch: Any) -> None:
    """The same structure, types, dtypes, shapes, strides and numbers."""
    if isinstance(want, torch.Tensor) and want.is_complex():
        assert got.dtype == getattr(tg, str(want.dtype)[6:]) and got.requires_grad == want.requires_grad
        assert got.detach().tolist() == want.detach().tolist()
    elif isinstance(want, torch.Tensor):
        assert str(got.dtype) == str(want.dtype) and got.requires_grad == want.requires_grad
        assert tuple(got.shape) == tuple(want.shape) and (got.numel() < 2 or tuple(got.stride()) == want.stride())
        assert isinstance(got, nn.Parameter) == isinstance(want, torch.nn.Parameter)
        assert got.detach().tolist() == want.detach().tolist()
    elif isinstance(want, (torch.dtype, torch.device)):
        assert str(got) == str(want)
    elif isinstance(want, np.ndarray):
        assert got.dtype == want.dtype and got.tolist() == want.tolist()
    elif isinstance(want, argparse.Namespace):
        assert_alike(vars(got), vars(want), torch)
    else:
        assert type(got).__name__ == type(want).__name__
        if isinstance(want, dict):
            assert list(map(repr, got)) == list(map(repr, want))
            got, want = list(got.values()), list(want.values())
        if isinstance(want, (list, tuple)):
            assert len(got) == len(want)
            for pair in zip(got, want, strict=True):
                assert_alike(*pair, torch)
        else:
            assert got == want


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("protocol", [2, 5])
def test_what_pytorch_saves_is_what_is_loaded(zipped: bool, protocol: int) -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.randn(5, 3)).sum().backward()
    optimizer.step()
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [1, 2, 2])
    x, z = torch.arange(24.0).reshape(4, 6), torch.complex(torch.arange(3.0), torch.ones(3))
    kinds = ("float64", "float16", "bfloat16", "int8", "uint8", "bool", "int16", "int32", "int64")
    want = {
        "model": model.state_dict(), "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict(),
        "kinds": [torch.tensor([0, 1, 2]).to(getattr(torch, kind)) for kind in kinds],
        "views": [x, x, x.t(), x[1], x[:, ::2], x[0].expand(3, 6), x[2:2], x[0, 0], torch.empty(0)],
        "complex": [z, z.conj(), z[:1].clone().conj().imag, z[1], z.to(torch.complex128).requires_grad_()],
        "parameters": [torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(2), False)],
        "random": [torch.get_rng_state(), np.random.get_state(), random.getstate()],
        "numpy": [np.float32(1.5), np.arange(6).reshape(2, 3).T, np.array(["a", "bc"]), np.arange(3, dtype=">i4")],
        "plain": [None, True, 2**70, -1, math.inf, "☃", b"\xff", {1, 2}, {(1, 2): 3}, OrderedDict(a=1)],
        "names": [torch.Size([2]), torch.float32, torch.device("cuda:1"), argparse.Namespace(lr=0.1), Path("a/b")],
    }  # fmt: skip
    file = io.BytesIO()
    torch.save(want, file, _use_new_zipfile_serialization=zipped, pickle_protocol=protocol)
    file.seek(0)
    got = tg.load(file, map_location="cpu", weights_only=True)
    file.seek(0)
    assert_alike(got, torch.load(file, weights_only=False), torch)
    got["views"][0].zero_()
    assert got["views"][3].sum() == 0  # they share memory, as PyTorch's do
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    model.load_state_dict(got["model"])
    tg.optim.Adam(model.parameters()).load_state_dict(got["optimizer"])


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
    whole = torch_zip(PROGRAM, _0=bytes(24)).getvalue()
    for _ in range(200):
        program = bytearray(PROGRAM)
        program[rng.integers(len(program))] = rng.integers(256)
        with contextlib.suppress(InputError):
            tg.load(torch_zip(bytes(program), _0=bytes(24)))
        with contextlib.suppress(InputError):
            tg.load(io.BytesIO(whole[: rng.integers(len(whole))]))


def structured(text: str) -> io.BytesIO:
    content = json.dumps({"__metadata__": {"tinygrad_tf": text}}).encode()
    return io.BytesIO(len(content).to_bytes(8, "little") + content)


@pytest.mark.parametrize(
    "text",
    ["[]", "3", "{}", '{"format": 1}', '{"format": 1, "root": {"device": 3}}', '{"format": 1, "root": ' + "[" * 9999],
)
def test_a_broken_structure_is_told(text: str) -> None:
    with pytest.raises(InputError, match=r"^load: the file: (is broken|has format None)"):
        tg.load(structured(text))


def test_files_open_as_text_and_names_in_bytes(tmp_path: Path) -> None:
    tg.save(1, str(tmp_path / "x").encode())
    assert tg.load(str(tmp_path / "x").encode()) == 1
    with pytest.raises(InputError, match="load: the file is open as text; open it with mode 'rb'"):
        tg.load(io.StringIO("x"))  # type: ignore[arg-type]
    with (
        open(tmp_path / "y", "w") as file,
        pytest.raises(InputError, match="y is open as text; open it with mode 'wb'"),
    ):
        tg.save(1, file)  # type: ignore[arg-type]


def test_links_and_pipes_stay_what_they_are(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "latest").symlink_to("runs/3")
    tg.save(3, tmp_path / "latest")
    assert (tmp_path / "latest").is_symlink() and tg.load(tmp_path / "runs" / "3") == 3
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    tg.save(4, tmp_path / "pipe")
    assert (tmp_path / "pipe").is_fifo() and tg.load(io.BytesIO(os.read(reader, 10_000))) == 4
    os.close(reader)


def test_the_arguments_about_pickles_are_taken(tmp_path: Path) -> None:
    tg.save({"a": 1}, tmp_path / "x", pickle, 4, _use_new_zipfile_serialization=False)
    assert tg.load(tmp_path / "x", "cpu", pickle, weights_only=False, mmap=True, encoding="latin1") == {"a": 1}


def test_wrong_device_is_told() -> None:
    file = io.BytesIO()
    tg.save(1, file)
    file.seek(0)
    with pytest.raises(RuntimeError, match="CPU alone"):
        tg.load(file, map_location="cuda")
    assert tg.load(file, map_location=lambda storage, location: storage) == 1

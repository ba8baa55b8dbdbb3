"""`import torch` answered by the package: scripts, modules, what is refused, the list of names."""

from __future__ import annotations

import importlib
import inspect
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tinygrad_tf as tg
from tinygrad_tf import as_torch

SCRIPT = """
import sys
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn import functional
from torch.utils.data import Dataset, DataLoader
from torch.utils.data.dataloader import DataLoader as Same
from torch.utils.data.distributed import DistributedSampler
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.distributed import init_process_group, destroy_process_group
from torch.optim.lr_scheduler import LambdaLR
import torch.optim.lr_scheduler as schedules
import torch._inductor.config as config
import torch.multiprocessing as mp
from helper import width

from torch.nn.attention.flex_attention import create_block_mask
import torch.nn.attention.flex_attention as flexible

assert flexible.create_block_mask is create_block_mask
assert F is functional is nn.functional and Same is DataLoader and schedules.LambdaLR is LambdaLR
config.coordinate_descent_tuning = True
torch.backends.cuda.matmul.allow_tf32 = True
torch.backends.cudnn.benchmark = True
torch.set_float32_matmul_precision("high")
assert torch.get_float32_matmul_precision() == "high"
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.cuda.manual_seed_all(1)
model = torch.compile(nn.Linear(width, 1).to(device))

@torch.compile(dynamic=False)
def loss_of(x):
    return model(x).square().mean()

scaler = torch.cuda.amp.GradScaler(enabled=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    loss = loss_of(torch.ones(4, width))
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
torch.save({"model": model.state_dict(), "step": 3}, "model.pt")
assert torch.load("model.pt", weights_only=True)["step"] == 3
assert "torch._C" not in sys.modules
assert torch.__version__ == torch.version.__version__ >= "2.0" and int(torch.__version__.split(".")[0]) == 2
assert torch.__version__.endswith("+tinygrad_tf.0.1.0")
print(type(model).__name__, sys.argv[1:], __name__, __file__)
"""


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tinygrad_tf.as_torch", *arguments]
    path = str(Path(tg.__file__).parent.parent)
    return subprocess.run(command, cwd=folder, env={"PYTHONPATH": path, "PATH": ""}, capture_output=True, text=True)


def test_a_script_runs_as_it_stands(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text(SCRIPT)
    (tmp_path / "code" / "helper.py").write_text("width = 3\n")
    done = run(tmp_path, "code/train.py", "--lr", "0.1")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split(maxsplit=1) == ["Linear", f"['--lr', '0.1'] __main__ {Path('code/train.py')}\n"]
    assert (tmp_path / "model.pt").exists()
    done = run(tmp_path / "code", "-m", "train")
    assert done.returncode == 0, done.stderr


def test_classes_print_as_pytorchs(tmp_path: Path) -> None:
    """Lessons print type(x). What is pickled there is read without `import torch` as well."""
    (tmp_path / "kinds.py").write_text(
        "import torch, pickle\n"
        "x = torch.ones(1, requires_grad=True)\n"
        "for thing in x, x.shape, x.dtype, x.device, torch.nn.Parameter(x), (2 * x).grad_fn: print(type(thing))\n"
        "print(b'torch' in pickle.dumps(x), pickle.loads(pickle.dumps(x)))\n"
    )
    wanted = ["Tensor", "Size", "dtype", "device", "nn.parameter.Parameter"]
    lines = run(tmp_path, "kinds.py").stdout.splitlines()
    assert lines[:5] == [f"<class 'torch.{name}'>" for name in wanted]
    assert lines[5:] == ["<class 'MulBackward0'>", "False tensor([1.], requires_grad=True)"]


def test_what_the_command_says(tmp_path: Path) -> None:
    assert run(tmp_path).returncode == 2
    missing = run(tmp_path, "nowhere.py")
    assert missing.returncode == 2 and missing.stderr == "nowhere.py: no such file\n"
    (tmp_path / "fails.py").write_text("import torch.fx\n")
    assert "tinygrad_tf has no torch.fx; see the list of what it has" in run(tmp_path, "fails.py").stderr
    (tmp_path / "code.py").write_text("import sys\nsys.exit(3)\n")
    assert run(tmp_path, "code.py").returncode == 3


@pytest.mark.parametrize("name", ["nested", "nn.FractionalMaxPool3d", "cuda.graphs", "nn.functional.gumbel"])
def test_a_missing_name_says_so(name: str) -> None:
    *path, last = name.split(".")
    holder = tg
    for part in path:
        holder = getattr(holder, part)
    with pytest.raises(AttributeError, match=f"tinygrad_tf has no torch.{name}; see the list"):
        getattr(holder, last)
    assert not hasattr(holder, last)


def test_what_a_cpu_answers_to_newer_questions() -> None:
    assert not tg.accelerator.is_available() and tg.accelerator.current_accelerator() is None
    assert tg.functional.einsum is tg.einsum
    x = tg.zeros(1, 2, 3, 3).to(memory_format=tg.channels_last).contiguous(memory_format=tg.contiguous_format)
    assert x.is_contiguous(memory_format=tg.contiguous_format)
    assert tg.empty_like(x, memory_format=tg.preserve_format).shape == x.shape
    assert tg.randint_like(x, 3, memory_format=tg.preserve_format).shape == x.shape
    assert isinstance(tg.nn.Conv2d(1, 1, 1).to(memory_format=tg.channels_last), tg.nn.Conv2d)
    with tg.profiler.record_function("part"):
        assert tg.autograd.profiler.record_function("f")(len)([1]) == 1
    assert tg.sin_(tg.zeros(1)).tolist() == [0.0]
    assert tg.nan_to_num_(tg.tensor([float("nan")])).tolist() == [0.0]
    assert not tg.detach(tg.ones(1, requires_grad=True)).requires_grad
    assert tg.compiler.allow_in_graph(len) is len
    assert not tg.cuda._initialized and tg.cuda.get_rng_state_all() == [] and tg.backends.cudnn.version() is None
    assert tg.torch is tg and tg.GradScaler is tg.amp.GradScaler and tg.jit.annotate(int, 2) == 2
    assert not tg.backends.mkl.is_available() and isinstance(tg.nn.GRU(1, 1), tg.nn.RNNBase)
    assert tg.utils.checkpoint.get_device_states(tg.ones(1)) == ([], [])  # asked for by layers that can be undone
    tg.utils.checkpoint.set_device_states([], [])
    with tg.backends.cudnn.flags(enabled=True, allow_tf32=False):
        assert not tg.backends.cudnn.is_available()


@pytest.mark.parametrize(
    "name",
    [
        "nn.modules.module.Module",
        "nn.modules.loss.CrossEntropyLoss",
        "nn.modules.activation.MultiheadAttention",
        "nn.modules.conv.Conv2d",
        "nn.modules.transformer._get_activation_fn",
        "nn.modules.transformer._get_clones",
        "nn.modules.linear.NonDynamicallyQuantizableLinear",
        "nn.utils.clip_grad.clip_grad_norm_",
        "nn.utils.convert_parameters.parameters_to_vector",
        "distributions.categorical.Categorical",
        "distributions.kl.kl_divergence",
        "utils.hooks.RemovableHandle",
        "utils.tensorboard.writer.SummaryWriter",
        "utils.data._utils.collate.default_collate",
        "nn.modules.conv._ConvNd",
        "nn.modules.dropout._DropoutNd",
        "nn.modules.rnn.RNNBase",
        "nn.common_types._size_2_t",
        "nn.utils.clip_grad.clip_grad_norm",
        "distributed.elastic.multiprocessing.errors.record",
        "cuda.amp.grad_scaler.GradScaler",
        "autograd.variable.Variable",
        "nn.modules.module._IncompatibleKeys",
        "nn.modules.utils._ntuple",
        "nn.modules.pixelshuffle.PixelShuffle",
        "nn.init._calculate_correct_fan",
        "serialization.add_safe_globals",
        "nn.attention.flex_attention.flex_attention",
        "nn.attention.sdpa_kernel",
        "nn.functional.upsample",
        "nn.NLLLoss2d",
        "optim.lr_scheduler.Optimizer",
    ],
)
def test_names_are_in_the_files_where_pytorch_has_them(name: str) -> None:
    module, _, last = name.rpartition(".")
    assert getattr(as_torch.find(*module.rpartition(".")[::2]), last) is not None


def test_older_names_of_initialisers_warn_and_work() -> None:
    weight = tg.ones(3, 2)
    with pytest.warns(FutureWarning, match="xavier_uniform is the older name of xavier_uniform_"):
        assert tg.nn.init.xavier_uniform(weight) is weight
    with pytest.warns(FutureWarning):
        assert tg.nn.init.constant(weight, 2.0).tolist() == [[2.0, 2.0]] * 3


def test_types_on_a_gpu_can_be_named_and_not_made() -> None:
    for name in ("FloatTensor", "LongTensor"):
        kind = getattr(tg.cuda, name)
        with pytest.raises(RuntimeError, match=f"CPU alone, in one process: torch.cuda.{name} cannot be used"):
            kind(2)


def test_losses_of_ones_own_derive_from_pytorchs_bases() -> None:
    class Own(tg.nn.modules.loss._Loss):
        def forward(self, x: tg.Tensor) -> tg.Tensor:
            return x.mean() if self.reduction == "mean" else x.sum()

    assert Own()(tg.ones(2)).item() == 1.0 and Own(reduction="sum")(tg.ones(2)).item() == 2.0
    assert tg.nn.modules.utils._pair(3) == (3, 3) and tg.nn.modules.utils._pair([1, 2]) == (1, 2)


def test_data_parallel_without_a_gpu_is_the_module() -> None:
    inner = tg.nn.Linear(2, 1)
    model = tg.nn.DataParallel(inner)
    x = tg.ones(3, 2)
    assert model.module is inner and isinstance(model, tg.nn.parallel.DataParallel)
    assert (model(x) == inner(x)).all() and list(model.state_dict()) == ["module.weight", "module.bias"]
    with pytest.raises(RuntimeError, match=r"CPU alone: DataParallel has no use for device_ids=\[0, 1\]"):
        tg.nn.DataParallel(inner, device_ids=[0, 1])


def test_trees_of_tensors_are_taken_apart_and_put_together() -> None:
    trees = tg.utils._pytree
    tree = {"a": [1, (2, 3)], "b": 4}
    leaves, form = trees.tree_flatten(tree)
    assert leaves == trees.tree_leaves(tree) == [1, 2, 3, 4]
    assert trees.tree_unflatten([leaf * 2 for leaf in leaves], form) == {"a": [2, (4, 6)], "b": 8}
    assert trees.tree_map(lambda one, two: one + two, tree, tree) == {"a": [2, (4, 6)], "b": 8}
    with pytest.raises(ValueError, match="the tree holds 4 leaves, got 1"):
        trees.tree_unflatten([1], form)


def test_the_profiler_is_refused_when_it_is_used() -> None:
    assert tg.profiler.ProfilerActivity.CPU.name == "CPU"
    for use in (tg.profiler.profile, tg.profiler.schedule, tg.autograd.profiler.profile):
        with pytest.raises(RuntimeError, match=r"has no profiler \(see cProfile.*: torch.profiler.\w+ cannot be used"):
            use(wait=1)


def test_what_needs_a_gpu_or_processes_is_refused_when_it_is_used() -> None:
    for call in (
        lambda: tg.cuda.set_device(0),
        lambda: tg.distributed.init_process_group(backend="nccl"),
        lambda: tg.nn.parallel.DistributedDataParallel(tg.nn.Linear(1, 1)),
        lambda: tg.multiprocessing.spawn(print),
        lambda: tg.distributed.nn.all_reduce(tg.zeros(1)),
        lambda: tg.distributed.ProcessGroup(),
        lambda: tg.cuda.nvtx.range_push("step"),
        lambda: tg.utils.data.DistributedSampler([1]),
        lambda: tg.distributed.send(tg.ones(1), 1),
        lambda: tg.distributed.device_mesh.init_device_mesh("cpu", (1,)),
    ):
        with pytest.raises(RuntimeError, match="CPU alone, in one process: torch"):
            call()
    with pytest.raises(RuntimeError, match=r"downloads nothing: torch\.hub\.load cannot be used"):
        tg.hub.load("owner/repository", "model")
    with pytest.raises(RuntimeError, match=r"compiles no C\+\+: torch\.utils\.cpp_extension\.load cannot be used"):
        tg.utils.cpp_extension.load("scan", ["scan.cpp"])


def test_modules_that_are_to_be_compiled_stay_as_they_are() -> None:
    class Twice(tg.jit.ScriptModule):
        @tg.jit.script_method
        def forward(self, x):
            return 2 * x

    assert Twice()(tg.ones(1)).item() == 2.0 and isinstance(Twice(), tg.nn.Module)
    layer = tg.nn.Linear(1, 1)
    layer.compile(mode="default")
    assert layer.to_empty(device="cpu") is layer and not tg._dynamo.is_compiling() and not layer.weight.is_pinned()
    tg._C._jit_set_profiling_mode(False)


def test_skipping_the_first_weights_takes_no_random_numbers() -> None:
    before = tg.get_rng_state().tolist()
    assert tg.nn.utils.skip_init(tg.nn.Linear, 2, out_features=3).weight.shape == (3, 2)
    assert tg.get_rng_state().tolist() == before


def test_an_optimizer_of_ones_own_completes_what_was_loaded() -> None:
    class Own(tg.optim.SGD):
        def __setstate__(self, state):
            super().__setstate__(state)
            for group in self.param_groups:
                group.setdefault("new", 1)

    optimizer = Own([tg.nn.Parameter(tg.ones(1))], lr=0.1)
    optimizer.load_state_dict(tg.optim.SGD([tg.nn.Parameter(tg.ones(1))], lr=0.5).state_dict())
    assert optimizer.param_groups[0]["new"] == 1 and optimizer.param_groups[0]["lr"] == 0.5


def test_an_error_that_only_a_gpu_raises_can_be_named_where_errors_are_caught() -> None:
    assert tg.cuda.OutOfMemoryError is tg.OutOfMemoryError and issubclass(tg.OutOfMemoryError, RuntimeError)


def test_the_writer_keeps_what_it_is_given(tmp_path: Path) -> None:
    with tg.utils.tensorboard.SummaryWriter(log_dir=tmp_path / "runs") as writer:
        writer.add_scalar("loss", tg.tensor(0.5), 3)
        writer.add_scalars("acc", {"train": 1.0, "test": 0.5}, global_step=4)
        writer.add_text("note", "as before", 5)
        writer.add_histogram("weight", tg.nn.Parameter(tg.tensor([0.0, 1.0, 3.0, tg.nan])), 6, bins=3)
        writer.add_hparams({"lr": 0.1}, {"loss": 2.0})
        writer.add_image("digit", tg.ones(1, 2, 2), 7)
        writer.add_graph(tg.nn.Linear(1, 1), tg.ones(1))
        with pytest.raises(AttributeError, match="no attribute 'show'"):
            writer.show()
    lines = [json.loads(line) for line in (tmp_path / "runs" / "scalars.jsonl").read_text().splitlines()]
    assert [(x["tag"], x["value"], x["step"]) for x in lines[:3]] == [
        ("loss", 0.5, 3),
        ("acc/train", 1.0, 4),
        ("acc/test", 0.5, 4),
    ]
    assert lines[3]["text"] == "as before" and (lines[4]["counts"], lines[4]["edges"]) == ([1, 1, 1], [0, 1, 2, 3])
    assert lines[5]["settings"] == {"lr": "0.1"} and (lines[6]["tag"], lines[6]["value"]) == ("hparams/loss", 2.0)
    assert [(x["tag"], x["left_out"]) for x in lines[7:]] == [("digit", "image"), ("", "graph")]


def test_a_writer_that_was_closed_goes_on(tmp_path: Path) -> None:
    writer = tg.utils.tensorboard.SummaryWriter(tmp_path)
    writer.close()
    writer.flush()
    writer.add_scalar("loss", 0.5, 1)
    writer.close()
    assert json.loads((tmp_path / "scalars.jsonl").read_text())["value"] == 0.5


@pytest.mark.parametrize(
    ("name", "others", "settings"),
    [
        ("add", [[[1.0, 2.0], [3.0]]], {"alpha": 2}),
        ("sub", [1.5], {}),
        ("mul", [[2.0, 3]], {}),
        ("lerp", [[[1.0, 2.0], [3.0]], 0.25], {}),
        ("addcmul", [[[1.0, 2.0], [3.0]], [[2.0, 2.0], [0.5]], 0.5], {}),
        ("addcdiv", [[[1.0, 2.0], [3.0]], [[2.0, 2.0], [0.5]]], {"value": 2}),
        ("sqrt", [], {}),
        ("norm", [], {}),
    ],
)
def test_lists_of_tensors_as_in_pytorch(name: str, others: list[Any], settings: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    found = []
    for t in (torch, tg):
        tensors = [t.tensor([1.0, 4.0]), t.tensor([9.0])]
        own = [[t.tensor(o) if isinstance(o, list) else o for o in x] if isinstance(x, list) else x for x in others]
        results = [getattr(t, f"_foreach_{name}")(tensors, *own, **settings)]
        assert type(results[0]) is tuple
        if name != "norm":
            getattr(t, f"_foreach_{name}_")(tensors, *own, **settings)
            results.append(tensors)
        found.append([[x.tolist() for x in r] for r in results])
    assert found[0] == found[1]


def test_lists_of_tensors_fit_each_other() -> None:
    with pytest.raises(RuntimeError, match="_foreach_mul_: lists must be of one length, got 1 and 2"):
        tg._foreach_mul_([tg.ones(1)], [1.0, 2.0])


def test_files_read_the_same_whatever_is_allowed(tmp_path: Path) -> None:
    with tg.serialization.safe_globals([dict]):
        tg.save({"a": tg.ones(1)}, tmp_path / "a.pt")
    tg.serialization.add_safe_globals([dict])
    assert tg.load(tmp_path / "a.pt")["a"].item() == 1.0
    with pytest.warns(FutureWarning, match="is the older name of interpolate"):
        assert tg.nn.functional.upsample_nearest(tg.ones(1, 1, 2), scale_factor=2).shape == (1, 1, 4)


def test_importing_the_package_does_not_load_as_torch() -> None:
    code = "import sys, tinygrad_tf; from tinygrad_tf import models; sys.exit('tinygrad_tf.as_torch' in sys.modules)"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONPATH": str(Path(tg.__file__).parent.parent)}
        ).returncode
        == 0
    )


# --- autocast ---------------------------------------------------------------------------------------------------------


def test_autocast_rounds_as_pytorch_does() -> None:
    torch = pytest.importorskip("torch")
    found = []
    for t in (torch, tg):
        t.manual_seed(0)
        x, w = t.randn(5, 8, requires_grad=True), t.randn(8, 3)

        @t.autocast("cpu", dtype=t.bfloat16)
        def product(x=x, w=w, t=t):
            return x @ w, t.nn.functional.linear(x, w.t()), (x + 1.0)

        out, same, plain = product()
        assert out.dtype == same.dtype == t.bfloat16 and plain.dtype == t.float32
        out.float().square().sum().backward()
        found.append([out.float().tolist(), same.float().tolist(), x.grad.dtype == t.float32])
    assert found[0] == found[1]
    assert not tg.amp.is_autocast_enabled()
    with pytest.warns(UserWarning, match="cuda"), tg.autocast("cuda"):
        assert (tg.ones(2, 2) @ tg.ones(2, 2)).dtype == tg.float32
    with pytest.raises(RuntimeError, match="bfloat16 or float16"):
        tg.autocast("cpu", dtype=tg.int8)


# --- the list ---------------------------------------------------------------------------------------------------------


def test_every_listed_name_is_there_and_every_difference_is_listed() -> None:
    names = as_torch.names()
    assert len(names) == len(set(names)) > 500
    for name in names:
        holder = tg
        for part in name.split("."):
            holder = inspect.getattr_static(holder, part) if inspect.isclass(holder) else getattr(holder, part)
    assert as_torch.DIFFERENCES.keys() <= set(names)
    assert "torch.nn.MultiheadAttention  # is_causal needs no mask" in as_torch.list_of_names()


def test_what_pytorch_has_not_got_is_marked() -> None:
    torch = pytest.importorskip("torch")
    marked = {name for name, difference in as_torch.DIFFERENCES.items() if difference.startswith(as_torch.OURS)}
    names = [name for name in as_torch.names() if not name.startswith("utils.tensorboard")]  # may be not installed
    strange = {name for name in names if not resolves(torch, name)}
    assert strange == marked, "name what is new in as_torch.OWN_PARTS or DIFFERENCES"


def resolves(holder: object, name: str) -> bool:
    """Whether PyTorch has a name, perhaps in a module that must be imported first."""
    path = "torch"
    for part in name.split("."):
        path = f"{path}.{part}"
        if not hasattr(holder, part):
            try:
                importlib.import_module(path)
            except ImportError:
                return False
        holder = getattr(holder, part)
    return True

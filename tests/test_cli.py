"""The command line: what it prints, writes and refuses."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import typer

from tinygrad_tf.cli import main, plan
from tinygrad_tf.cli.app import app
from tinygrad_tf.cli.display import Clock, Curve, LiveDisplay, PlainDisplay, duration, one_line
from tinygrad_tf.kernels import _compile, _matrix_tiles, _vector
from tinygrad_tf.training import Record, TrainConfig
from tinygrad_tf.training.config import flag
from tinygrad_tf.training.presets import PRESETS, preset

TEXT = "the cat sat on the mat.\n" * 30
SIZE = ["--layers", "1", "--heads", "1", "--channels", "8", "--context", "8", "--batch", "2", "--eval-batches", "2"]


@pytest.fixture
def text(tmp_path, monkeypatch):
    """A small text in an empty working directory."""
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text(TEXT)
    return "text.txt"


def train(*words):
    return main(["train", *words, *SIZE])


@pytest.fixture
def run(text, capsys):
    """A finished run of 4 steps."""
    assert train(text, "--out", "run", "--steps", "4", "--eval-interval", "2", "--seed", "3") == 0
    return Path("run")


def records(run):
    return [json.loads(line) for line in Path(run, "metrics.jsonl").read_text().splitlines()]


def refused(capsys, *words, code=2):
    """The one line that says why."""
    capsys.readouterr()
    assert main(list(words)) == code
    out, err = capsys.readouterr()
    assert err.count("\n") == 1 and err.startswith("tinygrad-tf"), err
    assert "Traceback" not in err and not out.startswith("step")
    return err


# --- training ---------------------------------------------------------------------------------------------------------


def test_a_run_from_start_to_end(run, capsys):
    out = capsys.readouterr().out
    assert "text.txt: 720 characters, 12 different ones; 648 to train on, 72 for validation" in out
    assert "1 layer, 1 head, 8 channels, context 8: " in out and "4 steps of 2 x 8 characters" in out
    assert "ms a step: about 0:0" in out and "done at" in out
    assert out.index("run folder run") < out.index("step 1/4") < out.index("step 2/4  loss") < out.index("step 4/4")
    assert "validation" in out and "tokens/s" in out and "over the whole validation split" in out
    assert "\x1b" not in out and "\r" not in out
    files = {str(path.relative_to(run)) for path in run.rglob("*") if path.is_file()}
    assert {"config.json", "tokenizer.json", "tokens.npy", "metrics.jsonl", "checkpoint.json", "loss.png"} <= files
    assert "checkpoints/step-00000004/weights.safetensors" in files
    assert [r["step"] for r in records("run")] == [1, 2, 3, 4] and "full_validation_loss" in records("run")[-1]
    config = json.loads((run / "config.json").read_text())
    assert config["format"] == 1 and config["config"]["seed"] == 3 and config["config"]["channels"] == 8
    assert (run / "loss.png").read_bytes()[:4] == b"\x89PNG"


def test_a_text_of_one_character_is_told_to_teach_nothing(text, capsys):
    Path("one.txt").write_text("a" * 400)
    assert train("one.txt", "--out", "run", "--steps", "4", "--eval-interval", "2") == 0
    out = capsys.readouterr().out
    assert "1 different one;" in out and "there is nothing to learn" in out
    assert "lowest at step" not in out  # it is 0 at each


def test_a_rate_of_zero_is_told_to_teach_nothing(text, capsys):
    assert train(text, "--out", "run", "--steps", "2", "--learning-rate", "0") == 0
    assert "note       at --learning-rate 0 every weight stays as it is" in capsys.readouterr().out


def test_equal_runs_write_equal_bytes(text):
    for name in ("one", "other"):
        assert train(text, "--out", name, "--steps", "2") == 0
    for kind in ("weights", "optimizer"):
        one, other = (Path(name, f"checkpoints/step-00000002/{kind}.safetensors") for name in ("one", "other"))
        assert one.read_bytes() == other.read_bytes()


def test_a_place_that_cannot_be_written_to_is_told_before_anything_is_measured(text, capsys, monkeypatch):
    monkeypatch.setattr("tinygrad_tf.cli.train.measured_trainer", lambda *_: pytest.fail("too late"))
    closed = lambda *_, **__: (_ for _ in ()).throw(PermissionError(errno.EACCES, "Permission denied"))  # noqa: E731
    monkeypatch.setattr("tempfile.mkdtemp", closed)
    for words in ((), ("--out", "a/b")):
        err = refused(capsys, "train", text, "--context", "8", *words)
        assert "cannot be written: Permission denied; choose another --out" in err
    assert os.listdir() == ["text.txt"]


def test_the_default_text_and_folder(text, capsys):
    assert train("--steps", "1") == 0
    out = capsys.readouterr().out
    assert "Python's standard library" in out and "files): 2,9" in out
    assert len(list(Path("runs").iterdir())) == 1


def test_dry_run_does_everything_and_keeps_nothing(text, capsys):
    assert main(["train", text, "--dry-run", "--out", "run"]) == 0
    out = capsys.readouterr().out
    for part in ("4 layers, 4 heads, 128 channels", "one training step", "checkpoint", "sample", "loss curve"):
        assert part in out
    assert os.listdir() == ["text.txt"]


def test_minutes_choose_the_steps(text, capsys):
    assert train(text, "--minutes", "0.0001", "--out", "run") == 0
    assert json.loads(Path("run/config.json").read_text())["config"]["steps"] == 1
    assert refused(capsys, "train", text, "--minutes", "1", "--steps", "3") and not Path("runs").exists()
    assert "--minutes must be above 0" in refused(capsys, "train", text, "--minutes", "0")
    assert "--minutes must be a number, got 'nan'" in refused(capsys, "train", text, "--minutes", "nan")


def test_compiling_comes_on_top_of_the_minutes(monkeypatch):
    left = []
    for seconds in (0.0, 100.0):
        monkeypatch.setattr(_compile, "compile_seconds", lambda seconds=seconds: seconds)
        left.append(plan.seconds_left(1.0))
    assert left[1] - left[0] == pytest.approx(100.0, abs=1.0)


def test_a_preset_and_what_is_given_beside_it(text, capsys):
    assert train(text, "--preset", "quick", "--out", "run", "--steps", "2") == 0
    config = json.loads(Path("run/config.json").read_text())["config"]
    assert config["learning_rate"] == PRESETS["quick"]["learning_rate"] and config["steps"] == 2
    for name in PRESETS:
        assert TrainConfig(**preset(name)).as_dict() == TrainConfig().as_dict() | PRESETS[name]
    told = TrainConfig.__dataclass_fields__["matmul_precision"].metadata["help"]
    assert {f"[default: {PRESETS[name]['matmul_precision']}]" in told for name in PRESETS} == {True}
    message = "--preset must be one of small, quick, baby; got 'large'"
    assert message in refused(capsys, "train", text, "--preset", "large")
    for other in (["--minutes", "1"], ["--resume", "run"]):
        assert "--preset" in refused(capsys, "train", "--preset", "quick", *other)


def test_resume_tells_what_changes(run, capsys):
    assert main(["train", "--resume", "run", "--steps", "6", "--learning-rate", "2e-3", "--layers", "1"]) == 0
    out = capsys.readouterr().out
    assert "steps 4 -> 6" in out and "learning rate 0.001 -> 0.002" in out and "layers 1" not in out.split("changed")[1]
    assert [r["step"] for r in records("run")] == [1, 2, 3, 4, 5, 6]
    assert json.loads((run / "config.json").read_text())["config"]["steps"] == 6
    assert main(["train", "--resume", "run"]) == 0
    assert "all 6 steps are done" in capsys.readouterr().out
    assert main(["train", "text.txt", "--resume", "run", "--steps", "7"]) == 0  # the same text may be named


@pytest.mark.parametrize(
    "words, message",
    [
        (["--layers", "3"], "--layers 3 contradicts run, which was begun with 1"),
        (["--seed", "4"], "--seed 4 contradicts run, which was begun with 3"),
        (["--bias"], "--bias True contradicts run, which was begun with False"),
        (["--steps", "3"], "--steps 3: run has done 4 steps already"),
        (["--out", "other"], "--resume and --out cannot be combined"),
        (["--dry-run"], "--resume and --dry-run cannot be combined"),
        (["other.txt"], "other.txt: is not the text that run was begun with, text.txt"),
    ],
)
def test_resume_refuses_what_contradicts(run, capsys, words, message):
    Path("other.txt").write_text(TEXT.replace("sat", "ate"))
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    assert message in refused(capsys, "train", "--resume", "run", *words)
    assert before == {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}


def test_a_signal_stops_after_the_step_and_resume_goes_on(text, capsys, monkeypatch):
    steps = ["--steps", "6", "--eval-interval", "4"]
    assert train(text, "--out", "whole", *steps) == 0
    show = PlainDisplay.show

    def interrupted(self, record):
        show(self, record)
        if record.step == 3:
            os.kill(os.getpid(), signal.SIGINT)

    handler = signal.getsignal(signal.SIGINT)
    with monkeypatch.context() as patch:
        patch.setattr(PlainDisplay, "show", interrupted)
        capsys.readouterr()
        assert train(text, "--out", "run", *steps) == 130
    out, err = capsys.readouterr()
    assert signal.getsignal(signal.SIGINT) is handler
    assert "stopped after step 3 of 6, and saved" in out and "train --resume run" in out and "Traceback" not in err
    assert Path("run/loss.png").exists()
    assert main(["train", "--resume", "run"]) == 0
    losses = [[r["loss"] for r in records(name)] for name in ("whole", "run")]
    assert losses[0] == losses[1] and len(losses[0]) == 6


def test_a_second_signal_stops_at_once(text, capsys, monkeypatch):
    show = PlainDisplay.show

    def impatient(self, record):
        show(self, record)
        if record.step == 3:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(PlainDisplay, "show", impatient)
    assert train(text, "--out", "twice", "--steps", "6", "--eval-interval", "2") == 130  # pressed twice at once
    assert "stopped after step 3 of 6, and saved" in capsys.readouterr().out
    monkeypatch.setattr("tinygrad_tf.cli.interrupts.PATIENCE", 0.0)
    assert train(text, "--out", "run", "--steps", "6", "--eval-interval", "2") == 130
    assert "stopped after step 3 of 6, and saved" in capsys.readouterr().out


@pytest.mark.parametrize("where", ["_gradients", "evaluate"])
def test_a_long_step_or_evaluation_is_left_when_a_signal_comes_and_done_again(text, capsys, monkeypatch, where):
    """One signal, in the midst of step 4: the run is saved as it was after step 3, and goes on bit for bit."""
    from tinygrad_tf.training import Trainer

    steps = ["--steps", "6", "--eval-interval", "4", "--dropout", "0.2", "--patience", "9"]
    assert train(text, "--out", "whole", *steps) == 0
    real = getattr(Trainer, where)

    def endless(self, *arguments):
        result = real(self, *arguments)
        if self.step == (3 if where == "_gradients" else 4):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(60)
        return result

    with monkeypatch.context() as patch:
        patch.setattr("tinygrad_tf.cli.interrupts.PATIENCE", 0.05)
        patch.setattr(Trainer, where, endless)
        capsys.readouterr()
        assert train(text, "--out", "run", *steps) == 128 + signal.SIGTERM
    assert "stopped after step 3 of 6, and saved" in capsys.readouterr().out
    assert [r["step"] for r in records("run")] == [1, 2, 3]
    assert main(["train", "--resume", "run"]) == 0
    for name in ("loss", "validation_loss", "gradient_norm"):
        assert [r.get(name) for r in records("run")] == [r.get(name) for r in records("whole")]


def test_no_signal_meets_half_of_an_update_or_of_a_file(text, capsys, monkeypatch):
    from tinygrad_tf.optim import AdamW
    from tinygrad_tf.training.checkpoint import Run

    monkeypatch.setattr("tinygrad_tf.cli.interrupts.PATIENCE", 0.0)
    step, write, begun = AdamW.step, Run._write, []

    def slow(real, at):
        def run(self, *arguments):
            begun.append(real)
            if begun.count(real) == at:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.2)
                os.kill(os.getpid(), signal.SIGINT)
            return real(self, *arguments)

        return run

    monkeypatch.setattr(AdamW, "step", slow(step, 12))  # the first ones are those by which the time is measured
    assert train(text, "--out", "updated", "--steps", "60") == 130
    assert "and saved" in capsys.readouterr().out
    monkeypatch.setattr(AdamW, "step", step)
    monkeypatch.setattr(Run, "_write", slow(write, 2))
    assert train(text, "--out", "written", "--steps", "6", "--eval-interval", "3") == 130
    assert "stopped after step 3 of 6, and saved" in capsys.readouterr().out
    for name in ("updated", "written"):
        assert main(["train", "--resume", name]) == 0


def test_a_signal_that_is_lost_ends_the_process_all_the_same(tmp_path):
    """In a destructor Python prints an exception and forgets it. Here it comes again, long before GRACE is over."""
    code = """
import os, signal, sys, time
from tinygrad_tf.cli import app, interrupts

class Forgetful:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.01)

def train(request):
    Forgetful()
    while True:
        time.sleep(0.01)

interrupts.GRACE = 60
import tinygrad_tf.cli.train
tinygrad_tf.cli.train.train = train
sys.argv = ["tinygrad-tf", "train"]
sys.exit(app.run())
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, timeout=100, check=False)
    assert done.returncode == 143 and done.stderr == b"tinygrad-tf train: stopped\n"


def test_a_command_that_answers_no_signal_ends_all_the_same(tmp_path):
    code = """
import os, signal, sys, time
from contextlib import suppress
from tinygrad_tf.cli import app, interrupts

def train(request):
    with suppress(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(1)
    while True:
        time.sleep(0.01)

interrupts.GRACE = 0.5
import tinygrad_tf.cli.train
tinygrad_tf.cli.train.train = train
sys.argv = ["tinygrad-tf", "train"]
app.run()
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, timeout=100, check=False)
    assert done.returncode == 143 and done.stderr == b"tinygrad-tf: stopped\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("command", ["-m tinygrad_tf", "tinygrad-tf"])
def test_a_signal_while_modules_load_is_one_line(tmp_path, number, command):
    (tmp_path / "numpy.py").write_text(f"import os, time; os.kill(os.getpid(), {number}); time.sleep(60)")
    script = tmp_path / "tinygrad-tf"
    script.write_text("from tinygrad_tf.cli import main; main()")
    words = ["-m", "tinygrad_tf"] if command[0] == "-" else [str(script)]
    paths = os.pathsep.join([str(tmp_path), str(Path(__file__).parents[1])])
    done = subprocess.run(
        [sys.executable, *words, "--help"], env={**os.environ, "PYTHONPATH": paths}, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (128 + number, b"", b"tinygrad-tf: stopped\n")


def test_a_signal_while_options_are_read_is_one_line(text, capsys, monkeypatch):
    """Some versions of typer turn the exception into an exit code."""

    def interrupted(*_):
        raise KeyboardInterrupt

    for method in ("parse_args", "invoke"):
        with monkeypatch.context() as patch:
            patch.setattr(f"typer.core.TyperGroup.{method}", interrupted)
            assert refused(capsys, "train", text, code=130) == "tinygrad-tf train: stopped\n"


def test_other_programs_keep_their_answers_to_signals(tmp_path):
    code = "import signal; before = signal.getsignal(2); import tinygrad_tf; assert signal.getsignal(2) is before"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    assert subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0


def test_a_diverging_run_stops_and_keeps_its_checkpoint(text, capsys):
    err = refused(capsys, "train", text, *SIZE, "--learning-rate", "1e38", "--out", "run", code=1)
    assert "step " in err and " parameter" in err and "nan" in err and "The checkpoint of step" in err
    assert main(["train", "--resume", "run", "--learning-rate", "1e-3", "--steps", "12"]) == 0


def test_a_full_disk_is_told_in_one_line(text, capsys, monkeypatch):
    from tinygrad_tf.training import checkpoint

    write, count = checkpoint.write_json, []

    def full(path, value):
        count.append(path.name)
        if count.count("checkpoint.json") > 1:
            raise OSError(28, "No space left on device")
        write(path, value)

    monkeypatch.setattr(checkpoint, "write_json", full)
    err = refused(capsys, "train", text, *SIZE, "--steps", "4", "--eval-interval", "2", "--out", "run", code=1)
    assert "cannot save: No space left on device. The checkpoint of step 0 is kept" in err


def test_a_run_folder_that_is_deleted_meanwhile_is_not_one_to_go_on_with(text, capsys, monkeypatch):
    from tinygrad_tf.training.checkpoint import Run

    save = Run.save

    def deleted(self, trainer):
        shutil.rmtree(self.folder, ignore_errors=True)
        save(self, trainer)

    monkeypatch.setattr(Run, "save", deleted)
    err = refused(capsys, "train", text, *SIZE, "--steps", "3", "--out", "run", code=1)
    assert err.endswith("No such file or directory. The run folder is gone, and all that was in it: start a new run\n")


def test_a_run_without_a_checkpoint_begins_when_it_is_resumed(text, capsys, monkeypatch):
    from tinygrad_tf.training.checkpoint import Run

    def full(self, *_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Run, "_write", full)
        err = refused(capsys, "train", text, *SIZE, "--steps", "3", "--out", "run", code=1)
    assert "cannot save: No space left on device. There is no checkpoint yet; go on with: " in err
    assert "run: has no checkpoint yet; go on with train --resume run" in refused(capsys, "sample", "run")
    assert main(["train", "--resume", "run"]) == 0 and train(text, "--steps", "3", "--out", "whole") == 0
    assert [r["loss"] for r in records("run")] == [r["loss"] for r in records("whole")]
    Path("run/checkpoint.json").unlink()
    for words in (["train", "--resume", "run", "--steps", "9"], ["sample", "run"]):
        assert (
            "run: has no checkpoint.json, which names the latest and the best of its checkpoints (step-00000003)"
            in (refused(capsys, *words))
        )


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words, message",
    [
        ("train --dropuot 0.1", "there is no option --dropuot; did you mean --dropout?"),
        ("sample --temp 0.1", "there is no option --temp; did you mean --temperature?"),
        ("train --dropuot=0.1", "there is no option --dropuot; did you mean --dropout?"),
        ("train --learning_rate 1", "did you mean --learning-rate?"),
        ("train --n_layer=2", "there is no option --n_layer; its name here is --layers"),
        ("train --block_size 8", "its name here is --context"),
        ("train --xyzzy", "there is no option --xyzzy; --help lists them"),
        ("trian", "there is no command 'trian'; did you mean train?"),
        ("--resume run", "there is no option --resume"),
        ("train --layers 2.5", "--layers must be a whole number, got '2.5'"),
        ("train --layers two", "--layers must be a whole number, got 'two'"),
        ("train --steps inf", "--steps must be a whole number, got 'inf'"),
        ("train --dropout high", "--dropout must be a number, got 'high'"),
        ("train --dropout 1.5", "--dropout must be below 1, got 1.5"),
        ("train --dropout 2", "--dropout must be below 1, got 2\n"),
        ("train --weight-decay -1", "--weight-decay must be at least 0, got -1\n"),
        ("train --beta1 nan", "--beta1 must be a number, got 'nan'"),
        ("train --seed 99999999999999999999", "must be below 9223372036854775808, got 99999999999999999999"),
        ("train --channels 30", "--channels 30 cannot be divided among --heads 4"),
        ("train --steps", "--steps"),
        ("train --bias=3", "--bias"),
        ("train none.txt", "none.txt: no such file"),
        ("train .", ".: is a directory"),
        ("train text.txt --preset=", "--preset must be one of small, quick, baby; got ''"),
        ("train text.txt --minutes 1e300", "--minutes must be above 0 and at most 525,600 (a year), got 1e+300"),
        ("train text.txt --minutes 0", "--minutes must be above 0"),
        ("train --encoding latin-1", "--encoding 'latin-1' says how the FILEs are encoded; name one, or leave it out"),
        ("train --preset quick --minutes 1", "--preset and --minutes cannot be combined: --minutes chooses the steps"),
        (f"train text.txt --context 8 --out {'x' * 300}", "cannot be written: File name too long"),
        (f"train --resume {'x' * 300}", "no such run folder"),
        ("train --resume=", "--resume must name a folder, got ''"),
        ("train text.txt --out=", "--out must name a folder, got ''"),
        ("gradcheck --shape 3,4", "--shape is of the inputs of a FILE.py; name one"),
        ("version", "there is no command 'version'; there are train, sample, gradcheck, bench"),
        ("train empty.txt", "empty.txt: is empty"),
        ("train latin.txt", "latin.txt: is not UTF-8 text: byte 0xe9 at offset 3"),
        ("train text.txt --context 100", "validation split has 72 characters of 720, needs at least 101"),
        ("train text.txt --out full", "full: exists and is not empty; choose another --out"),
        ("train text.txt --out text.txt", "text.txt: is a file; choose another --out"),
        ("train text.txt --context 8 --out text.txt/run", "text.txt/run: cannot be written: Not a directory; choose"),
        ("train text.txt --context 8 --out nowhere", "nowhere: is a link that leads nowhere; choose another --out"),
        ("train text.txt --encoding latin-99", "--encoding 'latin-99' is not known"),
        ("train text.txt --encoding utf\0", "--encoding 'utf\\x00' is not known"),
        ("train wide.txt", "(for example --encoding utf-32)"),
        ("train --resume none", "none: no such run folder"),
        ("train --resume full", "full: is not a run folder"),
        ("sample none", "none: no such run folder"),
        ("sample text.txt", "text.txt: is a file, not a run folder"),
        ("sample", "RUN"),
        ("sample run --temperature -1", "--temperature must be at least 0, got -1"),
        ("sample run --temperature nan", "--temperature must be a number, got 'nan'"),
        ("sample run --temperature inf", "--temperature must be at least 0 and finite, got inf"),
        ("sample run --top-k 0", "--top-k must be at least 1, got 0"),
        ("sample run --length 0", "--length must be at least 1, got 0"),
        ("sample run --seed x", "--seed must be a whole number, got 'x'"),
        ("sample run --top-p 1.5", "--top-p must be a number from 0 to 1, got 1.5"),
        ("sample run --top-p -1", "--top-p must be at least 0, got -1"),
        ("sample run --min-p 2", "--min-p must be a number from 0 to 1, got 2\n"),
        ("sample run --repetition-penalty 0", "--repetition-penalty must be a number above 0"),
        ("sample run --no-repeat 0", "--no-repeat must be at least 1, got 0"),
        ("sample run --beams 0", "--beams must be at least 1, got 0"),
        ("sample run --beams 2.5", "--beams must be a whole number, got '2.5'"),
        (
            "sample run --beams 2 --top-k 3",
            "--beams 2 looks for the likeliest text and draws nothing: leave out --top-k",
        ),
        ("sample run --beams 2 --temperature 0.5", "leave out --temperature"),
        ("sample run --length-penalty 1", "--length-penalty 1 compares beams: give --beams above 1, too"),
        (
            "sample run --beams 2 --length-penalty 1e9",
            "--length-penalty must be a number from 0 (plain log-probability) to",
        ),
        ("sample run --stop=", "--stop must be a text of at least one character"),
        ("sample run --stop at --beams 2", "--stop 'at': with --beams it must be a single character"),
        ("train text.txt --schedule sine", "--schedule must be one of cosine, noam, linear, constant; got 'sine'"),
        ("train text.txt --precision half", "--precision must be one of float32, bfloat16, float16; got 'half'"),
        ("train text.txt --micro-batch 0", "--micro-batch must be at least 1, got 0"),
        ("train text.txt --label-smoothing 1", "--label-smoothing must be below 1, got 1\n"),
        ("train text.txt --patience 0", "--patience must be at least 1, got 0"),
        ("train text.txt --min-delta 0.1", "--min-delta is about --patience"),
        ("train text.txt --decay-of norm", "--decay-of must be parts and their decay"),
        ("train text.txt --context 8 --decay-of nrom=0", "no parameter has a part named 'nrom'; there are"),
        (
            "train text.txt --context 8 --layers 1e9",
            "--layers 1000000000, --channels 128, --batch 12 of 8: takes at least",
        ),
        ("train text.txt --context 8 --batch 1e9", "GB, and this machine has"),
        ("train text.txt --context 8 --channels 1e9 --dry-run", "make one of them smaller"),
        ("train text.txt --overfit-one-batch --dry-run", "--overfit-one-batch and --dry-run cannot be combined"),
        ("train text.txt --overfit-one-batch --out x", "--overfit-one-batch and --out cannot be combined"),
        ("train --overfit-one-batch --resume run", "--overfit-one-batch and --resume cannot be combined"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(text, capsys, words, message):
    Path("empty.txt").touch()
    Path("nowhere").symlink_to("none")
    Path("latin.txt").write_bytes(b"caf\xe9")
    Path("wide.txt").write_bytes("wide".encode("utf-32"))
    Path("full").mkdir()
    Path("full/precious.txt").write_text("x")
    before = sorted(str(path) for path in Path(".").rglob("*"))
    assert message in refused(capsys, *words.split())
    assert sorted(str(path) for path in Path(".").rglob("*")) == before


def test_numbers_may_be_written_in_any_way(text, capsys):
    assert main(["train", text, "--dry-run", "--dropout=0", "--steps", "1e3", "--batch", "1_2", "--no-bias"]) == 0


# --- sampling ---------------------------------------------------------------------------------------------------------


def sampled(capsys, *words):
    capsys.readouterr()
    assert main(["sample", "run", *words]) == 0
    return capsys.readouterr()


def test_sample(run, capsys):
    first = sampled(capsys, "--prompt", "the c", "--length", "20", "--seed", "1").out
    assert first.startswith("the c") and len(first.rstrip("\n")) in (24, 25) and first.endswith("\n")
    assert first == sampled(capsys, "--prompt", "the c", "--length", "20", "--seed", "1").out
    assert first != sampled(capsys, "--prompt", "the c", "--length", "20", "--seed", "2").out
    greedy = {sampled(capsys, "--length", "30", "--temperature", "0", "--seed", str(i)).out for i in range(3)}
    assert len(greedy) == 1 == len({sampled(capsys, "--length", "30", "--top-k", "1").out, *greedy})
    assert len(sampled(capsys, "--best", "--length", "9").out) > 5


def test_sample_by_other_rules(run, capsys):
    def text(*words):
        return sampled(capsys, "--prompt", "the c", "--length", "40", "--seed", "1", *words).out.strip("\n")

    plain = text()
    greedy = text("--temperature", "0")
    assert text("--top-p", "0") == greedy == text("--min-p", "1") == text("--beams", "1", "--top-k", "1")
    assert text("--top-p", "1") == plain == text("--min-p", "0") == text("--repetition-penalty", "1")
    assert text("--repetition-penalty", "9", "--temperature", "0") != greedy
    twice = text("--no-repeat", "2")
    assert len({twice[i : i + 2] for i in range(len(twice) - 1)}) == len(twice) - 1
    likeliest = text("--beams", "3")
    assert likeliest.startswith("the c") and likeliest == text("--beams", "3", "--seed", "2")
    assert sampled(capsys, "--top-k", "99", "--length", "3").out  # more than there are characters


def test_sample_stops_behind_a_text(run, capsys):
    whole = sampled(capsys, "--length", "200", "--seed", "1").out
    piece = whole[9:11]
    first = whole.index(piece, 1) + 2
    assert sampled(capsys, "--length", "200", "--seed", "1", "--stop", piece).out.rstrip("\n") == whole[:first].rstrip(
        "\n"
    )
    one = sampled(capsys, "--length", "200", "--seed", "1", "--stop", piece, "--stop", "\\n").out
    assert one.count("\n") <= 1 and whole.startswith(one.rstrip("\n"))
    assert "--stop: 'Z' (U+005A" in refused(capsys, "sample", "run", "--stop", "Z")
    out = sampled(capsys, "--prompt", "the c", "--length", "50", "--beams", "2", "--stop", " ").out.rstrip("\n")
    assert " " not in out[5:-1]


# --- what train can do besides ----------------------------------------------------------------------------------------


def test_train_learns_one_batch_by_heart_or_says_why_not(text, capsys):
    words = ["train", text, *SIZE, "--overfit-one-batch"]
    assert main([*words, "--channels", "32", "--learning-rate", "0.01"]) == 0
    out = capsys.readouterr().out
    assert "one batch  2 x 8 characters" in out and "learned by heart: loss" in out
    assert main([*words, "--learning-rate", "1e-7"]) == 1
    assert "it hardly moves: try a higher learning rate than 1e-07" in capsys.readouterr().out
    assert not Path("runs").exists()


def test_train_in_parts_in_16_bits_and_with_patience(text, capsys):
    options = ["--micro-batch", "1", "--precision", "bfloat16", "--schedule", "noam", "--label-smoothing", "0.1"]
    options += [
        "--matmul-precision",
        "high",
        "--decay-of",
        "embedding=0",
        "--recompute",
        "--patience",
        "1",
        "--min-delta",
        "10",
    ]
    assert train(text, "--out", "run", "--steps", "9", "--eval-interval", "2", *options) == 0
    out = capsys.readouterr().out
    assert "parts      2 of at most 1 windows" in out and "precision  bfloat16 activations" in out
    assert "products   of about 16 bits where the processor has matrix tiles, sums in float32" in out
    assert "stopped early: no progress in 1 evaluations; these are the weights of step" in out
    assert [r["step"] for r in records("run")] == [1, 2, 3, 4] and records("run")[-1]["stopped_early"]
    assert main(["train", "--resume", "run"]) == 0
    assert "this run stopped early" in capsys.readouterr().out and len(records("run")) == 4
    assert main(["train", "--resume", "run", "--patience", "3", "--min-delta", "0", "--precision", "float32"]) == 0
    out = capsys.readouterr().out
    assert "precision bfloat16 -> float32" in out and records("run")[-1]["step"] > 4


@pytest.mark.parametrize("in_pairs", [True, False])
def test_train_says_where_bfloat16_is_faster(capsys, monkeypatch, in_pairs):
    monkeypatch.setattr(_vector, "HAS_PAIRS", in_pairs)
    monkeypatch.setattr(_matrix_tiles, "AVAILABLE", False)
    wide, note = TrainConfig(channels=128), "this processor multiplies bfloat16 twice as fast: --precision bfloat16"
    others = {"precision": "bfloat16"}, {"matmul_precision": "medium"}, {"channels": 64}
    for config in (wide, *(dataclasses.replace(wide, **change) for change in others)):
        plan._tell_precision(PlainDisplay(), config)
        assert (note in capsys.readouterr().out) == (in_pairs and config is wide)


def test_sample_refuses_unknown_characters(run, capsys):
    err = refused(capsys, "sample", "run", "--prompt", "the dog")
    assert "--prompt: 'd' (U+0064, at character 5) is not among the 12 characters" in err


def test_a_long_prompt_is_cropped_and_told(run, capsys):
    out, err = sampled(capsys, "--prompt", "the cat sat on the mat", "--length", "4", "--temperature", "0")
    assert out.startswith("the cat sat on the mat") and "only the last 8 of the prompt's 22 characters" in err
    assert (
        out.strip()[22:]
        == sampled(capsys, "--prompt", " the mat", "--length", "4", "--temperature", "0").out.strip("\n")[8:]
    )


def test_weights_of_another_size_are_refused(run, capsys):
    config = json.loads((run / "config.json").read_text())
    config["config"]["channels"] = 16
    (run / "config.json").write_text(json.dumps(config))
    assert "do not fit" in refused(capsys, "sample", "run")
    assert "does not fit" in refused(capsys, "train", "--resume", "run", "--steps", "9")


# --- the display ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "file, broken, message",
    [
        ("config.json", lambda saved: saved["text"].update(files="many"), "does not say which text was used"),
        ("checkpoint.json", lambda saved: saved.update(latest=".."), "is broken, it names no latest checkpoint"),
        ("checkpoints/step-00000004/state.json", lambda saved: saved.update(seconds=1e400), "seconds must be"),
        ("checkpoints/step-00000004/state.json", lambda saved: saved.update(best_step=1e400), "does not fit"),
        ("checkpoints/step-00000004/state.json", lambda saved: saved.update(stopping=3), "does not fit"),
    ],
)
def test_what_is_wrong_inside_a_run_folder_is_told(run, capsys, file, broken, message):
    saved = json.loads((run / file).read_text())
    broken(saved)
    (run / file).write_text(json.dumps(saved))
    assert message in refused(capsys, "train", "--resume", "run", "--steps", "8", "--patience", "9")


@pytest.mark.parametrize("kind", ["weights", "optimizer"])
def test_broken_arrays_of_a_checkpoint_are_told(run, capsys, kind):
    from safetensors import safe_open
    from safetensors.numpy import save_file

    path = run / f"checkpoints/step-00000004/{kind}.safetensors"
    with safe_open(path, framework="numpy") as file:
        arrays, metadata = {name: file.get_tensor(name) for name in file.keys()}, file.metadata()  # noqa: SIM118
    broken = {
        name: array * float("nan") if kind == "weights" else array.reshape(-1)[:1] for name, array in arrays.items()
    }
    save_file(broken, path, metadata)
    words = "holds NaN or an infinity" if kind == "weights" else "must have the shape"
    assert words in refused(capsys, "train", "--resume", "run", "--steps", "8")


def test_lines_that_are_no_records_are_left_out_of_the_metrics(run, capsys):
    with open(run / "metrics.jsonl", "a") as file:
        file.write('{"step": null}\n')
    assert main(["train", "--resume", "run", "--steps", "6"]) == 0
    assert [record["step"] for record in records(run)] == [1, 2, 3, 4, 5, 6]


def test_a_run_that_cannot_go_on_before_its_first_step_says_so(run, capsys, monkeypatch):
    from tinygrad_tf.cli import train as module
    from tinygrad_tf.training.loop import TrainingError

    def calibrate(trainer):
        raise TrainingError("step 5: the loss is inf")

    monkeypatch.setattr(module, "calibrate", calibrate)
    err = refused(capsys, "train", "--resume", "run", "--steps", "8", code=1)
    assert err == "tinygrad-tf train: step 5: the loss is inf\n"


def test_an_error_of_the_disk_is_one_line(run, capsys, monkeypatch):
    def full(self):
        raise OSError(28, "No space left on device", "run/config.json")

    monkeypatch.setattr("tinygrad_tf.training.checkpoint.Run.write_config", full)
    err = refused(capsys, "train", "--resume", "run", "--steps", "8", code=1)
    assert err == "tinygrad-tf train: run/config.json: No space left on device\n"


def test_a_file_that_is_named_twice_is_noted(text, capsys):
    note = "./text.txt is named twice: its text may be in both parts, trained on and not"
    assert train(text, "./text.txt", "--dry-run") == 0 and note in capsys.readouterr().out
    Path("other.txt").write_text(TEXT)
    assert train(text, "other.txt", "--dry-run") == 0 and "twice" not in capsys.readouterr().out


def test_every_setting_is_an_option_with_help_and_default(capsys):
    assert main(["train", "--help"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    for field in dataclasses.fields(TrainConfig):
        words = field.metadata["help"].partition(" [default: ")[0]
        assert re.search(rf"{flag(field.name)} \S.*? {re.escape(words)} \[default: ", out), field.name
    assert "[default: 0.001]" in out and "[default: runs/DATE-TIME]" in out
    assert main(["--help"]) == 0 and "sample" in capsys.readouterr().out
    assert main([]) == 0 and "sample" in capsys.readouterr().out
    assert main(["--version"]) == 0 and capsys.readouterr().out.startswith("tinygrad_tf ")


@pytest.mark.parametrize("columns", [80, 60])
def test_help_fits_the_terminal_and_cuts_nothing_off(capsys, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    program = typer.main.get_command(app)
    for name, command in {"": program, **program.commands}.items():
        assert main([name, "--help"] if name else ["--help"]) == 0
        out = capsys.readouterr().out
        assert max(map(len, out.splitlines())) <= columns
        for parameter in command.params:
            for word in [*parameter.opts, *parameter.secondary_opts]:
                assert not word.startswith("-") or re.search(rf"(?<![\w-]){word}(?![\w-])", out), word
        assert "…" not in out and "..." not in out.replace("]...", "").replace(" COMMAND [ARGS]...", "")
        assert "list[" not in out and "<bool>" not in out and "{" not in out


def test_live_display_fits_a_terminal_line(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr("tinygrad_tf.cli.display.SECONDS_BETWEEN_FRAMES", 0.0)
    display = LiveDisplay()
    display.start(0, 2000)
    for step in range(1, 41):
        display.show(Record(step, 4.0 - step / 20, 1e-3, 1.0, 45_000.0, float(step), 2.5 if step == 30 else None))
    display.sample(30, "a [b]line[/b]\nand more")
    display.stop()
    out = capsys.readouterr().out
    assert "loss 2.475" in out and "val 2.500" in out and "45.0k tok/s" in out and "left" in out and "█" in out
    assert "a [b]line[/b] ⏎ and more" in out and not re.search("\x1b\\[[349]\\d", out)  # no colours


@pytest.mark.parametrize("kind", [PlainDisplay, LiveDisplay])
def test_a_long_evaluation_tells_how_far_it_is(capsys, monkeypatch, kind):
    now = 1000.0
    monkeypatch.setattr("tinygrad_tf.cli.display.time.monotonic", lambda: now)
    monkeypatch.setenv("FORCE_COLOR", "1")
    display = kind()
    display.start(0, 10)
    for batch in (0.001, 1.0):  # seconds
        for done in range(100, 3001, 100):
            display.evaluated(done, 3000)
            now += batch
    display.stop()
    out = capsys.readouterr().out
    assert "evaluating: 200 of 3,000 characters, 0:28 left" in out
    if kind is PlainDisplay:
        assert out.count("evaluating") == 3  # one each ten seconds, and none in the last five


def test_plain_display_is_sparing(capsys):
    display = PlainDisplay()
    display.start(0, 1000)
    for step in range(1, 1001):
        display.show(Record(step, 2.0, 1e-3, 1.0, 1000.0, 1.0, 1.9 if step % 500 == 0 else None))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines] == ["1/1000", "500/1000", "1000/1000"]
    assert "validation 1.9000" in lines[1] and "validation" not in lines[0]


def test_curve_merges_and_scales():
    curve = Curve(10)
    for value in range(1000):
        curve.add(float(value))
    drawn = curve.drawn()
    assert len(drawn) <= 10 and drawn[0] == "▁" and drawn[-1] == "█" and list(drawn) == sorted(drawn)
    flat = Curve(10)
    flat.add(1.0)
    assert flat.drawn() == "▁" and flat.recent() == 1.0


def test_words():
    assert [duration(s) for s in (0, 59.6, 75, 3700)] == ["0:00", "1:00", "1:15", "1:01:40"]
    assert one_line("a\nb\x07\tc 漢\n") == "a ⏎ b\\x07\\tc 漢"
    assert Clock(0, 10).left(10) == 0


def test_a_run_folder_that_may_not_be_entered_is_told(run, capsys, monkeypatch):
    def refuse(self):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr("tinygrad_tf.training.checkpoint.Path.is_file", refuse)
    assert refused(capsys, "sample", "run") == "tinygrad-tf sample: run: cannot be read: Permission denied\n"


def test_a_bad_variable_of_the_environment_is_one_line(run, capsys, monkeypatch):
    def calibrate(trainer):  # the kernels read it once, at their import
        raise ValueError("TINYGRAD_TF_NUM_THREADS must be an integer from 1 to 1024, got 0")

    monkeypatch.setattr("tinygrad_tf.cli.train.calibrate", calibrate)
    err = refused(capsys, "train", "--resume", "run", "--steps", "8")
    assert err == "tinygrad-tf train: TINYGRAD_TF_NUM_THREADS must be an integer from 1 to 1024, got 0\n"


def test_a_package_that_is_not_there_is_named(text, capsys, monkeypatch):
    import tomllib

    from tinygrad_tf.cli import PACKAGES

    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
    assert list(PACKAGES) == [re.split(r"\W", words)[0] for words in project["dependencies"]]
    for module, package in (("typer", "typer"), ("safetensors.numpy", "safetensors")):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, module, None)
            patch.delitem(sys.modules, "tinygrad_tf.cli.app")
            patch.delitem(sys.modules, "tinygrad_tf.cli.options", raising=False)
            err = refused(capsys, "train", text, *SIZE, "--steps", "1", "--out", package)
        assert err.startswith(
            f"tinygrad-tf: needs the package {package}, which this Python does not have; install it: "
        )
        assert err.endswith(f" -m pip install {package}\n")


def test_a_run_without_a_picture_does_not_name_it(text, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert train(text, "--out", "run", "--steps", "1") == 0
    out = capsys.readouterr().out
    assert "the loss curve could not be drawn: " in out and "run: model, metrics.jsonl\n" in out


def test_a_text_does_not_move_the_cursor(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a\nb").write_text("\x1b" * 400)
    assert train("a\nb", "--out", "run", "--steps", "1") == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out and "\\x1b\\x1b" in out and out.startswith("text       a ⏎ b: 400 characters")


def test_a_closed_terminal_and_what_cannot_be_shown_lose_nothing(text, capsys, monkeypatch):
    show = PlainDisplay.show

    def hung_up(self, record):
        show(self, record)
        if record.step == 3:
            os.kill(os.getpid(), signal.SIGHUP)
            raise OSError(5, "Input/output error")

    options = ["--steps", "6", "--eval-interval", "6"]
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup themselves
    try:
        with monkeypatch.context() as patch:
            patch.setattr(PlainDisplay, "show", hung_up)
            assert train(text, "--out", "run", *options) == 128 + signal.SIGHUP
        assert "Input/output error. The checkpoint of step 3 is kept; go on with:" in capsys.readouterr().err
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
        with monkeypatch.context() as patch:
            patch.setattr(PlainDisplay, "show", lambda self, record: os.kill(os.getpid(), signal.SIGHUP))
            assert train(text, "--out", "nohup", *options) == 0
    finally:
        signal.signal(signal.SIGHUP, before)


def test_the_commands_that_are_shown_work(text, capsys):
    import shlex

    for name in ("-run", "a b'$x", "plain"):
        capsys.readouterr()
        assert train(text, f"--out={name}", "--steps", "1") == 0
        folder = shlex.split(capsys.readouterr().out.splitlines()[-1].partition(" sample ")[2])
        assert main(["sample", *folder, "--length", "3"]) == 0


def test_a_text_from_standard_input_is_called_so(text, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", open(text))  # noqa: SIM115
    assert main(["train", "-", *SIZE, "--dry-run"]) == 0
    assert capsys.readouterr().out.startswith("text       standard input: 720 characters")


def test_closed_standard_streams(text):
    words = [sys.executable, "-m", "tinygrad_tf", "train", text, *SIZE, "--steps", "2", "--out", "run"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    shell = subprocess.run(["sh", "-c", '"$@" >&- 2>&- <&-', "sh", *words], env=environment, check=False)
    assert shell.returncode == 0 and [record["step"] for record in records("run")] == [1, 2]


def test_train_does_not_report_success_to_a_closed_pipe(text):
    words = [sys.executable, "-m", "tinygrad_tf", "train", text, *SIZE, "--steps", "4", "--out", "run"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        process.stdout.close()
        err = process.stderr.read().decode()
    assert process.returncode == 1 and err.count("\n") == 1 and "standard output was closed" in err


def test_as_a_process(tmp_path):
    """`python -m tinygrad_tf`, and a reader that has seen enough."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, "-m", "tinygrad_tf", "train", "--context", "x"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False)
    assert done.returncode == 2 and done.stdout == "" and done.stderr.count("\n") == 1

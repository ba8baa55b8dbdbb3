"""The run folder: what training writes, so that it can go on and be sampled.

    RUN/config.json            settings and where the text came from
        tokenizer.json         the vocabulary
        tokens.npy             the text as token ids, read through a memory map
        metrics.jsonl          one record a step
        checkpoint.json        which checkpoint is the latest, which the best
        checkpoints/step-N/    weights.safetensors, optimizer.safetensors, state.json
        loss.png

A checkpoint is written into a folder of its own, and checkpoint.json is replaced last, in one rename. So after a crash
at any moment checkpoint.json names a whole checkpoint, whose three files belong together. Every file carries a format
version.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tinygrad_tf.training.config import TrainConfig
from tinygrad_tf.training.files import arrays_as_bytes, locked, read_json, write_json
from tinygrad_tf.training.loop import Arrays, TrainerState
from tinygrad_tf.training.trainer import Record, Trainer
from tinygrad_tf.utils.data import CharTokenizer, load_tokens, save_tokens
from tinygrad_tf.utils.data.tokens import Tokens
from tinygrad_tf.utils.errors import InputError
from tinygrad_tf.utils.files import sync_folder, write_atomically

FORMAT = 1
SECONDS_BETWEEN_SAVES = 60.0  # at most so much work is lost to a crash, also where evaluations are rare


@dataclass
class Run:
    """An open run folder."""

    folder: Path
    config: TrainConfig
    tokenizer: CharTokenizer
    text: dict[str, Any]  # source, files, characters

    # --- making and opening ---------------------------------------------------------------------------------------

    @classmethod
    def create(
        cls,
        folder: str | os.PathLike[str],
        config: TrainConfig,
        tokenizer: CharTokenizer,
        tokens: Tokens,
        text: dict[str, Any],
    ) -> Run:
        """Make a run folder; one that exists and is not empty is an InputError: no run is ever overwritten."""
        run = cls(Path(folder), config, tokenizer, text)
        check_free(run.folder)
        made = not os.path.isdir(run.folder)
        try:
            run.folder.mkdir(parents=True, exist_ok=True)
            with open(run.folder / "tokens.npy", "xb"):  # of two processes that want this folder one gets it
                pass
        except FileExistsError:
            raise InputError(f"{folder}: another run has just begun there; choose another --out") from None
        except (OSError, ValueError) as error:  # ValueError: a NUL in the name
            raise InputError(f"{folder}: cannot be written: {getattr(error, 'strerror', None) or error}") from None
        try:
            save_tokens(run.folder / "tokens.npy", tokens, len(tokenizer))
            write_json(run.folder / "tokenizer.json", tokenizer.state())
            run.write_config()
        except BaseException as error:
            with contextlib.suppress(OSError):  # what is there is ours, and of no use
                for path in run.folder.iterdir():
                    path.unlink()
                if made:
                    run.folder.rmdir()
            if isinstance(error, OSError):
                raise InputError(f"{folder}: cannot be written: {error.strerror or error}") from None
            raise
        return run

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> Run:
        """Open what `create` made; an InputError says what is missing, broken, or of another program or version."""
        path = Path(folder)
        if not os.path.isdir(folder):
            why = "is a file, not a run folder" if os.path.exists(folder) else "no such run folder"
            raise InputError(f"{folder or repr('')}: {why}")
        try:
            has_config = (path / "config.json").is_file()
        except OSError as error:  # a folder that may not be entered
            raise InputError(f"{folder}: cannot be read: {error.strerror}") from None
        if not has_config:
            raise InputError(f"{folder}: is not a run folder of tinygrad-tf train (it has no config.json)")
        saved = read_json(path / "config.json")
        config = TrainConfig.from_dict(saved.get("config"), str(path / "config.json"))
        text = saved.get("text")
        if not isinstance(text, dict) or type(text.get("files", 1)) is not int:
            raise InputError(f"{path / 'config.json'}: is broken, it does not say which text was used")
        return cls(path, config, CharTokenizer.load(path / "tokenizer.json"), text)

    def write_config(self) -> None:
        saved = {"format": FORMAT, "config": self.config.as_dict(), "text": self.text}
        write_json(self.folder / "config.json", saved)

    def tokens(self) -> Tokens:
        """The text's token ids, memory-mapped."""
        path = self.folder / "tokens.npy"
        if not path.exists():
            raise InputError(
                f"{path}: no such file; it holds the text, without which training cannot go on: start a new run "
                f"(`tinygrad-tf sample {shlex.quote(str(self.folder))}` needs no text)"
            )
        return load_tokens(path, len(self.tokenizer))

    def lock(self) -> contextlib.AbstractContextManager[None]:
        """Keep other processes from training in this folder at the same time."""
        return locked(self.folder / ".lock", str(self.folder))

    # --- checkpoints ----------------------------------------------------------------------------------------------

    def save(self, trainer: Trainer) -> None:
        """Save where the trainer stands; TrainingError (and nothing is written) when a weight is not finite."""
        state = trainer.state()
        name = f"step-{trainer.step:08d}"
        pointer = self._pointer() if self.begun() else {}
        if pointer.get("latest") == name:
            return  # the same step of the same run: the same bits
        best = name if trainer.best_step == trainer.step else pointer.get("best", name)
        self._write(self.folder / "checkpoints" / name, state)
        write_json(self.folder / "checkpoint.json", {"format": FORMAT, "latest": name, "best": best})
        self._keep({name, best, pointer.get("latest")})  # someone may be reading the one before

    def load(self, trainer: Trainer) -> None:
        """Bring the trainer to the latest checkpoint."""
        folder = self._checkpoint("latest")
        state = self._read(folder)
        try:
            trainer.load_state(state)
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError, RuntimeError) as error:
            why = "does not fit the run's configuration (was config.json edited? put it back)"
            raise InputError(f"{folder}: {why}: {error}") from None
        if trainer.stopping is not None and trainer.best_step:
            trainer.stopping.weights = self.weights("best")[1]

    def weights(self, which: str = "latest") -> tuple[int, Arrays]:
        """Step and weights by name, of the "latest" checkpoint or of the "best" by validation loss."""
        state = self._read(self._checkpoint(which), only_weights=True)
        return int(state.progress["step"]), state.weights

    def begun(self) -> bool:
        """Whether there is a checkpoint; not after a crash before the first one. One that went missing: InputError."""
        if (self.folder / "checkpoint.json").exists():
            return True
        there = sorted(path.name for path in (self.folder / "checkpoints").glob("step-*[1-9]*"))
        if there:
            named = f"which names the latest and the best of its checkpoints ({', '.join(there)}): put it back"
            raise InputError(f"{self.folder}: has no checkpoint.json, {named}")
        return False

    def _pointer(self) -> dict[str, Any]:
        if not self.begun():
            raise InputError(f"{self.folder}: has no checkpoint yet; go on with train --resume {self.folder}")
        return read_json(self.folder / "checkpoint.json")

    def _checkpoint(self, which: str) -> Path:
        name = self._pointer().get(which)
        if not isinstance(name, str) or Path(name).name != name or not name.startswith("step-"):
            raise InputError(f"{self.folder / 'checkpoint.json'}: is broken, it names no {which} checkpoint")
        if not (self.folder / "checkpoints" / name).is_dir():
            raise InputError(f"{self.folder}: the checkpoint {name}, which checkpoint.json names, is missing")
        return self.folder / "checkpoints" / name

    def _write(self, target: Path, state: TrainerState) -> None:
        target.parent.mkdir(exist_ok=True)
        part = target.with_name(f".{target.name}.part")
        for leftover in (part, target):  # of a crash: checkpoint.json does not name it
            shutil.rmtree(leftover, ignore_errors=True)
        part.mkdir()
        step = {"format": str(FORMAT), "step": str(state.progress["step"])}
        for kind, arrays in (("weights", state.weights), ("optimizer", state.optimizer)):
            write_atomically(part / f"{kind}.safetensors", arrays_as_bytes(arrays, {**step, "kind": kind}))
        write_json(part / "state.json", {"format": FORMAT, **state.progress})
        os.rename(part, target)
        sync_folder(target.parent)

    def _keep(self, names: set[str | None]) -> None:
        for path in (self.folder / "checkpoints").iterdir():
            if path.name not in names:
                shutil.rmtree(path, ignore_errors=True)

    def _read(self, folder: Path, only_weights: bool = False) -> TrainerState:
        progress = read_json(folder / "state.json")
        step = progress.get("step")
        weights = read_arrays(folder / "weights.safetensors", "weights", step)
        for name, array in weights.items():
            if not np.isfinite(array).all():  # `save` writes no such thing
                raise InputError(f"{folder / 'weights.safetensors'}: is broken ({name} holds NaN or an infinity)")
        optimizer = {} if only_weights else read_arrays(folder / "optimizer.safetensors", "optimizer", step)
        return TrainerState(weights, optimizer, progress)

    # --- metrics --------------------------------------------------------------------------------------------------

    def follow(self, trainer: Trainer) -> Iterator[Record]:
        """The trainer's records, each written to metrics.jsonl; evaluations, and minutes, end with a checkpoint."""
        for part in self.folder.glob(".*.part"):  # of a crash
            part.unlink(missing_ok=True)
        self._trim_metrics(trainer.step)
        self.save(trainer)
        saved = time.monotonic()
        with open(self.folder / "metrics.jsonl", "a", encoding="ascii", buffering=1) as file:
            for record in trainer.train():
                with trainer.undisturbed():
                    file.write(json.dumps({"format": FORMAT, **record.as_dict()}) + "\n")
                    if record.validation_loss is not None or time.monotonic() - saved > SECONDS_BETWEEN_SAVES:
                        self.save(trainer)
                        saved = time.monotonic()
                yield record

    def metrics(self) -> list[dict[str, Any]]:
        """The records of metrics.jsonl; a line that a crash cut off, or that is no record, ends the list."""
        path = self.folder / "metrics.jsonl"
        records: list[dict[str, Any]] = []
        if path.exists():
            with contextlib.suppress(ValueError, TypeError), open(path, "rb") as file:
                for line in file:
                    record = {**json.loads(line)}
                    if type(record.get("step")) is not int:
                        break
                    records.append(record)
        return records

    def _trim_metrics(self, step: int) -> None:
        """Leave out what came after the checkpoint: those steps are done again."""
        path = self.folder / "metrics.jsonl"
        kept = [record for record in self.metrics() if record["step"] <= step]
        content = "".join(json.dumps(record) + "\n" for record in kept).encode("ascii")
        if path.exists() and path.read_bytes() != content:
            write_atomically(path, content)


def check_free(folder: Path) -> None:
    """An InputError when a run cannot be made there because something is there already."""
    if not os.path.isdir(folder):  # also where the name is too long to ask
        if os.path.lexists(folder):
            what = "is a file" if os.path.exists(folder) else "is a link that leads nowhere"
            raise InputError(f"{folder}: {what}; choose another --out")
        return
    try:
        empty = not any(folder.iterdir())
    except OSError as error:
        raise InputError(f"{folder}: cannot be read: {error.strerror or error}; choose another --out") from None
    if not empty:
        again = f"go on with --resume {folder}, or" if (folder / "config.json").exists() else ""
        raise InputError(f"{folder}: exists and is not empty; {again} choose another --out".replace("  ", " "))


def check_writable(folder: Path) -> None:
    """An InputError when nothing can be written there, found by trying, so that no time is lost before it is told."""
    try:
        there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        with tempfile.TemporaryDirectory(prefix=".tinygrad-tf-", dir=there):
            pass
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        why = getattr(error, "strerror", None) or error
        raise InputError(f"{folder}: cannot be written: {why}; choose another --out") from None


def new_folder(parent: Path, name: str) -> Path:
    """parent/name, or with -2, -3 ... behind it, whichever is free."""
    candidates = (parent / (name if i == 1 else f"{name}-{i}") for i in range(1, 10_000))
    return next(path for path in candidates if not path.exists())


def read_arrays(path: Path, kind: str, step: Any) -> Arrays:
    """The arrays of a safetensors file that `Run.save` wrote at that step; else an InputError."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            if metadata.get("kind") != kind or metadata.get("format") != str(FORMAT):
                known = f"format {metadata['format']!r}" if "format" in metadata else "no format version"
                raise InputError(f"{path}: has {known}; this version of tinygrad-tf reads its own format {FORMAT} only")
            if metadata.get("step") != str(step):
                raise InputError(f"{path}: is of step {metadata.get('step')}, but state.json of step {step}")
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - it is not a dict
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (SafetensorError, OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: is broken ({error})") from None

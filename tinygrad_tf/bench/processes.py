"""One process for each library, asked in turns, so that a drift of the machine's speed meets all of them."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

OWN, PYTORCH, NUMPY = "tinygrad_tf", "torch", "numpy"
SHOWN = {OWN: OWN, PYTORCH: "PyTorch", NUMPY: "NumPy"}
PACKAGE = Path(__file__).parents[1]
# They make NumPy's OpenBLAS take other kernels than the processor's own.
UNSET = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
THREADS = ("TINYGRAD_TF_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
START = "from tinygrad_tf.bench.worker import main; main()"
# A stand-in for the package, so that another library's process imports this folder alone and none of the rest.
START_OTHER = (
    f"import sys, types; package = types.ModuleType('tinygrad_tf'); package.__path__ = [{str(PACKAGE)!r}]; "
    f"sys.modules['tinygrad_tf'] = package; {START}"
)


class WorkerError(RuntimeError):
    """A library cannot do what was asked; the message is one line."""


def installed(library: str) -> bool:
    """Whether a library can be found; nothing is imported."""
    return importlib.util.find_spec(library) is not None


class Worker:
    """The process of one library."""

    def __init__(self, library: str, threads: int | None) -> None:
        self.library = library
        self._owes_answer = True  # the first one says that it is ready
        self._errors = tempfile.TemporaryFile(mode="w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        code = START if library == OWN else START_OTHER
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", code, library, str(threads or 0)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors,
            text=True, encoding="utf-8", env=_environment(threads),
        )  # fmt: skip

    def ask(self, **request: Any) -> dict[str, Any]:
        """Send a request and wait for its answer."""
        assert self._process.stdin is not None
        self._owes_answer = True
        with contextlib.suppress(BrokenPipeError):  # it has ended: the answer says why
            print(json.dumps(request), file=self._process.stdin, flush=True)
        return self.answer()

    def answer(self) -> dict[str, Any]:
        """The next answer."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        self._owes_answer = False
        answer = json.loads(line) if line else {"error": self._last_words()}
        if "error" in answer:
            raise WorkerError(f"{SHOWN[self.library]}: {answer['error']}")
        return dict(answer)

    def close(self) -> None:
        """End the process; one that is still at work, because the program was stopped, is not waited for."""
        assert self._process.stdin is not None and self._process.stdout is not None
        if self._owes_answer:
            self._process.kill()
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._errors.close()

    def _last_words(self) -> str:
        code = self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().split("\n")
        last = next((line for line in reversed(lines) if line.strip()), "")
        return f"its process ended with code {code}" + (f": {last[:200]}" if last else "")


def _environment(threads: int | None) -> dict[str, str]:
    environment = {name: value for name, value in os.environ.items() if name not in UNSET}
    if threads is not None:
        environment |= dict.fromkeys(THREADS, str(threads))
    paths = [str(PACKAGE.parent), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    return environment


class Team:
    """The processes of some libraries, started when they are first asked for."""

    def __init__(self, threads: int | None) -> None:
        self.threads = threads
        self.workers: dict[str, Worker] = {}
        self.errors: dict[str, str] = {}  # why a library has left

    def gather(self, libraries: Sequence[str]) -> None:
        """Have these ready; one that left with an error begins anew."""
        self.errors = {}
        missing = [library for library in libraries if library not in self.workers]
        self.workers |= {library: Worker(library, self.threads) for library in missing}
        for library in missing:
            with self.trying(library):
                self.workers[library].answer()  # that it is ready

    @contextlib.contextmanager
    def trying(self, library: str) -> Iterator[None]:
        """Leave a library out from here on if it cannot do what is asked in this block."""
        try:
            yield
        except WorkerError as error:
            self.errors[library] = str(error)
            self.workers.pop(library).close()

    def close(self) -> None:
        """End the processes."""
        for worker in self.workers.values():
            worker.close()

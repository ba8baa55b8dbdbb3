"""`tinygrad-tf bench`: measure, print each row as it comes, and keep all of it as JSON."""

from __future__ import annotations

import importlib.metadata
import json
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from tinygrad_tf.bench.measure import Case, Measurer, Pace, Row
from tinygrad_tf.bench.processes import NUMPY, OWN, PYTORCH, WorkerError, installed
from tinygrad_tf.bench.report import NOTES, QUICK, TITLES, Table, machine_lines, summary
from tinygrad_tf.bench.sections import SECTIONS
from tinygrad_tf.cli.options import argument, nearest, option, read_number
from tinygrad_tf.utils.errors import InputError
from tinygrad_tf.utils.files import write_atomically


@dataclass(frozen=True)
class Request:
    """sections: none means all. json_file: where to keep the figures."""

    sections: Sequence[str] = ()
    full: bool = False
    quick: bool = False
    alone: bool = False
    rounds: int | None = None
    threads: int | None = None
    json_file: str | None = None


def command(
    sections: Annotated[list[str] | None, argument("SECTION")] = None,
    full: Annotated[bool, typer.Option("--full", help="Also the baby configuration: seconds a step.")] = False,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Run everything small and almost once: shows that all of it works and agrees."),
    ] = False,
    alone: Annotated[bool, typer.Option("--alone", help="Leave PyTorch out.")] = False,
    rounds: Annotated[str | None, option("How often each library gets its turn.", "N", "3 to 7")] = None,
    threads: Annotated[str | None, option("Threads of each library.", "N", "all cores")] = None,
    json_file: Annotated[str | None, typer.Option("--json", help="Keep all figures there.", metavar="FILE")] = None,
) -> Callable[[], int]:
    """Measure this machine, beside PyTorch.

    SECTION: any of steps (of training a GPT), lessons (steps of other models), ops (single operations), growth (with
    size) and generation. Without any: all five.

    The libraries take turns in processes of their own. Let nothing else run meanwhile: all sections take six minutes
    or so, and --full two more. Exit code 1: a row failed, or the libraries disagree.
    """

    def job() -> int:
        number = read_number("--rounds", rounds, int, 1)
        count = read_number("--threads", threads, int, 1)
        return run(Request(sections or (), full, quick, alone, number, count, json_file))

    return job


def run(request: Request) -> int:
    """Measure all; 0 if every row could be measured and the libraries agree, 1 if not."""
    sections, target = _checked(request)
    with_torch = not request.alone and installed(PYTORCH)
    libraries = (OWN, PYTORCH, NUMPY) if with_torch else (OWN, NUMPY)
    measurer = Measurer(_pace(request))
    found: dict[str, Any] = {"machine": {}, "pytorch": _version() if with_torch else None, "sections": {}}
    try:
        machine = found["machine"] = _machine(measurer)
        measurer.pace = replace(measurer.pace, threads=machine["threads"])  # the same for the others
        print("\n".join([*machine_lines(machine, found["pytorch"]), "", QUICK if request.quick else NOTES]), flush=True)
        wrong = 0
        for section in sections:
            rows: list[Row] = []
            found["sections"][section] = rows
            cases = SECTIONS[section](request.full, request.quick)
            table = Table(section, libraries, machine["peak"]["registers"][-1], [case.name for case in cases])
            print(f"\n{TITLES[section]}\n{table.head()}", flush=True)
            for case in cases:
                rows.append(measurer.measure(case, libraries, shared=section in ("lessons", "ops")))
                print(table.line(rows[-1]), flush=True)
                _keep(target, found)
            print("".join(f"{line}\n" for line in summary(section, rows)), end="", flush=True)
            wrong += sum(row.problem() is not None for row in rows)
    finally:
        measurer.close()
    if wrong:
        print(f"\n{wrong} row{' is' if wrong == 1 else 's are'} wrong, see above")
    return 1 if wrong else 0


def _checked(request: Request) -> tuple[list[str], Path | None]:
    """The sections in the order of the program, and the file; an InputError before anything is measured."""
    for name in request.sections:
        if name not in SECTIONS:
            hint = nearest(name, SECTIONS) or f"; there are {', '.join(SECTIONS)}"
            raise InputError(f"there is no section {name!r}{hint}")
    if request.full and request.quick:
        raise InputError("--full and --quick cannot be combined: one measures more, the other almost nothing")
    target = None if request.json_file is None else Path(request.json_file)
    if request.json_file == "":
        raise InputError("--json must name a file, got ''")
    if target is not None:
        folder = target.absolute().parent
        if target.is_dir():
            raise InputError(f"--json {target}: that is a folder; name a file in it")
        if not folder.is_dir():
            raise InputError(f"--json {target}: there is no folder {folder}; create it, or name another one")
        if not os.access(folder, os.W_OK):
            raise InputError(f"--json {target}: the folder {folder} cannot be written to; name another one")
    return [name for name in SECTIONS if name in request.sections or not request.sections], target


def _pace(request: Request) -> Pace:
    if request.quick:
        return Pace(request.threads or 1, 0.0, 1, request.rounds or 2, True, 0.01, 8)
    return Pace(request.threads, rounds=request.rounds)


def _machine(measurer: Measurer) -> dict[str, Any]:
    arguments = {"seconds": measurer.pace.peak_seconds, "megabytes": measurer.pace.copy_megabytes}
    try:
        return dict(measurer.ask_once(Case("machine", "machine", arguments, (OWN,))))
    except WorkerError as error:
        raise InputError(str(error)) from error


def _version() -> str:
    try:
        return importlib.metadata.version(PYTORCH)
    except importlib.metadata.PackageNotFoundError:
        return "of unknown version"


def _keep(target: Path | None, found: dict[str, Any]) -> None:
    """Everything so far, after each row: stopping the program loses nothing that was printed."""
    if target is None:
        return
    sections = {
        name: [{**asdict(row), "problem": row.problem()} for row in rows] for name, rows in found["sections"].items()
    }
    text = json.dumps(_as_json({**found, "sections": sections}), indent=1)
    write_atomically(target, (text + "\n").encode())


def _as_json(value: Any) -> Any:
    """JSON has no word for NaN and infinity: they become text."""
    if isinstance(value, dict):
        return {name: _as_json(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_as_json(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value

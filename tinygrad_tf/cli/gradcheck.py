"""`tinygrad-tf gradcheck`: check the gradients of a file's functions, and show a table of the results."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from tinygrad_tf.autograd.check import Settings, examine
from tinygrad_tf.autograd.report import NOISY, RIGHT, Report
from tinygrad_tf.autograd.subjects import TensorSubject
from tinygrad_tf.autograd.targets import Job, TargetError, find, told
from tinygrad_tf.utils.errors import InputError


@dataclass(frozen=True)
class Request:
    """targets: `file.py` or `file.py::name`; none means the package's own table.

    shapes: `3,4` for each input, in order. verbose: print every report.
    """

    targets: Sequence[str]
    shapes: Sequence[str] = ()
    seed: int = 0
    verbose: bool = False


def run(request: Request) -> int:
    """Check all targets; 0 if every gradient is right, 1 if not."""
    try:
        shapes = [_shape(text) for text in request.shapes]
        if shapes and not request.targets:
            raise TargetError("--shape is of the inputs of a FILE.py; name one, or leave --shape out")
        jobs = [job for target in request.targets for job in find(target, shapes, request.seed)]
        if not request.targets:
            jobs = own_table(request.seed)
        return check_all(jobs, request.verbose)
    except TargetError as error:
        raise InputError(str(error)) from error


def own_table(seed: int) -> list[Job]:
    """A job for every operation, layer and model of the package."""
    from tinygrad_tf.checks import CASES, Case

    def check(case: Case) -> Report:
        function, leaves = case.build(np.random.default_rng(seed), np.float64)
        named = [(f"input {i}", leaf) for i, leaf in enumerate(leaves)]
        return examine(TensorSubject(function, named, []), Settings(fast=True), case.name)

    return [Job(case.name, partial(check, case)) for case in CASES]


def check_all(jobs: Sequence[Job], verbose: bool = False) -> int:
    """Run the jobs with progress, print the table, then the reports of what is not right, and why some have none.

    A job that cannot be checked is an error if it is the only one; among others it is a row of the table.
    """
    from rich.console import Console
    from rich.progress import track
    from rich.table import Table

    console = Console()
    table = Table(title=f"gradcheck: {len(jobs)} check{'' if len(jobs) == 1 else 's'}")
    for column in ("check", "verdict", "worst error", "evaluations", "seconds"):
        table.add_column(column, justify="left" if column in ("check", "verdict") else "right")
    reports: list[Report] = []
    unchecked: list[str] = []
    for job in track(jobs, "checking", console=console, transient=True, disable=not console.is_terminal):
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                report = _run(job)
            except TargetError as error:
                if len(jobs) == 1:
                    raise
                unchecked.append(str(error))
                table.add_row(job.name, "[red]not checked[/]", "-", "-", "-")
                continue
        seconds = time.perf_counter() - start
        reports.append(report)
        style = "green" if report.verdict == RIGHT else "yellow" if report.verdict == NOISY else "red"
        worst = f"{report.worst_error:.1e}" if report.pairs or report.directions else "-"
        table.add_row(job.name, f"[{style}]{report.verdict}[/]", worst, str(report.evaluations), f"{seconds:.2f}")
    console.print(table)
    for report in reports:
        if verbose or report.verdict != RIGHT:
            console.print(str(report), highlight=False, markup=False, soft_wrap=True)
    for line in unchecked:
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    return 0 if all(r.verdict == RIGHT for r in reports) and not unchecked else 1


def _run(job: Job) -> Report:
    try:
        return job.run()
    except (KeyboardInterrupt, MemoryError, TargetError):
        raise
    except BaseException as error:  # the function is the user's, and may raise anything
        raise TargetError(f"{job.name} cannot be checked: {told(error, job.file)}") from error


def _shape(text: str) -> tuple[int, ...]:
    try:
        inner = text.strip("() ").removesuffix(",")
        sizes = tuple(int(part) for part in inner.replace("x", ",").split(",")) if text.strip("() ") else ()
    except ValueError:
        sizes = (-1,)
    if any(n < 0 for n in sizes):
        raise TargetError(f"--shape must be sizes like 3,4 (or () for a number), got {text!r}")
    return sizes

"""Plants the mutants one after the other, and judges each by the rows that can see it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tests.mutation.damage import Mutant, label, mutants_of, rules_of
from tests.mutation.rows import TESTS, WAYS, Row, Seen, close, numbers
from tinygrad_tf.checks import Case
from tinygrad_tf.engine import Fused, Operation

TRIES = 12  # rows on which a test may miss a mutant before it is given up
CAUGHT, EQUIVALENT, SURVIVED, NOT_MADE = "caught", "equivalent", "survived", "not made"


@dataclass(frozen=True)
class Verdict:
    mutant: Mutant
    outcome: str
    by: str = ""  # the test and the row that caught it, or the rows that saw it and did not

    def __str__(self) -> str:
        return f"{self.mutant} {self.outcome}{self.by and ' by ' + self.by}"


def changed_ways(row: Row) -> set[str]:
    """In which ways of computing the numbers of the row are others than those of the sound rules."""
    try:
        now = numbers(row.case)
    except Exception:
        return set(WAYS)
    return {way for way in WAYS if not close(now[way], row.numbers[way], 1e-12)}


def fails(test: Callable[[Case], None], case: Case) -> bool:
    try:
        test(case)
    except Exception:
        return True
    return False


def judge(mutant: Mutant, rows: Sequence[Row]) -> Verdict:
    """Run rows until one catches the mutant."""
    seen: list[str] = []
    missed: Counter[str] = Counter()
    with mutant.planted(), np.errstate(all="ignore"):
        for row in rows:
            changed = changed_ways(row)
            for name, (ways, test) in TESTS.items():
                if not ways & changed or missed[name] == TRIES:
                    continue
                if fails(test, row.case):
                    return Verdict(mutant, CAUGHT, f"{name} of {row.case.name!r}")
                missed[name] += 1
            if changed:
                seen.append(row.case.name)
    if seen:
        return Verdict(mutant, SURVIVED, f"though it changes the numbers of {', '.join(seen[:TRIES])}")
    return Verdict(mutant, EQUIVALENT if mutant.applied else NOT_MADE)


def unseen_rules(operations: Sequence[Operation], seen: Seen) -> list[str]:
    """Rules and references that no row runs. Twins of an operation (Operation.twin) have the same ones."""
    forward_of, missing = {id(operation): operation.forward for operation in operations}, []
    ran = {(forward_of[number], part, kind) for number, part, kind in seen}
    for operation in operations:
        kinds = ("arrays", "reference") if isinstance(operation, Fused) else ("arrays", "tensors")
        for part in rules_of(operation):
            run = [kind for kind in kinds if (operation.forward, part, kind) in ran]
            name = label(operation) + ("" if part is None else f"({operation.inputs[part]})")
            if isinstance(operation, Fused):
                missing += [f"{name} {kind}" for kind in kinds if kind not in run]
            elif not run:
                missing.append(name)
    return missing


def survey(operations: Sequence[Operation], seen: Seen, every: int = 1) -> Iterator[Verdict]:
    """The verdict on every mutant of these operations, or on one of so many."""
    count = 0
    for operation in operations:
        for part in rules_of(operation):
            for mutant in mutants_of(operation, part):
                rows = seen.get((id(operation), mutant.part, mutant.where), [])
                count += bool(rows)
                if rows and count % every == 0:
                    yield judge(mutant, rows)

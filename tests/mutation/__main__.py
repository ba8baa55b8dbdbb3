"""`python -m tests.mutation`: the long form, with a table of what was made and caught."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from rich.console import Console
from rich.table import Table

from tests.mutation.damage import all_operations, label, rules_of
from tests.mutation.kernels import MUTANTS, try_kernels
from tests.mutation.rows import watch
from tests.mutation.survey import CAUGHT, EQUIVALENT, NOT_MADE, SURVIVED, Verdict, survey, unseen_rules
from tinygrad_tf.checks import CASES
from tinygrad_tf.engine import Fused

console = Console(width=160, highlight=False, markup=False)


def rules_and_references(only: str, every: int) -> bool:
    """Whether every mutant that changes a number was caught, and every rule was run."""
    operations = all_operations()
    seen = watch(operations, CASES)
    chosen = [op for op in operations if only in label(op)]
    unseen, verdicts, start = unseen_rules(chosen, seen), [], time.perf_counter()
    for operation in chosen:
        found = [v for v in survey([operation], seen, every) if v.outcome != NOT_MADE]
        verdicts += found
        outcomes = Counter(v.outcome for v in found)
        console.print(f"{label(operation):30}", ", ".join(f"{n} {outcome}" for outcome, n in outcomes.items()))
        for verdict in found:
            if verdict.outcome == SURVIVED:
                console.print(f"    {verdict}")
    report(verdicts)
    for name in unseen:
        console.print(f"no row runs {name}")
    total = Counter(v.outcome for v in verdicts)
    rules, references = sum(len(rules_of(op)) for op in chosen), sum(isinstance(op, Fused) for op in chosen)
    console.print(
        f"{rules} rules and {references} references, {len(verdicts)} mutants, {total[CAUGHT]} caught, "
        f"{total[SURVIVED]} survived, {total[EQUIVALENT]} equivalent, {len(unseen)} rules that no row runs; "
        f"{time.perf_counter() - start:.0f} seconds"
    )
    return not total[SURVIVED] and not unseen


def report(verdicts: list[Verdict]) -> None:
    """How many of each kind of damage were made and caught, and by which tests; then the equivalent ones by name."""
    table = Table("operation", *(f"{o}" for o in ("made", CAUGHT, EQUIVALENT, SURVIVED)), title="By operation")
    kinds = Table("damage", *(f"{o}" for o in ("made", CAUGHT, EQUIVALENT, SURVIVED)), title="By kind of damage")
    for shown, key in ((table, lambda m: label(m.operation)), (kinds, lambda m: f"{m.where}: {m.name}")):
        groups: dict[str, Counter[str]] = {}
        for v in verdicts:
            groups.setdefault(key(v.mutant), Counter())[v.outcome] += 1
        for name, n in groups.items():
            shown.add_row(name, *map(str, (n.total(), n[CAUGHT], n[EQUIVALENT], n[SURVIVED])))
        console.print(shown)
    tests = Counter(v.by.partition(" of ")[0] for v in verdicts if v.outcome == CAUGHT)
    console.print("caught by", ", ".join(f"{name}: {n}" for name, n in tests.most_common()))
    console.print("equivalent, for they change no number in any row:")
    for v in verdicts:
        if v.outcome == EQUIVALENT:
            console.print(f"    {v.mutant}")


def compiled_kernels() -> bool:
    caught = 0
    for mutant, outcome in try_kernels(MUTANTS):
        console.print(f"{outcome:10} {mutant}")
        caught += outcome == CAUGHT
    console.print(f"{len(MUTANTS)} mutants of compiled kernels, {caught} caught, {len(MUTANTS) - caught} not")
    return caught == len(MUTANTS)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--only", default="", help="operations with this in their name")
    parser.add_argument("--every", type=int, default=1, help="one mutant of so many")
    parser.add_argument("--kernels", action=argparse.BooleanOptionalAction, default=True, help="compiled kernels, too")
    arguments = parser.parse_args()
    good = rules_and_references(arguments.only, arguments.every)
    if arguments.kernels:
        good &= compiled_kernels()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

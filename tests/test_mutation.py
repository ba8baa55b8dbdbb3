"""A sample of the mutation test (`python -m tests.mutation` is the whole), and what the whole rests on."""

from __future__ import annotations

import numpy as np
import pytest

from tests.mutation import survey as surveying
from tests.mutation.damage import CHANGES, Mutant, all_operations, mutants_of
from tests.mutation.kernels import MUTANTS, KernelMutant
from tests.mutation.rows import check_ways_agree, watch
from tests.mutation.survey import CAUGHT, EQUIVALENT, NOT_MADE, SURVIVED, judge, survey, unseen_rules
from tests.test_table import is_small, rng_of
from tinygrad_tf import ops
from tinygrad_tf.checks import CASES, Case

ONE_OF = 73  # a prime, so that the sample falls on every kind of damage


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_kernels_reference_and_recorded_backward_agree(case: Case) -> None:
    check_ways_agree(case)


def test_a_sample_of_mutants_is_caught() -> None:
    operations = all_operations()
    seen = watch(operations, [case for case in CASES if is_small(case.build(rng_of(case), np.float64)[1])])
    assert unseen_rules(operations, seen) == []
    made = [verdict for verdict in survey(operations, seen, ONE_OF) if verdict.outcome != NOT_MADE]
    assert len(made) > 20
    assert [str(v) for v in made if v.outcome == SURVIVED] == []
    assert sum(v.outcome == CAUGHT for v in made) > len(made) * 3 // 4


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_a_mutant_of_a_kernel_fits_its_source(mutant: KernelMutant) -> None:
    """The text to damage is there, once; `python -m tests.mutation` compiles and tries them, which takes minutes."""
    assert mutant.source().read_text(encoding="utf-8").count(mutant.sound) == 1


def rows_named(*names: str) -> list[Case]:
    return [case for case in CASES if case.name in names]


def mutant_of(operation: object, where: str, name: str, part: int = 0) -> Mutant:
    return next(m for m in mutants_of(operation, part) if (m.where, m.name) == (where, name))  # type: ignore[arg-type]


def test_what_becomes_of_a_mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    magnitude, mul = ops.elementwise.abs_, ops.elementwise.mul
    seen = watch([magnitude, mul], rows_named("abs", "mul"))
    rows = seen[id(mul), 0, "arrays"]
    assert judge(mutant_of(mul, "arrays", "times 1.01"), rows).outcome == CAUGHT
    assert judge(mutant_of(mul, "arrays", "a and b swapped"), rows).outcome == CAUGHT
    assert judge(mutant_of(mul, "tensors", "b taken as constant"), rows).outcome == CAUGHT
    assert judge(mutant_of(mul, "arrays", "transposed"), rows).outcome == NOT_MADE  # no square matrices
    same_sign = mutant_of(magnitude, "arrays", "saved x 1 % off")
    assert judge(same_sign, seen[id(magnitude), 0, "arrays"]).outcome == EQUIVALENT
    assert unseen_rules([mul], {}) == ["arithmetic.mul(a)", "arithmetic.mul(b)"]
    monkeypatch.setattr(surveying, "TESTS", {})  # a table that tests nothing
    assert judge(mutant_of(mul, "arrays", "times 1.01"), rows).outcome == SURVIVED


@pytest.mark.parametrize("where", ["arrays", "tensors", "reference"])
def test_a_mutant_leaves_nothing_behind(where: str) -> None:
    softmax = ops.softmax.softmax_
    before = dict(vars(softmax))
    with Mutant(softmax, 0, where, CHANGES[0].name, CHANGES[0]).planted():
        assert dict(vars(softmax)) != before
    assert dict(vars(softmax)) == before

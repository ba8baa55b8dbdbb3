"""Naming the likely mistake in a wrong gradient.

Each test asks whether the analytic Jacobian A and the numeric one N (`evidence`) fit what a well-known mistake would
have made of N. A test names its mistake only if every entry fits; the first that does is the diagnosis. Here are the
order of the tests and those that look at single entries; `sums`, `structure`, `norms`, `coupling`, `masks`, `shares`,
`row_factors`, `zero_sums`, `formulas`, `paths` and `behind` have the others.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tinygrad_tf._quiet import quiet
from tinygrad_tf.autograd.behind import behind_product
from tinygrad_tf.autograd.coupling import not_causal, not_mixed, only_the_first, wrong_axis
from tinygrad_tf.autograd.evidence import LOOSE, Evidence, Test
from tinygrad_tf.autograd.formulas import wrong_formula
from tinygrad_tf.autograd.masks import another_mask, exchanged_branches, missing_mask, wrong_mask
from tinygrad_tf.autograd.norms import eps_beside_numbers, wrong_part, wrong_scale
from tinygrad_tf.autograd.paths import lost_path, lost_penalty
from tinygrad_tf.autograd.report import Pair, Report
from tinygrad_tf.autograd.row_factors import wrong_row_factors
from tinygrad_tf.autograd.shares import lost_share
from tinygrad_tf.autograd.structure import (
    direct_path,
    dropped_terms,
    only_diagonal,
    permuted_axes,
    reversed_windows,
)
from tinygrad_tf.autograd.subjects import Subject
from tinygrad_tf.autograd.sums import not_summed, repeated_indices, summed_too_much, wrong_shape
from tinygrad_tf.autograd.zero_sums import zero_sums


def diagnose(pair: Pair, report: Report, subject: Subject) -> list[str]:
    """The likely mistake, as a list of at most one line (empty if none fits)."""
    place, position = pair.positions
    inputs = {x.name: x.array for x in subject.inputs}
    evidence = Evidence(
        pair, report, subject.inputs[position].array, subject.integers, subject.evaluate()[place], inputs
    )
    if pair.got_shape is not None:
        return list(itertools.islice(wrong_shape(evidence), 1))
    if not np.isfinite(pair.analytic).all():
        return ["the gradient is not finite: a division by zero, the logarithm or root of zero, or 0 times infinity"]
    if not np.isfinite(pair.numeric).all():
        return []
    if any(f"of {pair.input} is not proportional" in line for _, line in report.problems):
        return []  # that is the mistake, and what it makes of the numbers is none
    whole = pair.complete
    tests: list[Test] = [detached, *([wrong_scale] if whole else []), eps_beside_numbers, rounded, constant_factor]
    if not evidence.fits(pair.analytic, pair.numeric):  # else what fits one fits the other, and tells nothing
        tests += _structural(whole, pair.input_shape == pair.output_shape)
    return list(itertools.islice(itertools.chain.from_iterable(test(evidence) for test in tests), 1))


def _structural(whole: bool, same_shape: bool) -> list[Test]:
    """The tests of what is where, in order. whole: whether the Jacobian is there with all of its entries."""
    tests: list[Test] = [swapped_inputs, wrong_mask, step]
    if whole and same_shape:
        tests += [wrong_argument, wrong_formula, only_diagonal]
    if whole:
        tests.append(lost_penalty)
        tests += [repeated_indices, not_summed, permuted_axes, reversed_windows, wrong_axis, dropped_terms]
        tests += [summed_too_much, wrong_row_factors]
    tests += [exchanged_branches, missing_mask, direct_path]
    if whole:
        tests += [lost_path, lost_share]
    tests.append(only_some_rows)
    if whole:
        tests += [not_causal, only_the_first, not_mixed, wrong_part, another_mask, behind_product, zero_sums]
    return tests


# --- nothing, a factor, another input's -------------------------------------------------------------------------------


def detached(e: Evidence) -> Iterator[str]:
    if not e.analytic.any():
        if _output_unused(e):
            yield f"backward does not use the gradient of {e.pair.output}, neither for this input nor for any other"
            return
        way = "no gradient ever reached this input" if not e.pair.arrived else "the gradient is zero everywhere"
        yield f"{way}: it was detached (.detach(), .data, no_grad, a NumPy detour), or backward forgot it"


def _output_unused(e: Evidence) -> bool:
    """Whether inputs matter to this output and none gets a gradient from it, though from another output."""
    same = [p for p in e.report.pairs if p.output == e.pair.output]
    matters = [p for p in same if (np.abs(p.numeric) > 5 * p.error).any()]
    forgotten = bool(matters) and not any(p.analytic.any() for p in matters)
    others = (p for p in e.report.pairs if p.output != e.pair.output and p.got_shape is None)
    return forgotten and any(p.analytic.any() for p in others)


def step(e: Evidence) -> Iterator[str]:
    """N = 0."""
    if not e.numeric.any() and e.alive(e.analytic).any():
        yield (
            "none, if this is a stand-in (a straight-through estimator): the output does not change with this input, as"
            " that of round, sign or a comparison, so that no difference can confirm a gradient other than 0"
        )


OF_RESULT: dict[str, Callable[[Any], Any]] = {  # derivatives that are formulas of the result
    "exp": lambda y: y,
    "sigmoid": lambda y: y * (1 - y),
    "tanh": lambda y: 1 - y * y,
    "sqrt": lambda y: 0.5 / y,
    "reciprocal": lambda y: -y * y,
}
OF_INPUT: dict[str, Callable[[Any], Any]] = {
    "square": lambda x: 2 * x,
    "log": lambda x: 1 / x,
    "sin": np.cos,
    "cos": lambda x: -np.sin(x),
}


def wrong_argument(e: Evidence) -> Iterator[str]:
    """A = h(x) and N = h(y) on the diagonal, where y is the result, or the other way round."""
    off = ~np.eye(len(e.analytic), dtype=bool)
    if len(off) < 2 or e.alive(e.analytic)[off].any() or e.alive(e.numeric)[off].any():
        return
    if not np.ptp(np.diagonal(e.numeric)) > 0:  # one number alone, which is a formula of anything
        return
    x, y = np.diag(e.values.reshape(-1)), np.diag(e.result.reshape(-1))
    for rules, right, given in ((OF_RESULT, y, x), (OF_INPUT, x, y)):
        for name, rule in rules.items():
            with quiet():
                wanted, found = (np.diag(rule(np.diagonal(values))) for values in (right, given))
            if e.fits(e.numeric, wanted) and e.fits(e.analytic, found):
                one, other = ("result", "input") if rules is OF_RESULT else ("input", "result")
                yield f"the {other} in place of the {one}: the rule of {name} is a formula of the {one}; save that one"


def rounded(e: Evidence) -> Iterator[str]:
    """A is N to so many digits that only rounding can have taken the others."""
    off = np.abs(e.analytic - e.numeric) / np.maximum(np.abs(e.numeric), 1e-2 * e.largest)
    worst = float(off.max(initial=0.0))
    with quiet():
        short = e.analytic.astype(np.float16)
    if worst < 1e-2 and np.array_equal(short, e.analytic):
        yield "rounded to float16: all of its numbers are such as float16 has; is there a short dtype in backward?"
    elif worst < LOOSE:
        why = (
            "as if backward worked in float32 somewhere, or without an eps of forward"
            if worst < 1e-6
            else "a constant or a step is inexact"
        )
        yield f"right to {max(1, int(-math.log10(worst)))} digits, {why}: keep to float64, or allow for it with rtol"


def constant_factor(e: Evidence) -> Iterator[str]:
    """A = c N."""
    strong = np.abs(e.numeric) > np.maximum(1e-3 * np.abs(e.numeric).max(initial=0.0), 5 * e.pair.error)
    if not strong.any():
        return
    ratios = e.analytic[strong] / e.numeric[strong]
    c = float(np.median(ratios))
    if c == 0 or not np.isfinite(c) or abs(c - 1) < LOOSE:
        return
    if bool(np.all(np.abs(e.analytic - c * e.numeric) <= abs(c) * e.tolerance)):
        yield f"a constant factor: the gradient is {c:.6g} times the right one{_factor_name(c, e)}"


def _factor_name(c: float, e: Evidence) -> str:
    """What the factor may be: a sign, a small number, a size or its root, or one divided by them."""
    sign = " and the sign is wrong" if c < 0 else ""
    size = abs(c)
    if abs(size - 1) < 1e-4:
        return " (the sign is wrong)"
    for value, name in _known_factors(e):
        for power, text in ((1.0, name), (-1.0, f"1/{name}")):
            if abs(size / value**power - 1) < 1e-4:
                return f" ({text}{sign})"
    if abs(size - 1) < 0.01 and not sign:
        return ", nearly 1: is an eps left out, or in the wrong place?"
    return f" ({sign.removeprefix(' and ')})" if sign else ""


def _known_factors(e: Evidence) -> Iterator[tuple[float, str]]:
    yield 2.0, "2"
    sizes: dict[int, str] = {}
    for what, shape in (("the input", e.pair.input_shape), ("the output", e.pair.output_shape)):
        total = math.prod(shape)
        for n, name in [(total, f"the number of elements of {what}")] + [
            (n, f"the size of axis {i} of {what}") for i, n in enumerate(shape)
        ]:
            if n > 2:
                sizes.setdefault(n, name)
    for p in e.report.pairs:
        for i, n in enumerate(p.input_shape):
            if n > 2:
                sizes.setdefault(n, f"the size of axis {i} of {p.input}")
    for n, name in sizes.items():
        yield float(n), f"{n}, {name}"
    yield from _values_and_products(e)
    for n, name in sizes.items():  # roots and neighbours of sizes only where no size fits
        yield math.sqrt(n), f"sqrt({n}), the root of {name.removeprefix('the ')}"
        if n > 3:
            yield float(n - 1), f"{n - 1}, one less than {name}"
    for n in (3, 4, 5, 6, 8, 10):
        yield float(n), str(n)
    result = np.unique(np.abs(e.result))
    if result.size == 1 and result[0] > 0:
        yield float(result[0]), "the result itself"
    single = bool((e.alive(e.numeric).sum(1) <= 1).all())  # a function of single elements knows no variance
    for n, name in () if single else sizes.items():
        share, other = (n - 1) / n, f", or {sizes[n - 1]} in its place" if n - 1 in sizes else ""
        yield share, f"{n - 1}/{n}, of {name}: the variance with n or with n - 1, biased or unbiased{other}"
        yield math.sqrt(share), f"sqrt({n - 1}/{n}), of {name}: the variance with n or with n - 1, biased or unbiased"
    for (n, name), (m, other) in itertools.permutations(sizes.items(), 2):
        yield n / m, f"{n}/{m}, {name} in place of {other}"
    for value, name in (
        (math.sqrt(2), "sqrt(2)"),
        (math.pi, "pi"),
        (math.sqrt(math.pi), "sqrt(pi)"),
        (math.log(2), "ln 2"),
    ):
        yield value, name


def _values_and_products(e: Evidence) -> Iterator[tuple[float, str]]:
    """An input that is one number, as a temperature; what a mean over several axes divides by."""
    for name, values in e.inputs.items():
        value = abs(float(values.reshape(-1)[0])) if values.size == 1 else 0.0
        if value > 0:
            yield value, f"{value:g}, the value of {name}"
    shape = e.pair.output_shape
    for count in range(2, len(shape)):
        for axes in itertools.combinations(range(len(shape)), count):
            total = math.prod(shape[a] for a in axes)
            if total > 1:
                yield float(total), f"{total}, the size of axes {', '.join(map(str, axes))} of the output together"


def swapped_inputs(e: Evidence) -> Iterator[str]:
    """A of this input is N of another one."""
    for p in e.report.pairs:
        same = p.output == e.pair.output and p is not e.pair and p.input_shape == e.pair.input_shape
        if same and p.numeric.shape == e.numeric.shape and e.fits(e.analytic, p.numeric):
            yield f"swapped: this is the gradient of {p.input}"


def only_some_rows(e: Evidence) -> Iterator[str]:
    """A is right for some outputs and zero for others, or for some inputs."""
    right, alive = e.right, e.alive(e.analytic)
    columns_zero, rows_zero = ~np.any(alive, 0, keepdims=True), ~np.any(alive, 1, keepdims=True)
    if columns_zero.any() and bool(np.all(right | columns_zero)):
        yield "the gradient never reached a part of the input: it was detached, overwritten or cut off there"
    elif rows_zero.any() and bool(np.all(right | rows_zero)):
        yield "the gradient of a part of the output is lost on its way: it was detached, overwritten or cut off"

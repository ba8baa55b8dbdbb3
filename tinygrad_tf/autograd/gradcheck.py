"""gradcheck and gradgradcheck: PyTorch's arguments and answer, our numbers and report."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tinygrad_tf import engine
from tinygrad_tf.autograd.arguments import refuse_foreign
from tinygrad_tf.autograd.check import Settings, examine
from tinygrad_tf.autograd.differentiate import grad
from tinygrad_tf.autograd.other_ways import check_other_ways
from tinygrad_tf.autograd.report import NOISY, WRONG, Pair, Report, watchers
from tinygrad_tf.autograd.subjects import TensorSubject, tensors_of
from tinygrad_tf.engine import current_node, make


class GradcheckError(RuntimeError):
    """A gradient is wrong; `report` holds what was found."""

    def __init__(self, message: str, report: Report | None = None):
        super().__init__(message)
        self.report = report


class GradcheckWarning(UserWarning):
    """Something about a check that its True or False does not say."""


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Whether the gradients of `func` at `inputs` agree with numerical derivatives: PyTorch's torch.autograd.gradcheck.

    func: takes the inputs, returns a Tensor or a tuple of them. inputs: a Tensor or a tuple; those that require
    gradients are checked, and should be float64. The answer is True if |analytical - numerical| <= atol + rtol
    |numerical| in every entry; otherwise a GradcheckError is raised (or False returned, without `raise_exception`),
    whose text shows the worst entries and names the likely mistake, and whose `report` holds all numbers. Entries whose
    uncertainty is larger than they are, and than that, do not pass either: their numerical values prove nothing.

    The numerical derivatives are better than PyTorch's: their steps fit the function, and each has an uncertainty (see
    numeric.py). So `eps` is not the step; it is how near a kink must be to count as being at the point itself. At a
    kink the numerical value is PyTorch's, the mean of the two slopes, so that relu at 0 does not pass. A gradient that
    passes by the tolerances but is off by more than the uncertainty brings a GradcheckWarning.

    check_undefined_grad: also check that backward is linear in the gradient of the output (zero gives zero).
    fast_mode: compare along random directions first, and look at single entries only where they disagree. Inputs of
    more than 2000 entries are always treated so. nondet_tol: how far two passes over the same graph may differ.
    check_batched_grad: also compare several gradients in one call with one call each. check_forward_ad: also compare
    J v, as forward_ad finds it, by two backward passes: so check_backward_ad=False leaves none out, and
    check_batched_forward_grad adds nothing. masked: of sparse tensors, which do not exist here.

    Raises ValueError for what cannot be checked: nothing requires a gradient, no Tensor is returned, an input is
    changed; RuntimeError for an input whose elements share memory.

    >>> import tinygrad_tf as tg
    >>> x = tg.tensor([0.5, -1.0], dtype=tg.float64, requires_grad=True)
    >>> gradcheck(lambda x: x * x, (x,))
    True
    >>> gradcheck(lambda x: x * x.detach(), (x,), raise_exception=False)
    False
    """
    if not check_backward_ad and not check_forward_ad:
        raise ValueError("gradcheck: check_backward_ad=False leaves nothing to check; see check_forward_ad")
    if check_batched_forward_grad and not check_forward_ad:
        raise ValueError("gradcheck: check_batched_forward_grad=True needs check_forward_ad=True")
    settings = Settings(eps, nondet_tol, check_undefined_grad, check_grad_dtypes, fast_mode)
    report = gradient_report(func, inputs, settings=settings)
    check_other_ways(report, func, inputs, check_batched_grad, check_forward_ad)
    return decide(report, atol, rtol, raise_exception)


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """As gradcheck, for the gradients of the gradients: with respect to `inputs` and to the gradients of the outputs.

    grad_outputs: for each output the gradient to start from; random ones if left out (laid out with gaps in memory with
    gen_non_contig_grad_outputs). check_batched_grad and check_fwd_over_rev: as check_batched_grad and check_forward_ad
    of gradcheck.

    >>> import tinygrad_tf as tg
    >>> x = tg.tensor([0.5, -1.0], dtype=tg.float64, requires_grad=True)
    >>> gradgradcheck(lambda x: x**3, (x,))
    True
    """
    if not check_rev_over_rev and not check_fwd_over_rev:
        raise ValueError("gradgradcheck: check_rev_over_rev=False leaves nothing to check; see check_fwd_over_rev")
    settings = Settings(eps, nondet_tol, check_undefined_grad, check_grad_dtypes, fast_mode)
    function, arguments, names = second_order(func, inputs, grad_outputs, gen_non_contig_grad_outputs)
    report = gradient_report(function, arguments, settings=settings, names=names, title="gradgradcheck")
    check_other_ways(report, function, arguments, check_batched_grad, check_fwd_over_rev)
    return decide(report, atol, rtol, raise_exception)


def gradient_report(
    func: Callable[..., Any],
    inputs: Any,
    *,
    settings: Settings | None = None,
    names: Sequence[str] | None = None,
    title: str = "gradcheck",
) -> Report:
    """The report of a check, whatever its outcome: `bool(report)`, `.verdicts`, `.diagnosis`, `print(report)`.

    >>> import tinygrad_tf as tg
    >>> x = tg.tensor([0.5, -1.0], dtype=tg.float64, requires_grad=True)
    >>> gradient_report(lambda x: x * x.detach(), x).verdicts
    {'input 0': 'wrong'}
    """
    arguments = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    labels = list(names) if names is not None else [f"input {i}" for i in range(len(arguments))]
    checked = _checked_inputs(arguments, labels, title)
    integers = [a.array for a in arguments if isinstance(a, engine.Tensor) and a.array.dtype.kind in "iu"]
    writable = [t for _, t in checked if not t.array.flags.writeable]
    read_only = [t.array for t in writable]
    for t in writable:
        t.array = t.array.copy()
    try:
        before = [t.array.copy() for _, t in checked]
        try:
            subject = TensorSubject(lambda: func(*arguments), checked, integers)
        finally:
            changed = [
                n for (n, t), b in zip(checked, before, strict=True) if not np.array_equal(t.array, b, equal_nan=True)
            ]
            for (_, t), b in zip(checked, before, strict=True):
                t.array[...] = b
        if changed:
            raise ValueError(f"the function changed its {changed[0]} in place; let it work on a copy (.clone())")
        return examine(subject, settings or Settings(), title)
    finally:
        for t, array in zip(writable, read_only, strict=True):
            t.array = array


def _checked_inputs(arguments: tuple[Any, ...], labels: list[str], title: str) -> list[tuple[str, Any]]:
    """The arguments that require gradients, once each, with their names; errors for what cannot be perturbed."""
    found: list[tuple[str, Any]] = []
    for label, x in zip(labels, arguments, strict=True):
        if not isinstance(x, engine.Tensor) or current_node(x) is None:
            continue
        if _overlaps(x.array):
            raise RuntimeError(
                f"{title}: elements of {label} (shape {x.array.shape}, strides {x.array.strides}) share memory and "
                "cannot be moved one by one; pass .contiguous() or .clone() of it"
            )
        if x.array.dtype != np.float64:
            warnings.warn(
                f"{title}: {label} is {x.array.dtype}, too coarse for a sharp check; use float64 (.double())",
                GradcheckWarning,
                stacklevel=4,
            )
        found.append((label, x))
    if not found:
        refuse_foreign(arguments, title)
        raise ValueError(
            f"{title}: none of the inputs is a Tensor that requires a gradient, so there is nothing to check; "
            "set requires_grad=True on floating point inputs"
        )
    return found


def _overlaps(array: np.ndarray) -> bool:
    """Whether two elements lie at the same address: an expanded dimension of stride 0, or a sliding window."""
    if not array.size or array.flags.c_contiguous or array.flags.f_contiguous:
        return False
    if any(n > 1 and s == 0 for n, s in zip(array.shape, array.strides, strict=True)):
        return True
    if array.size > 1_000_000:
        return False
    addresses = np.zeros(array.shape, np.int64)
    for i, (n, s) in enumerate(zip(array.shape, array.strides, strict=True)):
        addresses += (np.arange(n) * s).reshape((-1,) + (1,) * (array.ndim - 1 - i))
    return np.unique(addresses).size < array.size


def second_order(
    func: Callable[..., Any], inputs: Any, grad_outputs: Any = None, with_gaps: bool = False
) -> tuple[Callable[..., Any], tuple[Any, ...], list[str]]:
    """The function that gives the gradients of `func`, its arguments, and their names."""
    arguments = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    outputs = _outputs(func, arguments)
    if grad_outputs is None:
        weights = _random_weights(outputs, with_gaps)
    else:
        weights = list(grad_outputs) if isinstance(grad_outputs, (tuple, list)) else [grad_outputs]
        if len(weights) != len(outputs):
            raise ValueError(f"gradgradcheck: {len(outputs)} outputs need as many grad_outputs, got {len(weights)}")

    def gradients(*both: Any) -> tuple[Any, ...]:
        given, starts = both[: len(arguments)], both[len(arguments) :]
        sources: list[Any] = [x for x in given if isinstance(x, engine.Tensor) and current_node(x) is not None]
        found = grad(_outputs(func, given), sources, starts, create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None)

    names = [f"input {i}" for i in range(len(arguments))] + [f"grad_output {i}" for i in range(len(weights))]
    return gradients, (*arguments, *weights), names


def _outputs(func: Callable[..., Any], arguments: tuple[Any, ...]) -> list[Any]:
    found = [o for o in tensors_of(func(*arguments)) if current_node(o) is not None]
    if not found:
        raise ValueError("gradgradcheck: no output of the function requires a gradient, so there is nothing to check")
    return found


def _random_weights(outputs: list[Any], with_gaps: bool) -> list[Any]:
    random = np.random.default_rng(1)
    weights = []
    for o in outputs:
        shape = (*o.array.shape, 2) if with_gaps else o.array.shape
        values = random.standard_normal(shape).astype(o.array.dtype)
        w = make(values[..., 0] if with_gaps else values)
        engine.leaf(w)
        weights.append(w)
    return weights


def decide(report: Report, atol: float, rtol: float, raise_exception: bool) -> bool:
    """PyTorch's answer from a report: True, or GradcheckError (False)."""
    failed = [p for p in report.pairs if not p.passes(atol, rtol)]
    for tell in watchers:
        tell(report, not failed and not report.problems)
    if not failed and not report.problems:
        slipped = [p for p in report.pairs if p.verdict == WRONG]
        if slipped:
            p = slipped[0]
            r, c = p.worst(1)[0]
            warnings.warn(
                f"{report.title}: passed within atol={atol:g} and rtol={rtol:g}, but {p.place(r, c)} is off by "
                f"{p.off[r, c]:.2e}, more than the uncertainty {p.error[r, c]:.1e}",
                GradcheckWarning,
                stacklevel=3,
            )
        return True
    if not raise_exception:
        return False
    raise GradcheckError(_message(report, failed), report)


def _message(report: Report, failed: list[Pair]) -> str:
    lines = []
    if failed:
        p = failed[0]
        place = f"for output {p.positions[0]} with respect to {p.input}"
        if p.verdict == NOISY:
            lines.append(f"Jacobian not known {place}: numerical values are too noisy to tell")
        else:
            lines.append(f"Jacobian mismatch {place}: numerical and analytical values differ")
    lines += report.lines(failed)
    for p in failed[:1]:
        if p.got_shape is None and p.numeric.size <= 36:
            lines += [f"numerical:\n{_matrix(p.numeric)}", f"analytical:\n{_matrix(p.analytic)}"]
    return "\n".join(lines)


def _matrix(values: np.ndarray) -> str:
    return np.array2string(values, precision=8, suppress_small=False, max_line_width=120)

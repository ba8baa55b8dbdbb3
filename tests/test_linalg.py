"""Linear algebra beside PyTorch's: parts, tolerances, drivers, where gradients end, and what is said of misuse.

The gradients themselves are rows of the table (checks/linalg.py), checked there to second order and against PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tinygrad_tf as tg
from tests.beside import assert_same, results
from tests.test_nn import rows

SQUARE, TALL, STACK = rows(3, 3), rows(4, 3), rows(2, 3, 4)
ONES, RANK_ONE = np.eye(2), np.array([[1.0, 2.0], [2.0, 4.0]])
ZERO, KNOWN_AND_NOT = np.zeros((2, 2)), np.stack([np.eye(2), np.full((2, 2), math.nan)])
DIAGONAL = np.diag([4.0, 0.5, 0.01])
ORDERS = ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf)

# name: (function of the module and the tensors, arrays); every result of it is compared, with its gradients
CASES: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "svd of numbers": (lambda t, a: t.linalg.svd(a).S, (STACK,)),
    "svd full shapes": (lambda t, a: [p.abs() for p in t.linalg.svd(a.detach())], (TALL,)),
    "eigh reads the lower triangle": (lambda t, a: t.linalg.eigh(a).eigenvalues, (SQUARE,)),
    "eigh reads the upper triangle": (lambda t, a: t.linalg.eigvalsh(a, "u"), (SQUARE,)),
    "eigh of a triangle": (lambda t, a: t.linalg.eigh(a).eigenvectors ** 2, (SQUARE,)),
    "cholesky reads the upper triangle": (lambda t, a: t.linalg.cholesky(a + 4 * t.eye(3), upper=True), (SQUARE,)),
    "equal eigenvalues": (lambda t, a: t.linalg.eigvalsh(a), (ONES,)),
    "equal singular values": (lambda t, a: t.linalg.svdvals(a), (ONES,)),
    "vectors of equal eigenvalues": (lambda t, a: t.linalg.eigh(a).eigenvectors ** 2, (ONES,)),
    "vectors of equal singular values": (lambda t, a: t.linalg.svd(a).U ** 2, (ONES,)),
    "singular values of 0": (lambda t, a: t.linalg.svdvals(a), (ZERO,)),
    "singular vectors of a square beside 0": (lambda t, a: t.linalg.svd(a).U ** 2, (RANK_ONE,)),
    "norms": (lambda t, a: [t.linalg.matrix_norm(a, o) for o in ORDERS], (STACK,)),
    "norms of other axes": (lambda t, a: [t.linalg.norm(a, o, (2, 0), keepdim=True) for o in ORDERS], (STACK,)),
    "norms of equal values": (lambda t, a: [t.linalg.matrix_norm(a, o) for o in ORDERS], (ONES,)),
    "norms of rank one": (lambda t, a: [t.linalg.norm(a, o) for o in ORDERS if o != -2], (RANK_ONE,)),
    "norms of nothing": (lambda t, a: [t.linalg.matrix_norm(a[:, :0].detach(), o) for o in (2, 1, "nuc")], (TALL,)),
    "norm of vectors": (lambda t, a: [t.linalg.norm(a, o, 1) for o in (0.5, 1, 3, math.inf)], (STACK,)),
    "norm of all": (lambda t, a: [t.linalg.norm(a), t.linalg.norm(a, dim=(0, 2)), t.linalg.norm(a[0, 0], 3)], (STACK,)),
    "norm in another dtype": (lambda t, a: t.linalg.norm(a, "nuc", (1, 2), dtype=t.float64), (STACK,)),
    "cond": (lambda t, a: [t.linalg.cond(a, p) for p in (None, 2, -2)], (STACK,)),
    "cond by norms": (lambda t, a: [t.linalg.cond(a.detach(), p) for p in (1, -1, "fro", "nuc", math.inf)], (SQUARE,)),
    "cond of singular": (lambda t, a: [t.linalg.cond(a.detach(), p) for p in (1, "fro")], (RANK_ONE,)),
    "pinv of rank one": (lambda t, a: t.linalg.pinv(a), (RANK_ONE,)),
    "pinv tolerances": (
        lambda t, a: [t.linalg.pinv(a, atol=0.1), t.linalg.pinv(a, rtol=0.2), t.linalg.pinv(a, atol=1e-3, rtol=0.2)],
        (DIAGONAL,),
    ),
    "pinv tolerance of each": (lambda t, a: t.linalg.pinv(a, atol=t.tensor([0.4, 4.0]).to(a)), (STACK,)),
    "matrix_rank": (
        lambda t, a: t.stack(
            [t.linalg.matrix_rank(a), t.linalg.matrix_rank(a, atol=0.1), t.linalg.matrix_rank(a, rtol=0.2),
             t.linalg.matrix_rank(-a, hermitian=True), t.linalg.matrix_rank(a, 0.1)]
        ),
        (DIAGONAL,),
    ),
    "lstsq gels": (lambda t, a, b: list(t.linalg.lstsq(a, b, driver="gels")), (TALL, rows(4, 2, seed=1))),
    "lstsq gelsy": (lambda t, a, b: list(t.linalg.lstsq(a, b)), (STACK, rows(2, 3, 1, seed=1))),
    "lstsq gelsd": (lambda t, a, b: list(t.linalg.lstsq(a, b, driver="gelsd")), (TALL, rows(4, 2, seed=1))),
    "lstsq of vectors": (lambda t, a, b: list(t.linalg.lstsq(a, b, driver="gelss"))[:2], (TALL, rows(4, seed=1))),
    "lstsq of rank one": (lambda t, a, b: list(t.linalg.lstsq(a, b)), (RANK_ONE, rows(2, 1, seed=1))),
    "lstsq rcond": (  # PyTorch's other driver, gelsy, answers this one way or another from call to call
        lambda t, a, b: list(t.linalg.lstsq(a.detach(), b.detach(), 0.05, driver="gelsd")),
        (DIAGONAL, rows(3, 1, seed=1)),
    ),
    "solve of broadcast": (lambda t, a, b: t.linalg.solve(a, b), (rows(2, 3, 3), rows(4, 1, 3, 2, seed=1))),
    "solve of vectors": (lambda t, a, b: t.linalg.solve(a, b), (rows(2, 3, 3), rows(2, 3, seed=1))),
    "det of stacks": (lambda t, a: t.linalg.det(a), (rows(2, 3, 3),)),
    "of NaN": (
        lambda t, a: [t.linalg.inv(a), t.linalg.det(a), t.linalg.slogdet(a)[1], t.linalg.solve(a, a[:1] * 0 + 1)],
        (KNOWN_AND_NOT[:1],),
    ),
    "NaN stays in its matrix": (
        lambda t, a: [t.linalg.inv(a.detach()), t.linalg.det(a.detach()), t.linalg.slogdet(a.detach())[1]],
        (KNOWN_AND_NOT,),
    ),
    "triangular with 0": (
        lambda t, a: t.linalg.solve_triangular(a.detach(), t.ones(2, 1).to(a), upper=True), (ZERO + ONES[::-1],),
    ),
    "lu of a singular matrix": (lambda t, a: list(t.linalg.lu(a.detach())), (RANK_ONE,)),
    "lu_factor": (lambda t, a: list(t.linalg.lu_factor(a)), (STACK,)),
    "lu_solve of broadcast": (
        lambda t, a, b: t.linalg.lu_solve(*t.linalg.lu_factor(a), b), (rows(2, 3, 3), rows(4, 1, 3, 2, seed=1)),
    ),
    "cholesky_ex": (
        lambda t, a: list(t.linalg.cholesky_ex(a.detach()))[1:], (np.stack([ONES, RANK_ONE, ZERO, -ONES]),),
    ),
    "empty": (
        lambda t, a: [t.linalg.det(a.detach()), t.linalg.inv(a), *t.linalg.lu(a), *t.linalg.svd(a)],
        (np.ones((2, 0, 0)),),
    ),
    "old names": (
        lambda t, a: [
            t.pinverse(a), t.qr(a)[1], t.svd(a)[1], t.svd(a)[0] @ t.svd(a)[2].mT, *t.svd(a.detach(), True, False),
        ],
        (SQUARE,),
    ),
    "triangular_solve": (
        lambda t, a, b: [*t.triangular_solve(b, a), t.triangular_solve(b, a, False, True, True)[0]],
        (SQUARE, rows(3, 2, seed=1)),
    ),
    "lu_solve by its old name": (lambda t, a, b: t.lu_solve(b, *t.linalg.lu_factor(a)), (SQUARE, rows(3, 2, seed=1))),
    "vander": (
        lambda t, a: [t.vander(a[0].detach()), t.vander(a[0].detach(), 2, True), t.linalg.vander(a)],
        (SQUARE,),
    ),
    "addmv addr": (
        lambda t, a: [t.addmv(a[0], a, a[1], beta=0.5, alpha=2.0), t.addr(a, a[0], a[1], beta=2.0, alpha=0.5)],
        (SQUARE,),
    ),
    "nothing times NaN": (
        lambda t, a: [
            t.addmm(a[1], a[1], a[0], beta=0), t.addmm(a[0], a[1], a[1], alpha=0, beta=2.0),
            t.addmv(a[1, 0], a[0], a[0, 0], beta=0.0), t.baddbmm(a[1:], a[:1], a[:1], beta=0.0, alpha=0.5),
        ],
        (KNOWN_AND_NOT,),
    ),
    "tensordot of an axis of one entry": (
        lambda t, a, b: [t.tensordot(a, b, 2), t.tensordot(b.mT, a[0].T, ([0, 1], [0, 1]))],
        (STACK, rows(3, 1, seed=1)),
    ),
    "tensorsolve": (lambda t, a, b: t.linalg.tensorsolve(a, b, (0,)), (rows(4, 2, 2, 1), rows(2, 2, 1, seed=1))),
}  # fmt: skip


@pytest.fixture(scope="module")
def torch() -> ModuleType:
    return pytest.importorskip("torch")


@pytest.mark.filterwarnings("ignore:torch")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CASES)
def test_as_in_pytorch(torch: ModuleType, name: str, dtype: str) -> None:
    function, arrays = CASES[name]
    wanted, found = (results(t, partial(function, t), arrays, dtype) for t in (torch, tg))
    assert_same(found, wanted, 1e-9 if dtype == "float64" else 1e-3)


def test_decompositions_make_up_the_matrix() -> None:
    a = tg.tensor(rows(2, 4, 3))
    for mode in ("reduced", "complete"):
        q, r = tg.linalg.qr(a, mode)
        np.testing.assert_allclose((q @ r).numpy(), a.numpy(), atol=1e-12)
        assert q.shape == (2, 4, 3 if mode == "reduced" else 4)
    assert tg.linalg.qr(a, "r").Q.shape == (0,)
    u, s, vh = tg.linalg.svd(a, full_matrices=False)
    np.testing.assert_allclose((u * s.unsqueeze(-2) @ vh).numpy(), a.numpy(), atol=1e-12)
    values, vectors = tg.linalg.eigh(a.mT @ a)
    np.testing.assert_allclose((vectors * values.unsqueeze(-2) @ vectors.mT).numpy(), (a.mT @ a).numpy(), atol=1e-11)
    for x in (a, a.mT):
        p, lower, upper = tg.linalg.lu(x)
        np.testing.assert_allclose((p @ lower @ upper).numpy(), x.numpy(), atol=1e-12)


def test_a_part_that_nobody_uses_adds_nothing() -> None:
    """The singular values of the identity are equal: its vectors have no gradient, but its values have."""
    a = tg.eye(3, requires_grad=True)
    _, values, _ = tg.linalg.svd(a)
    values.sum().backward()
    assert a.grad is not None and a.grad.tolist() == np.eye(3).tolist()


def test_what_was_found_may_be_written_to() -> None:
    """The parts that users hold, and the matrix itself, are other memory than what the gradients are made of."""
    wanted: list[np.ndarray] = []
    for written in (False, True):
        leaf = tg.tensor(rows(3, 3), requires_grad=True)
        a = leaf * 1.0
        left, values, right = tg.linalg.svd(a)
        out = values.sum() + (left.abs() @ right.abs()).sum()
        if written:
            a.mul_(3.0)
            with tg.no_grad():
                values.detach().mul_(2.0)
        out.backward()
        assert leaf.grad is not None
        wanted.append(leaf.grad.numpy())
    np.testing.assert_array_equal(*wanted)


@pytest.mark.parametrize("n", [1, 2, 4])
def test_the_gradient_of_a_singular_determinant_is_its_cofactors(n: int) -> None:
    """To any order, by the signed determinants of what is left without a row and a column (PyTorch gives 0)."""
    outer = rows(n, 1) @ rows(1, n, seed=1) if n > 1 else np.zeros((1, 1))
    outer[..., :, :2] += rows(n, 2)[:, :1] if n == 4 else 0.0  # of rank 2, whose cofactors are 0 and have a gradient
    a = tg.tensor(np.round(outer * 8.0), requires_grad=True)
    a.array[-1] = a.array[0] if n > 1 else 0.0
    minors = [[np.linalg.det(np.delete(np.delete(a.array, i, 0), j, 1)) for j in range(n)] for i in range(n)]
    signs = (-1.0) ** np.indices((n, n)).sum(0)
    (first,) = tg.autograd.grad(tg.linalg.det(a), a)
    np.testing.assert_allclose(first.numpy(), signs * minors, atol=1e-9 * max(1.0, np.abs(a.array).max() ** (n - 1)))
    (slow,) = tg.autograd.grad(tg.linalg.det(a), a, create_graph=True)
    np.testing.assert_allclose(
        slow.detach().numpy(), first.numpy(), atol=1e-9 * max(1.0, np.abs(a.array).max() ** (n - 1))
    )


def test_determinants_of_stacks_with_singular_matrices(torch: ModuleType) -> None:
    a = np.stack([SQUARE, np.ones((3, 3)), np.diag([1.0, 2.0, 0.0])])
    x = tg.tensor(a, requires_grad=True)
    tg.linalg.det(x).sum().backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad[0].numpy(), np.linalg.inv(SQUARE).T * np.linalg.det(SQUARE))
    np.testing.assert_allclose(x.grad[1:].numpy(), [np.zeros((3, 3)), np.diag([0.0, 0.0, 2.0])], atol=1e-12)
    x.grad = None
    tg.linalg.slogdet(x).logabsdet.sum().backward()
    np.testing.assert_allclose(x.grad[0].numpy(), np.linalg.inv(SQUARE).T)
    assert not np.isfinite(x.grad[2].numpy()).all()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: tg.linalg.svd(tg.ones(2)), r"svd: needs \(stacks of\) matrices, got shape \(2,\)"),
        (lambda: tg.linalg.svd(tg.ones(2, 2, dtype=tg.int64)), "svd: needs float32 or float64, got int64"),
        (lambda: tg.linalg.svd(tg.ones(2, 2), driver="gesvd"), "svd: driver .* no CUDA here, got 'gesvd'"),
        (lambda: tg.linalg.svdvals(tg.full((2, 2), math.nan)), "svdvals: .* NaN or infinite entries"),
        (lambda: tg.linalg.eigh(tg.ones(2, 3)), r"eigh: needs \(stacks of\) square matrices, got shape \(2, 3\)"),
        (lambda: tg.linalg.eigvalsh(tg.eye(2), UPLO="x"), "eigvalsh: UPLO must be 'L' or 'U', got 'x'"),
        (lambda: tg.linalg.qr(tg.eye(2), "full"), "qr: mode must be 'reduced', 'complete' or 'r', got 'full'"),
        (lambda: tg.linalg.qr(tg.ones(3, 2, requires_grad=True), "complete").Q.sum().backward(), "use mode='reduced'"),
        (lambda: tg.linalg.qr(tg.ones(3, 2, requires_grad=True), "complete").R.sum().backward(), "use mode='reduced'"),
        (lambda: tg.linalg.matrix_norm(tg.eye(2), 3), "matrix_norm: ord must be one of 'fro', 'nuc', inf, .* got 3"),
        (lambda: tg.linalg.matrix_norm(tg.eye(2), dim=(0, -2)), r"two different axes, got \(0, -2\)"),
        (lambda: tg.linalg.norm(tg.ones(2, 2, 2), "nuc"), r"norm: ord='nuc' without dim is for vectors and matrices"),
        (lambda: tg.linalg.norm(tg.ones(2, 2), "nuc", 1), r"matrix_norm: dim must be two axes, got \(1,\)"),
        (lambda: tg.linalg.matrix_norm(tg.ones(0, 2), -2), "matrix_norm: there is no norm -2 of no elements"),
        (lambda: tg.linalg.vector_norm(tg.ones(0), -1), "vector_norm: there is no norm -1 of no elements"),
        (lambda: tg.linalg.vector_norm(tg.ones(2), "fro"), "vector_norm: ord must be a number, got 'fro'"),
        (lambda: tg.linalg.lstsq(tg.ones(3, 2), tg.ones(2, 1)), "lstsq: matrices of shape .* do not fit"),
        (lambda: tg.linalg.lstsq(tg.ones(3, 2), tg.ones(3, 1), driver="x"), "lstsq: driver must be .* got 'x'"),
        (lambda: tg.linalg.lstsq(tg.ones(3, 2), tg.ones(3, 1), driver="gels"), "'gels' wants matrices of full rank"),
        (lambda: tg.linalg.solve(tg.eye(2), tg.ones(2), left=False), "solve: left=False is for matrices B"),
        (lambda: tg.linalg.solve(tg.eye(2), tg.ones(2, 1).double()), "solve: all must have the same dtype"),
        (lambda: tg.linalg.solve_triangular(tg.eye(2), tg.ones(3, 1), upper=True), "solve_triangular: .* do not fit"),
        (lambda: tg.linalg.lu(tg.eye(2), pivot=False), "lu: pivot=False is for CUDA"),
        (lambda: tg.linalg.tensorinv(tg.ones(2, 3), ind=1), "tensorinv: the first 1 axes must have as many"),
        (lambda: tg.linalg.tensorsolve(tg.ones(2, 3), tg.ones(2)), "tensorsolve: A of shape .* do not fit"),
        (lambda: tg.addmm(tg.ones(2, 2, 2), tg.eye(2), tg.eye(2)), r"addmm: input must broadcast .* \(2, 2\), got"),
        (lambda: tg.addmm(tg.ones(3), tg.eye(2), tg.eye(2)), r"addmm: input must broadcast .* \(2, 2\), got \(3,\)"),
        (lambda: tg.cdist(tg.eye(2), tg.eye(2), -1.0), "cdist: p must not be negative, got -1.0"),
        (lambda: tg.tensordot(tg.ones(2), tg.ones(3), 1), "tensordot: dims .* do not fit"),
        (lambda: tg.linalg.cross(tg.ones(2, 3), tg.ones(3)), "cross: both need as many dimensions"),
        (lambda: tg.linalg.matrix_power(tg.ones(2, 3), 0), "matrix_power: needs .* square"),
        (lambda: tg.linalg.vander(tg.ones(1)), "vander: N must be greater than 1, got 1"),
    ],
)  # fmt: skip
def test_misuse_is_told(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(RuntimeError, match=words) as told:
        call()
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("call", [tg.linalg.inv, tg.linalg.cholesky, lambda a: tg.linalg.solve(a, a)])
def test_what_has_no_answer_is_an_error_of_its_own(call: Callable[[Any], Any]) -> None:
    with pytest.raises(tg.linalg.LinAlgError, match=r"shape \(2, 2\)"):
        call(tg.tensor(RANK_ONE))
    assert issubclass(tg.linalg.LinAlgError, RuntimeError)
    with pytest.raises(tg.linalg.LinAlgError, match="NaN among the entries"):
        tg.linalg.cholesky(tg.full((2, 2), math.nan))


@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 3), (2, 3)])
def test_lu_unpacked_as_in_pytorch(shape: tuple[int, ...]) -> None:
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(0).normal(size=shape)
    found = []
    for t in (tg, torch):
        packed, pivots = t.tensor(x).lu()
        found.append([packed, pivots, *t.lu_unpack(packed, pivots)])
    for got, want in zip(*found, strict=True):
        assert str(got.dtype) == str(want.dtype)
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-12, atol=1e-14)
    with pytest.raises(RuntimeError, match="lu: pivot=False is for CUDA"):
        tg.eye(2).lu(pivot=False)

"""Resizing, sampling on grids, and pooling by index: PyTorch's values where ties, NaN and edges decide."""

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
from tests.test_nn import rows, starts_as_in_pytorch
from tinygrad_tf.nn import functional as F

RNG = np.random.default_rng(5)
UNKNOWN = rows(1, 2, 6, 5)
UNKNOWN[0, 0, 2, 3], UNKNOWN[0, 1, 5, 0], UNKNOWN[0, 1, 5, 1] = math.nan, math.nan, math.nan
TIES = np.round(rows(2, 2, 7, 5) / 2.0)
LOW = np.where(RNG.random((1, 2, 5, 4)) < 0.8, -math.inf, 1.0)
NEAREST = ("nearest", "nearest-exact")
LINE, IMAGE, VOLUME = rows(2, 3, 11), rows(2, 3, 7, 5), rows(1, 2, 3, 4, 5)
GRID = RNG.uniform(-1.7, 1.7, (2, 4, 3, 2))
CORNERS = np.array([[[[x, y] for x in (-1.0, 0.0, 1.0)] for y in (-1.0, -0.5, 1.0, 3.0)]] * 2)
PLACES = RNG.uniform(-1.5, 1.5, (1, 2, 2, 3, 3))

CASES: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "NaN in interpolate": (
        lambda f, x: [f.interpolate(x, (9, 8), mode=m) for m in (*NEAREST, "bilinear", "area")],
        (UNKNOWN,),
    ),
    "NaN in bicubic": (lambda f, x: f.interpolate(x, (9, 4), mode="bicubic"), (UNKNOWN,)),
    "NaN where a size stays": (lambda f, x: f.interpolate(x, (6, 9), mode="bilinear", align_corners=True), (UNKNOWN,)),
    "nearest, rounded in float32": (
        lambda f, x: [f.interpolate(x, scale_factor=s, mode=m) for s in (1.85, 2.3, 2.6, 0.37) for m in NEAREST],
        (LINE,),
    ),
    "trilinear": (
        lambda f, x: [f.interpolate(x, scale_factor=1.6, mode="trilinear", align_corners=a) for a in (True, False)],
        (VOLUME,),
    ),
    "volumes": (
        lambda f, x: [f.interpolate(x, (2, 5, 9), mode=m) for m in (*NEAREST, "area")], (VOLUME,),
    ),
    "antialias": (
        lambda f, x: [
            f.interpolate(x, s, mode=m, antialias=True, align_corners=a)
            for s in ((3, 2), (9, 4)) for m in ("bilinear", "bicubic") for a in (True, False)
        ],
        (IMAGE,),
    ),
    "antialias by a factor": (
        lambda f, x: f.interpolate(x, scale_factor=(0.45, 0.7), mode="bilinear", antialias=True), (IMAGE,),
    ),
    "max_pool ties": (lambda f, x: list(f.max_pool2d(x, 3, 2, 1, return_indices=True)), (TIES,)),
    "max_pool NaN": (lambda f, x: list(f.max_pool2d(x, 3, 1, 1, return_indices=True)), (UNKNOWN,)),
    "max_pool lows": (lambda f, x: list(f.max_pool2d(x, (3, 2), 2, 1, return_indices=True)), (LOW,)),
    "max_pool1d lows": (lambda f, x: list(f.max_pool1d(x, 3, 2, 1, 2, True, True)), (LOW[0],)),
    "adaptive max ties": (lambda f, x: list(f.adaptive_max_pool2d(x, (3, 2), return_indices=True)), (TIES,)),
    "adaptive max NaN": (lambda f, x: list(f.adaptive_max_pool2d(x, (4, 3), return_indices=True)), (UNKNOWN,)),
    "adaptive max keeps an axis": (lambda f, x: list(f.adaptive_max_pool2d(x[0], (None, 2), True)), (TIES,)),
    "adaptive max of lines": (lambda f, x: list(f.adaptive_max_pool1d(x, 4, return_indices=True)), (LINE,)),
    "max_unpool1d": (
        lambda f, x: [
            f.max_unpool1d(*f.max_pool1d(x, 2, return_indices=True), 2, output_size=size)
            for size in (None, (11,), (2, 3, 11))
        ][1:],
        (LINE,),
    ),
    "max_unpool2d": (
        lambda f, x: f.max_unpool2d(
            *f.max_pool2d(x, (2, 1), (3, 1), return_indices=True), (2, 1), (3, 1), output_size=(7, 5)
        ),
        (IMAGE,),
    ),
    "max_unpool2d padded": (
        lambda f, x: f.max_unpool2d(*f.max_pool2d(x[0], 3, 3, 1, return_indices=True), 3, 3, 1, (7, 5)), (IMAGE,),
    ),
    "lp_pool": (lambda f, x: [f.lp_pool1d(x, 2, 3, ceil_mode=True), f.lp_pool1d(x.abs(), 3, 2, 1)], (LINE,)),
    "lp_pool2d": (lambda f, x: f.lp_pool2d(x.abs(), 1.5, (2, 3), (1, 2)), (IMAGE,)),
    **{
        f"grid_sample {mode} {padding} {corners}": (
            lambda f, x, g, h, how=(mode, padding, corners): [
                f.grid_sample(x, g, *how), f.grid_sample(x, h, *how),
            ],
            (IMAGE, GRID, CORNERS),
        )
        for mode in ("bilinear", "nearest", "bicubic")
        for padding in ("zeros", "border", "reflection")
        for corners in (True, False)
    },
    **{
        f"grid_sample of volumes {mode} {padding}": (
            lambda f, x, g, how=(mode, padding, corners): f.grid_sample(x, g, *how), (VOLUME, PLACES),
        )
        for mode, padding, corners in (
            ("bilinear", "zeros", True), ("bilinear", "reflection", False), ("nearest", "border", False),
        )
    },
    "affine_grid": (
        lambda f, a: [f.affine_grid(a, (2, 1, 3, 4), align_corners=c) for c in (True, False)], (rows(2, 2, 3),),
    ),
    "affine_grid of volumes": (
        lambda f, a: [f.affine_grid(a, (2, 1, 3, 1, 2), align_corners=c) for c in (True, False)], (rows(2, 3, 4),),
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def torch() -> ModuleType:
    return pytest.importorskip("torch")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CASES)
def test_as_in_pytorch(torch: ModuleType, name: str, dtype: str) -> None:
    function, arrays = CASES[name]
    wanted, found = (results(t, partial(function, t.nn.functional), arrays, dtype) for t in (torch, tg))
    assert_same(found, wanted, 1e-10 if dtype == "float64" else 2e-5)


def test_a_gradient_that_is_nan_stays_where_it_is() -> None:
    """Of two lines, one has a NaN in its gradient: it reaches the two entries that the result is made of."""
    x = tg.ones(1, 1, 6, requires_grad=True)
    out = F.interpolate(x, 12, mode="linear")
    out.backward(tg.ones(1, 1, 12).masked_fill(tg.arange(12) == 5, math.nan))
    assert x.grad is not None
    assert np.isnan(x.grad.numpy()).ravel().tolist() == [False, False, True, True, False, False]


def test_antialiased_images_of_one_column(torch: ModuleType) -> None:
    """Each axis on its own, as for all other sizes; PyTorch 2.13 repeats the first row here."""
    x = rows(1, 1, 6, 2)
    both = F.interpolate(tg.tensor(x), (4, 1), mode="bilinear", antialias=True)
    first = F.interpolate(tg.tensor(x), (4, 2), mode="bilinear", antialias=True)
    np.testing.assert_allclose(both.numpy(), F.interpolate(first, (4, 1), mode="bilinear", antialias=True).numpy())
    assert len(np.unique(both.numpy())) == 4


def pools(n: Any) -> Any:
    return n.ModuleList(
        [
            n.MaxUnpool1d(2), n.MaxUnpool2d((2, 1), 3, (0, 1)), n.LPPool1d(2, 3),
            n.LPPool2d(1.5, (2, 3), stride=2, ceil_mode=True), n.AdaptiveMaxPool1d(2, return_indices=True),
            n.AdaptiveMaxPool2d(1, True),
        ]
    )  # fmt: skip


def test_modules_start_as_in_pytorch(torch: ModuleType) -> None:
    starts_as_in_pytorch(torch, pools)
    image = tg.arange(16.0).reshape(1, 1, 4, 4)
    best, places = tg.nn.AdaptiveMaxPool2d(2, return_indices=True)(image)
    rows_of_image = [[0.0] * 4, [0.0, 5.0, 0.0, 7.0], [0.0] * 4, [0.0, 13.0, 0.0, 15.0]]
    assert tg.nn.MaxUnpool2d(2)(best, places).tolist() == [[rows_of_image]]
    assert tg.nn.LPPool1d(2, 2)(tg.tensor([[[3.0, 4.0]]])).tolist() == [[[5.0]]]


ONES, FLAT = tg.ones(1, 1, 4, 4), tg.zeros(1, 2, 2, 2)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: F.interpolate(ONES, 2, antialias=True), ValueError, "antialias is for mode 'bilinear' and 'bicubic'"),
        (lambda: F.interpolate(ONES, 2, mode="linear"), NotImplementedError, "mode must be one of .* got 'linear'"),
        (lambda: F.interpolate(ONES[0, 0], 2), NotImplementedError, r"input must be \(N, C, L\), .* got \(4, 4\)"),
        (lambda: F.interpolate(ONES.long(), 2), NotImplementedError, "floating point dtype, got torch.int64"),
        (lambda: F.interpolate(ONES, 0), RuntimeError, r"at least one entry along each axis, got \(0, 0\)"),
        (lambda: F.interpolate(ONES, scale_factor=0.1), RuntimeError, "at least one entry along each axis"),
        (lambda: F.interpolate(ONES, (2, 2, 2)), ValueError, "size must be an integer or 2 of them"),
        (lambda: F.interpolate(ONES, 2.5), TypeError, "size must be integers, got 2.5"),
        (lambda: F.interpolate(ONES, 2, recompute_scale_factor=True), ValueError, "recompute_scale_factor is for"),
        (lambda: F.interpolate(ONES[:, :0], 2), RuntimeError, "only the batch may be empty"),
        (lambda: F.grid_sample(ONES, FLAT, "cubic"), ValueError, "mode must be one of .* got 'cubic'"),
        (lambda: F.grid_sample(ONES, FLAT, padding_mode="x"), ValueError, "padding_mode must be one of .* got 'x'"),
        (lambda: F.grid_sample(ONES, FLAT[..., :1]), RuntimeError, r"needs \(N, C, H, W\) with \(N, rows"),
        (lambda: F.grid_sample(ONES, FLAT.repeat(2, 1, 1, 1)), RuntimeError, "got input .* and grid"),
        (lambda: F.grid_sample(ONES, FLAT.double()), RuntimeError, "both must have the same dtype"),
        (lambda: F.grid_sample(ONES.long(), FLAT.long()), NotImplementedError, "needs a floating point dtype"),
        (lambda: F.grid_sample(ONES[:, :, :0], FLAT), RuntimeError, "images must not be empty"),
        (lambda: F.grid_sample(tg.ones(1, 1, 2, 2, 2), tg.zeros(1, 1, 1, 1, 3), "bicubic"), RuntimeError, "for images"),
        (lambda: F.affine_grid(tg.ones(1, 2, 3), (1, 2, 3)), NotImplementedError, "size must be"),
        (lambda: F.affine_grid(tg.ones(1, 2, 3), (1, 1, 2, 2, 2)), ValueError, r"theta must be \(N, 3, 4\)"),
        (lambda: F.affine_grid(tg.ones(1, 2, 3), (1, 1, 0, 2)), ValueError, "size must be positive"),
        (lambda: F.affine_grid(tg.ones(1, 2, 3), (2, 1, 2, 2)), RuntimeError, "1 maps for a batch of 2"),
        (lambda: F.affine_grid(tg.ones(1, 2, 3).long(), (1, 1, 2, 2)), ValueError, "theta must have a floating point"),
        (lambda: F.max_unpool1d(tg.ones(1, 1, 2), tg.tensor([[[0, 4]]]), 2), RuntimeError, r"in \[0, 3\] .* 0 to 4"),
        (lambda: F.max_unpool1d(tg.ones(1, 1, 2), tg.tensor([[[0, -1]]]), 2), RuntimeError, "got -1 to 0"),
        (lambda: F.max_unpool1d(tg.ones(1, 1, 2), tg.tensor([[[0]]]), 2), RuntimeError, "must have input's shape"),
        (lambda: F.max_unpool1d(tg.ones(1, 1, 1), tg.tensor([[[0]]]).int(), 2), RuntimeError, "must be int64"),
        (lambda: F.max_unpool1d(tg.ones(1, 1, 1), tg.tensor([[[0]]]), 2, output_size=(9,)), ValueError, "by less than"),
        (lambda: F.max_unpool1d(tg.ones(1, 1, 1), tg.tensor([[[0]]]), 2, output_size=(1, 2)), ValueError, "1 or 3 int"),
    ],
)  # fmt: skip
def test_misuse_is_told(call: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words) as told:
        call()
    assert "\n" not in str(told.value)

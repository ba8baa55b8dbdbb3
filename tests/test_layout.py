"""How results lie in memory: only operations element by element keep the order of their inputs, so that `.view()` takes
what all others return, whatever was transposed before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinygrad_tf as tg
from tinygrad_tf import Tensor
from tinygrad_tf.nn import functional as F
from tinygrad_tf.utils.data import DataLoader

LAYOUTS = {
    "in order": (0, 1, 2, 3),
    "backwards": (3, 2, 1, 0),
    "channels last": (0, 3, 1, 2),
    "heads": (0, 2, 1, 3),
}
IDS = tg.tensor([1, 0])
DIMS: dict[str, Any] = {"0": 0, "1": 1, "-1": -1, "(1, 2)": (1, 2), "(2, 3)": (2, 3)}
REDUCTIONS = ("sum", "mean", "var", "std", "amax", "amin", "logsumexp", "norm", "nansum", "any", "all", "count_nonzero")
ALONG = ("cumsum", "cumprod", "logcumsumexp", "softmax", "prod", "argmax", "argsort")
PAIRS = ("max", "min", "sort", "cummax", "cummin", "median", "mode")


def _reduced(name: str, dim: Any) -> Callable[[Tensor], Tensor]:
    return lambda x: getattr(x, name)(dim=dim)


def _first(name: str, dim: int) -> Callable[[Tensor], Tensor]:
    return lambda x: getattr(x, name)(dim)[0]


CASES: dict[str, Callable[[Tensor], Tensor]] = {
    **{f"{name} {text}": _reduced(name, dim) for name in REDUCTIONS for text, dim in DIMS.items()},
    **{f"{name} {dim}": _reduced(name, dim) for name in ALONG for dim in (0, 1, -1)},
    **{f"{name} {dim}": _first(name, dim) for name in PAIRS for dim in (0, 1, -1)},
    "cat 0": lambda x: tg.cat([x, x]),
    "cat -1": lambda x: tg.cat([x, x], -1),
    "cat of one": lambda x: tg.cat([x], 1),
    "stack 0": lambda x: tg.stack([x, x]),
    "stack -1": lambda x: tg.stack([x, x], -1),
    "roll": lambda x: x.roll(1, 1),
    "repeat": lambda x: x.repeat(2, 1, 1, 1),
    "repeat_interleave": lambda x: x.repeat_interleave(2, 1),
    "tril": lambda x: x.tril(),
    "triu": lambda x: x.triu(),
    "masked_fill": lambda x: x.masked_fill(x > 0.5, 0.0),
    "index_select": lambda x: x.index_select(1, IDS),
    "a list in the first place": lambda x: x[[1, 0]],
    "a list in the second place": lambda x: x[:, [1, 0]],
    "a list in the last place": lambda x: x[..., [1, 0]],
    "a list after None": lambda x: x[:, None, [1, 0]],
    "a table in the second place": lambda x: x[:, tg.tensor([[0, 1], [1, 0]])],
    "truths in the last place": lambda x: x[..., tg.arange(x.shape[-1]) < 1],
    "gather": lambda x: x.gather(1, tg.zeros(2, 1, 1, 1, dtype=tg.int64)),
    "one_hot": lambda x: F.one_hot((x * 3).long(), 3),
    "reflect": lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"),
    "interpolate": lambda x: F.interpolate(x, scale_factor=2),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("case", CASES)
def test_results_are_laid_out_in_order(case: str, layout: str) -> None:
    order = LAYOUTS[layout]
    shape = (2, 3, 4, 5)
    x = tg.rand(*[shape[order.index(i)] for i in range(4)], generator=tg.Generator().manual_seed(0)).permute(order)
    assert x.shape == shape and x.is_contiguous() == (layout == "in order")
    result = CASES[case](x)
    assert result.is_contiguous()
    assert result.view(-1).shape == (result.numel(),)
    same = CASES[case](x.contiguous())
    np.testing.assert_allclose(result.numpy(), same.numpy(), rtol=1e-6)


BY_ELEMENT: dict[str, Callable[[Any, Any], Any]] = {
    "gelu": lambda t, x: t.nn.functional.gelu(x),
    "elu": lambda t, x: t.nn.functional.elu(x),
    "where": lambda t, x: t.where(x > 0.5, x, 0.0),
    "positions behind": lambda t, x: x + t.ones(x.shape),
    "positions of one row": lambda t, x: x + t.ones(1, *x.shape[1:]),
    "positions in front": lambda t, x: t.ones(x.shape) + x,
    "an expanded row": lambda t, x: t.ones(5, 1).expand(2, 3, 5, 4).transpose(-1, -2) + t.ones(x.shape),
    "zeros_like": lambda t, x: t.zeros_like(x),
    "ones_like": lambda t, x: t.ones_like(x, dtype=t.int64),
    "empty_like": lambda t, x: t.empty_like(x),
    "dropout": lambda t, x: t.nn.functional.dropout(x, 0.5),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("case", BY_ELEMENT)
def test_what_goes_element_by_element_lies_as_in_pytorch(case: str, layout: str) -> None:
    torch, order = pytest.importorskip("torch"), LAYOUTS[layout]
    sizes = [(2, 3, 4, 5)[order.index(i)] for i in range(4)]
    strides = [BY_ELEMENT[case](t, t.ones(sizes).permute(order)).stride() for t in (torch, tg)]
    assert strides[0] == strides[1]


@pytest.mark.parametrize("batch_first", [False, True])
def test_attention_returns_rows_of_one_time_together(batch_first: bool) -> None:
    torch = pytest.importorskip("torch")
    layers = [t.nn.MultiheadAttention(8, 2, batch_first=batch_first) for t in (torch, tg)]
    found = [layer(*[t.ones(2, 3, 8)] * 3)[0] for layer, t in zip(layers, (torch, tg), strict=True)]
    assert found[0].stride() == found[1].stride()


def test_batches_of_transposed_pictures_can_be_viewed() -> None:
    """What many datasets return: a picture as NumPy has it, its channels put first."""
    pictures = [tg.from_numpy(np.random.default_rng(i).random((4, 4, 3)).transpose(2, 0, 1)) for i in range(4)]
    (batch,) = DataLoader(pictures, batch_size=4)
    assert batch.view(4, -1).shape == (4, 48)


def test_a_view_stays_a_view_where_it_is_no_copy() -> None:
    x = tg.zeros(2, 3, 4)
    x.permute(2, 0, 1)[1:, :, [True, False, False]].fill_(5.0)
    assert not x.any()  # an index made of truths copies
    x.permute(2, 0, 1)[1:, :, ::2].fill_(1.0)
    assert x.sum().item() == 12.0

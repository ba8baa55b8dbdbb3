"""What type checkers and editors know of the package: tests/test_typing.py has mypy check it. It is never run."""

from typing import assert_type

import tinygrad_tf as torch
import tinygrad_tf.nn.functional as F
from tinygrad_tf import nn, optim
from tinygrad_tf.methods import ValuesIndices
from tinygrad_tf.tensor import Size, Tensor


def creation(generator: torch.Generator, dtype: torch.dtype) -> None:
    assert_type(torch.tensor([1.0, 2.0]), Tensor)
    assert_type(torch.zeros(2, 3, dtype=dtype), Tensor)
    assert_type(torch.randn(2, 3, generator=generator), Tensor)
    assert_type(torch.LongTensor([1, 2]), Tensor)
    assert_type(torch.float32, torch.dtype)
    assert_type(torch.arange(3).dtype, torch.dtype)


def properties(x: torch.Tensor) -> None:
    assert_type(x.shape, Size)
    assert_type(x.size(), Size)
    assert_type(x.size(0), int)
    assert_type(x.stride(0), int)
    assert_type(x.T, Tensor)
    assert_type(x.data, Tensor)
    assert_type(x.requires_grad, bool)
    assert_type(x.type(), str)
    assert_type(x.type(torch.int64), Tensor)
    assert_type(x.numel(), int)


def operators(x: torch.Tensor) -> None:
    assert_type(x + 1, Tensor)
    assert_type(2.0 / x, Tensor)
    assert_type(x @ x, Tensor)
    assert_type(x == x, Tensor)
    assert_type(-x, Tensor)
    assert_type(x[0, ..., None], Tensor)
    for row in x:
        assert_type(row, Tensor)


def methods(x: torch.Tensor) -> None:
    assert_type(x.exp(), Tensor)
    assert_type(x.view(2, -1), Tensor)
    assert_type(x.transpose(0, 1), Tensor)
    assert_type(x.split(2), tuple[Tensor, ...])
    assert_type(x.mean(0, keepdim=True), Tensor)
    assert_type(x.softmax(dim=-1), Tensor)
    assert_type(x.max(), Tensor)
    assert_type(x.max(1), ValuesIndices)
    assert_type(x.sort(descending=True), ValuesIndices)
    assert_type(x.topk(3).values, Tensor)
    assert_type(x.masked_fill_(x > 0, 1.0), Tensor)
    assert_type(x.add_(x, alpha=2), Tensor)
    assert_type(x.nonzero(), Tensor)
    assert_type(x.nonzero(as_tuple=True), tuple[Tensor, ...])
    assert_type(x.unique(), Tensor)
    assert_type(x.allclose(x), bool)
    assert_type(x.detach().clone().float(), Tensor)


def functions(x: torch.Tensor) -> None:
    assert_type(torch.exp(x), Tensor)
    assert_type(torch.softmax(x, dim=-1), Tensor)
    assert_type(torch.max(x, 1), ValuesIndices)
    assert_type(torch.sum(x, dim=(0, 1)), Tensor)
    assert_type(torch.median(x), Tensor)
    assert_type(torch.where(x > 0, x, 0.0), Tensor)
    assert_type(torch.where(x > 0), tuple[Tensor, ...])
    assert_type(torch.cat([x, x], dim=1), Tensor)
    assert_type(torch.einsum("bthd,bshd->bhts", x, x), Tensor)
    assert_type(torch.matmul(x, x), Tensor)
    assert_type(torch.meshgrid(x, x, indexing="ij"), tuple[Tensor, ...])
    assert_type(torch.atleast_2d(x), Tensor)
    assert_type(torch.topk(x, 3).indices, Tensor)
    assert_type(torch.multinomial(x, 1), Tensor)
    assert_type(torch.linalg.norm(x), Tensor)
    assert_type(torch.linalg.svd(x).S, Tensor)
    assert_type(torch.view_as_real(torch.polar(x, x)), Tensor)
    assert_type(torch.fft.fft2(x).real, Tensor)
    assert_type(torch.fft.irfft(torch.fft.rfft(x)), Tensor)
    assert_type(torch.fft.fftshift(x), Tensor)


def functional(x: torch.Tensor) -> None:
    assert_type(F.relu(x), Tensor)
    assert_type(F.softmax(x, dim=-1), Tensor)
    assert_type(F.cross_entropy(x, x), Tensor)
    assert_type(F.scaled_dot_product_attention(x, x, x, is_causal=True), Tensor)
    assert_type(F.layer_norm(x, (3,)), Tensor)
    assert_type(F.conv2d(x, x), Tensor)
    assert_type(F.pad(x, (1, 1)), Tensor)


def modules(x: torch.Tensor) -> None:
    layer = nn.Linear(2, 3)
    assert_type(layer.weight, nn.Parameter)
    assert_type(layer.forward(x), Tensor)
    assert_type(layer.train(), nn.Linear)
    assert_type(layer.to(torch.float64), nn.Linear)
    assert_type(nn.Embedding(3, 4).forward(x), Tensor)
    assert_type(nn.LayerNorm(3).forward(x), Tensor)
    assert_type(nn.Conv1d(1, 1, 1).forward(x), Tensor)
    assert_type(nn.AvgPool2d(2).forward(x), Tensor)
    assert_type(nn.MultiheadAttention(2, 2).forward(x, x, x), tuple[Tensor, Tensor | None])
    assert_type(nn.CrossEntropyLoss().forward(x, x), Tensor)
    assert_type(nn.TransformerEncoderLayer(2, 2).forward(x), Tensor)
    assert_type(optim.AdamW(layer.parameters(), lr=1e-3), optim.AdamW)
    assert_type(optim.LBFGS(layer.parameters()), optim.LBFGS)
    assert_type(nn.utils.prune.l1_unstructured(layer, "weight", 0.5), nn.Module)
    with torch.no_grad():
        assert_type(next(layer.named_parameters()), tuple[str, nn.Parameter])

"""Embeddings as modules: the vectors of ids, one by one or as the sum of a bag of them."""

from __future__ import annotations

from typing import Any, Self

from tinygrad_tf.creation import empty
from tinygrad_tf.nn import functional as F
from tinygrad_tf.nn import init
from tinygrad_tf.nn.functional.embedding import MODES
from tinygrad_tf.nn.module import Module
from tinygrad_tf.nn.parameter import Parameter
from tinygrad_tf.tensor import Tensor


class _Table(Module):
    """A table of num_embeddings rows of embedding_dim numbers, and what is done with them when they are looked up."""

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: Any = None,
    ):
        super().__init__()
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.max_norm, self.norm_type, self.scale_grad_by_freq = max_norm, norm_type, scale_grad_by_freq
        self.sparse = sparse
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise ValueError(f"padding_idx must be within {num_embeddings} rows, got {padding_idx}")
            padding_idx %= num_embeddings
        self.padding_idx = padding_idx
        if _weight is None:
            self.weight = Parameter(empty(num_embeddings, embedding_dim, dtype=dtype, device=device), not _freeze)
            self.reset_parameters()
        elif tuple(_weight.shape) != (num_embeddings, embedding_dim):
            wanted = (num_embeddings, embedding_dim)
            raise ValueError(f"{type(self).__name__}: weight must have the shape {wanted}, got {tuple(_weight.shape)}")
        else:
            self.weight = Parameter(_weight, not _freeze)

    @classmethod
    def from_pretrained(
        cls, embeddings: Tensor, freeze: bool = True, padding_idx: int | None = None, **settings: Any
    ) -> Self:
        """One on a given table (num_embeddings, embedding_dim); frozen unless told otherwise."""
        if embeddings.ndim != 2:
            raise ValueError(f"{cls.__name__}: the table must have two dimensions, got {tuple(embeddings.shape)}")
        rows, size = embeddings.shape
        return cls(rows, size, padding_idx=padding_idx, _weight=embeddings, _freeze=freeze, **settings)

    def reset_parameters(self) -> None:
        init.normal_(self.weight)
        if self.padding_idx is not None:
            self.weight.array[self.padding_idx] = 0

    def _rules(self) -> str:
        """Settings that are not the usual ones, for repr."""
        usual = {"max_norm": None, "norm_type": 2, "scale_grad_by_freq": False}
        return "".join(f", {k}={getattr(self, k)}" for k, v in usual.items() if getattr(self, k) != v)


class Embedding(_Table):
    """A table of num_embeddings rows: ids of any shape (*) to vectors (*, embedding_dim). Starts normal (0, 1).

    The row padding_idx starts at zero and gets no gradient. Gradients are dense, also with sparse=True. What max_norm,
    norm_type and scale_grad_by_freq do is told at nn.functional.embedding.
    """

    def forward(self, input: Tensor) -> Tensor:
        settings = (self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse)
        return F.embedding(input, self.weight, self.padding_idx, *settings)

    def extra_repr(self) -> str:
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        sparse = ", sparse=True" if self.sparse else ""
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}{self._rules()}{sparse}"


class EmbeddingBag(_Table):
    """The mean (or sum, or maximum) of the embeddings of each bag of ids, in one go; see nn.functional.embedding_bag.

    >>> import tinygrad_tf as tg
    >>> layer = EmbeddingBag(10, 3, mode="sum")
    >>> words, beginnings = tg.tensor([4, 2, 7, 7]), tg.tensor([0, 1])
    >>> layer(words, beginnings).shape, layer
    (torch.Size([2, 3]), EmbeddingBag(10, 3, mode='sum'))
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
        *,
        _freeze: bool = False,
    ):
        if mode not in MODES:
            raise ValueError(f"EmbeddingBag: mode must be one of {MODES}, got {mode!r}")
        settings: dict[str, Any] = {"device": device, "dtype": dtype, "_weight": _weight, "_freeze": _freeze}
        super().__init__(
            num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse, **settings
        )
        self.mode, self.include_last_offset = mode, include_last_offset

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            mode=self.mode,
            per_sample_weights=per_sample_weights,
            include_last_offset=self.include_last_offset,
            padding_idx=self.padding_idx,
        )

    def extra_repr(self) -> str:
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{self._rules()}, mode={self.mode!r}{padding}"

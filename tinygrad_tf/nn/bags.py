"""The embedding of a bag of words."""

from __future__ import annotations

from typing import Any

from tinygrad_tf.nn import functional as F
from tinygrad_tf.nn.functional.embedding import MODES
from tinygrad_tf.nn.layers import Embedding
from tinygrad_tf.tensor import Tensor


class EmbeddingBag(Embedding):
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
            mode=self.mode,
            per_sample_weights=per_sample_weights,
            include_last_offset=self.include_last_offset,
            padding_idx=self.padding_idx,
        )

    def extra_repr(self) -> str:
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}, mode={self.mode!r}{padding}"

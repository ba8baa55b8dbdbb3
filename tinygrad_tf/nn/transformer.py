"""PyTorch's encoder-decoder Transformer and its parts (Vaswani et al., 2017): its arguments, names and initialisation.

Masks are as in `nn.MultiheadAttention`: True (or -inf) where a position must be ignored. All layers of a stack start as
copies of the one given. `models` holds Transformers with this package's own, plainer parts.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tinygrad_tf._device import checked
from tinygrad_tf.engine import make
from tinygrad_tf.nn import functional as F
from tinygrad_tf.nn import init
from tinygrad_tf.nn.container import ModuleList
from tinygrad_tf.nn.dropout import Dropout
from tinygrad_tf.nn.linear import Linear
from tinygrad_tf.nn.module import Module
from tinygrad_tf.nn.multihead import MultiheadAttention
from tinygrad_tf.nn.norm import LayerNorm
from tinygrad_tf.tensor import Tensor

Activation = str | Callable[[Tensor], Tensor]


class _Layer(Module):
    """What encoder and decoder layers share: self-attention, the feed-forward network, residual connections."""

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ):
        super().__init__()
        settings: dict[str, Any] = {"device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **settings)
        self._add_cross_attention(d_model, nhead, dropout, bias, batch_first, settings)
        self.linear1 = Linear(d_model, dim_feedforward, bias, **settings)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, **settings)
        self.norm_first = norm_first
        for i in range(1, self.sublayers + 1):
            setattr(self, f"norm{i}", LayerNorm(d_model, layer_norm_eps, bias=bias, **settings))
        for i in range(1, self.sublayers + 1):
            setattr(self, f"dropout{i}", Dropout(dropout))
        self.activation = _activation(activation)

    sublayers = 2

    def _add_cross_attention(self, *settings: Any) -> None:
        pass

    def _residual(self, number: int, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """x + dropout(sublayer(x)), with the norm before the sublayer or behind the sum."""
        norm, dropout = getattr(self, f"norm{number}"), getattr(self, f"dropout{number}")
        if self.norm_first:
            return x + dropout(sublayer(norm(x)))
        return norm(x + dropout(sublayer(x)))

    def _feed_forward(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


class TransformerEncoderLayer(_Layer):
    """Self-attention and a feed-forward network, each with dropout, residual connection and layer norm.

    >>> from tinygrad_tf import nn, zeros
    >>> nn.TransformerEncoderLayer(d_model=8, nhead=2, batch_first=True)(zeros(1, 3, 8)).shape
    torch.Size([1, 3, 8])
    """

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        def attend(x: Tensor) -> Tensor:
            return self.self_attn(x, x, x, src_key_padding_mask, False, src_mask, is_causal=is_causal)[0]

        return self._residual(2, self._residual(1, src, attend), self._feed_forward)


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to the encoder's output `memory`, and a feed-forward network."""

    sublayers = 3

    def _add_cross_attention(
        self, d_model: int, nhead: int, dropout: float, bias: bool, batch_first: bool, settings: dict[str, Any]
    ) -> None:
        self.multihead_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **settings)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        def attend(x: Tensor) -> Tensor:
            return self.self_attn(x, x, x, tgt_key_padding_mask, False, tgt_mask, is_causal=tgt_is_causal)[0]

        def look(x: Tensor) -> Tensor:
            masks = memory_key_padding_mask, False, memory_mask
            return self.multihead_attn(x, memory, memory, *masks, is_causal=memory_is_causal)[0]

        x = self._residual(2, self._residual(1, tgt, attend), look)
        return self._residual(3, x, self._feed_forward)


class _Stack(Module):
    """num_layers copies of a layer, and a norm behind them if one is given."""

    def __init__(self, layer: Module, num_layers: int, norm: Module | None):
        super().__init__()
        self.layers = ModuleList(copy.deepcopy(layer) for _ in range(num_layers))
        self.num_layers, self.norm = num_layers, norm

    def _through(self, x: Tensor, *others: Any) -> Tensor:
        """x through all layers, each of which is given the others, too."""
        for layer in self.layers:
            x = layer(x, *others)
        return x if self.norm is None else self.norm(x)


class TransformerEncoder(_Stack):
    """num_layers copies of a layer, one after the other, and a norm behind them if one is given.

    enable_nested_tensor and mask_check steer an optimisation of PyTorch's that is not needed here: padded positions are
    computed like all others, where PyTorch in evaluation mode gives zeros.
    """

    def __init__(
        self,
        encoder_layer: TransformerEncoderLayer,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ):
        super().__init__(encoder_layer, num_layers, norm)

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        return self._through(src, mask, src_key_padding_mask, bool(is_causal))


class TransformerDecoder(_Stack):
    """num_layers copies of a layer, one after the other, and a norm behind them if one is given."""

    def __init__(self, decoder_layer: TransformerDecoderLayer, num_layers: int, norm: Module | None = None):
        super().__init__(decoder_layer, num_layers, norm)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        masks = tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask
        return self._through(tgt, memory, *masks, bool(tgt_is_causal), memory_is_causal)


class Transformer(Module):
    """Encoder and decoder: src (S, N, E) and tgt (T, N, E) give (T, N, E); N comes first with batch_first=True.

    There are no embeddings, positions or output layer in it. All matrices start by Xavier's rule.

    >>> from tinygrad_tf import nn, zeros
    >>> model = nn.Transformer(d_model=8, nhead=2, num_encoder_layers=1, num_decoder_layers=1, dim_feedforward=16)
    >>> model(zeros(5, 1, 8), zeros(3, 1, 8)).shape
    torch.Size([3, 1, 8])
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        custom_encoder: Any = None,
        custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ):
        super().__init__()
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first
        layer = d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias
        settings: dict[str, Any] = {"device": device, "dtype": dtype}
        norm: dict[str, Any] = {"eps": layer_norm_eps, "bias": bias, **settings}
        self.encoder = custom_encoder or TransformerEncoder(
            TransformerEncoderLayer(*layer, **settings), num_encoder_layers, LayerNorm(d_model, **norm)
        )
        self.decoder = custom_decoder or TransformerDecoder(
            TransformerDecoderLayer(*layer, **settings), num_decoder_layers, LayerNorm(d_model, **norm)
        )
        for parameter in self.parameters():
            if parameter.ndim > 1:
                init.xavier_uniform_(parameter)

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        batch = 0 if self.batch_first else 1
        if src.ndim == 3 and tgt.ndim == 3 and src.shape[batch] != tgt.shape[batch]:
            raise RuntimeError(f"Transformer: src {tuple(src.shape)} and tgt {tuple(tgt.shape)} must have the same N")
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            shapes = f"src {tuple(src.shape)}, tgt {tuple(tgt.shape)}"
            raise RuntimeError(
                f"Transformer: the last size of src and tgt must be d_model = {self.d_model}, got {shapes}"
            )
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        padding = tgt_key_padding_mask, memory_key_padding_mask
        return self.decoder(tgt, memory, tgt_mask, memory_mask, *padding, tgt_is_causal, memory_is_causal)

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """(sz, sz) with -inf above the diagonal and 0 elsewhere, to be added: position i sees 0 ... i.

        >>> Transformer.generate_square_subsequent_mask(2)
        tensor([[0., -inf],
                [0., 0.]])
        """
        checked(device)
        mask = np.triu(np.full((sz, sz), -math.inf), 1)
        return make(mask.astype(np.float32 if dtype is None else dtype))


def _activation(activation: Activation) -> Callable[[Tensor], Tensor]:
    known: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu}
    if isinstance(activation, str):
        if activation not in known:
            raise RuntimeError(f"activation must be 'relu', 'gelu' or a function, got {activation!r}")
        return known[activation]
    return activation

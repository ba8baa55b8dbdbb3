"""What a Transformer is made of: its parts by name and its sizes, with those of the paper's two models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tinygrad_tf.models.config import check_parts
from tinygrad_tf.nn.position import AttentionPositions, attention_positions


@dataclass(frozen=True)
class TransformerConfig:
    """The parts and sizes of a Transformer; the defaults are the paper's base model (table 3).

    Parts are chosen by name; an unknown name is a ValueError that lists the known ones.
    """

    vocab_size: int = 37000  # V: of the source, and of the target unless target_vocab_size says otherwise
    target_vocab_size: int | None = None  # None: source and target share one vocabulary and one embedding
    d_model: int = 512  # C, divisible by num_heads
    num_heads: int = 8  # H
    d_ff: int | None = 2048  # inner width of the feed-forward networks; None: 4 C, or 8/3 C with a gate
    encoder_layers: int = 6
    decoder_layers: int = 6
    dropout: float = 0.1  # of embeddings, attention weights and residual branches, in training (section 5.4)
    max_len: int = 1024  # the end of tables of positions
    pad: int | None = None  # the id of padding: hidden in the source, left out of the loss
    positions: str = "sinusoidal"  # 'sinusoidal', 'learned', 'relative', 'rope', 'alibi' or 'none'
    norm: str = "layer"  # 'layer', 'rms', 'batch' or 'none'
    norm_first: bool = False  # post-norm, as in the paper; True is pre-norm, with a last norm behind each stack
    activation: str = "relu"  # 'relu', 'gelu', 'gelu_tanh', 'silu', 'swiglu' or 'geglu'
    attention: str = "full"  # 'full', 'local', 'block_sparse', 'linear' or 'additive'
    num_kv_heads: int | None = None  # heads of keys and values; None: as many as num_heads
    bias: bool = True  # in linear layers and layer norms
    tied: bool = True  # the target's embedding and the last layer share their weight (section 3.4)
    scale_embeddings: bool = True  # multiply embeddings by sqrt(C) (section 3.4)
    window: int = 32  # of attention='local'
    block_size: int = 16  # of attention='block_sparse'
    rope_pairing: str = "halves"  # of positions='rope': 'halves' or 'interleaved'
    rope_base: float = 10000.0  # of positions='rope'
    recompute: bool = False  # keep the inputs of layers alone, and run each again in the backward pass

    def __post_init__(self) -> None:
        own = () if self.target_vocab_size is None else ("target_vocab_size",)
        sizes = ("vocab_size", *own, "encoder_layers", "decoder_layers", "max_len")
        check_parts(self, sizes, ("d_model", "num_heads", "num_kv_heads"))
        if self.pad is not None and self.pad not in range(self.vocab_size):
            raise ValueError(f"TransformerConfig: pad must be an id in [0, {self.vocab_size - 1}], got {self.pad!r}")

    @classmethod
    def base(cls, **changes: Any) -> TransformerConfig:
        """The paper's base model: 6 + 6 layers, 512 channels, 8 heads, 2048 inside (table 3).

        44,138,496 parameters in the layers, and 512 for each token of the vocabulary, whose one matrix embeds source
        and target and is the last layer, too. So "about 37,000 tokens" (section 5.1) give 63.1 million; the 65 million
        of table 3 are those of a vocabulary of about 40,700. (The layers: 6 x 3,152,384 in the encoder, 6 x 4,204,032
        in the decoder; 1,050,624 in each attention, 2,099,712 in each feed-forward network, 1,024 in each norm.)
        """
        return cls(**changes)

    @classmethod
    def big(cls, **changes: Any) -> TransformerConfig:
        """The paper's big model (table 3, last row): 176,357,376 parameters in the layers, 1,024 for each token."""
        return cls(**{"d_model": 1024, "num_heads": 16, "d_ff": 4096, "dropout": 0.3, **changes})

    def block_settings(self) -> dict[str, Any]:
        """The arguments of `nn.Block`."""
        same = ("d_model", "num_heads", "d_ff", "activation", "dropout", "bias", "norm_first", "norm", "attention")
        return {n: getattr(self, n) for n in (*same, "num_kv_heads", "window", "block_size")}

    def attention_positions(self, bidirectional: bool) -> AttentionPositions | None:
        head_size = self.d_model // self.num_heads
        return attention_positions(
            self.positions, self.num_heads, head_size, bidirectional, self.rope_pairing, self.rope_base
        )


def config_of(config: TransformerConfig | int, num_heads: int | None, parts: dict[str, Any]) -> TransformerConfig:
    """A config as it is, or one made of a layer's numbers."""
    if isinstance(config, TransformerConfig):
        if num_heads is not None or any(v is not None for v in parts.values()):
            raise TypeError("give a TransformerConfig alone, or d_model, num_heads and what else differs")
        return config
    if num_heads is None:
        raise TypeError("a layer needs d_model and num_heads, or a TransformerConfig")
    given = {n: v for n, v in parts.items() if v is not None}
    return TransformerConfig(**{"d_model": config, "num_heads": num_heads, "d_ff": None, **given})

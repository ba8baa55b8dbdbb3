"""Writes examples/THE_PAPER.md: which lines of this package are which part of "Attention Is All You Need".

    python -m tests.paper        after a change that moves lines; tests/test_paper.py says when

A place is written "file:Name.of.function", or "file:Name|text" for the one line of it that holds the text; both are
looked up in the sources, so that the table names nothing that is not there.
"""

from __future__ import annotations

import ast
from pathlib import Path

TOP = Path(__file__).parent.parent
TABLE = TOP / "examples" / "THE_PAPER.md"

HEAD = """# The paper in this package

The sections, equations, tables and figures of Vaswani et al., *Attention Is All You Need* (2017), and the lines that
are them. After it, the words that introductions to the Transformer use, and what came later. The table is written by
`python -m tests.paper`, and a test fails when a name or a line has moved.
"""

BLOCKS, ATTENTION, VARIANTS, LINEAR = (
    f"nn/{n}.py" for n in ("blocks", "attention", "attention_variants", "linear_attention")
)
POSITION, NORM, MASKS, OPS = "nn/position.py", "nn/norm.py", "nn/masks.py", "ops/attention.py"
MODEL, GPT, MODERN = "models/transformer.py", "models/gpt.py", "models/decoder.py"
SAMPLING, BEAMS, FILTERS = "generation/sampling.py", "generation/beams.py", "generation/filters.py"
CONFIG = "models/transformer_config.py"
RATES, SHARES, EXAMPLES = "optim/lr_scheduler/_curves.py", "training/scheduled_sampling.py", "examples"

# Where in the paper; what it says there; where that is here.
PAPER: list[tuple[str, str, list[str]]] = [
    ("2", "self-attention: queries, keys and values from one sequence", [f"{ATTENTION}:MultiHeadAttention.forward"]),
    ("3, figure 1", "encoder and decoder, embeddings, positions, last linear layer", [f"{MODEL}:Transformer"]),
    (
        "3.1",
        "encoder: a stack of N = 6 layers of two sub-layers",
        [f"{MODEL}:Encoder", f"{MODEL}:EncoderLayer", f"{CONFIG}:TransformerConfig|encoder_layers: int"],
    ),
    (
        "3.1",
        "LayerNorm(x + Sublayer(x))",
        [f"{BLOCKS}:Block.forward|x = self.norm1(x + ", f"{BLOCKS}:Block.forward|return self.norm2(x + "],
    ),
    (
        "3.1",
        "decoder: a third sub-layer that attends to the encoder's output",
        [f"{MODEL}:Decoder", f"{MODEL}:DecoderLayer.forward"],
    ),
    (
        "3.1",
        "masked, and the outputs offset by one position",
        [f"{MODEL}:Decoder.forward|True, self.attention_positions", f"{SHARES}:shift_right"],
    ),
    (
        "3.2",
        "attention maps a query and key-value pairs to a weighted sum",
        [f"{OPS}:attention", f"{EXAMPLES}/attention_by_hand.py:steps"],
    ),
    (
        "3.2.1, equation 1, figure 2",
        "softmax(Q Kᵀ / √d_k) V, by the plain formula",
        [f"{OPS}:attention_reference", f"{OPS}:attention_weights|scores = matmul(", f"{OPS}:weights_of"],
    ),
    (
        "3.2.1",
        "the same without storing the scores",
        ["kernels/attention.py:attention", "kernels/attention.py:attention_backward"],
    ),
    ("3.2.1", "additive attention", [f"{VARIANTS}:AdditiveAttention"]),
    (
        "3.2.1, footnote 4",
        "the variance of q·k is d_k, hence 1 / √d_k",
        [
            f"{ATTENTION}:MultiHeadAttention.restrict|math.sqrt(self.head_size)",
            f"{EXAMPLES}/why_sqrt_dk.py:dot_products",
        ],
    ),
    (
        "3.2.2, figure 2",
        "h heads, each with projections of its own, concatenated, projected by W^O",
        [
            f"{ATTENTION}:MultiHeadAttention",
            f"{ATTENTION}:MultiHeadAttention.split_heads",
            f"{ATTENTION}:MultiHeadAttention.merge_heads",
            f"{ATTENTION}:MultiHeadAttention.__init__|self.out_proj =",
        ],
    ),
    (
        "3.2.2",
        "d_k = d_v = d_model / h = 64",
        [f"{ATTENTION}:MultiHeadAttention.__init__|self.head_size =", f"{EXAMPLES}/heads_as_shapes.py:split"],
    ),
    (
        "3.2.2",
        "why several heads",
        [f"{EXAMPLES}/one_head_or_several.py:train", f"{EXAMPLES}/heads_take_roles.py:right"],
    ),
    (
        "3.2.3",
        "encoder-decoder attention: queries of the decoder, keys and values of the encoder",
        [f"{MODEL}:DecoderLayer.forward.look", f"{ATTENTION}:MultiHeadAttention.remember"],
    ),
    ("3.2.3", "self-attention of the encoder, to all positions", [f"{MODEL}:Encoder.forward|layer("]),
    (
        "3.2.3",
        "self-attention of the decoder, illegal connections at −∞",
        [
            f"{OPS}:allowed_positions",
            f"{OPS}:weights_of|-math.inf",
            f"{MASKS}:causal_mask",
            f"{EXAMPLES}/causal_mask.py:dependence",
        ],
    ),
    (
        "3.3, equation 2",
        "max(0, x W₁ + b₁) W₂ + b₂, d_ff = 2048, at each position alone",
        [f"{BLOCKS}:FeedForward.forward", f"{CONFIG}:TransformerConfig|d_ff: int"],
    ),
    (
        "3.4",
        "embeddings and the last layer share their weight",
        [f"{MODEL}:Transformer.__init__|self.lm_head.weight ="],
    ),
    ("3.4", "embeddings times √d_model", [f"{MODEL}:Transformer._embed|math.sqrt("]),
    (
        "3.5",
        "PE(pos, 2i) and PE(pos, 2i+1), added to the embeddings",
        [
            f"{POSITION}:sinusoidal_table|np.sin(",
            f"{POSITION}:sinusoidal_table|np.cos(",
            f"{POSITION}:SinusoidalPositions",
        ],
    ),
    ("3.5", "PE(pos+k) is a linear function of PE(pos)", [f"{POSITION}:rotation"]),
    ("3.5", "beyond the lengths of training", [f"{EXAMPLES}/beyond_training_length.py:losses"]),
    ("3.5, table 3 (E)", "learned positions instead", [f"{POSITION}:LearnedPositions"]),
    ("4, table 1", "n² d of attention beside n d² of recurrence", [f"{EXAMPLES}/cost_of_attention.py:multiply_adds"]),
    ("4, table 1", "maximum path length: how far a gradient reaches", [f"{EXAMPLES}/gradient_reach.py:reach"]),
    ("4", "self-attention restricted to a neighbourhood", [f"{VARIANTS}:LocalAttention"]),
    ("5.1", "sentences batched together by length", ["utils/data/pairs.py:batches_by_length"]),
    ("5.3", "Adam with β₂ = 0.98 and ε = 10⁻⁹", ["optim/adam.py:Adam"]),
    (
        "5.3, equation 3",
        "warmup, then the inverse square root of the step",
        [f"{RATES}:noam", f"{EXAMPLES}/warmup.py:train"],
    ),
    (
        "5.4",
        "dropout of each sub-layer's output, and of embeddings plus positions",
        [f"{BLOCKS}:Block.forward|self.dropout(self.attention(x, **how))", f"{MODEL}:Transformer._embed|self.dropout("],
    ),
    ("5.4", "label smoothing of 0.1", ["ops/loss.py:cross_entropy_reference", f"{MODEL}:Transformer.loss"]),
    ("6.1", "beam search, length penalty α = 0.6", [f"{BEAMS}:beam_search", f"{BEAMS}:length_penalty"]),
    (
        "6.2, table 3",
        "base: 65 million parameters, and big",
        [f"{CONFIG}:TransformerConfig.base", f"{CONFIG}:TransformerConfig.big"],
    ),
    (
        "6.1",
        "a sequence into another, with its attention",
        [f"{EXAMPLES}/translate_dates.py:draw", f"{EXAMPLES}/reverse_strings.py:draw"],
    ),
    ("figures 3 and 4", "attention that resolves a pronoun", [f"{EXAMPLES}/pronoun.py:draw"]),
]

# The word, in English and as Chinese introductions have it; what it means; where it is.
WORDS: list[tuple[str, str, list[str]]] = [
    (
        "query, key, value (查询、键、值)",
        "what I look for, how I am found, what I hand over",
        [
            f"{ATTENTION}:MultiHeadAttention.__init__|self.query_proj =",
            f"{ATTENTION}:MultiHeadAttention.__init__|self.key_proj =",
            f"{ATTENTION}:MultiHeadAttention.__init__|self.value_proj =",
        ],
    ),
    (
        "soft dictionary (软性的字典)",
        "attention as a look-up that can be taught",
        [f"{EXAMPLES}/soft_dictionary.py:Dictionary"],
    ),
    (
        "three projections (三个投影)",
        "why query and key are not the same",
        [f"{EXAMPLES}/one_projection_or_three.py:Ring"],
    ),
    ("cross-attention (交叉注意力)", "queries of one sequence, keys and values of another", [f"{MODEL}:DecoderLayer"]),
    ("softmax (归一化)", "scores to weights that sum to 1", ["ops/softmax.py:softmax_reference"]),
    (
        "multi-head split and merge (多头拆分与合并)",
        "view, then transpose; back: transpose, then reshape",
        [f"{ATTENTION}:MultiHeadAttention.split_heads", f"{EXAMPLES}/heads_as_shapes.py:split_wrongly"],
    ),
    (
        "causal mask (因果掩码)",
        "no look at what is to be predicted",
        [f"{MASKS}:causal_mask", f"{MASKS}:combine_masks"],
    ),
    ("padding mask (填充掩码)", "no look at what fills up a batch", [f"{MASKS}:padding_mask"]),
    (
        "permutation equivariance (置换等变)",
        "without positions, words have no order",
        [f"{EXAMPLES}/positions.py:change_of_order"],
    ),
    ("one word, two meanings (一词多义)", "vectors depend on their context", [f"{EXAMPLES}/two_meanings.py:vectors"]),
    (
        "residual connection (残差连接)",
        "x + f(x): a straight way for the gradient",
        [f"{BLOCKS}:Block.forward|x = x + ", f"{EXAMPLES}/residual_and_norm.py:gradient_by_depth"],
    ),
    ("LayerNorm (层归一化)", "over the channels of each position", ["ops/norm.py:layer_norm_reference"]),
    ("RMSNorm", "without the mean", ["ops/norm.py:rms_norm_reference"]),
    (
        "BatchNorm, for contrast",
        "over the batch: neighbours and padding change the result",
        [
            f"{BLOCKS}:SequenceBatchNorm",
            f"{EXAMPLES}/layer_or_batch_norm.py:by_padding",
            f"{EXAMPLES}/residual_and_norm.py:change_by_neighbours",
        ],
    ),
    (
        "post-norm and pre-norm (Post-LN, Pre-LN)",
        "norm(x + f(x)), and x + f(norm(x)), which needs no warmup",
        [f"{BLOCKS}:Block.forward", f"{EXAMPLES}/warmup.py:Stack"],
    ),
    ("GELU, SiLU, SwiGLU, GEGLU", "what replaced ReLU", [f"{BLOCKS}:FeedForward", f"{EXAMPLES}/activations.py:curve"]),
    ("RoPE (旋转位置编码)", "queries and keys turn with their position", [f"{POSITION}:RotaryPositions"]),
    ("ALiBi", "scores fall with the distance", [f"{POSITION}:AlibiPositions"]),
    ("relative positions (相对位置编码)", "a trained bias by distance", [f"{POSITION}:RelativePositions"]),
    ("sparse attention (稀疏注意力)", "only some blocks of the n × n scores", [f"{VARIANTS}:BlockSparseAttention"]),
    ("linear attention (线性注意力)", "features in place of the softmax, linear time", [f"{LINEAR}:LinearAttention"]),
    ("FlashAttention", "block by block, in cache", ["kernels/attention.py:attention"]),
    ("grouped and multi-query attention", "fewer heads of keys and values", [f"{OPS}:repeat_heads"]),
    (
        "key-value cache; PagedAttention",
        "what was computed for earlier tokens is kept",
        ["generation/cache.py:GrowingCache", "generation/paged.py:PagedCache"],
    ),
    ("GPT", "the decoder alone", [f"{GPT}:GPT", f"{MODERN}:ModernDecoder"]),
    (
        "fixed-length bottleneck (固定长度上下文向量)",
        "a sentence in one vector, and Bahdanau attention",
        [f"{EXAMPLES}/fixed_length_bottleneck.py:Copier"],
    ),
    (
        "induction: one layer finds, the next goes on",
        "what stacked attention can do",
        [f"{EXAMPLES}/two_layers_find_repeats.py:looks_behind_same"],
    ),
    (
        "RNN, GRU, LSTM (循环网络)",
        "the step by step of before",
        ["nn/recurrent.py:RNN", "nn/recurrent.py:GRU", "nn/recurrent.py:LSTM"],
    ),
    ("teacher forcing", "the decoder reads the true tokens", [f"{SHARES}:shift_right"]),
    (
        "exposure bias (曝光偏差), scheduled sampling",
        "and never its own, until it has to write",
        [f"{SHARES}:mixed_inputs", f"{SHARES}:teacher_share", f"{EXAMPLES}/exposure_bias.py:write"],
    ),
    (
        "leak (未来词泄露)",
        "without the mask: a loss below what can be known, and garbage when it writes",
        [f"{EXAMPLES}/causal_mask.py:write"],
    ),
    (
        "inner width of the feed-forward network (升维)",
        "why 4 d_model: width is what it can hold",
        [f"{EXAMPLES}/feed_forward.py:train"],
    ),
    ("uniform attention (注意力权重均匀)", "four causes", [f"{EXAMPLES}/uniform_attention.py:evenness"]),
    ("repeated text (重复文本)", "greedy decoding comes round", [f"{EXAMPLES}/greedy_repeats.py:repeated"]),
    (
        "temperature, top-k, top-p, min-p",
        "how the next token is drawn",
        [f"{FILTERS}:with_temperature", f"{FILTERS}:keep_top_k", f"{FILTERS}:keep_top_p", f"{FILTERS}:keep_min_p"],
    ),
    (
        "repetition penalty (重复惩罚)",
        "tokens that occurred count less",
        [f"{FILTERS}:penalise_repetition", f"{FILTERS}:forbid_repeated_ngrams"],
    ),
    ("gradient clipping (梯度裁剪)", "max_norm=1.0", ["nn/utils/__init__.py:clip_grad_norm_"]),
    ("gradient accumulation (梯度累积)", "small batches for a large one", ["training/loop.py:accumulate_gradients"]),
    ("gradient checkpointing (梯度检查点)", "time for memory", ["utils/checkpoint.py:checkpoint"]),
    (
        "mixed precision (混合精度)",
        "16-bit operands, losses in 32",
        ["amp/autocast_mode.py:autocast", "amp/grad_scaler.py:GradScaler"],
    ),
    ("early stopping (早停)", "when validation stops to improve", ["training/early_stopping.py:EarlyStopping"]),
    ("overfit one batch (先在小数据集上过拟合)", "the first thing to check", ["training/overfit.py:overfit_one_batch"]),
]


def resolve(place: str) -> tuple[Path, int, str]:
    """The file, the line and the name of a place; LookupError says what is not there, or there more than once."""
    file, _, rest = place.partition(":")
    name, _, text = rest.partition("|")
    path = TOP / file if file.startswith("examples/") else TOP / "tinygrad_tf" / file
    if not path.exists():
        raise LookupError(f"{place}: there is no {path.relative_to(TOP)}")
    source = path.read_text(encoding="utf-8")
    node: ast.AST = ast.parse(source)
    for part in name.split("."):
        kinds = (ast.FunctionDef, ast.ClassDef)
        inner = [n for n in getattr(node, "body", []) if isinstance(n, kinds) and n.name == part]
        if not inner:
            raise LookupError(f"{place}: {path.relative_to(TOP)} has no {name}")
        node = inner[-1]
    assert isinstance(node, (ast.FunctionDef, ast.ClassDef))
    if not text:
        return path, node.lineno, name
    lines = list(enumerate(source.splitlines(), 1))[node.lineno - 1 : node.end_lineno]
    found = [number for number, line in lines if text in line]
    if len(found) != 1:
        raise LookupError(f"{place}: {len(found)} lines of {name} hold {text!r}, not one")
    return path, found[0], name


def link(place: str) -> str:
    path, line, name = resolve(place)
    relative = path.relative_to(TOP).as_posix()
    return f"[{relative.removeprefix('tinygrad_tf/')}:{line}](../{relative}#L{line}) {name.removesuffix('.__init__')}"


def rows(table: list[tuple[str, str, list[str]]], head: str) -> list[str]:
    lines = [f"| {head} | what | where |", "|---|---|---|"]
    return lines + [f"| {at} | {what} | {'<br>'.join(map(link, places))} |" for at, what, places in table]


def write() -> str:
    """The whole document."""
    parts = [HEAD, *rows(PAPER, "paper"), "", "## Words, and what came later", "", *rows(WORDS, "word")]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    TABLE.write_text(write(), encoding="utf-8")
    print(f"{TABLE.relative_to(TOP)}: {len(PAPER) + len(WORDS)} rows")

"""Rows for losses of margins, labels, counts and alignments, bags of embeddings, and channels; part of the table."""

from __future__ import annotations

import tinygrad_tf as tg
from tinygrad_tf import nn
from tinygrad_tf.checks.table import layer, normal, op, positive, spread
from tinygrad_tf.nn import functional as F

SIGNS = [[1.0, -1.0, -1.0, 1.0], [-1.0, 1.0, -1.0, -1.0], [1.0, 1.0, -1.0, 1.0]]
LABELS = [[3, 0, -1, 1], [2, -1, 0, 0], [0, 1, 2, 3]]

op("hinge_embedding_loss", lambda x: F.hinge_embedding_loss(x, tg.tensor(SIGNS), 0.6), spread(3, 4))
op("soft_margin_loss", lambda x: F.soft_margin_loss(x, tg.tensor(SIGNS)), normal(3, 4))
op("multi_margin_loss", lambda x: F.multi_margin_loss(x, tg.tensor([1, 0, 3]), margin=0.75), spread(3, 4))
op(
    "multi_margin_loss of squares",
    lambda x: F.multi_margin_loss(x, tg.tensor([1, 0, 3]), 2, weight=tg.tensor([1.0, 2.0, 0.5, 3.0], dtype=x.dtype)),
    spread(3, 4),
)
op("multilabel_margin_loss", lambda x: F.multilabel_margin_loss(0.93 * x, tg.tensor(LABELS)), spread(3, 4))
op("multilabel_soft_margin_loss", F.multilabel_soft_margin_loss, normal(3, 4), positive(3, 4))
op(
    "triplet_margin_with_distance_loss",
    lambda a, b, c: F.triplet_margin_with_distance_loss(a, b, c, swap=True),
    normal(3, 4),
    normal(3, 4),
    normal(3, 4),
)
op("poisson_nll_loss", lambda x, y: F.poisson_nll_loss(x, y, full=True), normal(3, 4), positive(3, 4))
op("poisson_nll_loss of rates", lambda x, y: F.poisson_nll_loss(x, y, log_input=False), positive(3, 4), positive(3, 4))
op(
    "ctc_loss",
    lambda x: F.ctc_loss(x.log_softmax(-1), tg.tensor([[1, 2, 2], [3, 1, 0]]), [6, 4], [3, 2], reduction="none"),
    normal(6, 2, 4),
)
op("ctc_loss of one text", lambda x: F.ctc_loss(x.log_softmax(-1), tg.tensor([1, 1]), [5], [2], 2), normal(5, 3))
op("local_response_norm", lambda x: F.local_response_norm(x, 4, 0.5, 0.6, 0.7), normal(2, 5, 2))
op("channel_shuffle", lambda x: F.channel_shuffle(x, 3) * x, normal(2, 6, 2))
for _mode in ("sum", "mean", "max"):
    layer(
        f"EmbeddingBag {_mode}",
        lambda mode=_mode: tg.nn.EmbeddingBag(6, 3, mode=mode, padding_idx=2),
        call=lambda m: m(tg.tensor([1, 2, 4, 5, 4, 3, 2, 2]), tg.tensor([0, 3, 3, 7])),
    )
op(
    "embedding_bag with weights",
    lambda w, x: F.embedding_bag(tg.tensor([[1, 2, 0], [0, 0, 3]]), w, per_sample_weights=x, mode="sum"),
    normal(4, 3),
    normal(2, 3),
)
layer(
    "AdaptiveLogSoftmaxWithLoss",
    lambda: nn.AdaptiveLogSoftmaxWithLoss(4, 7, [2, 4], div_value=2.0, head_bias=True),
    normal(5, 4),
    call=lambda m, x: m(x, tg.tensor([0, 3, 6, 1, 5])).output,
)
layer(
    "AdaptiveLogSoftmaxWithLoss.log_prob",
    lambda: nn.AdaptiveLogSoftmaxWithLoss(4, 7, [2, 4], div_value=2.0),
    normal(2, 4),
    call=lambda m, x: m.log_prob(x),
)

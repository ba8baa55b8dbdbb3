"""The loss of a sequence without an alignment, as a module."""

from __future__ import annotations

from collections.abc import Sequence

from tinygrad_tf.nn import functional as F
from tinygrad_tf.nn.loss import _Loss
from tinygrad_tf.tensor import Tensor


class CTCLoss(_Loss):
    """-log of the probability that frames spell a text, with blanks between its letters or not.

    >>> import tinygrad_tf as tg
    >>> frames = tg.zeros(4, 1, 3).log_softmax(-1)  # (T, N, C)
    >>> CTCLoss(reduction="sum")(frames, tg.tensor([[1, 2]]), [4], [2])
    tensor(1.6864)
    """

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False):
        super().__init__(reduction=reduction)
        self.blank, self.zero_infinity = blank, zero_infinity

    def forward(
        self,
        log_probs: Tensor,
        targets: Tensor,
        input_lengths: Tensor | Sequence[int],
        target_lengths: Tensor | Sequence[int],
    ) -> Tensor:
        lengths = (input_lengths, target_lengths)
        return F.ctc_loss(log_probs, targets, *lengths, self.blank, self.reduction, self.zero_infinity)

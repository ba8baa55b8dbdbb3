"""Probabilities of many classes at the cost of few: frequent classes one by one, rare ones in clusters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tinygrad_tf.functions import cat
from tinygrad_tf.nn import functional as F
from tinygrad_tf.nn.container import ModuleList, Sequential
from tinygrad_tf.nn.linear import Linear
from tinygrad_tf.nn.module import Module
from tinygrad_tf.tensor import Tensor


class _ASMoutput(NamedTuple):
    """Log-probabilities of the targets (N,) or (), and their mean with the sign turned."""

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """log p(class) by a head for frequent classes and one tail for each cluster of rare ones (Grave et al., 2017).

    Classes must be sorted by how often they come, the most frequent first. Those below cutoffs[0] stand in the head,
    beside an entry for each cluster; cluster i holds the classes from cutoffs[i] to cutoffs[i + 1] - 1 (the last: to
    n_classes - 1), and sees the input cut down to in_features // div_value ** (i + 1) channels. The log p of a class in
    a cluster is log p(cluster) + log p(class in the cluster).

    cutoffs: rising whole numbers from 1 to n_classes - 1, or a ValueError. forward(input, target) with input (N, C) and
    target (N,) of class numbers, or (C,) and (), gives (output, loss); a RuntimeError where they do not fit.

    >>> import tinygrad_tf as tg
    >>> layer = AdaptiveLogSoftmaxWithLoss(8, 100, cutoffs=[10, 40])
    >>> layer(tg.randn(4, 8), tg.tensor([3, 50, 12, 99])).output.shape
    torch.Size([4])
    >>> layer.log_prob(tg.randn(4, 8)).exp().sum(1).allclose(tg.ones(4))
    True
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: object = None,
        dtype: object = None,
    ):
        super().__init__()
        bounds = [int(c) for c in cutoffs]
        if not bounds or bounds != list(cutoffs) or [*sorted(set(bounds) & set(range(1, n_classes)))] != bounds:
            raise ValueError(
                "AdaptiveLogSoftmaxWithLoss: cutoffs must be rising whole numbers from 1 to n_classes - 1 = "
                f"{n_classes - 1}, got {list(cutoffs)}"
            )
        self.in_features, self.n_classes, self.div_value, self.head_bias = in_features, n_classes, div_value, head_bias
        self.cutoffs = [*bounds, n_classes]
        self.shortlist_size, self.n_clusters = bounds[0], len(bounds)
        self.head_size = self.shortlist_size + self.n_clusters
        made = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, bias=head_bias, **made)
        self.tail = ModuleList()
        for i, (start, end) in enumerate(zip(self.cutoffs, self.cutoffs[1:], strict=False)):
            inner = int(in_features // div_value ** (i + 1))
            down, up = Linear(in_features, inner, bias=False, **made), Linear(inner, end - start, bias=False, **made)
            self.tail.append(Sequential(down, up))

    def reset_parameters(self) -> None:
        """New initial weights."""
        for layer in self.modules():
            if isinstance(layer, Linear):
                layer.reset_parameters()

    def forward(self, input: Tensor, target: Tensor) -> _ASMoutput:
        self._check(input, target)
        rows, wanted = (input[None], target[None]) if target.ndim == 0 else (input, target)
        head = F.log_softmax(self.head(rows), 1)
        found = head.gather(1, self._entry_of_head(wanted)[:, None])[:, 0]
        for i, (start, end) in enumerate(zip(self.cutoffs, self.cutoffs[1:], strict=False)):
            (members,) = ((wanted >= start) & (wanted < end)).nonzero(as_tuple=True)
            if len(members):
                inside = F.log_softmax(self.tail[i](rows[members]), 1)
                inside = inside.gather(1, wanted[members][:, None] - start)[:, 0]
                found = found.index_add(0, members, inside.to(found.dtype))
        return _ASMoutput(found[0] if target.ndim == 0 else found, -found.mean())

    def _entry_of_head(self, target: Tensor) -> Tensor:
        """Where in the head a class stands, or its cluster."""
        entry = target.clamp(max=self.shortlist_size - 1)
        for start in self.cutoffs[:-1]:
            entry = entry + (target >= start).long()
        return entry

    def log_prob(self, input: Tensor) -> Tensor:
        """The log-probabilities of all classes, (N, n_classes) for an input (N, C)."""
        head = F.log_softmax(self.head(input), 1)
        parts = [head[:, : self.shortlist_size]]
        for i, tail in enumerate(self.tail):
            parts.append(F.log_softmax(tail(input), 1) + head[:, self.shortlist_size + i, None])
        return cat(parts, 1)

    def predict(self, input: Tensor) -> Tensor:
        """The most probable class of each row: (N,)."""
        return self.log_prob(input).argmax(1)

    def _check(self, input: Tensor, target: Tensor) -> None:
        if tuple(input.shape) != (*target.shape, self.in_features) or target.ndim > 1:
            raise RuntimeError(
                f"AdaptiveLogSoftmaxWithLoss: needs input (N, {self.in_features}) and target (N,), or "
                f"({self.in_features},) and (), got {tuple(input.shape)} and {tuple(target.shape)}"
            )
        if target.numel() and not 0 <= int(target.min()) <= int(target.max()) < self.n_classes:
            raise RuntimeError(
                f"AdaptiveLogSoftmaxWithLoss: target must be in [0, {self.n_classes - 1}], "
                f"got values from {int(target.min())} to {int(target.max())}"
            )

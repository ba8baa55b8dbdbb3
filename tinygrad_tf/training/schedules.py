"""Learning rates by name: all rise in the warmup, and differ in how they go on."""

from __future__ import annotations

import math

from tinygrad_tf.optim.lr_scheduler import noam, warmup_cosine

SCHEDULES = ("cosine", "noam", "linear", "constant")


def rate_at(kind: str, step: int, *, peak: float, floor: float, warmup: int, total: int) -> float:
    """The learning rate of step 0, 1, 2, ...: `peak` is reached after `warmup` steps ('noam': in the last of them).

    'cosine': half a cosine down to `floor` at step `total`. 'linear': a straight line to there. 'constant': stays.
    'noam': peak * sqrt(warmup / (step + 1)), the inverse square root of the Transformer's paper (Vaswani et al., 2017,
    equation 3, which counts steps from 1), never below `floor`; its factor is written as the peak that it comes to.

    >>> for kind in SCHEDULES:
    ...     print(kind, [round(rate_at(kind, s, peak=1.0, floor=0.1, warmup=2, total=8), 2) for s in (0, 1, 2, 5, 8)])
    cosine [0.33, 0.67, 1.0, 0.55, 0.1]
    noam [0.5, 1.0, 0.82, 0.58, 0.47]
    linear [0.33, 0.67, 1.0, 0.55, 0.1]
    constant [0.33, 0.67, 1.0, 1.0, 1.0]
    """
    if kind == "noam":
        warmup = max(warmup, 1)
        rate = noam(step + 1, channels=1, warmup=warmup, factor=peak * math.sqrt(warmup))
        return rate if step < warmup else max(floor, rate)
    if kind == "constant":
        return warmup_cosine(step, peak=peak, floor=peak, warmup=warmup, total=max(total, warmup))
    if kind == "linear" and warmup <= step < total:
        return peak + (floor - peak) * (step - warmup) / (total - warmup)
    return warmup_cosine(step, peak=peak, floor=floor, warmup=warmup, total=total)

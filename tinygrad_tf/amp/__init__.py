"""Mixed precision as PyTorch has it: autocast, and GradScaler for gradients that would vanish in float16.

With autocast, matrix products and attention take and give 16-bit numbers; weights, sums of residual branches, norms of
them and losses stay in float32 (Micikevicius et al., 2018, section 3.1). bfloat16 has float32's range and 8 bits of
precision; float16 has 11 bits, but nothing beyond 65,504 or below 6e-8: hence the scaling of losses (section 3.2).

    scaler = GradScaler("cpu")
    with autocast("cpu", dtype=float16):
        loss = model(inputs)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)                              only if gradients are clipped or looked at
    clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)                                  leaves the step out if a gradient is not finite
    scaler.update()
"""

from tinygrad_tf.amp.autocast_mode import (
    autocast,
    custom_bwd,
    custom_fwd,
    get_autocast_dtype,
    is_autocast_available,
    is_autocast_enabled,
)
from tinygrad_tf.amp.grad_scaler import GradScaler
from tinygrad_tf.amp.matmul_precision import get_float32_matmul_precision, set_float32_matmul_precision

__all__ = [
    "GradScaler",
    "autocast",
    "custom_bwd",
    "custom_fwd",
    "get_autocast_dtype",
    "get_float32_matmul_precision",
    "is_autocast_available",
    "is_autocast_enabled",
    "set_float32_matmul_precision",
]

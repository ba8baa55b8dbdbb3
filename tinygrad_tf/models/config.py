"""What all configurations of models check: names, sizes, and which parts go together."""

from __future__ import annotations

import math
from typing import Any

from tinygrad_tf._arguments import check_choice
from tinygrad_tf.nn.blocks import ATTENTIONS, FEED_FORWARDS, NORMS
from tinygrad_tf.nn.position import PAIRINGS, POSITIONS

# What each kind of attention can do with positions that work inside of it.
SCORED = {"linear": ("sinusoidal", "learned", "none"), "additive": ("sinusoidal", "learned", "none")}


def check_parts(config: Any, sizes: tuple[str, ...], names: tuple[str, str, str]) -> None:
    """A ValueError of one line unless the configuration's names are known and its sizes fit together.

    sizes: the fields that must be whole numbers. names: what the config calls channels, heads, heads of keys, values.
    """
    name, (of_channels, of_heads, of_kv_heads) = type(config).__name__, names
    channels, heads, kv_heads = (getattr(config, n) for n in names)
    for field in (*sizes, *names, "d_ff", "window", "block_size"):
        size = getattr(config, field)
        if size is None and field in ("d_ff", of_kv_heads):
            continue
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ValueError(f"{name}: {field} must be a whole number of at least 1, got {size!r}")
    if not isinstance(config.dropout, (int, float)) or not 0.0 <= config.dropout <= 1.0:
        raise ValueError(f"{name}: dropout must be in [0, 1], got {config.dropout!r}")
    if not isinstance(config.rope_base, (int, float)) or not 0.0 < config.rope_base < math.inf:
        raise ValueError(f"{name}: rope_base must be a number above 0, got {config.rope_base!r}")
    check_choice(f"{name}: positions", config.positions, POSITIONS)
    check_choice(f"{name}: norm", config.norm, NORMS)
    check_choice(f"{name}: activation", config.activation, FEED_FORWARDS)
    check_choice(f"{name}: attention", config.attention, ATTENTIONS)
    check_choice(f"{name}: rope_pairing", config.rope_pairing, PAIRINGS)
    if channels % heads:
        raise ValueError(f"{name}: {of_channels} must be divisible by {of_heads}, got {channels} and {heads}")
    if kv_heads is not None and heads % kv_heads:
        raise ValueError(f"{name}: {of_heads} must be divisible by {of_kv_heads}, got {heads} and {kv_heads}")
    if config.positions == "rope" and channels // heads % 2:
        raise ValueError(
            f"{name}: positions='rope' needs an even head size, got {of_channels} / {of_heads} = "
            f"{channels} / {heads} = {channels // heads}"
        )
    if config.attention in SCORED:
        allowed = SCORED[config.attention]
        check_choice(f"{name}: positions for attention={config.attention!r}", config.positions, allowed)

"""What a program of `decode.py` is made of: instructions on vectors, which are columns of its workspace.

    EMBED                   target = weight[id] * number
    POSITION                target = source + weight[position]
    LAYER_NORM, RMS_NORM    target = source, normalised; number is eps
    LINEAR                  target = activation(weight @ source + bias), or added to target
    ANGLES                  target = cosines and sines of (tokens before it) * weight, the rates of rotary positions
    TURN                    pairs of each head's channels in target turn by the angles in source
    ATTEND                  target = attention of source (query, key, value side by side) to the keys so far
    MULTIPLY                target = target * source

Shapes: H heads, D channels of a head.
"""

from __future__ import annotations

from typing import Any, NamedTuple

EMBED, POSITION, LAYER_NORM, RMS_NORM, LINEAR, ANGLES, TURN, ATTEND, MULTIPLY = range(9)
AS_IT_IS, RELU, GELU, GELU_TANH, SILU = range(5)  # activations
HALVES, NEIGHBOURS = range(2)  # the pairs that TURN turns: channels (i, i + D / 2) or (2 i, 2 i + 1)

# What the kernel reads of an instruction; a group is one instruction, or LINEARs whose blocks make up one loop.
OPERATION, TARGET, SOURCE, COLUMNS, DEPTH, WEIGHT, BIAS, OPTION, ADDS, LAST, HEADS, KEY_HEADS = range(12)
KEYS, VALUES, CAPACITY, FIRST_BLOCK, ROWS, NUM_FIELDS = range(12, 18)


class Instruction(NamedTuple):
    """One step of a program; columns are those of the workspace."""

    operation: int
    target: int
    source: int = 0
    columns: int = 0  # numbers in target
    depth: int = 0  # LINEAR: numbers in source; TURN and ATTEND: D
    weight: Any = None  # C-contiguous, of the workspace's dtype; ANGLES: float64; ATTEND: slopes (H,), or None
    bias: Any = None
    number: float = 0.0  # EMBED: factor; norms: eps; ATTEND: scale
    option: int = 0  # LINEAR: the activation; TURN: which pairs
    adds: bool = False  # LINEAR: to target
    beside: bool = False  # LINEAR: nothing that it reads is written by the LINEAR before, whose loop it joins
    heads: int = 0
    key_heads: int = 0
    last: bool = False  # only for each text's last token

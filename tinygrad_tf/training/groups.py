"""Which parameters decay, and by how much: matrices, but not vectors; and parts chosen by name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tinygrad_tf.nn import Module
from tinygrad_tf.utils.errors import InputError


def parameter_groups(
    model: Module, weight_decay: float, by_part: Mapping[str, float] | None = None
) -> list[dict[str, Any]]:
    """Parameter groups for an optimiser. Matrices decay by weight_decay, vectors (biases, gains of norms) do not.

    by_part: another decay for all parameters whose name has that part in it, as "norm" or "blocks.0.attention"; of
    several parts in a name, the one that is given last decides. A part that is nowhere is an InputError. Shared
    parameters count once, by the name that comes first.

    >>> from tinygrad_tf import nn
    >>> model = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 4))
    >>> [(g["weight_decay"], len(g["params"])) for g in parameter_groups(model, 0.1, {"0": 0.0})]
    [(0.1, 1), (0.0, 2)]
    """
    chosen = dict(by_part or {})
    decays: dict[float, list[Any]] = {}
    unseen = set(chosen)
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        decay = weight_decay if parameter.dim() >= 2 else 0.0
        for part, own in chosen.items():
            if _has(name, part):
                unseen.discard(part)
                decay = own
        decays.setdefault(decay, []).append(parameter)
    if unseen:
        parts = sorted({part for name, _ in model.named_parameters() for part in name.split(".") if not part.isdigit()})
        raise InputError(f"no parameter has a part named {sorted(unseen)[0]!r}; there are {', '.join(parts)}")
    order = sorted(decays, key=lambda decay: decay != weight_decay)  # the usual decay first
    return [{"params": decays[decay], "weight_decay": decay} for decay in order]


def _has(name: str, part: str) -> bool:
    """Whether a name has the part in it; blocks.1 is no part of blocks.12."""
    before, behind = (r"(?<!\d)" if part[:1].isdigit() else ""), (r"(?!\d)" if part[-1:].isdigit() else "")
    return re.search(before + re.escape(part) + behind, name) is not None


def parse_decays(text: str, name: str = "--decay-of") -> dict[str, float]:
    """The decays of parts that a text gives.

    >>> parse_decays("token_embedding=0, attention=0.2")
    {'token_embedding': 0.0, 'attention': 0.2}
    """
    found: dict[str, float] = {}
    for item in text.split(","):
        part, equals, number = (piece.strip() for piece in item.partition("="))
        try:
            decay = float(number)
        except ValueError:
            decay = -1.0
        if not equals or not part or not 0.0 <= decay < float("inf"):
            raise InputError(f"{name} must be parts and their decay, as embedding=0,attention=0.1; got {text!r}")
        found[part] = decay
    return found

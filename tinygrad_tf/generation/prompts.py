"""The check of what generation starts from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tinygrad_tf.utils.errors import InputError


def check_prompts(prompts: Any) -> list[list[int]]:
    """Prompts as lists of token ids, each with one at least.

    >>> check_prompts(np.array([[1, 2], [3, 4]]))
    [[1, 2], [3, 4]]
    """
    rows = getattr(prompts, "array", prompts)
    if isinstance(rows, (str, bytes)) or not isinstance(rows, (Sequence, np.ndarray)):
        raise InputError(f"prompts must be lists of token ids, got {type(prompts).__name__}")
    return [check_prompt(row, f"prompt {i}") for i, row in enumerate(rows)]


def check_prompt(prompt: Any, name: str = "the prompt") -> list[int]:
    """One prompt as a list of token ids."""
    try:
        ids = np.asarray(getattr(prompt, "array", prompt))
    except ValueError:
        raise InputError(f"{name} must be a list of token ids, got {prompt!r}") from None
    if ids.ndim == 1 and not ids.size:
        raise InputError(f"{name} must have at least one token, a start token for example")
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        raise InputError(f"{name} must be a list of token ids, got {ids.dtype} of the shape {ids.shape}")
    return [int(token) for token in ids]

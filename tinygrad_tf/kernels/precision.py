"""How many bits products of float32 keep on matrix tiles: a setting of the process, read at each product.

highest   three pieces of bfloat16 stand for a number, six products of pieces for a product: float32's 24 bits
high      two and three: about 16 bits
medium    one and one: bfloat16's 8 bits
"""

from __future__ import annotations

PIECES = {"highest": 3, "high": 2, "medium": 1}
pieces = PIECES["highest"]


def choose(name: str) -> None:
    global pieces
    pieces = PIECES[name]


def chosen() -> str:
    return next(name for name, count in PIECES.items() if count == pieces)

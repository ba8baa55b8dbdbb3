"""How a matrix product is cut into blocks and what is packed: by size and layout alone, never by the number of threads.

Packing copies an operand into the order in which the tiles read it. It costs about 0.15 ns an element, a multiply-add
0.011 ns, so an element should be used at least a hundred times for each time that it is packed:
- B is read in place if its rows are contiguous and few rows of A meet it; A is read in place unless its columns are
  contiguous (A.T of a contiguous array: each step in depth is on another page) or its rows lie very far apart.
- BEFORE: one parallel pass packs all of an operand, the blocks follow. For operands of single products that stay in the
  second-level cache (a larger one would be written to memory and read again): blocks may then be small.
- BY_BLOCK: each block packs what it needs. For larger operands, and for stacks, where blocks share nothing.
- A weight's gradient sums over thousands of rows, and both operands are read across: BEFORE, but one stretch of the
  depth after the other, so that what is packed stays in a shared cache and is packed once. On two cores with AVX2 that
  is 1.3 to 1.5 times as fast as by block for 384 x 16384 x 384, and 1.06 to 1.18 times for 1536 x 16384 x 384.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

from tinygrad_tf.kernels._vector import HAS_PAIRS, HEIGHT, LOW_HEIGHT, VECTOR_BYTES

IN_PLACE, BY_BLOCK, BEFORE = 0, 1, 2
PANEL_BYTES = 2 * VECTOR_BYTES

DEPTH = 384  # of C's sums between two visits; a panel of B, 384 x 128 bytes, stays close to the first-level cache
STRIP = HEIGHT * (96 // HEIGHT)  # rows of A that meet all panels of a block: more would touch too many pages
MOST_ROWS, MOST_COLUMNS = HEIGHT * (768 // HEIGHT), 384  # of a block; 384 x 384 of B stay in the second-level cache
BLOCKS = 8  # enough to keep a few threads evenly busy, few enough to read the operands seldom
SMALLEST_BLOCK = VECTOR_BYTES << 15  # multiply-adds, about 25 microseconds
LINE = 32  # elements of any kind that cover a cache line: room to begin on one
GAP = 16  # elements between packed groups of rows: a power of two apart, all would fall into the same cache sets
PACKED_AT_ONCE = 1 << 15  # elements that one parallel block packs
LARGEST_PACKED = 1 << 18  # elements of an operand that is packed before
LARGEST_STRETCH = 1 << 20  # elements of both, of one stretch of the depth
FAR = 4096  # elements from one row of A to the next: that far apart, rows would share few sets of the caches
THIN = 8  # rows of A up to which dot products beat packing B.T
MOST_RUN = 1024  # columns of B in a block of few rows: C's part stays in the first-level cache
SMALLEST_READ = 1 << 17  # elements of B in a block of few rows
SMALLEST_RUN = 1 << 13  # elements of W in a block of x @ W.T with few rows of x
LINEAR_THIN = 32  # rows of x up to which x @ W.T is made of dot products
SMALLEST_OF_PAIRS = 1 << 16  # multiply-adds of products of bfloat16
SHORT = 4 * HEIGHT  # with fewer rows of A, packing B does not pay


class Plan(NamedTuple):
    """Blocks of rows x columns of C, or of `group` whole products, `stretch` of the depth after the other; where A
    (left) and B are packed, and the room for what is packed before."""

    blocks: int
    rows: int
    columns: int
    group: int
    left: int
    right: int
    stretch: int
    packed_size: int


@functools.lru_cache(4096)
def plan_product(
    items: int, M: int, N: int, K: int, width: int, a_row: int, a_col: int, rows_of_b: bool, pairs: bool = False
) -> Plan:
    """The plan for `items` products (M, K) @ (K, N) with panels of `width` columns.

    a_row, a_col: the strides of A; rows_of_b: B has contiguous rows. Pairs are read in place from A's rows only.
    """
    scattered = (a_row == 1 and a_col > 1) or (a_col == 1 and a_row >= FAR)
    left = BY_BLOCK if (scattered and M > 1 and width < N) or (pairs and a_col != 1) else IN_PLACE
    right = IN_PLACE if rows_of_b and M < SHORT and not pairs else BY_BLOCK
    stretch = DEPTH if items == 1 and left == right == BY_BLOCK and _in_stretches(M, N, K) else K
    work = M * N * stretch
    target = max(SMALLEST_BLOCK * (1 + left), items * work // BLOCKS)
    if work <= target and M <= MOST_ROWS and N <= MOST_COLUMNS:
        group = max(1, target // work)
        return Plan(math.ceil(items / group), M, N, group, left, right, K, 0)
    if items == 1 and left == BY_BLOCK and (stretch < K or M * K <= LARGEST_PACKED):
        left = BEFORE
    if items == 1 and right == BY_BLOCK and (stretch < K or N * K <= LARGEST_PACKED):
        right = BEFORE
    rows, columns = _block_shape(M, N, math.ceil(work / target), width, left, right)
    count = items * math.ceil(M / rows) * math.ceil(N / columns)
    groups, panels = math.ceil(M / HEIGHT), math.ceil(N / width)
    size = (right == BEFORE) * panels * width * stretch
    size += (left == BEFORE) * groups * (HEIGHT * stretch + math.ceil(stretch / DEPTH) * GAP)
    return Plan(count, rows, columns, 1, left, right, stretch, size + LINE if size else 0)


def suits_pairs(items: int, M: int, N: int, K: int) -> bool:
    """Whether products of bfloat16 are made of pairs of them, and not of what they are in float32."""
    return HAS_PAIRS and M > LOW_HEIGHT and N > LOW_HEIGHT and K > 1 and items * M * N * K >= SMALLEST_OF_PAIRS


@functools.lru_cache(4096)
def plan_thin(
    items: int, M: int, N: int, K: int, lanes: int, rows_of_a: bool, columns_of_b: bool, rows_of_b: bool
) -> tuple[int, int, int] | None:
    """(blocks, columns in one, products in one) if few rows of A make B's reading all that counts, else None."""
    if not (rows_of_b and M <= LOW_HEIGHT) and not (columns_of_b and rows_of_a and M <= THIN):
        return None
    each = max(1, SMALLEST_READ // (N * K))
    if N * K <= SMALLEST_READ:
        return math.ceil(items / each), N, each
    across = max(math.ceil(N / MOST_RUN), min(BLOCKS, N * K // SMALLEST_READ))
    columns = math.ceil(N / lanes / across) * lanes
    return items * math.ceil(N / columns), columns, 1


@functools.lru_cache(4096)
def plan_linear_thin(N: int, K: int) -> tuple[int, int]:
    """(blocks, rows of W in one) for x @ W.T with few rows of x."""
    step = 4 * math.ceil(SMALLEST_RUN / (4 * K))
    return math.ceil(N / step), step


def _in_stretches(M: int, N: int, K: int) -> bool:
    """Whether both operands are packed before, a stretch of the depth at a time: if each is too large to be packed
    whole, a stretch of them is not, and a stretch of the product is work for several threads."""
    return (
        min(M, N) * K > LARGEST_PACKED
        and (M + N) * DEPTH <= LARGEST_STRETCH
        and DEPTH < K
        and M * N * DEPTH >= BLOCKS * SMALLEST_BLOCK
    )


def _block_shape(M: int, N: int, parts: int, width: int, left: int, right: int) -> tuple[int, int]:
    """Rows and columns of a block, so that there are about `parts` and the least is packed and read again."""
    cost_a, cost_b = 0.15 if left == BY_BLOCK else 0.03, 0.15 if right == BY_BLOCK else 0.03
    panels, groups = math.ceil(N / width), math.ceil(M / HEIGHT)
    fewest = math.ceil(N / MOST_COLUMNS)
    choices = []
    for across in range(fewest, max(fewest, min(parts, panels)) + 1):
        down = max(math.ceil(parts / across), math.ceil(M / MOST_ROWS))
        rows, columns = math.ceil(groups / down) * HEIGHT, math.ceil(panels / across) * width
        choices.append((cost_b / rows + cost_a / columns, rows, columns))
    _, rows, columns = min(choices)
    return rows, columns

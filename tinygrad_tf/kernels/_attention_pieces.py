"""Attention's numbers on their way to the matrix tiles and back, in vector registers.

A panel holds numbers of 32 queries, S[j, q] of key j at S[s0 + 32 j + q]. For the tiles they are cut into pieces, three
of a float32 or one, rounded (`_matrix_tiles.pieces_in`), in one of two layouts. A tile holds 16 keys, "by queries":
word i of row j has (j, i) and (j, i + 16); or 32 keys and 16 queries, "by keys": word i of row j has (j, i) and
(j + 16, i).

    exp_and_split            P = exp((S - top) scale), cut by keys; the sums of its columns
    gradients_and_split      P = exp(S scale - logsumexp), cut by queries; dS = P (dP - delta) scale, cut in both ways
"""
# mypy: allow-untyped-defs

from __future__ import annotations

from numba.core import cgutils

from tinygrad_tf.kernels._attention_panel import I64, INT, VOID, emitted
from tinygrad_tf.kernels._half_rows import every
from tinygrad_tf.kernels._matrix_tiles import PIECE, TILE, count_pieces
from tinygrad_tf.kernels._scalar import instruction


# ---------------------------------------------------------------- panels, cut
def _cut(e, vectors, pieces):
    """For each piece, the largest first, its bits in every vector; the lower half of each word is 0."""
    builder = e.builder
    for piece in range(pieces):
        bits = [builder.bitcast(x, e.bits) for x in vectors]
        if pieces == 1 or piece < pieces - 1:  # the last of three has no more than 8 bits as it is
            bits = [builder.add(b, every(e, 0x8000)) for b in bits]
        bits = [builder.and_(b, every(e, 0xFFFF0000)) for b in bits]
        yield bits
        vectors = [builder.fsub(x, builder.bitcast(b, e.vector)) for x, b in zip(vectors, bits, strict=True)]


def _put(e, low, high, packed, offset):
    """Words of a bfloat16 each from `low` and, above it, from `high`."""
    word = e.builder.or_(e.builder.lshr(low, every(e, 16)), high)
    e.builder.store(word, e.builder.bitcast(e.builder.gep(packed, [offset]), e.bits.as_pointer()), align=4)


def _pairs(e, count):
    """Loops over the keys of a panel, 32 and 16 at a time: (their number, a key of the first 16, word of its row)."""
    builder = e.builder
    with cgutils.for_range(builder, count) as outer, cgutils.for_range(builder, I64(TILE)) as inner:
        key = builder.add(builder.mul(outer.index, I64(2 * TILE)), inner.index)
        yield outer.index, key, builder.mul(inner.index, I64(TILE))


def _rows(e, S, s0, key):
    """Rows `key` and `key + 16` of a panel, two vectors each."""
    return [e.row(S, e.row_offset(s0, e.builder.add(key, I64(half * TILE)))) for half in range(2)]


def _flat(rows):
    return [vector for row in rows for vector in row]


@instruction
def exp_and_split(typing, count, S, s0, m, m0, t0, scale, packed, p0, group):
    """P = exp((S - m[m0 ...]) scale) of 32 * count keys, cut by keys; m[t0 ...] += the sums of its columns.

    The second 16 queries begin `group` words after the first.
    """
    pieces = count_pieces(packed)

    def body(e, count, S, s0, m, m0, t0, scale, packed, p0, group):
        builder = e.builder
        top, factor = e.row(m, m0), e.splat(scale, e.vector)
        sums, target = [e.variable(vector) for vector in e.row(m, t0)], e.pointer(kind, packed, p0)
        for number, key, word in _pairs(e, count):
            rows = [[e.exp(builder.fmul(builder.fsub(s, t), factor)) for s, t in zip(row, top, strict=True)]
                    for row in _rows(e, S, s0, key)]  # fmt: skip
            for variable, a, b in zip(sums, *rows, strict=True):
                builder.store(builder.fadd(builder.load(variable), builder.fadd(a, b)), variable)
            first = builder.add(builder.mul(number, I64(pieces * PIECE)), word)
            for piece, bits in enumerate(_cut(e, _flat(rows), pieces)):
                offset = builder.add(first, I64(piece * PIECE))
                _put(e, bits[0], bits[2], target, offset)
                _put(e, bits[1], bits[3], target, builder.add(offset, group))
        e.put_row([builder.load(variable) for variable in sums], m, t0)

    kind = packed
    return VOID(INT, S, INT, m, INT, INT, S.dtype, packed, INT, INT), emitted(body, 1)


@instruction
def gradients_and_split(typing, count, S, s0, g0, m, l0, d0, scale, packed, weights, gradients, by_keys, group):
    """Of 32 * count keys, with dP at S[g0 ...], logsumexp at m[l0 ...] and delta at m[d0 ...].

    weights, gradients: where P and dS begin, cut by queries. by_keys: dS, cut by keys, as in `exp_and_split`.
    """
    pieces = count_pieces(packed)

    def body(e, count, S, s0, g0, m, l0, d0, scale, packed, weights, gradients, by_keys, group):
        builder = e.builder
        shift, delta, factor = e.row(m, l0), e.row(m, d0), e.splat(scale, e.vector)
        shift = [builder.fneg(x) for x in shift]
        places = [e.pointer(kind, packed, start) for start in (weights, gradients, by_keys)]
        for number, key, word in _pairs(e, count):
            P = [[e.exp(e.fma(s, factor, l)) for s, l in zip(row, shift, strict=True)] for row in _rows(e, S, s0, key)]
            dS = [
                [
                    builder.fmul(builder.fmul(p, factor), builder.fsub(g, d))
                    for p, g, d in zip(*pair, delta, strict=True)
                ]
                for pair in zip(P, _rows(e, S, g0, key), strict=True)
            ]
            first = builder.add(builder.mul(number, I64(pieces * PIECE)), word)
            rows_first = builder.add(builder.mul(number, I64(2 * pieces * PIECE)), word)
            for place, numbers in zip(places, (P, dS), strict=False):
                for piece, bits in enumerate(_cut(e, _flat(numbers), pieces)):
                    offset = builder.add(rows_first, I64(piece * PIECE))
                    _put(e, bits[0], bits[1], place, offset)
                    _put(e, bits[2], bits[3], place, builder.add(offset, I64(pieces * PIECE)))
                    if numbers is dS:
                        offset = builder.add(first, I64(piece * PIECE))
                        _put(e, bits[0], bits[2], places[2], offset)
                        _put(e, bits[1], bits[3], places[2], builder.add(offset, group))

    kind = packed
    n = INT
    return VOID(n, S, n, n, m, n, n, S.dtype, packed, n, n, n, n), emitted(body, 1)

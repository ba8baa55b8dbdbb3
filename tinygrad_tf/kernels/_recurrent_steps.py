"""The walk of a recurrent layer through time, forwards and back: products with the weight of h, and the gates.

The steps of a batch lie one behind the other: step t is rows starts[t] ... starts[t + 1] - 1, a row for each sequence
that is that long, the longest first. Sequences begin with their first state, wherever that is, and where one is over
its last state stands behind all steps. Shapes: R rows of all steps, N sequences, H units, G gates, S states (h; h, c).

    gates    (R, G, H)     what x and the biases give; forwards they become the gates' values
    hidden   (R, H)        GRU: what the new gate makes of h
    before   (S, R, H)     the states before each step
    start    (S, N, H)     the first states
    out      (R + S N, H)  h behind each step, the last h, and the last c

A step is one parallel loop over blocks of units: a block multiplies all rows by its units' part of the weight, and goes
on with what it has in cache. Few rows meet the weight as it lies, and going back, if there are many steps, one turned
over: its rows are read in long runs then, 1.7 times as fast for one sequence of 512 units. Many rows meet a packed one.
"""
# mypy: allow-untyped-defs

from __future__ import annotations

import numpy as np

from tinygrad_tf.kernels._compile import kernel
from tinygrad_tf.kernels._dots import multiply_rows
from tinygrad_tf.kernels._part import parallel_part, part
from tinygrad_tf.kernels._plan import DEPTH
from tinygrad_tf.kernels._recurrent_gates import (
    gru_backward,
    gru_forward,
    lstm_backward,
    lstm_forward,
    rnn_backward,
    rnn_forward,
)
from tinygrad_tf.kernels._scalar import widest_vectors
from tinygrad_tf.kernels._thin import add_eight_rows, add_row
from tinygrad_tf.kernels._tiles import HEIGHT, PANEL, aligned, lanes, pack_panel, panel_product, transpose

RNN_TANH, RNN_RELU, LSTM, GRU = range(4)


@part()
def add_packed(n, columns, K, A, a0, a_row, packed, p0, C, c0, c_row, add):
    """C[n, columns] = A[n, K] @ a packed panel, or added to C."""
    width = PANEL * lanes(A)
    for k in range(0, K, DEPTH):
        depth, adds = min(DEPTH, K - k), add or k > 0
        panel_product(
            n, columns, depth, A, a0 + k, a_row, 1, HEIGHT * a_row, packed, p0 + k * width, width, C, c0, c_row,
            adds, C, c0, c_row,
        )  # fmt: skip


# ---------------------------------------------------------------- forwards
@kernel
def run_forward(kind, starts, backwards, gates, hidden, bias, before, weight, start, out, blocks, each, packed_size):
    """All steps; bias (H,) is what the GRU's new gate adds to its part of h. packed_size: 0, or room for the weight."""
    T, (S, N, H), R, G = starts.size - 1, start.shape, gates.shape[0], gates.shape[1]
    packed = np.empty(packed_size, out.dtype)
    if packed_size:
        pack_forward(blocks, each, G, H, weight, packed)
    flat = gates.reshape(gates.size), hidden.reshape(hidden.size), before.reshape(before.size), out.reshape(out.size)
    known = 0
    for step in range(T):
        t, after = (T - 1 - step, T - 2 - step) if backwards else (step, step + 1)
        row, n, next_row, m = starts[t], starts[t + 1] - starts[t], 0, 0
        if step + 1 < T:
            next_row, m = starts[after], starts[after + 1] - starts[after]
        for state in range(S):  # sequences that begin here
            for i in range(known, n):
                for j in range(H):
                    before[state, row + i, j] = start[state, i, j]
        known = max(known, n)
        forward_units(
            blocks,
            each,
            kind,
            row,
            n,
            next_row,
            m,
            R,
            N,
            H,
            G,
            flat[0],
            flat[1],
            bias,
            flat[2],
            weight,
            packed,
            flat[3],
        )


@parallel_part
def pack_forward(index, each, G, H, weight, packed):
    """The units' columns of W.T: one panel of units after the other, those of all gates in each."""
    width = PANEL * lanes(packed)
    for j in range(index * each, min(index * each + each, H), width):
        for gate in range(G):
            p0 = aligned(packed) + (j * G + gate * width) * H
            pack_panel(H, min(width, H - j), weight, (gate * H + j) * H, 1, H, packed, p0)


@parallel_part
def forward_units(
    index, each, kind, row, n, next_row, m, R, N, H, G, gates, hidden, bias, before, weight, packed, out
):  # fmt: skip
    """One step of some units: n rows, of which m go on to the next step."""
    widest_vectors()
    a = index * each
    count = min(each, H - a)
    multiply_forward(kind, a, a + count, row, n, H, G, gates, hidden, before, weight, packed)
    for i in range(n):
        at, then, goes_on = row + i, next_row + i, i < m
        g0, p0, h0 = at * G * H + a, at * H + a, at * H + a
        again, a0 = (before, then * H + a) if goes_on else (out, (R + i) * H + a)
        if kind == LSTM:
            c, c0 = (before, (R + then) * H + a) if goes_on else (out, (R + N + i) * H + a)
            lstm_forward(count, H, gates, g0, before, R * H + p0, c, c0, out, h0, again, a0)
        elif kind == GRU:
            gru_forward(count, H, gates, g0, hidden, p0, bias, a, before, p0, out, h0, again, a0)
        else:
            rnn_forward(count, kind == RNN_RELU, gates, g0, out, h0, again, a0)


@part()
def multiply_forward(kind, a, b, row, n, H, G, gates, hidden, before, weight, packed):
    """h @ W.T of units a ... b - 1 is added to their gates; of the GRU's new gate it stands alone, in hidden."""
    width = PANEL * lanes(gates)
    for gate in range(G):
        Y, y0, y_row, adds = gates, row * G * H, G * H, True
        if kind == GRU and gate == 2:
            Y, y0, y_row, adds = hidden, row * H - gate * H, H, False
        if not packed.size:
            multiply_rows(n, gate * H + a, gate * H + b, H, before, row * H, H, weight, Y, y0, y_row, adds)
            continue
        for j in range(a, b, width):
            p0 = aligned(packed) + (j * G + gate * width) * H
            add_packed(n, min(width, b - j), H, before, row * H, H, packed, p0, Y, y0 + gate * H + j, y_row, adds)


# ---------------------------------------------------------------- back
@kernel
def run_backward(
    kind, starts, backwards, gates, hidden, before, weight, g, dgates, dhidden, dstart, blocks, each,
    packed_size, turned,
):  # fmt: skip
    """Gradients of what goes into the gates, from x (dgates) and from h (dhidden), and of the first states.

    g is that of `out`. Of all but the GRU, dhidden is dgates. dstart (S, N, H) holds zeros.
    """
    T, (S, N, H), (R, G) = starts.size - 1, dstart.shape, gates.shape[:2]
    packed = np.empty(packed_size, g.dtype)
    if turned:
        turn_weight(blocks, each, G * H, H, weight, packed)
    elif packed_size:
        pack_backward(blocks, each, G * H, H, weight, packed)
    known = gates.reshape(gates.size), hidden.reshape(hidden.size), before.reshape(before.size), g.reshape(g.size)
    found = dgates.reshape(dgates.size), dhidden.reshape(dhidden.size), dstart.reshape(dstart.size)
    last_row, m = 0, 0
    for step in range(T + 1):
        row, n = 0, 0  # behind the first step of all there is still what goes to the first h
        if step < T:
            t = step if backwards else T - 1 - step
            row, n = starts[t], starts[t + 1] - starts[t]
        for state in range(S):  # of sequences that are over with this step
            for i in range(m, n):
                for j in range(H):
                    dstart[state, i, j] += g[R + state * N + i, j]
        backward_units(
            blocks, each, kind, row, n, last_row, m, R, N, H, G, known[0], known[1], known[2], weight, packed, known[3],
            found[0], found[1], found[2], turned,
        )  # fmt: skip
        last_row, m = row, n


@parallel_part
def pack_backward(index, each, K, H, weight, packed):
    width = PANEL * lanes(packed)
    for j in range(index * each, min(index * each + each, H), width):
        pack_panel(K, min(width, H - j), weight, j, H, 1, packed, aligned(packed) + j * K)


@parallel_part
def turn_weight(index, each, K, H, weight, packed):
    a = index * each
    transpose(K, min(each, H - a), weight, a, H, packed, a * K, K)


@parallel_part
def backward_units(
    index, each, kind, row, n, last_row, m, R, N, H, G, gates, hidden, before, weight, packed, g,
    dgates, dhidden, dstart, turned,
):  # fmt: skip
    """Some units: first what the step behind sends back to h (m rows at last_row), then one step (n rows at row)."""
    widest_vectors()
    a = index * each
    count = min(each, H - a)
    multiply_backward(a, a + count, last_row, m, H, G * H, weight, packed, dhidden, dstart, turned)
    for i in range(n):
        at, h0 = row + i, i * H + a
        g0, p0 = at * G * H + a, at * H + a
        if kind == LSTM:
            lstm_backward(count, H, gates, g0, before, R * H + p0, g, p0, dstart, h0, N * H + h0, dgates, g0)
        elif kind == GRU:
            gru_backward(count, H, gates, g0, hidden, p0, before, p0, g, p0, dstart, h0, dgates, g0, dhidden)
        else:
            rnn_backward(count, kind == RNN_RELU, gates, g0, g, p0, dstart, h0, dgates, g0)


@part()
def multiply_backward(a, b, row, m, H, K, weight, packed, dhidden, dh, turned):
    """dhidden @ W is added to units a ... b - 1 of the gradient of h. turned: `packed` is W.T."""
    width = PANEL * lanes(dhidden)
    if turned:
        multiply_rows(m, a, b, K, dhidden, row * K, K, packed, dh, 0, H, True)
        return
    if packed.size:
        for j in range(a, b if m > 0 else a, width):
            p0 = aligned(packed) + j * K
            add_packed(m, min(width, b - j), K, dhidden, row * K, K, packed, p0, dh, j, H, True)
        return
    eights = K // 8 * 8
    for k in range(0, eights, 8):
        for i in range(m):
            add_eight_rows(b - a, dhidden, (row + i) * K + k, 1, weight, k * H + a, H, dh, i * H + a)
    for k in range(eights, K):
        for i in range(m):
            add_row(b - a, dhidden, (row + i) * K + k, 1, weight, k * H + a, H, dh, i * H + a)

"""What some units of one row of a recurrent layer do at one step, between the matrix products: in vector registers.

    LSTM   i, f, o = sigmoid, g = tanh            c' = f c + i g          h' = o tanh(c')
    GRU    r, z = sigmoid, n = tanh(n + r u)      h' = n + z (h - n)      u = U h + d, of the new gate
    RNN    a = tanh or ReLU                       h' = a

All arrays are flat and of one float type; x0 is where the units begin in x, and the gates of a unit lie H apart. What
goes into the gates is overwritten by their values; h' is written twice, as the layer's output and for the next step.
The steps back take `g`, the gradient of h' as an output, and `dh`, what the next step sends to h'. There they leave
what goes to h past the weights: 0 but for the GRU.

As plain loops, one for each value that is written, they took twice as long, and 8 seconds more to compile.
"""
# mypy: allow-untyped-defs

from __future__ import annotations

from numba import types

from tinygrad_tf.kernels._scalar import instruction
from tinygrad_tf.kernels._vector_math import MathEmitter

INT, BOOL, VOID = types.int64, types.boolean, types.void


class UnitEmitter(MathEmitter):
    """Emits what is done to `count` units, as many at a time as a register holds."""

    def each(self, count, arrays, body):
        """body(values, put) for each vector of units; arrays: {name: (array, where the units begin in it)}."""
        begin = {name: self.pointer(self.kind, *where) for name, where in arrays.items()}

        def one(offset, mask):
            def value(name, ahead=None):
                return self.load(at(name, ahead), 0, mask)

            def put(vector, name, ahead=None):
                self.store(vector, at(name, ahead), 0, mask)

            def at(name, ahead):
                moved = self.at(begin[name], offset)
                return moved if ahead is None else self.at(moved, ahead)

            body(value, put)

        self.each_vector(count, one)

    def times(self, first, *others):
        for other in others:
            first = self.builder.fmul(first, other)
        return first

    def rest(self, x):
        """1 - x."""
        return self.builder.fsub(self.constant(1), x)

    def slope_of_sigmoid(self, y):
        """The derivative of a sigmoid whose value is y."""
        return self.times(y, self.rest(y))

    def slope_of_tanh(self, y):
        return self.fma(self.builder.fneg(y), y, self.constant(1))

    def ahead(self, H, gates):
        """How far the gates lie behind the first one."""
        return [None, *[self.builder.mul(H, H.type(gate)) for gate in range(1, gates)]]


def emitted(body, kind):
    """What an instruction emits: body(emitter, *arguments); argument number `kind` is one of the arrays."""

    def emit(context, builder, signature, args):
        body(UnitEmitter(context, builder, signature.args[kind]), *args)
        return context.get_dummy_value()

    return emit


# ---------------------------------------------------------------- LSTM
@instruction
def lstm_forward(typing, count, H, gates, g0, c, c0, new_c, n0, h, h0, again, a0):
    def body(e, count, H, gates, g0, c, c0, new_c, n0, h, h0, again, a0):
        ahead = e.ahead(H, 4)

        def one(value, put):
            i, f, g, o = (value("gates", far) for far in ahead)
            i, f, g, o = e.sigmoid(i), e.sigmoid(f), e.tanh(g), e.sigmoid(o)
            for gate, far in zip((i, f, g, o), ahead, strict=True):
                put(gate, "gates", far)
            new = e.fma(f, value("c"), e.times(i, g))
            put(new, "new_c")
            out = e.times(o, e.tanh(new))
            put(out, "h")
            put(out, "again")

        arrays = {"gates": (gates, g0), "c": (c, c0), "new_c": (new_c, n0), "h": (h, h0), "again": (again, a0)}
        e.each(count, arrays, one)

    return VOID(INT, INT, gates, INT, c, INT, new_c, INT, h, INT, again, INT), emitted(body, 2)


@instruction
def lstm_backward(typing, count, H, gates, g0, c, c0, g, u0, states, h0, s0, dgates, d0):
    """states holds dh at h0, and at s0 the gradient of c', which becomes that of c."""

    def body(e, count, H, gates, g0, c, c0, g, u0, states, h0, s0, dgates, d0):
        ahead = e.ahead(H, 4)

        def one(value, put):
            i, f, g, o = (value("gates", far) for far in ahead)
            c, dh = value("c"), e.builder.fadd(value("dh"), value("g"))
            top = e.tanh(e.fma(f, c, e.times(i, g)))
            dc = e.fma(e.times(dh, o), e.slope_of_tanh(top), value("dc"))
            put(e.times(dc, g, e.slope_of_sigmoid(i)), "dgates", ahead[0])
            put(e.times(dc, c, e.slope_of_sigmoid(f)), "dgates", ahead[1])
            put(e.times(dc, i, e.slope_of_tanh(g)), "dgates", ahead[2])
            put(e.times(dh, top, e.slope_of_sigmoid(o)), "dgates", ahead[3])
            put(e.times(dc, f), "dc")
            put(e.zero, "dh")

        arrays = {"gates": (gates, g0), "c": (c, c0), "g": (g, u0), "dh": (states, h0), "dc": (states, s0)}
        e.each(count, {**arrays, "dgates": (dgates, d0)}, one)

    return VOID(INT, INT, gates, INT, c, INT, g, INT, states, INT, INT, dgates, INT), emitted(body, 2)


# ---------------------------------------------------------------- GRU
@instruction
def gru_forward(typing, count, H, gates, g0, hidden, u0, bias, b0, before, p0, h, h0, again, a0):
    """hidden holds U h, and gets u; before holds h."""

    def body(e, count, H, gates, g0, hidden, u0, bias, b0, before, p0, h, h0, again, a0):
        ahead = e.ahead(H, 3)

        def one(value, put):
            r, z = e.sigmoid(value("gates", ahead[0])), e.sigmoid(value("gates", ahead[1]))
            u = e.builder.fadd(value("hidden"), value("bias"))
            n = e.tanh(e.fma(r, u, value("gates", ahead[2])))
            for gate, far in zip((r, z, n), ahead, strict=True):
                put(gate, "gates", far)
            put(u, "hidden")
            out = e.fma(z, e.builder.fsub(value("before"), n), n)
            put(out, "h")
            put(out, "again")

        arrays = {"gates": (gates, g0), "hidden": (hidden, u0), "bias": (bias, b0), "before": (before, p0)}
        e.each(count, {**arrays, "h": (h, h0), "again": (again, a0)}, one)

    signature = VOID(INT, INT, gates, INT, hidden, INT, bias, INT, before, INT, h, INT, again, INT)
    return signature, emitted(body, 2)


@instruction
def gru_backward(typing, count, H, gates, g0, hidden, u0, before, p0, g, o0, dh, h0, dgates, d0, dhidden):
    """The gradients of what goes into the gates, from x (dgates) and from h (dhidden), both at d0."""

    def body(e, count, H, gates, g0, hidden, u0, before, p0, g, o0, dh, h0, dgates, d0, dhidden):
        ahead = e.ahead(H, 3)

        def one(value, put):
            r, z, n = (value("gates", far) for far in ahead)
            dh = e.builder.fadd(value("dh"), value("g"))
            dz = e.times(dh, e.builder.fsub(value("before"), n), e.slope_of_sigmoid(z))
            dn = e.times(dh, e.rest(z), e.slope_of_tanh(n))
            dr = e.times(dn, value("hidden"), e.slope_of_sigmoid(r))
            for name, last in (("dgates", dn), ("dhidden", e.times(dn, r))):
                for gate, far in zip((dr, dz, last), ahead, strict=True):
                    put(gate, name, far)
            put(e.times(dh, z), "dh")

        arrays = {"gates": (gates, g0), "hidden": (hidden, u0), "before": (before, p0), "g": (g, o0), "dh": (dh, h0)}
        e.each(count, {**arrays, "dgates": (dgates, d0), "dhidden": (dhidden, d0)}, one)

    signature = VOID(INT, INT, gates, INT, hidden, INT, before, INT, g, INT, dh, INT, dgates, INT, dhidden)
    return signature, emitted(body, 2)


# ---------------------------------------------------------------- RNN
@instruction
def rnn_forward(typing, count, has_relu, gates, g0, h, h0, again, a0):
    def body(e, count, has_relu, gates, g0, h, h0, again, a0):
        def one(value, put):
            a = value("gates")
            ramp = e.builder.select(e.builder.fcmp_ordered("<", a, e.zero), e.zero, a)
            out = e.builder.select(has_relu, ramp, e.tanh(a))
            for name in ("gates", "h", "again"):
                put(out, name)

        e.each(count, {"gates": (gates, g0), "h": (h, h0), "again": (again, a0)}, one)

    return VOID(INT, BOOL, gates, INT, h, INT, again, INT), emitted(body, 2)


@instruction
def rnn_backward(typing, count, has_relu, gates, g0, g, u0, dh, h0, dgates, d0):
    def body(e, count, has_relu, gates, g0, g, u0, dh, h0, dgates, d0):
        def one(value, put):
            a, dh = value("gates"), e.builder.fadd(value("dh"), value("g"))
            passed = e.builder.select(e.builder.fcmp_ordered("<=", a, e.zero), e.zero, dh)
            put(e.builder.select(has_relu, passed, e.times(dh, e.slope_of_tanh(a))), "dgates")
            put(e.zero, "dh")

        e.each(count, {"gates": (gates, g0), "g": (g, u0), "dh": (dh, h0), "dgates": (dgates, d0)}, one)

    return VOID(INT, BOOL, gates, INT, g, INT, dh, INT, dgates, INT), emitted(body, 2)

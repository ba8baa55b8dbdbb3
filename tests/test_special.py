"""Special functions: exact values, PyTorch's, and what is said of misuse."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tinygrad_tf as tg

# x, log |gamma|, digamma, its derivatives 1 and 4; of mpmath 1.3 with 40 digits
EXACT = [
    (1e-300, 690.7755278982137, -9.999999999999999e299, math.inf, -math.inf),
    (1e-05, 11.512919692895826, -100000.57719921567, 10000000001.644909, -2.399999999999999e26),
    (0.1, 2.252712651734206, -10.423754940411076, 101.43329915079275, -2400015.6072031953),
    (0.5, 0.5723649429247001, -1.9635100260214235, 4.934802200544679, -771.4742498266672),
    (0.75, 0.20328095143129538, -1.0858608797864722, 2.5418796476716063, -102.80060581541747),
    (0.999999, 5.772164873855652e-07, -0.5772173098368019, 1.6449364709652798, -24.886388204971325),
    (1.000001, -5.772148423874147e-07, -0.5772140199686682, 1.6449316627376673, -24.886144042636456),
    (1.25, -0.09827183642181316, -0.22745353337626542, 1.1973291545071107, -8.375388637933733),
    (1.4616321449683622, -0.12148629053584961, -9.241265521729427e-17, 0.9676722454476212, -3.934624930617758),
    (1.5, -0.12078223763524522, 0.03648997397857652, 0.9348022005446793, -3.4742498266672253),
    (1.75, -0.08440112102048555, 0.24747245354686118, 0.7641018698938287, -1.66480334628167),
    (2.000001, 4.2278465762452923e-07, 0.422784980032332, 0.644933662734667, -0.8862640422764455),
    (2.5, 0.2846828704729192, 0.7031566406452432, 0.49035775610023485, -0.3137559995067314),
    (3.3, 0.9870985778947344, 1.0348224890596216, 0.3535015418410618, -0.08856528474121478),
    (5.0, 3.1780538303479458, 1.5061176684318005, 0.22132295573711533, -0.014063191342112799),
    (7.9375, 8.399444525124958, 2.0072856526575245, 0.13425249264731706, -0.0019319382702618379),
    (8.0, 8.525161361065415, 2.01564147795561, 0.1331370146940314, -0.0018687951506376134),
    (12.5, 18.734347511936445, 2.4851956512749123, 0.08328522460157838, -0.00028769142258538706),
    (100.25, 360.28455963776423, 4.602671243274712, 0.010024978698123367, -6.059869379648068e-08),
    (12345.5, 103958.24296512322, 9.421006402052685, 8.100445520074442e-05, -2.583371540729456e-16),
    (1e10, 220258509288.81058, 23.025850929890456, 1.00000000005e-10, -6.0000000012e-40),
    (1e300, 6.897755278982137e302, 690.7755278982137, 1e-300, 0.0),
    (-0.25, 1.589575312551186, 2.9141391202135276, 18.541879647671607, 24473.199394184583),
    (-0.5, 1.2655121234846454, 0.03648997397857652, 8.934802200544679, -3.4742498266672253),
    (-1.25, 1.3664317612369763, 3.714139120213528, 19.181879647671607, 24481.063714184584),
    (-3.5, -1.309006684993042, 1.388870926359529, 9.620879298050347, -0.022300753478290834),
    (-10.75, -15.403074503504817, -0.7208957601671612, 19.650378280099094, -24481.575154956732),
    (-1000.25, -5912.363970042725, 10.050097693066705, 19.738209551699786, 24481.57478282251),
]
FUNCTIONS: list[Callable[..., Any]] = [tg.lgamma, tg.digamma, lambda x: x.polygamma(1), lambda x: x.polygamma(4)]


@pytest.mark.parametrize("number", range(4), ids=["lgamma", "digamma", "trigamma", "polygamma 4"])
def test_right_to_a_few_units_in_the_last_place(number: int) -> None:
    table = np.array(EXACT)
    found = FUNCTIONS[number](tg.tensor(table[:, 0])).numpy()
    np.testing.assert_array_max_ulp(found[table[:, 0] > 0], table[table[:, 0] > 0, 1 + number], 6)
    np.testing.assert_allclose(found, table[:, 1 + number], rtol=2e-15, atol=1e-14 if number == 3 else 1e-16)


BESSEL = np.concatenate([np.linspace(-40.0, 40.0, 58), [1e-8, 0.5, 8.0, 30.0, 30.1]])
POINTS = np.concatenate([np.linspace(-6.3, 12.1, 47), [0.0, -0.0, -2.0, 1e-30, 1e30, math.inf, math.nan]])
A, B = np.random.default_rng(1).normal(size=(2, 3, 4))
COMPARED: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "lgamma": (lambda t, a: t.lgamma(a), (POINTS,)),
    "gammaln": (lambda t, a: t.special.gammaln(a), (POINTS,)),
    "digamma": (lambda t, a: a.digamma(), (POINTS[POINTS != -2],)),
    "psi": (lambda t, a: t.special.psi(a), (POINTS[POINTS != -2],)),
    "polygamma 0": (lambda t, a: t.polygamma(0, a), (POINTS[POINTS > 0],)),
    "polygamma 1": (lambda t, a: t.special.polygamma(1, a), (POINTS[:47],)),
    "polygamma 2": (lambda t, a: a.polygamma(2), (POINTS[:47],)),
    "polygamma 3": (lambda t, a: a.polygamma(n=3), (POINTS[17:47],)),
    "mvlgamma": (lambda t, a: t.mvlgamma(a, p=3) + t.special.multigammaln(a, 2), (POINTS[25:47],)),
    "in place": (
        lambda t, a: (a * 1.0).lgamma_() + (a * 2).digamma_() + (a * 2).polygamma_(1) + (a + 1.0).mvlgamma_(2),
        (A**2,),
    ),
    "logaddexp2": (lambda t, a, b: t.logaddexp2(a * 1e3, b[:1] * 1e3) + a.logaddexp2(b), (A, B)),
    "entr": (lambda t, a: t.special.entr(a), (np.array([-1.0, 0.25, 1.0, 3.0, math.inf, math.nan]),)),
    "xlog1py": (lambda t, a, b: t.special.xlog1py(a, b[0]) + t.special.xlog1py(2.0, b), (A, B**2)),
    "xlog1py of 0": (
        lambda t, a, b: t.special.xlog1py(a, b),
        (np.array([0.0, 0.0, 0.0, 2.0]), np.array([-1.5, -2.0, 0.5, -0.3])),
    ),
    "ndtr": (lambda t, a: t.special.ndtr(a * 3), (A,)),
    "erfc far out": (lambda t, a: t.special.erfc(a), (np.array([-7.0, -0.1, 0.5, 0.6, 3.0, 6.0, 9.0, math.nan]),)),
    "i0": (lambda t, a: t.i0(a) + a.i0(), (BESSEL,)),
    "i1": (lambda t, a: t.special.i1(a), (BESSEL,)),
    "i0e": (lambda t, a: t.special.i0e(a), (BESSEL * 9,)),
    "i1e": (lambda t, a: t.special.i1e(a), (BESSEL * 9,)),
    "integers": (lambda t, a: (a * 3).long().abs().add(1).lgamma() + 0.0 * a.sum(), (A,)),
}

OF_TRIGAMMA = ("digamma", "psi", "polygamma 0", "polygamma 1", "in place")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", COMPARED)
def test_function_as_in_pytorch(name: str, dtype: str) -> None:
    torch: ModuleType = pytest.importorskip("torch")
    function, arrays = COMPARED[name]
    found = []
    for t in (torch, tg):
        leaves = [t.tensor(a.astype(dtype), requires_grad=True) for a in arrays]
        out = function(t, *leaves)
        out.sum().backward()
        found.append([out.detach().numpy(), *[leaf.grad.numpy() for leaf in leaves]])
    tolerance = 1e-11 if dtype == "float64" else 2e-5
    if name in OF_TRIGAMMA:  # which is right to 10 digits in PyTorch
        tolerance = max(tolerance, 2e-9)
    for got, want in zip(found[1], found[0], strict=True):
        assert got.dtype == want.dtype and got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def test_poles_and_ends() -> None:
    ends = tg.tensor([0.0, -0.0, -1.0, math.inf, -math.inf])
    assert ends.lgamma().tolist() == [math.inf] * 5
    assert str(ends.digamma().tolist()) == "[-inf, inf, nan, inf, nan]"
    assert str(ends.polygamma(1).tolist()) == "[inf, inf, inf, 0.0, nan]"
    assert str(ends.polygamma(2).tolist()) == "[-inf, -inf, -inf, -0.0, nan]"
    assert ends.i0().tolist() == [1.0, 1.0, ends.i0()[2].item(), math.inf, math.inf]
    assert tg.special.i1(ends).tolist()[-2:] == [math.inf, -math.inf]
    assert tg.special.i0e(ends).tolist()[-2:] == tg.special.i1e(ends).abs().tolist()[-2:] == [0.0, 0.0]
    assert tg.tensor([200.0]).bfloat16().lgamma().dtype == tg.bfloat16
    assert tg.lgamma(tg.zeros(0, 2)).shape == (0, 2) and tg.digamma(tg.tensor(1.0)).shape == ()


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: tg.polygamma(-1, tg.ones(2)), RuntimeError, "polygamma: n must not be negative, got -1"),
        (lambda: tg.polygamma(1.5, tg.ones(2)), TypeError, "polygamma: n must be an integer, got 1.5"),
        (lambda: tg.polygamma(1, 2.0), TypeError, "polygamma: input must be a tensor, got float"),
        (lambda: tg.lgamma(2.0), TypeError, "lgamma: input must be a tensor, got float"),
        (lambda: tg.mvlgamma(tg.ones(2), 0), RuntimeError, "mvlgamma: p must be an integer from 1 on, got 0"),
        (lambda: tg.special.xlog1py(1.0, 2.0), TypeError, "xlog1py: needs a tensor, got float and float"),
        (lambda: tg.special.airy_ai(tg.ones(1)), AttributeError, "special.airy_ai"),
    ],
)
def test_misuse_is_told(call: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()

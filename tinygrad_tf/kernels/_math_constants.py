"""The constants behind `_math.py`, for float32 and float64.

The polynomials are minimax fits (Remez exchange in 60-digit arithmetic), made for the ranges and degrees used here; the
error of each fit is below a tenth of the type's rounding error, except erfc in float64 (a fifth).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np


class Constants(NamedTuple):
    """What the formulas need, all in one float type. Polynomials start with their constant term."""

    zero: Any
    half: Any
    one: Any
    two: Any
    infinity: Any
    nan: Any
    exp_lowest: Any  # beyond these two exp is 0 or infinite
    exp_highest: Any
    exp_smallest: Any  # x / ln 2 rounds to the exponent -127 (float64: -1023), whose bits are those of 0
    per_ln2: Any
    ln2_high: Any  # ln 2 in two parts; n * ln2_high is exact
    ln2_low: Any
    exp_terms: Any  # exp(r) for |r| <= ln 2 / 2
    expm1_terms: Any  # (exp(r) - 1) / r
    log_terms: Any  # (2 artanh(s) - 2 s) / s^3 in s^2
    smallest_normal: Any
    denormal_scale: Any
    denormal_shift: Any
    tanh_border: Any
    expm1_border: Any
    erf_border: Any
    far: Any  # exp(-far^2 / 2) is 0
    erf_terms: Any  # erf(x) / x in x^2, below the border
    erfc_slope: Any
    normal_slope: Any  # erfc_slope / sqrt 2
    erfc_terms: Any  # exp(a^2) erfc(a) / t in 1 - t, with t = 1 / (1 + erfc_slope a)
    gelu_border: Any  # 2 Phi(-a) is about 2^-127, and comes out as 0
    gelu_terms: Any  # log(2 Phi(-a)) / a, for 0 <= a <= gelu_border; empty where it would take too many terms
    mantissa: Any  # from here on integers: the number of mantissa bits, and bit patterns
    bias: Any
    shifter: Any  # a float: adding it rounds to an integer n, and leaves n in the low bits of the sum
    shifter_bits: Any
    root_half_bits: Any


def _constants(
    number: Any,
    exp: tuple[float, ...],
    log: tuple[float, ...],
    erf: tuple[float, ...],
    erfc: tuple[float, ...],
    slope: float,
    gelu: tuple[float, ...],
    ln2: tuple[float, float],
    exp_range: tuple[float, float, float],
) -> Constants:
    limits = np.finfo(number)
    mantissa = int(limits.nmant)
    bits = np.int32 if number is np.float32 else np.int64
    shifter = number(1.5 * 2.0**mantissa)
    return Constants(
        zero=number(0.0),
        half=number(0.5),
        one=number(1.0),
        two=number(2.0),
        infinity=number(math.inf),
        nan=number(math.nan),
        exp_lowest=number(exp_range[0]),
        exp_highest=number(exp_range[1]),
        exp_smallest=number(exp_range[2]),
        per_ln2=number(1 / math.log(2)),
        ln2_high=number(ln2[0]),
        ln2_low=number(ln2[1]),
        exp_terms=tuple(map(number, exp)),
        expm1_terms=tuple(map(number, exp[1:])),
        log_terms=tuple(map(number, log)),
        smallest_normal=limits.smallest_normal,
        denormal_scale=number(2.0 ** (mantissa + 2)),
        denormal_shift=mantissa + 2,
        tanh_border=number(20.0),
        expm1_border=number(40.0),
        erf_border=number(0.6),
        far=number(40.0),
        erf_terms=tuple(map(number, erf)),
        erfc_slope=number(slope),
        normal_slope=number(slope * math.sqrt(0.5)),
        erfc_terms=tuple(map(number, erfc)),
        gelu_border=number(13.06),
        gelu_terms=tuple(map(number, gelu)),
        mantissa=mantissa,
        bias=int(limits.maxexp) - 1,
        shifter=shifter,
        shifter_bits=int(shifter.view(bits)),
        root_half_bits=int(number(math.sqrt(0.5)).view(bits)),
    )


FLOAT32 = _constants(
    np.float32,
    exp=(1.0, 1.0, 0.5, 0.16666518, 0.041666206, 0.008368918, 0.0013950542),
    log=(0.66666776, 0.39977497, 0.29873073),
    erf=(1.1283791, -0.37612513, 0.11280992, -0.026646987, 0.004512358),
    erfc=(1.0, -1.8209496, 1.6081554, -0.46743494, -0.26437867, 0.1141529, 0.11586943, -0.021965634,
          -0.06694923, 0.029205786),
    slope=0.4,
    gelu=(-0.79788464, -0.3183079, -0.036347132, 0.0048092077, 6.9001603e-06, -0.0001981287, 5.4657852e-05,
          -8.071244e-06, 6.9279446e-07, -3.209674e-08, 6.168652e-10),
    ln2=(0.693145751953125, 1.4286068203094173e-06),
    exp_range=(-104.0, 89.0, -88.0),
)  # fmt: skip

FLOAT64 = _constants(
    np.float64,
    exp=(1.0, 1.0, 0.5000000000000012, 0.166666666666667, 0.041666666666521, 0.008333333333307612,
         0.0013888888945837112, 0.0001984126991668369, 2.4801490964958178e-05, 2.755721681125295e-06,
         2.7630966612041523e-07, 2.5117726594434152e-08),
    log=(0.6666666666666696, 0.3999999999961125, 0.2857142870567832, 0.22222201866998773, 0.1818341077248357,
         0.15317636639526444, 0.14762781056642443),
    erf=(1.1283791670955126, -0.37612638903183704, 0.11283791670950463, -0.026866170643480125,
         0.005223977595701544, -0.0008548323940934006, 0.00012055138035586709, -1.491799366456733e-05,
         1.6279244820757531e-06, -1.3911622929745523e-07),
    erfc=(1.0, -2.2239404774157334, 2.715384351287912, -1.7272798125208029, 0.22226295217260775,
          0.367032752201991, -0.08658607208517205, -0.11152629658127292, 0.007919909270643014,
          0.04025015437211227, -4.205040512435525e-05, 0.029240352885907223, -0.1276578187405045,
          0.29481564833796997, -0.5777894790573136, 0.9085574143105688, -1.1149505489196745,
          1.0616516034580872, -0.7646741015289209, 0.39788845752406693, -0.1397901386906027,
          0.029525119082695978, -0.002825564714273308),
    slope=0.35,
    gelu=(),
    ln2=(0.6931471805598903, 5.497923018708371e-14),
    exp_range=(-746.0, 710.0, -709.0),
)  # fmt: skip

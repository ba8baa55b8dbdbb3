"""Methods that are functions of other files of this floor: each file makes methods of its own when it is imported."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tinygrad_tf import engine

if TYPE_CHECKING:
    from tinygrad_tf.compositions.elementwise import _Frexp
    from tinygrad_tf.compositions.statistics import _Histogram
    from tinygrad_tf.matrix_functions import _QR, _SVD, _Triangular
    from tinygrad_tf.tensor import Tensor


class ComposedMethods(engine.Tensor):
    """Their names; the functions, documented, are in compositions, matrix_functions, special and complex_numbers."""

    __slots__ = ()

    if TYPE_CHECKING:
        addmv: Callable[..., Tensor]
        addr: Callable[..., Tensor]
        angle: Callable[..., Tensor]
        cholesky: Callable[..., Tensor]
        cholesky_inverse: Callable[..., Tensor]
        cholesky_solve: Callable[..., Tensor]
        conj: Callable[..., Tensor]
        copysign: Callable[..., Tensor]
        copysign_: Callable[..., Tensor]
        corrcoef: Callable[..., Tensor]
        cov: Callable[..., Tensor]
        cross: Callable[..., Tensor]
        deg2rad: Callable[..., Tensor]
        deg2rad_: Callable[..., Tensor]
        diagflat: Callable[..., Tensor]
        diagonal_scatter: Callable[..., Tensor]
        digamma: Callable[..., Tensor]
        digamma_: Callable[..., Tensor]
        dist: Callable[..., Tensor]
        erfc: Callable[..., Tensor]
        erfc_: Callable[..., Tensor]
        float_power: Callable[..., Tensor]
        fmax: Callable[..., Tensor]
        fmin: Callable[..., Tensor]
        frexp: Callable[..., _Frexp]
        gcd: Callable[..., Tensor]
        gcd_: Callable[..., Tensor]
        heaviside: Callable[..., Tensor]
        heaviside_: Callable[..., Tensor]
        histogram: Callable[..., _Histogram]
        hsplit: Callable[..., tuple[Tensor, ...]]
        hypot: Callable[..., Tensor]
        hypot_: Callable[..., Tensor]
        i0: Callable[..., Tensor]
        i0_: Callable[..., Tensor]
        imag: Tensor
        inner: Callable[..., Tensor]
        is_nonzero: Callable[..., bool]
        isneginf: Callable[..., Tensor]
        isposinf: Callable[..., Tensor]
        istft: Callable[..., Tensor]
        lcm: Callable[..., Tensor]
        lcm_: Callable[..., Tensor]
        ldexp: Callable[..., Tensor]
        ldexp_: Callable[..., Tensor]
        lgamma: Callable[..., Tensor]
        lgamma_: Callable[..., Tensor]
        logaddexp2: Callable[..., Tensor]
        lu: Callable[..., tuple[Tensor, Tensor]]
        lu_solve: Callable[..., Tensor]
        matrix_exp: Callable[..., Tensor]
        matrix_power: Callable[..., Tensor]
        msort: Callable[..., Tensor]
        mvlgamma: Callable[..., Tensor]
        mvlgamma_: Callable[..., Tensor]
        nanquantile: Callable[..., Tensor]
        nextafter: Callable[..., Tensor]
        nextafter_: Callable[..., Tensor]
        pinverse: Callable[..., Tensor]
        polygamma: Callable[..., Tensor]
        polygamma_: Callable[..., Tensor]
        positive: Callable[..., Tensor]
        qr: Callable[..., _QR]
        rad2deg: Callable[..., Tensor]
        rad2deg_: Callable[..., Tensor]
        real: Tensor
        renorm: Callable[..., Tensor]
        rot90: Callable[..., Tensor]
        select_scatter: Callable[..., Tensor]
        signbit: Callable[..., Tensor]
        sinc: Callable[..., Tensor]
        sinc_: Callable[..., Tensor]
        slice_scatter: Callable[..., Tensor]
        stft: Callable[..., Tensor]
        svd: Callable[..., _SVD]
        triangular_solve: Callable[..., _Triangular]
        vdot: Callable[..., Tensor]
        vsplit: Callable[..., tuple[Tensor, ...]]
        xlogy: Callable[..., Tensor]
        xlogy_: Callable[..., Tensor]


def as_methods(owner: type, names: str, functions: Mapping[str, Any]) -> None:
    """Make methods of the named functions, whose first argument the tensor is then."""
    for name in names.split():
        setattr(owner, name, functions[name])

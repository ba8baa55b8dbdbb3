"""A tiny autograd engine in NumPy and numba, with the Transformer built on it.

>>> import tinygrad_tf as tg
>>> w = tg.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
>>> (w @ tg.ones(2)).sum().backward()
>>> w.grad
tensor([[1., 1.],
        [1., 1.]])
"""

import numpy as _np

from tinygrad_tf import autograd, nn, optim
from tinygrad_tf._device import device
from tinygrad_tf.autograd import enable_grad, inference_mode, is_grad_enabled, no_grad, set_grad_enabled
from tinygrad_tf.creation import (
    arange,
    as_tensor,
    cat,
    empty,
    eye,
    from_numpy,
    full,
    full_like,
    linspace,
    multinomial,
    ones,
    ones_like,
    rand,
    rand_like,
    randint,
    randn,
    randn_like,
    randperm,
    stack,
    tensor,
    tril,
    triu,
    where,
    zeros,
    zeros_like,
)
from tinygrad_tf.engine import use_reference
from tinygrad_tf.random import Generator, default_generator, manual_seed
from tinygrad_tf.tensor import Size, Tensor

__version__ = "0.1.0"

float16, float32, float64 = _np.dtype(_np.float16), _np.dtype(_np.float32), _np.dtype(_np.float64)
uint8, int8, int16, int32, int64 = (_np.dtype(t) for t in (_np.uint8, _np.int8, _np.int16, _np.int32, _np.int64))
half, float, double, short, int, long = float16, float32, float64, int16, int32, int64  # noqa: A001
bool = _np.dtype(_np.bool_)  # noqa: A001
inf, nan, pi = _np.inf, _np.nan, _np.pi

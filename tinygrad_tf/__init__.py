"""A tiny autograd engine in NumPy and numba, with the Transformer built on it.

>>> import tinygrad_tf as tg
>>> w = tg.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
>>> (w @ tg.ones(2)).sum().backward()
>>> w.grad
tensor([[1., 1.],
        [1., 1.]])

The names are PyTorch's. Tensors are made by creation/; functions of tensors are listed in functions.py, methods in
tensor.py and methods/; each is a line that calls an operation of ops/, where its gradient rule stands.
"""

from tinygrad_tf import _signals as _signals  # first: what follows takes a while, and Ctrl-C may come

import importlib as _importlib
import importlib.util as _importlib_util
import math as _math
import sys as _sys
from functools import partial as _partial
from typing import Any as _Any

from tinygrad_tf import dtypes as _dtypes
from tinygrad_tf import amp as amp, autograd as autograd, fft as fft, linalg as linalg
from tinygrad_tf import nn as nn, optim as optim, special as special, utils as utils
from tinygrad_tf._device import device as device
from tinygrad_tf._version import __version__ as __version__
from tinygrad_tf.autograd import (
    enable_grad as enable_grad,
    inference_mode as inference_mode,
    is_grad_enabled as is_grad_enabled,
    is_inference_mode_enabled as is_inference_mode_enabled,
    no_grad as no_grad,
    set_grad_enabled as set_grad_enabled,
)
from tinygrad_tf.complex_numbers import *
from tinygrad_tf.compositions.elementwise import *
from tinygrad_tf.compositions.matrices import *
from tinygrad_tf.compositions.shapes import *
from tinygrad_tf.compositions.statistics import *
from tinygrad_tf.creation.counted import *
from tinygrad_tf.creation.drawn import *
from tinygrad_tf.creation.filled import *
from tinygrad_tf.creation.given import *
from tinygrad_tf.creation.typed import *
from tinygrad_tf.creation import tensor as tensor  # the function, not the module of that name
from tinygrad_tf.dtypes import (
    bfloat16 as bfloat16,
    finfo as finfo,
    float16 as float16,
    float32 as float32,
    float64 as float64,
    iinfo as iinfo,
    int8 as int8,
    int16 as int16,
    int32 as int32,
    int64 as int64,
    uint8 as uint8,
    uint16 as uint16,
    uint32 as uint32,
    uint64 as uint64,
)
from tinygrad_tf.engine import use_reference as use_reference
from tinygrad_tf.functions import *
from tinygrad_tf.matrix_functions import *
from tinygrad_tf.printing import set_printoptions as set_printoptions
from tinygrad_tf.random import (
    Generator as Generator,
    default_generator as default_generator,
    get_rng_state as get_rng_state,
    initial_seed as initial_seed,
    manual_seed as manual_seed,
    seed as seed,
    set_rng_state as set_rng_state,
)
from tinygrad_tf.serialization import load as load, save as save
from tinygrad_tf.short_time import *
from tinygrad_tf.sparse import mm as spmm, sparse_coo_tensor as sparse_coo_tensor
from tinygrad_tf.special import (
    digamma as digamma,
    i0 as i0,
    lgamma as lgamma,
    logaddexp2 as logaddexp2,
    mvlgamma as mvlgamma,
    polygamma as polygamma,
)
from tinygrad_tf.tensor import Size as Size, Tensor as Tensor

dtype = _dtypes.DType
bool = _dtypes.bool_
half, float, double, short, int, long = float16, float32, float64, int16, int32, int64
inf, nan, pi, e = _math.inf, _math.nan, _math.pi, _math.e


def _look_further(package: str, name: str) -> _Any:
    """What a package has not got: a module not imported yet, or as_torch answers, or it says what is missing."""
    holder = f"{__name__}.{package}".rstrip(".")
    path = f"{holder}.{name}"
    if name.startswith("__"):
        raise AttributeError(f"module {holder!r} has no attribute {name!r}")
    if "__path__" in vars(_sys.modules[holder]) and _importlib_util.find_spec(path) is not None:
        return _importlib.import_module(path)
    return _importlib.import_module(f"{__name__}.as_torch").find(package, name)


_packages = "autograd fft linalg nn nn.attention nn.functional nn.init nn.utils optim optim.lr_scheduler serialization"
for _package in ("", "special", "utils", "utils.data", *_packages.split()):
    _module = _sys.modules[f"{__name__}.{_package}".rstrip(".")]
    _module.__dict__["__getattr__"] = _partial(_look_further, _package)

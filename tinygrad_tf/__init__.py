"""A tiny autograd engine in NumPy and numba, with the Transformer built on it.

>>> import tinygrad_tf as tg
>>> w = tg.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
>>> (w @ tg.ones(2)).sum().backward()
>>> w.grad
tensor([[1., 1.],
        [1., 1.]])

The names are PyTorch's. Tensors are made by creation.py; functions of tensors are listed in functions.py, methods in
tensor.py and methods/; each is a line that calls an operation of ops/, where its gradient rule stands.
"""

import importlib as _importlib
import importlib.util as _importlib_util
import math as _math
import sys as _sys
from functools import partial as _partial
from typing import Any as _Any

from tinygrad_tf import amp, autograd, linalg, nn, optim, utils
from tinygrad_tf._device import device
from tinygrad_tf._version import __version__
from tinygrad_tf.autograd import enable_grad, inference_mode, is_grad_enabled, no_grad, set_grad_enabled
from tinygrad_tf.complex_numbers import *
from tinygrad_tf.compositions import *
from tinygrad_tf.creation import *
from tinygrad_tf.creation import tensor as tensor  # the function, not the module of that name
from tinygrad_tf.dtypes import DType as dtype
from tinygrad_tf.dtypes import (
    bfloat16,
    finfo,
    float16,
    float32,
    float64,
    iinfo,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from tinygrad_tf.dtypes import bool_ as bool
from tinygrad_tf.engine import use_reference
from tinygrad_tf.functions import *
from tinygrad_tf.printing import set_printoptions
from tinygrad_tf.random import (
    Generator,
    default_generator,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)
from tinygrad_tf.serialization import load, save
from tinygrad_tf.tensor import Size, Tensor

half, float, double, short, int, long = float16, float32, float64, int16, int32, int64
inf, nan, pi, e = _math.inf, _math.nan, _math.pi, _math.e


def _look_further(package: str, name: str) -> _Any:
    """What a package has not got: a module not imported yet, or as_torch.py answers, or it says what is missing."""
    holder = f"{__name__}.{package}".rstrip(".")
    path = f"{holder}.{name}"
    if name.startswith("__"):
        raise AttributeError(f"module {holder!r} has no attribute {name!r}")
    if "__path__" in vars(_sys.modules[holder]) and _importlib_util.find_spec(path) is not None:
        return _importlib.import_module(path)
    return _importlib.import_module(f"{__name__}.as_torch").find(package, name)


_packages = "autograd linalg nn nn.attention nn.functional nn.init nn.utils optim optim.lr_scheduler utils utils.data"
for _package in ("", *_packages.split()):
    _module = _sys.modules[f"{__name__}.{_package}".rstrip(".")]
    _module.__dict__["__getattr__"] = _partial(_look_further, _package)

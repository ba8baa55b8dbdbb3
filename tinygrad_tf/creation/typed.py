"""The constructors of one dtype, as torch.FloatTensor, from before tensors had a dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tinygrad_tf.creation.filled import zeros
from tinygrad_tf.creation.given import tensor
from tinygrad_tf.dtypes import array_dtype
from tinygrad_tf.tensor import Size, Tensor


class _TypeOfTensors(type):
    """PyTorch's old types: LongTensor([1, 2]) from data, LongTensor(2, 3) or LongTensor(x.size()) for a shape.

    No tensor is made by one of these classes; those of its dtype are said to be, as in isinstance(x, LongTensor).
    """

    wanted_dtype: str

    def __call__(cls, *data: Any) -> Any:
        if len(data) == 1 and not isinstance(data[0], (int, np.integer, Size)):
            return tensor(data[0], dtype=cls.wanted_dtype)
        return zeros(*data, dtype=cls.wanted_dtype) if data else zeros(0, dtype=cls.wanted_dtype)

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, Tensor) and value.array.dtype == array_dtype(cls.wanted_dtype)


def _constructor(name: str, dtype: str) -> Callable[..., Tensor]:
    return _TypeOfTensors(name, (), {"wanted_dtype": dtype, "__module__": __name__})


FloatTensor, DoubleTensor = _constructor("FloatTensor", "float32"), _constructor("DoubleTensor", "float64")


HalfTensor, BFloat16Tensor = _constructor("HalfTensor", "float16"), _constructor("BFloat16Tensor", "bfloat16")


LongTensor, IntTensor = _constructor("LongTensor", "int64"), _constructor("IntTensor", "int32")


ShortTensor, CharTensor = _constructor("ShortTensor", "int16"), _constructor("CharTensor", "int8")


ByteTensor, BoolTensor = _constructor("ByteTensor", "uint8"), _constructor("BoolTensor", "bool")


# fmt: off
__all__ = [
    "BFloat16Tensor", "BoolTensor", "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor", "HalfTensor",
    "IntTensor", "LongTensor", "ShortTensor",
]
# fmt: on

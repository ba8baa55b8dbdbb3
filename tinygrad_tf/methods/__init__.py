"""The methods of class Tensor by topic, each a line that calls an operation of ops/; tensor.py puts them together."""

from tinygrad_tf.methods._tools import call_steps, check_all
from tinygrad_tf.methods.comparison import ComparisonMethods
from tinygrad_tf.methods.composed import ComposedMethods
from tinygrad_tf.methods.elementwise import ElementwiseMethods
from tinygrad_tf.methods.filling import FillingMethods
from tinygrad_tf.methods.indexing import IndexingMethods
from tinygrad_tf.methods.matrix import MatrixMethods
from tinygrad_tf.methods.reduction import ReductionMethods, ValuesIndices
from tinygrad_tf.methods.shape import ShapeMethods
from tinygrad_tf.methods.types import PythonTypeMethods, TypeMethods

__all__ = [
    "ComparisonMethods",
    "ComposedMethods",
    "ElementwiseMethods",
    "FillingMethods",
    "IndexingMethods",
    "MatrixMethods",
    "PythonTypeMethods",
    "ReductionMethods",
    "ShapeMethods",
    "ValuesIndices",
]

_CHECKED = (
    ComparisonMethods,
    ElementwiseMethods,
    FillingMethods,
    IndexingMethods,
    MatrixMethods,
    ReductionMethods,
    ShapeMethods,
    TypeMethods,
)

for _methods in _CHECKED:
    check_all(list(vars(_methods)), _methods)

# What is one step in PyTorch's graphs and several operations here: the method, and PyTorch's name of the step.
_STEPS = {
    ElementwiseMethods: {"masked_fill": "MaskedFill"},
    MatrixMethods: {"mv": "Mv"},
    ReductionMethods: {
        "logsumexp": "Logsumexp",
        "norm": "LinalgVectorNorm",
        "prod": "Prod",
        "std": "Std",
        "var": "Var",
    },
    ShapeMethods: {"repeat": "Repeat", "trace": "Trace"},
}

for _holder, _names in _STEPS.items():
    call_steps(_names, _holder)

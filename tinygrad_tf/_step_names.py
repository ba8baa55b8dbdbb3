"""What PyTorch calls the steps of a graph, which programs print and draw: MulBackward0 for mul.

A step is named after the operation that it leads back through; twins of one operation, as unsqueeze is of reshape, have
the name of their step besides. The result of a function that is composed of several operations here, and is one in
PyTorch, gets the name of that one (`call_step` of grad_fn.py): the steps behind it are those recorded.
"""

from __future__ import annotations

from typing import Any

RENAMED = {
    "power": "Pow", "cast": "ToCopy", "det": "LinalgDet", "inv": "LinalgInvEx", "layer_norm": "NativeLayerNorm",
    "batch_norm": "NativeBatchNorm", "transposed_convolution": "Convolution",
    "where_in_order": "Where", "reshape": "View", "contiguous": "Clone", "log1p": "Log1P", "median_of_all": "Median",
    "nanmedian_of_all": "Nanmedian",
}  # fmt: skip
BY_DIMENSIONS = {"matmul": ("Mm", "UnsafeView"), "linear": ("Addmm", "View"), "mm": ("Mm", "UnsafeView")}
SECOND_INPUTS = {"power": "exponent", "matmul": "mat2"}  # what PyTorch calls them where it is not `other`


def step_name(kind: str, shape: tuple[int, ...], options: dict[str, Any]) -> str:
    """The name of the step that leads back through an operation whose result has this shape."""
    if kind.endswith("Backward"):  # the call of a Function, as ExpBackward
        return kind
    if kind in BY_DIMENSIONS:
        return BY_DIMENSIONS[kind][len(shape) != 2] + "Backward0"
    if kind == "put_view":  # what is written into a part of a tensor
        return "torch::autograd::CopySlices"
    if kind == "getitem":
        kind = _part_of(options["index"])
    number = "0"
    if kind in ("sum", "mean") and "shapes" in options:
        number = "01"[options["keepdim"] or len(options["dims"]) < len(options["shapes"][0])]
    elif kind in ("max", "min", "clamp", "rsub"):  # of all numbers, between numbers, and from a number
        number = "1"
    name = RENAMED.get(kind) or "".join([word[:1].upper() + word[1:] for word in kind.split("_")])
    return f"{name}Backward{number}"


def _part_of(index: Any) -> str:
    """What PyTorch calls the last step that leads to an index: select for x[0], slice for x[1:], index for x[mask]."""
    name = "alias"
    for part in index if isinstance(index, tuple) else (index,):
        if hasattr(part, "dtype") or isinstance(part, bool):
            return "index"
        if part is not ... and part != slice(None):
            name = "unsqueeze" if part is None else "slice" if isinstance(part, slice) else "select"
    return name

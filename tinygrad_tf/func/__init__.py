"""Functions of functions, as in torch.func: grad, vjp, jvp, jacrev, hessian, vmap; modules with other weights.

What is differentiated by may be a tensor, or tensors in tuples, lists and dictionaries (a "tree"); the derivatives come
in the same form. The transformations may be nested: every one works on copies of its own, and its results still depend
on what was there before, so that the next one outside can differentiate them again.
"""

from __future__ import annotations

from tinygrad_tf.func._derivatives import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp
from tinygrad_tf.func._modules import functional_call, stack_module_state
from tinygrad_tf.func._vmap import vmap

__all__ = [
    "functional_call",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "stack_module_state",
    "vjp",
    "vmap",
]

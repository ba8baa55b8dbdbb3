"""Linear algebra under PyTorch's names: norms, inverses, determinants, systems of equations, decompositions.

Everything here has gradients but matrix_rank, of float32 and float64, for stacks of matrices (..., M, N), too.
"""

from tinygrad_tf.linalg.decompositions import *
from tinygrad_tf.linalg.norms import *
from tinygrad_tf.linalg.products import *
from tinygrad_tf.linalg.systems import *
from tinygrad_tf.ops.linalg import LinAlgError

# fmt: off
__all__ = [
    "LinAlgError", "cholesky", "cholesky_ex", "cond", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv",
    "lstsq", "lu", "lu_factor", "lu_solve", "matmul", "matrix_exp", "matrix_norm", "matrix_power", "matrix_rank",
    "multi_dot", "norm", "pinv", "qr", "slogdet", "solve", "solve_triangular", "svd", "svdvals", "tensorinv",
    "tensorsolve", "vander", "vecdot", "vector_norm",
]
# fmt: on

"""Make the stored values of tests/reference/ with PyTorch:  python -m tests.reference.make

Run it again only when the programs change; the files say which version made them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.reference import lbfgs, precision, programs, rows

PATH = Path(__file__).with_name("torch_values.npz")
PRECISION_PATH = Path(__file__).with_name("precision_values.npz")
LBFGS_PATH = Path(__file__).with_name("lbfgs_values.npz")
ROWS_PATH = Path(__file__).with_name("row_values.npz")

if __name__ == "__main__":
    import torch

    torch.set_num_threads(1)
    for path, run_all in (
        (PATH, programs.run_all),
        (PRECISION_PATH, precision.run_all),
        (LBFGS_PATH, lbfgs.run_all),
        (ROWS_PATH, lambda library: rows.run_rows(library)[0]),
    ):
        values = run_all(torch)
        np.savez_compressed(path, made_with=np.array(f"torch {torch.__version__}"), **values)
        print(f"{len(values)} arrays, {path.stat().st_size} bytes, made with torch {torch.__version__}")

"""Make tests/reference/torch_values.npz with PyTorch:  python -m tests.reference.make

Run it again only when programs.py changes; the file says which version made it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.reference.programs import run_all

PATH = Path(__file__).with_name("torch_values.npz")

if __name__ == "__main__":
    import torch

    torch.set_num_threads(1)
    values = run_all(torch)
    np.savez_compressed(PATH, made_with=np.array(f"torch {torch.__version__}"), **values)
    print(f"{len(values)} arrays, {PATH.stat().st_size} bytes, made with torch {torch.__version__}")

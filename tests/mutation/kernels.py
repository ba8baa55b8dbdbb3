"""A sample of the compiled backward kernels, damaged in their sources: each mutant is a copy of the package."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tinygrad_tf.kernels._matrix_tiles import AVAILABLE
from tinygrad_tf.kernels._vector import HAS_PAIRS

TOP = Path(__file__).parents[2]
ROWS = "tests/test_row_kernels.py"
CAUGHT, SURVIVED, STALE, BROKEN = "caught", "survived", "stale", "broken"


@dataclass(frozen=True)
class KernelMutant:
    """One change to a source of `kernels`, and the tests (a file, names in it) that must notice."""

    file: str
    sound: str
    damaged: str
    tests: str
    names: str

    def source(self, folder: Path = TOP) -> Path:
        return folder / "tinygrad_tf" / "kernels" / f"{self.file}.py"

    def __str__(self) -> str:
        sound, damaged = (" ".join(text.split()) for text in (self.sound, self.damaged))
        return f"{self.file}: {sound}  ->  {damaged}"


def rows(file: str, kernel: str, sound: str, damaged: str) -> KernelMutant:
    return KernelMutant(file, sound, damaged, ROWS, f"{kernel} and (several_blocks or finite_differences)")


SOFTMAX = "for row in range(block * step, min(block * step + step, y.shape[0])):\n        weights, target"
GELU = """start, stop = block * step, block * step + step
    upper, source, target = g[start:stop], x[start:stop], dx[start:stop]
    for i in range(source.size):
        z = get(source, i)
        number = type(z)
        tail"""
LAYER_NORM = "minus(minus(upper * weight[col], average), z * slope)"
HIT = "hit = upper * number(1 - smoothing) * weight[label]"
LINEAR = "tests/test_matmul.py", "linear_backward"
ATTENTION = "tests/test_attention_kernel.py", "test_every_length or test_other_numbers_of_keys"
TILES = "tests/test_attention_tiles.py", "float32_is_as_exact"
PAIRS = "tests/test_matmul.py", "pairs"
CONVOLUTION = "tests/test_convolution_kernels.py", "gradients or columns or largest or pieces"
MUTANTS = [
    rows("softmax", "softmax_backward", "(target[col] - common)", "target[col]"),
    rows("softmax", "softmax_backward", "common += target[col] * weights[col]", "common = target[col] * weights[col]"),
    rows("softmax", "softmax_backward", SOFTMAX, SOFTMAX.replace("range(block * step", "range(block * step + 1")),
    rows("softmax", "log_softmax_backward", "exp_negative(logs[col]) * total", "exp_negative(logs[col])"),
    rows("layer_norm", "layer_norm_backward", LAYER_NORM, "minus(upper * weight[col], z * slope)"),
    rows("layer_norm", "layer_norm_backward", "dbias[col] += upper", "dbias[col] = upper"),
    rows("layer_norm", "layer_norm_backward", "    add_blocks(sums[0])", "    pass"),
    rows("layer_norm", "norm_backward", "sums[0, col] += sums[block, col]", "sums[0, col] = sums[block, col]"),
    rows("layer_norm", "rms_norm_backward", "weight[col] - z * slope)", "weight[col] + z * slope)"),
    rows("batch_norm", "batch_norm_backward", "target[i], average), z * slope", "target[i], average), z"),
    rows("batch_norm", "batch_norm_backward", "minus(minus(target[c], average[c]), z", "minus(target[c], z"),
    rows("batch_norm", "batch_norm_backward", "    add_blocks(parts[1])", "    pass"),
    rows("batch_norm", "batch_norm_backward", "totals[c] += np.float64(upper[c])", "totals[c] = np.float64(upper[c])"),
    rows("gelu", "gelu", "(number(DENSITY) * decay)", "(number(1.01 * DENSITY) * decay)"),
    rows("gelu", "gelu", "number(3 * SCALE * CUBIC)", "number(2 * SCALE * CUBIC)"),
    rows("gelu", "gelu", GELU, GELU.replace("step + step\n", "step + step - 1\n")),
    rows("cross_entropy", "cross_entropy_backward", "result[label] -= hit", "result[label] = -hit"),
    rows("cross_entropy", "cross_entropy_backward", "factor = hit + upper * number(share)", "factor = hit"),
    rows("cross_entropy", "cross_entropy_backward", HIT, HIT.removesuffix(" * weight[label]")),
    KernelMutant("embedding", "target[col] += source[col]", "target[col] = source[col]", ROWS, "embedding"),
    KernelMutant("embedding", "tables[0] if count == 1 else tables.sum(0)", "tables[0]", ROWS, "embedding"),
    KernelMutant("elementwise", "total[col] += (get(first, col)", "total[col] = (get(first, col)", *LINEAR),
    KernelMutant("convolution", "    total[t0 + o] += found", "    total[t0 + o] = found", *CONVOLUTION),
    KernelMutant("convolution", "s0 + n * count + k, these * depth", "s0 + n * count + k, depth", *CONVOLUTION),
    KernelMutant("convolution", "min(channels, here - c)\n        for", "channels\n        for", *CONVOLUTION),
    KernelMutant("windows", "bottom - top, around)", "0, around)", *CONVOLUTION),
    KernelMutant("windows", "end - left, across, bottom - top, 0)", "end - left, across, 0, 0)", *CONVOLUTION),
    KernelMutant("pooling", "if found[p] < 0:", "if found[p] < -1:", *CONVOLUTION),
    KernelMutant("_attention_panel", "builder.fsub(g, d)", "g", *ATTENTION),
    KernelMutant("_attention_backward", "range(first, last, KEYS)", "range(first + 1, last, KEYS)", *ATTENTION),
]  # fmt: skip
ON_TILES = [
    KernelMutant("_attention_pieces", "builder.fsub(g, d)", "g", *TILES),
    KernelMutant("_attention_tiles_forward", "S[sums + q] *= S[factors + q]", "pass", *TILES),
    KernelMutant("_attention_tiles_backward", "range(0, last, KEYS)", "range(KEYS, last, KEYS)", *TILES),
]
IN_PAIRS = [
    KernelMutant("_pairs", "e.at(source, args[2])", "e.at(source, builder.add(args[2], args[2]))", *PAIRS),
    KernelMutant("_pairs", "range(depth if i < rows else 0, K)", "range(depth, K)", *PAIRS),
    KernelMutant("_pairs", "range(whole, K):", "range(whole, K - 1):", *PAIRS),
    KernelMutant("_pairs", "for i in range(full, M):", "for i in range(full, M - 1):", *PAIRS),
    KernelMutant("_product", "min(STRIP, rows), 2 if", "min(STRIP, rows), 1 if", *PAIRS),
    KernelMutant("_plan", "(pairs and a_col != 1)", "False", *PAIRS),
    KernelMutant("matmul", "if a.shape[-1] % 2:", "if False:", *PAIRS),
    KernelMutant("cast", "x[row * x_row : row", "x[row * columns : row", "tests/test_matmul.py", "cast_of_rows"),
]
MUTANTS += ON_TILES if AVAILABLE else []
MUTANTS += IN_PAIRS if HAS_PAIRS else []


def copy_package(folder: Path) -> None:
    unwanted = shutil.ignore_patterns("__pycache__")
    for name in ("tinygrad_tf", "tests"):
        shutil.copytree(TOP / name, folder / name, ignore=unwanted)


def tests_pass(folder: Path, mutant: KernelMutant) -> bool:
    """Run the mutant's tests in a process of its own, which sees this copy of the package alone."""
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path, "TINYGRAD_TF_CACHE": str(folder / "cache")}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", mutant.tests, "-k", mutant.names]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{mutant.tests} -k {mutant.names!r} did not run:\n{done.stdout}{done.stderr}")
    return done.returncode == 0


def try_kernels(mutants: Sequence[KernelMutant]) -> Iterator[tuple[KernelMutant, str]]:
    """Each mutant and what became of it: caught, survived, stale (the source reads otherwise by now) or broken.

    broken: its tests fail without any damage, so that they prove nothing.
    """
    passed: dict[tuple[str, str], bool] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copy_package(folder)
        for mutant in mutants:
            tests = mutant.tests, mutant.names
            if tests not in passed:
                passed[tests] = tests_pass(folder, mutant)
            source = mutant.source(folder)
            text = source.read_text(encoding="utf-8")
            if not passed[tests] or text.count(mutant.sound) != 1:
                yield mutant, STALE if passed[tests] else BROKEN
                continue
            source.write_text(text.replace(mutant.sound, mutant.damaged), encoding="utf-8")
            try:
                yield mutant, SURVIVED if tests_pass(folder, mutant) else CAUGHT
            finally:
                source.write_text(text, encoding="utf-8")

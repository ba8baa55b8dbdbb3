"""Samplers: in which order the items of a dataset are taken. They draw what PyTorch's draw for the same seed."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar

import numpy as np

from tinygrad_tf import random
from tinygrad_tf.tensor import Tensor

Index = TypeVar("Index", covariant=True)


class Sampler(Generic[Index]):
    """Base class: define __iter__(), and __len__() if the loader's length is asked for."""

    def __init__(self, data_source: Any = None):
        pass

    def __iter__(self) -> Iterator[Index]:
        raise NotImplementedError(f"{type(self).__name__} must define __iter__()")


class SequentialSampler(Sampler[int]):
    """0, 1, 2 ..."""

    def __init__(self, data_source: Sized):
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


def draw_seed(generator: random.Generator | None) -> int:
    """A 63-bit number, as PyTorch draws seeds."""
    return int(random.or_default(generator).integers(0, 2**63, ()))


class RandomSampler(Sampler[int]):
    """All indices in random order, or num_samples of them; with replacement, each drawn by itself when it is asked for.

    >>> sampler = RandomSampler(range(5), replacement=True, num_samples=10**10)
    >>> 0 <= next(iter(sampler)) < 5
    True
    """

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: random.Generator | None = None,
    ):
        self.data_source, self.replacement, self.generator = data_source, replacement, generator
        self._num_samples = num_samples
        if not isinstance(self.num_samples, int) or self.num_samples <= 0:
            raise ValueError(f"RandomSampler: num_samples must be an integer above 0, got {self.num_samples}")

    @property
    def num_samples(self) -> int:
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        n, count = len(self.data_source), self.num_samples
        generator = random.Generator().manual_seed(draw_seed(None)) if self.generator is None else self.generator
        if self.replacement:
            for _ in range(count // 32):
                yield from generator.integers(0, n, (32,)).tolist()
            yield from generator.integers(0, n, (count % 32,)).tolist()
        else:
            for _ in range(count // n):
                yield from generator.permutation(n).tolist()
            yield from generator.permutation(n).tolist()[: count % n]

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """The given indices in random order."""

    def __init__(self, indices: Sequence[int], generator: random.Generator | None = None):
        self.indices, self.generator = indices, generator

    def __iter__(self) -> Iterator[int]:
        generator = random.or_default(self.generator)
        return (self.indices[i] for i in generator.permutation(len(self.indices)).tolist())

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """num_samples indices, each drawn with a probability in proportion to its weight."""

    def __init__(
        self,
        weights: Sequence[float] | Tensor,
        num_samples: int,
        replacement: bool = True,
        generator: random.Generator | None = None,
    ):
        if num_samples <= 0:
            raise ValueError(f"WeightedRandomSampler: num_samples must be above 0, got {num_samples}")
        self.weights = np.asarray(weights, np.float64)
        if self.weights.ndim != 1:
            raise ValueError(f"WeightedRandomSampler: weights must be one-dimensional, got shape {self.weights.shape}")
        self.num_samples, self.replacement, self.generator = num_samples, replacement, generator

    def __iter__(self) -> Iterator[int]:
        generator = random.or_default(self.generator)
        return iter(generator.multinomial(self.weights[None], self.num_samples, self.replacement)[0].tolist())

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Lists of batch_size indices of another sampler; the last may be shorter, or is left out with drop_last.

    >>> list(BatchSampler(range(5), batch_size=2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool):
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise ValueError(f"batch_size must be an integer above 0, got {batch_size!r}")
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last must be True or False, got {drop_last!r}")
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while batch := list(itertools.islice(indices, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        count, rest = divmod(len(self.sampler), self.batch_size)  # type: ignore[arg-type]
        return count + (rest > 0 and not self.drop_last)

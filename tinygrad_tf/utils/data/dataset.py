"""Datasets: items by number (Dataset) or one after the other (IterableDataset), and what is made of others."""

from __future__ import annotations

import bisect
import itertools
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from tinygrad_tf import random
from tinygrad_tf.tensor import Tensor

Item = TypeVar("Item", covariant=True)


class Dataset(Generic[Item]):
    """Items by number: define __getitem__(index) and __len__()."""

    def __getitem__(self, index: Any) -> Item:
        raise NotImplementedError(f"{type(self).__name__} must define __getitem__(index)")

    def __add__(self, other: Dataset[Any]) -> ConcatDataset[Any]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[Item]):
    """Items one after the other: define __iter__(). With workers, each iterates; get_worker_info() says which it is."""

    def __iter__(self) -> Iterator[Item]:
        raise NotImplementedError(f"{type(self).__name__} must define __iter__()")

    def __add__(self, other: Dataset[Any]) -> Any:
        return ChainDataset([self, other])  # type: ignore[list-item]


class ChainDataset(IterableDataset[Any]):
    """The items of one IterableDataset after those of another; `a + b` makes one.

    >>> class Count(IterableDataset):
    ...     def __iter__(self):
    ...         return iter(range(2))
    >>> list(Count() + Count())
    [0, 1, 0, 1]
    """

    def __init__(self, datasets: Iterable[IterableDataset[Any]]):
        self.datasets = datasets

    def __iter__(self) -> Iterator[Any]:
        return itertools.chain.from_iterable(self.datasets)

    def __len__(self) -> int:
        return sum(map(len, self.datasets))  # type: ignore[arg-type]


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Item i is the tuple of the i-th rows of all tensors.

    >>> from tinygrad_tf import tensor
    >>> TensorDataset(tensor([1, 2]), tensor([3, 4]))[1]
    (tensor(2), tensor(4))
    """

    def __init__(self, *tensors: Tensor):
        if len({t.shape[0] for t in tensors}) > 1:
            raise AssertionError(
                f"TensorDataset: tensors must have the same length, got {[t.shape[0] for t in tensors]}"
            )
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple([t[index] for t in self.tensors])

    def __len__(self) -> int:
        return len(self.tensors[0]) if self.tensors else 0


class StackDataset(Dataset[Item]):
    """Item i is the tuple, or with names the dictionary, of the i-th items of several datasets.

    >>> StackDataset(image=["a", "b"], label=[0, 1])[1]
    {'image': 'b', 'label': 1}
    """

    def __init__(self, *datasets: Any, **named: Any):
        if bool(datasets) == bool(named):
            raise ValueError("StackDataset: give datasets, either all by position or all by name")
        self.datasets: Any = named or datasets
        lengths = [len(dataset) for dataset in named.values() or datasets]
        if len(set(lengths)) > 1:
            raise ValueError(f"StackDataset: datasets must have the same length, got {lengths}")

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {name: dataset[index] for name, dataset in self.datasets.items()}
        return tuple(dataset[index] for dataset in self.datasets)

    def __len__(self) -> int:
        return len(next(iter(self.datasets.values())) if isinstance(self.datasets, dict) else self.datasets[0])


class Subset(Dataset[Item]):
    """The items of a dataset at the given indices."""

    def __init__(self, dataset: Dataset[Item], indices: Sequence[int]):
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, list):
            return [self.dataset[self.indices[i]] for i in index]
        return self.dataset[self.indices[index]]

    def __len__(self) -> int:
        return len(self.indices)


class ConcatDataset(Dataset[Item]):
    """The items of one dataset after those of another."""

    def __init__(self, datasets: Iterable[Dataset[Any]]):
        self.datasets: list[Any] = list(datasets)
        if not self.datasets:
            raise ValueError("ConcatDataset: needs at least one dataset")
        self.cumulative_sizes = list(itertools.accumulate(len(d) for d in self.datasets))

    def __getitem__(self, index: int) -> Any:
        if not -len(self) <= index < len(self):
            raise IndexError(f"ConcatDataset has {len(self)} items, got index {index}")
        index %= len(self)
        which = bisect.bisect_right(self.cumulative_sizes, index)
        return self.datasets[which][index - (self.cumulative_sizes[which - 1] if which else 0)]

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]


def random_split(
    dataset: Any, lengths: Sequence[int | float], generator: random.Generator | None = None
) -> list[Subset[Any]]:
    """Disjoint random subsets of the given lengths, or of the given shares of 1.

    >>> from tinygrad_tf import manual_seed
    >>> _ = manual_seed(0)
    >>> [len(part) for part in random_split(range(10), [0.75, 0.25])]
    [8, 2]
    """
    total = len(dataset)
    sizes = list(lengths)
    if math.isclose(sum(sizes), 1.0) and sum(sizes) <= 1.0:
        if not all(0.0 <= share <= 1.0 for share in sizes):
            raise ValueError(f"random_split: shares must be in [0, 1], got {sizes}")
        sizes = [math.floor(total * share) for share in sizes]
        for i in range(int(total - sum(sizes))):  # what rounding left over goes to the first ones
            sizes[i % len(sizes)] += 1
        if 0 in sizes:
            warnings.warn(f"random_split: part {sizes.index(0)} is empty", stacklevel=2)
    if sum(sizes) != total:
        raise ValueError(f"random_split: lengths {sizes} must add up to {total}, the length of the dataset")
    order = random.or_default(generator).permutation(total).tolist()
    ends = itertools.accumulate(int(size) for size in sizes)
    return [Subset(dataset, order[end - int(size) : end]) for end, size in zip(ends, sizes, strict=True)]

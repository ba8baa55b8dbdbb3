"""Datasets, samplers and the DataLoader: PyTorch's order for the same seed, threads as workers, errors in place."""

from __future__ import annotations

import itertools
import threading
import time
from collections import namedtuple
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tinygrad_tf as tg
from tinygrad_tf.utils import data


@pytest.fixture(scope="module")
def torch() -> ModuleType:
    pytest.importorskip("torch.utils.data")
    return pytest.importorskip("torch")


def flat(batches: Any) -> list[Any]:
    return [batch.tolist() for batch in batches]


def test_shuffles_as_pytorch_does(torch: ModuleType) -> None:
    found = []
    for t in (torch, tg):
        t.manual_seed(5)
        d = t.utils.data
        numbers = t.arange(70)
        sampler = d.RandomSampler(numbers, replacement=True, num_samples=40)
        own = t.Generator().manual_seed(1)
        found.append(
            [
                flat(d.DataLoader(numbers, batch_size=8, shuffle=True)),
                flat(d.DataLoader(numbers, batch_size=8, sampler=sampler)),
                flat(d.DataLoader(numbers, batch_size=30, shuffle=True, generator=own, drop_last=True)),
                list(d.RandomSampler(range(5), num_samples=12)),
                list(d.SubsetRandomSampler([3, 1, 4, 1])),
                [list(part.indices) for part in d.random_split(range(10), [0.5, 0.3, 0.2])],
                list(d.WeightedRandomSampler([0.1, 0.0, 5.0, 1.0], 6)),
                t.rand(2).tolist(),  # as many random numbers were drawn
            ]
        )
    assert found[0] == found[1]


def test_a_sampler_of_ten_thousand_million_is_lazy() -> None:
    sampler = data.RandomSampler(range(10), replacement=True, num_samples=int(1e10))
    loader = data.DataLoader(tg.arange(10), batch_size=4, sampler=sampler, num_workers=2)
    assert len(list(itertools.islice(loader, 3))) == 3 and len(sampler) == 10**10


Point = namedtuple("Point", "x label")


def test_items_become_batches_as_in_pytorch(torch: ModuleType) -> None:
    items = [
        {"p": Point(np.float32(i) * np.ones(2, np.float32), f"n{i}"), "n": (i, i / 2), "on": i > 1} for i in range(3)
    ]
    wanted, got = torch.utils.data.default_collate(items), data.default_collate(items)
    assert type(got["p"]) is Point and got["p"].label == wanted["p"].label
    for a, b in (
        (got["p"].x, wanted["p"].x),
        (got["n"][0], wanted["n"][0]),
        (got["n"][1], wanted["n"][1]),
        (got["on"], wanted["on"]),
    ):
        assert a.tolist() == b.tolist() and str(a.dtype) == str(b.dtype)
    with pytest.raises(TypeError, match="object; give the DataLoader a collate_fn"):
        data.default_collate([object()])


class Slow(data.Dataset[int]):
    def __init__(self) -> None:
        self.threads: set[str] = set()

    def __getitem__(self, index: int) -> int:
        if index == 13:
            raise LookupError("item 13 is bad")
        info = data.get_worker_info()
        self.threads.add("main" if info is None else f"{info.id} of {info.num_workers}")
        time.sleep(0.001 * (index % 3))
        return index

    def __len__(self) -> int:
        return 13


@pytest.mark.parametrize("workers", [0, 2])
def test_random_numbers_between_the_loader_and_its_first_batch(torch: ModuleType, workers: int) -> None:
    """As where a model is made after `batches = iter(loader)`: workers have their first indices by then."""
    found = []
    for t in (torch, tg):
        t.manual_seed(1)
        batches = iter(
            t.utils.data.DataLoader(t.utils.data.TensorDataset(t.arange(9)), shuffle=True, num_workers=workers)
        )
        found.append([t.rand(2).tolist(), [batch[0].item() for batch in batches], t.rand(2).tolist()])
    assert found[0] == found[1]


def test_workers_are_threads_that_keep_the_order() -> None:
    started: list[int] = []
    dataset = Slow()
    loader = data.DataLoader(dataset, batch_size=2, num_workers=3, worker_init_fn=started.append)
    assert flat(loader) == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9], [10, 11], [12]]
    assert dataset.threads == {"0 of 3", "1 of 3", "2 of 3"} and sorted(started) == [0, 1, 2]
    assert data.get_worker_info() is None


def test_an_error_in_a_worker_comes_where_its_batch_would() -> None:
    loader = data.DataLoader(Slow(), batch_sampler=[[0], [1], [13], [2]], num_workers=2)
    batches = iter(loader)
    assert next(batches).tolist() == [0] and next(batches).tolist() == [1]
    with pytest.raises(LookupError, match="item 13 is bad"):
        next(batches)


def test_threads_end_when_the_loop_is_left() -> None:
    before = threading.active_count()
    for _ in data.DataLoader(Slow(), num_workers=4):
        break
    for _ in range(100):
        if threading.active_count() <= before:
            return
        time.sleep(0.02)
    raise AssertionError("worker threads are still there")


class Count(data.IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        info = data.get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        return iter(range(first, 10, step))


def test_iterable_datasets() -> None:
    assert flat(data.DataLoader(Count(), batch_size=4)) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert flat(data.DataLoader(Count(), batch_size=2, num_workers=2)) == [[0, 2], [1, 3], [4, 6], [5, 7], [8], [9]]
    assert list(data.DataLoader(Count(), batch_size=None)) == list(range(10))


def test_what_they_hold_can_be_written_in_hints() -> None:
    for kind in ("DataLoader", "Dataset", "IterableDataset", "Subset", "ConcatDataset", "StackDataset", "Sampler"):
        assert getattr(data, kind)[int].__args__ == (int,)


def test_datasets_made_of_others() -> None:
    both = data.TensorDataset(tg.arange(3), tg.arange(3) * 2) + data.TensorDataset(tg.arange(2), tg.arange(2))
    assert len(both) == 5 and both[2][1].item() == 4 and both[-1][1].item() == 1
    assert data.Subset(range(10), [3, 5])[1] == 5
    assert len(data.DataLoader(range(5), batch_size=2)) == 3 and len(data.DataLoader(range(5), 2, drop_last=True)) == 2


def test_items_without_batches_and_stacked_and_chained_datasets_are_pytorchs(torch: ModuleType) -> None:
    Pair = namedtuple("Pair", "x y")
    items = [np.float32(2), np.array("a"), (1, "x"), Pair(np.ones(2), 3), {"k": [np.zeros(1)]}, None]

    def shown(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: shown(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value).__name__, [shown(item) for item in value]
        return (str(value.dtype), value.tolist()) if hasattr(value, "tolist") else value

    def everything(module: Any) -> Any:
        class Numbers(module.IterableDataset):  # type: ignore[misc, name-defined]
            def __iter__(self) -> Iterator[int]:
                return iter(range(3))

            def __len__(self) -> int:
                return 3

        chained = Numbers() + Numbers()
        loader = module.DataLoader(range(3), batch_size=2)
        return [
            *map(shown, module.DataLoader(items, batch_size=None)),
            *(flat(module.DataLoader(chained, batch_size=2)), len(chained)),
            *(module.StackDataset("ab", [1, 2])[1], module.StackDataset(a="ab", b=[1, 2])[0]),
            *(loader.persistent_workers, loader.multiprocessing_context, loader.pin_memory_device, loader.in_order),
        ]

    assert everything(data) == everything(torch.utils.data)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: data.DataLoader(range(3), shuffle=True, sampler=[1]), "sampler or shuffle"),
        (lambda: data.DataLoader(range(3), batch_size=0), "batch_size.*0"),
        (lambda: data.DataLoader(range(3), num_workers=-1), "num_workers.*-1"),
        (lambda: data.DataLoader(range(3), batch_sampler=[[0]], batch_size=2), "batch_sampler excludes"),
        (lambda: data.DataLoader(Count(), shuffle=True), "own order"),
        (lambda: data.DataLoader([], shuffle=True), "num_samples.*0"),
        (
            lambda: data.DataLoader(range(3), num_workers=1, prefetch_factor=0),
            "prefetch_factor.*got 0",
        ),
        (lambda: setattr(data.DataLoader(range(3)), "batch_size", 2), "batch_size cannot be set later"),
        (lambda: data.BatchSampler(range(3), 2, "no"), "drop_last must be True or False, got 'no'"),
        (lambda: data.StackDataset([1], [1, 2]), r"\[1, 2\]"),
        (lambda: data.StackDataset(), "either all by position or all by name"),
        (lambda: data.random_split(range(5), [2, 2]), r"\[2, 2\].*5"),
    ],
)
def test_misuse_is_told(make: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()

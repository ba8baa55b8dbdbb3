"""DataLoader: batches of a dataset, in an order, put together; with workers, by threads that work ahead."""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple

import numpy as np

from tinygrad_tf import random
from tinygrad_tf.creation import tensor
from tinygrad_tf.engine import make
from tinygrad_tf.ops.shape import stack
from tinygrad_tf.tensor import Tensor
from tinygrad_tf.utils.data.dataset import Item, IterableDataset
from tinygrad_tf.utils.data.sampler import BatchSampler, RandomSampler, SequentialSampler, draw_seed

if TYPE_CHECKING:
    from concurrent.futures import Future


class WorkerInfo(NamedTuple):
    """Which of how many workers a thread is, its seed, and the dataset (which all workers share)."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


_worker = threading.local()


def get_worker_info() -> WorkerInfo | None:
    """In a worker, which one it is; None elsewhere."""
    return getattr(_worker, "info", None)


def default_collate(batch: Sequence[Any]) -> Any:
    """A list of items as one batch: numbers and tensors are stacked, within tuples, lists and dictionaries, too.

    >>> default_collate([(1, "a"), (2, "b")])
    [tensor([1, 2]), ('a', 'b')]
    """
    first = batch[0]
    if isinstance(first, Tensor):
        return stack(list(batch), 0)
    if isinstance(first, (np.ndarray, np.generic)):
        return make(np.stack([np.asarray(item) for item in batch]))
    if isinstance(first, float):
        return tensor(list(batch), dtype=np.float64)
    if isinstance(first, int):
        return tensor(list(batch))
    if isinstance(first, (str, bytes)):
        return list(batch)
    if isinstance(first, Mapping):
        return {key: default_collate([item[key] for item in batch]) for key in first}
    if isinstance(first, (tuple, list)):
        if any(len(item) != len(first) for item in batch):
            raise RuntimeError(f"default_collate: items must have equal lengths, got {[len(item) for item in batch]}")
        columns = [_columns(column) for column in zip(*batch, strict=True)]
        return type(first)(*columns) if hasattr(first, "_fields") else columns
    raise TypeError(
        "default_collate: items must be tensors, arrays, numbers, strings, dictionaries or lists of these, "
        f"got {type(first).__name__}; give the DataLoader a collate_fn"
    )


def _columns(column: tuple[Any, ...]) -> Any:
    return column if isinstance(column[0], (str, bytes)) else default_collate(column)


def default_convert(data: Any) -> Any:
    """What a loader without batches makes of an item: arrays and NumPy's numbers become tensors, tuples lists.

    >>> default_convert((np.float32(2), "a", {"x": np.zeros(2)}))
    [tensor(2.), 'a', {'x': tensor([0., 0.], dtype=torch.float64)}]
    """
    if isinstance(data, (np.ndarray, np.generic)):
        return data if np.asarray(data).dtype.kind in "SUOV" else make(np.asarray(data))
    if isinstance(data, Mapping):
        return {key: default_convert(value) for key, value in data.items()}
    if isinstance(data, (tuple, list)):
        items = [default_convert(item) for item in data]
        return type(data)(*items) if hasattr(data, "_fields") else items
    return data


FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")


class DataLoader(Generic[Item]):
    """Iterate over a dataset in batches.

    num_workers threads fetch batches ahead of use (prefetch_factor each), in order; they share the dataset, where
    PyTorch's are processes with a copy each. pin_memory, multiprocessing_context, persistent_workers and
    pin_memory_device concern GPUs and processes and change nothing. An error in a worker is raised where its batch
    would have come.

    >>> from tinygrad_tf import arange
    >>> for batch in DataLoader(arange(5), batch_size=2):
    ...     print(batch)
    tensor([0, 1])
    tensor([2, 3])
    tensor([4])
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Any = None,
        batch_sampler: Any = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0.0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: random.Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ):
        iterable = isinstance(dataset, IterableDataset)
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        _check_order(iterable, batch_size, shuffle, sampler, batch_sampler, drop_last)
        self.dataset, self.num_workers, self.generator, self.timeout = dataset, num_workers, generator, timeout
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.worker_init_fn, self.drop_last, self.pin_memory = worker_init_fn, drop_last, pin_memory
        self.batch_size = None if batch_sampler is not None else batch_size
        if sampler is None and not iterable:
            sampler = RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)
        if batch_size is not None and batch_sampler is None and not iterable:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.sampler, self.batch_sampler = sampler, batch_sampler
        in_batches = batch_sampler is not None or batch_size is not None
        self.collate_fn: Callable[[Any], Any] = collate_fn or (default_collate if in_batches else default_convert)
        self.persistent_workers, self.pin_memory_device = persistent_workers, pin_memory_device
        self.multiprocessing_context, self.in_order = multiprocessing_context, in_order
        self._made = True

    def __setattr__(self, name: str, value: Any) -> None:
        if name in FIXED and hasattr(self, "_made"):
            raise ValueError(f"DataLoader: {name} cannot be set later, as samplers are made of it; make another loader")
        super().__setattr__(name, value)

    def __len__(self) -> int:
        if isinstance(self.dataset, IterableDataset):
            items = range(len(self.dataset))  # type: ignore[arg-type]
            return len(items) if self.batch_size is None else len(BatchSampler(items, self.batch_size, self.drop_last))
        return len(self.sampler if self.batch_sampler is None else self.batch_sampler)

    def __iter__(self) -> Iterator[Any]:
        seed = draw_seed(self.generator)  # drawn in any case, so that later random numbers are those of PyTorch
        if not self.num_workers:
            return (fetch() for fetch in self._fetches())
        tasks = self._tasks()
        ready = list(itertools.islice(tasks, self._ahead()))  # now, as the sampler's random numbers are PyTorch's
        return self._with_workers(seed, itertools.chain(ready, tasks))

    def _ahead(self) -> int:
        """How many batches may wait for the workers or be waited for."""
        return self.num_workers * (self.prefetch_factor or 1)

    def _fetches(self) -> Iterator[Callable[[], Any]]:
        """A function for each batch that gets it."""
        if isinstance(self.dataset, IterableDataset):
            yield from _until_empty(self._next_batch(iter(self.dataset)))
            return
        for indices in self.sampler if self.batch_sampler is None else self.batch_sampler:
            yield lambda indices=indices: self._fetch(indices)  # type: ignore[misc]

    def _fetch(self, indices: Any) -> Any:
        if self.batch_sampler is None:
            return self.collate_fn(self.dataset[indices])
        if hasattr(self.dataset, "__getitems__"):
            return self.collate_fn(self.dataset.__getitems__(indices))
        return self.collate_fn([self.dataset[i] for i in indices])

    def _next_batch(self, items: Iterator[Any]) -> Iterator[Any]:
        """The batches of an IterableDataset."""
        if self.batch_size is None:
            yield from map(self.collate_fn, items)
            return
        yield from map(self.collate_fn, BatchSampler(items, self.batch_size, self.drop_last))

    # --- workers --------------------------------------------------------------------------------------------------

    def _with_workers(self, seed: int, tasks: Iterator[tuple[int, Callable[[], Any]]]) -> Iterator[Any]:
        """Batch i comes from thread i mod num_workers, each thread with its own queue, so that the order is kept."""
        from concurrent.futures import ThreadPoolExecutor  # here, as few programs have workers

        threads = [ThreadPoolExecutor(1, "DataLoader", self._start_worker, (i, seed)) for i in range(self.num_workers)]
        waiting: deque[Future[Any]] = deque()
        try:
            for worker, fetch in tasks:
                waiting.append(threads[worker].submit(fetch))
                if len(waiting) >= self._ahead():
                    yield from self._results(waiting.popleft())
            while waiting:
                yield from self._results(waiting.popleft())
        finally:
            for thread in threads:
                thread.shutdown(wait=False, cancel_futures=True)

    def _start_worker(self, number: int, seed: int) -> None:
        _worker.info = WorkerInfo(number, self.num_workers, (seed + number) % 2**63, self.dataset)
        if self.worker_init_fn is not None:
            self.worker_init_fn(number)

    def _tasks(self) -> Iterator[tuple[int, Callable[[], Any]]]:
        """(worker, function) for each batch."""
        if not isinstance(self.dataset, IterableDataset):
            yield from ((i % self.num_workers, fetch) for i, fetch in enumerate(self._fetches()))
            return
        streams = {worker: _Stream(lambda: self._next_batch(iter(self.dataset))) for worker in range(self.num_workers)}
        while streams:
            for worker, stream in list(streams.items()):
                if stream.ended:
                    del streams[worker]
                else:
                    yield worker, stream.next

    def _results(self, future: Future[Any]) -> Iterator[Any]:
        try:
            value = future.result(self.timeout or None)
        except TimeoutError:
            raise RuntimeError(f"DataLoader: no batch came within timeout = {self.timeout} seconds") from None
        if value is not _END:
            yield value


def _check_workers(num_workers: Any, timeout: float, prefetch_factor: int | None, persistent_workers: bool) -> None:
    if not isinstance(num_workers, int):
        raise TypeError(f"DataLoader: num_workers must be an integer, got {num_workers!r}")
    if num_workers < 0 or timeout < 0:
        raise ValueError(f"DataLoader: num_workers and timeout must not be negative, got {num_workers}, {timeout}")
    if num_workers == 0 and (prefetch_factor is not None or persistent_workers):
        raise ValueError("DataLoader: prefetch_factor and persistent_workers need num_workers above 0")
    if prefetch_factor is not None and prefetch_factor < 1:
        raise ValueError(f"DataLoader: prefetch_factor must be at least 1, got {prefetch_factor}")


def _check_order(
    iterable: bool, batch_size: int | None, shuffle: bool | None, sampler: Any, batch_sampler: Any, drop_last: bool
) -> None:
    """Refuse two answers to the question what comes next."""
    if iterable and (shuffle or sampler is not None or batch_sampler is not None):
        raise ValueError("DataLoader: an IterableDataset has its own order; leave out shuffle and samplers")
    if sampler is not None and shuffle:
        raise ValueError("DataLoader: give a sampler or shuffle=True, not both")
    if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
        raise ValueError("DataLoader: batch_sampler excludes batch_size, shuffle, sampler and drop_last")
    if batch_size is None and drop_last:
        raise ValueError("DataLoader: drop_last needs a batch_size")


_END = object()


class _Stream:
    """The batches of an IterableDataset in one worker; made in the worker, so that it knows which one it is."""

    def __init__(self, begin: Callable[[], Iterator[Any]]):
        self.begin, self.batches, self.ended = begin, None, False

    def next(self) -> Any:
        if self.batches is None:
            self.batches = self.begin()  # type: ignore[assignment]
        value = next(self.batches, _END)  # type: ignore[call-overload]
        self.ended = value is _END
        return value


def _until_empty(batches: Iterable[Any]) -> Iterator[Callable[[], Any]]:
    for batch in batches:
        yield lambda batch=batch: batch  # type: ignore[misc]

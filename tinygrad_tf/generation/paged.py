"""A cache in blocks of fixed size that sequences share (Kwon et al., 2023, "PagedAttention", sections 4.1 to 4.4).

A sequence is a list of block numbers, its block table. Blocks need not lie side by side, so memory grows by one block
at a time and nothing is moved. Two sequences that begin alike, the beams of a search above all, have the same blocks in
their tables; only who writes into a shared block copies it first.

Shapes: B sequences, H key heads, T new tokens, D channels of a head.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tinygrad_tf.engine import make
from tinygrad_tf.generation.cache import check_update
from tinygrad_tf.tensor import Tensor
from tinygrad_tf.utils.errors import InputError


class BlockPool:
    """Blocks of `size` tokens, numbered; each counts the tables that it stands in, and is free at 0.

    >>> pool = BlockPool(size=4)
    >>> block = pool.take()
    >>> pool.share(block)
    >>> pool.references
    [2]
    """

    def __init__(self, size: int):
        self.size = size
        self.references: list[int] = []
        self.free: list[int] = []
        self.keys: NDArray | None = None  # (blocks, H, size, D)
        self.values: NDArray | None = None

    def hold(self, key: NDArray, value: NDArray) -> None:
        """Take the number of heads, the channels and the dtype from the first keys and values (B, H, T, D)."""
        if self.keys is None:
            self.keys, self.values = (np.zeros((0, x.shape[1], self.size, x.shape[3]), x.dtype) for x in (key, value))

    def take(self) -> int:
        """The number of a block of zeros, in one table from now on; the lowest of those that are free."""
        if not self.free:
            self._grow()
        block = min(self.free)
        self.free.remove(block)
        self.references[block] = 1
        for memory in (self.keys, self.values):
            if memory is not None:
                memory[block] = 0
        return block

    def share(self, block: int) -> None:
        self.references[block] += 1

    def release(self, block: int) -> None:
        self.references[block] -= 1
        if not self.references[block]:
            self.free.append(block)

    def own(self, block: int) -> int:
        """A block with the same content that stands in one table only: itself, or a copy (copy on write)."""
        if self.references[block] == 1:
            return block
        copy = self.take()
        for memory in (self.keys, self.values):
            if memory is not None:
                memory[copy] = memory[block]
        self.release(block)
        return copy

    def _grow(self) -> None:
        """Twice as many blocks."""
        old = len(self.references)
        new = max(1, old)
        self.references += [0] * new
        self.free += range(old, old + new)
        self.keys, self.values = (
            None if m is None else np.concatenate([m, np.zeros((old + new - len(m), *m.shape[1:]), m.dtype)])
            for m in (self.keys, self.values)
        )


class PagedCache:
    """Keeps everything, in blocks of `block_size` tokens. `select` with repetitions shares blocks instead of copying.

    `tables[b]` lists the blocks of sequence b, `pool.references` counts how often each is used; printed, a cache shows
    both. Reading gathers the blocks, a copy of all keys: sharing saves memory, not time.

    >>> from tinygrad_tf import zeros
    >>> cache = PagedCache(block_size=4)
    >>> _ = cache.update(zeros(1, 2, 6, 8), zeros(1, 2, 6, 8))  # a prompt of 6 tokens
    >>> cache.select([0, 0])  # two beams of it
    >>> _ = cache.update(zeros(2, 2, 1, 8), zeros(2, 2, 1, 8))  # each writes its seventh token
    >>> print(cache)
    PagedCache of 7 tokens in blocks of 4; 3 blocks in use, 1 free
      sequence 0: 0* 2
      sequence 1: 0* 1
      (* shared)
    """

    window = None

    def __init__(self, block_size: int = 16):
        if block_size < 1:
            raise InputError(f"PagedCache: block_size must be at least 1 token, got {block_size}")
        self.pool = BlockPool(block_size)
        self.tables: list[list[int]] = []
        self.offset = 0

    @property
    def block_size(self) -> int:
        return self.pool.size

    def width(self, tokens: int) -> int:
        return self.offset + tokens

    def update(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        new_keys, new_values = check_update(key, value, None, None)
        B, _, T, _ = new_keys.shape
        if self.offset == 0 and not self.tables:
            self.tables = [[] for _ in range(B)]
        self._check(new_keys, new_values)
        self.pool.hold(new_keys, new_values)
        for row in range(B):
            self._write(self.tables[row], new_keys[row], new_values[row])
        self.offset += T
        return make(self._read(self.pool.keys)), make(self._read(self.pool.values))

    def _write(self, table: list[int], keys: NDArray, values: NDArray) -> None:
        """Append keys and values (H, T, D) of one sequence, block by block."""
        done, T, size = 0, keys.shape[1], self.block_size
        while done < T:
            index, start = divmod(self.offset + done, size)
            if index == len(table):
                table.append(self.pool.take())
            table[index] = block = self.pool.own(table[index])
            count = min(size - start, T - done)
            assert self.pool.keys is not None and self.pool.values is not None
            self.pool.keys[block, :, start : start + count] = keys[:, done : done + count]
            self.pool.values[block, :, start : start + count] = values[:, done : done + count]
            done += count

    def _read(self, memory: NDArray | None) -> NDArray:
        """The blocks of each table in order, as (B, H, offset, D)."""
        assert memory is not None
        _, H, size, D = memory.shape
        tables = np.array(self.tables, np.intp).reshape(len(self.tables), -1)
        blocks = memory[tables].swapaxes(1, 2)  # (B, H, blocks, size, D)
        return blocks.reshape(len(tables), H, tables.shape[1] * size, D)[:, :, : self.offset]

    def select(self, rows: Sequence[int]) -> None:
        chosen = [list(self.tables[row]) for row in rows]
        for block in (block for table in chosen for block in table):
            self.pool.share(block)
        for block in (block for table in self.tables for block in table):
            self.pool.release(block)
        self.tables = chosen

    def _check(self, key: NDArray, value: NDArray) -> None:
        if key.shape[0] != len(self.tables):
            raise ValueError(
                f"this cache holds {len(self.tables)} sequences, got keys of {key.shape[0]}; use fresh caches"
            )
        for name, new, old in (("keys", key, self.pool.keys), ("values", value, self.pool.values)):
            if old is not None and (new.shape[1], new.shape[3], new.dtype) != (old.shape[1], old.shape[3], old.dtype):
                raise ValueError(
                    f"this cache holds {name} with (H, D) = {(old.shape[1], old.shape[3])} of {old.dtype}, "
                    f"got {(new.shape[1], new.shape[3])} of {new.dtype}; use fresh caches for another model"
                )

    def __repr__(self) -> str:
        free = len(self.pool.free)
        used = len(self.pool.references) - free
        lines = [
            f"PagedCache of {self.offset} tokens in blocks of {self.block_size}; {used} blocks in use, {free} free"
        ]
        shared = {block for block, count in enumerate(self.pool.references) if count > 1}
        for row, table in enumerate(self.tables):
            blocks = " ".join(f"{block}*" if block in shared else str(block) for block in table)
            lines.append(f"  sequence {row}: {blocks}")
        return "\n".join([*lines, "  (* shared)"] if shared else lines)

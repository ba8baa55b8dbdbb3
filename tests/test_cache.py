"""Caches: with them and without, the same logits at every position, for every kind of positions and attention."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tinygrad_tf import manual_seed, nn, no_grad, ones, tensor, zeros
from tinygrad_tf.engine import make
from tinygrad_tf.generation import BlockPool, GrowingCache, PagedCache, WindowCache
from tinygrad_tf.models import GPT, GPTConfig, Transformer, TransformerConfig
from tinygrad_tf.nn.position import POSITIONS
from tinygrad_tf.utils.errors import InputError

CHUNKS = {"at once": [8], "one by one": [1] * 8, "in chunks": [3, 1, 4]}
MAKERS = {
    "growing": GrowingCache,
    "paged by 1": lambda: PagedCache(1),
    "paged by 3": lambda: PagedCache(3),
    "window that is wide enough": lambda: WindowCache(8),
}


def small_gpt(**changes):
    manual_seed(0)
    settings = {"vocab_size": 11, "context": 16, "layers": 2, "heads": 4, "channels": 16, **changes}
    model = GPT(GPTConfig(**settings)).eval()
    for parameter in model.parameters():
        parameter.array[...] *= 8.0  # far from uniform attention, so that a wrong mask or position shows
    return model


def some_ids(batch=2, length=8, seed=0):
    return np.random.default_rng(seed).integers(0, 11, (batch, length))


def in_chunks(model, ids, caches, sizes):
    stops = np.cumsum(sizes)
    with no_grad():
        parts = [
            model(tensor(ids[:, stop - n : stop]), cache=caches).array for n, stop in zip(sizes, stops, strict=True)
        ]
    return np.concatenate(parts, 1)


def without_cache(model, ids):
    with no_grad():
        return model(tensor(ids)).array


def near(a, b):
    return np.abs(a - b).max() <= 1e-5 * max(1.0, np.abs(b).max())


# --- equal to the model without a cache -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("positions", POSITIONS)
def test_equal_at_every_position_for_every_encoding_and_chunking(kind, positions):
    model = small_gpt(positions=positions)
    ids = some_ids()
    wanted = without_cache(model, ids)
    for name, sizes in CHUNKS.items():
        assert near(in_chunks(model, ids, [MAKERS[kind]() for _ in range(2)], sizes), wanted), name


@pytest.mark.parametrize("changes", [{"kv_heads": 2}, {"kv_heads": 1, "positions": "rope", "norm": "rms"}])
@pytest.mark.parametrize("kind", MAKERS)
def test_equal_with_grouped_queries(kind, changes):
    model = small_gpt(**changes)
    for sizes in CHUNKS.values():
        caches = [MAKERS[kind]() for _ in range(2)]
        assert near(in_chunks(model, some_ids(), caches, sizes), without_cache(model, some_ids()))


@pytest.mark.parametrize("attention", ["local", "block_sparse", "linear", "additive"])
def test_equal_with_other_kinds_of_attention(attention):
    model = small_gpt(attention=attention, window=3, block_size=2)
    for kind in ("growing", "paged by 3"):
        for sizes in CHUNKS.values():
            caches = [MAKERS[kind]() for _ in range(2)]
            assert near(in_chunks(model, some_ids(), caches, sizes), without_cache(model, some_ids()))


@pytest.mark.parametrize("positions", ["rope", "alibi", "relative", "learned"])
def test_a_window_cache_is_a_model_that_looks_back_so_far(positions):
    """Local attention is the model without a cache; full attention with a window cache sees the same."""
    local = small_gpt(positions=positions, attention="local", window=3)
    full = small_gpt(positions=positions)
    full.load_state_dict(local.state_dict())
    wanted = without_cache(local, some_ids())
    for sizes in CHUNKS.values():
        for model in (local, full):
            assert near(in_chunks(model, some_ids(), [WindowCache(3), WindowCache(3)], sizes), wanted)
    assert not near(without_cache(full, some_ids()), wanted)


def test_a_second_call_goes_on_where_the_first_ended():
    model, caches = small_gpt(), [GrowingCache(), GrowingCache()]
    first = in_chunks(model, some_ids(), caches, [8])
    more = np.concatenate([some_ids(), some_ids(seed=1)], 1)
    second = in_chunks(model, some_ids(seed=1), caches, [5, 3])
    assert near(np.concatenate([first, second], 1), without_cache(model, more))
    with pytest.raises(ValueError, match="17 tokens is longer than the context of 16"):
        in_chunks(model, some_ids(length=1), caches, [1])


def test_the_decoder_of_a_transformer_takes_caches():
    manual_seed(0)
    sizes = {"d_model": 16, "num_heads": 2, "d_ff": 32, "encoder_layers": 1, "decoder_layers": 2, "max_len": 16}
    model = Transformer(TransformerConfig(vocab_size=11, pad=0, **sizes)).eval()
    source, target = tensor([[5, 6, 7], [8, 9, 0]]), tensor(some_ids(length=6))
    with no_grad():
        wanted = model(source, target).array
        memory = model.decoder.remember(model.encode(source))
        for sizes in ([6], [1] * 6, [2, 1, 3]):
            caches = [PagedCache(2), GrowingCache()]
            parts = [
                model.decode(target[:, stop - n : stop], memory, model.source_mask(source), cache=caches).array
                for n, stop in zip(sizes, np.cumsum(sizes).tolist(), strict=True)
            ]
            assert near(np.concatenate(parts, 1), wanted)


# --- what each cache does with memory ---------------------------------------------------------------------------------


def row(value, batch=1, tokens=1):
    """Keys (B, 2, T, 3) that hold one number."""
    return make(np.full((batch, 2, tokens, 3), value, np.float32))


def numbers(keys):
    return keys.array[:, 0, :, 0].tolist()


def test_growing_doubles():
    cache, capacities = GrowingCache(), []
    for i in range(200):
        keys, values = cache.update(row(i), row(-i))
        capacities.append(cache.capacity)
    assert numbers(keys) == [list(range(200))] and numbers(values) == [[-i for i in range(200)]]
    assert sorted(set(capacities)) == [16, 32, 64, 128, 256]
    assert not cache._keys[:, :, 200:].any() and not cache._values[:, :, 200:].any()


def test_unused_memory_holds_zeros_also_when_it_was_used_before():
    pool = BlockPool(2)
    pool.hold(*(np.ones((1, 1, 1, 1)),) * 2)
    first = pool.take()
    pool.keys[first] = np.nan
    pool.release(first)
    assert pool.take() == first and not pool.keys[first].any()
    assert not np.isnan(WindowCacheMemory().array).any()


class WindowCacheMemory:
    def __init__(self):
        cache = WindowCache(4)
        cache.update(row(1.0), row(1.0))
        self.array = cache._keys
        assert np.count_nonzero(self.array) == 2 * 2 * 3


@pytest.mark.parametrize("window", [1, 2, 3, 5])
def test_the_ring_gives_the_last_ones_in_order(window):
    for sizes in itertools.product([1, 2, 4], repeat=4):
        cache, seen = WindowCache(window), 0
        for n in sizes:
            new = make(np.arange(seen, seen + n, dtype=np.float32).reshape(1, 1, n, 1))
            assert cache.width(n) == min(seen, window - 1) + n
            keys, values = cache.update(new, -new)
            first = max(0, seen - window + 1)
            seen += n
            assert keys.flatten().tolist() == list(range(first, seen))
            assert values.flatten().tolist() == [-i for i in range(first, seen)]
        assert cache.offset == seen and cache._keys.shape[2] == 2 * window


@pytest.mark.parametrize("make_cache", [GrowingCache, lambda: WindowCache(3), lambda: PagedCache(2)])
def test_select_reorders_repeats_and_drops_sequences(make_cache):
    cache = make_cache()
    start = make(np.arange(3, dtype=np.float32)[:, None, None, None] * np.ones((3, 2, 3, 3), np.float32))
    cache.update(start, start)
    cache.select([2, 0, 2])
    keys, _ = cache.update(make(start.array[:, :, :1] + 10), make(start.array[:, :, :1] + 10))
    assert [numbers(keys)[i][-3:] for i in range(3)] == [[2, 2, 10], [0, 0, 11], [2, 2, 12]]
    cache.select([1])
    keys, _ = cache.update(row(7), row(7))
    assert numbers(keys)[0][-3:] == [0, 11, 7]


def test_blocks_are_shared_until_one_writes():
    cache = PagedCache(4)
    cache.update(row(1.0, tokens=6), row(1.0, tokens=6))
    assert cache.tables == [[0, 1]] and cache.pool.references[:2] == [1, 1]
    cache.select([0, 0, 0])
    assert cache.tables == [[0, 1]] * 3 and cache.pool.references[:2] == [3, 3]  # nothing was copied
    new = make(np.arange(3, dtype=np.float32)[:, None, None, None] * np.ones((3, 2, 1, 3), np.float32))
    keys, _ = cache.update(new, new)
    assert [table[0] for table in cache.tables] == [0, 0, 0] and len({table[1] for table in cache.tables}) == 3
    assert numbers(keys) == [[1] * 6 + [i] for i in range(3)]
    assert cache.pool.references == [3, 1, 1, 1]
    cache.select([1])
    assert cache.pool.references[0] == 1 and sorted(cache.pool.free) == sorted(set(range(4)) - set(cache.tables[0]))
    assert str(cache).splitlines()[0] == "PagedCache of 7 tokens in blocks of 4; 2 blocks in use, 2 free"


def test_blocks_that_are_free_are_used_again():
    cache = PagedCache(1)
    cache.update(row(1.0, batch=2, tokens=4), row(1.0, batch=2, tokens=4))
    for i in range(20):
        cache.select([0, 0])  # the second beam ends, the first forks
        keys, _ = cache.update(row(float(i), batch=2), row(float(i), batch=2))
    assert numbers(keys) == [[1] * 4 + list(range(20))] * 2
    in_use = sum(count > 0 for count in cache.pool.references)
    assert in_use == 23 + 2 and len(cache.pool.references) == 32


# --- misuse -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make_cache", [GrowingCache, lambda: WindowCache(3), lambda: PagedCache(2)])
def test_misuse_of_a_cache_is_one_line(make_cache):
    cache = make_cache()
    cache.update(zeros(2, 2, 1, 3), zeros(2, 2, 1, 3))
    for wrong in (zeros(3, 2, 1, 3), zeros(2, 4, 1, 3), zeros(2, 2, 1, 5), zeros(2, 2, 1, 3).double()):
        with pytest.raises(ValueError, match="use fresh caches"):
            cache.update(wrong, wrong)
    with pytest.raises(ValueError, match="same B, H and T"):
        cache.update(zeros(2, 2, 1, 3), zeros(2, 2, 2, 3))
    with pytest.raises(RuntimeError, match="no_grad"):
        cache.update(ones(2, 2, 1, 3, requires_grad=True), zeros(2, 2, 1, 3))
    assert cache.offset == 1


def test_sizes_of_a_cache():
    with pytest.raises(InputError, match="window must be at least 1 token, got 0"):
        WindowCache(0)
    with pytest.raises(InputError, match="block_size must be at least 1 token, got 0"):
        PagedCache(0)


def test_attention_alone_takes_a_cache():
    manual_seed(1)
    attention = nn.MultiHeadAttention(8, 2)
    x = tensor(np.random.default_rng(0).normal(size=(2, 5, 8)).astype(np.float32))
    with no_grad():
        wanted = attention(x, is_causal=True).array
        cache = GrowingCache()
        parts = [attention(x[:, i : i + 1], is_causal=True, cache=cache).array for i in range(5)]
    assert near(np.concatenate(parts, 1), wanted)

"""One token by one call: the kernel against its plain formulas, and models as programs against their forward."""

from __future__ import annotations

import copy
import dataclasses
import functools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as rounds
from hypothesis import strategies as st

import tinygrad_tf as tg
from tinygrad_tf import nn, no_grad, tensor
from tinygrad_tf.generation import ContextNotice, GenerationConfig, GrowingCache, generate_batch, stream
from tinygrad_tf.generation.program import TokenProgram
from tinygrad_tf.generation.readers import Reader
from tinygrad_tf.generation.writing import Unwritable
from tinygrad_tf.kernels import decode
from tinygrad_tf.kernels import instructions as do
from tinygrad_tf.kernels._compile import get_num_threads, set_num_threads
from tinygrad_tf.kernels.instructions import Instruction
from tinygrad_tf.models import GPT, GPTConfig, ModernDecoder, ModernDecoderConfig
from tinygrad_tf.nn.utils import parametrize

FLOATS = [np.float32, np.float64]
GREEDY = GenerationConfig(max_new_tokens=9, temperature=0)


# --- the kernel -------------------------------------------------------------------------------------------------------


def both(
    instructions: list[Instruction], work: np.ndarray, kept: list[np.ndarray], seen: int = 0, T: int = 1
) -> tuple[Any, Any]:
    """What kernel and formulas make of the same workspace and the same keys and values, the new ones included."""
    B = len(work) // T
    ids, padding = np.arange(B * T).reshape(B, T) * 5 % 7, np.arange(B) % (seen + T)
    mine, wanted = ([work.copy(), *copy.deepcopy(kept)] for _ in range(2))
    program = decode.encode(instructions)
    attends = [i for i, one in enumerate(instructions) if one.operation == do.ATTEND]
    for i, keys, values in zip(attends, mine[1::2], mine[2::2], strict=True):
        decode.keep(program, i, keys, values)
    scores = np.full((B * max(1, *(one.heads for one in instructions)), seen + T), np.nan, work.dtype)
    decode.run(program, ids, padding, seen, mine[0], scores)
    decode.reference(instructions, list(zip(wanted[1::2], wanted[2::2], strict=True)), ids, padding, seen, wanted[0])
    return mine, wanted


def assert_equal(
    instructions: list[Instruction], work: np.ndarray, *kept: np.ndarray, seen: int = 0, T: int = 1, units: float = 16
) -> None:
    mine, wanted = both(instructions, work, list(kept), seen, T)
    accuracy = units * np.finfo(work.dtype).eps
    for found, right in zip(mine, wanted, strict=True):
        np.testing.assert_allclose(found, right, rtol=accuracy, atol=accuracy * np.abs(right).max())


def numbers(rng: np.random.Generator, dtype: Any, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(dtype)


@given(
    B=st.integers(1, 10),
    T=st.integers(1, 3),
    last=st.booleans(),
    N=st.integers(1, 70),
    K=st.integers(1, 70),
    dtype=st.sampled_from(FLOATS),
    activation=st.sampled_from(list(decode.ACTIVATIONS)),
    has_bias=st.booleans(),
    adds=st.booleans(),
    seed=st.integers(0, 99),
)
@rounds(max_examples=150, deadline=None)
def test_linear(
    B: int, T: int, last: bool, N: int, K: int, dtype: Any, activation: int, has_bias: bool, adds: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    adds = adds and activation == do.AS_IT_IS
    one = Instruction(
        do.LINEAR, K + 3, 1, N, K, numbers(rng, dtype, N, K), numbers(rng, dtype, N) if has_bias else None,
        option=activation, adds=adds, last=last,
    )  # fmt: skip
    beside = Instruction(do.LINEAR, K + 3 + N, 1, 5, K, numbers(rng, dtype, 5, K), beside=True, last=last)
    assert_equal([one, beside], numbers(rng, dtype, B * T, K + N + 10), T=T)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("B", [1, 6])
def test_linears_of_one_loop_find_their_blocks(B: int, dtype: Any) -> None:
    rng = np.random.default_rng(1)
    sizes = [300, 1, 513, 64]  # several blocks, one, and again several
    starts = np.cumsum([200, *sizes]).tolist()
    program = [
        Instruction(do.LINEAR, at, 0, N, 200, numbers(rng, dtype, N, 200), numbers(rng, dtype, N), beside=i > 0)
        for i, (at, N) in enumerate(zip(starts, sizes, strict=False))
    ]
    assert len(decode.encode(program).groups) == 1 and decode.encode(program).groups[0, 2] > 8
    assert_equal(program, numbers(rng, dtype, B, starts[-1]))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("operation", [do.LAYER_NORM, do.RMS_NORM])
@pytest.mark.parametrize("C", [1, 7, 130])
def test_norms(operation: int, C: int, dtype: Any) -> None:
    rng = np.random.default_rng(2)
    work = numbers(rng, dtype, 3, 2 * C) + 5
    for weight, bias in (
        (None, None),
        (numbers(rng, dtype, C), None),
        (numbers(rng, dtype, C), numbers(rng, dtype, C)),
    ):
        bias = None if operation == do.RMS_NORM else bias
        assert_equal([Instruction(operation, C, 0, C, weight=weight, bias=bias, number=1e-5)], work)


def test_layer_norm_of_numbers_far_from_zero() -> None:
    row = (np.arange(64) % 7 + 1e6).astype(np.float32)
    work = np.stack([np.concatenate([row, row])])
    decode.run(decode.encode([Instruction(do.LAYER_NORM, 64, 0, 64)]), np.array([[0]]), np.array([0]), 0, work, work)
    exact = row.astype(np.float64) - row.astype(np.float64).mean()
    np.testing.assert_allclose(work[0, 64:], exact / np.sqrt((exact**2).mean()), atol=1e-5)


@pytest.mark.parametrize("T, last", [(1, False), (3, False), (3, True)])
@pytest.mark.parametrize("dtype", FLOATS)
def test_what_is_done_to_rows_alone(dtype: Any, T: int, last: bool) -> None:
    rng = np.random.default_rng(3)
    program = [
        Instruction(do.EMBED, 0, 0, 9, weight=numbers(rng, dtype, 7, 9), number=1.5),
        Instruction(do.POSITION, 9, 0, 9, weight=numbers(rng, dtype, 12, 9)),
        Instruction(do.MULTIPLY, 18, 9, 9),
    ]
    program = [one._replace(last=last) for one in program]
    for seen in (12 - T, 0):  # with none seen, the first columns of some texts are none
        assert_equal(program, numbers(rng, dtype, 5 * T, 27), seen=seen, T=T)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("pairs", [do.HALVES, do.NEIGHBOURS])
def test_turning(pairs: int, dtype: Any) -> None:
    rng = np.random.default_rng(4)
    program = [
        Instruction(do.ANGLES, 0, 0, 6, weight=np.array([1.0, 0.3, 0.01])),
        Instruction(do.TURN, 6, 0, 24, 6, option=pairs),
    ]
    assert_equal(program, numbers(rng, dtype, 3 * 2, 30), seen=5, T=2)


@given(
    B=st.integers(1, 5),
    key_heads=st.integers(1, 3),
    group=st.integers(1, 3),
    D=st.integers(1, 40),
    seen=st.integers(0, 40),
    T=st.integers(1, 5),
    slopes=st.booleans(),
    dtype=st.sampled_from(FLOATS),
    seed=st.integers(0, 99),
)
@rounds(max_examples=100, deadline=None)
def test_attention(
    B: int, key_heads: int, group: int, D: int, seen: int, T: int, slopes: bool, dtype: Any, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    H = key_heads * group
    into, width = (H + 2 * key_heads) * D, (2 * H + 2 * key_heads) * D
    weight = np.abs(numbers(rng, dtype, H)) if slopes else None
    one = Instruction(do.ATTEND, into, 0, H * D, D, weight, number=1 / math.sqrt(D), heads=H, key_heads=key_heads)
    kept = [numbers(rng, dtype, B, key_heads, seen + T + 2, D) for _ in range(2)]
    # A score of 100 is rounded by 50 units of one, which its weight is then off by.
    assert_equal([one], numbers(rng, dtype, B * T, width), *kept, seen=seen, T=T, units=500)


def test_slopes_far_from_the_beginning_are_as_exact_as_near_it() -> None:
    """A key's score loses slope times distance; one that gained slope times place would be rounded by 1e-3 here."""
    rng, seen = np.random.default_rng(6), 30000
    work, weight = numbers(rng, np.float32, 1, 16), np.array([0.5], np.float32)
    keys, values = (numbers(rng, np.float32, 1, 1, seen + 1, 4) for _ in range(2))
    one = Instruction(do.ATTEND, 12, 0, 4, 4, weight, number=0.5, heads=1, key_heads=1)
    found, _ = both([one], work, [keys, values], seen)
    exact, _ = both(
        [one._replace(weight=weight.astype(float))],
        work.astype(float),
        [keys.astype(float), values.astype(float)],
        seen,
    )
    np.testing.assert_allclose(found[0], exact[0], atol=2e-6)


def test_attention_to_large_scores_and_nan() -> None:
    one = Instruction(do.ATTEND, 6, 0, 2, 2, number=1.0, heads=1, key_heads=1)
    work = np.array([[300.0, 0, 1, 0, 5, 6, 0, 0], [np.nan, 0, 1, 0, 5, 6, 0, 0]], np.float32)
    keys, values = np.zeros((2, 1, 2, 2), np.float32), np.ones((2, 1, 2, 2), np.float32)
    mine, _ = both([one], work, [keys, values], seen=1)
    assert mine[0][0, 6:].tolist() == [5, 6] and np.isnan(mine[0][1, 6:]).all()


@pytest.fixture
def threads() -> Iterator[None]:
    before = get_num_threads()
    yield
    set_num_threads(before)


@pytest.mark.parametrize("B", [1, 3, 9])
def test_the_same_bits_for_any_number_of_threads(B: int, threads: None) -> None:
    model = seeded(GPT(GPTConfig(vocab_size=50, context=300, layers=2, heads=4, channels=128)))
    found = []
    for count in (1, 2, 4):
        set_num_threads(count)
        found.append(generate_batch(model, [[b] for b in range(B)], GenerationConfig(max_new_tokens=40, temperature=0)))
    assert all((f.tokens == found[0].tokens).all() and (f.log_probs == found[0].log_probs).all() for f in found)


# --- models -----------------------------------------------------------------------------------------------------------


def seeded(model: Any) -> Any:
    """With weights far from where they start, so that every part shows in the logits."""
    rng = np.random.default_rng(0)
    with no_grad():
        for parameter in model.parameters():
            parameter.array[...] += 0.3 * rng.standard_normal(parameter.shape)
    return model


def small(kind: Any = GPT, **settings: Any) -> Any:
    of = {GPT: GPTConfig, ModernDecoder: ModernDecoderConfig}[kind]
    tg.manual_seed(1)
    sizes = {"vocab_size": 11, "context": 16, "layers": 2, "heads": 4, "channels": 24}
    return seeded(kind(of(**{**sizes, **settings})))


WRITTEN: list[dict[str, Any]] = [
    *({"positions": p} for p in ("learned", "sinusoidal", "rope", "alibi", "none")),
    *({"activation": a} for a in ("relu", "gelu", "gelu_tanh", "silu", "swiglu", "geglu")),
    *({"norm": n, "bias": bias} for n in ("layer", "rms", "none") for bias in (True, False)),
    *({"norm": n, "norm_first": False, "bias": True} for n in ("layer", "rms", "none")),
    {"kv_heads": 1},
    {"kv_heads": 2, "positions": "rope", "rope_pairing": "interleaved", "rope_base": 100.0},
    {"kv_heads": 2, "positions": "alibi", "norm_first": False, "activation": "swiglu"},
    {"tied": False, "d_ff": 7, "scale_embeddings": True, "dropout": 0.5},
]  # fmt: skip


@pytest.mark.parametrize("settings", WRITTEN, ids=str)
@pytest.mark.parametrize("dtype", FLOATS)
def test_a_program_gives_the_logits_of_the_model(settings: dict[str, Any], dtype: Any) -> None:
    """Some tokens at a time, of texts of different length, until the context is full."""
    model = small(**settings).to(tg.float64 if dtype is np.float64 else tg.float32).eval()
    program, reader = TokenProgram(model), Reader(model)
    rng, padding = np.random.default_rng(5), np.array([0, 2, 1])
    caches, others = ([GrowingCache() for _ in model.blocks] for _ in range(2))
    for count in (3, 1, 1, 4, 1, 2, 1, 1, 1, 1):
        seen, ids = caches[0].offset, rng.integers(11, size=(3, count))
        assert program.takes(ids, padding, caches)
        found = program.logits(ids, padding, caches)
        wanted = reader(ids, cache=others, **arguments(padding, seen, seen + count))[:, -1]
        accuracy = 2e-5 if dtype is np.float32 else 1e-12
        np.testing.assert_allclose(found, wanted, atol=accuracy * np.abs(wanted).max(), rtol=0)
        assert found.dtype == wanted.dtype == dtype and caches[0].offset == others[0].offset
    assert program.takes(ids, padding, caches) == (model.max_length is None), "a table of positions has an end"
    for cache in caches:
        cache.offset = 15
    assert program.takes(ids[:, :1], padding, caches) and program.takes(ids[:, :1], padding + 13, caches)
    assert program.takes(ids[:, [0, 0]], padding, caches) == (model.max_length is None)
    assert not program.takes(ids[:, :1], padding + 14, caches), "nothing but padding is no text"


def arguments(padding: np.ndarray, first: int, last: int) -> dict[str, Any]:
    seen = np.arange(last) >= padding[:, None]
    return {
        "mask": tg.from_numpy(seen[:, None, None, :]),
        "positions": tg.from_numpy(np.maximum(np.arange(first, last) - padding[:, None], 0)),
    }


def called(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows each call of the program had, from here on."""
    rows: list[int] = []
    run = decode.run
    monkeypatch.setattr(decode, "run", lambda *args: (rows.append(len(args[1])), run(*args))[1])
    return rows


def test_generation_uses_it_and_rows_that_end_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    model, rows = small(), called(monkeypatch)
    prompts, config = [[1], [2, 3], [5, 4, 3]], GenerationConfig(max_new_tokens=9, temperature=3.0)
    free = generate_batch(model, prompts, config, generator=1).rows()
    assert rows == [3] * 9, "the prompts, and each later token"
    stop = next(token for token in free[1] if token not in free[0] + free[2])
    rows.clear()
    ended = generate_batch(model, prompts, dataclasses.replace(config, stop_tokens=stop), generator=1).rows()
    assert set(rows) == {3, 2}
    assert ended == [free[0], free[1][: free[1].index(stop) + 1], free[2]]
    rows.clear()
    assert list(stream(model, [4], GREEDY)) == generate_batch(model, [[4]], GREEDY).rows()[0]
    assert rows == [1] * 18
    rows.clear()
    with pytest.warns(ContextNotice, match="only the last 16 of the prompt's 40 tokens"):
        text = list(stream(small(positions="none"), [4] * 40, GREEDY))
    assert len(text) == 9 and rows == [1] * 9, "beyond the context all that it holds is read again"


def plain(model: Any, prompt: list[int], length: int = 9) -> list[int]:
    """Greedy text by whole forward passes."""
    text = list(prompt)
    with no_grad():
        for _ in range(length):
            text.append(int(model.eval()(tensor([text])).array[0, -1].argmax()))
    return text[len(prompt) :]


class Opposite(nn.Linear):
    def forward(self, input: Any) -> Any:
        return -super().forward(input)


class Own(GPT):
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return -super().forward(*args, **kwargs)


class Negated(nn.Module):
    def forward(self, weight: Any) -> Any:
        return -weight


def other_class(model: Any) -> None:
    layer = Opposite(24, 11, bias=False)
    layer.weight = model.lm_head.weight
    model.lm_head = layer


def hooked(model: Any) -> None:
    model.blocks[1].register_forward_hook(lambda module, args, out: -out)


def replaced_forward(model: Any) -> None:
    before = model.blocks[0].norm1.forward
    model.blocks[0].norm1.forward = lambda x: 2 * before(x)


def replaced_step(model: Any) -> None:
    before = model.blocks[0].attention.merge_heads
    model.blocks[0].attention.merge_heads = lambda x: -before(x)


def parametrized(model: Any) -> None:
    parametrize.register_parametrization(model.blocks[0].feed_forward.up, "weight", Negated())


def other_norm(model: Any) -> None:
    model.final_norm = nn.Sequential(nn.LayerNorm(24), nn.Tanh())


def new_weight(model: Any) -> None:
    model.blocks[0].attention.out_proj.weight = nn.Parameter(-model.blocks[0].attention.out_proj.weight.detach())


def new_memory(model: Any) -> None:
    model.blocks[1].feed_forward.up.weight.data = -model.blocks[1].feed_forward.up.weight.data


def in_place(model: Any) -> None:
    with no_grad():
        model.blocks[1].feed_forward.down.weight.mul_(-1.0)


def strided(model: Any) -> None:
    weight = model.blocks[0].feed_forward.up.weight
    weight.data = tg.from_numpy(np.asfortranarray(weight.array))


class Flipped(nn.Module):
    def forward(self, x: Any) -> Any:
        return -x


def other_dropout(model: Any) -> None:
    model.dropout = Flipped()


def hooked_dropout(model: Any) -> None:
    model.dropout.register_forward_hook(lambda module, args, out: -out)


CHANGES = [other_class, hooked, replaced_forward, parametrized, other_norm, new_weight, new_memory, in_place, strided]
CHANGES += [other_dropout, hooked_dropout, replaced_step]


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_changed_before_counts(change: Any) -> None:
    model = small()
    before = plain(model, [3])
    change(model)
    wanted = plain(model, [3])
    assert wanted != before or change in (strided,)
    assert list(stream(model, [3], GREEDY)) == wanted


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_changed_between_two_tokens_counts(change: Any) -> None:
    """As it does where layer after layer is called: the keys and values that are kept stay as they are."""
    by_program, by_layers = small(), small()
    changing = stream(by_program, [3, 1], GREEDY)
    found = [next(changing) for _ in range(3)]
    change(by_program)
    found += list(changing)

    reader, caches = Reader(by_layers), [GrowingCache() for _ in by_layers.blocks]
    text = [3, 1]
    for step in range(9):
        if step == 3:
            change(by_layers)
            reader = Reader(by_layers)
        new = np.array([text[caches[0].offset :]])
        text.append(int(reader(new, cache=caches)[0, -1].argmax()))
    assert found == text[2:]


@pytest.mark.parametrize("kind", [GPT, nn.Linear, nn.LayerNorm])
def test_a_forward_that_is_put_into_a_class_counts(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As libraries do it: before a generation, or between two tokens, and with the name of what it replaces."""
    model, original = small(), kind.forward
    before, changing = plain(model, [3]), stream(model, [3], GREEDY)
    found = [next(changing)]

    @functools.wraps(original)
    def negated(*args: Any, **kwargs: Any) -> Any:
        return -original(*args, **kwargs)

    monkeypatch.setattr(kind, "forward", negated)
    wanted = plain(model, [3])
    assert list(stream(model, [3], GREEDY)) == wanted != before
    assert [*found, *changing] != before


class Called(GPT):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return -super().__call__(*args, **kwargs)


def test_a_call_that_does_more_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A class's own, or one for all modules, as profilers put it there."""
    model = seeded(Called(GPTConfig(vocab_size=11, context=16, layers=2, heads=4, channels=24)))
    assert list(stream(model, [3], GREEDY)) == plain(model, [3])
    model, rows, before = small(), called(monkeypatch), nn.Module.__call__
    wanted, seen = plain(model, [3]), set()
    monkeypatch.setattr(nn.Module, "__call__", lambda self, *a, **k: (seen.add(type(self)), before(self, *a, **k))[1])
    assert list(stream(model, [3], GREEDY)) == wanted and nn.Block in seen and not rows


class Endless(GPT):
    max_length = property(lambda self: None)  # type: ignore[assignment]


def test_what_does_not_fit_together_is_refused_and_not_read_beyond_its_end() -> None:
    """The kernel does not look, so that each of these would give what happens to lie behind an array."""
    sizes: dict[str, Any] = {"vocab_size": 11, "context": 16, "layers": 2, "heads": 4, "channels": 24}
    with pytest.raises(ValueError, match="positions up to 17 were asked for, but max_len is 16"):
        list(stream(Endless(GPTConfig(**sizes)), [3], GenerationConfig(max_new_tokens=20, context=99)))
    model = small(positions="alibi")
    model.attention_positions.slopes = model.attention_positions.slopes[:2]
    with pytest.raises(ValueError, match=r"slopes must be \(H,\) = \(4,\), got \(2,\)"):
        list(stream(model, [3], GREEDY))
    model = small(activation="swiglu")
    model.blocks[0].feed_forward.up = nn.Linear(24, 30)
    with pytest.raises(RuntimeError, match="do not broadcast: 64 against 30"):
        list(stream(model, [3], GREEDY))
    model = small()
    model.blocks[1].attention.num_kv_heads = 3
    with pytest.raises(Unwritable, match="evenly"):
        TokenProgram(model)


def test_what_is_renamed_between_two_tokens_is_told_as_by_the_layers() -> None:
    model = small()
    changing, layer = stream(model, [3], GREEDY), model.blocks[0].feed_forward.up
    next(changing)
    layer.other = layer.weight
    del layer.weight
    with pytest.raises(AttributeError, match="'Linear' object has no attribute 'weight'"):
        next(changing)


def test_what_cannot_be_written_runs_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = called(monkeypatch)
    models = [
        small(attention="local", window=3),
        small(attention="linear", positions="none"),
        small(positions="relative"),
        small(norm="batch"),
        seeded(Own(GPTConfig(vocab_size=11, context=16, layers=2, heads=4, channels=24))),
        small(),
    ]
    models[-1].token_embedding = nn.Embedding(11, 24, max_norm=0.1)  # its table changes as it is read
    for model in models:
        with pytest.raises(Unwritable):
            TokenProgram(model)
        assert list(stream(model, [3, 1], GREEDY)) == plain(model, [3, 1])
    half = small().to(tg.bfloat16)
    with pytest.raises(Unwritable, match="bfloat16"):
        TokenProgram(half)
    assert len(list(stream(half, [3], GREEDY))) == 9
    assert not rows


def test_autocast_and_plain_formulas_are_not_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    model, rows = small(), called(monkeypatch)
    with tg.amp.autocast("cpu", tg.bfloat16):
        assert len(list(stream(model, [3], GREEDY))) == 9
    with tg.use_reference():
        assert list(stream(model, [3], GREEDY)) == plain(model, [3])
    assert not rows


def test_a_model_without_layers_is_run_as_it_is() -> None:
    assert len(list(stream(small(ModernDecoder, layers=1), [3], GREEDY))) == 9
    with pytest.raises(Unwritable):
        TokenProgram(nn.Linear(3, 3))


def test_caches_that_the_program_does_not_keep(monkeypatch: pytest.MonkeyPatch) -> None:
    model, rows = small(), called(monkeypatch)
    for settings in ({"cache": "paged"}, {"cache": "window", "window": 16}):
        config = GenerationConfig(max_new_tokens=9, temperature=0, **settings)
        assert list(stream(model, [3, 1], config)) == plain(model, [3, 1])
    assert not rows
    assert list(stream(model, [3, 1], GenerationConfig(max_new_tokens=9, temperature=0, cache="none"))) == plain(
        model, [3, 1]
    )
    assert rows == [1] * 9, "without caches all tokens are read each time"


def test_caches_of_another_batch_are_told_before_they_are_read() -> None:
    model = small()
    program, caches = TokenProgram(model), [GrowingCache() for _ in model.blocks]
    program.logits(np.array([[1], [2]]), np.zeros(2, np.int64), caches)
    with pytest.raises(ValueError, match=r"this cache holds keys with \(B, H, D\) = \(2, 4, 6\)"):
        program.logits(np.array([[1]]), np.zeros(1, np.int64), caches)
    with pytest.raises(ValueError, match=r"this cache holds keys with \(B, H, D\) = \(2, 4, 6\)"):
        program.logits(np.zeros((1, 20), np.int64), np.zeros(1, np.int64), caches)
    mixed = [GrowingCache(), caches[1]]
    mixed[0].offset = caches[1].offset
    program.logits(np.array([[1], [2]]), np.zeros(2, np.int64), caches)  # both keep their memory, as is known
    with pytest.raises(ValueError, match="this cache holds"):
        program.logits(np.array([[1]]), np.zeros(1, np.int64), mixed)
    caches[0].offset = caches[1].offset = -1
    assert not program.takes(np.array([[1], [2]]), np.zeros(2, np.int64), caches)
    caches[0].offset = caches[1].offset = 1
    assert not program.takes(np.array([[11], [0]]), np.zeros(2, np.int64), caches), "there is no token 11"
    assert not program.takes(np.array([[1], [-1]]), np.zeros(2, np.int64), caches)


def test_ids_may_lie_as_they_like() -> None:
    model, ids = small(), np.arange(12).reshape(2, 6) % 11
    program, nothing = TokenProgram(model), np.zeros(2, np.int64)
    found = [
        program.logits(x, nothing, [GrowingCache() for _ in model.blocks]) for x in (ids[:, ::2], ids[:, ::2].copy())
    ]
    assert (found[0] == found[1]).all()


def test_memory_grows_with_the_text_and_logits_are_the_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    model, run = small(positions="rope"), decode.run

    def checked(program: Any, ids: Any, padding: Any, seen: int, work: Any, scores: np.ndarray) -> None:
        assert scores.shape == (len(ids) * 4, scores.shape[1]) and scores.shape[1] > seen
        run(program, ids, padding, seen, work, scores)

    monkeypatch.setattr(decode, "run", checked)
    program, caches = TokenProgram(model), [GrowingCache(expected=3) for _ in model.blocks]
    text = np.arange(20) * 3 % 11
    found = [program.logits(text[None, i : i + 1], np.zeros(1, np.int64), caches)[0] for i in range(20)]
    with no_grad():
        wanted = model.eval()(tensor(text[None])).array[0]
    np.testing.assert_allclose(found, wanted, atol=2e-5 * np.abs(wanted).max())


def test_two_texts_at_once_do_not_disturb_each_other() -> None:
    model = small()
    first, second = stream(model, [1], GREEDY), stream(model, [7, 8], GREEDY)
    pairs = list(zip(first, second, strict=True))
    assert [a for a, _ in pairs] == plain(model, [1]) and [b for _, b in pairs] == plain(model, [7, 8])

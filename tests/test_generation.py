"""Generation: each rule at its borders, batches, beams, caches and modes, on tables and on models of a few numbers."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import math
import warnings
from typing import Any

import numpy as np
import pytest

from tinygrad_tf import manual_seed, nn, no_grad, tensor
from tinygrad_tf.generation import (
    Beam,
    Cache,
    Conditioned,
    ContextNotice,
    GenerationConfig,
    GrowingCache,
    beam_search,
    choose,
    choose_next,
    draw,
    forbid_repeated_ngrams,
    generate,
    generate_batch,
    keep_min_p,
    keep_top_k,
    keep_top_p,
    length_penalty,
    log_probabilities,
    make_caches,
    penalise_repetition,
    probabilities,
    steps,
    stream,
    with_temperature,
)
from tinygrad_tf.generation.filters import likeliest, log_probabilities_of
from tinygrad_tf.models import GPT, GPTConfig, Transformer, TransformerConfig
from tinygrad_tf.utils.errors import InputError

INF = math.inf
GREEDY = GenerationConfig(temperature=0, max_new_tokens=8)


def kept(logits):
    return set(np.flatnonzero(logits > -INF).tolist())


def small_gpt(**changes):
    manual_seed(0)
    model = GPT(
        GPTConfig(
            **{"vocab_size": 11, "context": 32, "layers": 2, "heads": 2, "channels": 16, "tied": False, **changes}
        )
    )
    for name, parameter in model.named_parameters():
        if "blocks" in name:
            parameter.array[...] *= 8.0
    model.lm_head.weight.array[...] *= 20.0
    return model


def greedy_by_hand(model, prompt, count):
    """Without anything of tinygrad_tf.generation: the whole text through the model for each token."""
    text = list(prompt)
    model.eval()
    with no_grad():
        for _ in range(count):
            text.append(int(model(tensor([text])).array[0, -1].argmax()))
    model.train()
    return text[len(prompt) :]


def table_model(table, vocabulary, calls=None):
    """A model by hand: probabilities of the next token by the whole text so far, given as {(tokens): [...]}."""

    def model(ids):
        if calls is not None:
            calls.append(ids.shape[0])
        out = np.full((*ids.shape, vocabulary), -INF)
        for i, text in enumerate(ids.array.tolist()):
            with np.errstate(divide="ignore"):
                out[i, -1] = np.log(table(tuple(text)))
        return out

    return model


# --- rules ------------------------------------------------------------------------------------------------------------


def test_temperature():
    assert kept(with_temperature([1.0, 3.0, 3.0], 0)) == {1}
    assert np.allclose(probabilities(with_temperature(np.log([0.8, 0.2]), 2.0)), [2 / 3, 1 / 3])
    assert np.allclose(probabilities(with_temperature(np.log([0.8, 0.2]), 0.5)), [16 / 17, 1 / 17])
    assert probabilities(with_temperature([1e300, 0.0, -1e300], 1e-300)).tolist() == [1, 0, 0]
    assert probabilities(with_temperature([INF, 0.0, INF], 0.7)).tolist() == [0.5, 0, 0.5]


@pytest.mark.parametrize(
    "logits, k, wanted",
    [
        ([1, 2, 2, 2, 3], 3, {1, 2, 4}),
        ([5, 5, 0], 1, {0}),
        ([0, 5, 5], 1, {1}),
        ([1, 2], 2, {0, 1}),
        ([1, 2], 99, {0, 1}),
        ([-INF, 2, -INF], 2, {1}),
    ],
)
def test_top_k(logits, k, wanted):
    assert kept(keep_top_k(logits, k)) == wanted


@pytest.mark.parametrize(
    "p, wanted",
    [(0.8, {3, 0}), (0.5, {3}), (0.81, {3, 0, 1}), (0, {3}), (1, {0, 1, 2, 3}), (0.91, {0, 1, 2, 3}), (1e-9, {3})],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_top_p(p, wanted, dtype):
    assert kept(keep_top_p(np.log(np.array([0.3, 0.1, 0.1, 0.5], dtype)), p)) == wanted


def test_top_p_of_one_keeps_the_tail_and_of_equals_the_lowest():
    assert kept(keep_top_p([0.0, -40.0, -100.0], 1.0)) == {0, 1, 2}
    assert kept(keep_top_p([0.0] * 10, 0.3)) == {0, 1, 2}
    assert kept(keep_top_p([0.0] * 10, 0)) == {0}


@pytest.mark.parametrize("p, wanted", [(0, {0, 1, 2, 3}), (0.2, {0, 1, 2, 3}), (0.21, {0, 3}), (0.6, {0, 3}), (1, {3})])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_min_p(p, wanted, dtype):
    assert kept(keep_min_p(np.log(np.array([0.3, 0.1, 0.1, 0.5], dtype)), p)) == wanted
    assert kept(keep_min_p([2.0, 2.0, 1.0], 1)) == {0, 1}


def test_temperature_comes_before_top_p():
    logits = np.log([0.3, 0.1, 0.1, 0.5])
    drawn = GenerationConfig(temperature=10.0, top_p=0.5)  # nearly uniform, so that two reach a half
    tokens = {choose_next(logits, [], drawn, np.random.default_rng(i)) for i in range(60)}
    assert tokens == {3, 0}
    assert {choose_next(logits, [], GenerationConfig(top_p=0.5), np.random.default_rng(i)) for i in range(60)} == {3}


def test_rules_are_combined():
    config = GenerationConfig(top_k=3, min_p=0.5)
    assert {choose_next([3.0, 2.9, 1.0, 2.8], [], config, np.random.default_rng(i)) for i in range(60)} == {0, 1, 3}
    config = GenerationConfig(top_k=3, top_p=0.6)  # of the three that are left, two reach 0.6
    assert {choose_next([3.0, 2.9, 1.0, 2.8], [], config, np.random.default_rng(i)) for i in range(60)} == {0, 1}


def test_repetition_penalty():
    assert penalise_repetition([2.0, -2.0, 0.0, 1.0], [1, 0, 0, 2], 2.0).tolist() == [1.0, -4.0, 0.0, 1.0]
    logits = np.array([2.0, 1.5])
    assert choose_next(logits, [0], GenerationConfig(temperature=0, repetition_penalty=1.5)) == 1
    assert logits.tolist() == [2.0, 1.5]  # the caller's own array stays as it was
    assert penalise_repetition([-INF, 1.0], [0], 2.0).tolist() == [-INF, 1.0]
    with pytest.raises(InputError, match=r"token ids must lie in 0 \.\.\. 1, got -1"):
        penalise_repetition([0.0, 1.0], [-1], 2.0)


def test_no_ngram_twice():
    assert kept(forbid_repeated_ngrams([0.0] * 4, [1, 2, 3, 1, 2], 3)) == {0, 1, 2}
    assert kept(forbid_repeated_ngrams([0.0] * 4, [1, 2, 3, 1], 2)) == {0, 1, 3}
    assert kept(forbid_repeated_ngrams([0.0] * 4, [1, 3], 1)) == {0, 2}
    assert kept(forbid_repeated_ngrams([0.0] * 4, [1], 3)) == {0, 1, 2, 3}
    assert kept(forbid_repeated_ngrams([0.0, 0.0], [0, 1], 1)) == {0, 1}  # nothing would be left
    looping = table_model(lambda text: [0.1, 0.9, 0.0] if text[-1] == 0 else [0.9, 0.0, 0.1], 3)
    assert list(stream(looping, [0], dataclasses.replace(GREEDY, max_new_tokens=6))) == [1, 0, 1, 0, 1, 0]
    text = [0, *stream(looping, [0], dataclasses.replace(GREEDY, no_repeat_ngram=2, max_new_tokens=3))]
    assert text == [0, 1, 0, 0]


def test_logarithms_of_probabilities():
    assert np.allclose(log_probabilities(np.log([0.2, 0.8])), np.log([0.2, 0.8]))
    assert log_probabilities([0.0, -1000.0, -INF]).tolist() == [0.0, -1000.0, -INF]
    assert np.allclose(log_probabilities([INF, 0.0, INF]), [-math.log(2), -INF, -math.log(2)])


# --- a token ----------------------------------------------------------------------------------------------------------


def test_temperature_zero_is_the_likeliest_with_the_lowest_id():
    for seed in range(5):
        assert choose([1.0, 3.0, 3.0, 2.0], 0, None, np.random.default_rng(seed)) == 1
    assert choose([0.0, INF, 1.0], 0) == 1 == choose([0.0, INF, 1.0], 1.0)


def test_all_of_the_k_largest_are_drawn_and_no_other():
    generator = np.random.default_rng(0)
    assert {choose([1.0, 2.0, 2.0, 2.0, 3.0], 1.0, 3, generator) for _ in range(300)} == {1, 2, 4}
    assert {choose([5.0, 5.0, 0.0], 1.0, 1, generator) for _ in range(50)} == {0}
    assert {choose([0.0, 0.0], 1.0, 99, generator) for _ in range(50)} == {0, 1}


class Fixed:
    """A generator whose next number is given."""

    def __init__(self, number):
        self.number = number

    def random(self):
        return self.number


@pytest.mark.parametrize("number", [0.0, 0.5, 1.0 - 2**-53])
def test_probability_zero_is_never_drawn(number):
    for weights, wanted in (([0, 1, 0], 1), ([1, 0, 0], 0), ([0, 0, 1], 2)):
        assert draw(weights, Fixed(number)) == wanted
        assert choose([0.0 if w else -INF for w in weights], 1.0, None, Fixed(number)) == wanted
    allowed = np.arange(2048) % 3 == 1
    assert draw(np.where(allowed, np.float32(0.1), np.float32(0)), Fixed(number)) % 3 == 1
    assert draw([5e-324, 0.0], Fixed(number)) == 0  # so small that a share of it rounds up to all of it
    assert choose(np.where(allowed, 0.1, -INF).astype(np.float32), 0.7, None, Fixed(number)) % 3 == 1
    assert choose([1e300, 0.0, -1e300], 1e-300, None, Fixed(number)) == 0


def test_draws_follow_the_distribution():
    generator = np.random.default_rng(0)
    drawn = np.bincount([choose(np.log([0.5, 0.3, 0.2]), 1.0, None, generator) for _ in range(4000)]) / 4000
    assert abs(drawn - [0.5, 0.3, 0.2]).max() < 0.03
    drawn = np.bincount([choose(np.log([0.8, 0.2]), 2.0, None, generator) for _ in range(4000)]) / 4000
    assert abs(drawn - [2 / 3, 1 / 3]).max() < 0.03  # a temperature of 2 takes square roots


@pytest.mark.parametrize("temperature, top_k", [(-1.0, None), (math.nan, None), (INF, None), (1.0, 0), (1.0, -2)])
def test_unusable_rules_are_told_at_once(temperature, top_k):
    with pytest.raises(InputError, match=r"temperature|top_k"):
        choose([1.0, 2.0], temperature, top_k)
    with pytest.raises(InputError):
        generate(small_gpt(), [0], 1, temperature, top_k)  # not at the first token


@pytest.mark.parametrize("logits", [[math.nan, 1.0], [-INF, -INF], [], [[1.0]]])
def test_unusable_logits(logits):
    with pytest.raises(ValueError, match="choose"):
        choose(logits)


# --- the configuration ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"temperature": -1}, "temperature must be a number from 0 .* got -1"),
        ({"temperature": math.nan}, "temperature must be"),
        ({"temperature": INF}, "temperature must be"),
        ({"temperature": "hot"}, "temperature must be .* got 'hot'"),
        ({"top_k": 0}, "top_k must be at least 1, got 0"),
        ({"top_k": 1.5}, "top_k must be a whole number, got 1.5"),
        ({"top_k": True}, "top_k must be a whole number"),
        ({"top_p": -0.1}, "top_p must be a number from 0 to 1, got -0.1"),
        ({"top_p": 1.01}, "top_p must be a number from 0 to 1, got 1.01"),
        ({"top_p": math.nan}, "top_p must be"),
        ({"min_p": 2}, "min_p must be a number from 0 to 1, got 2"),
        ({"repetition_penalty": 0}, "repetition_penalty must be a number above 0"),
        ({"repetition_penalty": INF}, "repetition_penalty must be"),
        ({"no_repeat_ngram": 0}, "no_repeat_ngram must be at least 1"),
        ({"max_new_tokens": -1}, "max_new_tokens must be at least 0"),
        ({"num_beams": 0}, "num_beams must be at least 1"),
        ({"length_penalty": -1, "num_beams": 2}, "length_penalty must be"),
        ({"length_penalty": 1.0}, "give num_beams above 1"),
        ({"num_beams": 2, "top_p": 0.9}, "leave out top_p"),
        ({"num_beams": 2, "temperature": 0}, "leave out temperature"),
        ({"stop_tokens": (-1,)}, "stop_tokens must be at least 0"),
        ({"stop_tokens": "ab"}, "stop_tokens must be a whole number"),
        ({"stop_tokens": 1.5}, "stop_tokens must be token ids"),
        ({"cache": "huge"}, "cache must be one of growing, window, paged, none; got 'huge'"),
        ({"cache": "window"}, "belong together"),
        ({"window": 3}, "belong together"),
        ({"context": 0}, "context must be at least 1"),
        ({"prefill_chunk": 0}, "prefill_chunk must be at least 1"),
        ({"block_size": 0}, "block_size must be at least 1"),
    ],
)
def test_values_out_of_range_are_one_line(settings, message):
    with pytest.raises(InputError, match=message) as caught:
        GenerationConfig(**settings)
    assert "\n" not in str(caught.value)


def test_config_is_frozen_and_takes_one_stop_token_alone():
    assert GenerationConfig(stop_tokens=np.int64(3)).stop_tokens == (3,)
    assert GenerationConfig(stop_tokens=[3, 4], pad_token=0).padding == 0
    assert GenerationConfig(stop_tokens=[3, 4]).padding == 3 and GenerationConfig().padding == 0
    with pytest.raises(dataclasses.FrozenInstanceError):
        GenerationConfig().top_k = 3


# --- one text and many ------------------------------------------------------------------------------------------------

PROMPTS = [[1, 2], [3, 1, 4, 1, 5, 9], [2], [7, 7, 7]]
CACHES = [
    {"cache": "none"},
    {"cache": "growing"},
    {"cache": "growing", "prefill_chunk": 2},
    {"cache": "paged", "block_size": 3},
    {"cache": "paged", "block_size": 1, "prefill_chunk": 1},
    {"cache": "window", "window": 20},
]


@pytest.mark.parametrize("settings", CACHES)
@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "rope", "alibi", "relative", "none"])
def test_prompts_of_different_length_come_out_as_alone(positions, settings):
    model = small_gpt(positions=positions)
    config = dataclasses.replace(GREEDY, **settings)
    wanted = [greedy_by_hand(model, prompt, 8) for prompt in PROMPTS]
    assert len({tuple(row) for row in wanted}) == 4
    out = generate_batch(model, PROMPTS, config)
    assert out.rows() == wanted
    assert np.allclose(out.log_probs, [fresh_log_prob(model, p, row) for p, row in zip(PROMPTS, wanted, strict=True)])
    assert [list(stream(model, prompt, config)) for prompt in PROMPTS] == wanted


@pytest.mark.parametrize("attention", ["local", "block_sparse", "linear", "additive"])
@pytest.mark.parametrize("settings", [CACHES[0], CACHES[2], CACHES[3]])
def test_other_kinds_of_attention_come_out_as_alone(attention, settings):
    model = small_gpt(attention=attention, window=3, block_size=2)
    config = dataclasses.replace(GREEDY, **settings)
    assert generate_batch(model, PROMPTS, config).rows() == [greedy_by_hand(model, prompt, 8) for prompt in PROMPTS]


@pytest.mark.parametrize("settings", CACHES[:5])
def test_log_probabilities_are_those_of_a_fresh_forward_pass(settings):
    model = small_gpt()
    config = GenerationConfig(max_new_tokens=6, temperature=1.3, top_k=5, stop_tokens=4, **settings)
    out = generate_batch(model, PROMPTS, config, generator=3)
    for prompt, row, log_prob in zip(PROMPTS, out.rows(), out.log_probs, strict=True):
        assert log_prob == pytest.approx(fresh_log_prob(model, prompt, row), abs=1e-4)


def fresh_log_prob(model, prompt, row):
    model.eval()
    with no_grad():
        logits = model(tensor([[*prompt, *row]])).array[0].astype(np.float64)
    model.train()
    logs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return sum(logs[len(prompt) - 1 + i, token] for i, token in enumerate(row))


def test_rows_end_at_their_own_stop_token():
    """Row 0 ends at once, row 1 after four; nothing runs after that, and the finished row costs nothing."""
    calls = []
    model = table_model(lambda text: np.eye(10)[9 if text[0] == 1 or len(text) == 4 else 5], 10, calls)
    out = generate_batch(model, [[1], [2]], GenerationConfig(stop_tokens=9, pad_token=0, max_new_tokens=50))
    assert out.tokens.tolist() == [[9, 0, 0, 0], [5, 5, 5, 9]]
    assert out.lengths.tolist() == [1, 4] and out.finished.tolist() == [True, True]
    assert out.log_probs.tolist() == [0.0, 0.0] and calls == [2, 1, 1, 1]
    cut = generate_batch(model, [[1], [2]], GenerationConfig(stop_tokens=9, max_new_tokens=2))
    assert cut.tokens.tolist() == [[9, 9], [5, 5]]
    assert cut.finished.tolist() == [True, False]
    assert list(stream(model, [2], GenerationConfig(stop_tokens=(8, 9)))) == [5, 5, 5, 9]


def test_a_row_that_ends_does_not_change_the_others():
    model = small_gpt()
    for settings in CACHES:
        config = GenerationConfig(max_new_tokens=12, stop_tokens=(4, 6, 8), **settings)
        together = generate_batch(model, PROMPTS, config, np.random.default_rng(5)).rows()
        assert len({len(row) for row in together}) > 1
        endless = dataclasses.replace(config, stop_tokens=())
        for row, longer in zip(together, generate_batch(model, PROMPTS, endless, 5).rows(), strict=True):
            assert row == longer[: len(row)] and (len(row) == 12 or row[-1] in (4, 6, 8))


def test_each_row_draws_on_its_own_and_seeds_repeat():
    model = small_gpt()
    config = GenerationConfig(max_new_tokens=20)
    one, two = generate_batch(model, [[1]] * 2, config, 7).rows()
    assert one != two
    assert generate_batch(model, [[1]] * 2, config, 7).rows() == [one, two]
    assert list(stream(model, [1], config, 7)) == list(generate(model, [1], 20, generator=np.random.default_rng(7)))


@pytest.mark.parametrize("function", [choose, generate])
def test_what_is_not_asked_for_is_as_in_a_config(function: Any) -> None:
    given = inspect.signature(function).parameters
    for name in ("temperature", "top_k"):
        assert given[name].default == getattr(GenerationConfig(), name)


def test_any_function_from_ids_to_logits_will_do():
    def counting(ids):
        return np.eye(10)[(ids.array + 1) % 10]

    assert generate_batch(counting, [[1], [2, 3]], GREEDY).rows()[1] == [4, 5, 6, 7, 8, 9, 0, 1]
    assert generate_batch(nn.Embedding(10, 10), [[1]], GREEDY).tokens.shape == (1, 8)
    with pytest.raises(ValueError, match=r"logits \(B, T, V\) for ids \(B, T\) = \(1, 1\), got \(1, 10\)"):
        next(stream(lambda ids: np.zeros((1, 10)), [1]))
    with pytest.raises(ValueError, match="NaN"):
        next(stream(lambda ids: np.full((*ids.shape, 3), np.nan), [1]))
    with pytest.raises(InputError, match="maps ids"):
        stream(None, [1])


@pytest.mark.parametrize("prompt", [[], [[1]], [1.5], "ab", [[1], [2, 3]]])
def test_prompts_that_cannot_be_used(prompt):
    with pytest.raises(InputError, match="prompt"):
        stream(small_gpt(), prompt)  # at once, not at the first token
    with pytest.raises(InputError, match="prompt 1"):
        generate_batch(small_gpt(), [[1], prompt])


def test_nothing_to_do():
    config = GenerationConfig(max_new_tokens=0)
    assert list(stream(small_gpt(), [1], config)) == [] == list(generate(small_gpt(), [1], 0))
    assert generate_batch(small_gpt(), [[1], [2]], config).tokens.shape == (2, 0)
    assert generate_batch(small_gpt(), [], GREEDY).tokens.shape == (0, 0)
    with pytest.raises(InputError, match="beam_search"):
        stream(small_gpt(), [1], GenerationConfig(num_beams=2))


# --- modes, graphs, contexts ------------------------------------------------------------------------------------------


def test_modes_are_left_as_they_were_also_after_an_error():
    model = small_gpt(dropout=0.5).train()
    model.dropout.eval()
    modes = [module.training for module in model.modules()]
    tokens = stream(model, [1, 2], GREEDY)
    first = next(tokens)
    assert [module.training for module in model.modules()] == modes
    assert (tensor([1.0], requires_grad=True) * 2).requires_grad
    assert [first, *tokens] == list(stream(model, [1, 2], GREEDY))  # no dropout inside
    for run in (
        lambda: generate_batch(model, [[99]], GREEDY),
        lambda: beam_search(model, [[99]], GenerationConfig()),
        lambda: next(generate(model, [10**6], 1)),
    ):
        with pytest.raises((IndexError, RuntimeError, ValueError)):
            run()
        assert [module.training for module in model.modules()] == modes
        assert (tensor([1.0], requires_grad=True) * 2).requires_grad


def test_no_graph_is_recorded_and_evaluation_mode_is_on():
    seen = []

    class Spy(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(5, 5)

        def forward(self, ids):
            seen.append((self.training, self.table(ids).requires_grad))
            return self.table(ids)

    list(stream(Spy(), [1], GREEDY))
    assert seen == [(False, False)] * 8


@pytest.mark.parametrize("settings", CACHES[:5])
def test_a_text_longer_than_the_context_is_cropped_with_a_notice(settings):
    model = small_gpt(context=5)
    config = dataclasses.replace(GREEDY, max_new_tokens=7, **settings)
    prompt = [3, 1, 4, 1, 5, 9, 2, 6]
    with pytest.warns(ContextNotice, match="sees only the last 5 of the prompt's 8 tokens"):
        long = list(stream(model, prompt, config))
    text = list(prompt)
    for _ in range(7):
        text += greedy_by_hand(model, text[-5:], 1)
    assert long == text[8:]
    with pytest.warns(ContextNotice, match="longer than the context; the model sees only its last 5") as caught:
        both = generate_batch(model, [prompt[:2], prompt[:5]], config).rows()
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert both[0] == list(generate(model, prompt[:2], 7, 0)) and both[1] == list(generate(model, prompt[:5], 7, 0))


def test_a_long_row_that_ends_leaves_the_short_ones_their_context():
    """The columns of the batch reach the context before any row does: the padding is dropped, the text stays."""
    model = small_gpt(context=8)
    long = [1, 2, 3, 4, 5, 6]
    (stop,) = greedy_by_hand(model, long, 1)
    texts = {start: greedy_by_hand(model, [start, 8], 6) for start in range(11)}
    start, short = next((start, text) for start, text in texts.items() if stop not in text)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        config = GenerationConfig(temperature=0, stop_tokens=stop, max_new_tokens=6)
        assert generate_batch(model, [long, [start, 8]], config).rows() == [[stop], short]


def test_context_may_be_chosen():
    model = small_gpt()
    with pytest.warns(ContextNotice, match="the last 2 of the prompt's 5"):
        seen = list(stream(model, [3, 1, 4, 1, 5], dataclasses.replace(GREEDY, max_new_tokens=1, context=2)))
    assert seen == greedy_by_hand(model, [1, 5], 1)
    with pytest.raises(InputError, match="context=33 is more than the 32 positions"):
        stream(model, [1], GenerationConfig(context=33))


def test_a_window_of_keys():
    """Full attention with a window cache is local attention; beyond a table of positions it says so at once."""
    local = small_gpt(positions="rope", attention="local", window=3, context=64)
    full = small_gpt(positions="rope", context=8)
    full.load_state_dict(local.state_dict())
    wanted = [greedy_by_hand(local, prompt, 20) for prompt in PROMPTS]
    for chunk in (None, 1, 4):
        config = GenerationConfig(cache="window", window=3, temperature=0, max_new_tokens=20, prefill_chunk=chunk)
        assert generate_batch(full, PROMPTS, config).rows() == wanted
    with pytest.raises(InputError, match="up to 33, but the model has 32 positions"):
        stream(small_gpt(), [1, 2], GenerationConfig(cache="window", window=3, max_new_tokens=32))
    stream(small_gpt(), [1, 2], GenerationConfig(cache="window", window=3, max_new_tokens=31))
    with pytest.raises(InputError, match="attention='linear'"):
        stream(small_gpt(attention="linear"), [1], GenerationConfig(cache="window", window=3, max_new_tokens=3))
    with pytest.raises(InputError, match="takes cache"):
        stream(nn.Embedding(3, 3), [1], GenerationConfig(cache="window", window=3))


def test_each_generation_has_fresh_caches():
    model = small_gpt()
    assert list(stream(model, [1, 2], GREEDY)) == list(stream(model, [1, 2], GREEDY))
    one, two = stream(model, [1, 2], GREEDY), stream(model, [1, 2], GREEDY)
    assert [token for pair in itertools.zip_longest(one, two) for token in pair][::2] == list(
        stream(model, [1, 2], GREEDY)
    )


# --- beams ------------------------------------------------------------------------------------------------------------


def example(text):
    """Step 1: A .6, B .4; behind A .4, .3, .3, behind B .9, .1."""
    return {9: [0.6, 0.4, 0.0], 0: [0.4, 0.3, 0.3], 1: [0.9, 0.1, 0.0]}[text[-1]]


def test_beam_search_finds_what_greedy_misses():
    model = table_model(example, 3)
    config = GenerationConfig(max_new_tokens=2, num_beams=2)
    best, second = beam_search(model, [[9]], config)[0]
    assert best.tokens == (1, 0) and best.score == pytest.approx(math.log(0.36), abs=1e-12)
    assert second.tokens == (0, 0) and second.score == pytest.approx(math.log(0.24), abs=1e-12)
    one = beam_search(model, [[9]], GenerationConfig(max_new_tokens=2))[0]
    assert [beam.tokens for beam in one] == [(0, 0)] and one[0].score == pytest.approx(-1.427116, abs=1e-6)
    greedy = generate_batch(model, [[9]], GenerationConfig(max_new_tokens=2, temperature=0))
    assert greedy.rows() == [[0, 0]] and greedy.log_probs[0] == pytest.approx(-1.427116, abs=1e-6)
    out = generate_batch(model, [[9]], config)
    assert out.rows() == [[1, 0]] and out.log_probs[0] == pytest.approx(-1.021651, abs=1e-6)


def all_texts(table, length, stop, alpha):
    """Every text that ends with the stop token or has the full length, with its score."""
    found, open_ = [], [((), 0.0)]
    while open_:
        tokens, log_prob = open_.pop()
        if tokens and (tokens[-1] == stop or len(tokens) == length):
            found.append((log_prob / ((5 + len(tokens)) / 6) ** alpha, tokens))
            continue
        for token, p in enumerate(table((9, *tokens))):
            if p > 0:
                open_.append(((*tokens, token), log_prob + math.log(p)))
    return sorted(found, reverse=True)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
def test_with_enough_beams_the_search_is_exhaustive(alpha):
    def table(text):
        weights = np.random.default_rng(abs(hash(text)) % 2**32).random(3) ** 3
        return weights / weights.sum()

    wanted = all_texts(table, 4, 2, alpha)
    beams = beam_search(
        table_model(table, 3),
        [[9]],
        GenerationConfig(max_new_tokens=4, num_beams=99, stop_tokens=2, length_penalty=alpha),
    )[0]
    assert [beam.tokens for beam in beams] == [tokens for _, tokens in wanted]
    assert np.allclose([beam.score for beam in beams], [score for score, _ in wanted])
    assert all(beam.finished == (beam.tokens[-1] == 2) for beam in beams)


def test_length_penalty_prefers_longer_texts():
    def table(text):
        return [0.0, 0.5, 0.5] if text[-1] == 9 else [0.05, 0.95, 0.0] if len(text) < 4 else [0.0, 0.0, 1.0]

    model = table_model(table, 3)
    short = GenerationConfig(max_new_tokens=6, num_beams=3, stop_tokens=2)
    assert beam_search(model, [[9]], short)[0][0].tokens == (2,)
    assert beam_search(model, [[9]], dataclasses.replace(short, length_penalty=1.0))[0][0].tokens == (1, 1, 1, 2)
    assert length_penalty(1, 3.0) == 1.0 and length_penalty(13, 0.5) == pytest.approx(math.sqrt(3))


def test_one_beam_is_greedy_also_where_the_stop_token_comes_early():
    model = small_gpt()
    for stop in range(11):
        config = GenerationConfig(max_new_tokens=6, stop_tokens=stop)
        beams = beam_search(model, PROMPTS, config)
        greedy = generate_batch(model, PROMPTS, dataclasses.replace(config, temperature=0))
        assert [list(b[0].tokens) for b in beams] == greedy.rows()
        assert np.allclose([b[0].log_prob for b in beams], greedy.log_probs)


@pytest.mark.parametrize("settings", CACHES[:5])
def test_beams_of_a_batch_are_those_alone_distinct_sorted_and_truly_scored(settings):
    model = small_gpt()
    config = GenerationConfig(max_new_tokens=5, num_beams=4, stop_tokens=(3, 8), length_penalty=0.7, **settings)
    together = beam_search(model, PROMPTS, config)
    for prompt, beams in zip(PROMPTS, together, strict=True):
        (alone,) = beam_search(model, [prompt], dataclasses.replace(config, cache="none"))
        assert [beam.tokens for beam in beams] == [beam.tokens for beam in alone]
        assert len({beam.tokens for beam in beams}) == 4
        assert [beam.score for beam in beams] == sorted((beam.score for beam in beams), reverse=True)
        for beam in beams:
            assert beam.log_prob == pytest.approx(fresh_log_prob(model, prompt, beam.tokens), abs=1e-4)
            assert beam.score == pytest.approx(beam.log_prob / ((5 + len(beam.tokens)) / 6) ** 0.7)
            assert not set(beam.tokens[:-1]) & {3, 8} and beam.finished == (beam.tokens[-1] in (3, 8))
            assert beam.finished or len(beam.tokens) == 5


def test_beams_share_blocks():
    from tinygrad_tf.generation.steps import Steps

    steps = Steps(small_gpt(), [[1, 2, 3, 4]], GenerationConfig(cache="paged", block_size=2))
    steps.logits()
    steps.extend([5, 6, 7], [0, 0, 0])
    steps.logits()
    tables = steps.caches[0].tables
    assert all(table[:2] == tables[0][:2] for table in tables) and len({table[2] for table in tables}) == 3


def test_beams_repeat_no_ngram():
    model = table_model(lambda text: [0.6, 0.3, 0.1], 3)
    config = GenerationConfig(max_new_tokens=3, num_beams=2, no_repeat_ngram=1)
    best = beam_search(model, [[0]], config)[0][0]
    assert best.tokens == (1, 2, 0)


def test_fewer_texts_than_beams():
    model = table_model(lambda text: [0.5, 0.5, 0.0] if len(text) < 2 else [1.0, 0.0, 0.0], 3)
    beams = beam_search(model, [[9]], GenerationConfig(max_new_tokens=3, num_beams=5))[0]
    assert [beam.tokens for beam in beams] == [(0, 0, 0), (1, 0, 0)]
    assert beam_search(model, [[9]], GenerationConfig(max_new_tokens=0, num_beams=2)) == [[Beam()]]
    assert beam_search(model, [], GenerationConfig(num_beams=2)) == []


# --- encoder-decoder --------------------------------------------------------------------------------------------------


def small_transformer(**changes):
    manual_seed(0)
    sizes = {"d_model": 16, "num_heads": 2, "d_ff": 32, "encoder_layers": 1, "decoder_layers": 2, "max_len": 24}
    model = Transformer(TransformerConfig(vocab_size=11, **{"pad": 0, "dropout": 0.3, **sizes, **changes}))
    for name, parameter in model.named_parameters():
        if "coder" in name:
            parameter.array[...] *= 3.0
    return model


SOURCE = tensor([[5, 6, 7, 8], [8, 9, 0, 0], [3, 0, 0, 0]])


def answer_by_hand(model, source, prompt, count):
    text = list(prompt)
    model.eval()
    with no_grad():
        for _ in range(count):
            text.append(int(model(source, tensor([text])).array[0, -1].argmax()))
    model.train()
    return text[len(prompt) :]


@pytest.mark.parametrize("settings", CACHES)
@pytest.mark.parametrize("positions", ["sinusoidal", "rope"])
def test_an_encoder_decoder_answers_its_source(positions, settings):
    model = small_transformer(positions=positions)
    prompts = [[1], [1, 4, 2], [1]]
    wanted = [answer_by_hand(model, SOURCE[i : i + 1], prompt, 8) for i, prompt in enumerate(prompts)]
    assert wanted[0] != wanted[2]
    config = dataclasses.replace(GREEDY, **settings)
    assert generate_batch(Conditioned(model, SOURCE), prompts, config).rows() == wanted
    assert list(stream(Conditioned(model, [[5, 6, 7, 8]]), [1], config)) == wanted[0]
    assert model.training


@pytest.mark.parametrize("cache", ["none", "growing", "paged"])
def test_beams_of_an_encoder_decoder_keep_their_source(cache):
    model = small_transformer()
    config = GenerationConfig(max_new_tokens=4, num_beams=3, stop_tokens=2, cache=cache)
    together = beam_search(Conditioned(model, SOURCE), [[1]] * 3, config)
    model.eval()
    for i, beams in enumerate(together):
        assert len({beam.tokens for beam in beams}) == 3
        for beam in beams:
            with no_grad():
                logits = model(SOURCE[i : i + 1], tensor([[1, *beam.tokens]])).array[0]
            log_prob = sum(log_probabilities(logits[t])[token] for t, token in enumerate(beam.tokens))
            assert beam.log_prob == pytest.approx(log_prob, abs=1e-4)


def test_a_source_is_encoded_once_a_generation_and_again_after_training():
    model, calls = small_transformer(), []
    encode = model.encode
    model.encode = lambda *a, **k: calls.append(1) or encode(*a, **k)
    conditioned = Conditioned(model, SOURCE)
    before = generate_batch(conditioned, [[1]] * 3, GREEDY).rows()
    assert len(calls) == 1
    model.encoder.layers[0].attention.out_proj.weight.array[...] *= -5.0
    assert generate_batch(conditioned, [[1]] * 3, GREEDY).rows() != before and len(calls) == 2


def test_misuse_of_an_encoder_decoder_is_one_line():
    with pytest.raises(InputError, match="one prompt is needed for each source, got 2 and 3"):
        generate_batch(Conditioned(small_transformer(), SOURCE), [[1]] * 2, GREEDY)
    with pytest.raises(InputError, match="encode and decode, not a GPT"):
        stream(Conditioned(small_gpt(), SOURCE), [1])
    with pytest.raises(InputError, match=r"source must be ids \(B, S\)"):
        stream(Conditioned(small_transformer(), SOURCE[0]), [1])


@pytest.mark.parametrize("size", [2, 7, 65, 1003])
def test_rows_taken_together_are_as_each_alone(size: int) -> None:
    """The probabilities to the last bit; and the likeliest tokens, of equal ones the first."""
    rng = np.random.default_rng(size)
    logits = rng.normal(0, 9, (5, size)).astype(np.float32)
    logits[1, size // 2], logits[2, -1], logits[3] = -INF, INF, 2.0
    tokens = rng.integers(0, size, 5).tolist()
    alone = [float(log_probabilities(row)[token]) for row, token in zip(logits, tokens, strict=True)]
    assert log_probabilities_of(logits, tokens) == alone
    assert likeliest(logits, GREEDY) == [choose_next(row, (), GREEDY) for row in logits]
    for broken in (math.nan, -INF):
        logits[4] = broken
        assert likeliest(logits, GREEDY) is None, "the rows are to say what is wrong"


@pytest.mark.parametrize("rule", [{"temperature": 1.0}, {"repetition_penalty": 2.0}, {"no_repeat_ngram": 2}])
def test_the_largest_logits_alone_do_not_decide(rule: dict[str, float]) -> None:
    assert likeliest(np.zeros((2, 3)), dataclasses.replace(GREEDY, **rule)) is None


def test_memory_of_caches_is_taken_once_where_the_end_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Cache] = []

    def made(*arguments: Any) -> list[Cache]:
        found[:] = make_caches(*arguments)
        return found

    monkeypatch.setattr(steps, "make_caches", made)
    model = GPT(GPTConfig(vocab_size=5, context=40, layers=1, heads=1, channels=8))
    for count, room in ((20, 23), (1000, 40)):  # never more than the context
        for _ in itertools.islice(stream(model, [1, 2, 3], dataclasses.replace(GREEDY, max_new_tokens=count)), 4):
            assert isinstance(found[0], GrowingCache) and found[0].capacity == room

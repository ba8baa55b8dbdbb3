"""The claims of the examples that train something, each part that can be wrong held against arithmetic of its own."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import tinygrad_tf as tg
from tests.test_examples import load


def weights_by_hand(attention: Any, x: np.ndarray, is_causal: bool) -> np.ndarray:
    """softmax(q k^T / sqrt(D)) from the layer's own weights, (B, H, T, T)."""
    q, k = (
        x @ p.weight.detach().numpy().T + p.bias.detach().numpy() for p in (attention.query_proj, attention.key_proj)
    )
    q, k = (t.reshape(*t.shape[:2], attention.num_heads, -1).transpose(0, 2, 1, 3) for t in (q, k))
    scores = q @ k.transpose(0, 1, 3, 2) / math.sqrt(q.shape[-1])
    allowed = np.tri(*scores.shape[-2:], dtype=bool) if is_causal else np.ones(scores.shape[-2:], dtype=bool)
    exps = np.where(allowed, np.exp(scores), 0.0)
    return exps / exps.sum(-1, keepdims=True)


# --- warmup -----------------------------------------------------------------------------------------------------------


def test_walks_follow_their_table_and_their_losses_are_entropies() -> None:
    module = load("warmup")
    table, walks = module.followers(), module.walks(500, np.random.default_rng(0))
    assert (table[:, 0] != table[:, 1]).all()
    assert (table[walks[:, :-1]] == walks[:, 1:, None]).any(-1).all()
    chain = np.zeros((module.SYMBOLS, module.SYMBOLS))
    np.add.at(chain, (np.arange(module.SYMBOLS)[:, None], table), 0.5)
    now, seen = np.full(module.SYMBOLS, 1 / module.SYMBOLS), np.zeros(module.SYMBOLS)
    for _ in range(module.LENGTH):
        now = now @ chain
        seen += now / module.LENGTH
    entropy = -sum(p * math.log(p) for p in seen if p > 0)
    assert module.blind() == pytest.approx(entropy, abs=0.01)


def test_a_deep_post_norm_stack_goes_blind_and_a_pre_norm_one_does_not() -> None:
    module = load("warmup")
    post, pre = module.train(False, 0, steps=25), module.train(True, 0, steps=25)
    assert post.spreads[-1] < 0.05 * post.spreads[0] and pre.spreads[-1] > 0.5 * pre.spreads[0]
    assert post.gradients[-1] < 0.05 * post.gradients[0] and pre.gradients[-1] > 0.05 * pre.gradients[0]


# --- a pronoun, and a word with two meanings --------------------------------------------------------------------------


def test_sentences_mean_the_noun_that_fits_their_last_word() -> None:
    module = load("pronoun")
    found = module.sentences()
    assert len(found) == 2 * 8 * 8 * 6 and sum(s.held_out for s in found) == len(found) / 4
    assert len({" ".join(s.words) for s in found}) == len(found)
    for sentence in found:
        assert (sentence.meant in module.ANIMALS) == (sentence.words[-1] in module.OF_ANIMALS)
        assert sentence.meant in sentence.words and sentence.words.count("it") == 1
    trained = [s for s in found if not s.held_out]  # each word is trained, and half of the nouns meant stand first
    assert {w for s in trained for w in s.words} == set(module.WORDS)
    assert sum(s.words.index(s.meant) == 1 for s in found) == len(found) / 2


def test_weights_on_nouns_are_read_from_the_row_of_the_pronoun() -> None:
    module = load("pronoun")
    tg.manual_seed(3)
    model, chosen = module.Reader(), module.sentences()[:50]
    ids, _ = module.encode(chosen)
    first, second = model.blocks
    x = second.norm1(first(model.places(model.embed(ids)))).detach().numpy()
    by_hand, (meant, other) = weights_by_hand(second.attention, x, False)[:, 0], module.weights_on_nouns(model, chosen)
    at = [(i, s.words.index("it"), s.words.index(s.meant)) for i, s in enumerate(chosen)]
    assert meant == pytest.approx(np.mean([by_hand[place] for place in at]), rel=1e-5)
    assert other == pytest.approx(np.mean([by_hand[i, row, 7 - column] for i, row, column in at]), rel=1e-5)


def test_apple_is_one_vector_before_attention_and_two_after() -> None:
    module = load("two_meanings")
    model = module.train(40)
    fruit, company = (module.vectors(model, kind, "apple", after=False) for kind in module.MEANINGS)
    assert fruit.shape == (9, module.CHANNELS) and (fruit == fruit[0]).all() and (company == fruit[0]).all()
    assert (
        fruit[0] == (model.embed.weight[module.WORDS.index("apple")] + model.places.table[3]).detach().numpy()
    ).all()
    fruit, company = (module.vectors(model, kind, "apple") for kind in module.MEANINGS)
    between = np.linalg.norm(fruit.mean(0) - company.mean(0))
    assert between > 2 * max(np.linalg.norm(cloud - cloud.mean(0), axis=1).max() for cloud in (fruit, company))
    ids = module.IDS[:5]
    x = model.block.norm1(model.before(ids)).detach().numpy()
    assert np.allclose(
        module.NextWord.weights(model, ids), weights_by_hand(model.block.attention, x, True).mean(1), atol=1e-6
    )


# --- uniform attention ------------------------------------------------------------------------------------------------


def test_evenness_is_the_entropy_of_rows() -> None:
    module = load("uniform_attention")
    uniform = np.tri(module.LENGTH) / np.arange(1, module.LENGTH + 1)[:, None]
    assert module.evenness(uniform[None]) == pytest.approx(1)
    assert module.evenness(np.eye(module.LENGTH)[None]) == pytest.approx(0)
    pairs = (np.eye(module.LENGTH) + np.eye(module.LENGTH, k=-1)) / 2
    wanted = np.mean([math.log(2) / math.log(t + 1) for t in range(module.BACK, module.LENGTH)])
    assert module.evenness(pairs[None]) == pytest.approx(wanted)


def test_queries_and_keys_of_zero_stay_zero() -> None:
    module = load("uniform_attention")
    result = module.train(module.CASES["queries and keys start at zero"], steps=10)
    assert result.first == result.moved == 0.0 and result.evenness == pytest.approx(1) and result.last > 0.01


# --- norms and the feed-forward network -------------------------------------------------------------------------------


def test_only_real_tokens_of_the_asked_rows_count() -> None:
    module = load("layer_or_batch_norm")
    tg.manual_seed(0)
    model, random = module.NextSymbol("layer"), np.random.default_rng(0)
    ids = module.walks(np.array([3, 6]), random, width=9)
    assert ids.shape == (2, 9) and (ids[0, 3:] == module.PAD).all() and (ids[1, :6] < module.PAD).all()
    alone = [model.loss(ids[i : i + 1, :length]).item() for i, length in enumerate((3, 6))]
    assert model.loss(ids).item() == pytest.approx((2 * alone[0] + 5 * alone[1]) / 7, rel=1e-5)
    assert model.loss(ids, rows=1).item() == pytest.approx(alone[0], rel=1e-5)


@pytest.mark.parametrize(("norm", "moves"), [("layer", False), ("batch", True)])
def test_padding_moves_batch_norm_alone(norm: str, moves: bool) -> None:
    module = load("layer_or_batch_norm")
    tg.manual_seed(0)
    losses = module.by_padding(module.NextSymbol(norm), range(4, 25, 10))
    assert (np.ptp(losses) > 1e-3) == moves and (moves or np.ptp(losses) < 1e-5)


def test_the_best_sum_says_a_table_that_is_a_sum_and_no_other() -> None:
    module = load("feed_forward")
    module.SYMBOLS = 4
    module.ANSWERS = np.repeat(np.arange(4)[:, None], 4, axis=1)  # the answer is this symbol
    assert module.best_sum() < 0.01
    module.ANSWERS = np.add.outer(np.arange(4), np.arange(4)) % 4  # each answer as often in each row and column
    assert module.best_sum() == pytest.approx(math.log(4), abs=1e-6)


def test_the_network_works_at_each_position_alone() -> None:
    module = load("feed_forward")
    assert module.change_elsewhere() == 0.0
    with_, without = (module.Lookup(2, width) for width in (16, 0))
    assert sum(p.numel() for p in without.in_use()) == 2 * (4 * (32 * 32 + 32) + 2 * 32)
    assert sum(p.numel() for p in with_.in_use()) == sum(p.numel() for p in with_.blocks.parameters())


# --- exposure bias ----------------------------------------------------------------------------------------------------


def test_trips_go_round_and_a_perfect_writer_loses_only_what_slips() -> None:
    module = load("exposure_bias")
    first = np.arange(module.TOWNS)
    trips = module.trips(first)
    assert all(set(trip) == set(first) - {town} for town, trip in zip(first, trips, strict=True))
    after = dict(zip(first, trips[:, 0], strict=True))
    assert all(after[a] == b for trip in trips for a, b in pairwise(trip))
    slips = np.random.default_rng(0).random(trips.shape) < 0.3

    def by_the_last(first: tg.Tensor, stops: tg.Tensor) -> tg.Tensor:  # as teacher forcing teaches it
        last = np.where(stops.numpy()[:, -1] == module.START, first.numpy(), stops.numpy()[:, -1])
        return tg.tensor(np.eye(module.TOWNS)[[after[town] for town in last]][:, None])

    def by_the_first(first: tg.Tensor, stops: tg.Tensor) -> tg.Tensor:
        return tg.tensor(np.eye(module.TOWNS)[module.trips(first.numpy())[:, stops.shape[1] - 1]][:, None])

    assert ((module.write(by_the_first, first, slips) == trips) == ~slips).all()
    unharmed = module.write(by_the_last, first, slips) == trips
    assert (unharmed[:, 0] == ~slips[:, 0]).all() and unharmed[np.cumsum(slips, 1) == 0].all()
    assert not unharmed[np.cumsum(slips, 1) == 1].any()


def test_one_mistake_is_the_end_under_teacher_forcing() -> None:
    module = load("exposure_bias")
    shares = module.shares_right(module.train(None, steps=100), 100)
    assert shares["reading the truth"].min() > 0.9 and shares["one mistake"][:3].min() > 0.9
    assert shares["one mistake"][3:].max() < 0.3


# --- the causal mask --------------------------------------------------------------------------------------------------


def test_texts_keep_the_rule_and_chance_does_not() -> None:
    module, random = load("causal_mask"), np.random.default_rng(0)
    texts = module.texts(200, random)
    assert texts.shape == (200, module.LENGTH + 1) and module.allowed(texts) == 1.0
    pairs = {(a, b) for text in texts.tolist() for a, b in pairwise(text)}
    assert len(pairs) == 2 * module.SYMBOLS  # two followers each, both of which occur
    by_chance = module.allowed(random.integers(0, module.SYMBOLS, (2000, 11)))
    assert by_chance == pytest.approx(2 / module.SYMBOLS, abs=0.02)


def test_what_is_written_is_drawn_from_the_last_position() -> None:
    module = load("causal_mask")

    def sure(ids: tg.Tensor) -> tg.Tensor:  # the first follower, for certain; elsewhere nonsense
        logits = np.zeros((*ids.shape, module.SYMBOLS))
        logits[np.arange(len(ids)), -1, module.FOLLOWERS[ids.numpy()[:, -1], 0]] = 100.0
        return tg.tensor(logits)

    written = module.write(sure, 20)
    assert (written[:, 1:] == module.FOLLOWERS[written[:, :-1], 0]).all()


# --- activations ------------------------------------------------------------------------------------------------------


def test_gradients_of_layers_multiply() -> None:
    module = load("activations")
    tg.manual_seed(0)
    tg.randn(32, 64), tg.randn(32, 64)  # as in the example, before its weights
    largest = [np.linalg.norm(tg.randn(64, 64).numpy() / 8, 2) for _ in range(6)]
    assert module.through_layers(tg.sigmoid, 6) < 0.25**6 * np.prod(largest)
    assert module.through_layers(lambda x: x, 6) < np.prod(largest)
    assert module.through_layers(lambda x: x, 6) > 1e2 * module.through_layers(tg.sigmoid, 6)

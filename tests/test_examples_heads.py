"""The claims of the examples on heads, projections, reach and length, against numbers that are not theirs."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest

import tinygrad_tf as tg
from tests.test_examples import load
from tinygrad_tf import nn


def test_best_guess_without_order() -> None:
    """Over all 4096 draws of four symbols of eight, the commonest one is right for this share of the four."""
    draws = itertools.product(range(8), repeat=4)
    exact = sum(Counter(draw).most_common(1)[0][1] for draw in draws) / 4 / 8**4
    assert exact == pytest.approx(0.412, abs=0.001)
    assert load("one_head_or_several").best_without_order() == pytest.approx(exact, abs=0.005)


def test_questions_are_about_the_symbols_before() -> None:
    ids = np.arange(24).reshape(2, 12)
    wanted = load("one_head_or_several").answers(tg.tensor(ids), 3).numpy()
    for b, t, k in np.ndindex(2, 12, 3):
        assert wanted[b, t, k] == ids[b, (t - k - 1) % 12]


def test_heads_divide_the_same_parameters() -> None:
    module = load("one_head_or_several")
    models = [module.Asked(heads, 4) for heads in (1, 2, 4, 8)]
    assert len({sum(p.numel() for p in model.parameters()) for model in models}) == 1
    weights = models[2].weights(tg.randint(0, 8, (3, 12)))
    assert weights.shape == (4, 12, 12) and np.allclose(weights.sum(-1), 1, atol=1e-5)


def test_rows_have_one_capital_and_know_their_answers() -> None:
    module = load("heads_take_roles")
    ids, sources = module.rows(50, np.random.default_rng(0))
    wanted = module.wanted(ids, sources).numpy()
    for b, t in np.ndindex(ids.shape):
        capitals = [symbol for symbol in ids[b].tolist() if symbol >= module.LETTERS]
        assert wanted[b, t].tolist() == [ids[b, max(t - 1, 0)], ids[b, 0], *capitals]


def test_roles_are_read_off_the_weights() -> None:
    """Heads that look at one place for certain are found out, and silencing one costs what it alone knows."""
    module = load("heads_take_roles")
    model = module.Reader()

    def certain(ids: tg.Tensor) -> np.ndarray:
        weights = np.zeros((ids.shape[0], 3, module.LENGTH, module.LENGTH), dtype=np.float32)
        t = np.arange(module.LENGTH)
        weights[:, 0, t, 0] = 1  # the first letter
        weights[np.arange(len(ids)), 1, :, (ids.numpy() >= module.LETTERS).argmax(1)] = 1  # the capital
        weights[:, 2, t, np.maximum(t - 1, 0)] = 1  # the letter before
        return weights

    model.weights = certain
    looks = module.attention_to_answers(model)
    assert looks.argmax(1).tolist() == [1, 2, 0] and np.allclose(looks.max(1), 1)
    assert looks[0, 0] == pytest.approx(0.2)  # the first letter stands before two places of ten: the first and second
    before = model.attention.out_proj.weight.detach().numpy().copy()
    module.right(model, silenced=1)
    assert (model.attention.out_proj.weight.detach().numpy() == before).all()


def test_repeated_rows() -> None:
    module = load("two_layers_find_repeats")
    text, periods = module.rows(20, np.random.default_rng(0))
    for row, period in zip(text.tolist(), periods[:, 0].tolist(), strict=True):
        assert len(set(row[:period])) == period and row[period:] == row[: len(row) - period]


def test_finders_know_their_heads() -> None:
    module = load("two_layers_find_repeats")
    text, _ = module.rows(4, np.random.default_rng(0), period=8)
    ids, T = text[:, :-1], module.LENGTH
    t, weights = np.arange(T), np.zeros((4, 2, T, T))
    weights[:, 0, t, np.maximum(t - 1, 0)] = 1
    weights[:, 1, t, np.where(t >= 8, t - 7, 0)] = 1  # what followed the same symbol, eight places before
    assert module.looks_back(weights).tolist() == [1, 1 / 12]  # place 1 has but one place before it
    assert module.looks_behind_same(weights, ids).tolist() == [0, 1]


def test_a_query_that_is_its_key_cannot_prefer_its_left_neighbour() -> None:
    """However the vectors lie, one fails; with keys of their own all can."""
    module = load("one_projection_or_three")
    rng = np.random.default_rng(0)
    for size, length in itertools.product((1, 2, 5, 30), (3, 8, 20)):
        x = rng.standard_normal((200, length, size)) * np.exp(rng.standard_normal((200, length, 1)))
        assert max(module.at_the_left(one @ one.T) for one in x) < length
    # All but one can: neighbours alone have something in common, and each vector is shorter than the one at its left.
    common = np.eye(8) + np.eye(8, k=1)
    x = common * 0.3 ** np.arange(8)[:, None]
    assert module.at_the_left(x @ x.T) == 7
    query = np.roll(np.eye(8), -1, 1)
    assert module.at_the_left(query @ np.eye(8)) == 8


@pytest.mark.parametrize("kind, projections", [("three projections", 3), ("query = key", 2), ("one for all", 1)])
def test_shared_projections(kind: str, projections: int) -> None:
    module = load("one_projection_or_three")
    model = module.Ring(kind)
    query, key, value = model.heads_of(tg.randint(0, 8, (2, 8)))
    assert len(model.projections) == projections
    assert bool((query == key).all()) == (kind != "three projections")
    assert bool((key == value).all()) == (kind == "one for all")


def test_gradient_of_a_recurrent_layer_is_a_product_of_jacobians() -> None:
    """d h_T / d x_(T - k) = J_T J_(T-1) ... W, J_t = diag(1 - h_t^2) U, in plain NumPy."""
    module = load("gradient_reach")
    tg.manual_seed(0)
    layer, x = module.FromBehind("RNN", gain=1.0), tg.randn(1, 6, module.CHANNELS, requires_grad=True)
    direction = tg.randn(1, module.CHANNELS)
    (layer(x) * direction).sum().backward()
    rnn = layer.layer
    states = rnn(x)[0][0].detach().numpy().astype(np.float64)
    W, U = (p.detach().numpy().astype(np.float64) for p in (rnn.weight_ih_l0, rnn.weight_hh_l0))
    assert np.allclose(U @ U.T, np.eye(module.CHANNELS), atol=1e-5)  # a rotation
    g = direction[0].numpy().astype(np.float64)
    for t in reversed(range(6)):
        g = g * (1 - states[t] ** 2)
        assert np.allclose(x.grad[0, t].numpy(), g @ W, atol=1e-5)
        g = g @ U


def test_reach_counts_from_the_end() -> None:
    sizes = load("gradient_reach").reach("RNN", None, None, length=12)
    assert sizes.shape == (12,) and (np.diff(sizes) < 0).all()


def test_dictionaries_answer_as_python_does() -> None:
    module = load("soft_dictionary")
    keys, values, questions, answers = (t.tolist() for t in module.dictionaries(30, np.random.default_rng(0)))
    for row in zip(keys, values, questions, answers, strict=True):
        known = dict(zip(row[0], row[1], strict=True))
        assert len(known) == module.ENTRIES and [known[word] for word in row[2]] == row[3]
        assert sorted(row[0]) == sorted(row[2])


def test_soft_and_hard_weights_by_hand() -> None:
    module = load("soft_dictionary")
    tg.manual_seed(0)
    soft, keys = module.Dictionary(), tg.tensor([[3, 1, 4]])
    asked = soft.words(tg.tensor([[1, 4]]))
    e, ask = (t.detach().numpy().astype(np.float64) for t in (soft.words(keys)[0], asked[0]))
    (Wq, bq), (Wk, bk) = (
        (p.weight.detach().numpy(), p.bias.detach().numpy()) for p in (soft.query_proj, soft.key_proj)
    )
    scores = (ask @ Wq.T + bq) @ (e @ Wk.T + bk).T / math.sqrt(module.CHANNELS)
    powers = np.exp(scores)
    assert np.allclose(soft.weights(asked, keys)[0].detach().numpy(), powers / powers.sum(1, keepdims=True), atol=1e-5)
    soft.hard = True
    assert (soft.weights(asked, keys)[0].numpy() == np.eye(3)[scores.argmax(1)]).all()


def test_the_decoder_reads_what_it_wrote() -> None:
    module = load("fixed_length_bottleneck")
    assert module.behind_start(tg.tensor([[3, 1, 4], [1, 5, 2]])).tolist() == [[8, 3, 1], [8, 1, 5]]
    for attention in (False, True):
        model, source = module.Copier(attention), tg.randint(0, 8, (2, 5))
        logits, weights = model(source, module.behind_start(source))
        assert logits.shape == (2, 5, 8) and len(weights) == (5 if attention else 0)
        assert all(np.allclose(w.sum(-1), 1, atol=1e-5) for w in weights)


def test_without_attention_the_decoder_knows_the_last_state_alone() -> None:
    """Its gradient with respect to the encoder's states is zero but for the last; with attention it is nowhere zero."""
    module = load("fixed_length_bottleneck")
    for attention in (False, True):
        tg.manual_seed(0)
        model, source = module.Copier(attention), tg.randint(0, 8, (1, 5))
        states, _ = model.encoder(model.embed(source))
        states = states.detach().requires_grad_()
        model.encoder.forward = lambda _, states=states: (states, states[:, -1:].transpose(0, 1))
        model(source, module.behind_start(source))[0].sum().backward()
        reached = (states.grad.abs().sum(-1) > 0)[0].tolist()
        assert reached == ([True] * 5 if attention else [False] * 4 + [True])


def test_losses_are_of_the_letters_that_follow() -> None:
    module = load("beyond_training_length")
    tg.manual_seed(0)
    model = module.GPT(module.GPTConfig(7, context=10, layers=1, heads=1, channels=8))
    text = module.pieces(np.arange(100) % 7, 9, 4, np.random.default_rng(0))
    assert text.shape == (4, 10) and ((text[:, 1:] - text[:, :-1]) % 7 == 1).all()
    each, logits = module.losses(model, text), model(text[:, :-1]).detach().numpy().astype(np.float64)
    chances = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    b, t = np.indices((4, 9))
    assert np.allclose(each, -np.log(chances[b, t, text[:, 1:].numpy()]), atol=1e-5)


def test_the_same_letters_are_compared() -> None:
    """A model that sees no further than its last letters does the same with all the text and with the end of it."""
    module = load("beyond_training_length")
    module.TRAINED = 16
    settings = {"attention": "local", "window": 8, "positions": "rope"}
    tg.manual_seed(0)
    model = module.GPT(module.GPTConfig(7, context=40, layers=2, heads=1, channels=8, **settings))
    text = tg.randint(0, 7, (8, 41))
    whole, cut = module.all_or_the_last(model, text)
    assert whole == pytest.approx(cut, abs=1e-5)


def test_alibi_is_the_same_at_every_place() -> None:
    """Its bias depends on the distance alone, whatever the length: nothing in a longer text is new to a score."""
    short, long = (nn.AlibiPositions(4).bias(n, n).numpy() for n in (16, 64))
    assert np.allclose(short, long[:, 48:, 48:]) and np.allclose(short, long[:, :16, :16])


def test_what_depends_on_what_when_heads_are_wrongly_split() -> None:
    """Row n of (T H, D) belongs to position n // H; cut at once, it becomes row n % T of head n // T."""
    module, T, H = load("heads_as_shapes"), 6, 2
    both, split_alone = (np.zeros((T, T), dtype=bool) for _ in range(2))
    for n, m in itertools.product(range(T * H), repeat=2):
        if n // T == m // T and m % T <= n % T:  # the same head, and no later row of it
            both[n // H, m // H] = True
            split_alone[n % T, m // H] = True
    assert (module.dependence(module.split, module.merge) == np.tri(T, dtype=bool)).all()
    assert (module.dependence(module.split_wrongly, module.merge_wrongly) == both).all()
    assert (module.dependence(module.split_wrongly, module.merge) == split_alone).all()


def test_scores_of_plain_numbers_lie_on_a_line() -> None:
    """Whatever the weights: the score of a key is linear in its number, and so highest at one end."""
    module = load("positions")
    for seed, (positions, straight) in itertools.product(range(3), (("numbers", True), ("added", False))):
        tg.manual_seed(seed)
        model, seen = module.Reverser(positions), []
        model.attention.forward = lambda x, seen=seen: seen.append(x) or x
        model(tg.zeros(1, 8, dtype=tg.int64))
        x = seen[0]
        query, key = (x @ w.weight.T for w in (model.attention.query_proj, model.attention.key_proj))
        scores = (query @ key.transpose(1, 2))[0].detach().numpy().astype(np.float64)
        bend = np.abs(np.diff(scores, 2, axis=1)).max() / np.abs(scores).max()
        assert (bend < 1e-5) == straight
        assert not straight or set(scores.argmax(1)) <= {0, 7}


def test_scores_that_train_have_variance_one() -> None:
    """What the training of why_sqrt_dk starts with: queries, keys and divided scores of variance 1."""
    module, divisors = load("why_sqrt_dk"), []
    kept = module.F.scaled_dot_product_attention

    def watch(query: tg.Tensor, key: tg.Tensor, value: tg.Tensor, scale: float) -> tg.Tensor:
        products = (query @ key.transpose(1, 2)).detach().numpy()
        divisors.append((query.detach().numpy().var(), key.detach().numpy().var(), (products * scale).std()))
        return kept(query, key, value, scale=scale)

    module.F = type(
        "Watched", (), {"scaled_dot_product_attention": staticmethod(watch), "cross_entropy": module.F.cross_entropy}
    )
    module.train(128**0.5, steps=1)
    assert np.allclose(divisors[0], 1, atol=0.35)


def test_steps_that_wait_for_one_another() -> None:
    assert load("cost_of_attention").steps_in_a_row(1000) == {"attention": 2, "RNN": 1000}

"""Pairs of sequences: their batches, the loop that trains an encoder-decoder on them, and the two tasks that prove it.

The examples translate_dates.py and reverse_strings.py are the long form: 99 % of unseen pairs right to the last
character. tests/test_documents.py runs both in small.
"""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pytest

import tinygrad_tf as tg
from tests.test_examples import load
from tests.test_training import same, weights
from tinygrad_tf.models import Transformer, TransformerConfig
from tinygrad_tf.training import PairConfig, PairTrainer, answers, exact_matches, shift_right
from tinygrad_tf.utils.data.pairs import (
    END,
    PAD,
    START,
    PairTokenizer,
    batches_by_length,
    pad_rows,
    pair_batch,
)
from tinygrad_tf.utils.errors import InputError

V = 9


def make_pairs(count: int = 40, seed: int = 0) -> list[tuple[list[int], list[int]]]:
    """Rows of two to five tokens, and the same rows backwards."""
    rng = np.random.default_rng(seed)
    rows = [rng.integers(3, V, rng.integers(2, 6)).tolist() for _ in range(count)]
    return [(row, row[::-1]) for row in rows]


def make_model(**changes: Any) -> Transformer:
    tg.manual_seed(0)
    sizes: dict[str, Any] = {"d_model": 16, "num_heads": 2, "d_ff": 32, "encoder_layers": 1, "decoder_layers": 1}
    settings = {"vocab_size": V, "dropout": 0.0, "norm_first": True, "pad": PAD, **sizes, **changes}
    return Transformer(TransformerConfig(**settings))


def make_trainer(model: Any = None, teacher: Any = None, **changes: Any) -> PairTrainer:
    config = PairConfig(**{"steps": 8, "batch": 8, "warmup": 2, **changes})
    return PairTrainer(config, model or make_model(), make_pairs(), teacher)


# --- batches ----------------------------------------------------------------------------------------------------------


def test_what_is_read_and_what_is_to_be_said() -> None:
    batch = pair_batch([[5, 6, 7], [8]], [[7, 6], [8, 8, 8]])
    assert batch.source.tolist() == [[5, 6, 7], [8, PAD, PAD]]
    assert batch.inputs.tolist() == [[START, 7, 6, PAD], [START, 8, 8, 8]]
    assert batch.targets.tolist() == [[7, 6, END, PAD], [8, 8, 8, END]]
    assert batch.tokens == 7
    assert (shift_right(tg.tensor(batch.targets), START).array[1] == batch.inputs[1]).all()
    assert pad_rows([]).shape == (0, 0)
    with pytest.raises(InputError, match="as many sources as targets are needed, got 1 and 0"):
        pair_batch([[3]], [])


def test_texts_and_their_ids() -> None:
    tokenizer = PairTokenizer("12-a")
    ids = tokenizer.encode("a-1")
    assert min(ids) == 3 and len(tokenizer) == 7
    assert tokenizer.decode([START, *ids, END, *ids, PAD]) == "a-1"
    with pytest.raises(InputError, match="the source: 'x'"):
        tokenizer.encode("x", "the source")


@pytest.mark.parametrize("pool", [1, 2, 50])
def test_an_epoch_takes_every_pair_once_and_pads_less_when_it_sorts(pool: int) -> None:
    lengths = np.random.default_rng(0).integers(1, 60, (500, 2))
    batches = list(batches_by_length(lengths, 16, np.random.default_rng(1), pool))
    assert sorted(np.concatenate(batches).tolist()) == list(range(500))
    assert sorted(map(len, batches))[1:] == [16] * 31
    padding = sum(int((lengths[b, 0].max() - lengths[b, 0]).sum()) for b in batches) / lengths[:, 0].sum()
    assert (padding > 0.5) if pool == 1 else padding < {2: 0.6, 50: 0.1}[pool]
    again = list(batches_by_length(lengths, 16, np.random.default_rng(2), pool))
    assert [b.tolist() for b in again] != [b.tolist() for b in batches]
    firsts = [int(lengths[b, 0].max()) for b in batches]
    assert firsts != sorted(firsts)
    with pytest.raises(InputError, match="batch and pool must be at least 1, got 0 and 1"):
        next(batches_by_length(lengths, 0, np.random.default_rng(0), 1))


# --- the loop ---------------------------------------------------------------------------------------------------------


def test_the_loss_of_a_batch_is_that_of_its_parts() -> None:
    found = []
    for micro in (None, 3):
        trainer = make_trainer(make_model().double(), micro_batch=micro, learning_rate=1e-3)
        found.append(([r.loss for r in trainer.train()], weights(trainer)))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-12)
    assert all(np.allclose(a, found[1][1][name], rtol=0, atol=1e-9) for name, a in found[0][1].items())


def test_label_smoothing_and_padding_by_hand() -> None:
    trainer = make_trainer(label_smoothing=0.2)
    batch = pair_batch([[5, 6, 7], [8]], [[7, 6], [8, 8, 8]])
    logits = trainer.model(tg.tensor(batch.source), tg.tensor(batch.inputs)).detach().numpy().astype(np.float64)
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    losses = [
        -(0.8 * log_p[b, t, target] + 0.2 * log_p[b, t].mean())
        for b, row in enumerate(batch.targets)
        for t, target in enumerate(row)
        if target != PAD
    ]
    assert trainer.loss(batch).item() == pytest.approx(np.mean(losses), rel=1e-5)


@pytest.mark.parametrize("stop", [1, 5, 7])
def test_a_resumed_loop_is_the_same_bit_for_bit(stop: int) -> None:
    """Also in the middle of an epoch of five batches, with dropout and scheduled sampling."""

    def make() -> PairTrainer:
        return make_trainer(make_model(dropout=0.2), lambda step: 0.5, batch=9)

    whole = make()
    expected = [r.loss for r in whole.train()]
    first, second = make(), make()
    steps = first.train()
    for _ in range(stop):
        next(steps)
    second.load_state(first.state())
    assert [r.loss for r in second.train()] == expected[stop:]
    assert same(weights(second), weights(whole))


def test_the_decoder_reads_its_own_tokens_as_often_as_the_teacher_says() -> None:
    trainer = make_trainer(teacher=lambda step: 1.0 if step < 4 else 0.0)
    plain = make_trainer()
    records, others = list(trainer.train()), list(plain.train())
    assert [r.teacher_share for r in records] == [1.0] * 4 + [0.0] * 4
    assert [r.loss for r in records[:4]] == [r.loss for r in others[:4]]
    assert records[4].loss != others[4].loss
    trainer.step = 7
    batch = pair_batch(*zip(*make_pairs(6), strict=True))
    seen: list[Any] = []
    real = trainer.model.loss
    trainer.model.loss = lambda source, inputs, *rest: seen.append(inputs.array) or real(source, inputs, *rest)
    trainer.loss(batch)
    memory = trainer.model.encode(tg.tensor(batch.source))
    mask = trainer.model.source_mask(tg.tensor(batch.source))
    own = trainer.model.decode(tg.tensor(batch.inputs), memory, mask).argmax(-1).array
    wanted = np.where(batch.inputs[:, 1:] == PAD, PAD, own[:, :-1])
    assert (seen[0][:, 1:] == wanted).all() and (seen[0][:, 0] == START).all()


def test_it_learns_and_answers() -> None:
    model = make_model(d_model=32)
    assert exact_matches(model, make_pairs(30)) < 0.2
    config = PairConfig(steps=150, batch=32, learning_rate=1e-2, warmup=20, schedule="linear")
    records = list(PairTrainer(config, model, make_pairs(600, seed=1)).train())
    assert records[0].loss > 2.0 and records[-1].loss < 1.0
    held = make_pairs(30, seed=9)
    right = exact_matches(model, held)
    assert right > 0.5
    found = answers(model, [source for source, _ in held], 10, batch=7)
    alone = [answers(model, [source], 10)[0] for source, _ in held]
    assert found == alone  # in the order of the sources, whatever they were batched with
    assert np.mean([a == t for a, (_, t) in zip(found, held, strict=True)]) == right
    assert all(END not in answer for answer in found)
    assert answers(model, [[3, 4]], longest=1)[0][:1] == answers(model, [[3, 4]], longest=9)[0][:1]


def test_where_the_decoder_looked() -> None:
    """The weights are those that the model uses: without a key its value cannot matter."""
    model = make_model(decoder_layers=2, dropout=0.5)
    source, target = tg.tensor([[5, 6, 7], [8, 4, PAD]]), tg.tensor([[START, 7], [START, 8]])
    seen = model.cross_attention_weights(source, target)
    assert len(seen) == 2 and tuple(seen[0].shape) == (2, 2, 2, 3) and not seen[0].requires_grad
    assert model.training
    for w in seen:
        assert np.allclose(w.numpy().sum(-1), 1.0, atol=1e-6)  # no dropout
        assert (w.numpy()[1, :, :, 2] == 0.0).all() and (w.numpy()[0] > 0).all()
    model.eval()
    layer = model.decoder.layers[0]
    mask = model.source_mask(source)
    memory = model.encode(source)
    x = model._embed(model.target_embedding, target)
    x = x + layer.attention(layer.norm1(x), is_causal=True)
    _, weights_by_hand = layer.cross_attention(layer.norm2(x), memory, mask=mask, need_weights=True)
    assert np.allclose(seen[0].numpy(), weights_by_hand.detach().numpy(), atol=1e-6)


# --- the tasks' data --------------------------------------------------------------------------------------------------


def test_dates_are_written_in_many_ways_that_can_all_be_read() -> None:
    module = load("translate_dates")
    pairs = module.make_pairs(2000)
    assert len({target for _, target in pairs}) == 2000 and len(module.FORMATS) >= 20
    assert pairs != module.make_pairs(2000, seed=1) and pairs == module.make_pairs(2000)
    day = datetime.date(1999, 3, 2)
    forms = [module.written(day, form) for form in module.FORMATS]
    assert len(set(forms)) == len(forms)
    assert {"2 March 1999", "Tuesday, March 2, 1999", "the 2nd of March 1999", "19990302", "03/02/99"} <= set(forms)
    endings = [module.written(datetime.date(2001, 1, n), "{th}") for n in (1, 2, 3, 4, 11, 12, 13, 21, 22, 23, 30, 31)]
    assert endings == ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "22nd", "23rd", "30th", "31st"]
    meanings: dict[str, str] = {}
    for form in module.FORMATS:  # no text may mean two days
        for offset in range(0, 3650, 7):
            day = datetime.date(1995, 1, 1) + datetime.timedelta(days=offset)
            text = module.written(day, form)
            assert meanings.setdefault(text, day.isoformat()) == day.isoformat(), text


def test_strings_are_different_and_reversed() -> None:
    pairs = load("reverse_strings").make_pairs(500, 12)
    assert len({source for source, _ in pairs}) == 500
    assert all(target == source[::-1] and 3 <= len(source) <= 12 for source, target in pairs)


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"steps": 0}, "steps must be a whole number of at least 1, got 0"),
        ({"batch": 2.0}, "batch must be a whole number of at least 1, got 2.0"),
        ({"micro_batch": 0}, "micro_batch must be a whole number of at least 1, got 0"),
        ({"learning_rate": -1.0}, "learning_rate must be at least 0 and finite"),
        ({"label_smoothing": 1.0}, r"label_smoothing must be in \[0, 1\), got 1.0"),
        ({"schedule": "sine"}, "schedule must be one of cosine, noam, linear, constant; got 'sine'"),
        ({"precision": "int8"}, "precision must be one of float32, bfloat16, float16; got 'int8'"),
    ],
)
def test_unusable_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=f"PairConfig: {message}"):
        PairConfig(**settings)


def test_unusable_pairs_and_models() -> None:
    with pytest.raises(InputError, match="there are no pairs to learn from"):
        PairTrainer(PairConfig(), make_model(), [])
    with pytest.raises(InputError, match="must have pad=0 in its config, got None"):
        PairTrainer(PairConfig(), make_model(pad=None), make_pairs())
    with pytest.raises(InputError, match="there are no pairs"):
        exact_matches(make_model(), [])

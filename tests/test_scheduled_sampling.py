"""What a decoder reads: its teacher's tokens, or its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinygrad_tf as tg
from tinygrad_tf.models import Transformer, TransformerConfig
from tinygrad_tf.training import mixed_inputs, shift_right, teacher_share

V = 12


def successor(ids: tg.Tensor) -> tg.Tensor:
    """A decoder that expects t + 1 behind t, whatever came before."""
    return tg.tensor(np.eye(V)[(ids.array + 1) % V])


def truth(B: int = 200, T: int = 9) -> tg.Tensor:
    return tg.tensor(np.random.default_rng(3).integers(2, V, (B, T)))


@pytest.mark.parametrize("method", ["parallel", "sequential"])
def test_the_share_decides_how_many_tokens_are_the_teachers(method: str) -> None:
    inputs, random = truth(), np.random.default_rng(0)
    assert (mixed_inputs(successor, inputs, 1.0, random, method=method).array == inputs.array).all()
    for share in (0.25, 0.8):
        mixed = mixed_inputs(successor, inputs, share, random, method=method).array
        before = inputs.array if method == "parallel" else mixed
        own = np.concatenate([inputs.array[:, :1], (before[:, :-1] + 1) % V], axis=1)
        teachers = mixed == inputs.array
        assert ((mixed == own) | teachers).all() and (mixed[:, 0] == inputs.array[:, 0]).all()
        by_chance = (own == inputs.array)[:, 1:].mean()
        expected = share + (1 - share) * by_chance
        assert abs(teachers[:, 1:].mean() - expected) < 4 * (0.25 / teachers[:, 1:].size) ** 0.5


def test_more_passes_come_nearer_to_writing_token_by_token() -> None:
    inputs, random = truth(1, 6), np.random.default_rng(0)
    alone = mixed_inputs(successor, inputs, 0.0, random, method="sequential").array
    agreement = [
        int((mixed_inputs(successor, inputs, 0.0, random, passes=n).array == alone).sum()) for n in range(1, 6)
    ]
    assert agreement == [2, 3, 4, 5, 6]  # each pass gets one more token behind the right beginning


def test_padding_stays_and_the_inputs_are_left_alone() -> None:
    array = np.array([[1, 7, 0, 0], [1, 5, 6, 0]])
    mixed = mixed_inputs(successor, tg.tensor(array), 0.0, np.random.default_rng(0), pad=0).array
    assert mixed.tolist() == [[1, 2, 0, 0], [1, 2, 6, 0]]
    given = tg.tensor(array)
    mixed_inputs(successor, given, 0.0, np.random.default_rng(0), method="sequential")
    assert (given.array == array).all()


def test_tokens_are_drawn_by_their_probabilities() -> None:
    chances = np.array([0.0, 0.0, 0.5, 0.3, 0.2])

    def decode(ids: tg.Tensor) -> tg.Tensor:
        with np.errstate(divide="ignore"):
            return tg.tensor(np.log(np.broadcast_to(chances, (*ids.shape, 5))))

    start = tg.tensor(np.ones((4000, 2), np.int64))
    drawn = mixed_inputs(decode, start, 0.0, np.random.default_rng(0), temperature=1.0).array[:, 1]
    assert np.abs(np.bincount(drawn, minlength=5) / 4000 - chances).max() < 0.03
    sharper = chances**2 / (chances**2).sum()
    drawn = mixed_inputs(decode, start, 0.0, np.random.default_rng(0), temperature=0.5).array[:, 1]
    assert np.abs(np.bincount(drawn, minlength=5) / 4000 - sharper).max() < 0.03


def test_nothing_is_recorded_and_a_transformer_reads_what_it_wrote() -> None:
    tg.manual_seed(0)
    sizes = {"d_model": 16, "num_heads": 2, "d_ff": 32, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0}
    model = Transformer(TransformerConfig(vocab_size=V, **sizes))
    source, inputs = truth(3, 5), shift_right(truth(3, 7), start=1)
    memory = model.encode(source)

    def decode(ids: tg.Tensor) -> tg.Tensor:
        return model.decode(ids, memory)

    mixed = mixed_inputs(decode, inputs, 0.0, np.random.default_rng(0), method="sequential")
    assert not mixed.requires_grad and memory.requires_grad
    written = decode(mixed).argmax(-1).array
    assert (mixed.array[:, 1:] == written[:, :-1]).all() and (mixed.array[:, 0] == 1).all()


def test_shares_by_step() -> None:
    """Bengio et al., 2015, section 2.4, in its own formulas."""
    steps = np.arange(0, 2000, 50)
    assert np.allclose([teacher_share(i, "exponential", 0.999) for i in steps], 0.999**steps)
    assert np.allclose([teacher_share(i, "inverse_sigmoid", 200) for i in steps], 200 / (200 + np.exp(steps / 200)))
    assert teacher_share(10**9, "inverse_sigmoid", 1) == pytest.approx(0.0, abs=1e-300)
    assert teacher_share(10**9, "exponential", 0.9, floor=0.2) == 0.2


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: teacher_share(0, "cosine", 1.0), "kind must be one of linear, exponential, inverse_sigmoid"),
        (lambda: teacher_share(0, "exponential", 1.5), "k must be between 0 and 1 for kind='exponential', got 1.5"),
        (lambda: teacher_share(0, "inverse_sigmoid", 0.5), "k must be at least 1"),
        (lambda: teacher_share(0, "linear", 0), "k must be above 0"),
        (lambda: teacher_share(0, "linear", 4, floor=2.0), r"floor must be in \[0, 1\], got 2.0"),
        (lambda: shift_right(tg.zeros(3), 1), r"targets must be ids \(B, T\), got float32 of the shape \(3,\)"),
        (lambda: mix(share=1.5), r"share must be in \[0, 1\], got 1.5"),
        (lambda: mix(method="random"), "method must be one of parallel, sequential; got 'random'"),
        (lambda: mix(passes=0), "passes must be at least 1"),
        (lambda: mix(passes=2, method="sequential"), "and 1 for method='sequential', got 2"),
        (lambda: mix(temperature=-1.0), "temperature must be at least 0, got -1.0"),
        (lambda: mix(inputs=tg.zeros(2, 3)), r"inputs must be ids \(B, T\), got float32"),
    ],
)
def test_misuse_is_told(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def mix(inputs: tg.Tensor | None = None, share: float = 0.0, **settings: Any) -> tg.Tensor:
    given = truth(2, 3) if inputs is None else inputs
    return mixed_inputs(successor, given, share, np.random.default_rng(0), **settings)

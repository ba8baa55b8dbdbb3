"""The small form of tests/bands.py: every part that models know trains to a loss in its band."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinygrad_tf as tg
from tests import bands
from tinygrad_tf.models import GPT, GPTConfig
from tinygrad_tf.nn import MultiHeadAttention, RotaryPositions
from tinygrad_tf.nn.blocks import ATTENTIONS, FEED_FORWARDS, NORMS
from tinygrad_tf.nn.position import POSITIONS


def test_every_part_has_a_band_and_every_band_a_part() -> None:
    assert set(bands.BANDS) == set(bands.cases())
    assert len(bands.BANDS) >= len(ATTENTIONS) + len(POSITIONS) + len(NORMS) + len(FEED_FORWARDS)
    assert all(low < high for both in bands.BANDS.values() for low, high in both)
    with pytest.raises(LookupError, match="norm new has no band: measure it"):
        bands.band("norm new", bands.SMALL)


@pytest.mark.parametrize("name", bands.cases())
def test_it_trains_to_a_loss_in_its_band(name: str) -> None:
    low, high = bands.band(name, bands.SMALL)
    assert low <= bands.loss_of(bands.cases()[name], bands.SMALL) <= high


def test_attention_that_does_nothing_falls_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(self: Any, q: tg.Tensor, *_: Any) -> tg.Tensor:
        return q * 0.0

    monkeypatch.setattr(MultiHeadAttention, "attend", nothing)
    loss = bands.loss_of({}, bands.SMALL, seed=99)  # a seed that no other test has in the cache
    assert loss > bands.band("attention full", bands.SMALL)[1]


def test_rotations_that_do_not_turn_fall_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RotaryPositions, "rotate", lambda self, x, start=0: x)
    loss = bands.loss_of({"positions": "rope"}, bands.SMALL, seed=99)
    assert loss > bands.band("positions rope", bands.SMALL)[1]


def test_the_text_is_the_same_everywhere() -> None:
    text = bands.text(6)
    assert text.split()[0] == "stop" and set(text.split()) <= set(bands.WORDS.split())
    assert text == "stop dog spot seat mate veil"
    anagrams = {"".join(sorted(word)) for word in bands.WORDS.split()}
    assert len(anagrams) < len(bands.WORDS.split()) / 2


def test_the_command_tells_what_is_outside(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert bands.main(["--small", "norm rms"]) == 0
    monkeypatch.setitem(bands.BANDS, "norm rms", ((0.0, 0.1), (0.0, 0.1)))
    assert bands.main(["--small", "norm rms"]) == 1
    assert capsys.readouterr().out.count("OUTSIDE") == 1


def test_sinusoids_do_not_drown_the_words() -> None:
    """They are of size 1, and a GPT's embeddings start at 0.02: they are scaled up, unless told otherwise."""
    sizes: dict[str, Any] = {"vocab_size": 9, "context": 8, "layers": 1, "heads": 2, "channels": 64}
    tg.manual_seed(0)
    seen = {}
    for scale in (None, True, False):
        model = GPT(GPTConfig(**sizes, positions="sinusoidal", scale_embeddings=scale))
        model.position_embedding.register_forward_pre_hook(lambda _, args, scale=scale: seen.update({scale: args[0]}))
        model(tg.tensor([[1, 2, 3]]))
    spread = {scale: float(np.std(x.detach().numpy())) for scale, x in seen.items()}
    assert spread[None] == pytest.approx(0.16, rel=0.3) and spread[True] == pytest.approx(0.16, rel=0.3)
    assert spread[False] == pytest.approx(0.02, rel=0.3)
    assert not GPT(GPTConfig(**sizes)).scales_embeddings

"""Whole models: parts by name, sizes, masks, caches, and that they can learn; recurrent layers beside them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinygrad_tf as tg
from tests.test_attention_variants import ListCache, close
from tinygrad_tf import Tensor, models, nn, optim

SIZES: dict[str, Any] = {"vocab_size": 11, "d_model": 16, "num_heads": 4, "d_ff": 24, "max_len": 12}
STACKS: dict[str, Any] = {"encoder_layers": 2, "decoder_layers": 2, "dropout": 0.0}


def transformer(**changes: Any) -> models.Transformer:
    tg.manual_seed(0)
    return models.Transformer(models.TransformerConfig(**{**SIZES, **STACKS, **changes})).double()


def gpt(kind: type[models.GPTConfig] = models.GPTConfig, **changes: Any) -> models.GPT:
    tg.manual_seed(0)
    sizes = {"vocab_size": 11, "context": 12, "layers": 2, "heads": 4, "channels": 16}
    config = kind(**{**sizes, **changes})
    model = (models.ModernDecoder if kind is models.ModernDecoderConfig else models.GPT)(config).double()
    for parameter in model.parameters():
        parameter.data = parameter.data * 5.0  # far enough from 0 that everything matters
    return model


def ids(*shape: int, seed: int = 0) -> Tensor:
    return tg.tensor(np.random.default_rng(seed).integers(1, 11, size=shape))


# --- the paper's model ------------------------------------------------------------------------------------------------


@cache
def base_model() -> models.Transformer:
    """All layers of the paper's base model, on a small vocabulary."""
    tg.manual_seed(0)
    return models.Transformer(models.TransformerConfig.base(vocab_size=50, pad=0))


def test_the_base_model_has_the_papers_size() -> None:
    """About 65 million parameters (table 3), with the shared vocabulary of 37,000 (section 5.1)."""
    config = models.TransformerConfig.base()
    assert (config.encoder_layers, config.decoder_layers, config.d_model, config.num_heads) == (6, 6, 512, 8)
    assert config.d_ff == 2048 and config.dropout == 0.1 and not config.norm_first and config.vocab_size == 37_000
    model = base_model()
    attention, feed_forward = model.encoder.layers[0].attention, model.encoder.layers[0].feed_forward
    assert tuple(attention.split_heads(tg.zeros(2, 10, 512)).shape) == (2, 8, 10, 64)
    assert model.lm_head.weight is model.source_embedding.weight is model.target_embedding.weight
    layers = sum(p.numel() for part in (model.encoder, model.decoder) for p in part.parameters())
    assert model.num_parameters == layers + 50 * 512
    assert round((layers + 37_000 * 512) / 1e6, 1) == 63.1 and round((65e6 - layers) / 512, -2) == 40_700
    told = models.TransformerConfig.base.__doc__ or ""
    parts = (attention, feed_forward, model.encoder.layers[0], model.decoder.layers[0], model.encoder.layers[0].norm1)
    for number in (layers, *(sum(p.numel() for p in part.parameters()) for part in parts)):
        assert f"{number:,}" in told


def test_the_base_model_trains_a_step() -> None:
    """The loss falls, and every weight has a gradient."""
    model = base_model()
    source, target = ids(2, 5), ids(2, 5, seed=1)
    optimizer = optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9)
    model.eval()  # dropout would make two losses differ by chance
    before = model.loss(source, target[:, :-1], target[:, 1:], label_smoothing=0.1)
    before.backward()
    assert all(p.grad is not None and p.grad.array.any() for p in model.parameters())
    optimizer.step()
    after = model.loss(source, target[:, :-1], target[:, 1:], label_smoothing=0.1)
    assert after.item() < before.item() - 0.1 and 3.0 < before.item() < 6.0


def test_encode_and_decode_are_the_two_halves() -> None:
    model = transformer(pad=0)
    source = tg.tensor([[5, 6, 7, 0], [8, 9, 1, 2]])
    target, mask = ids(2, 3), nn.padding_mask(source, pad=0)
    whole = model(source, target)
    close(model.decode(target, model.encode(source, mask), mask), whole)
    close(model(source[:1, :3], target[:1]), whole[:1])  # padding changes nothing
    assert tuple(whole.shape) == (2, 3, 11)


def test_embeddings_are_scaled_and_positions_added() -> None:
    model = transformer()
    source = tg.tensor([[3, 4]])
    wanted = model.source_embedding.weight[source] * 4.0 + model.position_embedding.table[:2]
    close(model._embed(model.source_embedding, source), wanted)


POSITIONS = ("sinusoidal", "learned", "relative", "rope", "alibi", "none")
CHOICES = [
    *({"positions": name} for name in POSITIONS),
    *({"norm": name} for name in ("rms", "none")),
    *({"activation": name} for name in ("gelu", "gelu_tanh", "silu", "swiglu", "geglu")),
    *({"attention": name, "window": 3, "block_size": 2} for name in ("local", "block_sparse", "linear", "additive")),
    {"norm_first": True},
    {"num_kv_heads": 2, "bias": False},
]


@pytest.mark.parametrize("choice", CHOICES, ids=str)
def test_the_decoder_sees_no_future_and_goes_on_from_a_cache(choice: dict[str, Any]) -> None:
    model = transformer(**choice)
    source, target = ids(2, 5), ids(2, 7, seed=1)
    whole = model(source, target)
    changed = target.clone()
    changed[:, 4:] = 10
    np.testing.assert_array_equal(model(source, changed)[:, :4].detach().numpy(), whole[:, :4].detach().numpy())
    memory = model.encode(source)
    for remembered in (memory, model.decoder.remember(memory)):
        cache = [ListCache() for _ in model.decoder.layers]
        parts = [model.decode(part, remembered, cache=cache) for part in target.split([3, 1, 3], 1)]
        close(tg.cat(parts, 1), whole, atol=1e-9)


@pytest.mark.parametrize("choice", CHOICES, ids=str)
@pytest.mark.parametrize("kind", [models.GPTConfig, models.ModernDecoderConfig])
def test_language_models_see_no_future_and_go_on_from_a_cache(kind: Any, choice: dict[str, Any]) -> None:
    choice = {"kv_heads" if n == "num_kv_heads" else n: v for n, v in choice.items()}
    if choice.get("attention") in ("linear", "additive"):
        choice["positions"] = "learned"
    model, tokens = gpt(kind, **choice), ids(2, 7)
    whole = model(tokens)
    changed = tokens.clone()
    changed[:, 4:] = 10
    np.testing.assert_array_equal(model(changed)[:, :4].detach().numpy(), whole[:, :4].detach().numpy())
    cache = [ListCache() for _ in model.blocks]
    close(tg.cat([model(part, cache=cache) for part in tokens.split([3, 1, 3], 1)], 1), whole, atol=1e-9)


@pytest.mark.parametrize("positions", POSITIONS)
def test_padding_before_a_prompt_changes_nothing(positions: str) -> None:
    model, tokens = gpt(positions=positions), ids(1, 4)
    padded = tg.cat([tg.zeros(1, 3, dtype=tg.int64), tokens], 1)
    mask = tg.tensor(np.arange(7) >= 3).reshape(1, 1, 1, 7)
    places = tg.tensor(np.maximum(np.arange(7) - 3, 0)[None])
    close(model(padded, mask=mask, positions=places)[:, 3:], model(tokens), atol=1e-9)


def test_without_positions_only_the_set_of_earlier_tokens_counts() -> None:
    model, tokens = gpt(positions="none", layers=1), ids(1, 6)
    shuffled = tokens[:, [2, 0, 4, 1, 3, 5]]
    close(model(shuffled)[:, -1], model(tokens)[:, -1], atol=1e-9)
    ordered = gpt(positions="learned", layers=1)
    assert np.abs((ordered(shuffled) - ordered(tokens))[:, -1].detach().numpy()).max() > 1e-3


# --- configurations ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: models.GPTConfig(5, positions="rotary"), "positions must be one of sinusoidal, learned, .*'rotary'"),
        (lambda: models.GPTConfig(5, norm="group"), "norm must be one of layer, rms, batch, none; got 'group'"),
        (lambda: models.TransformerConfig(activation="tanh"), "activation must be one of relu, gelu, .*'tanh'"),
        (lambda: models.TransformerConfig(attention="sparse"), "attention must be one of full, local, .*'sparse'"),
        (lambda: models.GPTConfig(5, channels=10, heads=3), "channels must be divisible by heads, got 10 and 3"),
        (lambda: models.TransformerConfig(d_model=10, num_heads=3), "d_model must be divisible by num_heads.*10 and 3"),
        (lambda: models.GPTConfig(5, heads=4, kv_heads=3), "heads must be divisible by kv_heads, got 4 and 3"),
        (lambda: models.GPTConfig(5, channels=12, heads=4, positions="rope"), "12 / 4 = 3"),
        (lambda: models.GPTConfig(5, positions="rope", rope_pairing="neox"), "halves, interleaved; got 'neox'"),
        (lambda: models.GPTConfig(5, positions="alibi", attention="linear"), "sinusoidal, learned, none; got 'alibi'"),
        (lambda: models.GPTConfig(0), "vocab_size must be a whole number of at least 1, got 0"),
        (lambda: models.GPTConfig(5, dropout=2.0), r"dropout must be in \[0, 1\], got 2.0"),
        (lambda: models.TransformerConfig(vocab_size=5, pad=5), r"pad must be an id in \[0, 4\], got 5"),
        (lambda: models.TransformerConfig(vocab_size=5, pad="<pad>"), r"an id in \[0, 4\], got '<pad>'"),  # type: ignore
        (lambda: nn.FeedForward(4, activation="swish"), "relu, gelu, gelu_tanh, silu, swiglu, geglu; got 'swish'"),
    ],
)
def test_unknown_parts_and_sizes_that_do_not_fit_are_named(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_configurations_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        models.TransformerConfig().d_model = 3  # type: ignore[misc]


@pytest.mark.parametrize("positions", ["learned", "sinusoidal"])
def test_lengths_beyond_the_table_name_both_numbers(positions: str) -> None:
    model = gpt(positions=positions, context=8)
    with pytest.raises(ValueError, match="9 tokens is longer than the context of 8"):
        model(ids(1, 9))
    cache = [ListCache() for _ in model.blocks]
    model(ids(1, 8), cache=cache)
    with pytest.raises(ValueError, match="9 tokens is longer than the context of 8"):
        model(ids(1, 1), cache=cache)
    with pytest.raises(ValueError, match=r"13.*max_len is 12"):
        transformer(positions=positions)(ids(1, 13), ids(1, 2))


@pytest.mark.parametrize("positions", ["rope", "alibi", "relative", "none"])
def test_positions_without_a_table_have_no_end(positions: str) -> None:
    model = gpt(positions=positions, context=4)
    assert model.max_length is None
    assert np.isfinite(model(ids(1, 20)).detach().numpy()).all()


def test_wrong_calls_are_told() -> None:
    model = gpt()
    with pytest.raises(ValueError, match=r"ids must be \(B, T\), got \(3,\)"):
        model(ids(3))
    with pytest.raises(ValueError, match="each of 2 layers, got 1"):
        model(ids(1, 3), cache=[ListCache()])
    with pytest.raises(ValueError, match=r"source must be \(B, S\)"):
        transformer()(ids(2, 3), ids(1, 3))
    with pytest.raises(TypeError, match="TransformerConfig alone"):
        models.EncoderLayer(models.TransformerConfig(), 8)


# --- parts ------------------------------------------------------------------------------------------------------------


def test_layers_are_made_of_numbers_or_of_a_config() -> None:
    layer = models.EncoderLayer(16, 4, 24, dropout=0.0, norm="rms", activation="swiglu")
    assert isinstance(layer.norm1, nn.RMSNorm) and tuple(layer.feed_forward.gate.weight.shape) == (24, 16)
    config = models.TransformerConfig(**SIZES, **STACKS)
    assert set(models.EncoderLayer(config).state_dict()) == set(models.EncoderLayer(16, 4, 24).state_dict())
    assert tuple(models.DecoderLayer(config)(tg.zeros(1, 2, 16), tg.zeros(1, 3, 16)).shape) == (1, 2, 16)


def test_pre_norm_and_post_norm() -> None:
    x = tg.randn(2, 3, 16)
    post, pre = (
        models.EncoderLayer(16, 4, 24, dropout=0.0),
        models.EncoderLayer(16, 4, 24, dropout=0.0, norm_first=True),
    )
    close(post(x).mean(-1), tg.zeros(2, 3), atol=1e-5)
    y = x + pre.attention(pre.norm1(x))
    close(pre(x), y + pre.feed_forward(pre.norm2(y)))
    z = post.norm1(x + post.attention(x))
    close(post(x), post.norm2(z + post.feed_forward(z)))
    assert isinstance(transformer().encoder.final_norm, nn.Identity)
    assert isinstance(transformer(norm_first=True).decoder.final_norm, nn.LayerNorm)


def test_batch_norm_mixes_sequences_and_layer_norm_does_not() -> None:
    x = tg.randn(2, 3, 8)
    changed = x.clone()
    changed[1] = changed[1] * 3.0
    for name, same in (("layer", True), ("rms", True), ("batch", False)):
        norm = nn.make_norm(name, 8)
        assert np.allclose(norm(x)[0].detach().numpy(), norm(changed)[0].detach().numpy()) == same
    norm = nn.make_norm("batch", 8)
    np.testing.assert_allclose(norm(x).mean((0, 1)).detach().numpy(), 0.0, atol=1e-6)


def test_gated_feed_forward_has_about_as_many_parameters() -> None:
    plain, gated = (
        sum(p.numel() for p in nn.FeedForward(96, activation=a, bias=False).parameters()) for a in ("relu", "swiglu")
    )
    assert plain == gated == 8 * 96 * 96
    ff, x = nn.FeedForward(4, 6, "geglu"), tg.randn(2, 4)
    close(ff(x), ff.down(nn.functional.gelu(ff.gate(x)) * ff.up(x)))


def test_dropout_is_where_the_paper_has_it() -> None:
    model = models.Transformer(models.TransformerConfig(**SIZES, **{**STACKS, "dropout": 0.5}))
    assert model.dropout.p == 0.5
    for layer in [*model.encoder.layers, *model.decoder.layers]:
        assert layer.dropout.p == 0.5 and layer.attention.dropout == 0.5
    source, target = ids(1, 4), ids(1, 3)
    assert np.abs((model(source, target) - model(source, target)).detach().numpy()).max() > 1e-3
    model.eval()
    np.testing.assert_array_equal(model(source, target).detach().numpy(), model(source, target).detach().numpy())


# --- checkpoints and learning -----------------------------------------------------------------------------------------


def test_the_default_gpt_keeps_its_names() -> None:
    model = models.GPT(models.GPTConfig(7, 4, 1, 2, 8))
    block = ("norm1", "attention.query_proj", "attention.key_proj", "attention.value_proj", "attention.out_proj")
    block = (*block, "norm2", "feed_forward.up", "feed_forward.down")
    names = ["token_embedding.weight", "position_embedding.table", *(f"blocks.0.{n}.weight" for n in block)]
    assert list(model.state_dict()) == [*names, "final_norm.weight", "lm_head.weight"]


@pytest.mark.parametrize("positions", POSITIONS)
def test_weights_come_back(positions: str, tmp_path: Path) -> None:
    model, other = transformer(positions=positions), transformer(positions=positions)
    for parameter in other.parameters():
        parameter.data = parameter.data + 1.0
    tg.save(model.state_dict(), tmp_path / "weights.pt")
    other.load_state_dict(tg.load(tmp_path / "weights.pt"))
    close(other(ids(1, 4), ids(1, 3)), model(ids(1, 4), ids(1, 3)), atol=0)


def test_the_encoder_decoder_learns_to_reverse() -> None:
    """Overfit one batch: every token of the answer right."""
    tg.manual_seed(1)
    model = models.Transformer(models.TransformerConfig(**SIZES, **STACKS, norm_first=True, pad=0))
    source = ids(8, 5)
    answer = source.flip(1)
    start = tg.zeros(8, 1, dtype=tg.int64) + 1
    shifted = tg.cat([start, answer[:, :-1]], 1)
    optimizer = optim.Adam(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(100):
        optimizer.zero_grad()
        loss = model.loss(source, shifted, answer)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.2 < 1.5 < losses[0]
    assert (model(source, shifted).argmax(-1).numpy() == answer.numpy()).all()


def test_the_loss_leaves_padding_out() -> None:
    model = transformer(pad=0)
    source, target = ids(1, 4), ids(1, 3)
    short = model.loss(source, target[:, :2], tg.tensor([[4, 5]]))
    close(model.loss(source, target, tg.tensor([[4, 5, 0]])), short)


# --- recurrence -------------------------------------------------------------------------------------------------------

RECURRENT = [
    ("RNN", {}),
    ("RNN", {"nonlinearity": "relu", "num_layers": 2, "batch_first": True}),
    ("LSTM", {"num_layers": 2, "bidirectional": True}),
    ("LSTM", {"bias": False, "batch_first": True}),
    ("LSTM", {"num_layers": 2, "bidirectional": True, "proj_size": 2}),
    ("GRU", {"num_layers": 2}),
    ("GRU", {"bidirectional": True, "batch_first": True}),
]


@pytest.mark.parametrize(("name", "settings"), RECURRENT, ids=str)
def test_recurrent_layers_are_pytorchs(name: str, settings: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    theirs = getattr(torch.nn, name)(3, 4, **settings).double()
    ours = getattr(nn, name)(3, 4, **settings).double()
    assert list(ours.state_dict()) == list(theirs.state_dict())
    ours.load_state_dict({n: tg.tensor(p.detach().numpy()) for n, p in theirs.named_parameters()})
    rng = np.random.default_rng(0)
    for shape in ((5, 2, 3), (5, 3)):
        x = rng.normal(size=shape)
        layers = ours.num_layers * ours.directions
        batch = () if len(shape) == 2 else (5 if ours.batch_first else 2,)
        start = [rng.normal(size=(layers, *batch, n)) for n in (ours.output_size, 4)[: ours.states]]
        for given in (None, start):
            mine, yours = tg.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
            hx = () if given is None else (_state(given, tg.tensor),)
            hy = () if given is None else (_state(given, torch.tensor),)
            results = [_flat(ours(mine, *hx)), _flat(theirs(yours, *hy))]
            for a, b in zip(*results, strict=True):
                np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), atol=1e-12)
            for parts in results:
                sum((part**2).sum() * (i + 1) for i, part in enumerate(parts)).backward()
            np.testing.assert_allclose(mine.grad.numpy(), yours.grad.numpy(), atol=1e-12)
    for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), atol=1e-10)


def _state(arrays: list[np.ndarray], make: Callable[..., Any]) -> Any:
    return make(arrays[0]) if len(arrays) == 1 else tuple(make(a) for a in arrays)


def _flat(result: Any) -> list[Any]:
    out, state = result
    return [out, *(state if isinstance(state, tuple) else (state,))]


# PyTorch's last states for weights 0.1, -0.2, 0.3, 0.1, -0.2 ... and inputs of 1, 2, 3: one channel, one unit.
STORED = {
    "RNN": [0.4933357149949219],
    "LSTM": [0.3984090803654485, 0.7446727194790572],
    "GRU": [0.8597500550022508],
}


@pytest.mark.parametrize("name", STORED)
def test_recurrent_layers_give_the_stored_values(name: str) -> None:
    layer = getattr(nn, name)(1, 1).double()
    for parameter in layer.parameters():
        parameter.data = tg.tensor(np.resize([0.1, -0.2, 0.3], parameter.shape))
    x = tg.tensor([[[1.0]], [[2.0]], [[3.0]]], dtype=tg.float64)
    np.testing.assert_allclose([t.item() for t in _flat(layer(x))[1:]], STORED[name], rtol=1e-10)


@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU"])
def test_cells_are_single_steps(name: str) -> None:
    tg.manual_seed(0)
    layer, cell = getattr(nn, name)(3, 4), getattr(nn, f"{name}Cell")(3, 4)
    cell.load_state_dict({n.removesuffix("_l0"): p for n, p in layer.state_dict().items()})
    x, state = tg.randn(5, 2, 3), None
    for t in range(5):
        state = cell(x[t], state)
    close((state if isinstance(state, tuple) else (state,))[0], layer(x)[0][-1], atol=1e-6)


def test_recurrent_misuse_is_told() -> None:
    with pytest.raises(RuntimeError, match=r"\(N, T, I\) or \(T, I\) with I = 3, got \(2, 5, 4\)"):
        nn.GRU(3, 4, batch_first=True)(tg.zeros(2, 5, 4))
    with pytest.raises(RuntimeError, match=r"\(1, 2, 4\), got \(1, 5, 4\)"):
        nn.GRU(3, 4)(tg.zeros(5, 2, 3), tg.zeros(1, 5, 4))
    with pytest.raises(RuntimeError, match=r"LSTM: the state must be \(h, c\), got Tensor"):
        nn.LSTM(3, 4)(tg.zeros(5, 2, 3), tg.zeros(1, 2, 4))
    with pytest.raises(RuntimeError, match="GRUCell: the state must be a tensor, got int"):
        nn.GRUCell(3, 4)(tg.zeros(2, 3), 5)
    with pytest.raises(RuntimeError, match=r"LSTMCell: the state must be of shape \(2, 4\), got \(2, 4\), \(2, 5\)"):
        nn.LSTMCell(3, 4)(tg.zeros(2, 3), (tg.zeros(2, 4), tg.zeros(2, 5)))
    with pytest.raises(ValueError, match="tanh, relu; got 'gelu'"):
        nn.RNN(3, 4, nonlinearity="gelu")
    for layer, size in (("LSTM", 0), ("RNN", 2.5), ("GRUCell", -1), ("LSTMCell", "4")):
        with pytest.raises(ValueError, match=f"{layer}: hidden_size must be a whole number .*, got {size!r}"):
            getattr(nn, layer)(3, size)
    with pytest.raises(RuntimeError, match="at least one time step"):
        nn.GRU(3, 4)(tg.zeros(0, 2, 3))

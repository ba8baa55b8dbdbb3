"""MultiHeadAttention and its variants: masks, causality, groups, caches, and each variant against the plain formula."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinygrad_tf as tg
from tinygrad_tf import Tensor, nn

Maker = Callable[..., nn.MultiHeadAttention]
KINDS: dict[str, Maker] = {
    "full": nn.MultiHeadAttention,
    "local": lambda C, H, **rest: nn.LocalAttention(C, H, window=3, **rest),
    "block_sparse": lambda C, H, **rest: nn.BlockSparseAttention(C, H, block_size=2, **rest),
    "linear": nn.LinearAttention,
    "additive": nn.AdditiveAttention,
}
every_kind = pytest.mark.parametrize("kind", KINDS)


class ListCache:
    """The smallest cache: it keeps everything."""

    def __init__(self) -> None:
        self.key: Any = None
        self.value: Any = None

    @property
    def offset(self) -> int:
        return 0 if self.key is None else self.key.shape[2]

    def update(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        self.key = key if self.key is None else tg.cat([self.key, key], 2)
        self.value = value if self.value is None else tg.cat([self.value, value], 2)
        return self.key, self.value


def made(kind: str, **rest: Any) -> nn.MultiHeadAttention:
    tg.manual_seed(3)
    return KINDS[kind](8, 4, **rest).double()


def values(*shape: int, seed: int = 0) -> Tensor:
    return tg.tensor(np.random.default_rng(seed).normal(size=shape))


def close(a: Tensor, b: Tensor, atol: float = 1e-10) -> None:
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), atol=atol)


# --- what all kinds share ---------------------------------------------------------------------------------------------


@every_kind
def test_nothing_leaks_from_the_future(kind: str) -> None:
    x = values(1, 7, 8).requires_grad_()
    out = made(kind)(x, is_causal=True)
    for t in range(7):
        (g,) = tg.autograd.grad(out[0, t].sum(), [x], retain_graph=True)
        assert (g[0, t + 1 :].numpy() == 0).all(), t
        assert (g[0, t].numpy() != 0).any()
    changed = x.detach().clone()
    changed[0, 4:] = 9.0
    np.testing.assert_array_equal(
        made(kind)(changed, is_causal=True)[0, :4].detach().numpy(), out[0, :4].detach().numpy()
    )


@pytest.mark.parametrize("kind", ["full", "linear", "additive"])
def test_without_positions_attention_is_permutation_equivariant(kind: str) -> None:
    x, order, attention = values(2, 6, 8), [3, 0, 5, 1, 4, 2], made(kind)
    close(attention(x[:, order]), attention(x)[:, order])


@every_kind
def test_weights_are_those_that_are_used(kind: str) -> None:
    """out = weights V, per head, with padding and causality together; each row sums to 1."""
    attention, x, mask = made(kind, num_kv_heads=2), values(2, 7, 8), nn.padding_mask([7, 4])
    out, weights = attention(x, mask=mask, is_causal=True, need_weights=True)
    assert tuple(weights.shape) == (2, 4, 7, 7)
    _, v = attention.remember(x)
    v = v.repeat_interleave(2, 1)
    close(attention.out_proj(attention.merge_heads(weights @ v)), out)
    sums = weights.sum(-1).detach().numpy()
    np.testing.assert_allclose(sums[sums != 0], 1.0)
    hidden = weights.detach().numpy() * ~(mask & nn.causal_mask(7)).numpy()
    assert not hidden.any()


@every_kind
def test_padding_changes_nothing(kind: str) -> None:
    attention, x = made(kind), values(2, 7, 8)
    short = attention(x[1:, :5], is_causal=True)
    close(attention(x, mask=nn.padding_mask([7, 5]), is_causal=True)[1:, :5], short)
    spoilt = x.clone()
    spoilt[1, 5:] = 1e3
    close(attention(spoilt, mask=nn.padding_mask([7, 5]))[1:, :5], attention(x, mask=nn.padding_mask([7, 5]))[1:, :5])


@every_kind
def test_a_query_with_nothing_to_see_gets_zeros_and_finite_gradients(kind: str) -> None:
    attention = made(kind, bias=False)
    x = values(2, 5, 8).requires_grad_()
    out, weights = attention(x, mask=nn.padding_mask([0, 5]), need_weights=True)
    assert (out[0].detach().numpy() == 0).all() and (weights[0].detach().numpy() == 0).all()
    (out * out).sum().backward()
    assert np.isfinite(x.grad.numpy()).all() and (x.grad[0].numpy() == 0).all()
    assert all(np.isfinite(p.grad.numpy()).all() for p in attention.parameters())


@every_kind
@pytest.mark.parametrize("chunks", [[1] * 7, [3, 1, 3], [7]])
def test_a_cache_gives_the_same_as_all_at_once(kind: str, chunks: list[int]) -> None:
    attention, x, cache = made(kind, num_kv_heads=2), values(2, 7, 8), ListCache()
    wanted = attention(x, is_causal=True)
    parts = [attention(part, is_causal=True, cache=cache) for part in x.split(chunks, 1)]
    close(tg.cat(parts, 1), wanted)
    assert cache.offset == 7


@pytest.mark.parametrize("name", ["rope", "alibi", "relative"])
@pytest.mark.parametrize("kind", ["full", "local", "block_sparse"])
def test_a_cache_with_positions_and_padding_before_the_text(kind: str, name: str) -> None:
    from tinygrad_tf.nn.position import attention_positions

    attention, x = made(kind), values(2, 7, 8)
    positions = attention_positions(name, 4, 2, bidirectional=False).double()  # type: ignore[union-attr]
    mask = tg.tensor([[True] * 7, [False] * 2 + [True] * 5])[:, None, None, :]
    wanted, cache = attention(x, mask=mask, is_causal=True, positions=positions), ListCache()
    for start, stop in ((0, 4), (4, 5), (5, 7)):
        seen = mask[..., :stop]
        out = attention(x[:, start:stop], mask=seen, is_causal=True, positions=positions, cache=cache)
        close(out, wanted[:, start:stop])


@pytest.mark.parametrize("kind", ["full", "linear", "additive"])
def test_cross_attention_may_remember_its_keys(kind: str) -> None:
    attention, x, memory = made(kind), values(2, 3, 8), values(2, 5, 8, seed=1)
    mask = nn.padding_mask([5, 2])
    out, weights = attention(x, memory, mask=mask, need_weights=True)
    assert tuple(weights.shape) == (2, 4, 3, 5)
    close(attention(x, attention.remember(memory), mask=mask), out)
    with pytest.raises(ValueError, match="self-attention"):
        attention(x, memory, cache=ListCache())


@every_kind
def test_dropout_is_for_training_alone(kind: str) -> None:
    plain, dropping, x = made(kind), made(kind, dropout=0.9), values(1, 6, 8)
    close(dropping.eval()(x), plain(x))
    if kind != "linear":
        assert np.abs((dropping.train()(x) - plain(x)).detach().numpy()).max() > 1e-3


def test_float32_stays_float32() -> None:
    for kind in KINDS:
        attention = made(kind).float()
        x = values(1, 5, 8).float()
        assert attention(x, is_causal=True, mask=nn.padding_mask([4], max_len=5)).dtype == tg.float32
    alibi = nn.AlibiPositions(4)
    for kind in ("full", "local", "block_sparse"):
        for is_causal in (False, True):
            results = made(kind).float()(x, is_causal=is_causal, positions=alibi, need_weights=True)
            assert [r.dtype for r in results] == [tg.float32, tg.float32]


# --- grouped queries --------------------------------------------------------------------------------------------------


def test_grouped_queries_are_heads_that_share_keys() -> None:
    grouped, x = made("full", num_kv_heads=2), values(2, 5, 8)
    assert tuple(grouped.key_proj.weight.shape) == (4, 8)
    full = nn.MultiHeadAttention(8, 4).double()
    state = dict(grouped.state_dict())
    for name in ("key_proj.weight", "key_proj.bias", "value_proj.weight", "value_proj.bias"):
        rows = state[name].reshape(2, 2, *state[name].shape[1:])
        state[name] = rows.repeat_interleave(2, 0).reshape(8, *state[name].shape[1:])
    full.load_state_dict(state)
    close(grouped(x, is_causal=True), full(x, is_causal=True))


# --- masks ------------------------------------------------------------------------------------------------------------


def test_masks_combine() -> None:
    padding, causal = nn.padding_mask([2, 3]), nn.causal_mask(3)
    both = nn.combine_masks(padding, causal)
    np.testing.assert_array_equal(both.numpy(), padding.numpy() & causal.numpy())
    np.testing.assert_array_equal((padding & causal).numpy(), both.numpy())
    bias = values(3, 3)
    mixed = nn.combine_masks(bias, causal).numpy()
    np.testing.assert_array_equal(mixed[np.tri(3, dtype=bool)], bias.numpy()[np.tri(3, dtype=bool)])
    assert (mixed[~np.tri(3, dtype=bool)] == -np.inf).all()
    assert nn.combine_masks(None, None) is None
    attention, x = made("full"), values(2, 3, 8)
    close(attention(x, mask=padding, is_causal=True), attention(x, mask=both))
    close(attention(x, mask=bias, is_causal=True), attention(x, mask=nn.combine_masks(bias, causal)))
    with pytest.raises(ValueError, match=r"\(2, 1, 1, 3\) and \(4, 4\)"):
        nn.combine_masks(padding, nn.causal_mask(4))


def test_causal_masks_are_aligned_at_the_end_unless_told() -> None:
    assert nn.causal_mask(1, 3).tolist() == [[True, True, True]]
    assert nn.causal_mask(1, 3, offset=0).tolist() == [[True, False, False]]


def test_padding_masks_of_ids_and_of_lengths() -> None:
    ids = tg.tensor([[5, 6, 0], [7, 0, 0]])
    np.testing.assert_array_equal(nn.padding_mask(ids, pad=0).numpy(), nn.padding_mask([2, 1], max_len=3).numpy())
    for wrong, message in (
        (lambda: nn.padding_mask(ids), "lengths must be"),
        (lambda: nn.padding_mask([4], max_len=3), r"0 ... 3, got \[4\]"),
        (lambda: nn.padding_mask([1, 2], pad=0), r"ids must be \(B, T\)"),
    ):
        with pytest.raises(ValueError, match=message):
            wrong()
    with pytest.raises(TypeError, match="whole numbers"):
        nn.padding_mask(tg.tensor([1.0]))


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((2, 5), r"\(B, H, Tq, Tk\) = \(2, 4, 5, 5\), got \(2, 5\).*\[:, None, None, :\]"),
        ((2, 5, 5), r"got \(2, 5, 5\).*\(B, 1, Tq, Tk\)"),
        ((2, 1, 5, 4), r"got \(2, 1, 5, 4\)"),
        ((3, 1, 1, 5), r"got \(3, 1, 1, 5\)"),
    ],
)
def test_masks_of_the_wrong_shape_are_told_how_to_be(shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        made("full")(values(2, 5, 8), mask=tg.ones(*shape).bool())


def test_a_mask_that_could_mean_two_things_is_refused() -> None:
    """(4, 5, 5) where B = H = 4: one for each sequence, or one for each head?"""
    with pytest.raises(ValueError, match="unsqueeze"):
        made("full")(values(4, 5, 8), mask=tg.ones(4, 5, 5).bool())
    with pytest.raises(TypeError, match=r"bool.*\.bool\(\)"):
        made("full")(values(2, 5, 8), mask=tg.ones(5, 5).long())


# --- misuse -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.MultiHeadAttention(10, 3), "10 and 3"),
        (lambda: nn.MultiHeadAttention(8, 4, num_kv_heads=3), "4 and 3"),
        (lambda: nn.MultiHeadAttention(8, 4, dropout=1.5), r"\[0, 1\], got 1.5"),
        (lambda: nn.LocalAttention(8, 4, window=0), "at least 1, got 0"),
        (lambda: nn.BlockSparseAttention(8, 4, block_size=0), "got 0"),
        (lambda: nn.LinearAttention(8, 4)(values(1, 3, 8).float(), mask=nn.causal_mask(3)), "keys alone"),
        (lambda: nn.LinearAttention(8, 4)(tg.zeros(1, 3, 8), positions=nn.RotaryPositions(2)), "no positions"),
        (lambda: nn.LinearAttention(8, 4)(tg.zeros(1, 3, 8), tg.zeros(1, 2, 8), is_causal=True), "2 and 3"),
        (lambda: nn.BlockSparseAttention(8, 4, 2)(tg.zeros(1, 3, 8), tg.zeros(1, 2, 8)), "2 and 3"),
    ],
)
def test_misuse_says_what_is_wrong(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_wrong_inputs_name_the_argument() -> None:
    with pytest.raises(RuntimeError, match=r"query must be \(B, T, C\) with C = 8, got \(2, 10, 9\)"):
        made("full")(values(2, 10, 9))
    with pytest.raises(RuntimeError, match=r"share B and Tk"):
        made("full")(values(2, 3, 8), values(2, 4, 8), values(2, 5, 8))
    with pytest.raises(RuntimeError, match="share B, got 2 and 1"):
        made("full")(values(2, 3, 8), values(1, 4, 8))


# --- each variant's own meaning ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_causal", [False, True])
def test_local_attention_is_full_attention_with_a_band(is_causal: bool) -> None:
    local, x = made("local"), values(2, 9, 8)
    full = made("full")
    full.load_state_dict(local.state_dict())
    band = nn.window_mask(9, window=3)
    assert band.numpy()[4].tolist() == [False] * 2 + [True] * 5 + [False] * 2
    close(local(x, is_causal=is_causal), full(x, mask=band, is_causal=is_causal))


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("length", [1, 2, 7, 8])
def test_block_sparse_attention_is_full_attention_with_its_pattern(length: int, is_causal: bool) -> None:
    sparse, x = made("block_sparse"), values(2, length, 8)
    full = made("full")
    full.load_state_dict(sparse.state_dict())
    bias, padding = values(4, length, length, seed=2), nn.padding_mask([length, max(length - 2, 1)])
    for mask in (None, padding, nn.combine_masks(bias[None], padding)):
        pattern = nn.combine_masks(mask, sparse.pattern(length, length))
        close(sparse(x, mask=mask, is_causal=is_causal), full(x, mask=pattern, is_causal=is_causal))
    if length == 8:
        assert sparse.pattern(8, 8).numpy()[7].tolist() == [True] * 2 + [False] * 2 + [True] * 4


@pytest.mark.parametrize("length", [1, 31, 32, 33, 70])
def test_linear_attention_is_the_quadratic_formula(length: int) -> None:
    attention, x = made("linear"), values(1, length, 8)
    q, k, v = (
        attention.split_heads(p(x)).detach().numpy()
        for p in (attention.query_proj, attention.key_proj, attention.value_proj)
    )
    q, k = (np.where(t > 0, t + 1, np.exp(np.minimum(t, 0))) for t in (q, k))
    for is_causal in (False, True):
        products = q @ k.swapaxes(-1, -2) * (np.tri(length) if is_causal else 1)
        wanted = products / products.sum(-1, keepdims=True) @ v
        heads = attention.merge_heads(tg.tensor(wanted))
        close(attention(x, is_causal=is_causal), attention.out_proj(heads))


def test_additive_attention_is_bahdanaus_formula() -> None:
    tg.manual_seed(0)
    attention = nn.AdditiveAttention(6).double()
    state, notes = values(2, 1, 6), values(2, 5, 6, seed=1)
    _, weights = attention(state, notes, need_weights=True)
    W, U = attention.query_proj, attention.key_proj
    energy = ((W(state) + U(notes)).tanh() * attention.score_weight[0]).sum(-1)  # (2, 5)
    close(weights[:, 0, 0], energy.softmax(-1))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kv_heads", [4, 2, 1])
def test_three_projections_at_once_are_the_three(bias, kv_heads):
    """Where the input is large beside the weights, self-attention makes one product; values and gradients stay."""
    tg.manual_seed(0)
    attention = nn.MultiHeadAttention(16, 4, bias=bias, num_kv_heads=kv_heads)
    x = tg.randn(2, 40, 16, requires_grad=True)
    found = []
    for apart in (False, True):
        handle = attention.key_proj.register_forward_hook(lambda *_: found.append("hook")) if apart else None
        assert attention._can_project_at_once(x) is not apart
        out = attention(x, is_causal=True)
        out.backward(tg.linspace(-1.0, 1.0, out.numel()).view(out.shape))
        found.append([out.detach().numpy(), *(p.grad.numpy() for p in (x, *attention.parameters()))])
        attention.zero_grad()
        x.grad = None
        if handle is not None:
            handle.remove()
    together, hook, separate = found
    assert hook == "hook" and len(together) == len(separate) == (10 if bias else 6)
    for a, b in zip(together, separate, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def test_projections_that_are_something_else_are_asked_one_by_one():
    attention = nn.MultiHeadAttention(8, 2)
    x = tg.randn(2, 9, 8)
    assert attention._can_project_at_once(x) and not attention._can_project_at_once(x[:, :3])
    attention.value_proj = nn.Sequential(attention.value_proj)
    assert not attention._can_project_at_once(x) and attention(x).shape == x.shape
    attention = nn.MultiHeadAttention(8, 2)
    attention.query_proj = nn.Linear(8, 8, bias=False)
    assert not attention._can_project_at_once(x) and attention(x).shape == x.shape

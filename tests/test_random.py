"""Random numbers are PyTorch's: against stored values everywhere, and against PyTorch itself where it is installed."""

import copy
import json
import math
import pickle
import subprocess
import sys
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tinygrad_tf
from tinygrad_tf import _sampling, kernels, random
from tinygrad_tf._box_muller import box_muller_reference
from tinygrad_tf._sampling import swapped
from tinygrad_tf.random import Generator, InvalidRandomArgument


def seeded(seed=123):
    return Generator().manual_seed(seed)


# --- stored values of PyTorch 2.13 (CPU), seed 123 --------------------------------------------------------------------

RANDN_20 = """0x1.597792p-2 -0x1.6c1676p-3 -0x1.36cffp-2 -0x1.2d0fe4p-1 0x1.94ba6cp+0 0x1.4d10f4p+0 0x1.467a24p+0
-0x1.9b8d4cp-3 -0x1.48d5aap-3 -0x1.9b1facp-2 0x1.6435f4p-1 -0x1.ce5978p+0 -0x1.28ab9p+0 0x1.4d4846p-2 -0x1.4354acp-1
-0x1.6b84ecp+1 -0x1.91d84cp-1 -0x1.68d9bep+0 -0x1.a168fp-2 0x1.9734fcp-1"""

FLOATS = {
    "randn, 16 or more": (lambda g: g.normal(20), RANDN_20),
    "randn, few": (lambda g: g.normal(5), "-0x1.c891bep-4 0x1.ed01b2p-4 -0x1.7a8178p-2 -0x1.ec6042p-3 -0x1.3269a2p+0"),
    "normal_": (lambda g: g.normal(17, 1.0, 0.02)[-3:], "0x1.f9888cp-1 0x1.e2eb2p-1 0x1.f7f68ep-1"),
    "randn, many": (
        lambda g: g.normal(100003)[[0, 7, 8, 99986, 99987, 100002]],
        "0x1.597792p-2 -0x1.844518p-2 0x1.88c242p-1 -0x1.238374p+0 0x1.58ce0cp-3 0x1.6e102ep+0",
    ),
    "rand": (lambda g: g.uniform(3), "0x1.2f37f8p-2 0x1.087adap-1 0x1.01b5f8p-2"),
    "uniform_": (lambda g: g.uniform(4, -0.1, 0.3), "0x1.2e33p-6 0x1.b4bc54p-4 0x1.5e6p-11 0x1.674406p-3"),
    "rand, float64": (
        lambda g: g.uniform(3, dtype=np.float64),
        "0x1.79bfd6d087adap-2 0x1.b5f9b6c115080p-7 0x1.2efdcb0ddd462p-1",
    ),
    "exponential_": (lambda g: g.exponential(4, 2.0), "0x1.d754ccp-3 0x1.b8edc4p-8 0x1.cab9d8p-2 0x1.8e319p-5"),
}

WEIGHTS = np.array([0.1, 0.0, 0.2, 0.3, 0.0, 0.4], np.float32)

INTEGERS = {
    "randint": (lambda g: g.integers(0, 10, 12), [2, 9, 2, 0, 0, 2, 6, 7, 9, 4, 1, 1]),
    "randint, wide": (lambda g: g.integers(-(2**40), 2**40, 3), [1093983812973, 543006147906, 947860132962]),
    "randperm": (lambda g: g.permutation(12), [10, 4, 1, 3, 8, 2, 6, 9, 11, 0, 5, 7]),
    "randperm, long": (
        lambda g: g.permutation(100000)[[0, 1, 2, 50000, 99998, 99999]],
        [12382, 50411, 83682, 47688, 23914, 74058],
    ),
    "bernoulli_": (lambda g: g.bernoulli(0.5, 18), [1, 1, 0, 1, 1, 0, 0, 0, 0, 1, 0, 1, 1, 1, 1, 1, 0, 1]),
    "bernoulli": (lambda g: g.bernoulli(np.full(12, 0.5, np.float32)), [1, 0, 1, 0, 1, 0, 1, 1, 1, 0, 1, 0]),
    "multinomial, one": (
        lambda g: np.concatenate([g.multinomial(WEIGHTS, 1) for _ in range(10)]),
        [3, 3, 5, 5, 5, 3, 0, 2, 2, 2],
    ),
    "multinomial": (lambda g: g.multinomial(WEIGHTS, 4), [3, 5, 2, 0]),
    "multinomial, replacement": (lambda g: g.multinomial(WEIGHTS, 12, True), [3, 0, 3, 0, 3, 3, 5, 3, 5, 0, 5, 0]),
}


@pytest.mark.parametrize("name", FLOATS)
def test_floats_are_those_of_pytorch_to_the_bit(name):
    draw, stored = FLOATS[name]
    assert [float(x) for x in draw(seeded())] == [float.fromhex(word) for word in stored.split()]


def test_the_kernel_for_normal_numbers_has_the_bits_of_the_formula_in_numpy():
    """At the ends of the interval, too: from the number 0, and from the last one below 1."""
    steps = np.random.default_rng(0).integers(0, 2**24, (5000, 2, 8))
    steps[0], steps[1], steps[2], steps[3] = 0, 2**24 - 1, 2**23, 2**22
    uniform = (steps * 2.0**-24).astype(np.float32)
    for mean, std in ((0.0, 1.0), (0.3, 0.02)):
        by_kernel, by_formula = uniform.copy(), uniform.copy()
        kernels.box_muller.box_muller(by_kernel, mean, std)
        box_muller_reference(by_formula, mean, std)
        assert np.array_equal(by_kernel.view(np.uint32), by_formula.view(np.uint32))


@pytest.mark.parametrize("dtype", (np.float32, np.float64))
def test_few_normal_numbers_and_many_come_of_the_same_draws(dtype):
    """Fewer than 16 one after the other, as one call for a tensor that does not lie in order."""
    one, all_at_once = seeded(), seeded()
    few = np.concatenate([one.normal(n, dtype=dtype) for n in (1, 2, 3, 15, 15, 15)])
    many = all_at_once.normal(51, dtype=dtype, one_by_one=True)
    assert np.allclose(few, many, rtol=1e-15 if dtype == np.float64 else 1e-7)


def test_shuffles_of_few_and_of_many_swap_alike():
    for n in (0, 1, 2, 5, 399):
        partner = np.arange(n) + seeded().integers(0, 2**28, n) % np.maximum(np.arange(n, 0, -1), 1)
        with pytest.MonkeyPatch.context() as patch:
            few = swapped(partner)
            patch.setattr(_sampling, "FEW", 0)
            assert np.array_equal(few, swapped(partner))


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_are_those_of_pytorch(name):
    draw, stored = INTEGERS[name]
    assert draw(seeded()).astype(int).tolist() == stored


def test_every_bit_of_long_draws():
    assert zlib.crc32(seeded().normal(2**20 + 3).tobytes()) == 3283710735
    assert zlib.crc32(seeded().permutation(100000).tobytes()) == 2713313010


# --- PyTorch itself ---------------------------------------------------------------------------------------------------

SIZES = [0, 1, 2, 15, 16, 17, 31, 32, 1000, 20011]


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="PyTorch is not installed: compared with stored values only")


@pytest.mark.parametrize("seed", [0, 1337, 2**40 + 7, -5])
def test_a_long_program_of_draws_agrees_with_pytorch(torch, seed):
    ours = seeded(seed)
    theirs = torch.Generator().manual_seed(seed)
    assert ours.initial_seed() == theirs.initial_seed()
    for n in SIZES:
        empty, wide = torch.empty(n), torch.empty(n, dtype=torch.float64)
        for mine, other in [
            (ours.uniform(n), empty.uniform_(generator=theirs)),
            (ours.normal(n), torch.randn(n, generator=theirs)),
            (ours.normal((n, 3), 0.5, 0.02), torch.empty(n, 3).normal_(0.5, 0.02, generator=theirs)),
            (ours.uniform(n, -0.3, 0.9), torch.empty(n).uniform_(-0.3, 0.9, generator=theirs)),
            (ours.uniform(n, -0.3, 0.9, np.float64), wide.uniform_(-0.3, 0.9, generator=theirs)),
            (ours.integers(-7, 90, n), torch.randint(-7, 90, (n,), generator=theirs)),
            (ours.integers(0, 2**28, n), torch.randint(0, 2**28, (n,), generator=theirs)),
            (ours.integers(0, 2**28 - 1, n), torch.randint(0, 2**28 - 1, (n,), generator=theirs)),
            (ours.integers(-(2**63), 2**63 - 1, n), torch.randint(-(2**63), 2**63 - 1, (n,), generator=theirs)),
            (ours.permutation(n), torch.randperm(n, generator=theirs)),
            (ours.uniform(n, dtype=np.float16), torch.rand(n, dtype=torch.float16, generator=theirs)),
            (ours.bernoulli(np.full(n, 0.3, np.float32)), torch.full((n,), 0.3).bernoulli(generator=theirs).bool()),
        ]:
            assert mine.dtype == other.numpy().dtype
            np.testing.assert_array_equal(mine, other.numpy())
        mine, other = ours.normal(n, 2.0, 3.0, np.float64), wide.normal_(2.0, 3.0, generator=theirs).numpy()
        np.testing.assert_allclose(mine, other, rtol=1e-14, atol=1e-14)  # float64 logarithms differ by a bit or two


FILLS = {
    "uniform_": lambda t, x: x.uniform_(-1.0, 2.0),
    "normal_": lambda t, x: x.normal_(1.0, 2.0),
    "exponential_": lambda t, x: x.exponential_(),
    "bernoulli_": lambda t, x: x.bernoulli_(0.5),
    "random_": lambda t, x: x.random_(0, 90),
    "init.normal_": lambda t, x: t.nn.init.normal_(x),
    "init.uniform_": lambda t, x: t.nn.init.uniform_(x),
    "rand_like": lambda t, x: t.rand_like(x),
    "randn_like": lambda t, x: t.randn_like(x),
    "randn_like of another dtype": lambda t, x: t.randn_like(x, dtype=t.float64),
    "dropout": lambda t, x: t.nn.functional.dropout(x + 1.0, 0.5),
    "alpha_dropout": lambda t, x: t.nn.functional.alpha_dropout(x + 1.0, 0.5, True),
    "dropout1d": lambda t, x: t.nn.functional.dropout1d(x + 1.0, 0.5),
    "bernoulli": lambda t, x: (x + 0.5).bernoulli(),
}
VIEWS = {
    "transposed": lambda x: x.permute(0, 2, 1),
    "turned": lambda x: x.permute(2, 0, 1),
    "backwards": lambda x: x.permute(2, 1, 0),
    "cut": lambda x: x[:, 1:, :3],
    "cut and transposed": lambda x: x[:, 1:].permute(0, 2, 1),
    "every other": lambda x: x[:, ::2],
    "one": lambda x: x[:, :1].permute(1, 2, 0),
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("fill", FILLS)
def test_numbers_go_to_the_places_of_a_view_as_in_pytorch(torch, fill, view):
    """In the order of memory, not of the axes."""
    found = []
    for t in (torch, tinygrad_tf):
        t.manual_seed(6)
        found.append([FILLS[fill](t, VIEWS[view](t.zeros(3, 5, 4))).numpy() for _ in range(2)])
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6)


INITIALISERS = {
    "uniform_": lambda init, x: init.uniform_(x, -1.0, 2.0),
    "normal_": lambda init, x: init.normal_(x, 1.0, 2.0),
    "xavier_uniform_": lambda init, x: init.xavier_uniform_(x),
    "xavier_normal_": lambda init, x: init.xavier_normal_(x, 2.0),
    "kaiming_uniform_": lambda init, x: init.kaiming_uniform_(x, a=0.3),
    "kaiming_normal_": lambda init, x: init.kaiming_normal_(x, mode="fan_out", nonlinearity="relu"),
    "trunc_normal_": lambda init, x: init.trunc_normal_(x, 0.5, 1.0, -0.5, 1.0),
    "orthogonal_": lambda init, x: init.orthogonal_(x, 0.5),
    "eye_": lambda init, x: init.eye_(x),
    "constant_": lambda init, x: init.constant_(init.ones_(x), 3.0),
    "ones_": lambda init, x: init.ones_(x),
}


@pytest.mark.parametrize("name", INITIALISERS)
def test_initialisers_fill_as_pytorchs_do(torch, name):
    found = []
    for t in (torch, tinygrad_tf):
        t.manual_seed(3)
        found.append(INITIALISERS[name](t.nn.init, t.zeros(5, 6)).numpy())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6, atol=1e-6 if name == "orthogonal_" else 0.0)


def test_states_travel_between_the_libraries(torch):
    ours, theirs = seeded(5), torch.Generator().manual_seed(5)
    for n in (3, 700, 1):
        ours.normal(n)
        torch.randn(n, generator=theirs)
        other = torch.Generator()
        other.set_state(torch.from_numpy(ours.get_state().numpy()))
        assert torch.randn(2, generator=other).tolist() == copy.deepcopy(ours).normal(2).tolist()
        assert Generator().set_state(theirs.get_state()).normal(2).tolist() == copy.deepcopy(ours).normal(2).tolist()


@pytest.mark.parametrize("replacement", [False, True])
def test_multinomial_agrees_with_pytorch(torch, replacement):
    weights = np.random.default_rng(0).random((3, 65)) ** 3
    weights[:, ::3] = 0.0
    for dtype in (np.float32, np.float64):
        rows = weights.astype(dtype)
        torch.manual_seed(11)
        other = torch.multinomial(torch.from_numpy(rows), 20, replacement)
        assert seeded(11).multinomial(rows, 20, replacement).tolist() == other.tolist()


# --- shapes, ranges and states ----------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 5), max_size=3), st.integers(0, 2**64 - 1), st.sampled_from([np.float32, np.float64]))
@settings(max_examples=50, deadline=None)
def test_shapes_dtypes_and_ranges(shape, seed, dtype):
    generator = seeded(seed)
    values = generator.uniform(shape, -2.0, 3.0, dtype)
    assert values.shape == tuple(shape) and values.dtype == dtype and ((values >= -2.0) & (values < 3.0)).all()
    for values in (generator.normal(shape, dtype=dtype), generator.exponential(shape, dtype=dtype)):
        assert values.shape == tuple(shape) and values.dtype == dtype and np.isfinite(values).all()
    assert generator.bernoulli(0.5, shape).shape == tuple(shape)


@given(st.integers(-(2**63), 2**63 - 1), st.integers(1, 2**63), st.integers(0, 2**32))
@settings(max_examples=50, deadline=None)
def test_integers_stay_in_range(low, span, seed):
    high = min(low + span, 2**63)
    values = seeded(seed).integers(low, high, 50).tolist()
    assert all(low <= value < high for value in values)


@given(st.integers(0, 400), st.integers(0, 2**32))
@settings(max_examples=50, deadline=None)
def test_a_permutation_is_the_shuffle_done_step_by_step(n, seed):
    places = list(range(n))
    words = np.random.RandomState(seed % 2**32).randint(0, 2**32, n, dtype=np.uint32)
    for i, word in enumerate(words[:-1]):
        j = i + int(word) % (n - i)
        places[i], places[j] = places[j], places[i]
    assert seeded(seed % 2**32).permutation(n).tolist() == places


@given(st.lists(st.integers(0, 40), max_size=6), st.integers(0, 2**32), st.integers(1, 700))
@settings(max_examples=50, deadline=None)
def test_a_state_restores_exactly(before, seed, after):
    generator = seeded(seed)
    for n in before:
        generator.normal(n)
        generator.uniform(n)
    saved = json.loads(json.dumps(generator.get_state().tolist()))
    draws = [lambda g: g.normal(3), lambda g: g.uniform(after), lambda g: g.normal(1)]
    expected = [draw(generator) for draw in draws]
    other = Generator().set_state(np.array(saved, np.uint8))
    assert other.initial_seed() == seed
    for draw, wanted in zip(draws, expected, strict=True):
        np.testing.assert_array_equal(draw(other), wanted)


def test_the_second_normal_is_kept_and_a_seed_drops_it():
    generator = seeded()
    assert [generator.normal(1)[0] for _ in range(5)] == seeded().normal(5).tolist()
    generator.manual_seed(123)
    assert generator.normal(5).tolist() == seeded().normal(5).tolist()


def test_copies_go_their_own_way():
    generator = seeded()
    generator.normal(3)
    twins = [copy.deepcopy(generator), pickle.loads(pickle.dumps(generator))]
    wanted = generator.normal(40).tolist()
    assert all(twin.normal(40).tolist() == wanted for twin in twins)


def test_threads_share_the_stream_without_losing_or_repeating_numbers():
    generator = seeded()
    with ThreadPoolExecutor(4) as pool:
        parts = list(pool.map(lambda _: generator.uniform(1001), range(64)))
    assert sorted(np.concatenate(parts)) == sorted(seeded().uniform(64 * 1001))


def test_the_default_generator():
    assert random.manual_seed(123) is random.default_generator
    first = random.default_generator.normal(3).tolist()
    state = random.get_rng_state()
    second = random.default_generator.normal(3).tolist()
    random.set_rng_state(state)
    assert random.default_generator.normal(3).tolist() == second != first
    assert random.initial_seed() == 123
    assert random.seed() == random.initial_seed() != random.seed()
    assert Generator().initial_seed() == 67280421310721


def test_states_are_tensors_as_in_pytorch():
    """Programs that resume save them, move them and compare them: torch.set_rng_state(saved["random"].cpu())."""
    state = tinygrad_tf.get_rng_state().clone()
    assert isinstance(state, tinygrad_tf.Tensor) and state.dtype == tinygrad_tf.uint8 and state.shape == (5056,)
    assert tinygrad_tf.equal(state, tinygrad_tf.default_generator.get_state())
    first = tinygrad_tf.rand(2)
    assert not tinygrad_tf.equal(state, tinygrad_tf.random.get_rng_state())
    tinygrad_tf.set_rng_state(state.cpu().byte())
    assert tinygrad_tf.equal(tinygrad_tf.rand(2), first)


def test_importing_does_not_import_the_slow_parts():
    program = "import sys, tinygrad_tf.random; print('numpy.random' in sys.modules, 'numba' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert out.split() == ["False", "False"]


# --- multinomial: never what has weight 0 -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "weights", [[0, 1, 0], [1, 0, 0], [0, 0, 1], [[0, 1], [1, 0]], [0.0, 1e-45, 0.0], [0.0, 3e38, 1e38]]
)
@pytest.mark.parametrize("samples, replacement", [(1, False), (1, True), (200, True)])
def test_weight_zero_is_never_drawn(weights, samples, replacement):
    weights = np.array(weights, np.float32)
    drawn = seeded(0).multinomial(weights, samples, replacement)
    assert drawn.shape == (*weights.shape[:-1], samples) and drawn.dtype == np.int64
    assert (np.take_along_axis(weights, drawn, axis=-1) > 0.0).all()


def test_extreme_draws_stay_on_positive_weights(monkeypatch):
    weights = np.array([[0.0, 0.5, 0.0, 0.5, 0.0]], np.float32)
    for fraction in (0.0, 1.0 - 2.0**-53):
        monkeypatch.setattr(Generator, "_fractions", lambda self, count, dtype, f=fraction: np.full(count, f, dtype))
        assert set(Generator().multinomial(weights, 8, True).ravel().tolist()) == {1 if fraction == 0.0 else 3}
        assert Generator().multinomial(weights, 1)[0, 0] in (1, 3)


def test_long_rows_reach_their_tails():
    n = 2048
    allowed = np.arange(n) % 3 == 0
    drawn = seeded(1).multinomial(allowed.astype(np.float32), 20000, True)
    assert allowed[drawn].all() and np.unique(drawn).size == allowed.sum()
    tail = np.full(2**22, 1e-8, np.float32)
    tail[0] = 1.0  # float32 sums would stop at 1: the tail, 4 % of the weight, would be lost
    drawn = seeded(2).multinomial(tail, 20000, True)
    assert math.isclose((drawn > 0).mean(), 0.0403, abs_tol=0.006)
    assert drawn.max() > 0.99 * 2**22


def test_large_weights_do_not_tie_at_infinity():
    many = np.broadcast_to(np.array([3e38, 1e38], np.float32), (20000, 2))
    assert math.isclose(seeded(5).multinomial(many, 1).mean(), 0.25, abs_tol=0.015)


def test_frequencies_follow_the_weights():
    weights = np.array([1.0, 0.0, 3.0, 6.0], np.float32)
    many = np.broadcast_to(weights, (20000, 4))
    draws = [seeded(3).multinomial(*ask) for ask in ((weights, 20000, True), (many, 1), (many, 1, True), (many, 2))]
    draws[3] = draws[3][:, 0]
    for drawn in draws:
        np.testing.assert_allclose(np.bincount(drawn.ravel(), minlength=4) / 20000, weights / 10.0, atol=0.015)
    pairs = seeded(4).multinomial(many, 3)
    assert (np.sort(pairs, axis=1) == [0, 2, 3]).all()


@pytest.mark.parametrize(
    "weights, samples, words",
    [
        ([0.0, 0.0], 1, "positive sum"),
        ([[1.0, 1.0], [0.0, 0.0]], 1, "row 1"),
        ([-1.0, 2.0], 1, "not negative"),
        ([float("nan"), 1.0], 1, "NaN"),
        ([float("inf"), 1.0], 1, "finite"),
        ([1e308, 1e308], 1, "sum"),
        ([0.0, 1.0], 2, "positive"),
        ([1.0, 1.0], 3, "num_samples=3"),
        ([1.0, 1.0], 0, "num_samples"),
        ([], 1, "shape"),
        (1.0, 1, "shape"),
        (np.array([1, 2]), 1, "dtype"),
    ],
)
def test_bad_weights_are_refused(weights, samples, words):
    for kind in (ValueError, RuntimeError):
        with pytest.raises(kind, match=words):
            seeded().multinomial(np.asarray(weights), samples)


@pytest.mark.parametrize(
    "call",
    [
        lambda g: g.uniform(3, 2.0, 1.0),
        lambda g: g.uniform(3, 0.0, math.inf),
        lambda g: g.uniform(-1),
        lambda g: g.uniform(3, dtype=np.int64),
        lambda g: g.normal(3, std=-1.0),
        lambda g: g.normal(3, std=math.nan),
        lambda g: g.integers(5, 5, 3),
        lambda g: g.integers(0, 257, 3, np.uint8),
        lambda g: g.integers(0, 2**24 + 2, 3, np.float32),
        lambda g: g.permutation(-1),
        lambda g: g.bernoulli(1.5, 3),
        lambda g: g.bernoulli(np.array([0.5, math.nan])),
        lambda g: g.exponential(3, 0.0),
        lambda g: g.set_state(np.zeros(5056, np.uint8)),
        lambda g: g.set_state(np.zeros(7, np.uint8)),
        lambda g: Generator("cuda"),
    ],
)
def test_bad_arguments_are_refused_and_change_nothing(call):
    generator = seeded()
    with pytest.raises(InvalidRandomArgument):
        call(generator)
    assert generator.uniform(5).tolist() == seeded().uniform(5).tolist()


def test_seeds_out_of_range_or_not_integers():
    for bad in (2**64, -(2**63) - 1):
        with pytest.raises(ValueError, match="seed"):
            Generator().manual_seed(bad)
    for bad in (None, "x", [1], math.inf):
        with pytest.raises(TypeError, match="seed"):
            Generator().manual_seed(bad)


# --- statistics -------------------------------------------------------------------------------------------------------


def test_moments():
    generator, n = seeded(7), 200_000
    for values, mean, variance in [
        (generator.uniform(n), 1 / 2, 1 / 12),
        (generator.normal(n), 0.0, 1.0),
        (generator.normal(n, dtype=np.float64), 0.0, 1.0),
        (np.concatenate([generator.normal(15) for _ in range(n // 15)]), 0.0, 1.0),
        (generator.exponential(n, 2.0), 1 / 2, 1 / 4),
        (generator.bernoulli(0.9, n), 0.9, 0.09),
        (generator.integers(0, 101, n), 50.0, (101**2 - 1) / 12),
    ]:
        error = 5.0 * math.sqrt(variance / len(values))
        assert abs(values.mean(dtype=np.float64) - mean) < error
        assert math.isclose(values.var(dtype=np.float64), variance, rel_tol=0.03)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int64", "int32", "uint8", "bool"])
def test_integers_of_every_dtype_and_layout_as_in_pytorch(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    found = []
    for t in (torch, tinygrad_tf):
        x = t.zeros(2, 3, 5, dtype=getattr(t, dtype)).permute(2, 1, 0)
        t.manual_seed(3)
        drawn = [x.clone().random_(), x.clone().random_(2), t.randint_like(x, 2), t.randint_like(x, low=0, high=2)]
        if x.is_floating_point():
            drawn.append(t.bernoulli(x + 0.5))
        found.append([y.to(t.float64).tolist() for y in drawn] + [t.rand(2).tolist()])
    assert found[0] == found[1]


def test_counts_and_log_normal_numbers_are_pytorchs() -> None:
    torch = pytest.importorskip("torch")
    found = []
    for t in (torch, tinygrad_tf):
        t.manual_seed(7)
        rates, chances = t.tensor([0.0, 1.5, 3.0, 40.0]), t.tensor([[0.1, 0.5, 0.9], [0.0, 0.3, 1.0]])
        drawn = [
            t.poisson(rates),
            t.binomial(t.tensor([3.0, 10.0, 100.0]).expand(2, 3), chances),
            t.empty(40).log_normal_(0.5, 0.2),
        ]
        drawn += [t.poisson(rates, t.Generator().manual_seed(1)), t.zeros(2, 3).double().log_normal_(), t.rand(2)]
        found.append([(str(y.dtype), tuple(y.shape), y.double().numpy()) for y in drawn])
    for (dtype, shape, numbers), (same_dtype, same_shape, wanted) in zip(*found, strict=True):
        assert (dtype, shape) == (same_dtype, same_shape)
        np.testing.assert_allclose(numbers, wanted, rtol=1e-6)


def test_counts_need_floats() -> None:
    with pytest.raises(RuntimeError, match="poisson"):
        tinygrad_tf.poisson(tinygrad_tf.tensor([1, 2]))

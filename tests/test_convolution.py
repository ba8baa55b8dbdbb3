"""Convolutions, pooling and resizing: what PyTorch gives, what can be counted by hand, and what is said of misuse."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tinygrad_tf as tg
from tests.test_nn import Function, rows, spread, starts_as_in_pytorch, value_and_gradients
from tinygrad_tf import nn
from tinygrad_tf.nn import functional as F

LINE, IMAGE, VOLUME = (2, 4, 9), (2, 4, 5, 6), (2, 4, 3, 4, 5)
FUNCTIONS: dict[str, tuple[Function, tuple[tuple[int, ...], ...]]] = {
    "conv1d": (lambda f, x, w, b: f.conv1d(x, w, b, 2, 1), (LINE, (6, 4, 3), (6,))),
    "conv1d without batch": (lambda f, x, w, b: f.conv1d(x, w, b, dilation=3), ((4, 9), (6, 4, 3), (6,))),
    "conv1d same": (lambda f, x, w: f.conv1d(x, w, padding="same", dilation=2, groups=4), (LINE, (8, 1, 4))),
    "conv2d": (lambda f, x, w, b: f.conv2d(x, w, b, (2, 1), (0, 2), (1, 2)), (IMAGE, (3, 4, 2, 3), (3,))),
    "conv2d groups": (lambda f, x, w, b: f.conv2d(x, w, b, groups=2), (IMAGE, (6, 2, 3, 2), (6,))),
    "conv_transpose1d": (lambda f, x, w, b: f.conv_transpose1d(x, w, b, 3, 1, 2), (LINE, (4, 2, 3), (2,))),
    "conv_transpose2d": (
        lambda f, x, w, b: f.conv_transpose2d(x, w, b, (2, 1), (1, 0), (1, 0), 2, (1, 2)),
        (IMAGE, (4, 3, 2, 3), (6,)),
    ),
    "conv3d": (lambda f, x, w, b: f.conv3d(x, w, b, (2, 1, 1), (1, 0, 2), (1, 2, 1)), (VOLUME, (4, 4, 2, 2, 3), (4,))),
    "conv3d same": (lambda f, x, w: f.conv3d(x, w, padding="same", groups=2), (VOLUME[1:], (6, 2, 1, 3, 3))),
    "conv_transpose3d": (
        lambda f, x, w, b: f.conv_transpose3d(x, w, b, (2, 1, 3), (1, 0, 1), (1, 0, 2), 2, (1, 2, 1)),
        (VOLUME, (4, 3, 2, 2, 3), (6,)),
    ),
    "unfold": (lambda f, x: f.unfold(x, (2, 3), (1, 2), (1, 0), 2), (IMAGE,)),
    "fold": (lambda f, x: f.fold(x, (4, 5), (2, 3), 1, (1, 0), (2, 1)), ((2, 12, 9),)),
    "max_pool1d": (lambda f, x: f.max_pool1d(x, 3, 2, 1), (LINE,)),
    "max_pool2d": (lambda f, x: f.max_pool2d(x, (2, 3), (1, 2), (1, 0), (2, 1), ceil_mode=True), (IMAGE,)),
    "max_pool3d": (lambda f, x: f.max_pool3d(x, 2, (1, 2, 1), (1, 0, 1), (1, 1, 2), ceil_mode=True), (VOLUME,)),
    "avg_pool1d": (lambda f, x: f.avg_pool1d(x, 4, 3, 2, count_include_pad=False), (LINE,)),
    "avg_pool2d": (lambda f, x: f.avg_pool2d(x, (2, 3), 2, 1, ceil_mode=True), (IMAGE,)),
    "avg_pool2d divisor": (lambda f, x: f.avg_pool2d(x, 2, divisor_override=3), (IMAGE,)),
    "avg_pool3d": (lambda f, x: f.avg_pool3d(x, (2, 3, 1), 2, (1, 1, 0), True, False), (VOLUME,)),
    "avg_pool3d divisor": (lambda f, x: f.avg_pool3d(x, 2, 1, divisor_override=3), (VOLUME,)),
    "adaptive_avg_pool1d": (lambda f, x: f.adaptive_avg_pool1d(x, 4), (LINE,)),
    "adaptive_avg_pool2d": (lambda f, x: f.adaptive_avg_pool2d(x, (3, None)), (IMAGE,)),
    "adaptive_max_pool1d": (lambda f, x: f.adaptive_max_pool1d(x, 4), (LINE,)),
    "adaptive_max_pool2d": (lambda f, x: f.adaptive_max_pool2d(x, (3, 4)), (IMAGE,)),
    "adaptive_avg_pool3d": (lambda f, x: f.adaptive_avg_pool3d(x, (2, None, 4)), (VOLUME,)),
    "adaptive_max_pool3d": (lambda f, x: f.adaptive_max_pool3d(x, (2, 3, 1)), (VOLUME,)),
    "nearest": (lambda f, x: f.interpolate(x, scale_factor=1.7), (IMAGE,)),
    "nearest-exact": (lambda f, x: f.interpolate(x, (3, 11), mode="nearest-exact"), (IMAGE,)),
    "linear": (lambda f, x: f.interpolate(x, 13, mode="linear"), (LINE,)),
    "bilinear": (lambda f, x: f.interpolate(x, scale_factor=(0.7, 2.0), mode="bilinear"), (IMAGE,)),
    "bilinear recomputed": (
        lambda f, x: f.interpolate(x, scale_factor=1.3, mode="bilinear", recompute_scale_factor=True),
        (IMAGE,),
    ),
    "bicubic": (lambda f, x: f.interpolate(x, (9, 4), mode="bicubic", align_corners=True), (IMAGE,)),
    "bicubic edges": (lambda f, x: f.interpolate(x, (9, 4), mode="bicubic"), (IMAGE,)),
    "area": (lambda f, x: f.interpolate(x, (3, 4), mode="area"), (IMAGE,)),
    "pixel_shuffle": (lambda f, x: f.pixel_shuffle(x, 2), ((2, 8, 2, 3),)),
    "pixel_unshuffle": (lambda f, x: f.pixel_unshuffle(x, 2), ((2, 1, 4, 6),)),
    "pad reflect and cut": (lambda f, x: f.pad(x, (2, -1), "reflect"), (LINE,)),
    "pad replicate and cut": (lambda f, x: f.pad(x, (1, -8), "replicate"), (LINE,)),
    "pad circular and cut": (lambda f, x: f.pad(x, (2, -3), "circular"), (LINE,)),
}


@pytest.fixture(scope="module")
def torch() -> ModuleType:
    return pytest.importorskip("torch")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_as_in_pytorch(torch: ModuleType, name: str, dtype: str) -> None:
    function, shapes = FUNCTIONS[name]
    arrays = tuple(spread(*s) if "max" in name else rows(*s) for s in shapes)
    wanted = value_and_gradients(torch, lambda t, *a: function(t.nn.functional, *a), arrays, dtype)
    found = value_and_gradients(tg, lambda t, *a: function(t.nn.functional, *a), arrays, dtype)
    rtol, atol = (1e-10, 1e-11) if dtype == "float64" else (2e-5, 1e-5)
    for got, want in zip(found, wanted, strict=True):
        assert got.dtype == want.dtype and got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=rtol, atol=atol * max(1.0, float(np.abs(want).max(initial=0.0))))


MODULES: dict[str, Callable[[Any], Any]] = {
    "Conv1d": lambda n: n.Conv1d(3, 4, 3, stride=2, padding=1, dilation=2, bias=False),
    "Conv2d": lambda n: n.Conv2d(4, 6, (2, 3), padding="same", groups=2, padding_mode="reflect"),
    "ConvTranspose1d": lambda n: n.ConvTranspose1d(3, 4, 3, stride=2, output_padding=1),
    "ConvTranspose2d": lambda n: n.ConvTranspose2d(4, 2, 3, padding=(0, 1), groups=2),
    "Conv3d": lambda n: n.Conv3d(4, 6, (1, 2, 3), stride=2, padding=1, groups=2, padding_mode="replicate"),
    "ConvTranspose3d": lambda n: n.ConvTranspose3d(4, 2, 3, stride=2, output_padding=(0, 1, 0), bias=False),
    "BatchNorm3d": lambda n: n.BatchNorm3d(5),
    "InstanceNorm3d": lambda n: n.InstanceNorm3d(5, affine=True, track_running_stats=True),
    "pools of volumes": lambda n: n.ModuleList(
        [n.MaxPool3d((1, 2, 2), 2), n.AvgPool3d(2), n.AdaptiveAvgPool3d((1, None, 2)), n.AdaptiveMaxPool3d(2)]
    ),
    "BatchNorm2d": lambda n: n.BatchNorm2d(5),
    "pools": lambda n: n.ModuleList(
        [
            n.MaxPool1d(2), n.MaxPool2d((2, 1), stride=3), n.AvgPool1d(2), n.AvgPool2d(3, 1),
            n.AdaptiveAvgPool1d(2), n.AdaptiveAvgPool2d((1, None)), n.AdaptiveMaxPool1d(2), n.AdaptiveMaxPool2d(1),
        ]
    ),
    "others": lambda n: n.Sequential(
        n.ZeroPad2d(1), n.ConstantPad1d((1, 2), 3.5), n.ReflectionPad2d((1, 2, 3, 4)), n.ReplicationPad1d(2),
        n.CircularPad2d(1), n.Dropout1d(0.1), n.Dropout2d(0.2), n.PixelShuffle(2), n.PixelUnshuffle(2), n.Unfold(2),
        n.Fold((3, 4), 2), n.Upsample(scale_factor=2, mode="bilinear"), n.Upsample(7),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_module_starts_as_in_pytorch(torch: ModuleType, name: str) -> None:
    starts_as_in_pytorch(torch, MODULES[name], printed=name != "others")  # PyTorch prints those in several ways


def test_a_convolutional_network_trains_as_in_pytorch(torch: ModuleType) -> None:
    """Ten steps of a small classifier of images: the same losses, from the same seed on."""
    losses = []
    for t in (torch, tg):
        t.manual_seed(3)
        n = t.nn
        model = n.Sequential(
            n.Conv2d(1, 4, 3, padding=1), n.BatchNorm2d(4), n.ReLU(), n.MaxPool2d(2),
            n.Conv2d(4, 8, 3, groups=2), n.GELU(), n.AdaptiveAvgPool2d(1), n.Flatten(), n.Linear(8, 3),
        )  # fmt: skip
        optimizer, x, y = t.optim.AdamW(model.parameters(), 0.02), t.randn(6, 1, 8, 8), t.tensor([0, 1, 2, 0, 1, 2])
        found = []
        for _ in range(10):
            loss = n.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        losses.append(found)
    np.testing.assert_allclose(losses[1], losses[0], rtol=2e-4)
    assert losses[0][-1] < losses[0][0]


def test_lazy_layers_become_plain_ones_as_in_pytorch(torch: ModuleType) -> None:
    """The same weights from the same seed, with an optimiser made before the sizes are known."""
    found = []
    for t in (torch, tg):
        t.manual_seed(5)
        n = t.nn
        model = n.Sequential(
            n.LazyConv2d(4, 3, groups=2), n.LazyBatchNorm2d(), n.LazyConvTranspose2d(3, 2, bias=False), n.Flatten(),
            n.LazyLinear(6), n.Unflatten(1, (2, 3)), n.LazyConv1d(2, 1), n.LazyConvTranspose1d(2, 1),
            n.LazyBatchNorm1d(),
        )  # fmt: skip
        optimizer = t.optim.SGD(model.parameters(), 0.1)
        x = t.linspace(-1, 1, 3 * 2 * 5 * 5).reshape(3, 2, 5, 5)
        for _ in range(2):
            optimizer.zero_grad()
            (model(x) * t.arange(3.0)).square().mean().backward()
            optimizer.step()
        found.append([repr(model), *(v.numpy() for v in model.state_dict().values())])
    assert found[0][0] == found[1][0]
    for got, want in zip(found[1][1:], found[0][1:], strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="groups must divide 3 channels, got 2"):
        nn.LazyConv1d(4, 2, groups=2)(tg.ones(1, 3, 5))


def test_lazy_layers_take_their_sizes_from_weights_that_are_loaded() -> None:
    """Before any input, as when a model is saved in one program and read in another."""

    def made() -> nn.Sequential:
        convolutions = (nn.LazyConv2d(4, 3, groups=2), nn.LazyBatchNorm2d(affine=False), nn.LazyConvTranspose2d(3, 2))
        return nn.Sequential(*convolutions, nn.Flatten(), nn.LazyLinear(6), nn.LazyBatchNorm1d())

    x, model, other = tg.randn(3, 2, 5, 5), made(), made()
    assert repr(model[0].weight) == repr(model[4].bias) == "<UninitializedParameter>"
    with pytest.raises(RuntimeError, match="no shape before its layer's first input"):
        _ = model[0].weight.shape
    other.load_state_dict(model.state_dict())  # neither has seen anything
    model(x)
    assert type(model[4].weight) is type(model[4].bias) is nn.Parameter
    before = dict(model.state_dict())
    other.load_state_dict(before)
    assert repr(other) == repr(model) and other.eval()(x).equal(model.eval()(x))
    with pytest.raises(RuntimeError, match=r"4.weight must have the shape \(6, 47\), got \(5, 47\)"):
        made().load_state_dict({**before, "4.weight": before["4.weight"][:5, :47]})


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_a_transposed_convolution_gives_the_size_that_is_asked_for(torch: ModuleType, axes: int) -> None:
    """Auto-encoders ask for the size of what the convolution saw."""
    for output_size in ((8,) * axes, (9,) * axes, (1, 2, *(8,) * axes)):
        found = []
        for t in (torch, tg):
            t.manual_seed(2)
            layer = getattr(t.nn, f"ConvTranspose{axes}d")(3, 2, 3, stride=3, padding=1)
            lazy = getattr(t.nn, f"LazyConvTranspose{axes}d")(2, 3, stride=3, padding=1)
            x = t.linspace(-1, 1, 3**axes * 3).reshape(1, 3, *(3,) * axes)
            assert lazy(x, output_size=output_size).shape == layer(x, output_size).shape
            found.append(layer(x, output_size).detach().numpy())
        np.testing.assert_allclose(found[1], found[0], rtol=1e-5, atol=1e-6)
    for t in (torch, tg):
        layer = getattr(t.nn, f"ConvTranspose{axes}d")(3, 2, 3, stride=3, padding=1)
        for wrong in ((6,) * axes, (10,) * axes, (8,) * (axes + 3)):
            with pytest.raises(ValueError, match=r"output.size"):
                layer(t.ones(1, 3, *(3,) * axes), wrong)


def test_volumes_as_in_pytorch(torch: ModuleType) -> None:
    """The same weights from the same seed, layers of all kinds, and places in the volume."""
    found = []
    for t in (torch, tg):
        t.manual_seed(5)
        n = t.nn
        first = (n.LazyConv3d(4, 2, groups=2), n.LazyBatchNorm3d(), n.ReLU())
        model = n.Sequential(*first, n.LazyConvTranspose3d(3, 2), n.InstanceNorm3d(3))
        x = t.linspace(-1, 1, 2 * 2 * 4 * 3 * 3).reshape(2, 2, 4, 3, 3).sin()
        (model(x) * t.arange(3.0)).square().mean().backward()
        best, places = n.functional.max_pool3d(x, (2, 2, 1), return_indices=True)
        coarse, parts = n.AdaptiveMaxPool3d((2, 1, 2), return_indices=True)(x)
        found.append([repr(model), best, places, coarse, parts, *(p.grad for p in model.parameters())])
    assert found[0][0] == found[1][0]
    for got, want in zip(found[1][1:], found[0][1:], strict=True):
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-4, atol=1e-5)


def test_values_that_can_be_counted() -> None:
    x = tg.tensor([[[1.0, 2.0, 4.0, 8.0]]], requires_grad=True)
    assert F.conv1d(x, tg.tensor([[[1.0, 10.0]]]), stride=2).tolist() == [[[21.0, 84.0]]]
    best, where = F.max_pool1d(x, 2, return_indices=True)
    assert best.tolist() == [[[2.0, 8.0]]] and where.tolist() == [[[1, 3]]]
    assert F.avg_pool1d(x, 2).tolist() == [[[1.5, 6.0]]]
    assert F.adaptive_avg_pool1d(x, 3).tolist() == [[[1.5, 3.0, 6.0]]]
    F.max_pool1d(x * 0.0, 4).sum().backward()  # of equal entries the first gets the gradient
    assert x.grad is not None and x.grad.tolist() == [[[0.0] * 4]]
    zeros = tg.zeros(1, 1, 4, requires_grad=True)
    F.max_pool1d(zeros, 4).sum().backward()
    assert zeros.grad is not None and zeros.grad.tolist() == [[[1.0, 0.0, 0.0, 0.0]]]
    image = tg.arange(6.0).reshape(1, 1, 2, 3)
    assert F.fold(F.unfold(image, 2), (2, 3), 2).tolist() == [[[[0.0, 2.0, 2.0], [3.0, 8.0, 5.0]]]]
    assert F.conv2d(image, tg.ones(1, 1, 2, 2)).is_contiguous()  # so that .view(N, -1) works as in tutorials


@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.max_pool1d(x, 2),
        lambda x: F.max_pool2d(x, 2, padding=1, ceil_mode=True),
        lambda x: F.avg_pool1d(x, 2),
        lambda x: F.avg_pool2d(x, 3, 2),
        lambda x: F.adaptive_avg_pool1d(x, 3),
        lambda x: F.adaptive_avg_pool2d(x, (2, 3)),
        lambda x: F.adaptive_max_pool1d(x, 3),
        lambda x: F.adaptive_max_pool2d(x, (3, 2)),
        lambda x: F.interpolate(x[None], (2, 3), mode="area"),
        lambda x: F.pad(x, (2, 1), "reflect"),
        lambda x: F.pad(x, (2, 1), "replicate"),
        lambda x: F.nll_loss(x[0], tg.tensor([1, 0, 2, 2])),
    ],
)
def test_second_derivatives_of_straight_pieces_are_zero_and_not_missing(function: Callable[[Any], Any]) -> None:
    x = tg.from_numpy(spread(1, 4, 5)).requires_grad_()
    (slope,) = tg.autograd.grad(function(x).sum(), x, create_graph=True)
    (curvature,) = tg.autograd.grad(slope.sum(), x)
    assert curvature.shape == x.shape and not curvature.any()


def test_channels_are_dropped_as_a_whole() -> None:
    tg.manual_seed(0)
    dropped = F.dropout2d(tg.ones(8, 16, 3, 3), 0.5).numpy().reshape(8 * 16, 9)
    assert set(np.unique(dropped)) == {0.0, 2.0}
    assert (dropped == dropped[:, :1]).all()
    assert (nn.Dropout1d(0.5).eval()(tg.ones(2, 3, 4)) == 1).all()


DROPOUTS: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "dropout1d without a batch": (lambda f, x: f.dropout1d(x, 0.4), (9, 4)),
    "dropout2d of (N, C)": (lambda f, x: f.dropout2d(x, 0.4), (4, 9)),
    "dropout2d of (N, C, L)": (lambda f, x: f.dropout2d(x, 0.4), (4, 9, 2)),
    "dropout3d": (lambda f, x: f.dropout3d(x, 0.4), (2, 9, 2, 1, 3)),
    "dropout3d without a batch": (lambda f, x: f.dropout3d(x, 0.4), (9, 2, 1, 3)),
    "alpha_dropout": (lambda f, x: f.alpha_dropout(x, 0.3, training=True), (4, 9)),
    "alpha_dropout in place": (lambda f, x: f.alpha_dropout(x * 1, 0.3, True, inplace=True), (4, 9)),
    "feature_alpha_dropout": (lambda f, x: f.feature_alpha_dropout(x, 0.3, training=True), (4, 9, 2)),
}


@pytest.mark.parametrize("name", DROPOUTS)
def test_dropout_drops_what_pytorch_drops(name: str) -> None:
    torch = pytest.importorskip("torch")
    function, shape = DROPOUTS[name]
    found = []
    for t in (torch, tg):
        t.manual_seed(5)
        x = (t.arange(float(np.prod(shape))).reshape(shape) / 10).requires_grad_()
        out = function(t.nn.functional, x)
        (out * out).sum().backward()
        found.append((out.detach().numpy(), x.grad.numpy()))
    for got, want in zip(found[1], found[0], strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_layers_that_drop() -> None:
    assert repr(nn.AlphaDropout(0.2)) == "AlphaDropout(p=0.2, inplace=False)"
    x = tg.randn(2, 3, 4, 5, 6)
    for layer in (nn.Dropout3d(0.5), nn.AlphaDropout(0.5), nn.FeatureAlphaDropout(0.5)):
        assert (layer(x) != x).any() and layer.eval()(x) is x
    for function, shape, words in (
        (F.dropout1d, (3,), r"dropout1d: input must be \(N, C, L\) or \(C, L\), got shape \(3,\)"),
        (F.dropout2d, (3,), r"dropout2d: input must be \(N, C, H, W\), got shape \(3,\)"),
        (F.feature_alpha_dropout, (3,), r"feature_alpha_dropout: input must be \(N, C, \*\), got shape \(3,\)"),
    ):
        with pytest.raises(RuntimeError, match=words):
            function(tg.ones(*shape), 0.5, True)
    with pytest.raises(ValueError, match=r"alpha_dropout: p must be in \[0, 1\], got 2"):
        F.alpha_dropout(x, 2, True)


class Standardised(nn.Conv2d):
    """A layer that changes its weights on the way, as tutorials write it."""

    def forward(self, input: tg.Tensor) -> tg.Tensor:
        return self._conv_forward(input, self.weight - self.weight.mean(), self.bias)


def test_a_convolution_with_other_weights() -> None:
    layer, x = Standardised(2, 3, 3, padding=1, padding_mode="reflect"), tg.randn(1, 2, 4, 4)
    twin = nn.Conv2d(2, 3, 3, padding=1, padding_mode="reflect")
    twin.load_state_dict({"weight": layer.weight.detach() - layer.weight.detach().mean(), "bias": layer.bias.detach()})
    assert tg.allclose(layer(x), twin(x))
    bare = nn.Embedding(3, 2)
    assert (bare.max_norm, bare.norm_type, bare.scale_grad_by_freq, bare.sparse) == (None, 2.0, False, False)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: F.conv1d(tg.ones(2, 3), tg.ones(1, 1, 2)), RuntimeError, r"wants 1 channels, got input \(1, 2, 3\)"),
        (lambda: F.conv1d(tg.ones(3), tg.ones(1, 1, 2)), RuntimeError, r"\(N, C, L\) or \(C, L\), got shape \(3,\)"),
        (lambda: F.conv2d(tg.ones(1, 1, 3, 3), tg.ones(1, 1, 4, 2)), RuntimeError, r"\(4, 2\).*does not fit.*\(3, 3\)"),
        (lambda: F.conv2d(tg.ones(1, 4, 3, 3), tg.ones(3, 2, 2, 2), groups=2), RuntimeError, "divide the 4 input"),
        (lambda: F.conv1d(tg.ones(1, 1, 3), tg.ones(1, 1, 2), stride=0), RuntimeError, "stride.*from 1 on, got 0"),
        (lambda: F.conv2d(tg.ones(1, 1, 3, 3), tg.ones(1, 1, 2, 2), padding="full"), ValueError, "'same', got 'full'"),
        (lambda: nn.Conv1d(3, 4, 2, groups=2), ValueError, "groups must divide in_channels 3"),
        (lambda: nn.Conv1d(4, 4, 2, padding_mode="mirror"), ValueError, "padding_mode.*'mirror'"),
        (lambda: nn.Conv2d(4, 4, (2, 2, 2)), RuntimeError, r"kernel_size.*or 2 of them, got \(2, 2, 2\)"),
        (lambda: F.max_pool1d(tg.ones(1, 1, 4), 2, padding=2), RuntimeError, "at most half of kernel_size"),
        (lambda: F.avg_pool1d(tg.ones(1, 1, 4), 5), RuntimeError, "a window of 5 does not fit into an axis of 4"),
        (lambda: F.conv3d(tg.ones(3, 2), tg.ones(1, 1, 2, 2, 2)), RuntimeError, r"\(C, D, H, W\), got shape \(3, 2\)"),
        (lambda: F.fold(tg.ones(1, 4, 5), (3, 3), 2), RuntimeError, r"\(2, 2\) windows.*got \(1, 4, 5\)"),
        (lambda: F.interpolate(tg.ones(1, 1, 4), 2, mode="bilinear"), NotImplementedError, "mode must be .*'bilinear'"),
        (lambda: F.interpolate(tg.ones(1, 1, 4)), ValueError, "size or scale_factor"),
        (lambda: F.pixel_shuffle(tg.ones(1, 4, 2, 2), -1), RuntimeError, "pixel_shuffle: the factor must be"),
        (lambda: F.unfold(tg.ones(1, 1, 2, 3), 3), RuntimeError, r"unfold: no window of \(3, 3\) .* \(2, 3\)"),
        (lambda: F.fold(tg.ones(1, 9, 0), 2, 3, padding=(1, 0)), RuntimeError, r"fold: \(2, 0\) windows"),
        (lambda: F.conv_transpose1d(tg.ones(1, 1, 2), tg.ones(1, 1, 2), padding=2), RuntimeError, r"would be \(-1,\)"),
        (lambda: F.pixel_shuffle(tg.ones(1, 3, 2, 2), 2), RuntimeError, "3 channels"),
        (lambda: nn.BatchNorm2d(3)(tg.ones(2, 3)), ValueError, r"\(N, 3, H, W\), got \(2, 3\)"),
    ],
)  # fmt: skip
def test_misuse_is_told(make: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words) as told:
        make()
    assert "\n" not in str(told.value)

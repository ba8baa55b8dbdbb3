"""Training steps as lessons write them: small models of every kind, of layers or by hand, in PyTorch's vocabulary.

A lesson is a function of the library that gives a function which does one step and returns the loss. Weights and random
numbers come from the library's own generator: the losses agree because both draw the same. Inputs are random numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Step = Callable[[], float]
B, V = 32, 65  # texts or pictures in a batch, characters


def make(torch: Any, name: str) -> Step:
    """The lesson of that name, from the same start each time."""
    torch.manual_seed(0)
    return LESSONS[name](torch)


def _normal(torch: Any, *shape: int) -> Any:
    return torch.from_numpy(np.random.default_rng(1).standard_normal(shape).astype(np.float32))


def _ids(torch: Any, most: int, *shape: int) -> Any:
    return torch.from_numpy(np.random.default_rng(2).integers(0, most, shape))


def _trained(torch: Any, parameters: Any, loss_of: Callable[[], Any], **options: Any) -> Step:
    """A step of Adam on the parameters, for the loss of a batch."""
    optimizer = torch.optim.Adam(parameters, lr=1e-4, **options)

    def step() -> float:
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        optimizer.step()
        return float(loss.item())

    return step


def _descended(torch: Any, parameters: list[Any], loss_of: Callable[[], Any], rate: float = 1e-3) -> Step:
    """A step of plain gradient descent, by hand."""

    def step() -> float:
        loss = loss_of()
        for parameter in parameters:
            parameter.grad = None
        loss.backward()
        for parameter in parameters:
            parameter.data += -rate * parameter.grad
        return float(loss.item())

    return step


# --- by hand, in single operations ------------------------------------------------------------------------------------


def line_by_hand(torch: Any) -> Step:
    """Linear regression."""
    X, y = _normal(torch, 100, 3), _normal(torch, 100, 1)
    w, b = torch.zeros(3, 1, requires_grad=True), torch.zeros(1, requires_grad=True)
    return _descended(torch, [w, b], lambda: ((X @ w + b - y) ** 2).mean())


def bigrams_by_hand(torch: Any) -> Step:
    """Which character follows which: one-hot rows choose from a table of logits."""
    W, xs, ys = torch.randn(27, 27, requires_grad=True), _ids(torch, 27, 228), _ids(torch, 27, 228)

    def loss_of() -> Any:
        logits = torch.nn.functional.one_hot(xs, num_classes=27).float() @ W
        counts = logits.exp()
        p = counts / counts.sum(1, keepdim=True)
        return -p[torch.arange(228), ys].log().mean() + 0.01 * (W**2).mean()

    return _descended(torch, [W], loss_of)


def names_by_hand(torch: Any) -> Step:
    """Three characters, embedded, predict the next, with batch norm by hand (Bengio et al., 2003)."""
    shapes = (27, 10), (30, 200), (1, 200), (1, 200), (200, 27), (27,)
    table, W1, gain, bias, W2, b2 = parameters = [(0.1 * torch.randn(*s)).requires_grad_() for s in shapes]
    X, Y = _ids(torch, 27, B, 3), _ids(torch, 27, B)

    def loss_of() -> Any:
        h = table[X].view(B, -1) @ W1
        h = torch.tanh(gain * (h - h.mean(0, keepdim=True)) / (h.std(0, keepdim=True) + 1e-5) + bias)
        return torch.nn.functional.cross_entropy(h @ W2 + b2, Y)

    return _descended(torch, parameters, loss_of)


def rnn_by_hand(torch: Any) -> Step:
    """A recurrent network over one text of 25 characters."""
    shapes = (V, 64), (64, 64), (1, 64), (64, V), (1, V)
    Wx, Wh, bh, Wy, by = parameters = [(0.01 * torch.randn(*s)).requires_grad_() for s in shapes]
    xs, ys = torch.nn.functional.one_hot(_ids(torch, V, 25), V).float(), _ids(torch, V, 25)

    def loss_of() -> Any:
        h, loss = torch.zeros(1, 64), torch.zeros(())
        for t in range(25):
            h = torch.tanh(xs[t : t + 1] @ Wx + h @ Wh + bh)
            loss = loss - torch.log_softmax(h @ Wy + by, dim=1)[0, ys[t]]
        return loss

    return _descended(torch, parameters, loss_of)


def gpt_by_hand(torch: Any) -> Step:
    """Two blocks of attention, each head by itself, with a mask of tril and dropout."""
    nn, F, C, T = torch.nn, torch.nn.functional, 64, 32

    class Head(nn.Module):  # type: ignore[name-defined]
        def __init__(self, size: int) -> None:
            super().__init__()
            self.key, self.query, self.value = (nn.Linear(C, size, bias=False) for _ in range(3))
            self.register_buffer("tril", torch.tril(torch.ones(T, T)))
            self.dropout = nn.Dropout(0.1)

        def forward(self, x: Any) -> Any:
            q, k = self.query(x), self.key(x)
            scores = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5
            scores = scores.masked_fill(self.tril == 0, float("-inf"))
            return self.dropout(F.softmax(scores, dim=-1)) @ self.value(x)

    class Block(nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.heads, self.proj = nn.ModuleList([Head(C // 4) for _ in range(4)]), nn.Linear(C, C)
            self.net = nn.Sequential(nn.Linear(C, 4 * C), nn.ReLU(), nn.Linear(4 * C, C), nn.Dropout(0.1))
            self.ln1, self.ln2 = nn.LayerNorm(C), nn.LayerNorm(C)

        def forward(self, x: Any) -> Any:
            seen = self.ln1(x)
            x = x + self.proj(torch.cat([head(seen) for head in self.heads], dim=-1))
            return x + self.net(self.ln2(x))

    embed, place, head = nn.Embedding(V, C), nn.Embedding(T, C), nn.Linear(C, V)
    model = nn.Sequential(Block(), Block(), nn.LayerNorm(C), head)
    parameters = [*embed.parameters(), *place.parameters(), *model.parameters()]
    x, y = _ids(torch, V, 16, T), _ids(torch, V, 16 * T)
    logits = lambda: model(embed(x) + place(torch.arange(T)))  # noqa: E731
    return _trained(torch, parameters, lambda: F.cross_entropy(logits().view(-1, V), y))


# --- of layers --------------------------------------------------------------------------------------------------------


def moons(torch: Any) -> Step:
    """Two classes of points in the plane."""
    nn, x, y = torch.nn, _normal(torch, 100, 2), _normal(torch, 100, 1)
    model = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1))
    return _trained(torch, model.parameters(), lambda: nn.functional.mse_loss(model(x), y))


def digits(torch: Any) -> Step:
    """Three linear layers for pictures of 28 x 28."""
    nn = torch.nn
    model = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10))
    return _classified(torch, model, _normal(torch, 64, 784), 10)


def digits_convolved(torch: Any) -> Step:
    """LeNet (LeCun et al., 1998)."""
    nn = torch.nn
    seen = nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2)
    read = nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)
    return _classified(torch, nn.Sequential(*seen, *read), _normal(torch, B, 1, 28, 28), 10)


def pictures(torch: Any) -> Step:
    """Convolutions with batch norm for small colour pictures."""
    nn, layers = torch.nn, []
    for inputs, outputs in ((3, 32), (32, 64)):
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2)]
    model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(64 * 8 * 8, 10))
    return _classified(torch, model, _normal(torch, B, 3, 32, 32), 10)


def residual(torch: Any) -> Step:
    """Two residual blocks (He et al., 2015)."""
    nn = torch.nn

    class Block(nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.convs = nn.ModuleList([nn.Conv2d(16, 16, 3, padding=1, bias=False) for _ in range(2)])
            self.norms = nn.ModuleList([nn.BatchNorm2d(16) for _ in range(2)])

        def forward(self, x: Any) -> Any:
            inner = torch.relu(self.norms[0](self.convs[0](x)))
            return torch.relu(x + self.norms[1](self.convs[1](inner)))

    ends = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)
    model = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), Block(), Block(), *ends)
    return _classified(torch, model, _normal(torch, 16, 3, 16, 16), 10)


def patches(torch: Any) -> Step:
    """A Transformer of 64 patches (Dosovitskiy et al., 2020)."""
    nn, C = torch.nn, 64

    class ViT(nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.cut, self.places = nn.Conv2d(3, C, 4, 4), nn.Parameter(0.02 * torch.randn(1, 65, C))
            self.token, self.head = nn.Parameter(torch.zeros(1, 1, C)), nn.Linear(C, 10)
            layer = nn.TransformerEncoderLayer(C, 4, 128, batch_first=True, activation="gelu", dropout=0.0)
            self.encoder = nn.TransformerEncoder(layer, 2)

        def forward(self, x: Any) -> Any:
            x = self.cut(x).flatten(2).transpose(1, 2)
            x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], dim=1) + self.places
            return self.head(self.encoder(x)[:, 0])

    return _classified(torch, ViT(), _normal(torch, 16, 3, 32, 32), 10)


def _classified(torch: Any, model: Any, x: Any, classes: int) -> Step:
    y = _ids(torch, classes, x.shape[0])
    return _trained(torch, model.parameters(), lambda: torch.nn.functional.cross_entropy(model(x), y))


def characters(torch: Any) -> Step:
    """An LSTM of two layers over 64 characters."""
    nn = torch.nn
    embed, lstm, head = nn.Embedding(V, 64), nn.LSTM(64, 128, 2, batch_first=True), nn.Linear(128, V)
    x, y = _ids(torch, V, B, 64), _ids(torch, V, B * 64)
    parameters = [p for module in (embed, lstm, head) for p in module.parameters()]
    return _trained(torch, parameters, lambda: nn.functional.cross_entropy(head(lstm(embed(x))[0]).reshape(-1, V), y))


def translation(torch: Any) -> Step:
    """An encoder-decoder Transformer, two layers each (Vaswani et al., 2017)."""
    nn, C, T = torch.nn, 64, 20
    model = nn.Transformer(C, 4, 2, 2, 256, dropout=0.1, batch_first=True)
    embed, head, mask = nn.Embedding(V, C), nn.Linear(C, V), nn.Transformer.generate_square_subsequent_mask(T)
    source, target, y = _ids(torch, V, B, T), _ids(torch, V, B, T), _ids(torch, V, B * T)
    parameters = [p for module in (model, embed, head) for p in module.parameters()]
    logits = lambda: head(model(embed(source), embed(target), tgt_mask=mask))  # noqa: E731
    return _trained(torch, parameters, lambda: nn.functional.cross_entropy(logits().view(-1, V), y))


def digits_again(torch: Any) -> Step:
    """A variational autoencoder (Kingma and Welling, 2013)."""
    nn, F, x = torch.nn, torch.nn.functional, torch.sigmoid(_normal(torch, 64, 784))
    inner, moments, back = nn.Linear(784, 400), nn.Linear(400, 40), nn.Sequential(nn.Linear(20, 400), nn.ReLU())
    outer = nn.Linear(400, 784)
    parameters = [p for module in (inner, moments, back, outer) for p in module.parameters()]

    def loss_of() -> Any:
        mean, log_variance = moments(torch.relu(inner(x))).chunk(2, dim=1)
        z = mean + torch.randn_like(mean) * torch.exp(0.5 * log_variance)
        error = F.binary_cross_entropy(torch.sigmoid(outer(back(z))), x, reduction="sum")
        return error - 0.5 * torch.sum(1 + log_variance - mean.pow(2) - log_variance.exp())

    return _trained(torch, parameters, loss_of)


def words(torch: Any) -> Step:
    """word2vec with negative samples (Mikolov et al., 2013)."""
    nn, F = torch.nn, torch.nn.functional
    inner, outer = nn.Embedding(5000, 100), nn.Embedding(5000, 100)
    centre, near, far = _ids(torch, 5000, 512), _ids(torch, 5000, 512), _ids(torch, 5000, 512, 5)

    def loss_of() -> Any:
        v = inner(centre)
        close = F.logsigmoid((v * outer(near)).sum(1))
        return -(close + F.logsigmoid(-torch.bmm(outer(far), v.unsqueeze(2)).squeeze(2)).sum(1)).mean()

    return _trained(torch, [*inner.parameters(), *outer.parameters()], loss_of)


def noise(torch: Any) -> Step:
    """Denoising diffusion of points in the plane (Ho et al., 2020)."""
    nn = torch.nn
    model = nn.Sequential(nn.Linear(3, 128), nn.SiLU(), nn.Linear(128, 128), nn.SiLU(), nn.Linear(128, 2))
    x, kept = _normal(torch, 256, 2), torch.cumprod(1 - torch.linspace(1e-4, 0.02, 100), 0)

    def loss_of() -> Any:
        t, error = torch.randint(0, 100, (256,)), torch.randn_like(x)
        share = kept[t].unsqueeze(1)
        seen = share.sqrt() * x + (1 - share).sqrt() * error
        return ((model(torch.cat([seen, t.unsqueeze(1) / 100], 1)) - error) ** 2).mean()

    return _trained(torch, model.parameters(), loss_of)


def policy(torch: Any) -> Step:
    """REINFORCE (Williams, 1992): 40 actions, one after the other."""
    nn, states = torch.nn, _normal(torch, 40, 4)
    model = nn.Sequential(nn.Linear(4, 128), nn.ReLU(), nn.Linear(128, 2))

    def loss_of() -> Any:
        losses = []
        for k in range(40):
            choice = torch.distributions.Categorical(torch.softmax(model(states[k].unsqueeze(0)), 1))
            losses.append(-choice.log_prob(choice.sample()) * 0.5)
        return torch.cat(losses).sum()

    return _trained(torch, model.parameters(), loss_of)


LESSONS: dict[str, Callable[[Any], Step]] = {
    "linear regression by hand": line_by_hand,
    "bigrams by hand": bigrams_by_hand,
    "MLP with batch norm by hand": names_by_hand,
    "RNN by hand": rnn_by_hand,
    "GPT by hand": gpt_by_hand,
    "MLP of points": moons,
    "MLP of digits": digits,
    "LeNet": digits_convolved,
    "convolutions with batch norm": pictures,
    "residual blocks": residual,
    "vision Transformer": patches,
    "LSTM": characters,
    "encoder-decoder Transformer": translation,
    "variational autoencoder": digits_again,
    "word2vec": words,
    "diffusion of points": noise,
    "policy gradient": policy,
}

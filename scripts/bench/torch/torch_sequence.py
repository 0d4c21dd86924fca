#!/usr/bin/python3
"""Trains a network over tiny Shakespeare's characters in PyTorch as Tautline trains it from
configs/models: the same network, streams, steps, rule and distributions of first values, one
thread. Prints the loss on the test part.

The peer of char_lstm and transformer in scripts/bench/sequences. Exits with 77 where PyTorch is not
installed.
"""
import argparse
import gzip
import math
import os
import pathlib
import sys
import time

# Before the library is loaded: its waiting threads would take turns with the one that works.
os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"

try:
    import torch
    from torch import nn
except ImportError:
    print("skipped: PyTorch is not installed (apt install python3-torch libopenblas0)")
    sys.exit(77)


def read_parts(folder, test_share=0.1):
    """The numbers of the training and the test part, and the vocabulary's size; 0 is unknown."""
    path = pathlib.Path(folder) / "input.txt"
    if path.exists():
        text = path.read_text(encoding="utf-8")
    else:
        text = gzip.decompress((path.parent / "input.txt.gz").read_bytes()).decode()
    cut = text.index("\n", int(len(text) * (1 - test_share))) + 1
    numbers = {unit: i + 1 for i, unit in enumerate(sorted(set(text[:cut])))}
    parts = [torch.tensor([numbers.get(unit, 0) for unit in part])
             for part in (text[:cut], text[cut:])]
    return *parts, len(numbers) + 1


class Streams:
    """The batches of one part, as TextParameter.STREAMS cuts them."""

    def __init__(self, numbers, steps, batch):
        self.numbers, self.steps, self.batch = numbers, steps, batch
        self.each = (len(numbers) - 1) // steps // batch

    def at(self, clock):
        """data and label [T, N], and whether the streams start here."""
        k = clock % self.each
        starts = [(n * self.each + k) * self.steps for n in range(self.batch)]
        cut = torch.stack([self.numbers[s:s + self.steps + 1] for s in starts], dim=1)
        return cut[:-1], cut[1:], k == 0


class CharLstm(nn.Module):
    """configs/models/char_lstm.prototxt"""
    steps, batch, rate, clip = 50, 50, 0.002, 5

    def __init__(self, units):
        super().__init__()
        self.embed = nn.Embedding(units, 64)
        self.lstm = nn.LSTM(64, 128, 2)
        self.scores = nn.Linear(128, units)
        for parameter in [*self.lstm.parameters(), *self.scores.parameters()]:
            nn.init.uniform_(parameter, -1 / math.sqrt(128), 1 / math.sqrt(128))
        for layer in range(2):  # one bias, as in Caffe
            bias = getattr(self.lstm, f"bias_hh_l{layer}")
            nn.init.zeros_(bias)
            bias.requires_grad_(False)
        self.state = None

    def forward(self, data, begins):
        if begins:
            self.state = None
        top, state = self.lstm(self.embed(data), self.state)
        self.state = tuple(part.detach() for part in state)
        return self.scores(top)


class Block(nn.Module):
    def __init__(self, channels, heads):
        super().__init__()
        self.norm_a, self.norm_b = nn.LayerNorm(channels), nn.LayerNorm(channels)
        self.attention = nn.MultiheadAttention(channels, heads)
        self.wide = nn.Linear(channels, 4 * channels)
        self.narrow = nn.Linear(4 * channels, channels)

    def forward(self, x, mask):
        normal = self.norm_a(x)
        x = x + self.attention(normal, normal, normal, attn_mask=mask, need_weights=False)[0]
        return x + self.narrow(nn.functional.gelu(self.wide(self.norm_b(x))))


class Transformer(nn.Module):
    """configs/models/transformer.prototxt"""
    steps, batch, rate, clip = 64, 16, 0.001, 1

    def __init__(self, units):
        super().__init__()
        self.embed = nn.Embedding(units, 64)
        self.position = nn.Parameter(torch.empty(self.steps, 1, 64))
        self.blocks = nn.ModuleList(Block(64, 4) for _ in range(2))
        self.norm = nn.LayerNorm(64)
        self.scores = nn.Linear(64, units)
        self.register_buffer("mask", torch.triu(torch.full((self.steps, self.steps), -math.inf), 1))
        norms = {id(p) for m in self.modules() if isinstance(m, nn.LayerNorm)
                 for p in m.parameters()}
        for name, parameter in self.named_parameters():
            if id(parameter) in norms:
                continue
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            else:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, data, _):
        x = self.embed(data) + self.position
        for block in self.blocks:
            x = block(x, self.mask)
        return self.scores(self.norm(x))


def loss_of(net, streams, clock):
    data, label, begins = streams.at(clock)
    scores = net(data, begins)
    return nn.functional.cross_entropy(scores.reshape(-1, scores.shape[-1]), label.reshape(-1))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("net", choices=["char_lstm", "transformer"])
    parser.add_argument("--data", required=True, help="folder with input.txt[.gz]")
    parser.add_argument("--iterations", type=int, required=True)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    train, test, units = read_parts(options.data)
    net = {"char_lstm": CharLstm, "transformer": Transformer}[options.net](units)
    trained = [parameter for parameter in net.parameters() if parameter.requires_grad]
    optimizer = torch.optim.Adam(trained, lr=net.rate)
    streams = Streams(train, net.steps, net.batch)
    begin = time.perf_counter()
    for clock in range(options.iterations):
        optimizer.zero_grad(set_to_none=True)
        loss_of(net, streams, clock).backward()
        nn.utils.clip_grad_norm_(trained, net.clip)
        optimizer.step()
    rate = options.iterations * net.steps * net.batch / (time.perf_counter() - begin)
    with torch.no_grad():
        streams = Streams(test, net.steps, net.batch)
        losses = [loss_of(net, streams, clock).item() for clock in range(streams.each)]
    print(f"tokens/s: {rate:.0f}\ntest loss: {sum(losses) / len(losses):.6f}")


if __name__ == "__main__":
    main()

"""Tiny Shakespeare for the examples: its characters, an LSTM and a small GPT that predict the next
one, and their loss on text that they were not trained on."""

import gzip
import math
import pathlib

import numpy
import torch
from torch import nn

DATA = str(pathlib.Path(__file__).resolve().parents[2] / "data" / "tinyshakespeare")
LENGTH = 64  # characters of a sample
HELD_OUT = 0.1  # of the text, its end


def read(folder):
    """The text as numbers of its characters, those for training and those held out."""
    path = pathlib.Path(folder) / "input.txt"
    if not path.exists() and not path.with_suffix(".txt.gz").exists():
        raise SystemExit(f"{path} does not exist; scripts/get_data tinyshakespeare fetches it")
    text = path.read_bytes() if path.exists() else gzip.decompress(
        path.with_suffix(".txt.gz").read_bytes())
    _, codes = numpy.unique(numpy.frombuffer(text, numpy.uint8), return_inverse=True)
    codes = torch.from_numpy(codes.astype(numpy.int64))
    return codes.split([len(codes) - int(HELD_OUT * len(codes)), int(HELD_OUT * len(codes))])


def draw(clock, batch, me, codes):
    """A process's share of the batch of this clock: samples, and each one's next characters."""
    starts = torch.randint(len(codes) - LENGTH, (batch,),
                           generator=torch.Generator().manual_seed(clock))
    samples = torch.stack([codes[at:at + LENGTH + 1] for at in starts[me.slot::me.slots]])
    return samples[:, :-1], samples[:, 1:]


def loss_of(outputs, targets):
    return nn.functional.cross_entropy(outputs.flatten(0, 1), targets.flatten())


def held_out_loss(model, codes, samples=64):
    """In nats a character."""
    model = getattr(model, "module", model)  # inside of a DistributedDataParallel
    model.eval()
    starts = torch.linspace(0, len(codes) - LENGTH - 1, samples).long()
    texts = torch.stack([codes[at:at + LENGTH + 1] for at in starts])
    with torch.no_grad():
        return float(loss_of(model(texts[:, :-1]), texts[:, 1:]))


class CharLSTM(nn.Module):
    def __init__(self, characters, width=128):
        super().__init__()
        torch.manual_seed(1)
        self.embedding = nn.Embedding(characters, width)
        self.lstm = nn.LSTM(width, width, batch_first=True)
        self.head = nn.Linear(width, characters)

    def forward(self, codes):
        return self.head(self.lstm(self.embedding(codes))[0])


class Block(nn.Module):
    """Causal attention and a perceptron, each after a normalization and added to its input."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(),
                                 nn.Linear(4 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2)
                   for part in self.qkv(self.norm1(x)).chunk(3, dim=2))
        scores = q @ k.transpose(2, 3) / math.sqrt(width // self.heads)
        later = torch.ones(length, length, dtype=torch.bool).triu(1)
        mixed = scores.masked_fill(later, -math.inf).softmax(3) @ v
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norm2(x))


class SmallGPT(nn.Module):
    """Source: Radford et al., "Language Models are Unsupervised Multitask Learners", 2019."""

    def __init__(self, characters, width=64, heads=4, blocks=2):
        super().__init__()
        torch.manual_seed(1)
        self.characters = nn.Embedding(characters, width)
        self.places = nn.Embedding(LENGTH, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(blocks)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, characters, bias=False)
        for embedding in (self.characters, self.places):
            nn.init.normal_(embedding.weight, std=0.02)

    def forward(self, codes):
        x = self.characters(codes) + self.places(torch.arange(codes.shape[1]))
        return self.head(self.norm(self.blocks(x)))

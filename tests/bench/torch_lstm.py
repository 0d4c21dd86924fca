#!/usr/bin/python3
"""Times a character LSTM in PyTorch: embedding, one LSTM of 256, linear layer and cross entropy
over 50 steps of 32 streams; forward, backward and SGD on random numbers, one thread.

The peer of bench_lstm. Prints the median of the repetitions, and which BLAS did the work. Exits
with 77 where PyTorch is not installed.
Run it pinned to one core: taskset -c 1 tests/bench/torch_lstm.py
"""
import argparse
import os
import statistics
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

from torch_lenet import blas

STEPS, STREAMS, UNITS, WIDTH = 50, 32, 65, 256


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--iterations", type=int, default=20, help="in one repetition")
    parser.add_argument("--repetitions", type=int, default=7)
    options = parser.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(1)
    embed, lstm, scores = nn.Embedding(UNITS, WIDTH), nn.LSTM(WIDTH, WIDTH), nn.Linear(WIDTH, UNITS)
    criterion = nn.CrossEntropyLoss()
    parameters = [*embed.parameters(), *lstm.parameters(), *scores.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.01)
    tokens = torch.randint(0, UNITS, (STEPS, STREAMS))
    labels = torch.randint(0, UNITS, (STEPS * STREAMS,))

    def train(iterations):
        for _ in range(iterations):
            optimizer.zero_grad(set_to_none=True)
            top, _ = lstm(embed(tokens))
            loss = criterion(scores(top).reshape(-1, UNITS), labels)
            loss.backward()
            optimizer.step()
        return loss.item()

    train(3)
    rates = []
    for _ in range(options.repetitions):
        start = time.perf_counter()
        loss = train(options.iterations)
        rates.append(STEPS * STREAMS * options.iterations / (time.perf_counter() - start))
    print(f"torch {torch.__version__} ({blas()}) LSTM-256, 50 steps, batch 32, 1 thread: "
          f"{statistics.median(rates):.0f} tokens/s "
          f"(min {min(rates):.0f}, max {max(rates):.0f}; last loss {loss:.4f})")


if __name__ == "__main__":
    main()

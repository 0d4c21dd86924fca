"""One of two processes that train configs/models/transformer.prototxt's network over tiny
Shakespeare by DistributedDataParallel over gloo, one thread each: the peer of two Tautline workers
in scripts/bench/outer, with the same schedule of rates. Rank 0 prints what watch_job.py writes:
tests with their times and losses, and the bytes that its network card and the other one's have
sent.
"""

import argparse
import json
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from torch_sequence import Streams, Transformer, read_parts  # noqa: E402  (77 without PyTorch)

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

CARD = "eth0"


class OneRead(nn.Module):
    """The network as DistributedDataParallel takes it: its position is a separate parameter."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, data, label):
        scores = self.net(data, False)
        return nn.functional.cross_entropy(scores.reshape(-1, scores.shape[-1]), label.reshape(-1))


def sent_bytes():
    return int(pathlib.Path(f"/sys/class/net/{CARD}/statistics/tx_bytes").read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name, kind in (("data", str), ("clocks", int), ("every", int), ("batches", int),
                       ("seed", int), ("rate", float), ("master", str), ("rank", int)):
        parser.add_argument(f"--{name}", type=kind, required=True)
    options = parser.parse_args()
    os.environ.update(GLOO_SOCKET_IFNAME=CARD, MASTER_ADDR=options.master, MASTER_PORT="29500")
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    train, test, units = read_parts(options.data)
    net = Transformer(units)
    dist.init_process_group("gloo", rank=options.rank, world_size=2)
    shared = DistributedDataParallel(OneRead(net))
    trained = list(net.parameters())
    optimizer = torch.optim.Adam(trained, lr=options.rate)
    # This rank's half of twice as many streams.
    streams = Streams(train, net.steps, 2 * net.batch)
    tests = Streams(test, net.steps, net.batch)
    own = slice(options.rank * net.batch, (options.rank + 1) * net.batch)
    seen = []
    dist.barrier()
    begin, sent = time.perf_counter(), sent_bytes()
    for clock in range(options.clocks):
        data, label, _ = streams.at(clock)
        for group in optimizer.param_groups:
            group["lr"] = options.rate * (1 - clock / options.clocks)
        optimizer.zero_grad(set_to_none=True)
        shared(data[:, own], label[:, own]).backward()
        nn.utils.clip_grad_norm_(trained, net.clip)
        optimizer.step()
        if (clock + 1) % options.every and clock + 1 != options.clocks:
            continue
        if options.rank == 0:
            with torch.no_grad():
                losses = [float(OneRead(net)(*tests.at(one)[:2])) for one in range(options.batches)]
            seen.append({"clock": clock + 1, "at_s": round(time.perf_counter() - begin, 2),
                         "loss": sum(losses) / len(losses)})
    dist.barrier()
    seconds = time.perf_counter() - begin
    total = torch.tensor([float(sent_bytes() - sent)], dtype=torch.float64)
    dist.all_reduce(total)
    if options.rank == 0:
        print(json.dumps({"tests": seen, "bytes": int(total),
                          "clocks_per_s": options.clocks / seconds}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

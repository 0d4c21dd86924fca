"""What the examples share: their options, and the processes of a training on this machine."""

import argparse
import contextlib
import multiprocessing
import multiprocessing.connection
import tempfile
import types

import torch

import tautline


def options(description, **defaults):
    """The command line's options: those given, with their defaults, and two common ones."""
    parser = argparse.ArgumentParser(description=description.split("\n\n")[0])
    for name, value in {"processes": 2, **defaults}.items():
        parser.add_argument(f"--{name}", type=type(value), default=value,
                            help=f"default: {value}")
    parser.add_argument("--slack", type=int, default=1,
                        help="of the members, default: 1; processes of a group are in lock-step")
    return parser.parse_args()


def _start(train, given, place):
    torch.set_num_threads(1)
    train(given, place)


def _run(train, given, places):
    """Runs train(options, place) in a process for each place."""
    context = multiprocessing.get_context("spawn")  # programs that fork do so before they connect
    processes = [context.Process(target=_start, args=(train, given, place)) for place in places]
    for process in processes:
        process.start()
    try:
        # The others wait for one that fails, perhaps without end.
        running = {process.sentinel: process for process in processes}
        while running:
            for ended in multiprocessing.connection.wait(list(running)):
                process = running.pop(ended)
                process.join()
                if process.exitcode != 0:
                    raise SystemExit(1)
    finally:
        for process in processes:
            process.terminate()
            process.join()


def members(train, given, rule):
    """As members of a job of a server on this machine."""
    with tautline.local(servers=1) as cluster:
        job = cluster.submit(rule=rule, workers=given.processes, slack=given.slack)
        _run(train, given, [types.SimpleNamespace(rank=rank, address=cluster.address,
                                                  keys=cluster.keys, job=job.number)
                            for rank in range(given.processes)])


def ddp(train, given):
    """As the processes of a group of torch.distributed."""
    with tempfile.TemporaryDirectory() as folder:
        _run(train, given, [types.SimpleNamespace(rank=rank, meeting=f"file://{folder}/meeting")
                            for rank in range(given.processes)])


@contextlib.contextmanager
def process_group(given, place):
    """This process in its group, with a share of the data like a member's."""
    torch.distributed.init_process_group("gloo", init_method=place.meeting, rank=place.rank,
                                         world_size=given.processes)
    yield types.SimpleNamespace(slot=place.rank, slots=given.processes)
    torch.distributed.destroy_process_group()

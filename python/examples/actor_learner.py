"""Asynchronous reinforcement learning: one trainer, several actors that read its policy while it
trains: none uses parameters that are too old, and the trainer waits for none that is gone.

    python3 python/examples/actor_learner.py --actors 3 --slack 4

Actors are bounded followers: each plays episodes with the newest policy and puts them into a queue.
The trainer is the only member: it never gets further ahead of an actor's policy than the slack. One
that dies is cut when its lease is over, and the trainer continues with the others.
"""

import argparse
import multiprocessing
import queue
import time

import numpy
import tautline

CONTEXTS, ACTIONS, BATCH = 8, 4, 64


def probabilities(policy: numpy.ndarray, contexts: numpy.ndarray) -> numpy.ndarray:
    """The probability of each action in these contexts: [n, ACTIONS]."""
    scores = policy[contexts]
    scores = numpy.exp(scores - scores.max(axis=1, keepdims=True))
    return scores / scores.sum(axis=1, keepdims=True)


def act(address: str, keys: str, number: int, seed: int, episodes: "multiprocessing.Queue") -> None:
    """An actor: pulls, plays a batch, and hands it over, until the job is done."""
    random = numpy.random.default_rng(seed)
    best = numpy.arange(CONTEXTS) % ACTIONS  # the action that pays, unknown to the policy
    with tautline.follow(address, number, keys=keys, name=f"actor{seed}",
                         bounded=True) as follower:
        while True:
            try:
                model = follower.pull()
            except tautline.StoppedError:
                return
            contexts = random.integers(CONTEXTS, size=BATCH)
            chances = probabilities(model["policy"], contexts)
            actions = (chances.cumsum(axis=1) > random.random((BATCH, 1))).argmax(axis=1)
            rewards = (actions == best[contexts]).astype(numpy.float32)
            played = chances[numpy.arange(BATCH), actions]
            try:
                episodes.put((model.version, contexts, actions, rewards, played), timeout=0.2)
            except queue.Full:
                pass  # the trainer has enough: a newer policy plays the next ones


def gradient(policy: numpy.ndarray, batch: tuple, baseline: float) -> numpy.ndarray:
    """Minus the policy gradient of a batch, whose episodes an older policy has played: each counts
    by how much more probable its action is now, at most twice (a truncated importance weight)."""
    _, contexts, actions, rewards, played = batch
    chances = probabilities(policy, contexts)
    weights = numpy.minimum(chances[numpy.arange(BATCH), actions] / played, 2)
    slope = -chances
    slope[numpy.arange(BATCH), actions] += 1
    slope *= (weights * (rewards - baseline))[:, None]
    out = numpy.zeros_like(policy)
    numpy.add.at(out, contexts, -slope / BATCH)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--actors", type=int, default=3)
    parser.add_argument("--clocks", type=int, default=300)
    parser.add_argument("--slack", type=int, default=4, help="clocks ahead of each actor's policy")
    given = parser.parse_args()
    spawn = multiprocessing.get_context("spawn")
    episodes = spawn.Queue(maxsize=given.actors)
    with tautline.local() as cluster:
        job = cluster.submit(rule=tautline.SGD(lr=2), workers=1, slack=0,
                             more=f"followers {{ slack: {given.slack} lease_s: 5 }}")
        actors = [spawn.Process(target=act, daemon=True,
                                args=(cluster.address, cluster.keys, job.number, seed, episodes))
                  for seed in range(given.actors)]
        for actor in actors:
            actor.start()
        ages, means = [], []
        with job.member() as me:
            policy = me.table("policy", numpy.zeros((CONTEXTS, ACTIONS), numpy.float32))
            me.open()
            deadline = time.monotonic() + 60
            while len(job.status()["followers"]) < given.actors:
                if time.monotonic() > deadline:
                    raise SystemExit("the actors have not come in 60 s")
                time.sleep(0.05)
            for clock in me.clocks(given.clocks):
                batch = episodes.get(timeout=60)
                ages.append(clock - batch[0])
                means.append(batch[3].mean())
                me.push(policy, gradient(policy.value, batch, numpy.mean(means[-20:])))
                me.pull(policy)
                me.report(loss=1 - means[-1], items=BATCH)
        for actor in actors:
            actor.join(timeout=30)
    tenth = max(len(means) // 10, 1)
    print(f"reward {numpy.mean(means[:tenth]):.2f} at first, {numpy.mean(means[-tenth:]):.2f} in "
          f"the end; policies of episodes were {numpy.mean(ages):.1f} clocks old, {max(ages)} at "
          "most")


if __name__ == "__main__":
    main()

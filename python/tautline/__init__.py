"""Tautline: training with a parameter server and a tunable staleness bound.

    import numpy, tautline

    with tautline.local(servers=1) as cluster:          # or tautline.connect("host:7600")
        job = cluster.submit(rule=tautline.SGD(lr=0.1), workers=1, slack=2)
        with job.member() as me:
            w = me.table("w", numpy.zeros(10))
            for clock in me.clocks(100):
                me.push(w, 2 * (w.value - 3))           # the gradient of (w - 3)^2
                me.pull(w)

Members run in separate processes, on any machine that reaches the cluster. Each pushes an update of
every table at every clock; the servers apply them by the job's rule. With slack s, what a member
reads at clock c has every member's updates before clock c - s: 0 is lock-step (BSP), None has
no bound. job.slack may be set while the job runs.

Programs that evaluate, serve or generate follow a job: tautline.follow(job).pull() returns a whole
model of one version while the job trains, and delays nothing: help(tautline.follow).

PyTorch models need no separate tables: help(tautline.torch). Experiments that compare bounds and
settings: help(tautline.sweep). Which records a member reads: help(tautline.Sampler). An
error is a TautlineError of one line, which says what to do.
"""

from tautline._library import lib as _lib
from tautline.cluster import Cluster, Job, LocalCluster, connect, local
from tautline.errors import (DeadlineError, InvalidError, LostError, MismatchError, NotFoundError,
                             StoppedError, SystemFailure, TautlineError, UnavailableError)
from tautline.experiments import Sweep, sweep
from tautline.follower import Follower, Model, follow
from tautline.frame import Frame
from tautline.member import Member, Table
from tautline.progress import Progress
from tautline.rules import (FTRL, LAMB, SGD, AdaDelta, AdaGrad, Adam, AdamW, Lion, Nesterov, Outer,
                            RAdam, RMSProp, Rule)
from tautline.sampler import Sampler

__version__: str = _lib.tautline_version().decode().split()[1]

__all__ = ["AdaDelta", "AdaGrad", "Adam", "AdamW", "Cluster", "DeadlineError", "FTRL", "Follower",
           "Frame", "InvalidError", "Job", "LAMB", "Lion", "LocalCluster", "LostError", "Member",
           "MismatchError", "Model", "Nesterov", "NotFoundError", "Outer", "Progress", "RAdam",
           "RMSProp", "Rule", "SGD", "Sampler", "StoppedError", "Sweep", "SystemFailure", "Table",
           "TautlineError", "UnavailableError", "connect", "follow", "local", "sweep"]

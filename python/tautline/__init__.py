"""Tautline: training with a parameter server and a tunable staleness bound.

    import numpy, tautline

    with tautline.local(servers=1) as cluster:          # or tautline.connect("host:7600")
        job = cluster.submit(rule=tautline.SGD(lr=0.1), workers=1, slack=2)
        with job.member() as me:
            w = me.table("w", numpy.zeros(10))
            for clock in me.clocks(100):
                me.push(w, 2 * (w.value - 3))           # the gradient of (w - 3)^2
                me.pull(w)

Members run in processes of their own, on any machine that reaches the cluster. Each pushes an
update of every table at every clock; the servers apply them by the job's rule. With slack s, what a
member reads at clock c has every member's updates before clock c - s: 0 is lock-step (BSP), None is
without a bound. job.slack may be set while the job runs.
"""

from tautline._library import lib as _lib
from tautline.cluster import Cluster, Job, LocalCluster, connect, local
from tautline.errors import (DeadlineError, InvalidError, LostError, MismatchError, NotFoundError,
                             StoppedError, SystemFailure, TautlineError, UnavailableError)
from tautline.member import Member, Table
from tautline.rules import LAMB, SGD, AdaGrad, Adam, AdamW, Lion, Nesterov, RMSProp, Rule

__version__ = _lib.tautline_version().decode().split()[1]

__all__ = ["AdaGrad", "Adam", "AdamW", "Cluster", "DeadlineError", "InvalidError", "Job", "LAMB",
           "Lion", "LocalCluster", "LostError", "Member", "MismatchError", "Nesterov",
           "NotFoundError", "RMSProp", "Rule", "SGD", "StoppedError", "SystemFailure", "Table",
           "TautlineError", "UnavailableError", "connect", "local"]

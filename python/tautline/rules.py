"""Update rules: what the servers do with gradients, or with how far members have gone between two
meetings. Each is a frozen description; the formulas are in Tautline's guide."""

import dataclasses
from typing import Any, Optional


def _number(value: Any) -> str:
    return repr(float(value))


def _text(value: Any) -> str:
    """A field's value as a job's file writes it."""
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int) else _number(value)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rule:
    """What all rules have.

    lr            the learning rate, at least 0
    weight_decay  the weight of the L2 term
    schedule      fields of the solver that change the rate over clocks, such as
                  {"lr_policy": "cosine", "max_iter": 1000}
    """

    lr: float
    weight_decay: float = 0.0
    schedule: dict[str, Any] = dataclasses.field(default_factory=dict)

    def _fields(self) -> dict[str, Any]:
        return {}

    def solver(self) -> str:
        """The rule as a job's solver_param."""
        fields: dict[str, Any] = {"type": type(self).__name__, "base_lr": self.lr,
                  "weight_decay": self.weight_decay, **self._fields(), **self.schedule}
        lines = []
        for name, value in fields.items():
            for one in value if isinstance(value, (list, tuple)) else [value]:
                lines.append(f"{name}: {_text(one)}")
        return "solver_param { " + " ".join(lines) + " }"


@dataclasses.dataclass(frozen=True, kw_only=True)
class SGD(Rule):
    """Stochastic gradient descent, with heavy-ball momentum if that is above 0."""

    momentum: float = 0.0

    def _fields(self) -> dict[str, Any]:
        return {"momentum": self.momentum}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Nesterov(Rule):
    """SGD with Nesterov's momentum."""

    momentum: float = 0.9

    def _fields(self) -> dict[str, Any]:
        return {"momentum": self.momentum}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Adam(Rule):
    """Adam; its decay is part of the gradient."""

    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8

    def _fields(self) -> dict[str, Any]:
        return {"momentum": self.betas[0], "momentum2": self.betas[1], "delta": self.eps}


@dataclasses.dataclass(frozen=True, kw_only=True)
class AdamW(Adam):
    """Adam with decoupled weight decay."""

    weight_decay: float = 0.01


@dataclasses.dataclass(frozen=True, kw_only=True)
class RAdam(Adam):
    """Adam with a rate that is rectified until it has seen enough gradients; needs no warm-up."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class LAMB(Adam):
    """Adam whose step has the norm of the parameters."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class AdaGrad(Rule):
    """Steps divided by the root of the sum of squared gradients."""

    eps: float = 1e-8

    def _fields(self) -> dict[str, Any]:
        return {"delta": self.eps}


@dataclasses.dataclass(frozen=True, kw_only=True)
class RMSProp(Rule):
    """Steps divided by the root of a moving mean of squared gradients."""

    decay: float = 0.99
    eps: float = 1e-8

    def _fields(self) -> dict[str, Any]:
        return {"rms_decay": self.decay, "delta": self.eps}


@dataclasses.dataclass(frozen=True, kw_only=True)
class AdaDelta(Rule):
    """Steps in the ratio of two moving means' roots, of squared steps and of squared gradients."""

    decay: float = 0.9
    eps: float = 1e-6

    def _fields(self) -> dict[str, Any]:
        return {"momentum": self.decay, "delta": self.eps}


@dataclasses.dataclass(frozen=True, kw_only=True)
class FTRL(Rule):
    """Follow the regularized leader: a rate for each parameter and exact zeros, for sparse models.
    It has an L1 and an L2 term in place of the weight decay."""

    beta: float = 1.0
    l1: float = 0.0
    l2: float = 0.0

    def _fields(self) -> dict[str, Any]:
        return {"ftrl_beta": self.beta, "ftrl_l1": self.l1, "ftrl_l2": self.l2}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Lion(Rule):
    """The sign of an interpolated momentum."""

    betas: tuple[float, float] = (0.9, 0.99)

    def _fields(self) -> dict[str, Any]:
        return {"momentum": self.betas[0], "momentum2": self.betas[1]}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outer:
    """Members train on their own and meet after each interval; the servers then take the mean of
    how far they have gone as the gradient of a rule (DiLoCo, FedAvg with momentum, FedAdam). What
    members use to train is their own: help(tautline.torch.Meetings).

    interval   steps between two meetings, at least 1
    type       the rule: "Nesterov", "SGD", "Adam" and the others that use no worker's norm;
               "SGD" with lr 1 and momentum 0 is the plain mean
    lr         its rate
    momentum   its momentum, or Adam's beta1; None: the job's default, where the type reads it
    momentum2  Adam's beta2; None: as for momentum
    eps        added to Adam's and AdaGrad's divisor; None: as for momentum; FedAdam's is 1e-3
    buffer     updates that make one step, under a slack or without one (FedBuff); 0: each update
    fragments  the number of parts that tables are divided into, in order; they meet in turn, each
               once in an interval (streaming DiLoCo); the interval must be a multiple of it
    """

    interval: int
    type: str = "Nesterov"
    lr: float = 0.7
    momentum: Optional[float] = None
    momentum2: Optional[float] = None
    eps: Optional[float] = None
    buffer: int = 0
    fragments: int = 1

    def solver(self) -> str:
        """A job has a solver_param, which a net's workers use inside; members use their own."""
        return 'solver_param { type: "SGD" base_lr: 1 }'

    def meetings(self) -> str:
        """The meetings as a field of a job's consistency."""
        given = {"type": self.type, "lr": float(self.lr), "momentum": self.momentum,
                 "momentum2": self.momentum2, "delta": self.eps, "buffer": self.buffer or None}
        outer = " ".join(f"{name}: {_text(value)}" for name, value in given.items()
                         if value is not None)
        return (f"periodic_averaging {{ interval: {self.interval} fragments: {self.fragments} "
                f"outer {{ {outer} }} }}")

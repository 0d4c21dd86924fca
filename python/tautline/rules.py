"""Update rules: what the servers do with gradients. Each is a frozen description; the formulas are
in Tautline's guide."""

import dataclasses
from typing import Any


def _number(value: Any) -> str:
    return repr(float(value))


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
                shown = f'"{one}"' if isinstance(one, str) else (
                    str(one).lower() if isinstance(one, bool) else
                    str(one) if isinstance(one, int) else _number(one))
                lines.append(f"{name}: {shown}")
        return "solver_param { " + " ".join(lines) + " }"


@dataclasses.dataclass(frozen=True, kw_only=True)
class SGD(Rule):
    """Stochastic gradient descent, with heavy-ball momentum where that is above 0."""

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
class Lion(Rule):
    """The sign of an interpolated momentum."""

    betas: tuple[float, float] = (0.9, 0.99)

    def _fields(self) -> dict[str, Any]:
        return {"momentum": self.betas[0], "momentum2": self.betas[1]}

#!/usr/bin/python3
"""Writes golden_rules.hpp: where PyTorch's optimizers, and FTRL as in its paper, take small
vectors in a few steps, for update_rule_golden_test.cpp.

Needs PyTorch (apt install python3-torch); the values were written by 1.13.0, in double, and rounded
to float.

example: tests/unit/math/golden_rules.py && clang-format -i tests/unit/math/golden_rules.hpp
"""
import pathlib

import torch

STEPS = 6
ELEMENTS = 7


class Ftrl:
    """Algorithm 1 of McMahan et al., "Ad Click Prediction: a View from the Trenches", KDD 2013: the
    values follow from the sums z and n. z is at first what gives the initial values."""

    def __init__(self, parameters, alpha, beta, l1, l2):
        self.parameter, = parameters
        self.alpha, self.beta, self.l1, self.l2 = alpha, beta, l1, l2
        w = self.parameter.detach()
        self.n = torch.zeros_like(w)
        self.z = -w * (beta / alpha + l2) - torch.sign(w) * l1

    def step(self):
        w, g = self.parameter.detach(), self.parameter.grad
        sigma = (torch.sqrt(self.n + g ** 2) - torch.sqrt(self.n)) / self.alpha
        self.z = self.z + g - sigma * w
        self.n = self.n + g ** 2
        w = (-(self.z - torch.sign(self.z) * self.l1) /
             ((self.beta + torch.sqrt(self.n)) / self.alpha + self.l2))
        w[self.z.abs() <= self.l1] = 0
        self.parameter.data = w


# The solver's words for it, and PyTorch's optimizer with the same numbers.
RULES = [
    ("type: 'SGD' base_lr: 0.1 weight_decay: 0.02", torch.optim.SGD,
     {"lr": 0.1, "weight_decay": 0.02}),
    ("type: 'SGD' base_lr: 0.1 momentum: 0.9 weight_decay: 0.02", torch.optim.SGD,
     {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.02}),
    ("type: 'Nesterov' base_lr: 0.1 momentum: 0.9", torch.optim.SGD,
     {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    ("type: 'Adam' base_lr: 0.1 momentum: 0.9 momentum2: 0.99 weight_decay: 0.02", torch.optim.Adam,
     {"lr": 0.1, "betas": (0.9, 0.99), "eps": 1e-8, "weight_decay": 0.02}),
    ("type: 'AdamW' base_lr: 0.1 momentum: 0.9 momentum2: 0.99 weight_decay: 0.2 delta: 0.001",
     torch.optim.AdamW, {"lr": 0.1, "betas": (0.9, 0.99), "eps": 1e-3, "weight_decay": 0.2}),
    ("type: 'AdaGrad' base_lr: 0.1 delta: 0.001 weight_decay: 0.02", torch.optim.Adagrad,
     {"lr": 0.1, "eps": 1e-3, "weight_decay": 0.02}),
    ("type: 'RMSProp' base_lr: 0.1 rms_decay: 0.9 delta: 0.001 weight_decay: 0.02",
     torch.optim.RMSprop, {"lr": 0.1, "alpha": 0.9, "eps": 1e-3, "weight_decay": 0.02}),
    ("type: 'AdaDelta' base_lr: 2 momentum: 0.9 delta: 0.001 weight_decay: 0.02",
     torch.optim.Adadelta, {"lr": 2, "rho": 0.9, "eps": 1e-3, "weight_decay": 0.02}),
    ("type: 'FTRL' base_lr: 0.5", Ftrl, {"alpha": 0.5, "beta": 1, "l1": 0, "l2": 0}),
    ("type: 'FTRL' base_lr: 0.5 ftrl_beta: 0.1 ftrl_l1: 1.5 ftrl_l2: 0.3", Ftrl,
     {"alpha": 0.5, "beta": 0.1, "l1": 1.5, "l2": 0.3}),
]


def numbers(tensor):
    texts = (f"{float(x):.9g}" for x in tensor.flatten())
    return "{" + ", ".join((text if "." in text or "e" in text else text + ".0") + "F"
                           for text in texts) + "}"


def after(optimizer, options, values, gradients):
    """The values after each step, one after the other."""
    parameter = values.clone().requires_grad_()
    rule = optimizer([parameter], **options)
    steps = []
    for gradient in gradients:
        parameter.grad = gradient.clone()
        rule.step()
        steps.append(parameter.detach().clone())
    return torch.stack(steps)


def main():
    torch.manual_seed(4)
    # What the test reads is float, so PyTorch starts with the same numbers.
    values = torch.randn(ELEMENTS).double()
    gradients = torch.randn(STEPS, ELEMENTS).double()
    lines = ["#pragma once", "",
             "// Written by golden_rules.py with PyTorch " + torch.__version__ + ".",
             "", "#include <string>", "#include <vector>", "", "namespace taut::test {", "",
             "struct GoldenRule {", "  std::string solver;",
             "  std::vector<float> after;  // each step, one after the other", "};", "",
             f"inline constexpr int kGoldenSteps = {STEPS};",
             f"inline const std::vector<float> kGoldenValues{numbers(values)};",
             f"inline const std::vector<float> kGoldenGradients{numbers(gradients)};", "",
             "inline const std::vector<GoldenRule> kGoldenRules{"]
    for solver, optimizer, options in RULES:
        lines.append(f'{{"{solver}", {numbers(after(optimizer, options, values, gradients))}}},')
    lines += ["};", "", "}  // namespace taut::test", ""]
    path = pathlib.Path(__file__).with_suffix(".hpp")
    path.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()

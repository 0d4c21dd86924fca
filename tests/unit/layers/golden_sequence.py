#!/usr/bin/python3
"""Writes golden_sequence.hpp: what PyTorch makes of small sequences, for golden_sequence_test.cpp.

Needs PyTorch (apt install python3-torch); the values were written by 1.13.0, in double, and rounded to
float. Parameters stand in this project's order: gates of an LSTM as i, f, o, g, where PyTorch has
i, f, g, o; biases that PyTorch keeps twice are added, but for a GRU's.

example: tests/unit/layers/golden_sequence.py && clang-format -i tests/unit/layers/golden_sequence.hpp
"""
import pathlib

import torch
from torch import nn

CASES = []


def caffe_gates(matrix):
    """Rows i, f, g, o as i, f, o, g."""
    i, f, g, o = matrix.chunk(4)
    return torch.cat([i, f, o, g])


def add(name, definition, bottom, parameters, top):
    """parameters: functions of no argument each, so that gradients are read after backward."""
    weights = torch.randn_like(top)
    (top * weights).sum().backward()
    gradient = torch.zeros(0) if bottom.grad is None else bottom.grad
    CASES.append((name, definition, bottom, [value for value, _ in parameters()], weights, top,
                  gradient, [gradient for _, gradient in parameters()]))


def recurrent(kind, module, layers, extra=""):
    bottom = torch.randn(4, 3, 2, requires_grad=True)
    top, _ = module(bottom)

    def parameters():
        order = caffe_gates if kind == "LSTM" else (lambda matrix: matrix)
        found = []
        for layer in range(layers):
            wx, wh, bx, bh = (getattr(module, f"{name}_l{layer}")
                              for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
            bias = bx if kind == "GRU" else bx + bh
            found += [(order(wx), order(wx.grad)), (order(bias), order(bx.grad)),
                      (order(wh), order(wh.grad))]
            if kind == "GRU":
                found.append((bh, bh.grad))
        return found

    add(f"{kind} of {layers}", f"type: '{kind}' recurrent_param {{ num_output: 3 "
        f"num_layers: {layers} {extra} }}", bottom, parameters, top)


def attention(causal):
    module = nn.MultiheadAttention(4, 2)
    nn.init.normal_(module.in_proj_bias)
    nn.init.normal_(module.out_proj.bias)
    bottom = torch.randn(3, 2, 4, requires_grad=True)
    mask = torch.triu(torch.full((3, 3), float("-inf")), 1) if causal else None
    top, _ = module(bottom, bottom, bottom, attn_mask=mask)

    def parameters():
        out = module.out_proj
        return [(p, p.grad) for p in (module.in_proj_weight, module.in_proj_bias, out.weight,
                                      out.bias)]

    add("causal attention" if causal else "attention",
        f"type: 'MultiHeadAttention' attention_param {{ num_heads: 2 "
        f"causal: {str(causal).lower()} }}", bottom, parameters, top)


def embed():
    module = nn.Embedding(5, 3)
    inputs = torch.tensor([[0, 4], [2, 2], [4, 1]])
    top = module(inputs)
    add("embed", "type: 'Embed' embed_param { input_dim: 5 num_output: 3 bias_term: false }",
        inputs, lambda: [(module.weight, module.weight.grad)], top)


def layer_norm():
    module = nn.LayerNorm(5)
    nn.init.normal_(module.weight)
    nn.init.normal_(module.bias)
    bottom = torch.randn(2, 3, 5, requires_grad=True)
    add("layer norm", "type: 'LayerNorm'", bottom,
        lambda: [(module.weight, module.weight.grad), (module.bias, module.bias.grad)],
        module(bottom))


def gelu():
    bottom = torch.tensor([[-9.0, -3, -1, -0.1, 0], [0.1, 0.7, 1.5, 4, 9]], requires_grad=True)
    add("gelu", "type: 'GELU'", bottom, lambda: [], nn.functional.gelu(bottom))


def floats(tensor):
    return "{" + ", ".join(f"{value:.8g}F" if "." in f"{value:.8g}" or "e" in f"{value:.8g}"
                           else f"{value:.8g}.0F" for value in tensor.flatten().tolist()) + "}"


def main():
    torch.manual_seed(7)
    torch.set_default_dtype(torch.float64)
    for kind, module in (("LSTM", nn.LSTM), ("GRU", nn.GRU), ("RNN", nn.RNN)):
        extra = "output_transform: false" if kind == "RNN" else ""
        for layers in (1, 2):
            recurrent(kind, module(2, 3, layers), layers, extra)
    attention(False)
    attention(True)
    embed()
    layer_norm()
    gelu()
    lines = ["#pragma once", "", "#include <string>", "#include <vector>", "",
             '#include "tests/unit/layers/layer_bench.hpp"', "",
             "// Written by golden_sequence.py; not to be edited.", "namespace taut::test {", "",
             "struct Golden {", "  std::string name;", "  std::string definition;",
             "  Extents shape;", "  Values bottom;", "  std::vector<Values> parameters;",
             "  Values top_gradient;", "  Values top;",
             "  Values bottom_gradient;  // empty: the bottom has none",
             "  std::vector<Values> parameter_gradients;", "};", "",
             "inline const std::vector<Golden> kGolden{"]
    for name, definition, bottom, values, weights, top, dx, gradients in CASES:
        shape = ", ".join(str(extent) for extent in bottom.shape)
        lines.append(f'{{"{name}", "{definition}", {{{shape}}}, {floats(bottom)}, '
                     f'{{{", ".join(floats(v) for v in values)}}}, {floats(weights)}, {floats(top)}, '
                     f'{floats(dx)}, {{{", ".join(floats(g) for g in gradients)}}}}},')
    lines += ["};", "", "}  // namespace taut::test", ""]
    path = pathlib.Path(__file__).with_name("golden_sequence.hpp")
    path.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()

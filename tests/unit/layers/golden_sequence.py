#!/usr/bin/python3
"""Writes golden_sequence.hpp: what PyTorch makes of small sequences, for golden_sequence_test.cpp.

Needs PyTorch (apt install python3-torch); the values were written by 1.13.0, in double, and rounded
to float. Parameters are in this project's order: gates of an LSTM as i, f, o, g, where PyTorch
has i, f, g, o; biases that PyTorch keeps twice are added, but for a GRU's.

example: tests/unit/layers/golden_sequence.py && clang-format -i
tests/unit/layers/golden_sequence.hpp
"""
import pathlib

import torch
from torch import nn

CASES = []


def caffe_gates(matrix):
    """Rows i, f, g, o as i, f, o, g."""
    i, f, g, o = matrix.chunk(4)
    return torch.cat([i, f, o, g])


def add(name, definition, bottoms, parameters, tops):
    """parameters: a function of no argument, so that gradients are read after backward."""
    weights = [torch.randn_like(top) for top in tops]
    sum((top * weight).sum() for top, weight in zip(tops, weights)).backward()
    gradients = [torch.zeros(0) if bottom.grad is None else bottom.grad for bottom in bottoms]
    CASES.append((name, definition, bottoms, [value for value, _ in parameters()], weights, tops,
                  gradients, [gradient for _, gradient in parameters()]))


# cont of 4 steps x 3 streams. The first stream continues from its state and starts again once; the
# second one starts from zeros and again twice; the third one continues throughout.
RESETS = torch.tensor([[1., 0, 1], [1, 1, 1], [0, 0, 1], [1, 0, 1]])


def in_pieces(module, sequence, states):
    """Top and last states where RESETS are heeded: each stream's pieces are run by themselves, and
    only a first piece that continues starts from the given states (none: zeros)."""
    tops, ended = [], []
    for stream in range(RESETS.shape[1]):
        begins = [0] + [t for t in range(1, len(RESETS)) if RESETS[t, stream] == 0]
        given = [state[:, stream:stream + 1] for state in states] if RESETS[0, stream] else []
        pieces = []
        for begin, end in zip(begins, [*begins[1:], len(RESETS)]):
            start = None
            if given:
                start = tuple(given) if len(given) > 1 else given[0]
            given = []
            top, last = module(sequence[begin:end, stream:stream + 1], start)
            pieces.append(top)
        tops.append(torch.cat(pieces))
        ended.append(last if isinstance(last, tuple) else (last,))
    return torch.cat(tops, 1), [torch.cat(parts, 1) for parts in zip(*ended)]


def recurrent(kind, module, layers, extra="", exposed=False, constant=0, resets=False,
              outputs=None):
    """exposed: the states are bottoms and tops. constant: features of x_static, which PyTorch reads
    as further features of every step. resets: cont is RESETS. outputs: the Linear of Caffe's output
    of an RNN, tanh(W_ho h + b_o)."""
    bottom = torch.randn(4, 3, 2, requires_grad=True)
    bottoms = [bottom]
    sequence = bottom
    if exposed or constant or resets:
        bottoms.append(RESETS if resets else torch.ones(4, 3))
    if constant:
        bottoms.append(torch.randn(3, constant, requires_grad=True))
        sequence = torch.cat([bottom, bottoms[2].expand(4, 3, constant)], 2)
    states = [torch.randn(layers, 3, 3, requires_grad=True)
              for _ in range(2 if kind == "LSTM" else 1)] if exposed else []
    bottoms += states
    if resets:
        top, ended = in_pieces(module, sequence, states)
    else:
        top, ended = module(sequence, (tuple(states) if kind == "LSTM" else states[0])
                            if exposed else None)
        ended = ended if kind == "LSTM" else [ended]
    tops = [top if outputs is None else torch.tanh(outputs(top))]
    if exposed:
        tops += ended
        extra += "expose_hidden: true"

    def parameters():
        order = caffe_gates if kind == "LSTM" else (lambda matrix: matrix)
        found = []
        for layer in range(layers):
            wx, wh, bx, bh = (getattr(module, f"{name}_l{layer}")
                              for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
            bias = bx if kind == "GRU" else bx + bh
            wx, dx = order(wx), order(wx.grad)
            own = 2 if layer == 0 else 3
            found += [(wx[:, :own], dx[:, :own]), (order(bias), order(bx.grad))]
            if constant and layer == 0:
                found.append((wx[:, own:], dx[:, own:]))
            found.append((order(wh), order(wh.grad)))
            if kind == "GRU":
                found.append((bh, bh.grad))
        if outputs is not None:
            found += [(outputs.weight, outputs.weight.grad), (outputs.bias, outputs.bias.grad)]
        return found

    name = (f"{kind} of {layers}" + (" with its states" if exposed else "") +
            (" and a constant bottom" if constant else "") + (" and resets" if resets else "") +
            (" and Caffe's output" if outputs is not None else ""))
    add(name, f"type: '{kind}' recurrent_param {{ num_output: 3 "
        f"num_layers: {layers} {extra} }}", bottoms, parameters, tops)


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
        f"causal: {str(causal).lower()} }}", [bottom], parameters, [top])


def embed():
    module = nn.Embedding(5, 3)
    inputs = torch.tensor([[0, 4], [2, 2], [4, 1]])
    top = module(inputs)
    add("embed", "type: 'Embed' embed_param { input_dim: 5 num_output: 3 bias_term: false }",
        [inputs], lambda: [(module.weight, module.weight.grad)], [top])


def layer_norm():
    module = nn.LayerNorm(5)
    nn.init.normal_(module.weight)
    nn.init.normal_(module.bias)
    bottom = torch.randn(2, 3, 5, requires_grad=True)
    add("layer norm", "type: 'LayerNorm'", [bottom],
        lambda: [(module.weight, module.weight.grad), (module.bias, module.bias.grad)],
        [module(bottom)])


def gelu():
    bottom = torch.tensor([[-9.0, -3, -1, -0.1, 0], [0.1, 0.7, 1.5, 4, 9]], requires_grad=True)
    add("gelu", "type: 'GELU'", [bottom], lambda: [], [nn.functional.gelu(bottom)])


def position_embed():
    weight = torch.randn(3, 4, requires_grad=True)
    bottom = torch.randn(3, 2, 4, requires_grad=True)
    add("position embed", "type: 'PositionEmbed'", [bottom], lambda: [(weight, weight.grad)],
        [bottom + weight[:, None]])


def floats(tensor):
    return "{" + ", ".join(f"{value:.8g}F" if "." in f"{value:.8g}" or "e" in f"{value:.8g}"
                           else f"{value:.8g}.0F" for value in tensor.flatten().tolist()) + "}"


def all_floats(tensors):
    return "{" + ", ".join(floats(tensor) for tensor in tensors) + "}"


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
    for kind, module in (("LSTM", nn.LSTM), ("GRU", nn.GRU), ("RNN", nn.RNN)):
        extra = "output_transform: false " if kind == "RNN" else ""
        recurrent(kind, module(2, 3, 2), 2, extra, exposed=True)
        recurrent(kind, module(4, 3, 1), 1, extra, constant=2)
        recurrent(kind, module(3, 3, 2), 2, extra, exposed=True, constant=1)
    for kind, module in (("LSTM", nn.LSTM), ("GRU", nn.GRU), ("RNN", nn.RNN)):
        extra = "output_transform: false " if kind == "RNN" else ""
        recurrent(kind, module(2, 3, 2), 2, extra, resets=True)
        recurrent(kind, module(2, 3, 2), 2, extra, exposed=True, resets=True)
    for layers in (1, 2):
        recurrent("RNN", nn.RNN(2, 3, layers), layers, outputs=nn.Linear(3, 3))
    recurrent("RNN", nn.RNN(2, 3, 1), 1, resets=True, outputs=nn.Linear(3, 3))
    position_embed()
    lines = ["#pragma once", "", "#include <string>", "#include <vector>", "",
             '#include "tests/unit/layers/layer_bench.hpp"', "",
             "// Written by golden_sequence.py; not to be edited.", "namespace taut::test {", "",
             "struct Golden {", "  std::string name;", "  std::string definition;",
             "  std::vector<Extents> shapes;  // of the bottoms",
             "  std::vector<Values> bottoms, parameters, top_gradients, tops;",
             "  std::vector<Values> bottom_gradients;  // empty: the bottom has none",
             "  std::vector<Values> parameter_gradients;", "};", "",
             "inline const std::vector<Golden> kGolden{"]
    for name, definition, bottoms, values, weights, tops, dx, gradients in CASES:
        shapes = ", ".join("{" + ", ".join(str(extent) for extent in bottom.shape) + "}"
                           for bottom in bottoms)
        parts = ", ".join(all_floats(part)
                          for part in (bottoms, values, weights, tops, dx, gradients))
        lines.append(f'{{"{name}", "{definition}", {{{shapes}}}, {parts}}},')
    lines += ["};", "", "}  // namespace taut::test", ""]
    path = pathlib.Path(__file__).with_name("golden_sequence.hpp")
    path.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()

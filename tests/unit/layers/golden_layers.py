#!/usr/bin/python3
"""Writes golden_layers.hpp: what PyTorch makes of small tensors, for golden_layers_test.cpp.

Needs PyTorch (apt install python3-torch); the values were written by 1.13.1, in double, and rounded
to float. Where PyTorch has no such layer, the layer's formula is written out here and its gradient
is autograd's. A loss has weight 1 instead of a top gradient.

example: tests/unit/layers/golden_layers.py && clang-format -i tests/unit/layers/golden_layers.hpp
"""
import pathlib

import torch
from torch.nn import functional as F

CASES = []
IMAGES = (2, 4, 3, 2)


def numbers(tensor):
    texts = [f"{float(x):.8g}" for x in tensor.flatten()]
    return "{" + ", ".join(f"{x}F" if "." in x or "e" in x else f"{x}.0F" for x in texts) + "}"


def case(definition, function, bottoms, parameters=(), loss=False, learned=1):
    """function(*bottoms, *parameters) gives one top or several; the first `learned` bottoms and all
    parameters have gradients."""
    bottoms = [bottom.detach().clone() for bottom in bottoms]
    parameters = [parameter.detach().clone() for parameter in parameters]
    wanted = bottoms[:learned] + parameters
    for tensor in wanted:
        tensor.requires_grad_()
    tops = function(*bottoms, *parameters)
    tops = list(tops) if isinstance(tops, (list, tuple)) else [tops]
    weights = [torch.ones(()) if loss else torch.randn_like(top) for top in tops]
    if wanted:
        sum((top * weight).sum() for top, weight in zip(tops, weights)).backward()
    CASES.append((definition, bottoms, parameters, weights, tops,
                  [bottom.grad for bottom in bottoms[:learned]],
                  [parameter.grad for parameter in parameters]))


def images(*shape):
    return torch.randn(*(shape or IMAGES))


def convolutions():
    case("type: 'Convolution' convolution_param { num_output: 6 kernel_h: 3 kernel_w: 2 "
         "stride_h: 2 stride_w: 1 pad_h: 1 pad_w: 0 group: 2 }",
         lambda x, w, b: F.conv2d(x, w, b, stride=(2, 1), padding=(1, 0), groups=2),
         [images()], [images(6, 2, 3, 2), images(6)])
    case("type: 'Convolution' convolution_param { num_output: 2 kernel_size: 2 dilation: 2 "
         "pad: 1 }", lambda x, w, b: F.conv2d(x, w, b, padding=1, dilation=2),
         [images()], [images(2, 4, 2, 2), images(2)])
    case("type: 'Convolution' convolution_param { num_output: 4 kernel_size: 3 stride: 2 pad: 1 "
         "group: 2 }",
         lambda x, w, b: F.conv1d(x, w, b, stride=2, padding=1, groups=2),
         [images(2, 4, 7)], [images(4, 2, 3), images(4)])
    case("type: 'Deconvolution' convolution_param { num_output: 4 kernel_size: 3 stride: 2 pad: 1 "
         "group: 2 }",
         lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2, padding=1, groups=2),
         [images()], [images(4, 2, 3, 3), images(4)])
    case("type: 'Deconvolution' convolution_param { num_output: 3 kernel_size: 4 stride: 2 "
         "bias_term: false }",
         lambda x, w: F.conv_transpose1d(x, w, stride=2), [images(2, 2, 4)], [images(2, 3, 4)])


def poolings():
    case("type: 'Pooling' pooling_param { pool: MAX kernel_size: 3 stride: 2 pad: 1 }",
         lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True), [images(1, 2, 6, 5)])
    case("type: 'Pooling' pooling_param { pool: AVE kernel_size: 3 stride: 2 pad: 1 }",
         lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), [images(1, 2, 6, 5)])
    case("type: 'Pooling' pooling_param { pool: AVE kernel_size: 3 stride: 2 round_mode: FLOOR }",
         lambda x: F.avg_pool2d(x, 3, 2), [images(1, 2, 6, 6)])
    case("type: 'Pooling' pooling_param { pool: AVE global_pooling: true }",
         lambda x: F.adaptive_avg_pool2d(x, 1), [images()])
    case("type: 'LRN' lrn_param { local_size: 3 alpha: 0.6 beta: 0.7 k: 1.5 }",
         lambda x: F.local_response_norm(x, 3, 0.6, 0.7, 1.5), [images(2, 5, 3, 2)])
    case("type: 'LRN' lrn_param { local_size: 3 alpha: 0.9 beta: 0.75 "
         "norm_region: WITHIN_CHANNEL }",
         lambda x: x * (1 + 0.9 * F.avg_pool2d(x * x, 3, 1, 1)) ** -0.75, [images()])


def channels():
    case("type: 'BatchNorm' batch_norm_param { eps: 0.001 }",
         lambda x: F.batch_norm(x, None, None, training=True, eps=0.001), [images()])
    case("type: 'BatchNorm'", lambda x: F.batch_norm(x, None, None, training=True), [images(6, 3)])
    case("type: 'BatchNorm'", lambda x: F.batch_norm(x, None, None, training=True),
         [images(3, 2, 4)])
    case("type: 'Scale' scale_param { bias_term: true }",
         lambda x, a, b: x * a.view(1, -1, 1, 1) + b.view(1, -1, 1, 1),
         [images()], [images(4), images(4)])
    case("type: 'Scale' scale_param { num_axes: 2 }", lambda x, a: x * a.unsqueeze(-1),
         [images()], [images(4, 3)])
    case("type: 'Scale' scale_param { axis: 0 }", lambda x, a: x * a[:, :, None, None],
         [images(), images(2, 4)], learned=2)
    case("type: 'Bias'", lambda x, b: x + b.view(1, -1, 1, 1), [images()], [images(4)])
    case("type: 'PReLU'", F.prelu, [images()], [images(4)])


def elements():
    case("type: 'ReLU' relu_param { negative_slope: 0.2 }", lambda x: F.leaky_relu(x, 0.2),
         [images(2, 3, 2, 1)])
    case("type: 'ELU' elu_param { alpha: 0.7 }", lambda x: F.elu(x, 0.7), [images(2, 3, 2, 1)])
    case("type: 'Power' power_param { power: 2.5 scale: 0.2 shift: 2 }",
         lambda x: (2 + 0.2 * x) ** 2.5, [images(2, 3, 2, 1)])
    case("type: 'Exp' exp_param { base: 3 scale: 0.5 shift: -1 }",
         lambda x: 3 ** (-1 + 0.5 * x), [images(2, 3, 2, 1)])
    case("type: 'Log' log_param { base: 2 scale: 0.3 shift: 4 }",
         lambda x: torch.log2(4 + 0.3 * x), [images(2, 3, 2, 1)])
    case("type: 'AbsVal'", torch.abs, [images(2, 3, 2, 1)])
    case("type: 'BNLL'", F.softplus, [images(2, 3, 2, 1) * 5])
    three = [images(2, 3, 2, 1), images(2, 3, 2, 1), images(2, 3, 2, 1)]
    case("type: 'Eltwise' eltwise_param { coeff: 1 coeff: -2 coeff: 0.5 }",
         lambda a, b, c: a - 2 * b + 0.5 * c, three, learned=3)
    case("type: 'Eltwise' eltwise_param { operation: PROD }", lambda a, b, c: a * b * c, three,
         learned=3)
    case("type: 'Eltwise' eltwise_param { operation: MAX }",
         lambda a, b, c: torch.maximum(torch.maximum(a, b), c), three, learned=3)


def shapes():
    case("type: 'Concat'", lambda a, b: torch.cat([a, b], 1), [images(), images(2, 3, 3, 2)],
         learned=2)
    case("type: 'Slice' slice_param { axis: 2 slice_point: 1 slice_point: 2 }",
         lambda x: x.split([1, 1, 1], 2), [images()])
    case("type: 'Flatten'", lambda x: x.flatten(1), [images()])
    case("type: 'Reshape' reshape_param { shape { dim: 0 dim: 3 dim: -1 dim: 2 } }",
         lambda x: x.reshape(2, 3, 4, 2), [images()])
    case("type: 'Reduction' reduction_param { operation: MEAN axis: 1 coeff: 3 }",
         lambda x: 3 * x.mean((1, 2, 3)), [images()])
    case("type: 'Reduction' reduction_param { operation: ASUM axis: 3 }",
         lambda x: x.abs().sum(3), [images()])
    case("type: 'Reduction' reduction_param { operation: SUMSQ axis: 2 }",
         lambda x: (x * x).sum((2, 3)), [images()])
    case("type: 'ArgMax' argmax_param { axis: 1 top_k: 2 }",
         lambda x: x.topk(2, 1).indices.double(), [images()], learned=0)
    case("type: 'ArgMax' argmax_param { out_max_val: true top_k: 3 }",
         lambda x: torch.stack([x.flatten(1).topk(3).indices.double(), x.flatten(1).topk(3).values],
                               1).unsqueeze(3), [images()], learned=0)


def hinge(scores, labels, power):
    signs = 2 * F.one_hot(labels.long(), scores.shape[1]) - 1
    return (F.relu(1 - signs * scores) ** power).sum() / len(scores)


def contrastive(a, b, alike):
    distance = (a - b).norm(dim=1)
    return (alike * distance ** 2 + (1 - alike) * F.relu(3 - distance) ** 2).sum() / 2 / len(a)


def losses():
    labels = torch.tensor([[[[1., 0], [9, 2]]], [[[2, 9], [0, 0]]]])

    def cross_entropy(reduction, scale=1.0):
        return lambda x, y: scale * F.cross_entropy(x, y[:, 0].long(), ignore_index=9,
                                                    reduction=reduction)
    for mode, function in (("VALID", cross_entropy("mean")), ("NONE", cross_entropy("sum")),
                           ("FULL", cross_entropy("sum", 1 / 8)),
                           ("BATCH_SIZE", cross_entropy("sum", 1 / 2))):
        case(f"type: 'SoftmaxWithLoss' loss_param {{ ignore_label: 9 normalization: {mode} }}",
             function, [images(2, 3, 2, 2), labels], loss=True)
    case("type: 'EuclideanLoss'", lambda a, b: F.mse_loss(a, b, reduction="sum") / 2 / len(a),
         [images(3, 5), images(3, 5)], loss=True, learned=2)
    case("type: 'SigmoidCrossEntropyLoss'",
         lambda x, y: F.binary_cross_entropy_with_logits(x, y, reduction="sum") / len(x),
         [4 * images(3, 5), torch.rand(3, 5)], loss=True)
    few = torch.tensor([2., 0, 3])
    case("type: 'HingeLoss'", lambda x, y: hinge(x, y, 1), [images(3, 4), few], loss=True)
    case("type: 'HingeLoss' hinge_loss_param { norm: L2 }", lambda x, y: hinge(x, y, 2),
         [images(3, 4), few], loss=True)
    case("type: 'ContrastiveLoss' contrastive_loss_param { margin: 3 }", contrastive,
         [images(4, 3), images(4, 3), torch.tensor([1., 0, 0, 1])], loss=True, learned=2)


def sums():
    case("type: 'InnerProduct' inner_product_param { num_output: 5 }",
         lambda x, w, b: F.linear(x.flatten(1), w, b), [images()], [images(5, 24), images(5)])
    case("type: 'InnerProduct' inner_product_param { num_output: 2 axis: 2 bias_term: false }",
         F.linear, [images(3, 2, 4)], [images(2, 4)])
    case("type: 'TanH'", torch.tanh, [2 * images(2, 3, 2, 1)])
    case("type: 'Sigmoid'", torch.sigmoid, [2 * images(2, 3, 2, 1)])
    case("type: 'Softmax'", lambda x: F.softmax(x, 1), [3 * images()])
    case("type: 'Softmax' softmax_param { axis: 2 }", lambda x: F.softmax(x, 2),
         [3 * images(3, 2, 4)])
    # In the test phase, as golden_layers_test.cpp knows it by its type.
    case("type: 'Dropout' dropout_param { dropout_ratio: 0.4 }",
         lambda x: F.dropout(x, 0.4, training=False), [images(2, 3, 2, 1)])


# Layers of Caffe's that came later: at the end, so that the numbers of those before stay.
def clips():
    case("type: 'Clip' clip_param { min: -0.5 max: 0.8 }", lambda x: x.clamp(-0.5, 0.8), [images()])
    case("type: 'Swish' swish_param { beta: 1.7 }", lambda x: x * torch.sigmoid(1.7 * x),
         [images()])
    case("type: 'Threshold' threshold_param { threshold: 0.3 }", lambda x: (x > 0.3).double(),
         [images()], learned=0)


def crops():
    case("type: 'Crop' crop_param { axis: 2 offset: 1 }", lambda x, size: x[:, :, 1:3, 1:3],
         [images(2, 2, 4, 3), images(1, 1, 2, 2)])
    case("type: 'Crop' crop_param { axis: 1 offset: 2 offset: 0 }", lambda x, size: x[:, 2:5, 0:2],
         [images(2, 5, 3), images(2, 3, 2)])
    case("type: 'Tile' tile_param { tiles: 3 }", lambda x: x.repeat(1, 3, 1, 1), [images()])
    case("type: 'Tile' tile_param { axis: 3 tiles: 2 }", lambda x: x.repeat(1, 1, 1, 2), [images()])
    case("type: 'Parameter' parameter_param { shape { dim: 2 dim: 3 dim: 2 dim: 2 } }",
         lambda p: 1 * p, [], [images(2, 3, 2, 2)])


def transposed():
    case("type: 'InnerProduct' inner_product_param { num_output: 5 transpose: true }",
         lambda x, w, b: F.linear(x.flatten(1), w.t(), b), [images()], [images(24, 5), images(5)])


def normalised(x, axes, eps):
    distance = x - x.mean(axes, keepdim=True)
    return distance / (distance.pow(2).mean(axes, keepdim=True).sqrt() + eps)


def means_and_variances():
    case("type: 'MVN'", lambda x: normalised(x, (2, 3), 1e-9), [images()])
    case("type: 'MVN' mvn_param { across_channels: true }",
         lambda x: normalised(x, (1, 2, 3), 1e-9), [images()])
    case("type: 'MVN' mvn_param { normalize_variance: false }",
         lambda x: x - x.mean((2, 3), keepdim=True), [images()])


def infogain(scores, labels, matrix):
    logs = F.log_softmax(scores, 1).movedim(1, -1)
    weights = matrix[0, 0][labels[:, 0].long()]
    return -(weights * logs).sum() / labels.numel()


def infogains():
    labels = torch.randint(0, 3, (2, 1, 2, 2)).double()
    case("type: 'InfogainLoss'", infogain, [images(2, 3, 2, 2), labels, torch.rand(1, 1, 3, 3)],
         loss=True)


def stochastic_poolings():
    # In the test phase, as golden_layers_test.cpp knows it by its method.
    case("type: 'Pooling' pooling_param { pool: STOCHASTIC kernel_size: 3 stride: 2 }",
         lambda x: (F.avg_pool2d(x * x, 3, 2, ceil_mode=True) /
                    F.avg_pool2d(x, 3, 2, ceil_mode=True)), [torch.rand(1, 2, 6, 5)], learned=0)


def lists(tensors):
    return "{" + ", ".join(numbers(tensor) for tensor in tensors) + "}"


def main():
    torch.manual_seed(7)
    torch.set_default_dtype(torch.float64)
    for make in (convolutions, poolings, channels, elements, shapes, losses, sums, clips, crops,
                 transposed, means_and_variances, infogains, stochastic_poolings):
        make()
    lines = ["#pragma once", "", "#include <string>", "#include <vector>", "",
             '#include "tests/unit/layers/layer_bench.hpp"', "",
             "// Written by golden_layers.py; not to be edited.", "namespace taut::test {", "",
             "struct GoldenLayer {", "  std::string definition;", "  std::vector<Extents> shapes;",
             "  std::vector<Values> bottoms;", "  std::vector<Values> parameters;",
             "  std::vector<Values> top_gradients;", "  std::vector<Values> tops;",
             "  std::vector<Values> bottom_gradients;  // of the first bottoms",
             "  std::vector<Values> parameter_gradients;", "};", "",
             "inline const std::vector<GoldenLayer> kGoldenLayers{"]
    for definition, bottoms, parameters, weights, tops, bottom_gradients, gradients in CASES:
        extents = "{" + ", ".join("{" + ", ".join(map(str, b.shape)) + "}" for b in bottoms) + "}"
        lines += [f'{{"{definition}", {extents},', lists(bottoms) + ",", lists(parameters) + ",",
                  lists(weights) + ",", lists(tops) + ",", lists(bottom_gradients) + ",",
                  lists(gradients) + "},"]
    lines += ["};", "", "}  // namespace taut::test", ""]
    path = pathlib.Path(__file__).with_suffix(".hpp")
    path.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()

#include "worker/model/layer_rule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "proto/caffe_left_out.hpp"
#include "proto/did_you_mean.hpp"
#include "worker/model/rules.hpp"
#include "worker/model/rules_sequence.hpp"

namespace taut::model {
namespace {

constexpr std::size_t kMost = 1024;  // bottoms or tops of one layer

constexpr std::array kRules{
    LayerRule{.type = "Data",
              .fewest_bottoms = 0,
              .most_bottoms = 0,
              .most_tops = 64,
              .differentiable_bottoms = 0,
              .top_must_stay = true,
              .is_fed = true,
              .settle = rules::settle_data},
    LayerRule{.type = "ImageData",
              .fewest_bottoms = 0,
              .most_bottoms = 0,
              .most_tops = 2,
              .differentiable_bottoms = 0,
              .top_must_stay = true,
              .is_fed = true,
              .settle = rules::settle_data},
    LayerRule{.type = "DummyData",
              .fewest_bottoms = 0,
              .most_bottoms = 0,
              .most_tops = 64,
              .differentiable_bottoms = 0,
              .top_must_stay = true,
              .is_fed = true,
              .settle = rules::settle_dummy_data},
    LayerRule{.type = "Input",
              .fewest_bottoms = 0,
              .most_bottoms = 0,
              .most_tops = 64,
              .differentiable_bottoms = 0,
              .top_must_stay = true,
              .is_fed = true,
              .settle = rules::settle_input},
    LayerRule{.type = "Convolution", .settle = rules::settle_convolution},
    LayerRule{.type = "Deconvolution", .settle = rules::settle_deconvolution},
    LayerRule{.type = "LRN", .settle = rules::settle_lrn},
    LayerRule{.type = "Pooling", .settle = rules::settle_pooling},
    LayerRule{.type = "InnerProduct", .settle = rules::settle_inner_product},
    // A ReLU's gradient needs only its top's sign, so its top need not stay: it may be written over
    // by what keeps the sign, or passes no gradient back where it does not.
    LayerRule{.type = "ReLU",
              .in_place = InPlace::kOver,
              .top_sign_must_stay = true,
              .keeps_sign = true,
              .settle = rules::settle_relu},
    LayerRule{.type = "Sigmoid",
              .in_place = InPlace::kNewBlob,
              .top_must_stay = true,
              .settle = rules::settle_unchanged},
    LayerRule{.type = "TanH",
              .in_place = InPlace::kOver,
              .top_must_stay = true,
              .keeps_sign = true,
              .settle = rules::settle_unchanged},
    LayerRule{.type = "ELU",
              .in_place = InPlace::kOver,
              .top_must_stay = true,
              .keeps_sign = true,
              .settle = rules::settle_elu},
    LayerRule{.type = "Exp",
              .in_place = InPlace::kOver,
              .top_must_stay = true,
              .settle = rules::settle_exp},
    // What reads its bottom for its gradient cannot work over it.
    LayerRule{.type = "Power", .in_place = InPlace::kNewBlob, .settle = rules::settle_power},
    LayerRule{.type = "Log", .in_place = InPlace::kNewBlob, .settle = rules::settle_log},
    LayerRule{.type = "AbsVal", .in_place = InPlace::kNewBlob, .settle = rules::settle_unchanged},
    LayerRule{.type = "BNLL", .in_place = InPlace::kNewBlob, .settle = rules::settle_unchanged},
    LayerRule{.type = "PReLU", .in_place = InPlace::kNewBlob, .settle = rules::settle_prelu},
    // A BatchNorm's gradient needs its top, a Scale's its bottom: after each other they share one.
    LayerRule{.type = "BatchNorm",
              .in_place = InPlace::kOver,
              .top_must_stay = true,
              .settle = rules::settle_batch_norm},
    LayerRule{.type = "Scale",
              .most_bottoms = 2,
              .differentiable_bottoms = 2,
              .in_place = InPlace::kNewBlob,
              .settle = rules::settle_scale},
    LayerRule{.type = "Bias",
              .most_bottoms = 2,
              .differentiable_bottoms = 2,
              .in_place = InPlace::kOver,
              .settle = rules::settle_bias},
    LayerRule{.type = "Eltwise",
              .fewest_bottoms = 2,
              .most_bottoms = kMost,
              .differentiable_bottoms = kMost,
              .in_place = InPlace::kNewBlob,
              .settle = rules::settle_eltwise},
    LayerRule{.type = "Concat",
              .most_bottoms = kMost,
              .differentiable_bottoms = kMost,
              .settle = rules::settle_concat},
    LayerRule{.type = "Slice", .most_tops = kMost, .settle = rules::settle_slice},
    LayerRule{.type = "Flatten", .settle = rules::settle_flatten},
    LayerRule{.type = "Reshape", .settle = rules::settle_reshape},
    LayerRule{.type = "Split", .most_tops = kMost, .settle = rules::settle_split},
    LayerRule{.type = "Silence",
              .most_bottoms = kMost,
              .fewest_tops = 0,
              .most_tops = 0,
              .differentiable_bottoms = 0,
              .settle = rules::settle_silence},
    LayerRule{.type = "Reduction", .settle = rules::settle_reduction},
    LayerRule{.type = "ArgMax", .differentiable_bottoms = 0, .settle = rules::settle_arg_max},
    LayerRule{.type = "Dropout",
              .in_place = InPlace::kOver,
              .keeps_sign = true,
              .settle = rules::settle_dropout},
    LayerRule{.type = "Softmax", .top_must_stay = true, .settle = rules::settle_softmax},
    LayerRule{.type = "SoftmaxWithLoss",
              .fewest_bottoms = 2,
              .most_bottoms = 2,
              .most_tops = 2,
              .top_must_stay = true,
              .is_loss = true,
              .settle = rules::settle_softmax_loss},
    LayerRule{.type = "EuclideanLoss",
              .fewest_bottoms = 2,
              .most_bottoms = 2,
              .differentiable_bottoms = 2,
              .is_loss = true,
              .settle = rules::settle_pair_loss},
    LayerRule{.type = "SigmoidCrossEntropyLoss",
              .fewest_bottoms = 2,
              .most_bottoms = 2,
              .is_loss = true,
              .settle = rules::settle_pair_loss},
    LayerRule{.type = "HingeLoss",
              .fewest_bottoms = 2,
              .most_bottoms = 2,
              .is_loss = true,
              .settle = rules::settle_hinge_loss},
    LayerRule{.type = "ContrastiveLoss",
              .fewest_bottoms = 3,
              .most_bottoms = 3,
              .differentiable_bottoms = 2,
              .is_loss = true,
              .settle = rules::settle_contrastive_loss},
    LayerRule{.type = "Accuracy",
              .fewest_bottoms = 2,
              .most_bottoms = 2,
              .differentiable_bottoms = 0,
              .settle = rules::settle_accuracy},
    LayerRule{.type = "Embed", .differentiable_bottoms = 0, .settle = rules::settle_embed},
    LayerRule{.type = "PositionEmbed",
              .in_place = InPlace::kNewBlob,
              .settle = rules::settle_position_embed},
    LayerRule{
        .type = "RNN", .most_bottoms = 2, .top_must_stay = true, .settle = rules::settle_recurrent},
    LayerRule{.type = "LSTM", .most_bottoms = 2, .settle = rules::settle_recurrent},
    LayerRule{.type = "GRU", .most_bottoms = 2, .settle = rules::settle_recurrent},
    LayerRule{.type = "LayerNorm", .settle = rules::settle_layer_norm},
    LayerRule{.type = "GELU", .settle = rules::settle_unchanged},
    LayerRule{.type = "MultiHeadAttention", .most_bottoms = 2, .settle = rules::settle_attention},
};

}  // namespace

Result<const LayerRule*> find_rule(const std::string& type) {
  const auto found = std::find_if(kRules.begin(), kRules.end(),
                                  [&](const LayerRule& rule) { return rule.type == type; });
  if (found != kRules.end()) return &*found;
  if (const auto why = why_left_out(type)) return invalid("is " + *why);
  std::vector<std::string_view> types;
  for (const LayerRule& rule : kRules) types.push_back(rule.type);
  const std::string problem =
      type.empty() ? "has no type" : fmt::format("is of unknown type \"{}\"", type);
  return invalid(fmt::format("{}{}; known are {}", problem, did_you_mean(type, types),
                             fmt::join(types, ", ")));
}

}  // namespace taut::model

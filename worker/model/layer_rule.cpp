#include "worker/model/layer_rule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "proto/did_you_mean.hpp"
#include "worker/model/rules.hpp"
#include "worker/model/rules_sequence.hpp"

namespace taut::model {
namespace {

constexpr std::array kRules{
    LayerRule{.type = "Data",
              .fewest_bottoms = 0,
              .most_bottoms = 0,
              .most_tops = 64,
              .differentiable_bottoms = 0,
              .top_must_stay = true,
              .is_fed = true,
              .settle = rules::settle_data},
    LayerRule{.type = "Input",
              .fewest_bottoms = 0,
              .most_bottoms = 0,
              .most_tops = 64,
              .differentiable_bottoms = 0,
              .top_must_stay = true,
              .is_fed = true,
              .settle = rules::settle_input},
    LayerRule{.type = "Convolution", .settle = rules::settle_convolution},
    LayerRule{.type = "Pooling", .settle = rules::settle_pooling},
    LayerRule{.type = "InnerProduct", .settle = rules::settle_inner_product},
    // A ReLU's gradient needs only its top's sign, so its top need not stay: what may be written
    // over it (ReLU, TanH, Dropout) keeps the sign, or passes no gradient back. A Sigmoid does
    // neither.
    LayerRule{.type = "ReLU", .in_place = InPlace::kOver, .settle = rules::settle_relu},
    LayerRule{.type = "Sigmoid",
              .in_place = InPlace::kNewBlob,
              .top_must_stay = true,
              .settle = rules::settle_unchanged},
    LayerRule{.type = "TanH",
              .in_place = InPlace::kOver,
              .top_must_stay = true,
              .settle = rules::settle_unchanged},
    LayerRule{.type = "Dropout", .in_place = InPlace::kOver, .settle = rules::settle_dropout},
    LayerRule{.type = "Softmax", .top_must_stay = true, .settle = rules::settle_softmax},
    LayerRule{.type = "SoftmaxWithLoss",
              .fewest_bottoms = 2,
              .most_bottoms = 2,
              .most_tops = 2,
              .top_must_stay = true,
              .is_loss = true,
              .settle = rules::settle_softmax_loss},
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
  std::vector<std::string_view> types;
  for (const LayerRule& rule : kRules) types.push_back(rule.type);
  const std::string problem =
      type.empty() ? "has no type" : fmt::format("is of unknown type \"{}\"", type);
  return invalid(fmt::format("{}{}; known are {}", problem, did_you_mean(type, types),
                             fmt::join(types, ", ")));
}

}  // namespace taut::model

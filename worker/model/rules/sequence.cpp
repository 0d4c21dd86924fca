#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/ssp/row_buckets.hpp"
#include "worker/model/extents.hpp"
#include "worker/model/rules/recurrent_ports.hpp"
#include "worker/model/rules/rules.hpp"

namespace taut::model::rules {
namespace {

Result<void> check_is_sequence(const Shape& bottom) {
  if (bottom.size() == 3) return ok();
  return invalid(fmt::format(
      "the bottom must be a sequence (T steps x N streams x C), has shape {}", to_string(bottom)));
}

/// `what` names the second bottom: one number for each step of each stream.
Result<void> check_markers(const Shapes& bottoms, const char* what) {
  if (bottoms.size() < 2) return ok();
  const Shape& sequence = bottoms[0];
  if (bottoms[1] == Shape{sequence[0], sequence[1]}) return ok();
  return invalid(fmt::format(
      "the second bottom ({}) has shape {}; for a sequence of {} it must be {}", what,
      to_string(bottoms[1]), to_string(sequence), to_string({sequence[0], sequence[1]})));
}

Result<std::int64_t> positive(std::uint32_t value, const char* field) {
  if (value > 0) return std::int64_t{value};
  return invalid(fmt::format("{} must be at least 1, is missing or 0", field));
}

Result<void> check_ratio(float ratio, const char* field) {
  if (ratio >= 0 && ratio < 1) return ok();
  return invalid(fmt::format("{} must be in [0, 1), is {}", field, ratio));
}

std::int64_t gates_of(const std::string& type) {
  if (type == "LSTM") return 4;
  return type == "GRU" ? 3 : 1;
}

/// Whether the numbers of bottoms and tops agree with expose_hidden.
Result<void> check_ports(const pb::LayerParameter& layer, const RecurrentPorts& ports) {
  const auto bottoms = static_cast<std::size_t>(layer.bottom_size());
  const auto tops = static_cast<std::size_t>(layer.top_size());
  const std::size_t min_count = ports.states == 0 ? 1 : 2 + ports.states;
  const std::size_t max_count = 3 + ports.states;
  const bool is_lstm = ports.states == 2;
  if (bottoms < min_count || bottoms > max_count) {
    return invalid(fmt::format("requires {} to {} bottoms ({}), but has {}", min_count, max_count,
                               ports.states == 0
                                   ? "x, cont, x_static; states only with expose_hidden"
                               : is_lstm ? "with expose_hidden: x, cont, maybe x_static, h_0, c_0"
                                         : "with expose_hidden: x, cont, maybe x_static, h_0",
                               bottoms));
  }
  if (tops == 1 + ports.states) return ok();
  return invalid(fmt::format("requires {} ({}), but has {}",
                             ports.states == 0 ? "1 top"
                             : is_lstm         ? "3 tops"
                                               : "2 tops",
                             ports.states == 0 ? "states only with expose_hidden"
                             : is_lstm         ? "with expose_hidden: the output, h_T, c_T"
                                               : "with expose_hidden: the output, h_T",
                             tops));
}

Result<void> check_static(const pb::LayerParameter& layer, const Shapes& bottoms,
                          const RecurrentPorts& ports) {
  if (!ports.has_static) return ok();
  const std::size_t place = ports.static_bottom();
  const Shape& given = bottoms[place];
  const std::int64_t streams = bottoms[0][1];
  if (given.size() > 1 && given[0] == streams) return ok();
  return invalid(fmt::format(
      "bottom \"{}\" (x_static) has shape {}; for a sequence of {} it must be {} x features",
      layer.bottom(static_cast<int>(place)), to_string(given), to_string(bottoms[0]), streams));
}

Result<void> check_states(const pb::LayerParameter& layer, const Shapes& bottoms,
                          const RecurrentPorts& ports, const Shape& state) {
  for (std::size_t i = 0; i < ports.states; ++i) {
    const std::size_t place = ports.first_state_bottom() + i;
    if (bottoms[place] == state) continue;
    return invalid(
        fmt::format("bottom \"{}\" ({}) has shape {}; for a sequence of {} it must be {}",
                    layer.bottom(static_cast<int>(place)), i == 0 ? "h_0" : "c_0",
                    to_string(bottoms[place]), to_string(bottoms[0]), to_string(state)));
  }
  return ok();
}

/// Checks the buckets: a batch sends a bucket's rows as one item, and the number of rows that a
/// bucket gets depends on the data.
Result<void> check_buckets(const pb::EmbedParameter& parameter, std::uint64_t numbers) {
  const std::uint64_t width = parameter.num_output();
  const std::uint64_t rows = std::min<std::uint64_t>(numbers, parameter.input_dim());
  const std::uint64_t needed = min_buckets(rows, width);
  if (parameter.buckets() >= needed) return ok();
  const std::string why =
      fmt::format("a batch names up to {} rows of {} values, of which one bucket takes at most {}",
                  rows, width, max_rows_of_item(width));
  if (needed <= kMaxBuckets) {
    return invalid(fmt::format("embed_param.buckets must be at least {}, is {}: {}", needed,
                               parameter.buckets(), why));
  }
  return invalid(fmt::format("{}: too many for {} buckets; make the batch smaller, or num_output",
                             why, kMaxBuckets));
}

/// How an Embed's rows are kept, if only the servers keep them.
Result<std::optional<RequiredParameter::Rows>> rows_of(const pb::LayerParameter& layer,
                                                       const Shape& bottom) {
  const pb::EmbedParameter& parameter = layer.embed_param();
  using Rows = RequiredParameter::Rows;
  if (!parameter.by_rows()) {
    if (parameter.has_evict() || parameter.has_buckets()) {
      return invalid(fmt::format(
          "embed_param.{} is given, which is for rows that live at the servers; say by_rows: true, "
          "or omit it",
          parameter.has_evict() ? "evict" : "buckets"));
    }
    return std::optional<Rows>();
  }
  if (parameter.bias_term()) {
    return invalid("embed_param.by_rows has no bias: say bias_term: false");
  }
  if (parameter.buckets() < 1 || parameter.buckets() > kMaxBuckets) {
    return invalid(fmt::format("embed_param.buckets must be in [1, {}], is {}", kMaxBuckets,
                               parameter.buckets()));
  }
  if (parameter.num_output() > kMaxRowWidth) {
    return invalid(fmt::format("embed_param.num_output must be at most {} with by_rows, is {}",
                               kMaxRowWidth, parameter.num_output()));
  }
  constexpr std::uint64_t kMaxIdle = 1'000'000'000;
  if (parameter.evict().idle_clocks() > kMaxIdle) {
    return invalid(fmt::format("embed_param.evict.idle_clocks must be at most {}, is {}", kMaxIdle,
                               parameter.evict().idle_clocks()));
  }
  if (element_count(bottom) > kMaxRowsOfItem) {
    return invalid(fmt::format("the bottom has {} numbers; with by_rows a batch has at most {}",
                               element_count(bottom), kMaxRowsOfItem));
  }
  TAUT_TRY(check_buckets(parameter, element_count(bottom)));
  Rows rows;
  rows.table.buckets = parameter.buckets();
  rows.table.max_rows = parameter.evict().max_rows();
  rows.table.idle_clocks = static_cast<std::int64_t>(parameter.evict().idle_clocks());
  rows.of_batch = static_cast<std::int64_t>(element_count(bottom));
  return std::optional<Rows>(rows);
}

/// Bottom: whole numbers, of rank 1 or 2. Top: the bottom's shape x num_output.
Result<LayerShapes> settle_embed(const pb::LayerParameter& layer, const Shapes& bottoms,
                                 const GraphOptions&) {
  const pb::EmbedParameter& parameter = layer.embed_param();
  TAUT_TRY(const std::int64_t outputs, positive(parameter.num_output(), "embed_param.num_output"));
  TAUT_TRY(const std::int64_t inputs, positive(parameter.input_dim(), "embed_param.input_dim"));
  if (bottoms[0].size() > 2) {
    // Its top would be treated as images, for which the backend chooses the order in memory.
    return invalid(
        fmt::format("the bottom has shape {}, but must be numbers of rank 1 or 2 (N, or "
                    "T x N)",
                    to_string(bottoms[0])));
  }
  Shape top = bottoms[0];
  top.push_back(outputs);
  LayerShapes out{{top}, {}};
  out.parameters.push_back({"weight", {inputs, outputs}, parameter.weight_filler()});
  TAUT_TRY(out.parameters[0].rows, rows_of(layer, bottoms[0]));
  if (parameter.bias_term()) {
    out.parameters.push_back({"bias", {outputs}, parameter.bias_filler()});
  }
  return out;
}

/// Bottoms: T x N x D; optionally the cont markers T x N and x_static N x ...; with
/// expose_hidden the states num_layers x N x num_output. Tops: T x N x num_output, or N x
/// num_output of the last step; with expose_hidden the states.
/// Parameters of each layer, in Caffe's order: weight_x [G num_output, D], bias_x, weight_x_static
/// [G num_output, ...] (only the first layer, with an x_static), weight_h
/// [G num_output, num_output] and, for a GRU, bias_h; the rows of the G gates are in sequence. The
/// names of a layer above the first end in "_l1", "_l2", ... Last, an RNN's weight_o and bias_o.
Result<LayerShapes> settle_recurrent(const pb::LayerParameter& layer, const Shapes& bottoms,
                                     const GraphOptions&) {
  const pb::RecurrentParameter& parameter = layer.recurrent_param();
  const RecurrentPorts ports = recurrent_ports(layer);
  TAUT_TRY(check_ports(layer, ports));
  TAUT_TRY(check_is_sequence(bottoms[0]));
  TAUT_TRY(check_markers(bottoms, "cont markers"));
  TAUT_TRY(const std::int64_t hidden,
           positive(parameter.num_output(), "recurrent_param.num_output"));
  TAUT_TRY(const std::int64_t layers,
           positive(parameter.num_layers(), "recurrent_param.num_layers"));
  // Each layer has its own tables.
  constexpr std::int64_t kMaxLayers = 1024;
  if (layers > kMaxLayers) {
    return invalid(
        fmt::format("recurrent_param.num_layers must be at most {}, is {}", kMaxLayers, layers));
  }
  TAUT_TRY(check_ratio(parameter.dropout_ratio(), "recurrent_param.dropout_ratio"));
  const Shape state{layers, bottoms[0][1], hidden};
  TAUT_TRY(check_static(layer, bottoms, ports));
  TAUT_TRY(check_states(layer, bottoms, ports, state));
  const std::int64_t rows = gates_of(layer.type()) * hidden;
  LayerShapes out{{{bottoms[0][0], bottoms[0][1], hidden}}, {}};
  if (parameter.last_step()) out.tops[0].erase(out.tops[0].begin());
  out.tops.insert(out.tops.end(), ports.states, state);
  for (std::int64_t i = 0; i < layers; ++i) {
    const std::string suffix = i == 0 ? "" : fmt::format("_l{}", i);
    const std::int64_t inputs = i == 0 ? bottoms[0][2] : hidden;
    out.parameters.push_back({"weight_x" + suffix, {rows, inputs}, parameter.weight_filler()});
    out.parameters.push_back({"bias_x" + suffix, {rows}, parameter.bias_filler()});
    if (i == 0 && ports.has_static) {
      const Shape& given = bottoms[ports.static_bottom()];
      out.parameters.push_back({"weight_x_static",
                                {rows, extent_product(given, 1, given.size())},
                                parameter.weight_filler()});
    }
    out.parameters.push_back({"weight_h" + suffix, {rows, hidden}, parameter.weight_filler()});
    if (layer.type() == "GRU") {
      out.parameters.push_back({"bias_h" + suffix, {rows}, parameter.bias_filler()});
    }
  }
  if (layer.type() == "RNN" && parameter.output_transform()) {
    out.parameters.push_back({"weight_o", {hidden, hidden}, parameter.weight_filler()});
    out.parameters.push_back({"bias_o", {hidden}, parameter.bias_filler()});
  }
  return out;
}

/// Parameters: weight (initially ones) and bias (zeros), both of the normalised extents.
Result<LayerShapes> settle_layer_norm(const pb::LayerParameter& layer, const Shapes& bottoms,
                                      const GraphOptions&) {
  const pb::LayerNormParameter& parameter = layer.layer_norm_param();
  const Shape& bottom = bottoms[0];
  if (bottom.size() > 3) {
    return invalid(
        fmt::format("the bottom has shape {}, but must be of rank 1 to 3 (N x C, or T x "
                    "N x C)",
                    to_string(bottom)));
  }
  TAUT_TRY(const std::size_t axis, axis_index(parameter.axis(), bottom, "layer_norm_param.axis"));
  if (!(parameter.eps() > 0 && std::isfinite(parameter.eps()))) {
    return invalid(
        fmt::format("layer_norm_param.eps must be greater than 0, is {}", parameter.eps()));
  }
  LayerShapes out{{bottom}, {}};
  if (!parameter.affine()) return out;
  const Shape normalised(bottom.begin() + static_cast<std::ptrdiff_t>(axis), bottom.end());
  pb::FillerParameter ones;
  ones.set_value(1);
  out.parameters.push_back({"weight", normalised, ones});
  out.parameters.push_back({"bias", normalised, {}});
  return out;
}

/// Bottoms: T x N x C, and optionally a T x N mask. Parameters: weight_qkv [3 C, C],
/// bias_qkv, weight_o [C, C], bias_o.
Result<LayerShapes> settle_attention(const pb::LayerParameter& layer, const Shapes& bottoms,
                                     const GraphOptions&) {
  const pb::AttentionParameter& parameter = layer.attention_param();
  TAUT_TRY(check_is_sequence(bottoms[0]));
  TAUT_TRY(check_markers(bottoms, "mask"));
  const std::int64_t channels = bottoms[0][2];
  const std::int64_t heads = parameter.num_heads();
  if (heads < 1 || channels % heads != 0) {
    return invalid(fmt::format("attention_param.num_heads is {}, but must divide the {} channels",
                               heads, channels));
  }
  TAUT_TRY(check_ratio(parameter.dropout_ratio(), "attention_param.dropout_ratio"));
  LayerShapes out{{bottoms[0]}, {}};
  const auto add = [&](const char* name, std::int64_t rows) {
    const std::string suffix = name;
    out.parameters.push_back({"weight_" + suffix, {rows, channels}, parameter.weight_filler()});
    if (!parameter.bias_term()) return;
    out.parameters.push_back({"bias_" + suffix, {rows}, parameter.bias_filler()});
  };
  add("qkv", 3 * channels);
  add("o", channels);
  return out;
}

/// Bottom: T x N x C. Parameter: weight [T, C].
Result<LayerShapes> settle_position_embed(const pb::LayerParameter& layer, const Shapes& bottoms,
                                          const GraphOptions&) {
  TAUT_TRY(check_is_sequence(bottoms[0]));
  LayerShapes out{{bottoms[0]}, {}};
  out.parameters.push_back(
      {"weight", {bottoms[0][0], bottoms[0][2]}, layer.position_embed_param().weight_filler()});
  return out;
}

constexpr LayerRule kSequenceRules[]{
    LayerRule{.type = "Embed", .differentiable_bottoms = 0, .settle = settle_embed},
    LayerRule{
        .type = "PositionEmbed", .in_place = InPlace::kNewBlob, .settle = settle_position_embed},
    LayerRule{.type = "RNN",
              .max_bottoms = 4,
              .max_tops = 2,
              .differentiable_bottoms = 4,
              .marker_bottom = 1,
              .top_must_stay = true,
              .settle = settle_recurrent},
    LayerRule{.type = "LSTM",
              .max_bottoms = 5,
              .max_tops = 3,
              .differentiable_bottoms = 5,
              .marker_bottom = 1,
              .settle = settle_recurrent},
    LayerRule{.type = "GRU",
              .max_bottoms = 4,
              .max_tops = 2,
              .differentiable_bottoms = 4,
              .marker_bottom = 1,
              .settle = settle_recurrent},
    LayerRule{.type = "LayerNorm", .settle = settle_layer_norm},
    LayerRule{.type = "MultiHeadAttention", .max_bottoms = 2, .settle = settle_attention},
};

}  // namespace

LayerRules sequence_rules() {
  return kSequenceRules;
}

}  // namespace taut::model::rules

#pragma once

#include <memory>

#include "worker/backend/ops_sequence.hpp"

// The CPU's operations over sequences, one maker for each. Errors: std::invalid_argument.
namespace taut::cpu {

[[nodiscard]] std::unique_ptr<EmbedOp> make_embed(const EmbedSpec& spec);
[[nodiscard]] std::unique_ptr<PositionEmbedOp> make_position_embed(const SequenceShape& shape);
[[nodiscard]] std::unique_ptr<RecurrentOp> make_recurrent(const RecurrentSpec& spec);
[[nodiscard]] std::unique_ptr<LayerNormOp> make_layer_norm(const LayerNormSpec& spec);
[[nodiscard]] std::unique_ptr<GeluOp> make_gelu();
[[nodiscard]] std::unique_ptr<AttentionOp> make_attention(const AttentionSpec& spec);

}  // namespace taut::cpu

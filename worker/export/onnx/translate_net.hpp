#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "common/result.hpp"
#include "worker/export/onnx/layer_translation.hpp"
#include "worker/model/graph.hpp"

namespace taut::onnx {

/// A net as ONNX's operators.
struct OnnxNet {
  model::Graph net;  // the parameters are computed from its tables
  GraphProto graph;  // without the parameters
  std::vector<ParameterTensor> parameters;
  bool any_batch = false;  // the extent "N" of its inputs may be any number
};

/// Builds the net of the TEST phase. batch: the records of a batch; 0: the net's own.
using BuildNet = std::function<Result<model::Graph>(std::int64_t batch)>;

/// Translates a net. The result takes batches of any size if no layer depends on the batch size.
/// Inputs are the fed blobs that some operator reads, then the states that recurrent layers carry
/// between batches; outputs are the values that no operator reads, then those states. Losses,
/// accuracies and what only they read are left out.
/// batch     fixes the batch; 0: any size, or the net's own
/// Errors    invalid: a layer that ONNX cannot express (names layer, type and remedy), a net
///           without outputs; as `build`
[[nodiscard]] Result<OnnxNet> translate_net(const BuildNet& build, std::int64_t batch);

}  // namespace taut::onnx

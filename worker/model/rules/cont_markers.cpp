#include <algorithm>

#include "worker/model/graph.hpp"

namespace taut::model {

bool begins_at_start(const Graph& graph, std::size_t blob) {
  constexpr std::size_t kCont = 2;  // of a text's tops, as data::text_fields() has them
  bool is_text = false;
  for (const Node& node : graph.nodes) {
    const auto found = std::find(node.tops.begin(), node.tops.end(), blob);
    if (found == node.tops.end()) continue;
    if (!node.is_fed) return false;
    is_text = node.definition.data_param().backend() == pb::DataParameter::TEXT &&
              static_cast<std::size_t>(found - node.tops.begin()) == kCont;
  }
  return is_text;
}

}  // namespace taut::model

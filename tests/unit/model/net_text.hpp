#pragma once

#include <string>

#include "proto/config/text.hpp"
#include "tests/support/catch.hpp"
#include "worker/model/graph.hpp"

namespace taut::test {

/// A record of the data set that the tests' Data layers stand for.
inline const RecordShape kRecord = labelled_image(3, 8, 6);

inline pb::NetParameter net_of(const std::string& text) {
  pb::NetParameter net;
  const auto parsed = parse_text(text, "net", net);
  INFO((parsed ? std::string() : parsed.error().message));
  REQUIRE(parsed.has_value());
  return net;
}

inline model::Graph graph_of(const std::string& text, pb::Phase phase = pb::TRAIN) {
  auto graph = model::build_graph(net_of(text), {.phase = phase, .record = kRecord, .batch = 0});
  INFO((graph ? std::string() : graph.error().message));
  REQUIRE(graph.has_value());
  return std::move(graph.value());
}

inline std::string error_of_net(const std::string& text) {
  const auto graph =
      model::build_graph(net_of(text), {.phase = pb::TRAIN, .record = kRecord, .batch = 0});
  REQUIRE_FALSE(graph.has_value());
  CHECK(graph.error().code == ErrorCode::kInvalid);
  return graph.error().message;
}

/// A Data layer that makes "data" (4x3x8x6) and "label" (4).
inline const std::string kData =
    "layer { name: 'in' type: 'Data' top: 'data' top: 'label' data_param { batch_size: 4 } }\n";

/// A layer named "l" from "data" to "out".
inline std::string one_layer(const std::string& type, const std::string& rest) {
  return kData + "layer { name: 'l' type: '" + type + "' bottom: 'data' top: 'out' " + rest + " }";
}

/// The shape of the blob that `name` refers to last.
inline std::string shape_of(const model::Graph& graph, const std::string& name) {
  std::string shape = "no such blob";
  for (const model::Blob& blob : graph.blobs) {
    if (blob.name == name) shape = model::to_string(blob.shape);
  }
  return shape;
}

}  // namespace taut::test

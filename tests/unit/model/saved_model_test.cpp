#include "worker/model/saved_model.hpp"

#include "tests/support/temp_folder.hpp"
#include "tests/unit/model/net_text.hpp"
#include "tests/unit/proto/checkpoint_maker.hpp"

using namespace taut;
using namespace taut::model;
using Catch::Matchers::Contains;
using taut::test::CheckpointMaker;
using taut::test::graph_of;
using taut::test::TempFolder;

namespace {

std::string layer(const std::string& table, int outputs) {
  return "layer { name: 'of_" + table + "' type: 'InnerProduct' bottom: 'x' top: '" + table +
         "' param { name: '" + table +
         "' } inner_product_param { bias_term: false num_output: " + std::to_string(outputs) +
         " } }\n";
}

const std::string kInput =
    "layer { name: 'in' type: 'DummyData' top: 'x' dummy_data_param { shape { dim: 3 dim: 2 } } "
    "}\n";

}  // namespace

TEST_CASE("a checkpoint is a saved model with the job that wrote it", "[saved_model]") {
  const TempFolder folder;
  CheckpointMaker maker(40);
  maker.write(folder.path() / "clock-40");
  const auto saved = SavedModel::open(folder.path(), "");
  INFO((saved ? std::string() : saved.error().message));
  REQUIRE(saved.has_value());
  CHECK(saved.value().job().name() == "tiny");
  REQUIRE(saved.value().checkpoint() != nullptr);
  // In another order than the checkpoint's.
  const Graph graph = graph_of(kInput + layer("b", 2) + layer("a", 5));
  const auto read = saved.value().tables_of(graph);
  INFO((read ? std::string() : read.error().message));
  REQUIRE(read.has_value());
  std::vector<float> values(4);
  REQUIRE(read.value()(0, 0, values));
  CHECK(values[3] == maker.value(1, 3));
  // Across the two slices of "a".
  REQUIRE(read.value()(1, 4, values));
  CHECK(values == std::vector<float>{maker.value(0, 4), maker.value(0, 5), maker.value(0, 6),
                                     maker.value(0, 7)});
}

TEST_CASE("a saved model of another net is refused with what is missing", "[saved_model]") {
  const TempFolder folder;
  CheckpointMaker(7).write(folder.path() / "c");
  const auto saved = SavedModel::open(folder.path(), "");
  REQUIRE(saved.has_value());
  const auto error_of = [&](const std::string& net) {
    const auto read = saved.value().tables_of(graph_of(kInput + net));
    REQUIRE_FALSE(read.has_value());
    return read.error().message;
  };
  CHECK_THAT(error_of(layer("a", 5) + layer("c", 1) + layer("d", 1)),
             Contains("has nothing for \"c\" and 1 more of the net's parameters"));
  CHECK_THAT(error_of(layer("a", 4)), Contains("\"a\" has shape 5x2, but the net requires 4x2"));
}

TEST_CASE("a weights file needs a net from somewhere, and may carry it", "[saved_model]") {
  const TempFolder folder;
  const auto write = [&](const std::string& name, const safetensors::Metadata& notes) {
    auto path = folder.path() / name;
    auto writer = safetensors::Writer::create(path, {{"a", {2, 2}}}, notes);
    REQUIRE(writer);
    REQUIRE(writer.value().append(std::vector<float>{1, 2, 3, 4}));
    REQUIRE(writer.value().finish());
    return path;
  };
  const auto bare = write("bare.safetensors", {});
  CHECK_THAT(SavedModel::open(bare, "").error().message, Contains("name it with --net FILE"));
  const auto net = folder.write("net.prototxt", kInput + layer("a", 2));
  const auto named = SavedModel::open(bare, net);
  REQUIRE(named.has_value());
  CHECK(named.value().job().net_param().layer_size() == 2);
  CHECK(named.value().checkpoint() == nullptr);

  const auto carrying = SavedModel::open(
      write("own.safetensors", {{kJobNote, "name: 'mine' net_param { " + kInput + " }"}}), "");
  REQUIRE(carrying.has_value());
  CHECK(carrying.value().job().name() == "mine");
  const auto broken = SavedModel::open(write("broken.safetensors", {{kJobNote, "nam: 'x'"}}), "");
  REQUIRE_FALSE(broken.has_value());
  CHECK_THAT(broken.error().message, Contains("broken.safetensors, note tautline.job"));
}

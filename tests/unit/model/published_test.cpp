// Caffe's published LeNet, and this project's own models, read from their files.
#include "proto/config/text.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/model/net_text.hpp"
#include "worker/model/job/job.hpp"
#include "worker/model/job/solver.hpp"

using namespace taut;
using namespace taut::test;

namespace {

const std::filesystem::path kRoot = TAUT_SOURCE_FOLDER;
const RecordShape kDigit = labelled_image(1, 28, 28);

model::Graph read_graph(const std::string& path, pb::Phase phase) {
  pb::NetParameter net;
  REQUIRE(read_text(kRoot / path, net).has_value());
  auto graph = model::build_graph(net, {.phase = phase, .record = kDigit, .batch = 0});
  INFO((graph ? std::string() : graph.error().message));
  REQUIRE(graph.has_value());
  return std::move(graph.value());
}

std::vector<std::string> tables_of(const model::Graph& graph) {
  std::vector<std::string> lines;
  for (const TableSpec& table : graph.parameters) {
    lines.push_back(table.name + " " + model::to_string(table.shape));
  }
  return lines;
}

const std::vector<std::string> kLeNetTables{
    "conv1/weight 20x1x5x5", "conv1/bias 20", "conv2/weight 50x20x5x5", "conv2/bias 50",
    "ip1/weight 500x800",    "ip1/bias 500",  "ip2/weight 10x500",      "ip2/bias 10"};

}  // namespace

TEST_CASE("the published LeNet builds unchanged in both phases", "[published]") {
  const std::string path = "tests/unit/model/caffe/lenet_train_test.prototxt";
  const model::Graph train = read_graph(path, pb::TRAIN);
  CHECK(train.name == "LeNet");
  CHECK(shape_of(train, "data") == "64x1x28x28");
  CHECK(shape_of(train, "conv1") == "64x20x24x24");
  CHECK(shape_of(train, "pool1") == "64x20x12x12");
  CHECK(shape_of(train, "conv2") == "64x50x8x8");
  CHECK(shape_of(train, "pool2") == "64x50x4x4");
  CHECK(shape_of(train, "ip1") == "64x500");
  CHECK(shape_of(train, "ip2") == "64x10");
  CHECK(tables_of(train) == kLeNetTables);
  CHECK(train.parameters[1].lr_mult == 2);
  CHECK(model::label_limits(train, 1).classes == 10);
  std::uint64_t elements = 0;
  for (const TableSpec& table : train.parameters) elements += table.count();
  CHECK(elements == 431080);

  const model::Graph test = read_graph(path, pb::TEST);
  CHECK(shape_of(test, "data") == "100x1x28x28");
  CHECK(shape_of(test, "accuracy") == "scalar");
  CHECK(tables_of(test) == kLeNetTables);
  REQUIRE(test.outputs.size() == 2);
  CHECK(test.blobs[test.outputs[0]].name == "accuracy");
  CHECK(test.blobs[test.outputs[1]].name == "loss");
}

TEST_CASE("the published LeNet solver passes unchanged", "[published]") {
  pb::SolverParameter solver;
  REQUIRE(read_text(kRoot / "tests/unit/model/caffe/lenet_solver.prototxt", solver).has_value());
  const auto warnings = model::check_solver(solver);
  REQUIRE(warnings.has_value());
  CHECK(warnings.value() ==
        std::vector<std::string>{"solver_mode GPU: superseded by the worker's device setting"});
}

TEST_CASE("this project's LeNet solver is a job that passes", "[published]") {
  const auto job = model::load_job(kRoot / "configs/models/lenet_solver.prototxt");
  INFO((job ? std::string() : job.error().message));
  REQUIRE(job.has_value());
  const auto checked = model::check_job(job.value(), {{}, {}, kDigit});
  INFO((checked ? std::string() : checked.error().message));
  REQUIRE(checked.has_value());
  CHECK(tables_of(read_graph("configs/models/lenet.prototxt", pb::TRAIN)) == kLeNetTables);
}

#include "worker/model/weights.hpp"

#include "common/files/safetensors.hpp"
#include "tests/support/temp_folder.hpp"
#include "tests/unit/model/net_text.hpp"
#include "worker/model/job/job.hpp"

using namespace taut;
using namespace taut::model;
using Catch::Matchers::Contains;
using taut::test::graph_of;
using taut::test::kData;
using taut::test::TempFolder;

namespace {

using Specs = std::vector<safetensors::TensorSpec>;

const std::string kConv =
    "layer { name: 'a/conv' type: 'Convolution' bottom: 'data' top: 'conv' convolution_param { "
    "num_output: 2 kernel_size: 3 } }\n";
const std::string kNorm = "layer { name: 'norm' type: 'BatchNorm' bottom: 'conv' top: 'norm' }\n";
const std::string kShared =
    "layer { name: 'x' type: 'InnerProduct' bottom: 'data' top: 'x' param { name: 'w' } "
    "inner_product_param { num_output: 3 bias_term: false } }\n"
    "layer { name: 'y' type: 'InnerProduct' bottom: 'data' top: 'y' param { name: 'w' } "
    "inner_product_param { num_output: 3 bias_term: false } }\n";

/// Files of zeros with these tensors each.
class Files {
 public:
  explicit Files(const std::vector<Specs>& files) {
    for (const Specs& specs : files) {
      const auto path = folder_.path() / std::to_string(opened.size());
      auto writer = safetensors::Writer::create(path, specs, {});
      REQUIRE(writer);
      const std::uint64_t bytes =
          writer.value().tensors().empty() ? 0 : writer.value().tensors().back().end;
      REQUIRE(writer.value().append(std::vector<std::byte>(bytes)));
      REQUIRE(writer.value().finish());
      opened.push_back(open_weights(path).value());
    }
  }
  std::vector<WeightsFile> opened;

 private:
  TempFolder folder_;
};

/// "TABLE<-FILE:TENSOR" for each table that was found.
std::vector<std::string> found(const Graph& graph, const std::vector<Specs>& specs) {
  const Files files(specs);
  const auto match = match_weights(graph, files.opened);
  INFO((match ? std::string() : match.error().message));
  REQUIRE(match.has_value());
  std::vector<std::string> lines;
  for (const auto& one : match.value().found) {
    lines.push_back(graph.parameters[one.table].name + "<-" + std::to_string(one.file) + ":" +
                    files.opened[one.file].tensors[one.tensor].name);
  }
  return lines;
}

std::string error_of(const Graph& graph, const Specs& specs) {
  const Files files({specs});
  const auto match = match_weights(graph, files.opened);
  REQUIRE_FALSE(match.has_value());
  return match.error().message;
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("tensors go to the tables that their names mean, however they are spelled", "[weights]") {
  const Graph graph = graph_of(kData + kConv + kNorm);
  CHECK(found(graph, {{{"a/conv/weight", {2, 3, 3, 3}}, {"a/conv/bias", {2}}}}) ==
        Lines{"a/conv/weight<-0:a/conv/weight", "a/conv/bias<-0:a/conv/bias"});
  CHECK(found(graph, {{{"a.conv.weight", {2, 3, 3, 3}}}}) ==
        Lines{"a/conv/weight<-0:a.conv.weight"});
  CHECK(found(graph, {{{"a/conv/0", {2, 3, 3, 3}}, {"a/conv.1", {1, 1, 1, 2}}}}) ==
        Lines{"a/conv/weight<-0:a/conv/0", "a/conv/bias<-0:a/conv.1"});
  CHECK(found(graph, {{{"norm/0", {2}}, {"norm/1", {2}}, {"norm/2", {1}}}}) ==
        Lines{"norm/mean<-0:norm/0", "norm/variance<-0:norm/1", "norm/weight_sum<-0:norm/2"});
}

TEST_CASE("a shared table matches its own name and each layer that uses it", "[weights]") {
  const Graph graph = graph_of(kData + kShared);
  CHECK(found(graph, {{{"w", {3, 144}}}}) == Lines{"w<-0:w"});
  CHECK(found(graph, {{{"y/0", {3, 144}}}}) == Lines{"w<-0:y/0"});
  CHECK(found(graph, {{{"x/0", {3, 144}}, {"y/0", {3, 144}}}}) == Lines{"w<-0:x/0"});
}

TEST_CASE("the last of several files gives a table", "[weights]") {
  const Graph graph = graph_of(kData + kConv);
  CHECK(found(graph,
              {{{"a/conv/weight", {2, 3, 3, 3}}, {"a/conv/bias", {2}}}, {{"a/conv/bias", {2}}}}) ==
        Lines{"a/conv/weight<-0:a/conv/weight", "a/conv/bias<-1:a/conv/bias"});
}

TEST_CASE("matches and the rest on both sides are reported", "[weights]") {
  const Graph graph = graph_of(kData + kConv + kNorm);
  const Files files({{{"a/conv/weight", {2, 3, 3, 3}}, {"fc8/0", {5}}}});
  CHECK(match_weights(graph, files.opened).value().summary() ==
        "1 of 5 parameters found; 4 start from their fillers: a/conv/bias, norm/mean, "
        "norm/variance, norm/weight_sum; 1 in the file not used: fc8/0");
}

TEST_CASE("weights that cannot be meant are refused with layer and shapes", "[weights]") {
  const Graph graph = graph_of(kData + kConv);
  CHECK_THAT(error_of(graph, {{"a/conv/weight", {2, 3, 5, 5}}}),
             Contains("a/conv/weight has shape 2x3x5x5, but layer \"a/conv\" requires 2x3x3x3"));
  // As many elements are not enough.
  CHECK_THAT(error_of(graph, {{"a/conv/weight", {2, 27}}}), Contains("has shape 2x27"));
  CHECK_THAT(error_of(graph, {{"a/conv/bias", {2}, ElementType::kI32}}), Contains("holds I32"));
  CHECK_THAT(error_of(graph, {{"a/conv/bias", {2}}, {"a.conv.bias", {2}}}),
             Contains("both match the name \"a/conv/bias\""));
  CHECK_THAT(error_of(graph, {{"fc8/weight", {2}}, {"fc8/bias", {2}}}),
             Contains("has nothing with the names of the net's layers; it has fc8/weight, "
                      "fc8/bias, the net has a/conv/weight, a/conv/bias"));
  CHECK_THAT(error_of(graph, {}), Contains("it has nothing"));
}

TEST_CASE("tables start from the place of their tensor and the digest of its file", "[weights]") {
  const TempFolder folder;
  const auto path = folder.path() / "w.safetensors";
  auto writer = safetensors::Writer::create(path, {{"a/conv/bias", {2}}}, {});
  REQUIRE(writer);
  REQUIRE(writer.value().append(std::vector<float>{3, 4}));
  REQUIRE(writer.value().finish());
  Graph graph = graph_of(kData + kConv);
  pb::Job job;
  CHECK(initialize_from_weights(job, graph).value().empty());
  job.add_weights(path.string());
  REQUIRE(initialize_from_weights(job, graph).has_value());
  CHECK_FALSE(graph.parameters[0].origin.has_value());
  REQUIRE(graph.parameters[1].origin.has_value());
  const TensorPlace& origin = *graph.parameters[1].origin;
  CHECK(origin.file == path.string());
  const auto file = TensorFile::open(path).value();
  CHECK(origin.sha256 == file.sha256().value());
  std::vector<float> values(2);
  REQUIRE(file.read_floats(origin.type, origin.offset, values));
  CHECK(values == std::vector<float>{3, 4});

  job.set_weights(0, (folder.path() / "none").string());
  CHECK_THAT(initialize_from_weights(job, graph).error().message, Contains("weights: "));
}

TEST_CASE("a job's weights are separate absolute paths, and precede its solver's", "[weights]") {
  const TempFolder folder;
  folder.write("a.safetensors", "");
  folder.write("models/b.caffemodel", "");
  const std::string net =
      "layer { name: 'in' type: 'DummyData' top: 'data' dummy_data_param { shape { dim: 1 } } }";
  const std::string solver = "net_param { " + net +
                             " } solver_param { max_iter: 1 weights: "
                             "'a.safetensors,models/b.caffemodel' }";
  const auto of_solver = load_job(folder.write("job.textproto", solver));
  INFO((of_solver ? std::string() : of_solver.error().message));
  REQUIRE(of_solver.has_value());
  REQUIRE(of_solver.value().weights_size() == 2);
  CHECK(of_solver.value().weights(0) == (folder.path() / "a.safetensors").string());
  CHECK(of_solver.value().weights(1) == (folder.path() / "models/b.caffemodel").string());
  CHECK(of_solver.value().solver_param().weights().empty());

  const auto of_job = load_job(folder.write("own.textproto", solver + " weights: 'a.safetensors'"));
  REQUIRE(of_job.has_value());
  CHECK(of_job.value().weights_size() == 1);
  const auto lost = load_job(folder.write("lost.textproto", solver + " weights: 'c.safetensors'"));
  REQUIRE_FALSE(lost.has_value());
  CHECK_THAT(lost.error().message, Contains("weights c.safetensors: not found"));
  CHECK(load_job(folder.write("far.textproto", solver + " weights: '/far/c.safetensors'"))
            .value()
            .weights(0) == "/far/c.safetensors");
}

#include "worker/model/pytorch/state_dict.hpp"

#include <cmath>
#include <cstring>
#include <map>
#include <numeric>

#include "common/files/file.hpp"
#include "common/files/safetensors.hpp"
#include "tests/support/temp_folder.hpp"
#include "tests/unit/model/net_text.hpp"
#include "worker/model/weights.hpp"

using namespace taut;
using namespace taut::model;
using namespace taut::model::pytorch;
using Catch::Matchers::Contains;
using taut::test::graph_of;
using taut::test::TempFolder;

namespace {

const std::string kSequence =
    "layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: 3 dim: 2 dim: 2 } } }\n";

std::string recurrent(const std::string& type, const std::string& more = "") {
  return kSequence + "layer { name: 'l' type: '" + type +
         "' bottom: 'x' top: 'l' recurrent_param { num_output: 1 " + more + " } }\n";
}

std::vector<Counterpart> counterparts(const Graph& graph, const Renames& renames = {}) {
  auto found = counterparts_of(graph, renames);
  INFO((found ? std::string() : found.error().message));
  REQUIRE(found.has_value());
  return std::move(found.value());
}

/// Tables whose elements are 100 times their number, plus their own.
Result<void> read_counted(std::size_t table, std::uint64_t first, std::span<float> out) {
  std::iota(out.begin(), out.end(), static_cast<float>(100 * table + first));
  return ok();
}

/// A net's state_dict of these tables, by name.
std::map<std::string, std::vector<float>> state_dict(const Graph& graph,
                                                     const ReadTable& read = read_counted) {
  std::map<std::string, std::vector<float>> all;
  for (const StateTensor& tensor : state_dict_of(counterparts(graph))) {
    std::vector<float> values(element_count(tensor.shape));
    REQUIRE(tensor.numbers(read, 0, values));
    all[tensor.name] = values;
  }
  return all;
}

/// A file of tensors.
WeightsFile written(const TempFolder& folder, const std::vector<safetensors::TensorSpec>& specs,
                    const std::vector<float>& values) {
  const auto path = folder.path() / "state.safetensors";
  auto writer = safetensors::Writer::create(path, specs, {});
  REQUIRE(writer.has_value());
  REQUIRE(writer.value().append(values));
  REQUIRE(writer.value().finish());
  return std::move(open_weights(path).value());
}

/// The tables that a net reads from a file that its own tables were written to.
std::vector<std::vector<float>> there_and_back(const Graph& graph, const ReadTable& read) {
  const TempFolder folder;
  std::vector<safetensors::TensorSpec> specs;
  std::vector<float> all;
  for (const StateTensor& tensor : state_dict_of(counterparts(graph))) {
    if (tensor.is_count) continue;
    std::vector<float> values(element_count(tensor.shape));
    REQUIRE(tensor.numbers(read, 0, values));
    specs.push_back({tensor.name, {tensor.shape.begin(), tensor.shape.end()}});
    all.insert(all.end(), values.begin(), values.end());
  }
  const WeightsFile file = written(folder, specs, all);
  REQUIRE(is_state_dict(file, counterparts(graph)));
  const auto tables = tables_from(file, graph, counterparts(graph));
  INFO((tables ? std::string() : tables.error().message));
  REQUIRE(tables.has_value());
  std::vector<std::vector<float>> found;
  for (std::size_t i = 0; i < graph.parameters.size(); ++i) {
    found.emplace_back(graph.parameters[i].count());
    REQUIRE(tables.value()(i, 0, found.back()));
  }
  return found;
}

}  // namespace

TEST_CASE("an LSTM's gates change places, and its second bias is 0", "[pytorch]") {
  const auto tensors = state_dict(graph_of(recurrent("LSTM")));
  CHECK(tensors.at("l.weight_ih_l0") == std::vector<float>{0, 1, 2, 3, 6, 7, 4, 5});
  CHECK(tensors.at("l.bias_ih_l0") == std::vector<float>{100, 101, 103, 102});
  CHECK(tensors.at("l.bias_hh_l0") == std::vector<float>{0, 0, 0, 0});
  CHECK(tensors.at("l.weight_hh_l0") == std::vector<float>{200, 201, 203, 202});
}

TEST_CASE("a GRU's gates have PyTorch's order, and stacked layers its names", "[pytorch]") {
  const auto tensors = state_dict(graph_of(recurrent("GRU", "num_layers: 2")));
  CHECK(tensors.at("l.weight_ih_l0") == std::vector<float>{0, 1, 2, 3, 4, 5});
  CHECK(tensors.at("l.bias_hh_l0") == std::vector<float>{300, 301, 302});
  CHECK(tensors.at("l.weight_hh_l1") == std::vector<float>{600, 601, 602});
  CHECK(tensors.size() == 8);
}

TEST_CASE("a BatchNorm and its Scale are one module", "[pytorch]") {
  const auto tensors = state_dict(
      graph_of(test::kData +
               "layer { name: 'a/norm' type: 'BatchNorm' bottom: 'data' top: 'data2' }\n"
               "layer { name: 'scale' type: 'Scale' bottom: 'data2' top: 'y' scale_param { "
               "bias_term: true } }\n"
               "layer { name: 'alone' type: 'Scale' bottom: 'y' top: 'z' }\n"));
  CHECK(tensors.at("a.norm.running_mean") == std::vector<float>{0, 1.0F / 200, 2.0F / 200});
  CHECK(tensors.at("a.norm.running_var")[1] == 101.0F / 200);
  CHECK(tensors.at("a.norm.weight") == std::vector<float>{300, 301, 302});
  CHECK(tensors.at("a.norm.bias") == std::vector<float>{400, 401, 402});
  CHECK(tensors.contains("a.norm.num_batches_tracked"));
  CHECK(tensors.at("alone.weight") == std::vector<float>{500, 501, 502});
}

TEST_CASE("a net's parameters return from a state_dict with the same bits", "[pytorch]") {
  const ReadTable random = [](std::size_t table, std::uint64_t first, std::span<float> out) {
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = std::sin(static_cast<float>(1000 * table + first + i));
    }
    if (table == 1 && first == 0) out[0] = -0.0F;
    return Result<void>(ok());
  };
  const std::string net = GENERATE(
      recurrent("LSTM", "num_layers: 2"), recurrent("GRU"), recurrent("RNN"),
      test::one_layer("Convolution", "convolution_param { num_output: 4 kernel_size: 3 }"),
      test::one_layer("InnerProduct", "inner_product_param { num_output: 5 transpose: true }"),
      kSequence + "layer { name: 'a' type: 'MultiHeadAttention' bottom: 'x' top: 'a' }\n");
  const Graph graph = graph_of(net);
  const auto back = there_and_back(graph, random);
  for (std::size_t i = 0; i < back.size(); ++i) {
    std::vector<float> expected(back[i].size());
    REQUIRE(random(i, 0, expected));
    INFO(net << graph.parameters[i].name);
    CHECK(std::memcmp(back[i].data(), expected.data(), expected.size() * sizeof(float)) == 0);
  }
}

TEST_CASE("statistics that are read get a weight that keeps their bits", "[pytorch]") {
  const Graph graph =
      graph_of(test::kData + "layer { name: 'n' type: 'BatchNorm' bottom: 'data' top: 'y' }\n");
  const ReadTable read = [](std::size_t table, std::uint64_t, std::span<float> out) {
    std::ranges::fill(out, table == 2 ? 3.0F : 0.7F * static_cast<float>(table + 1));
    return Result<void>(ok());
  };
  const auto back = there_and_back(graph, read);
  CHECK(back[2] == std::vector<float>{1024});  // near 1 / (1 - 0.999)
  CHECK(back[0][0] / back[2][0] == 0.7F / 3.0F);
  CHECK(back[1][0] / back[2][0] == 1.4F / 3.0F);
}

TEST_CASE("both biases of a state_dict's LSTM are added", "[pytorch]") {
  const TempFolder folder;
  const Graph graph = graph_of(recurrent("LSTM"));
  const WeightsFile file =
      written(folder,
              {{"l.weight_ih_l0", {4, 2}},
               {"l.weight_hh_l0", {4, 1}},
               {"l.bias_ih_l0", {4}},
               {"l.bias_hh_l0", {4}}},
              {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 10, 20, 30, 40});
  const auto tables = tables_from(file, graph, counterparts(graph));
  REQUIRE(tables.has_value());
  std::vector<float> bias(2);
  REQUIRE(tables.value()(1, 2, bias));
  CHECK(bias == std::vector<float>{44, 33});
  // Shards read the file themselves, and cannot do that.
  std::vector<WeightsFile> files;
  files.push_back(std::move(open_weights(file.file.path()).value()));
  const auto match = match_weights(graph, files);
  REQUIRE_FALSE(match.has_value());
  CHECK_THAT(match.error().message, Contains("tautline export") && Contains("state_dict"));
}

TEST_CASE("a state_dict that is stored as our tables are is matched by its names", "[pytorch]") {
  const TempFolder folder;
  const Graph graph = graph_of(recurrent("GRU"));
  std::vector<WeightsFile> files;
  files.push_back(written(folder,
                          {{"l.weight_ih_l0", {3, 2}},
                           {"l.weight_hh_l0", {3, 1}},
                           {"l.bias_ih_l0", {3}},
                           {"l.bias_hh_l0", {3}}},
                          std::vector<float>(15)));
  const auto match = match_weights(graph, files);
  INFO((match ? std::string() : match.error().message));
  REQUIRE(match.has_value());
  CHECK(match.value().missing.empty());
}

TEST_CASE("tensors of another shape are refused with both shapes", "[pytorch]") {
  const TempFolder folder;
  const Graph graph = graph_of(recurrent("RNN", "output_transform: false"));
  const WeightsFile file = written(
      folder, {{"l.weight_ih_l0", {2, 1}}, {"l.weight_hh_l0", {1, 1}}, {"l.bias_ih_l0", {1}}},
      {1, 2, 3, 4});
  const auto tables = tables_from(file, graph, counterparts(graph));
  REQUIRE_FALSE(tables.has_value());
  CHECK_THAT(tables.error().message,
             Contains("l.weight_ih_l0") && Contains("2x1") && Contains("1x2"));
}

TEST_CASE("modules are renamed by the longest of a file's names", "[pytorch]") {
  const TempFolder folder;
  const auto path = folder.path() / "names.txt";
  const auto names = [&](const std::string& text) {
    REQUIRE(write_file_atomically(path, text));
    return Renames::read(path);
  };
  const Graph graph = graph_of(
      test::kData +
      "layer { name: 'a/conv' type: 'Convolution' bottom: 'data' top: 'y' convolution_param { "
      "num_output: 2 kernel_size: 3 } }\n");
  const auto renamed = names("# ours theirs\n\na/conv features.0\na.conv.bias shift\n");
  REQUIRE(renamed.has_value());
  const auto found = counterparts(graph, renamed.value());
  CHECK(found[0].tensor == "features.0.weight");
  CHECK(found[1].tensor == "shift");

  const auto error_of = [&](const std::string& text) {
    const auto read = names(text);
    if (!read) return read.error().message;
    const auto all = counterparts_of(graph, read.value());
    return all ? std::string() : all.error().message;
  };
  CHECK_THAT(error_of("a/conv\n"), Contains("names.txt:1") && Contains("two names"));
  CHECK_THAT(error_of("a/conv x y\n"), Contains("two names"));
  CHECK_THAT(error_of("a/conv x\na.conv y\n"), Contains("names.txt:2") && Contains("line 1"));
  CHECK_THAT(error_of("a/con x\n"), Contains("names.txt:1") && Contains("\"a.con\""));
  CHECK_THAT(error_of("a.conv.weight x\na.conv.bias x\n"), Contains("both"));
}

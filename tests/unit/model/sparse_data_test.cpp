// What SparseData layers may say, and the jobs over them.
#include <filesystem>
#include <string>

#include "tests/support/catch.hpp"
#include "tests/unit/model/net_text.hpp"
#include "worker/model/job/job.hpp"
#include "worker/model/job/job_data.hpp"
#include "worker/model/row_parameters.hpp"

using namespace taut;
using namespace taut::test;

namespace {

const RecordField kTwelve{.shape = {12}};

Result<model::Graph> settled(const std::string& fields, const std::string& more = "") {
  return model::build_graph(
      net_of("layer { name: 'in' type: 'SparseData' top: 'numbers' top: 'values' top: 'label' " +
             more + " sparse_data_param { " + fields + " } }"),
      {.phase = pb::TRAIN, .record = {kTwelve, kTwelve, {}}, .batch = 0});
}

std::string refusal(const std::string& fields, const std::string& more = "") {
  const auto graph = settled(fields, more);
  if (graph) return "";
  const std::string title = "layer \"in\" (SparseData): ";
  REQUIRE(graph.error().message.starts_with(title));
  return graph.error().message.substr(title.size());
}

}  // namespace

TEST_CASE("SparseData feeds numbers, values and labels", "[shapes]") {
  const auto graph = settled("batch_size: 5 features: 123");
  REQUIRE(graph.has_value());
  CHECK(shape_of(graph.value(), "numbers") == "5x12");
  CHECK(shape_of(graph.value(), "values") == "5x12");
  CHECK(shape_of(graph.value(), "label") == "5");
}

TEST_CASE("what a SparseData layer cannot mean is refused with the way out", "[shapes]") {
  const std::string base = "batch_size: 5 features: 123 ";
  CHECK(refusal("features: 123") == "sparse_data_param.batch_size is missing");
  CHECK(refusal("batch_size: 5") ==
        "sparse_data_param.features is missing: say how many features there are");
  CHECK(refusal("batch_size: 5 features: 0") ==
        "sparse_data_param.features must be from 1 to 4294967296, is 0");
  CHECK(refusal("batch_size: 5 features: 4294967297") ==
        "sparse_data_param.features must be from 1 to 4294967296, is 4294967297");
  CHECK(refusal("batch_size: 5 features: 4294967296").empty());
  CHECK(refusal(base + "max_features: 0") ==
        "sparse_data_param.max_features must be from 1 to 65536, is 0");
  CHECK(refusal(base + "max_features: 65537") ==
        "sparse_data_param.max_features must be from 1 to 65536, is 65537");
  CHECK(refusal(base + "category: 'a'") ==
        "sparse_data_param.category is for format TABLE, and the format is LIBSVM; omit it");
  CHECK(refusal(base + "separator: ';'") ==
        "sparse_data_param.separator is for format TABLE, and the format is LIBSVM; omit it");
  const std::string table = base + "format: TABLE ";
  CHECK(refusal(table + "category: 'a'") ==
        "sparse_data_param.label is missing: name the column of the label");
  CHECK(refusal(table + "label: 'y'") ==
        "sparse_data_param names no column: give category or number");
  CHECK(refusal(table + "label: 'y' number: 'y'") ==
        "sparse_data_param names the column \"y\" twice: it has one use");
  CHECK(refusal(table + "label: 'y' number: 'x' category: 'x'") ==
        "sparse_data_param names the column \"x\" twice: it has one use");
  CHECK(refusal(table + "label: 'y' number: 'x' separator: ', '") ==
        "sparse_data_param.separator must be one character, no quote and no line end, is \", \"");
  CHECK(refusal(table + "label: 'y' number: 'x' separator: '\\t'").empty());
  CHECK(refusal(base, "transform_param { scale: 2 }") ==
        "transform_param is given, but SparseData does not transform its values: put a Power layer "
        "(scale, shift) after it");
  CHECK(settled(base, "top: 'more'").error().message.find("tops") != std::string::npos);
}

TEST_CASE("a SparseData layer's file is the job's, or its own", "[job]") {
  pb::Job job;
  *job.mutable_net_param() = net_of(
      "layer { name: 'in' type: 'SparseData' top: 'numbers' sparse_data_param { source: 'own' } }");
  const auto place_of = [&] { return model::data_of(job, pb::TRAIN); };
  REQUIRE(place_of().has_value());
  CHECK(place_of().value().at(0).place == model::DataPlace{"own", "", ""});
  job.add_data()->set_images("a");
  job.mutable_data(0)->set_labels("b");
  CHECK(place_of().error().message ==
        "layer \"in\" reads a table: name the file with data { folder: ... }");
  job.mutable_data(0)->Clear();
  job.mutable_data(0)->set_folder("jobs");
  CHECK(place_of().value().at(0).place == model::DataPlace{"jobs", "", ""});
  job.clear_data();
  job.mutable_net_param()->mutable_layer(0)->clear_sparse_data_param();
  CHECK(place_of().error().message == "layer \"in\": sparse_data_param.source is missing");
}

TEST_CASE("the jobs over sparse records settle, with their models' parameters", "[configs]") {
  const auto [name, parameters] = GENERATE(table<std::string, std::uint64_t>({
      {"a9a_logistic", 123 + 1},
      {"a9a_fm", 123 + 123 * 8 + 1},
  }));
  INFO(name);
  const auto job = model::load_job(std::filesystem::path(TAUT_SOURCE_FOLDER) /
                                   "configs/jobs/sparse" / (name + ".textproto"));
  INFO((job ? std::string() : job.error().message));
  REQUIRE(job.has_value());
  for (const pb::Phase phase : {pb::TRAIN, pb::TEST}) {
    const RecordField each{.shape = {14}};
    const auto graph = model::build_graph(job.value().net_param(),
                                          {.phase = phase, .record = {each, each, {}}, .batch = 0});
    INFO((graph ? std::string() : graph.error().message));
    REQUIRE(graph.has_value());
    std::uint64_t count = 0;
    for (const TableSpec& spec : model::served_tables(graph.value())) count += spec.count();
    CHECK(count == parameters);
  }
}

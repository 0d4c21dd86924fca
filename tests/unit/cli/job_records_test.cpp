#include "cli/job_records.hpp"

#include <string>

#include "proto/config/text.hpp"
#include "tests/support/catch.hpp"

using namespace taut;

namespace {

/// The shape that is taken for the images of a layer whose data set does not exist.
std::string taken_for(const std::string& data, const std::string& rest = "") {
  pb::Job job;
  const auto parsed = parse_text(
      "net_param { layer { name: 'in' top: 'data' top: 'label' " + data + " } " + rest + " }",
      "job", job);
  INFO((parsed ? std::string() : parsed.error().message));
  REQUIRE(parsed.has_value());
  const cli::JobRecords found = cli::records_of(job);
  CHECK(found.unknown == std::vector<std::string>{"in"});
  const RecordShape& record = found.records.train.at("in");
  std::string text;
  for (const std::int64_t extent : record.at(0).shape) text += " " + std::to_string(extent);
  return text;
}

}  // namespace

TEST_CASE("records that cannot be read are assumed to be what the net makes likely", "[records]") {
  const std::string none = "data_param { source: 'is/not/there' batch_size: 2 } ";
  CHECK(taken_for("type: 'Data' " + none) == " 1 28 28");
  CHECK(taken_for("type: 'Data' transform_param { crop_size: 227 mean_file: 'm' } " + none) ==
        " 3 227 227");
  CHECK(
      taken_for("type: 'Data' data_param { source: 'is/not/there' mean_file: 'm' crop_size: 9 }") ==
      " 3 9 9");
  CHECK(taken_for("type: 'ImageData' image_data_param { source: 'is/not/there' }") == " 3 32 32");
}

TEST_CASE("records that a Slice layer parts have that many channels", "[records]") {
  const std::string none = "type: 'Data' data_param { source: 'is/not/there' batch_size: 2 } ";
  const std::string pair = "layer { name: 's' type: 'Slice' bottom: 'data' top: 'a' top: 'b' ";
  CHECK(taken_for(none, pair + "slice_param { slice_dim: 1 slice_point: 1 } }") == " 2 28 28");
  CHECK(taken_for(none, pair + "slice_param { slice_point: 3 } }") == " 4 28 28");
  CHECK(taken_for(none, pair + "}") == " 2 28 28");
  CHECK(taken_for(none, pair + "slice_param { axis: 2 } }") == " 1 28 28");
}

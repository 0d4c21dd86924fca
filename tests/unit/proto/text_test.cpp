#include "proto/config/text.hpp"

#include <random>
#include <string>

#include "common/did_you_mean.hpp"
#include "proto/cluster.pb.h"
#include "proto/job.pb.h"
#include "tests/support/catch.hpp"
#include "tests/support/temp_folder.hpp"

using taut::parse_text;
namespace pb = taut::pb;

namespace {

std::string error_of(const std::string& text) {
  pb::Job job;
  const auto parsed = parse_text(text, "job.textproto", job);
  REQUIRE_FALSE(parsed.has_value());
  CHECK(parsed.error().code == taut::ErrorCode::kInvalid);
  CHECK(job.ByteSizeLong() == 0);
  return parsed.error().message;
}

}  // namespace

TEST_CASE("a text protobuf is read, and written again", "[text]") {
  pb::Job job;
  REQUIRE(parse_text("name: \"a\" # comment\nconsistency { mode: BSP }\nseed: 7", "t", job));
  CHECK(job.name() == "a");
  CHECK(job.consistency().mode() == pb::Consistency::BSP);
  pb::Job again;
  REQUIRE(parse_text(taut::to_text(job), "t", again));
  CHECK(again.SerializeAsString() == job.SerializeAsString());
}

TEST_CASE("an unknown field is reported with its line and column and a similar name", "[text]") {
  CHECK(error_of("name: \"x\"\nsede: 3\n") ==
        "job.textproto:2:1: no field \"sede\" in Job; did you mean \"seed\"?");
  CHECK(error_of("name: \"x\"\nconsistency {\n    slakc: 3\n}\n") ==
        "job.textproto:3:5: no field \"slakc\" in Consistency; did you mean \"slack\"?");
  CHECK(error_of("stalness\n  # and a comment\n  : 1") ==
        "job.textproto:1:1: no field \"stalness\" in Job");
  CHECK(error_of("data {\tfoldr: \"f\" }") ==
        "job.textproto:1:8: no field \"foldr\" in DataSource; did you mean \"folder\"?");
}

TEST_CASE("an unsupported field of Caffe's is reported with its layer type", "[text]") {
  CHECK(error_of("net_param {\n layer {\n  name: 'c' spp_param { pyramid_height: 2 } } }") ==
        "job.textproto:3:13: no field \"spp_param\" in LayerParameter: the layer is of type "
        "\"SPP\", which Caffe has and Tautline does not carry out");
  CHECK(
      error_of("net_param { layers { window_data_param { source: 'l' } } }") ==
      "job.textproto:1:22: no field \"window_data_param\" in V1LayerParameter: the layer is of "
      "type "
      "\"WindowData\", which is not supported: convert the data to HDF5 for an HDF5Data layer, or "
      "into an "
      "LMDB for a Data layer (tautline convert)");
  CHECK(
      error_of("net_param { layers { layer { name: 'c' } } }") ==
      "job.textproto:1:22: no field \"layer\" in V1LayerParameter: layers { layer { } } is Caffe's "
      "syntax of 2013, which is not supported: update it with Caffe's "
      "upgrade_net_proto_text");
  CHECK(error_of("net_param { layer { relu_parm { } } }") ==
        "job.textproto:1:21: no field \"relu_parm\" in LayerParameter; did you mean "
        "\"relu_param\"?");
}

TEST_CASE("other mistakes are reported with line and column", "[text]") {
  CHECK(error_of("seed: 1\nseed: 2") ==
        "job.textproto:2:1: Non-repeated field \"seed\" is specified multiple times.");
  CHECK(error_of("consistency { mode: SPS }") ==
        "job.textproto:1:21: mode: no value \"SPS\"; did you mean \"SSP\"?; known are SSP, BSP, "
        "ASYNC");
  CHECK(error_of("seed: -1") ==
        "job.textproto:1:7: a number below 0, where the field takes whole numbers from 0 on");
  CHECK(error_of("name: \"x").find("job.textproto:1:") == 0);
  CHECK(error_of("consistency {\n  slack: 1\n").find("job.textproto:3:1: Expected") == 0);
}

TEST_CASE("20,000 nested messages are refused", "[text]") {
  std::string known;
  std::string unknown;
  for (int i = 0; i < 20000; ++i) known += "net_param { layer { include { ";
  for (int i = 0; i < 20000; ++i) unknown += "net_param { ";
  CHECK(error_of(known).find("job.textproto:1:") == 0);
  CHECK(error_of(unknown).find("job.textproto:1:") == 0);
}

TEST_CASE("a text above the limit is refused", "[text]") {
  CHECK(error_of(std::string((16U << 20U) + 1, ' ')) ==
        "job.textproto: 16777217 bytes of text, the limit is 16777216");
}

TEST_CASE("any bytes are parsed or refused, and never crash", "[text]") {
  const std::string valid =
      "name: \"a\" net_param { layer { name: \"c\" loss_weight: 1.5 } } data { folder: 'f' }";
  const unsigned seed = 20;
  INFO("seed " << seed);
  std::mt19937 random(seed);
  for (int run = 0; run < 3000; ++run) {
    std::string text = valid;
    for (int change = 0; change < 3; ++change) {
      text[random() % text.size()] = static_cast<char>(random());
    }
    text.resize(random() % (text.size() + 1));
    pb::Job job;
    const auto parsed = parse_text(text, "t", job);
    if (!parsed) CHECK(parsed.error().message.find("t:") == 0);
  }
}

TEST_CASE("a missing file is reported", "[text]") {
  const taut::test::TempFolder folder;
  pb::Job job;
  const auto missing = taut::read_text(folder.path() / "no.textproto", job);
  REQUIRE_FALSE(missing.has_value());
  CHECK(missing.error().code == taut::ErrorCode::kNotFound);
  const auto file = folder.write("job.textproto", "\n\n oops: 1");
  const auto wrong = taut::read_text(file, job);
  REQUIRE_FALSE(wrong.has_value());
  CHECK(wrong.error().message == file.string() + ":3:2: no field \"oops\" in Job");
}

TEST_CASE("a near name is offered, a far one is not", "[text]") {
  const std::vector<std::string> names{"conv1", "pool1", "ip1"};
  CHECK(taut::edit_distance("", "abc") == 3);
  CHECK(taut::edit_distance("kitten", "sitting") == 3);
  CHECK(taut::edit_distance("slakc", "slack") == 1);
  CHECK(taut::did_you_mean("conv1x", names) == "; did you mean \"conv1\"?");
  CHECK(taut::did_you_mean("norm", names).empty());
  CHECK(taut::did_you_mean(std::string(1000, 'x'), names).empty());
}

TEST_CASE("a longer name is near if it starts with the same letter", "[text]") {
  const std::vector<std::string> names{"folder", "copies", "rotate", "loss"};
  CHECK(taut::did_you_mean("copys", names) == "; did you mean \"copies\"?");
  CHECK(taut::did_you_mean("copy", names).empty());
  CHECK(taut::did_you_mean("order", names).empty());
  CHECK(taut::did_you_mean("state", names).empty());
  CHECK(taut::did_you_mean("lists", names).empty());
  pb::ReplicationConfig replication;
  CHECK(parse_text("copys: 2", "c", replication).error().message ==
        "c:1:1: no field \"copys\" in ReplicationConfig; did you mean \"copies\"?");
}

TEST_CASE("an abbreviation is near what it abbreviates, and case does not count", "[text]") {
  const std::vector<std::string> fields{"conv", "pooling_param", "convolution_param", "param"};
  CHECK(taut::did_you_mean("conv_param", fields) == "; did you mean \"convolution_param\"?");
  const std::vector<std::string> types{"ReLU", "ELU", "Power"};
  CHECK(taut::did_you_mean("Relu", types) == "; did you mean \"ReLU\"?");
  CHECK(taut::did_you_mean("RELU", types) == "; did you mean \"ReLU\"?");
}

TEST_CASE("an unknown word of a field names the words that the field knows", "[text]") {
  taut::pb::Job job;
  const std::string text =
      "name: 'a { \\' b' # { \nnet_param { layer { name: 'p' pooling_param { pool: MEAN } } }";
  const auto wrong = taut::parse_text(text, "job", job);
  REQUIRE_FALSE(wrong.has_value());
  CHECK(wrong.error().message ==
        "job:2:53: pool: no value \"MEAN\"; known are MAX, AVE, STOCHASTIC");
}

TEST_CASE("a binary file is reported as such", "[text]") {
  taut::pb::Job job;
  const auto bytes = taut::parse_text("\x81\xfe name: 1", "job", job);
  REQUIRE_FALSE(bytes.has_value());
  CHECK(bytes.error().message == "job:1:1: not a text file: it contains the byte 129.");
  const auto control = taut::parse_text("name: \x01", "job", job);
  REQUIRE_FALSE(control.has_value());
  CHECK_THAT(control.error().message, Catch::Matchers::Contains("not a text file"));
}

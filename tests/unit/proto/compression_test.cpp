#include <string>

#include "proto/config/settle_compression.hpp"
#include "proto/config/text.hpp"
#include "tests/support/catch.hpp"

using namespace taut;

namespace {

pb::Job job_of(const std::string& text) {
  pb::Job job;
  REQUIRE(parse_text(text, "job", job));
  return job;
}

std::string error_of(const std::string& text) {
  const auto compression = to_compression(job_of(text));
  REQUIRE_FALSE(compression.has_value());
  return compression.error().message;
}

math::Codec codec_for(const Compression& compression, std::int64_t count,
                      TableKind kind = TableKind::kTrained) {
  TableSpec table;
  table.shape = {count};
  table.kind = kind;
  return compression.of_push(table).codec;
}

}  // namespace

TEST_CASE("a job without a compression encodes nothing", "[compression]") {
  const auto none = to_compression(job_of("workers: 2"));
  REQUIRE(none.has_value());
  CHECK(none.value().is_off());
  CHECK(codec_for(none.value(), 1 << 20) == math::Codec::kFloat32);
}

TEST_CASE("a table's updates have the scheme of its size", "[compression]") {
  const auto chosen = to_compression(
      job_of("compression { push { scheme: BF16 min_values: 100 } "
             "push { scheme: INT8 min_values: 1000 } push { scheme: FLOAT32 min_values: 5000 } }"));
  REQUIRE(chosen.has_value());
  CHECK(codec_for(chosen.value(), 99) == math::Codec::kFloat32);
  CHECK(codec_for(chosen.value(), 100) == math::Codec::kBfloat16);
  CHECK(codec_for(chosen.value(), 999) == math::Codec::kBfloat16);
  CHECK(codec_for(chosen.value(), 1000) == math::Codec::kInt8);
  CHECK(codec_for(chosen.value(), 5000) == math::Codec::kFloat32);
  CHECK(codec_for(chosen.value(), 1000, TableKind::kAveraged) == math::Codec::kFloat32);
  CHECK(codec_for(chosen.value(), 1000, TableKind::kFrozen) == math::Codec::kFloat32);
}

TEST_CASE("without min_values, tables from 4096 values on are encoded", "[compression]") {
  const auto chosen = to_compression(job_of("compression { push { scheme: FP16 } }"));
  REQUIRE(chosen.has_value());
  CHECK(codec_for(chosen.value(), 4095) == math::Codec::kFloat32);
  CHECK(codec_for(chosen.value(), 4096) == math::Codec::kFloat16);
}

TEST_CASE("a compression that cannot work is refused with its field", "[compression]") {
  CHECK(error_of("compression { push { scheme: FP16 min_values: 0 } }") ==
        "compression.push[0].min_values: must be at least 1, is 0");
  CHECK(error_of("compression { push { scheme: FP16 min_values: 9 } "
                 "push { scheme: INT8 min_values: 9 } }") ==
        "compression.push[1].min_values: must be greater than 9, that of the push before it, is 9");
  for (const std::string list : {"push", "pull"}) {
    CHECK(error_of("consistency { elastic_averaging {} } compression { " + list +
                   " { scheme: INT8 } }") ==
          "compression." + list +
              "[0].scheme: INT8 does not go with consistency { elastic_averaging }, in which "
              "workers and servers move by one and the same difference; omit one");
  }
}

TEST_CASE("values have the scheme of their table's size where members read them",
          "[compression][pull]") {
  const auto chosen = to_compression(
      job_of("compression { pull { scheme: FP16 min_values: 100 } pull { scheme: BF16 } "
             "pull { scheme: INT8 min_values: 5000 } pull { min_values: 9000 } }"));
  REQUIRE(chosen.has_value());
  CHECK_FALSE(chosen.value().is_off());
  const auto codec_of = [&](std::int64_t count, TableKind kind = TableKind::kTrained) {
    TableSpec table;
    table.shape = {count};
    table.kind = kind;
    CHECK(chosen.value().of_push(table) == math::Encoding());
    return chosen.value().of_pull(table).codec;
  };
  CHECK(codec_of(99) == math::Codec::kFloat32);
  CHECK(codec_of(100) == math::Codec::kFloat16);
  CHECK(codec_of(4096) == math::Codec::kBfloat16);
  CHECK(codec_of(5000) == math::Codec::kInt8);
  CHECK(codec_of(9000) == math::Codec::kFloat32);
  CHECK(codec_of(5000, TableKind::kAveraged) == math::Codec::kFloat32);
  CHECK(codec_of(5000, TableKind::kFrozen) == math::Codec::kFloat32);
}

TEST_CASE("a compression of values that cannot work is refused with its field",
          "[compression][pull]") {
  CHECK(error_of("compression { push { scheme: FP16 } pull { scheme: FP16 min_values: 0 } }") ==
        "compression.pull[0].min_values: must be at least 1, is 0");
  CHECK(error_of("compression { pull { scheme: FP16 } pull { scheme: INT8 } }") ==
        "compression.pull[1].min_values: must be greater than 4096, that of the pull before it, is "
        "4096");
  CHECK(error_of("consistency { mode: ASYNC delay_compensation { strength: 1 } } "
                 "compression { pull { scheme: BF16 } }") ==
        "compression.pull[0].scheme: BF16 does not go with consistency { delay_compensation }, "
        "which compares what a worker has read with the servers' values; omit one");
}

TEST_CASE("meetings are compressed by what carries nothing to the next one",
          "[compression][averaging]") {
  const std::string meetings = "consistency { mode: BSP periodic_averaging { interval: 8 } } ";
  for (const std::string scheme : {"FP16", "BF16", "INT8"}) {
    CHECK(to_compression(job_of(meetings + "compression { push { scheme: " + scheme +
                                " } pull { scheme: " + scheme + " } }"))
              .has_value());
  }
  CHECK(error_of(meetings + "compression { push { scheme: TOP_K } }") ==
        "compression.push[0].scheme: TOP_K adds what an update leaves out to the next one, which "
        "does not go with consistency { periodic_averaging }, whose updates begin anew where the "
        "last meeting has ended; omit one, or choose FP16, BF16 or INT8");
}

TEST_CASE("how much a sparse scheme keeps is rounded to one of a whole number", "[compression]") {
  const auto every_of = [](const std::string& push) {
    TableSpec table;
    table.shape = {5000};
    const auto settled = to_compression(job_of("compression { push { " + push + " } }"));
    REQUIRE(settled.has_value());
    return settled.value().of_push(table).every;
  };
  CHECK(every_of("scheme: TOP_K") == 100);
  CHECK(every_of("scheme: RANDOM_K keep: 0.5") == 2);
  CHECK(every_of("scheme: TOP_K keep: 0.3") == 3);
  CHECK(every_of("scheme: TOP_K keep: 0.0001") == 10'000);
  CHECK(every_of("scheme: ONE_BIT") == 0);
  for (const std::string keep : {"0", "0.6", "-1", "nan"}) {
    CHECK_THAT(error_of("compression { push { scheme: TOP_K keep: " + keep + " } }"),
               Catch::Matchers::StartsWith("compression.push[0].keep: must be from 0.0001 to 0.5"));
  }
  CHECK(error_of("compression { push { scheme: INT8 keep: 0.1 } }") ==
        "compression.push[0].keep: is for TOP_K and RANDOM_K, and the scheme is INT8; omit it");
}

TEST_CASE("error feedback is refused with what makes later parts count otherwise",
          "[compression]") {
  const std::vector<std::pair<std::string, std::string>> jobs{
      {"consistency { mode: BSP backup_workers: 1 } workers: 3", "consistency { backup_workers }"},
      {"consistency { mode: ASYNC delay_compensation { strength: 1 } }",
       "consistency { delay_compensation }"},
      {"solver_param { clip_gradients: 10 }", "clip_gradients"},
      {"solver_param { type: \"LARS\" }", "solver type LARS"},
      {"solver_param { type: \"Adam\" }", "solver type Adam"},
      {"solver_param { type: \"AdaGrad\" }", "solver type AdaGrad"},
      {"solver_param { type: \"LAMB\" }", "solver type LAMB"},
      {"solver_param { type: \"Lion\" }", "solver type Lion"}};
  for (const auto& [rest, what] : jobs) {
    for (const std::string scheme : {"ONE_BIT", "TOP_K", "RANDOM_K"}) {
      const std::string error = error_of("compression { push { scheme: " + scheme + " } } " + rest);
      CHECK_THAT(error, Catch::Matchers::Contains("compression.push[0].scheme: " + scheme) &&
                            Catch::Matchers::Contains("does not go with " + what));
    }
    CHECK(to_compression(job_of("compression { push { scheme: INT8 } } " + rest)).has_value());
  }
  for (const std::string rest :
       {"solver_param { momentum: 0.9 weight_decay: 0.1 }", "solver_param { type: \"Nesterov\" }",
        "consistency { mode: ASYNC staleness_learning_rate: true }"}) {
    CHECK(to_compression(job_of("compression { push { scheme: TOP_K } } " + rest)).has_value());
  }
}

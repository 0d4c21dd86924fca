#include <string>
#include <vector>

#include "common/math/update_rules.hpp"
#include "proto/config/exchange/settle_exchange.hpp"
#include "proto/config/job_misfit.hpp"
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
              "[0].scheme: INT8 cannot be combined with consistency { elastic_averaging }, in "
              "which workers and servers move by the same difference; omit one");
  }
}

TEST_CASE("a scheme with error feedback is refused at its place in a job with external members",
          "[compression]") {
  const auto refused = [](const std::string& scheme) {
    const std::string text =
        "external_members: true workers: 2\n"
        "compression { push { scheme: FP16 } push { scheme: " +
        scheme + " min_values: 9000 } }";
    const auto checked = check_places(job_of(text), text, "job");
    if (checked) return std::string();
    // A process without the text, such as the coordinator, gives the same words.
    CHECK(checked.error().message == "job:2:44: " + error_of(text));
    return checked.error().message;
  };
  for (const std::string scheme : {"ONE_BIT", "TOP_K", "RANDOM_K", "DGC", "POWER_SGD"}) {
    CHECK(refused(scheme) ==
          "job:2:44: compression.push[1].scheme: " + scheme +
              " keeps what it leaves out of updates in checkpoints, in which external members have "
              "no part; choose FP16, BF16 or INT8");
  }
  for (const std::string scheme : {"FLOAT32", "BF16", "INT8"}) CHECK(refused(scheme).empty());
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
        "compression.pull[0].scheme: BF16 cannot be combined with consistency { delay_compensation "
        "}, "
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
        "cannot be combined with consistency { periodic_averaging }, whose updates start again "
        "where the "
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
        "compression.push[0].keep: is for TOP_K, RANDOM_K and DGC, and the scheme is INT8; omit "
        "it");
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
      {"solver_param { type: \"Lion\" }", "solver type Lion"},
      {"solver_param { type: \"FTRL\" }", "solver type FTRL"}};
  for (const auto& [rest, what] : jobs) {
    for (const std::string scheme : {"ONE_BIT", "TOP_K", "RANDOM_K", "POWER_SGD"}) {
      const std::string error = error_of("compression { push { scheme: " + scheme + " } } " + rest);
      CHECK_THAT(error, Catch::Matchers::Contains("compression.push[0].scheme: " + scheme) &&
                            Catch::Matchers::Contains("cannot be combined with " + what));
    }
    CHECK(to_compression(job_of("compression { push { scheme: INT8 } } " + rest)).has_value());
  }
  for (const std::string rest :
       {"solver_param { momentum: 0.9 weight_decay: 0.1 }", "solver_param { type: \"Nesterov\" }",
        "consistency { mode: ASYNC staleness_learning_rate: true }"}) {
    CHECK(to_compression(job_of("compression { push { scheme: TOP_K } } " + rest)).has_value());
  }
}

TEST_CASE("DGC sends a quarter of the values at first, and less step by step", "[compression]") {
  const auto settled =
      to_compression(job_of("compression { push { scheme: DGC keep: 0.001 warm_up: 50 } } "
                            "solver_param { momentum: 0.9 }"));
  REQUIRE(settled.has_value());
  TableSpec table;
  table.shape = {5000};
  const auto every_at = [&](std::int64_t clock) {
    const math::Encoding encoding = settled.value().of_push(table, Clock(clock));
    CHECK(encoding.codec == math::Codec::kTopK);
    CHECK(settled.value().may_push(table, Clock(clock), encoding));
    CHECK(settled.value().may_push(table, Clock(clock), math::Encoding()));
    return encoding.every;
  };
  CHECK(every_at(0) == 4);
  CHECK(every_at(9) == 4);
  CHECK(every_at(10) == 16);
  CHECK(every_at(20) == 64);
  CHECK(every_at(30) == 256);
  CHECK(every_at(40) == 1000);
  CHECK(every_at(50) == 1000);
  CHECK_FALSE(settled.value().may_push(table, Clock(9), settled.value().of_push(table)));
  table.shape = {4000};
  CHECK(settled.value().of_push(table, Clock(9)) == math::Encoding());
}

TEST_CASE("with DGC workers clip and apply momentum, and shards do neither", "[compression]") {
  const pb::Job job = job_of(
      "compression { push { scheme: DGC } } "
      "solver_param { base_lr: 0.1 momentum: 0.75 clip_gradients: 3 weight_decay: 0.01 }");
  const auto settled = to_compression(job);
  REQUIRE(settled.has_value());
  REQUIRE(settled.value().correction().has_value());
  CHECK(settled.value().correction()->momentum == 0.75F);
  CHECK(settled.value().correction()->clip_norm == 3);
  const auto rule = to_shard_rule(job);
  REQUIRE(rule.has_value());
  CHECK(math::info_of(rule.value().kind).name == "SGD");
  CHECK(rule.value().momentum == 0);
  CHECK(rule.value().clip_norm < 0);
  CHECK_THAT(rule.value().weight_decay, Catch::Matchers::WithinULP(0.04F, 4));
  CHECK_THAT(rule.value().rate.base, Catch::Matchers::WithinAbs(0.1, 1e-6));
  const auto without = to_compression(job_of("compression { push { scheme: TOP_K } }"));
  CHECK_FALSE(without.value().correction().has_value());
}

TEST_CASE("DGC is refused where its momentum would not be the solver's", "[compression]") {
  const std::string dgc = "compression { push { scheme: DGC } } ";
  CHECK_THAT(error_of(dgc + "solver_param { type: \"Nesterov\" momentum: 0.9 }"),
             Catch::Matchers::Contains("DGC is for solver type SGD") &&
                 Catch::Matchers::Contains("the type is Nesterov; choose TOP_K"));
  CHECK_THAT(error_of(dgc + "solver_param { momentum: 1 }"),
             Catch::Matchers::Contains("momentum from 0 up to but not including 1, it is 1"));
  CHECK_THAT(error_of(dgc + "consistency { look_ahead: true } solver_param { momentum: 0.9 }"),
             Catch::Matchers::Contains("DGC cannot be combined with consistency { look_ahead }"));
  CHECK(error_of("compression { push { scheme: TOP_K warm_up: 5 } }") ==
        "compression.push[0].warm_up: is for DGC, and the scheme is TOP_K; omit it");
  CHECK(error_of("compression { push { scheme: DGC warm_up: 1000000001 } }") ==
        "compression.push[0].warm_up: must be at most 1000000000, is 1000000001");
}

TEST_CASE("POWER_SGD takes a table's outermost extent as rows, where that pays", "[compression]") {
  const auto settled =
      to_compression(job_of("compression { push { scheme: POWER_SGD rank: 3 min_values: 1 } }"));
  REQUIRE(settled.has_value());
  const auto encoding_of = [&](const std::vector<std::int64_t>& shape) {
    TableSpec table;
    table.shape = shape;
    return settled.value().of_push(table);
  };
  CHECK(encoding_of({500, 800}) ==
        math::Encoding{.codec = math::Codec::kLowRank, .rank = 3, .columns = 800});
  CHECK(encoding_of({50, 20, 5, 5}).columns == 500);
  CHECK(encoding_of({500}) == math::Encoding());
  CHECK(encoding_of({}) == math::Encoding());
  CHECK(encoding_of({10, 10}) == math::Encoding());
  CHECK(encoding_of({1, 100'000}) == math::Encoding());
  // A slice of it has ten rows and a half.
  CHECK(encoding_of({4096, 25'088}).columns == 25'088);
  CHECK(encoding_of({4, 1'000'000}) == math::Encoding());
  CHECK(error_of("compression { push { scheme: POWER_SGD rank: 0 } }") ==
        "compression.push[0].rank: must be from 1 to 64, is 0");
  CHECK(error_of("compression { push { scheme: POWER_SGD rank: 65 } }") ==
        "compression.push[0].rank: must be from 1 to 64, is 65");
  CHECK(error_of("compression { push { scheme: TOP_K rank: 2 } }") ==
        "compression.push[0].rank: is for POWER_SGD, and the scheme is TOP_K; omit it");
}

TEST_CASE("AUTO is FLOAT32 until it is chosen, and then what was chosen", "[compression][auto]") {
  const pb::Job job = job_of(
      "compression { push { scheme: AUTO min_values: 100 allow: POWER_SGD allow: TOP_K rank: 3 "
      "keep: 0.1 } pull { scheme: AUTO } }");
  CHECK(chooses_compression(job));
  CHECK(keeps_residuals(job));
  CHECK_FALSE(chooses_compression(job_of("compression { push { scheme: INT8 } }")));
  CHECK_FALSE(keeps_residuals(job_of("compression { push { scheme: AUTO } }")));
  const auto open = to_compression(job);
  REQUIRE(open.has_value());
  CHECK(codec_for(open.value(), 1000) == math::Codec::kFloat32);

  const pb::PushCompression& push = job.compression().push(0);
  using Scheme = pb::PushCompression::Scheme;
  CHECK(candidates(push) ==
        std::vector<Scheme>{pb::PushCompression::FLOAT32, pb::PushCompression::FP16,
                            pb::PushCompression::BF16, pb::PushCompression::INT8,
                            pb::PushCompression::POWER_SGD, pb::PushCompression::TOP_K});
  CHECK(candidates(job.compression().pull(0)).size() == 4);
  for (const Scheme scheme : candidates(push)) {
    pb::Job chosen = job;
    *chosen.mutable_compression()->mutable_push(0) = with_scheme(push, scheme);
    *chosen.mutable_compression()->mutable_pull(0) =
        with_scheme(job.compression().pull(0), pb::PullCompression::FP16);
    INFO(chosen.compression().ShortDebugString());
    CHECK_FALSE(chooses_compression(chosen));
    const auto compression = to_compression(chosen);
    REQUIRE(compression.has_value());
    CHECK(chosen.compression().push(0).min_values() == 100);
    CHECK(chosen.compression().push(0).has_rank() == (scheme == pb::PushCompression::POWER_SGD));
    CHECK(chosen.compression().push(0).has_keep() == (scheme == pb::PushCompression::TOP_K));
    CHECK(candidates(chosen.compression().push(0)) == std::vector<Scheme>{scheme});
  }
}

TEST_CASE("an AUTO that cannot work is refused with its field", "[compression][auto]") {
  const auto error = [](const std::string& push, const std::string& more = "") {
    return error_of(more + " compression { push { " + push + " } }");
  };
  CHECK(error("scheme: AUTO keep: 0.1") ==
        "compression.push[0].keep: is for TOP_K, RANDOM_K and DGC, and the scheme is AUTO; omit "
        "it");
  CHECK(error("scheme: AUTO allow: TOP_K rank: 2") ==
        "compression.push[0].rank: is for POWER_SGD, and the scheme is AUTO; omit it");
  CHECK(error("scheme: AUTO warm_up: 9") ==
        "compression.push[0].warm_up: is for DGC, and the scheme is AUTO; omit it");
  CHECK(error("scheme: INT8 allow: TOP_K") ==
        "compression.push[0].allow: is for AUTO, and the scheme is INT8; omit it");
  CHECK(error("scheme: AUTO allow: FP16") ==
        "compression.push[0].allow: FP16 may be chosen anyway; it is for ONE_BIT, TOP_K, RANDOM_K "
        "and POWER_SGD");
  CHECK(error("scheme: AUTO allow: AUTO") ==
        "compression.push[0].allow: AUTO is not a scheme to choose; it is for ONE_BIT, TOP_K, "
        "RANDOM_K and POWER_SGD");
  CHECK(error("scheme: AUTO allow: DGC") ==
        "compression.push[0].allow: DGC applies the momentum at the workers, which is no choice "
        "between ways to send; name it as the scheme, or allow TOP_K");
  CHECK(error("scheme: AUTO allow: TOP_K allow: TOP_K") ==
        "compression.push[0].allow: TOP_K is given twice");
  CHECK(error("scheme: AUTO allow: TOP_K", "solver_param { type: \"Adam\" }") ==
        "compression.push[0].allow: TOP_K adds what an update leaves out to the next one, which "
        "cannot be combined with solver type Adam, whose step is not linear in the gradient; omit "
        "one, or "
        "choose FP16, BF16 or INT8");
  CHECK(to_compression(
            job_of("solver_param { type: \"Adam\" } compression { push { scheme: AUTO } }"))
            .has_value());
  CHECK(error("scheme: AUTO } push { scheme: INT8 min_values: 9000") ==
        "compression.push[0].scheme: AUTO is chosen for all tables from min_values on, and there "
        "are 2 of push; give one, or name the schemes");
  CHECK(error_of("compression { pull { scheme: FP16 } pull { scheme: AUTO min_values: 9000 } }") ==
        "compression.pull[1].scheme: AUTO is chosen for all tables from min_values on, and there "
        "are 2 of pull; give one, or name the schemes");
  CHECK(error("scheme: AUTO", "external_members: true") ==
        "compression.push[0].scheme: AUTO is chosen from what workers that train a net measure, "
        "which external members do not; name a scheme");
  CHECK(
      error("scheme: AUTO", "consistency { elastic_averaging {} }")
          .find("push[0].scheme: AUTO cannot be combined with consistency { elastic_averaging }") !=
      std::string::npos);
  pb::Job summing = job_of(
      "exchange { type: ALLREDUCE } consistency { mode: BSP } compression { push { scheme: AUTO } "
      "}");
  settle_exchange(summing);
  const auto misfit = misfit_of_exchange(summing);
  REQUIRE(misfit.has_value());
  CHECK(misfit->what.find("ALLREDUCE sums float32 alone; omit compression") != std::string::npos);
}

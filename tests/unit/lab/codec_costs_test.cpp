// What encoding, decoding and applying take in virtual time.
#include "lab/training/costs/codec_costs.hpp"

#include <optional>
#include <string>

#include "tests/support/catch.hpp"
#include "tests/unit/lab/tiny_training.hpp"

namespace taut::lab {
namespace {

constexpr int kClocks = 20;
constexpr int kWorkers = 3;
constexpr int kValues = 6 * 3 + 3;
constexpr double kUpdates = kClocks * kWorkers * kValues;  // values that are pushed
constexpr double kValuesPerMib = 1UL << 18U;

const std::string kCodedJob =
    "solver_param { base_lr: 0.1 max_iter: 20 } "
    "compression { push { scheme: INT8 min_values: 1 } pull { scheme: FP16 min_values: 1 } }";

TrainingOutcome train_with(const std::string& costs, bool learns = true) {
  TrainingOptions options = tiny_training(kCodedJob, "compute { clock_ms: 200 } " + costs);
  options.learns = learns;
  TrainingOutcome outcome = run_to_end(options);
  REQUIRE(outcome.job.state() == pb::DONE);
  return outcome;
}

DataMessage with(DataItem item) {
  item.encoding.codec = math::Codec::kInt8;
  item.count = 1UL << 18U;
  DataMessage message;
  message.body = DataItems{{std::move(item)}};
  return message;
}

CodecCosts of_text(double encode_us) {
  pb::LabCosts costs;
  pb::LabCodec& codec = *costs.add_codec();
  codec.set_name("INT8");
  codec.set_encode_us_per_mib(encode_us);
  return CodecCosts(costs);
}

}  // namespace

TEST_CASE("encoding and decoding take of workers and shards what the cluster file says", "[lab]") {
  const TrainingOutcome free = train_with("");
  const auto more = [&](const std::string& costs, bool learns = true) {
    const TrainingOutcome outcome = train_with("costs { " + costs + " }", learns);
    CHECK(outcome.job.parameters_sha256().empty() == !learns);
    return std::pair(outcome.clients_us - free.clients_us, outcome.shards_us - free.shards_us);
  };
  const double each = 2'000'000 / kValuesPerMib;
  const auto [encoding, none] = more("codec { name: \"INT8\" encode_us_per_mib: 2e6 }");
  CHECK(encoding == Approx(kUpdates * each).epsilon(0.01));
  CHECK(std::abs(none) < 0.01 * kUpdates * each);
  // Zeros are encoded as long.
  CHECK(more("codec { name: \"INT8\" encode_us_per_mib: 2e6 }", false).first ==
        Approx(encoding).epsilon(0.01));
  CHECK(more("codec { name: \"INT8\" decode_us_per_mib: 2e6 }").second ==
        Approx(kUpdates * each).epsilon(0.01));
  CHECK(more("apply_us_per_mib: 1e6").second == Approx(kUpdates * each / 2).epsilon(0.01));
  // Workers read at each clock; a version is encoded once, and most are read.
  CHECK(more("codec { name: \"FP16\" decode_us_per_mib: 2e6 }").first > 0.9 * kUpdates * each);
  const double versions = more("codec { name: \"FP16\" encode_us_per_mib: 2e6 }").second;
  CHECK(versions > 0.3 * kUpdates * each);
  // The initial values are a version, too.
  CHECK(versions <= (kUpdates + kValues) * each * 1.01);
  CHECK(train_with("costs { codec { name: \"INT8\" encode_us_per_mib: 1e7 } }").virtual_s >
        free.virtual_s + 0.8 * 1e-6 * kClocks * kValues * 5 * each);
  // Another codec's times are nothing to it.
  CHECK(more("codec { name: \"BF16\" encode_us_per_mib: 1e7 }").first == 0);
}

TEST_CASE("an update that is sent again and values that others read are encoded once", "[lab]") {
  const CodecCosts costs = of_text(100);
  CHECK(of_text(0).are_free() == false);
  CHECK(CodecCosts(pb::LabCosts()).are_free());
  Encoded encoded;
  DataItem push;
  push.kind = pb::DataItem::PUSH;
  push.clock = Clock(3);
  push.payload = Frame::copy_of("a");
  CHECK(encoded.take(costs, with(push)) == Approx(100));
  CHECK(encoded.take(costs, with(push)) == 0);
  push.clock = Clock(4);
  CHECK(encoded.take(costs, with(push)) == Approx(100));
  push.slice = SliceId(1);
  CHECK(encoded.take(costs, with(push)) == Approx(100));
  DataItem value;
  value.kind = pb::DataItem::VALUE;
  value.payload = Frame::copy_of("a");
  CHECK(encoded.take(costs, with(value)) == Approx(100));
  CHECK(encoded.take(costs, with(value)) == 0);
  value.payload = Frame::copy_of("a");
  CHECK(encoded.take(costs, with(value)) == Approx(100));
  // A read that asks for values encodes none.
  DataItem read;
  read.kind = pb::DataItem::READ;
  CHECK(encoded.take(costs, with(read)) == 0);
}

TEST_CASE("encoding with DGC contains the momentum, which its shards do not apply", "[lab]") {
  TableSpec table;
  table.shape = {256, 1024};
  const auto momentum_of = [&](const std::string& scheme) {
    const TrainingOptions options = tiny_training(
        "solver_param { base_lr: 0.1 momentum: 0.9 max_iter: 20 } "
        "compression { push { scheme: " +
            scheme + " keep: 0.01 } }",
        "compute { clock_ms: 1 }");
    std::optional<float> timed;
    pb::LabCosts costs;
    const auto measured = measure_codecs(options.job, {table}, costs,
                                         [&](const math::Encoding& encoding, auto momentum) {
                                           if (encoding.has_residual()) timed = momentum;
                                           return worker::CodecTime();
                                         });
    if (!measured) FAIL(measured.error().message);
    REQUIRE(costs.codec_size() == 1);
    CHECK(costs.codec(0).name() == "TOP_K");
    return timed;
  };
  CHECK(momentum_of("TOP_K") == std::nullopt);
  CHECK(momentum_of("DGC") == 0.9F);
}

TEST_CASE("a codec that only updates have costs a shard what it adds longer than float32",
          "[lab]") {
  const worker::CodecTime time{.encode_s = 5, .decode_s = 4, .add_s = 3};
  CHECK(reading_s(time, false, 1) == 2);
  CHECK(reading_s(time, false, 3.5) == 0);
  // Workers decode values, whatever shards do with updates.
  CHECK(reading_s(time, true, 1) == 4);
}

TEST_CASE("codecs that a cluster file has no times of are named", "[lab]") {
  const TrainingOptions options = tiny_training(kCodedJob, "compute { clock_ms: 1 }");
  CHECK(codecs_of(options.job) == std::vector<std::string>{"FP16", "INT8"});
  pb::LabCosts costs;
  CHECK(missing_codecs(options.job, costs) == std::vector<std::string>{"FP16", "INT8"});
  costs.add_codec()->set_name("FP16");
  CHECK(missing_codecs(options.job, costs) == std::vector<std::string>{"INT8"});
}

}  // namespace taut::lab

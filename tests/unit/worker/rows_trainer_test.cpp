// Nets whose embeddings are kept by rows at the servers.
#include <string>

#include "proto/config/text.hpp"
#include "tests/unit/cache/late_backend.hpp"
#include "tests/unit/client/served_job.hpp"
#include "tests/unit/worker/small_training.hpp"
#include "worker/replica.hpp"

namespace taut {
namespace {

using test::Tables;

constexpr std::int64_t kClocks = 12;

/// An LSTM over made-up numbers of two embeddings of one blob, which are kept by rows or not.
pb::Job lstm_job(bool by_rows, const std::string& solver = "") {
  const std::string rows = by_rows ? "by_rows: true buckets: 3" : "";
  const auto embed = [&](const std::string& name, int width) {
    return "layer { name: '" + name + "' type: 'Embed' bottom: 'numbers' top: '" + name +
           "' embed_param { input_dim: 40 num_output: " + std::to_string(width) +
           " bias_term: false weight_filler { type: 'gaussian' } " + rows + " } }";
  };
  const std::string text =
      "seed: 5 net_param {"
      "  layer { name: 'made up' type: 'DummyData' top: 'numbers' top: 'label' dummy_data_param {"
      "    shape { dim: 4 dim: 3 } shape { dim: 4 dim: 3 } classes: 40 classes: 6 } }" +
      embed("one", 5) + embed("two", 2) +
      "  layer { name: 'both' type: 'Concat' bottom: 'one' bottom: 'two' top: 'both'"
      "          concat_param { axis: 2 } }"
      "  layer { name: 'lstm' type: 'LSTM' bottom: 'both' top: 'lstm'"
      "          recurrent_param { num_output: 4 weight_filler { type: 'xavier' } } }"
      "  layer { name: 'scores' type: 'InnerProduct' bottom: 'lstm' top: 'scores'"
      "          inner_product_param { num_output: 6 axis: 2 weight_filler { type: 'xavier' } } }"
      "  layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'scores' bottom: 'label' top: 'loss'"
      "          softmax_param { axis: 2 } }"
      "} solver_param { base_lr: 0.5 max_iter: 12 " +
      solver + " }";
  pb::Job job;
  const auto parsed = parse_text(text, "job", job);
  INFO((parsed ? std::string() : parsed.error().message));
  REQUIRE(parsed.has_value());
  return job;
}

Tables served(Backend& backend, const pb::Job& job) {
  auto trained = test::train_served(backend, job, kClocks);
  INFO((trained ? std::string() : trained.error().message));
  REQUIRE(trained.has_value());
  return std::move(trained.value());
}

void check_same(const Tables& a, const Tables& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t table = 0; table < a.size(); ++table) {
    CAPTURE(table);
    CHECK(test::same_bits(a[table], b[table]));
  }
}

std::string refusal(const pb::Job& job, std::uint32_t devices = 1) {
  const auto assets = worker::JobAssets::open(job, 1, devices);
  return assets ? std::string() : assets.error().message;
}

}  // namespace

TEST_CASE("a net by rows trains to the bits of the same net with whole tables", "[rows]") {
  const auto host = test::one_thread();
  const auto whole = test::train(*host, lstm_job(false), kClocks);
  REQUIRE(whole.has_value());
  check_same(served(*host, lstm_job(true)), whole.value());
}

TEST_CASE("a net by rows trains to the same bits on a device with its own memory", "[rows]") {
  const auto host = test::one_thread();
  const Tables expected = served(*host, lstm_job(true));
  for (const std::uint64_t seed : {0, 3}) {
    CAPTURE(seed);
    test::LateBackend late(*host, {.seed = seed});
    check_same(served(late, lstm_job(true)), expected);
  }
}

TEST_CASE("a net by rows trains to the same bits within a budget of device memory", "[rows]") {
  const auto host = test::one_thread();
  const Tables expected = served(*host, lstm_job(true));
  for (const std::uint64_t budget : {1ULL << 30U, 20ULL << 10U}) {
    CAPTURE(budget);
    PlannedBackend planned(*host, {.budget = Bytes(budget), .poison = true});
    check_same(served(planned, lstm_job(true)), expected);
  }
}

TEST_CASE("a worker refuses what cannot be combined with rows at the servers", "[rows]") {
  CHECK(refusal(lstm_job(true)).empty());
  CHECK(refusal(lstm_job(true, "iter_size: 2")) ==
        "the solver's iter_size 2 cannot be combined with embed_param.by_rows of \"one\": the "
        "batches "
        "of a clock name different rows; omit one of them");
  CHECK(refusal(lstm_job(true), 2) ==
        "layer \"one\": this worker has several devices, which divide its batch, and "
        "embed_param.by_rows is for one; give it one device, or start a worker for each");
}

}  // namespace taut

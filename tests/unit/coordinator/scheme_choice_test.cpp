#include "server/coordinator/compression/scheme_choice.hpp"

#include <cmath>
#include <map>
#include <string>

#include "proto/config/text.hpp"
#include "tests/support/catch.hpp"

namespace taut {
namespace {

using Push = pb::PushCompression;
using Pull = pb::PullCompression;

constexpr double kMbit = 1e6 / 8;
constexpr double kValues = 1e6;

pb::Compression compression_of(const std::string& text) {
  pb::Compression compression;
  REQUIRE(parse_text(text, "compression", compression));
  return compression;
}

const std::string kBoth = "push { scheme: AUTO } pull { scheme: AUTO }";

/// For a million values of a scheme.
pb::SchemeCost cost_of(Push::Scheme scheme, double bytes_a_value, double encode_ns,
                       double decode_ns) {
  pb::SchemeCost cost;
  cost.set_scheme(scheme);
  cost.set_bytes(static_cast<std::uint64_t>(kValues * bytes_a_value));
  cost.set_encode_s(1e-9 * kValues * encode_ns);
  cost.set_decode_s(1e-9 * kValues * decode_ns);
  return cost;
}

/// A worker of a net of a million values with 10 ms of compute, whose codecs take as long as they
/// do on a processor, times `slowness`.
pb::CompressionCosts worker_with(double bytes_per_s, double slowness = 1) {
  pb::CompressionCosts worker;
  worker.set_bytes_per_s(bytes_per_s);
  worker.set_compute_s(0.01);
  for (auto* costs : {worker.mutable_push(), worker.mutable_pull()}) {
    *costs->Add() = cost_of(Push::FLOAT32, 4, 0, 0);
    *costs->Add() = cost_of(Push::FP16, 2, 0.2 * slowness, 0.1 * slowness);
    *costs->Add() = cost_of(Push::BF16, 2, 0.15 * slowness, 0.1 * slowness);
    *costs->Add() = cost_of(Push::INT8, 1.016, 0.9 * slowness, 0.1 * slowness);
  }
  return worker;
}

SchemeQuestion ask(const pb::CompressionCosts& worker, std::size_t workers = 2,
                   const std::string& asked = kBoth) {
  SchemeQuestion question;
  question.compression = compression_of(asked);
  question.workers.assign(workers, worker);
  return question;
}

Push::Scheme push_of(const pb::CompressionChoice& choice) {
  REQUIRE(choice.compression().push_size() == 1);
  return choice.compression().push(0).scheme();
}
Pull::Scheme pull_of(const pb::CompressionChoice& choice) {
  REQUIRE(choice.compression().pull_size() == 1);
  return choice.compression().pull(0).scheme();
}

}  // namespace

using Catch::Matchers::Contains;

TEST_CASE("on a fast link nothing is encoded, and it says so", "[compression][auto]") {
  const pb::CompressionChoice choice = choose_schemes(ask(worker_with(100'000 * kMbit)));
  CHECK(push_of(choice) == Push::FLOAT32);
  CHECK(pull_of(choice) == Pull::FLOAT32);
  CHECK_THAT(choice.text(), Contains("push FLOAT32, pull FLOAT32: a clock should take 10.6 ms"));
  CHECK_THAT(choice.text(),
             Contains("no scheme makes it shorter") || Contains("is not 5 % faster"));
  CHECK_THAT(choice.text(), Contains("100.0 Gbit/s on the slowest link"));
}

TEST_CASE("on a slow link a byte a value is chosen, with the times that it is for",
          "[compression][auto]") {
  const pb::CompressionChoice choice = choose_schemes(ask(worker_with(10 * kMbit)));
  CHECK(push_of(choice) == Push::INT8);
  CHECK(pull_of(choice) == Pull::INT8);
  // 8 MB in place of 2.03 MB at 1.25 MB/s.
  CHECK_THAT(choice.text(), Contains("push INT8, pull INT8: a clock should take 1.64 s"));
  CHECK_THAT(choice.text(), Contains("in place of 6.41 s with push FLOAT32, pull FLOAT32"));
  CHECK_THAT(choice.text(), Contains("10 Mbit/s on the slowest link, 10.0 ms to compute"));
  REQUIRE(choice.predicted_size() == 16);
  CHECK(choice.predicted(0).push() == Push::FLOAT32);
  CHECK(choice.predicted(0).link_s() == Approx(6.4));
  CHECK(choice.predicted(0).clock_s() == Approx(6.41));
}

TEST_CASE("where encoding takes longer than what it saves, nothing is encoded",
          "[compression][auto]") {
  const auto link = 1000 * kMbit;
  CHECK(push_of(choose_schemes(ask(worker_with(link)))) == Push::INT8);
  const pb::CompressionChoice choice = choose_schemes(ask(worker_with(link, 100)));
  CHECK(push_of(choice) == Push::FLOAT32);
  CHECK(pull_of(choice) == Pull::FLOAT32);
  CHECK_THAT(choice.text(), Contains("no scheme makes it shorter"));
}

TEST_CASE("of schemes that are as fast the most exact is chosen", "[compression][auto]") {
  pb::CompressionCosts worker = worker_with(10 * kMbit);
  // INT8 takes as many bytes as FP16 does.
  for (auto* costs : {worker.mutable_push(), worker.mutable_pull()}) {
    costs->Mutable(3)->set_bytes(costs->Get(1).bytes());
  }
  const pb::CompressionChoice equal = choose_schemes(ask(worker));
  CHECK(push_of(equal) == Push::FP16);
  CHECK(pull_of(equal) == Pull::FP16);
  // Less than 5 % is no reason to round.
  worker.set_compute_s(100);
  const pb::CompressionChoice slow = choose_schemes(ask(worker));
  CHECK(push_of(slow) == Push::FLOAT32);
  CHECK_THAT(slow.text(), Contains("which is not 5 % faster"));
}

TEST_CASE("servers that decode for many workers have their part in the choice",
          "[compression][auto]") {
  pb::CompressionCosts worker = worker_with(2000 * kMbit);
  for (int i = 1; i < 4; ++i) worker.mutable_push(i)->set_decode_s(0.001);
  SchemeQuestion question = ask(worker, 4, "push { scheme: AUTO }");
  for (auto& one : question.workers) {
    one.mutable_pull()->DeleteSubrange(1, 3);
  }
  CHECK(push_of(choose_schemes(question)) == Push::INT8);
  question.workers.resize(64, question.workers.front());
  CHECK(push_of(choose_schemes(question)) == Push::FLOAT32);
  question.shards = 64;
  CHECK(push_of(choose_schemes(question)) == Push::INT8);
}

TEST_CASE("the slowest worker decides", "[compression][auto]") {
  SchemeQuestion question = ask(worker_with(100'000 * kMbit), 3);
  question.workers[1].set_bytes_per_s(10 * kMbit);
  CHECK(push_of(choose_schemes(question)) == Push::INT8);
}

TEST_CASE("what averages computes several clocks for each push", "[compression][auto]") {
  SchemeQuestion question = ask(worker_with(1000 * kMbit));
  CHECK(push_of(choose_schemes(question)) == Push::INT8);
  question.clocks = 1000;
  CHECK(push_of(choose_schemes(question)) == Push::FLOAT32);
}

TEST_CASE("only what is AUTO is chosen, and only what is allowed", "[compression][auto]") {
  SchemeQuestion question =
      ask(worker_with(10 * kMbit), 2, "push { scheme: BF16 min_values: 7 } pull { scheme: AUTO }");
  for (auto& worker : question.workers) {
    const pb::SchemeCost named = worker.push(2);
    worker.clear_push();
    *worker.add_push() = named;
  }
  const pb::CompressionChoice pulled = choose_schemes(question);
  CHECK(push_of(pulled) == Push::BF16);
  CHECK(pulled.compression().push(0).min_values() == 7);
  CHECK(pull_of(pulled) == Pull::INT8);
  CHECK(pulled.text().starts_with("pull INT8: "));

  question = ask(worker_with(10 * kMbit), 2,
                 "push { scheme: AUTO min_values: 9 allow: POWER_SGD rank: 3 } "
                 "pull { scheme: FP16 }");
  for (auto& worker : question.workers) {
    worker.mutable_pull()->DeleteSubrange(2, 2);
    worker.mutable_pull()->DeleteSubrange(0, 1);
    *worker.add_push() = cost_of(Push::POWER_SGD, 0.1, 5, 2);
  }
  const pb::CompressionChoice allowed = choose_schemes(question);
  CHECK(push_of(allowed) == Push::POWER_SGD);
  CHECK(allowed.compression().push(0).rank() == 3);
  CHECK(allowed.compression().push(0).min_values() == 9);
  CHECK(allowed.compression().push(0).allow_size() == 0);
  CHECK(pull_of(allowed) == Pull::FP16);
}

TEST_CASE("what was measured absurdly is left out", "[compression][auto]") {
  const std::map<std::string, void (*)(pb::CompressionCosts&)> absurd = {
      {"no link", [](auto& worker) { worker.set_bytes_per_s(0); }},
      {"a negative link", [](auto& worker) { worker.set_bytes_per_s(-1e9); }},
      {"an infinite link", [](auto& worker) { worker.set_bytes_per_s(HUGE_VAL); }},
      {"a link of nothing", [](auto& worker) { worker.set_bytes_per_s(1e-9); }},
      {"no number", [](auto& worker) { worker.set_compute_s(NAN); }},
      {"compute in no time", [](auto& worker) { worker.set_compute_s(-1); }},
      {"a year", [](auto& worker) { worker.set_compute_s(3e7); }},
      {"a codec that gains time", [](auto& worker) { worker.mutable_push(3)->set_encode_s(-100); }},
      {"a scheme less", [](auto& worker) { worker.mutable_pull()->RemoveLast(); }},
      {"schemes in another order", [](auto& worker) { worker.mutable_push()->SwapElements(0, 1); }},
      {"too many bytes", [](auto& worker) { worker.mutable_push(0)->set_bytes(~0ULL); }},
      {"nothing", [](auto& worker) { worker.Clear(); }}};
  for (const auto& [name, spoil] : absurd) {
    INFO(name);
    pb::CompressionCosts spoilt = worker_with(10 * kMbit);
    spoil(spoilt);
    const pb::CompressionChoice none = choose_schemes(ask(spoilt));
    CHECK(push_of(none) == Push::FLOAT32);
    CHECK(pull_of(none) == Pull::FLOAT32);
    CHECK(none.text() ==
          "push FLOAT32, pull FLOAT32: no worker could measure its link, codecs and compute");
    SchemeQuestion question = ask(worker_with(10 * kMbit));
    question.workers[0] = spoilt;
    const pb::CompressionChoice rest = choose_schemes(question);
    CHECK(push_of(rest) == Push::INT8);
    CHECK_THAT(rest.text(), Contains("nothing that is usable at 1 workers"));
  }
}

TEST_CASE("a resumed job keeps what was chosen, where it may still choose that",
          "[compression][auto]") {
  const pb::CompressionChoice before = choose_schemes(ask(worker_with(10 * kMbit)));
  const auto kept = keep_schemes(compression_of(kBoth), before);
  REQUIRE(kept.has_value());
  CHECK(push_of(*kept) == Push::INT8);
  CHECK(pull_of(*kept) == Pull::INT8);
  CHECK(kept->text() == "push INT8, pull INT8, as before the checkpoint");
  const auto again = keep_schemes(compression_of(kBoth), *kept);
  REQUIRE(again.has_value());
  CHECK(again->text() == kept->text());
  // What the job names now, it names.
  const auto half =
      keep_schemes(compression_of("push { scheme: FP16 } pull { scheme: AUTO }"), before);
  REQUIRE(half.has_value());
  CHECK(push_of(*half) == Push::FP16);
  CHECK(pull_of(*half) == Pull::INT8);
  pb::CompressionChoice factors = before;
  factors.mutable_compression()->mutable_push(0)->set_scheme(Push::POWER_SGD);
  CHECK_FALSE(keep_schemes(compression_of(kBoth), factors).has_value());
  CHECK(keep_schemes(compression_of("push { scheme: AUTO allow: POWER_SGD } pull { scheme: AUTO }"),
                     factors)
            .has_value());
  CHECK_FALSE(keep_schemes(compression_of(kBoth), pb::CompressionChoice()).has_value());
}

}  // namespace taut

#include "lab/training/fair_links.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <vector>

#include "lab/random.hpp"
#include "tests/support/catch.hpp"

namespace taut::lab {
namespace {

TimePoint after_us(std::int64_t us) {
  return TimePoint(Duration(us));
}

FairLinks::Message message(std::uint32_t flight, std::uint64_t bytes,
                           std::initializer_list<std::size_t> links) {
  FairLinks::Message one{.flight = flight, .bytes = bytes, .way = {}};
  for (const std::size_t link : links) one.way.add(link);
  return one;
}

/// Lets everything pass; when each flight has, in microseconds.
std::map<std::uint32_t, double> pass_all(FairLinks& links) {
  std::map<std::uint32_t, double> passed;
  const auto take = [&] {
    for (const auto& one : links.take_passed()) passed[one.flight] = one.at_us;
  };
  take();
  while (links.next() != TimePoint::never()) {
    links.advance(links.next());
    take();
  }
  return passed;
}

}  // namespace

TEST_CASE("a message alone passes at the speed of its slowest link", "[lab]") {
  FairLinks links({0.001, 0.004});
  links.send(0, message(7, 100'000, {0, 1}), after_us(50));
  CHECK(pass_all(links).at(7) == Approx(450));
}

TEST_CASE("connections share a link equally, and have more of it once others are through",
          "[lab]") {
  FairLinks links({0.001});
  links.send(0, message(0, 100'000, {0}), after_us(0));
  links.send(1, message(1, 300'000, {0}), after_us(0));
  const auto passed = pass_all(links);
  // Both at half speed until 200; the second then has 200,000 bytes left for itself.
  CHECK(passed.at(0) == Approx(200));
  CHECK(passed.at(1) == Approx(400));
}

TEST_CASE("a small message does not wait for a large one of another connection", "[lab]") {
  FairLinks links({0.001});
  links.send(0, message(0, 1'000'000, {0}), after_us(0));
  links.send(1, message(1, 1000, {0}), after_us(500));
  const auto passed = pass_all(links);
  CHECK(passed.at(1) == Approx(502));
  CHECK(passed.at(0) == Approx(1001));
}

TEST_CASE("a connection carries one message after the other", "[lab]") {
  FairLinks links({0.001});
  links.send(0, message(0, 100'000, {0}), after_us(0));
  links.send(0, message(1, 100'000, {0}), after_us(0));
  links.send(1, message(2, 200'000, {0}), after_us(0));
  const auto passed = pass_all(links);
  CHECK(passed.at(0) == Approx(200));
  CHECK(passed.at(1) == Approx(400));
  CHECK(passed.at(2) == Approx(400));
}

TEST_CASE(
    "messages of many connections pass in the order of their sizes, and none before all its "
    "bytes could",
    "[lab]") {
  const std::uint64_t seed = GENERATE(1U, 2U, 3U, 4U);
  INFO("seed " << seed);
  sim::Random random(seed);
  constexpr double kUsPerByte = 0.01;
  FairLinks links({kUsPerByte, kUsPerByte, kUsPerByte});
  std::vector<std::uint64_t> sizes;
  double all = 0;
  for (std::uint32_t i = 0; i < 200; ++i) {
    sizes.push_back(static_cast<std::uint64_t>(random.between(1, 100'000)));
    all += static_cast<double>(sizes.back());
    links.send(i, message(i, sizes.back(), {i % 2, 2}), after_us(0));
  }
  const auto passed = pass_all(links);
  REQUIRE(passed.size() == sizes.size());
  double last = 0;
  for (std::uint32_t i = 0; i < sizes.size(); ++i) {
    CHECK(passed.at(i) >= Approx(static_cast<double>(sizes[i]) * kUsPerByte));
    last = std::max(last, passed.at(i));
    for (std::uint32_t j = 0; j < i; ++j) {
      if (sizes[i] < sizes[j]) CHECK(passed.at(i) <= passed.at(j) + 1e-3);
    }
  }
  // The link that all pass is never idle.
  CHECK(last == Approx(all * kUsPerByte));
}

TEST_CASE("messages that set out at any time pass a link as fast as it can", "[lab]") {
  const std::uint64_t seed = GENERATE(1U, 2U, 3U, 4U);
  INFO("seed " << seed);
  const auto run = [seed] {
    sim::Random random(seed);
    FairLinks links({0.01, 0.02});
    std::map<std::uint32_t, double> passed;
    std::array<double, 2> carried{};
    std::array<double, 2> until{};
    links.on_pass([&](const FairLinks::Passage& passage) {
      CHECK(passage.end_us >= passage.begin_us);
      until[passage.link] = std::max(until[passage.link], passage.end_us);
    });
    std::int64_t now = 0;
    std::array<double, 2> free_at{};
    for (std::uint32_t i = 0; i < 500; ++i) {
      now += random.between(0, 800);
      while (links.next() <= after_us(now)) links.advance(links.next());
      const auto bytes = static_cast<std::uint64_t>(random.between(1, 50'000));
      const std::size_t link = random.chance(0.5) ? 1 : 0;
      links.send(i % 20, message(i, bytes, {link}), after_us(now));
      // When a link is through that is never idle while something is to pass it.
      const double takes = static_cast<double>(bytes) * (link == 0 ? 0.01 : 0.02);
      free_at[link] = std::max(free_at[link], static_cast<double>(now)) + takes;
      carried[link] += takes;
      for (const auto& one : links.take_passed()) passed[one.flight] = one.at_us;
    }
    passed.merge(pass_all(links));
    REQUIRE(passed.size() == 500);
    // A connection that continues on the other link may leave one idle, and the next message of a
    // connection sets out at a whole microsecond.
    for (const std::size_t link : {0U, 1U}) {
      CHECK(until[link] >= carried[link]);
      CHECK(until[link] >= free_at[link] - 1);
    }
    return passed;
  };
  CHECK(run() == run());
}

}  // namespace taut::lab

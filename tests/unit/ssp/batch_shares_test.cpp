#include "common/ssp/batch_shares.hpp"

#include <numeric>
#include <vector>

#include "tests/support/catch.hpp"

namespace taut {
namespace {

using Shares = std::vector<std::uint32_t>;

constexpr double kTenth = 0.1;

}  // namespace

TEST_CASE("shares follow each other in a batch and change at their clocks", "[batch_shares]") {
  BatchShares shares(8, 3);
  CHECK(shares.part(Clock(0), 2) == BatchShares::Part{8, 16, 24});
  CHECK(shares.weight(Clock(0), 2) == 1.0F);
  REQUIRE(shares.why_not(Clock(5), Shares{4, 16, 4}).empty());
  shares.change(Clock(5), {4, 16, 4});
  shares.change(Clock(9), {1, 22, 1});
  CHECK(shares.part(Clock(4), 1) == BatchShares::Part{8, 8, 24});
  CHECK(shares.part(Clock(5), 1) == BatchShares::Part{16, 4, 24});
  CHECK(shares.part(Clock(8), 2) == BatchShares::Part{4, 20, 24});
  CHECK(shares.part(Clock(1000), 2) == BatchShares::Part{1, 23, 24});
  CHECK(shares.weight(Clock(5), 1) == 2.0F);
  CHECK(shares.weight(Clock(9), 0) == 0.125F);
}

TEST_CASE("shares that make no batch are refused with the reason", "[batch_shares]") {
  BatchShares shares(8, 2);
  CHECK(shares.why_not(Clock(3), Shares{8, 9}) ==
        "the shares have 17 records in total, a batch has 16");
  CHECK(shares.why_not(Clock(3), Shares{16, 0}) == "a share of no records");
  CHECK(shares.why_not(Clock(3), Shares{16}) == "1 shares of 2 slots");
  CHECK(shares.why_not(Clock(0), Shares{4, 12}) ==
        "shares from clock 0 on come after those from clock -1 on");
  shares.change(Clock(3), {4, 12});
  CHECK(shares.why_not(Clock(3), Shares{8, 8}) ==
        "shares from clock 3 on come after those from clock 3 on");
  CHECK(BatchShares().why_not(Clock(3), Shares{8}) == "there is no batch");
}

TEST_CASE("shares are in proportion to speed, and small gains change nothing", "[batch_shares]") {
  const std::vector<MeasuredShare> measured{{0, 0.001, 0}, {1, 0.003, 0}};
  CHECK(balanced_shares(measured, Shares{64, 64}, 64, kTenth) == Shares{96, 32});
  // The slowest would become faster by a hundredth.
  CHECK_FALSE(balanced_shares(measured, Shares{95, 33}, 64, kTenth).has_value());
  CHECK(balanced_shares(measured, Shares{95, 33}, 64, 0) == Shares{96, 32});
}

TEST_CASE("a slot that is not measured keeps an equal share", "[batch_shares]") {
  const std::vector<MeasuredShare> measured{{0, 0.001, 0}, {2, 0.001, 0}};
  CHECK(balanced_shares(measured, Shares{4, 20, 6}, 10, 0) == Shares{10, 10, 10});
}

TEST_CASE("shares of any speeds are a batch of which each has a record", "[batch_shares]") {
  for (const double slow : {1.0, 1.1, 2.0, 17.0, 1e6}) {
    for (const std::uint32_t equal : {1U, 2U, 7U, 64U}) {
      for (const double fixed : {0.0, 0.5, 100.0}) {
        INFO(slow << " times as slow, " << equal << " records, " << fixed << " s fixed");
        const std::vector<MeasuredShare> measured{{0, 1, 0}, {1, slow, fixed}, {2, 0.3, 0.1}};
        const auto shares = balanced_shares(measured, Shares{equal, equal, equal}, equal, 0);
        REQUIRE(shares.has_value());
        CHECK(std::accumulate(shares->begin(), shares->end(), 0U) == 3 * equal);
        CHECK(*std::ranges::min_element(*shares) >= 1);
      }
    }
  }
}

TEST_CASE("what a batch takes whatever its records is learned from two shares", "[batch_shares]") {
  // 10 ms and 1 ms a record.
  const MeasuredShare first = measured_share(0, {64, 0.074}, std::nullopt);
  CHECK(first.fixed_s == 0);
  const MeasuredShare line = measured_share(0, {32, 0.042}, BatchTime{64, 0.074});
  CHECK(line.seconds_per_record == Approx(0.001));
  CHECK(line.fixed_s == Approx(0.010));
  // One whose batches take as long whatever they hold gains nothing from fewer records.
  const MeasuredShare padded = measured_share(1, {32, 0.0601}, BatchTime{64, 0.06});
  const std::vector<MeasuredShare> measured{measured_share(0, {96, 0.0201}, BatchTime{64, 0.02}),
                                            padded};
  CHECK_FALSE(balanced_shares(measured, Shares{96, 32}, 64, kTenth).has_value());
  // One that has become three times as slow meanwhile is measured again.
  const MeasuredShare slower = measured_share(1, {32, 0.18}, BatchTime{64, 0.06});
  CHECK(slower.fixed_s == 0);
}

}  // namespace taut

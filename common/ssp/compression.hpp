#pragma once

#include <cstdint>
#include <vector>

#include "common/math/codec.hpp"
#include "common/ssp/table.hpp"
#include "common/types.hpp"

namespace taut {

/// How a job's updates are encoded on their way to the shards, and its values on their way to the
/// members, settled from its file; both sides work it out alone. Pure and constant.
class Compression {
 public:
  /// Encodes the updates of tables of at least `min_values` values so.
  /// REQUIRES: more values than what was added before.
  void add_push(std::uint64_t min_values, const math::Encoding& encoding) {
    pushes_.push_back({min_values, encoding});
  }
  /// Encodes the values of such tables so, where members read them. REQUIRES: as above.
  void add_pull(std::uint64_t min_values, const math::Encoding& encoding) {
    pulls_.push_back({min_values, encoding});
  }

  /// Running statistics are no gradients: they are sent as they are.
  [[nodiscard]] math::Encoding of_push(const TableSpec& table) const { return of(table, pushes_); }
  [[nodiscard]] math::Encoding of_pull(const TableSpec& table) const { return of(table, pulls_); }

  /// The updates of clock 0 are initial values, which are sent as they are.
  void expect_seeds() { is_seeded_ = true; }
  [[nodiscard]] bool is_seed(Clock clock) const { return is_seeded_ && clock == Clock(0); }
  [[nodiscard]] math::Encoding of_push(const TableSpec& table, Clock clock) const {
    return is_seed(clock) ? math::Encoding() : of_push(table);
  }

  /// What a shard accepts: the same, or float32 from a member that leaves and sends all that its
  /// updates have left out.
  [[nodiscard]] bool may_push(const TableSpec& table, Clock clock,
                              const math::Encoding& encoding) const {
    const math::Encoding expected = of_push(table, clock);
    return encoding == expected || (expected.has_residual() && encoding == math::Encoding());
  }

  [[nodiscard]] bool is_off() const { return pushes_.empty() && pulls_.empty(); }

 private:
  struct Step {
    std::uint64_t min_values = 0;
    math::Encoding encoding;
  };

  [[nodiscard]] static math::Encoding of(const TableSpec& table, const std::vector<Step>& steps) {
    math::Encoding encoding;
    if (table.kind != TableKind::kTrained) return encoding;
    const std::uint64_t count = table.count();
    for (const Step& step : steps) {
      if (count >= step.min_values) encoding = step.encoding;
    }
    return encoding;
  }

  std::vector<Step> pushes_;  // ascending
  std::vector<Step> pulls_;   // ascending
  bool is_seeded_ = false;
};

}  // namespace taut

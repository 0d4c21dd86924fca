#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/math/codec.hpp"
#include "common/ssp/table.hpp"
#include "common/types.hpp"

namespace taut {

/// How a job's updates are encoded on their way to the shards, and its values on their way to the
/// members, resolved from its file; both sides compute it independently. Pure and constant.
class Compression {
 public:
  /// Encodes the updates of tables of at least `min_values` values in this way; kLowRank's columns
  /// are those of the table.
  /// warm_up  clocks in which kTopK sends more: a quarter of the values at first, then a quarter of
  ///          that, in equally long steps
  /// REQUIRES: min_values is greater than in the calls before.
  void add_push(std::uint64_t min_values, const math::Encoding& encoding,
                std::uint64_t warm_up = 0) {
    pushes_.push_back({min_values, encoding, warm_up});
  }
  /// Encodes the values of such tables in this way when members read them. REQUIRES: as above.
  void add_pull(std::uint64_t min_values, const math::Encoding& encoding) {
    pulls_.push_back({min_values, encoding});
  }

  /// Members clip their gradients and send their velocities, and the servers' rule does neither.
  struct Correction {
    float momentum = 0;
    float clip_norm = -1;  // of a member's whole gradient; negative: never

    [[nodiscard]] bool clips() const { return clip_norm > 0; }
    /// The factor for a gradient of this norm; NaN if the norm is not finite, so that shards refuse
    /// the update.
    [[nodiscard]] float scale(float norm) const;
  };
  void correct(const Correction& correction) { correction_ = correction; }
  /// nullopt: members send gradients.
  [[nodiscard]] const std::optional<Correction>& correction() const { return correction_; }

  /// The updates of clock 0 are initial values, which are sent as they are.
  void expect_seeds() { is_seeded_ = true; }
  [[nodiscard]] bool is_seed(Clock clock) const { return is_seeded_ && clock == Clock(0); }

  /// The encoding after the warm-up. Running statistics are not gradients and are sent unencoded.
  [[nodiscard]] math::Encoding of_push(const TableSpec& table) const {
    const Step* const step = find(table, pushes_);
    return step == nullptr ? math::Encoding() : fitted(step->encoding, table);
  }
  [[nodiscard]] math::Encoding of_push(const TableSpec& table, Clock clock) const {
    if (is_seed(clock)) return {};
    math::Encoding encoding = of_push(table);
    if (encoding.codec == math::Codec::kTopK) {
      encoding.every = every_at(clock, find(table, pushes_)->warm_up, encoding.every);
    }
    return encoding;
  }
  [[nodiscard]] math::Encoding of_pull(const TableSpec& table) const {
    const Step* const step = find(table, pulls_);
    return step == nullptr ? math::Encoding() : step->encoding;
  }

  /// Whether a shard accepts an encoding: of_push(), or float32 from a member that leaves and sends
  /// everything that its updates have left out.
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
    std::uint64_t warm_up = 0;
  };

  /// The step for a table's size; nullptr if none.
  [[nodiscard]] static const Step* find(const TableSpec& table, const std::vector<Step>& steps) {
    if (table.kind != TableKind::kTrained) return nullptr;
    const std::uint64_t count = table.count();
    const Step* found = nullptr;
    for (const Step& step : steps) {
      if (count >= step.min_values) found = &step;
    }
    return found;
  }

  [[nodiscard]] static math::Encoding fitted(math::Encoding encoding, const TableSpec& table);
  [[nodiscard]] static std::uint32_t every_at(Clock clock, std::uint64_t warm_up,
                                              std::uint32_t every);

  std::vector<Step> pushes_;  // ascending
  std::vector<Step> pulls_;   // ascending
  std::optional<Correction> correction_;
  bool is_seeded_ = false;
};

}  // namespace taut

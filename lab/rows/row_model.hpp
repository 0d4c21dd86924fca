#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "common/types.hpp"
#include "lab/rows/toy_rows.hpp"

namespace taut::sim {

/// Models one bucket of a table by rows as its updates make it, over a map. It shares no code with
/// the server's store. A row that is not kept has its initial values again: the only way in which a
/// row may lose updates, and then it loses all of them.
class RowModel {
 public:
  struct Pushed {
    std::uint32_t worker = 0;
    std::int64_t clock = 0;
    float weight = 1;
  };

  /// seed  of the job
  RowModel(const ToyRows& table, TableId id, SliceId bucket, std::uint64_t seed);

  /// One application: the sum of the updates, in their order, times `scale`. Then rows are dropped,
  /// starting from the one whose last application is the oldest, until the next one may stay: it
  /// was named less than idle_clocks before the present V, and the bucket has no more than its part
  /// of max_rows. Within one application the lowest numbers are the oldest.
  /// version  V with these updates accepted; for an aggregate at most its clock and one more
  void apply(std::span<const Pushed> updates, float scale, std::int64_t version);
  /// [rows, width], in the order of the numbers.
  [[nodiscard]] std::vector<float> read(std::span<const std::uint64_t> rows) const;
  /// The rows that are kept, ascending.
  [[nodiscard]] std::vector<std::uint64_t> kept() const;
  [[nodiscard]] const ToyRows& table() const { return table_; }
  /// The rows of the bucket that are ever named.
  [[nodiscard]] const std::vector<std::uint64_t>& named() const { return named_; }

 private:
  struct Row {
    std::vector<float> values;
    std::int64_t version = 0;  // at the last application that named it
  };

  [[nodiscard]] std::vector<float> first_values(std::uint64_t row) const;
  [[nodiscard]] bool may_stay(std::uint64_t row) const;

  ToyRows table_;
  TableId id_;
  SliceId bucket_;
  std::uint64_t seed_;
  std::vector<std::uint64_t> named_;
  std::map<std::uint64_t, Row> rows_;
  std::int64_t version_ = 1;          // the highest one of any application
  std::vector<std::uint64_t> order_;  // of their last applications, the oldest first
};

}  // namespace taut::sim

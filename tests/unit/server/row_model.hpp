#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "common/math/update_kernels.hpp"
#include "server/tables/row_store.hpp"

namespace taut::test::by_rows {

inline constexpr std::uint64_t kSeed = 11;

/// One member's update by rows, and what it counts.
struct RowGradients {
  std::vector<std::uint64_t> rows;  // ascending
  std::vector<float> gradients;     // [rows, width]
  float scale = 1;
};

/// What the store is to do, over a map: each row steps as a separate dense slice would.
class Model {
 public:
  struct Row {
    std::vector<float> values;
    std::vector<std::vector<float>> states;
    std::int64_t updated = 0;
    friend bool operator==(const Row&, const Row&) = default;
  };
  using Rows = std::map<std::uint64_t, Row>;

  Model(TableSpec table, std::size_t states)
      : table_(std::move(table)), width_(table_.width()), states_(states) {}

  void apply(math::RuleKind kind, const math::UpdateStep& step,
             const std::vector<RowGradients>& updates, float scale, Clock clock) {
    clock_ = clock = std::max(clock, clock_);
    for (const std::uint64_t number : named(updates)) {
      Row& row = row_of(number);
      std::vector<math::GradientView> gradients;
      for (const RowGradients& update : updates) {
        const auto at = std::ranges::find(update.rows, number);
        if (at == update.rows.end()) continue;
        const float* values =
            update.gradients.data() + static_cast<std::size_t>(at - update.rows.begin()) * width_;
        gradients.push_back({reinterpret_cast<const std::byte*>(values), update.scale, {}, width_});
      }
      std::vector<float*> states;
      for (auto& state : row.states) states.push_back(state.data());
      std::vector<float> out(width_);
      math::apply_update(kind, step, gradients, scale, row.values, out, states);
      row.values = out;
      row.updated = clock.value();
      std::erase(order_, number);
      order_.push_back(number);
    }
    drop_old(clock);
  }

  [[nodiscard]] std::vector<float> read(std::uint64_t number) const {
    const auto row = rows_.find(number);
    return row == rows_.end() ? first_values(number) : row->second.values;
  }
  [[nodiscard]] const Rows& rows() const { return rows_; }
  [[nodiscard]] std::uint64_t dropped() const { return dropped_; }

 private:
  [[nodiscard]] static std::vector<std::uint64_t> named(const std::vector<RowGradients>& updates) {
    std::vector<std::uint64_t> numbers;
    for (const RowGradients& one : updates) {
      numbers.insert(numbers.end(), one.rows.begin(), one.rows.end());
    }
    std::ranges::sort(numbers);
    numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
    return numbers;
  }
  [[nodiscard]] std::vector<float> first_values(std::uint64_t number) const {
    std::vector<float> values(width_);
    math::fill(table_.filler, kSeed, table_.name, number * width_, values);
    return values;
  }
  Row& row_of(std::uint64_t number) {
    const auto [row, is_new] = rows_.try_emplace(number);
    if (is_new) {
      row->second.values = first_values(number);
      row->second.states.assign(states_, std::vector<float>(width_, 0.0F));
    }
    return row->second;
  }
  void drop_old(Clock clock) {
    const std::uint64_t most = server::RowStore::max_rows_of_bucket(table_);
    const std::int64_t idle = table_.rows->idle_clocks;
    while (!order_.empty()) {
      const bool is_idle = idle > 0 && clock.value() - rows_.at(order_.front()).updated >= idle;
      if (!is_idle && (most == 0 || rows_.size() <= most)) break;
      rows_.erase(order_.front());
      order_.erase(order_.begin());
      ++dropped_;
    }
  }

  const TableSpec table_;
  const std::size_t width_;
  const std::size_t states_;
  Rows rows_;
  std::vector<std::uint64_t> order_;  // of the last updates, the oldest first
  std::uint64_t dropped_ = 0;
  Clock clock_;
};

}  // namespace taut::test::by_rows

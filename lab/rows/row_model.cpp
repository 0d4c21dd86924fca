#include "lab/rows/row_model.hpp"

#include <algorithm>
#include <set>

#include "common/math/filler.hpp"

namespace taut::sim {

RowModel::RowModel(const ToyRows& table, TableId id, SliceId bucket, std::uint64_t seed)
    : table_(table), id_(id), bucket_(bucket), seed_(seed), named_(table.rows_of(bucket)) {}

std::vector<float> RowModel::first_values(std::uint64_t row) const {
  std::vector<float> values(table_.width);
  const TableSpec spec = toy_row_table(table_, id_);
  math::fill(spec.filler, seed_, spec.name, row * table_.width, values);
  return values;
}

void RowModel::apply(std::span<const Pushed> updates, float scale, std::int64_t version) {
  version_ = std::max(version_, version);
  std::map<std::uint64_t, std::vector<float>> sums;
  std::vector<float> update(table_.width);
  for (const Pushed& of : updates) {
    const auto pushed = rows_pushed(table_, id_, WorkerId(of.worker), Clock(of.clock));
    for (const std::uint64_t row : pushed) {
      if (std::ranges::find(named_, row) == named_.end()) continue;
      toy_row_update(id_, row, WorkerId(of.worker), Clock(of.clock), update);
      for (float& one : update) one *= of.weight;
      const auto [sum, is_first] = sums.try_emplace(row, update);
      if (is_first) continue;
      for (std::size_t i = 0; i < update.size(); ++i) sum->second[i] += update[i];
    }
  }
  for (const auto& [row, sum] : sums) {
    const auto [kept, is_new] = rows_.try_emplace(row);
    if (is_new) kept->second.values = first_values(row);
    for (std::size_t i = 0; i < sum.size(); ++i) kept->second.values[i] -= sum[i] * scale;
    kept->second.version = version_;
    std::erase(order_, row);
    order_.push_back(row);
  }
  while (!order_.empty() && !may_stay(order_.front())) {
    rows_.erase(order_.front());
    order_.erase(order_.begin());
  }
}

bool RowModel::may_stay(std::uint64_t row) const {
  const RowTable& limits = table_.kept;
  const std::uint64_t part = (limits.max_rows + limits.buckets - 1) / limits.buckets;
  if (part > 0 && rows_.size() > part) return false;
  return limits.idle_clocks == 0 || version_ - rows_.at(row).version < limits.idle_clocks;
}

std::vector<float> RowModel::read(std::span<const std::uint64_t> rows) const {
  std::vector<float> values;
  values.reserve(rows.size() * table_.width);
  for (const std::uint64_t row : rows) {
    const auto kept = rows_.find(row);
    const std::vector<float> one = kept == rows_.end() ? first_values(row) : kept->second.values;
    values.insert(values.end(), one.begin(), one.end());
  }
  return values;
}

std::vector<std::uint64_t> RowModel::kept() const {
  std::vector<std::uint64_t> rows;
  for (const auto& [row, values] : rows_) rows.push_back(row);
  return rows;
}

}  // namespace taut::sim

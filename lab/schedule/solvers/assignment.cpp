#include "lab/schedule/solvers/assignment.hpp"

#include <limits>

#include "common/check.hpp"

namespace taut::schedule {
namespace {

constexpr std::size_t kFree = std::numeric_limits<std::size_t>::max();

/// Rows are assigned one by one, each along the shortest path of exchanges that ends at a column
/// which no row has. Prices keep all reduced costs from being negative.
class Assignment {
 public:
  explicit Assignment(const std::vector<std::vector<double>>& costs)
      : costs_(costs),
        row_price_(costs.size()),
        column_price_(costs.front().size()),
        row_of_(costs.front().size(), kFree) {}

  void add(std::size_t row) {
    const std::size_t columns = column_price_.size();
    distance_.assign(columns, std::numeric_limits<double>::infinity());
    before_.assign(columns, kFree);
    reached_.assign(columns, false);
    double base = 0;  // the distance of `from`
    std::size_t from = row;
    std::size_t last = kFree;  // the column through which `from` was reached
    while (true) {
      std::size_t nearest = kFree;
      for (std::size_t column = 0; column < columns; ++column) {
        if (reached_[column]) continue;
        const double through =
            base + costs_[from][column] - row_price_[from] - column_price_[column];
        if (through < distance_[column]) {
          distance_[column] = through;
          before_[column] = last;
        }
        if (nearest == kFree || distance_[column] < distance_[nearest]) nearest = column;
      }
      base = distance_[nearest];
      reached_[nearest] = true;
      last = nearest;
      if (row_of_[nearest] == kFree) break;
      from = row_of_[nearest];
    }
    set_prices(row, base);
    exchange(row, last);
  }

  [[nodiscard]] std::vector<std::size_t> columns() const {
    std::vector<std::size_t> column_of(costs_.size(), kFree);
    for (std::size_t column = 0; column < row_of_.size(); ++column) {
      if (row_of_[column] != kFree) column_of[row_of_[column]] = column;
    }
    return column_of;
  }

 private:
  void set_prices(std::size_t row, double length) {
    row_price_[row] += length;
    for (std::size_t column = 0; column < row_of_.size(); ++column) {
      if (!reached_[column] || distance_[column] >= length) continue;
      column_price_[column] += distance_[column] - length;
      if (row_of_[column] != kFree) row_price_[row_of_[column]] += length - distance_[column];
    }
  }

  void exchange(std::size_t row, std::size_t column) {
    while (before_[column] != kFree) {
      row_of_[column] = row_of_[before_[column]];
      column = before_[column];
    }
    row_of_[column] = row;
  }

  const std::vector<std::vector<double>>& costs_;
  std::vector<double> row_price_;
  std::vector<double> column_price_;
  std::vector<std::size_t> row_of_;  // a column's
  std::vector<double> distance_;
  std::vector<std::size_t> before_;  // the previous column on the path; kFree: the new row
  std::vector<bool> reached_;
};

}  // namespace

std::vector<std::size_t> least_cost_assignment(const std::vector<std::vector<double>>& costs) {
  if (costs.empty()) return {};
  TAUT_CHECK(costs.front().size() >= costs.size(), "fewer columns than rows");
  Assignment assignment(costs);
  for (std::size_t row = 0; row < costs.size(); ++row) assignment.add(row);
  return assignment.columns();
}

}  // namespace taut::schedule

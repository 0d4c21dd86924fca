#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "worker/engine/plan/memory_plan.hpp"

namespace taut::test {

/// Carries a plan out with real values: an arena with one cell for each byte, host copies, and
/// copies that arrive at any time between their issue and the moment the plan awaits them. What is
/// undefined holds poison.
class PlanPlayer {
 public:
  PlanPlayer(const AccessTrace& trace, const MemoryPlan& plan, std::uint64_t seed);

  /// Runs one iteration. Returns what went wrong first, or nothing.
  [[nodiscard]] std::string run_iteration();
  /// Whether every value that must outlive the iteration is on the host or kept in the arena.
  [[nodiscard]] std::string check_survivors();

  [[nodiscard]] std::uint64_t moved_bytes() const { return moved_bytes_; }
  /// The residencies whose memory is taken now.
  [[nodiscard]] const std::vector<bool>& live() const { return live_; }

 private:
  using Cell = std::uint64_t;
  static constexpr Cell kPoison = 0xdeadbeef;

  void load_start();
  void begin_fetch(std::size_t number);
  void land_fetch(std::size_t number);
  void begin_write_back(std::size_t number);
  void land_write_back(std::size_t number);
  void release(std::size_t number);
  [[nodiscard]] std::string claim(std::size_t step);
  [[nodiscard]] std::string compute(std::size_t step);
  [[nodiscard]] std::size_t residency_for(std::size_t buffer, std::size_t step) const;
  [[nodiscard]] std::vector<Cell> cells(std::size_t number) const;
  void set_cells(std::size_t number, Cell value);
  [[nodiscard]] std::uint64_t bytes(std::size_t number) const;

  const AccessTrace& trace_;
  const MemoryPlan& plan_;
  std::mt19937_64 random_;
  std::vector<Cell> arena_;
  std::vector<Cell> host_;   // by buffer
  std::vector<Cell> truth_;  // by buffer: what a machine without a budget holds
  std::vector<bool> live_;   // by residency
  std::map<std::size_t, Cell> fetching_;
  std::map<std::size_t, Cell> writing_back_;
  Cell next_value_ = 1;
  std::uint64_t moved_bytes_ = 0;
};

/// Whether residencies that share a step overlap, or leave the budget.
[[nodiscard]] std::string check_addresses(const AccessTrace& trace, const MemoryPlan& plan,
                                          const PlanOptions& options);

}  // namespace taut::test

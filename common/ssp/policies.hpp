#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "common/ssp/staleness_policy.hpp"

namespace taut {

/// Everything that a job does about staleness in addition to its bound.
class Policies {
 public:
  /// Policies weigh updates in the order in which they are added.
  void add(std::shared_ptr<const StalenessPolicy> policy) { all_.push_back(std::move(policy)); }

  /// The policy of this kind, or nullptr.
  template <class Policy>
  [[nodiscard]] const Policy* find() const {
    for (const auto& one : all_) {
      if (const auto* found = dynamic_cast<const Policy*>(one.get())) return found;
    }
    return nullptr;
  }

  /// What all policies together keep.
  struct Keeps {
    bool reads = false;
    bool values = false;
    std::size_t states = 0;
  };
  [[nodiscard]] Keeps keeps() const;
  /// state  the nth array that policies keep, to be updated in place
  void weigh(LateUpdate& update, const std::function<std::span<float>(std::size_t)>& state) const;
  [[nodiscard]] std::uint32_t backup_workers() const;
  [[nodiscard]] PushSchedule schedule() const;
  [[nodiscard]] std::unique_ptr<const AggregationPolicy> aggregation() const;
  [[nodiscard]] std::unique_ptr<ReadSlack> read_slack() const;

 private:
  std::vector<std::shared_ptr<const StalenessPolicy>> all_;
};

}  // namespace taut

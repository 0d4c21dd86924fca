#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "common/math/update_kernels.hpp"
#include "server/slice_state.hpp"
#include "tests/unit/server/job_maker.hpp"

namespace taut::test {

inline constexpr std::size_t kCount = 5;  // values of the slice
inline constexpr Slack kAsync = Slack::unbounded();

/// One slice under a job that the test changes.
class OneSlice {
 public:
  explicit OneSlice(JobMaker maker, TableKind kind = TableKind::kTrained)
      : OneSlice(std::move(maker), make_table(0, {kCount}, kind)) {}
  OneSlice(JobMaker maker, const TableSpec& table)
      : job(std::move(maker)), view(job.view()), table_(table) {
    slice = std::make_unique<server::SliceState>(table_, place_, *view, pool_,
                                                 view->policies.schedule());
  }

  PushVerdict push(std::uint32_t worker, std::int64_t clock, const std::vector<float>& gradient,
                   float norm = 0, float weight = 1) {
    return slice->push(WorkerId(worker), {Clock(clock), frame_of(gradient), norm, {}, weight},
                       *view, released);
  }
  PushVerdict push(std::uint32_t worker, std::int64_t clock) {
    return push(worker, clock, gradient_of(worker, clock, kCount));
  }
  std::optional<server::Answer> read(std::uint32_t worker, std::int64_t clock) {
    return slice->read({PeerId(worker + 1), WorkerId(worker), Clock(clock)}, *view);
  }
  void change() {
    view = job.view();
    slice->update(*view, released);
  }
  [[nodiscard]] std::vector<float> values() const {
    return floats_of(slice->snapshot(PeerId(99)).values);
  }
  [[nodiscard]] std::size_t used() const { return pool_.usage().used.value(); }
  /// The workers whose reads were released since the last call, ascending.
  [[nodiscard]] std::vector<std::uint32_t> take_released() {
    std::vector<std::uint32_t> workers;
    for (const server::Answer& answer : released) workers.push_back(answer.reader.worker.value());
    released.clear();
    std::ranges::sort(workers);
    return workers;
  }

  JobMaker job;
  std::shared_ptr<const server::JobView> view;
  std::vector<server::Answer> released;
  std::unique_ptr<server::SliceState> slice;

 private:
  BufferPool pool_;
  const TableSpec table_;
  const Slice place_{TableId(0), SliceId(0), 0, kCount, ShardId(0)};
};

/// What the slice starts from.
inline std::vector<float> initial() {
  std::vector<float> values(kCount);
  const TableSpec table = make_table(0, {kCount});
  math::fill(table.filler, 42, table.name, 0, values);
  return values;
}

/// w - 0.5 * (sum of gradients, in this order) / members
inline std::vector<float> descend(std::vector<float> values,
                                  const std::vector<std::vector<float>>& gradients,
                                  std::size_t members, std::int64_t clock = 0) {
  math::UpdateRule rule;
  rule.rate.base = 0.5;
  std::vector<math::GradientView> views;
  views.reserve(gradients.size());
  for (const auto& gradient : gradients) {
    views.push_back({std::as_bytes(std::span(gradient)).data(), 1.0F});
  }
  const auto step = math::make_step(rule, clock, 1, 1, 1, 0);
  math::apply_update(rule.kind, step, views, static_cast<float>(1.0 / static_cast<double>(members)),
                     values, values, {});
  return values;
}

/// What that worker pushes at that clock.
inline std::vector<float> own(std::uint32_t worker, std::int64_t clock) {
  return gradient_of(worker, clock, kCount);
}

using Workers = std::vector<std::uint32_t>;

}  // namespace taut::test

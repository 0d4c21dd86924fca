#include "worker/cache/served_rows.hpp"

#include <algorithm>
#include <string>

#include "common/check.hpp"
#include "worker/engine/cpu/cpu_backend.hpp"

namespace taut {

ServedRows::ServedRows(Client& client, Backend& backend, const TableSpec& spec,
                       std::size_t batch_rows)
    : client_(client),
      backend_(backend),
      table_(spec.id),
      width_(spec.width()),
      batch_rows_(batch_rows),
      is_shared_(backend.shares_host_memory()),
      filled_(batch_rows),
      own_stream_(backend.make_stream()),
      compute_(own_stream_.get()) {
  const std::size_t count = batch_rows_ * width_;
  const std::string name = "rows of parameter " + spec.name;
  values_ = backend.allocate_floats(count, BufferKind::kParameter, name);
  gradient_ = backend.allocate_floats(count, BufferKind::kGradient, "gradient of " + name);
  if (is_shared_) return;
  host_values_ = backend.allocate_host(Bytes(count * sizeof(float)));
  host_gradient_ = backend.allocate_host(Bytes(count * sizeof(float)));
  std::ranges::fill(host_values_.as<float>(), 0.0F);
}

std::size_t ServedRows::copied(std::size_t rows) const {
  return width_ * (backend_.needs_dry_run() ? batch_rows_ : rows);
}

Result<void> ServedRows::name(Clock clock, std::span<const std::uint64_t> rows) {
  TAUT_CHECK(rows.size() <= batch_rows_, "a batch names more rows than it has numbers");
  TAUT_CHECK(named_ != clock, "the rows of a clock are named once");
  rows_.assign(rows.begin(), rows.end());
  named_ = clock;
  const std::span<float> into =
      is_shared_ ? host_view(values_.as<float>()) : host_values_.as<float>();
  if (filled_ > rows_.size()) {
    std::ranges::fill(into.subspan(rows_.size() * width_, (filled_ - rows_.size()) * width_), 0.0F);
  }
  filled_ = std::max(filled_, rows_.size());
  return client_.read_rows(table_, clock, rows_, into.first(rows_.size() * width_));
}

Result<void> ServedRows::bring(Clock clock, Duration wait) {
  const bool dry_run = backend_.in_dry_run();
  if (!dry_run) {
    if (brought_ == clock) return ok();
    TAUT_CHECK(named_ == clock, "rows are named before they are used");
    TAUT_TRY(client_.wait(table_, clock, wait));
    brought_ = clock;
  }
  if (!is_shared_) {
    const std::size_t count = copied(filled_);
    backend_.copy_to_device(*compute_, host_values_.as<float>().first(count),
                            values_.as<float>().subspan(0, count));
    if (!dry_run) compute_->finish();
  }
  filled_ = rows_.size();
  return ok();
}

void ServedRows::publish(Clock clock) {
  const bool dry_run = backend_.in_dry_run();
  if (!is_shared_) {
    const std::size_t count = copied(rows_.size());
    backend_.copy_to_host(*compute_, gradient_.as<float>().subspan(0, count),
                          host_gradient_.as<float>().first(count));
  }
  if (dry_run) return;
  compute_->finish();
  TAUT_CHECK(brought_ == clock, "rows are pushed after they were used");
  const std::span<const float> gradient =
      is_shared_ ? host_view(gradient_.as<float>()) : host_gradient_.as<float>();
  const auto pushed =
      client_.push_rows(table_, clock, rows_, gradient.first(rows_.size() * width_));
  TAUT_CHECK(pushed.has_value(), "rows that were read can be pushed");
}

}  // namespace taut

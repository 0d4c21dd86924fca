#include "worker/records/recorder.hpp"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "worker/records/metrics_csv.hpp"
#include "worker/records/tensorboard.hpp"

namespace taut::worker {
namespace {

namespace fs = std::filesystem;

double unix_time_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

void add_scalar(pb::TensorBoardSummary& summary, const char* tag, double value) {
  pb::TensorBoardSummary::Value& one = *summary.add_value();
  one.set_tag(tag);
  one.set_simple_value(static_cast<float>(value));
}

}  // namespace

Recorder::Recorder(const pb::RecordsConfig& config)
    : config_(config), began_(steady_now()), interval_(began_) {}

Result<std::unique_ptr<Recorder>> Recorder::open(const pb::RecordsConfig& config,
                                                 const std::string& worker, JobId job,
                                                 Clock start) {
  if (!config.metrics() && !config.tensorboard()) return std::unique_ptr<Recorder>();
  std::unique_ptr<Recorder> recorder(new Recorder(config));
  recorder->folder_ = fs::path(config.folder()) / fmt::format("job{}-{}", job.value(), worker);
  std::error_code failed;
  fs::create_directories(recorder->folder_, failed);
  if (failed) {
    return make_error(ErrorCode::kIo,
                      fmt::format("the records' folder {} cannot be created: {}; name another with "
                                  "records {{ folder }}",
                                  recorder->folder_.string(), failed.message()));
  }
  if (config.metrics()) {
    TAUT_TRY(recorder->metrics_,
             RecordFile::open(recorder->folder_ / "metrics.csv", start > Clock(0)));
    if (recorder->metrics_->began_empty()) {
      recorder->metrics_->append(metrics_header(), steady_now());
    }
  }
  if (config.tensorboard()) {
    const std::string name = fmt::format("events.out.tfevents.{:.0f}.{}", unix_time_s(), worker);
    TAUT_TRY(recorder->events_, RecordFile::open(recorder->folder_ / name, false));
    recorder->events_->append(tensorboard_head(unix_time_s()), steady_now());
  }
  return recorder;
}

double Recorder::wall_s() const {
  return seconds(steady_now() - began_);
}

void Recorder::on_clock(const ClockFigures& figures) {
  interval_.add(figures);
  if (figures.clock.next().value() % config_.every() != 0) return;
  const TimePoint now = steady_now();
  const IntervalFigures interval = interval_.take(figures, now);
  if (metrics_) metrics_->append(metrics_line(interval, wall_s(), unix_time_s()), now);
  if (!events_) return;
  pb::TensorBoardSummary summary;
  add_scalar(summary, "train/loss", interval.loss);
  add_scalar(summary, "train/images_per_second", interval.images_per_second());
  const double spent = interval.compute_s + interval.wait_s;
  add_scalar(summary, "train/wait_share", spent > 0 ? interval.wait_s / spent : 0);
  if (interval.reads > 0) {
    add_scalar(summary, "staleness/mean", interval.staleness_mean);
    add_scalar(summary, "staleness/max", static_cast<double>(interval.staleness_max));
  }
  write_event(figures.clock, std::move(summary));
}

void Recorder::on_test(const TestFigures& test) {
  if (metrics_) metrics_->append(metrics_line(test, wall_s(), unix_time_s()), steady_now());
  if (!events_) return;
  pb::TensorBoardSummary summary;
  if (test.accuracy) add_scalar(summary, "test/accuracy", *test.accuracy);
  add_scalar(summary, "test/loss", test.loss);
  write_event(test.clock, std::move(summary));
}

bool Recorder::wants_tables(Clock clock) const {
  return events_ && config_.histograms_every() > 0 &&
         clock.value() % config_.histograms_every() == 0;
}

void Recorder::on_table(const std::string& table, const char* what, Clock clock,
                        std::span<const float> elements) {
  pb::TensorBoardSummary summary;
  pb::TensorBoardSummary::Value& one = *summary.add_value();
  one.set_tag(fmt::format("{}/{}", what, table));
  *one.mutable_histo() = histogram_of(elements);
  write_event(clock, std::move(summary));
}

void Recorder::write_event(Clock clock, pb::TensorBoardSummary summary) {
  pb::TensorBoardEvent event;
  event.set_wall_time(unix_time_s());
  event.set_step(clock.value());
  *event.mutable_summary() = std::move(summary);
  events_->append(tf_record(event.SerializeAsString()), steady_now());
}

}  // namespace taut::worker

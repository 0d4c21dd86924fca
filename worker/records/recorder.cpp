#include "worker/records/recorder.hpp"

#include <fmt/format.h>

#include <utility>

#include "common/files/file.hpp"
#include "common/log.hpp"
#include "worker/records/metrics_csv.hpp"
#include "worker/records/tensorboard.hpp"

namespace taut::worker {
namespace {

namespace fs = std::filesystem;

void add_scalar(pb::TensorBoardSummary& summary, const char* tag, double value) {
  pb::TensorBoardSummary::Value& one = *summary.add_value();
  one.set_tag(tag);
  one.set_simple_value(static_cast<float>(value));
}

/// The file that identifies the job whose records a folder has.
constexpr const char* kTokenFile = "job.token";

/// The folder of this job's records: one that has them already, or a new one.
Result<fs::path> make_folder(const fs::path& first, std::uint64_t token) {
  const std::string own = fmt::format("{:016x}\n", token);
  const auto fail = [](const fs::path& folder, const std::string& why) {
    return make_error(ErrorCode::kIo,
                      fmt::format("the records' folder {} cannot be created: {}; name another with "
                                  "records {{ folder }}",
                                  folder.string(), why));
  };
  std::error_code failed;
  if (first.has_parent_path()) fs::create_directories(first.parent_path(), failed);
  if (failed) return fail(first, failed.message());
  for (int number = 1;; ++number) {
    const fs::path folder =
        number == 1 ? first : fs::path(fmt::format("{}-{}", first.string(), number));
    if (fs::create_directory(folder, failed)) {
      if (const auto marked = write_file_atomically(folder / kTokenFile, own); !marked) {
        return fail(folder, marked.error().message);
      }
      return folder;
    }
    if (failed) return fail(folder, failed.message());
    const auto found = read_file(folder / kTokenFile);
    if (found && found.value() == own) return folder;
  }
}

}  // namespace

Recorder::Recorder(const pb::RecordsConfig& config, const TimeSource& time)
    : config_(config), time_(time), began_(time.now()), interval_(began_) {}

Result<std::unique_ptr<Recorder>> Recorder::open(const pb::RecordsConfig& config,
                                                 const std::string& worker, JobId job,
                                                 std::uint64_t token, Clock start,
                                                 TimeSource& time) {
  if (!config.metrics() && !config.tensorboard()) return std::unique_ptr<Recorder>();
  std::unique_ptr<Recorder> recorder(new Recorder(config, time));
  TAUT_TRY(
      recorder->folder_,
      make_folder(fs::path(config.folder()) / fmt::format("job{}-{}", job.value(), worker), token));
  recorder->is_continued_ = start > Clock(0);
  if (config.metrics()) {
    TAUT_TRY(recorder->metrics_,
             RecordFile::open(recorder->folder_ / "metrics.csv", start > Clock(0)));
    if (recorder->metrics_->began_empty()) {
      recorder->metrics_->append(metrics_header(), time.now());
    }
  }
  if (config.tensorboard()) {
    const std::string name = fmt::format("events.out.tfevents.{:.0f}.{}", time.unix_s(), worker);
    TAUT_TRY(recorder->events_, RecordFile::open(recorder->folder_ / name, false));
    recorder->events_->append(tensorboard_head(time.unix_s()), time.now());
  }
  return recorder;
}

double Recorder::wall_s() const {
  return seconds(time_.now() - began_);
}

void Recorder::on_clock(const ClockFigures& figures) {
  interval_.add(figures);
  if (figures.clock.next().value() % config_.every() != 0) return;
  const TimePoint now = time_.now();
  const IntervalFigures interval = interval_.take(figures, now);
  if (metrics_) metrics_->append(metrics_line(interval, wall_s(), time_.unix_s()), now);
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
  if (metrics_) {
    metrics_->append(metrics_line(test, wall_s(), time_.unix_s()), time_.now());
    write_outputs(test);
  }
  if (!events_) return;
  pb::TensorBoardSummary summary;
  if (test.accuracy) add_scalar(summary, "test/accuracy", *test.accuracy);
  add_scalar(summary, "test/loss", test.loss);
  for (const auto& [name, value] : test.outputs) {
    if (name != "accuracy" && name != "loss") add_scalar(summary, ("test/" + name).c_str(), value);
  }
  write_event(test.clock, std::move(summary));
}

/// A file that cannot be opened is logged once: a record never ends a training run.
void Recorder::write_outputs(const TestFigures& test) {
  if (test.outputs.empty()) return;
  if (!tests_) {
    auto opened = RecordFile::open(folder_ / "tests.csv", is_continued_);
    if (!opened) return log::warn("{}", opened.error().message);
    tests_ = std::move(opened.value());
    if (tests_->began_empty()) tests_->append(tests_header(), time_.now());
  }
  tests_->append(tests_lines(test, wall_s(), time_.unix_s()), time_.now());
}

bool Recorder::needs_tables(Clock clock) const {
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
  event.set_wall_time(time_.unix_s());
  event.set_step(clock.value());
  *event.mutable_summary() = std::move(summary);
  events_->append(tf_record(event.SerializeAsString()), time_.now());
}

}  // namespace taut::worker

#include "cli/commands/training/process_times.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "cli/commands/shared_options.hpp"
#include "cli/local_cluster.hpp"
#include "cli/submitted_job.hpp"
#include "cli/views/job_text.hpp"
#include "common/system/stop_signal.hpp"
#include "proto/state_word.hpp"

namespace taut::cli {
namespace {

namespace fs = std::filesystem;

constexpr auto kBetweenLooks = std::chrono::milliseconds(20);
constexpr Duration kJoinWithin = std::chrono::seconds(60);
constexpr Duration kGrace = std::chrono::milliseconds(3500);
constexpr double kControlWait_s = 10;
// A job's costs in addition to its clocks are the same in the short and in the long one.
constexpr std::int64_t kShort = 10;
constexpr std::int64_t kLong = 210;

/// A temporary folder, removed at the end.
class PassingFolder {
 public:
  static Result<PassingFolder> make() {
    std::string pattern = (fs::temp_directory_path() / "tautline-calibrate-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) {
      return make_error(ErrorCode::kIo, fmt::format("{}: cannot be made: {}", pattern,
                                                    std::generic_category().message(errno)));
    }
    return PassingFolder(pattern);
  }
  PassingFolder(PassingFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  PassingFolder& operator=(PassingFolder&&) = delete;
  ~PassingFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  explicit PassingFolder(fs::path path) : path_(std::move(path)) {}
  fs::path path_;
};

/// The processor time that a process has used so far, in microseconds.
Result<double> processor_us(const ChildProcess& child) {
  constexpr double kUsPerS = 1e6;
  constexpr double kNsPerUs = 1e3;
  clockid_t clock{};
  timespec used{};
  if (clock_getcpuclockid(child.pid(), &clock) != 0 || clock_gettime(clock, &used) != 0) {
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("{} has ended before it was measured", child.name()));
  }
  return kUsPerS * static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) / kNsPerUs;
}

/// A local cluster that is measured.
class Measured {
 public:
  Measured(LocalCluster cluster, std::uint32_t workers)
      : cluster_(std::move(cluster)), workers_(workers) {}
  ~Measured() { cluster_.stop(kGrace); }
  Measured(const Measured&) = delete;
  Measured& operator=(const Measured&) = delete;

  /// Errors    a job that did not end well; a process that ended
  Result<lab::ProcessTimes> measure(const pb::Job& job) {
    TAUT_TRY(await_workers());
    // Nothing is prepared for the first job.
    TAUT_TRY(train(job, kShort));
    TAUT_TRY(const lab::ProcessTimes start, used());
    TAUT_TRY(train(job, kShort));
    TAUT_TRY(const lab::ProcessTimes middle, used());
    TAUT_TRY(train(job, kLong));
    TAUT_TRY(const lab::ProcessTimes end, used());
    const auto of_clock = [](double first, double second, double third) {
      return ((third - second) - (second - first)) / (kLong - kShort);
    };
    return lab::ProcessTimes{
        .workers = workers_,
        .worker_us = of_clock(start.worker_us, middle.worker_us, end.worker_us),
        .server_us = of_clock(start.server_us, middle.server_us, end.server_us)};
  }

 private:
  Result<void> check_daemons() {
    std::this_thread::sleep_for(kBetweenLooks);
    if (stop_signal() != 0) return make_error(ErrorCode::kClosed, "interrupted");
    return cluster_.check();
  }

  Result<SubmittedJob> connect() {
    TAUT_TRY(const Security security, cluster_.user_security());
    TAUT_TRY(auto control, connect_control(cluster_.coordinator(), kControlWait_s, security));
    return SubmittedJob(std::move(control), [this] { return check_daemons(); });
  }

  Result<void> await_workers() {
    const TimePoint deadline = steady_now() + kJoinWithin;
    TAUT_TRY(SubmittedJob user, connect());
    while (true) {
      TAUT_TRY(const pb::StatusReply status, user.status());
      if (static_cast<std::uint32_t>(status.workers_size()) >= workers_) return ok();
      if (steady_now() > deadline) {
        return make_error(ErrorCode::kTimeout,
                          fmt::format("{} of {} workers have joined in {:g} s",
                                      status.workers_size(), workers_, seconds(kJoinWithin)));
      }
      TAUT_TRY(check_daemons());
    }
  }

  Result<void> train(pb::Job job, std::int64_t clocks) {
    job.mutable_solver_param()->set_max_iter(static_cast<std::int32_t>(clocks));
    TAUT_TRY(SubmittedJob user, connect());
    TAUT_TRY(user.submit(job));
    TAUT_TRY(const pb::JobStatus ended, user.follow([](const pb::JobStatus& /*job*/) {}));
    if (ended.state() == pb::DONE) return ok();
    return invalid(fmt::format("a training that was to be measured {}: {}",
                               state_word(ended.state()), ended.message()));
  }

  /// Used so far: the mean of all workers, and the server's share for one worker.
  Result<lab::ProcessTimes> used() {
    lab::ProcessTimes times;
    for (const ChildProcess& child : cluster_.children()) {
      TAUT_TRY(const double us, processor_us(child));
      (child.name().starts_with("worker") ? times.worker_us : times.server_us) += us / workers_;
    }
    return times;
  }

  LocalCluster cluster_;
  const std::uint32_t workers_;
};

}  // namespace

Result<lab::ProcessTimes> measure_processes(const pb::Job& job, std::uint32_t threads,
                                            std::uint32_t workers) {
  watch_stop_signals();
  TAUT_TRY(const PassingFolder folder, PassingFolder::make());
  LocalClusterOptions options;
  options.workers = workers;
  options.threads = threads;
  options.device = pb::WorkerConfig::CPU;
  options.records.set_metrics(false);
  options.folder = folder.path();
  TAUT_TRY(auto cluster, LocalCluster::start(options));
  return Measured(std::move(cluster), workers).measure(lab::job_to_measure(job, workers));
}

}  // namespace taut::cli

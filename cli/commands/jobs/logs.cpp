#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "cli/commands/shared_options.hpp"
#include "common/printable.hpp"
#include "common/system/stop_signal.hpp"
#include "proto/session/control_client.hpp"

namespace taut::cli {
namespace {

constexpr auto kBetweenLooks = std::chrono::milliseconds(300);

struct LogsOptions {
  std::uint64_t job = 0;
  bool follow = false;
  std::optional<std::uint32_t> worker;
  std::string process;
  CoordinatorOption coordinator;
};

/// The name of the process whose log is requested; empty: the coordinator's lines.
Result<std::string> process_of(const LogsOptions& options, ControlClient& client) {
  if (!options.worker) return options.process;
  TAUT_TRY(const pb::JobStatus job, client.job(JobId(options.job)));
  std::string name;
  for (const pb::WorkerStatus& worker : job.workers()) {
    if (worker.worker() == *options.worker) name = worker.name();
  }
  if (!name.empty()) return name;
  return invalid(fmt::format(
      "job {} has no worker {}; it has {}", options.job, *options.worker,
      job.workers().empty() ? "none" : "0 to " + std::to_string(job.workers_size() - 1)));
}

/// A part of a log without a last byte that may begin a control character, whose rest arrives with
/// the next part.
std::string_view whole(std::string_view text) {
  if (text.size() > 1 && text.back() == '\xc2') text.remove_suffix(1);
  return text;
}

Result<void> show(const LogsOptions& options) {
  TAUT_TRY(auto client, options.coordinator.connect());
  TAUT_TRY(const std::string process, process_of(options, client));
  watch_stop_signals();
  const JobId job(options.job);
  bool names_shown = options.follow || !process.empty();
  for (std::uint64_t offset = 0; stop_signal() == 0;) {
    TAUT_TRY(const pb::LogReply part, client.log(job, process, offset));
    const std::string_view text = whole(part.text());
    if (text == "\xc2" && options.follow && !part.ended()) {
      // Its second byte has not been written yet.
      std::this_thread::sleep_for(kBetweenLooks);
      continue;
    }
    // A log may contain control characters, which would move the reader's cursor.
    const std::string shown = text == "\xc2" ? "\\xc2" : printable(text, Lines::kSeveral);
    std::fwrite(shown.data(), 1, shown.size(), stdout);
    std::fflush(stdout);
    offset = part.next() - (part.text().size() - text.size());
    if (!text.empty()) continue;
    if (!names_shown && part.processes_size() > 0) {
      fmt::print(stderr, "logs of this job's processes, with --process: {}\n",
                 fmt::join(part.processes(), ", "));
    }
    names_shown = true;
    if (!options.follow || part.ended()) return ok();
    std::this_thread::sleep_for(kBetweenLooks);
  }
  return ok();
}

}  // namespace

void add_logs(Command& command, int& status) {
  auto options = std::make_shared<LogsOptions>();
  command.whole_number("JOB", options->job, "Number of the job", 1).required();
  command.flag("--follow", options->follow, "Shows further lines until the job ends");
  auto worker = command.whole_number("--worker", options->worker,
                                     "The log of this worker, in place of the coordinator's lines");
  command
      .text("--process", options->process,
            "The log of the process of this name, e.g. server0 or worker1")
      .value("NAME")
      .excludes(worker);
  options->coordinator.add_to(command);
  command.on_run([options, &status] {
    if (const auto done = show(*options); !done) status = fail("logs", done.error().message);
  });
}

}  // namespace taut::cli

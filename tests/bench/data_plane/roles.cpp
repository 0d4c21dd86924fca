#include "tests/bench/data_plane/roles.hpp"

#include <fmt/format.h>

#include <chrono>
#include <fstream>
#include <thread>
#include <utility>

#include "common/time.hpp"

namespace taut::bench {
namespace {

namespace fs = std::filesystem;

fs::path this_program() {
  return fs::read_symlink("/proc/self/exe");
}

/// Waits for a child to end. Errors: timeout.
Result<void> await_end(cli::ChildProcess& child, double limit_s) {
  const TimePoint until = steady_now() + Duration(static_cast<Duration::rep>(limit_s * 1e6));
  while (child.running()) {
    if (steady_now() > until) return make_error(ErrorCode::kTimeout, "a bench worker hangs");
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return ok();
}

}  // namespace

Result<cli::ChildProcess> start_role(std::vector<std::string> arguments, const fs::path& log) {
  return cli::ChildProcess::start({"bench", this_program(), std::move(arguments), log});
}

Result<std::string> first_line(const fs::path& log) {
  for (int i = 0; i < 500; ++i) {
    std::ifstream in(log);
    std::string line;
    if (std::getline(in, line) && !in.eof()) return line;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return make_error(ErrorCode::kTimeout, "the raw ZeroMQ process did not start");
}

Result<void> await_all(std::vector<cli::ChildProcess>& children, double limit_s) {
  for (cli::ChildProcess& child : children) {
    TAUT_TRY(await_end(child, limit_s));
    if (!child.ended_well()) {
      return make_error(ErrorCode::kUnavailable, fmt::format("a bench worker {}; see {}",
                                                             child.ending(), child.log().string()));
    }
  }
  return ok();
}

Result<void> await_workers(ControlClient& control, int workers) {
  for (int i = 0; i < 200; ++i) {
    TAUT_TRY(const pb::StatusReply status, control.status());
    if (status.workers_size() >= workers) return ok();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return make_error(ErrorCode::kTimeout, "the bench workers did not join");
}

pb::Job bench_job(int workers, pb::Consistency::Mode mode) {
  pb::Job job;
  job.set_name("bench");
  job.set_workers(static_cast<std::uint32_t>(workers));
  job.set_reduction(pb::Job::SUM);
  job.mutable_consistency()->set_mode(mode);
  job.mutable_net_param()->set_name("bench");
  job.mutable_solver_param()->set_base_lr(1e-6F);
  job.mutable_solver_param()->set_max_iter(1 << 30);
  return job;
}

}  // namespace taut::bench

#include "cli/child_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

// Boost.Process has changed its interface and its headers: only this file depends on it. Before
// 1.81 asio misses <utility>. The version used here is the first.
#include <utility>
#define BOOST_PROCESS_USE_STD_FS 1
#if __has_include(<boost/process/v1/child.hpp>)
#include <boost/process/v1/args.hpp>
#include <boost/process/v1/child.hpp>
#include <boost/process/v1/extend.hpp>
#include <boost/process/v1/io.hpp>
namespace bp = boost::process::v1;
#else
#include <boost/process/args.hpp>
#include <boost/process/child.hpp>
#include <boost/process/extend.hpp>
#include <boost/process/io.hpp>
namespace bp = boost::process;
#endif

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <system_error>
#include <thread>

#include "common/files/descriptor.hpp"

namespace taut::cli {
namespace {

/// Runs in the child between fork and exec: only async-signal-safe calls.
void prepare_child(pid_t parent, int log, bool shielded) {
  setpgid(0, 0);
  for (const int output : {STDOUT_FILENO, STDERR_FILENO}) dup2(log, output);
  // Blocked or ignored signals would stay so in the new program, and SIGTERM would not end it.
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) signal(number, SIG_DFL);
  if (shielded) {
    for (const int number : {SIGTERM, SIGUSR1}) signal(number, SIG_IGN);
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The parent may have died before the line above; then nothing would end this child.
  if (getppid() != parent) _exit(1);
}

}  // namespace

struct ChildProcess::State {
  std::string name;
  std::filesystem::path log;
  int stop_signal = SIGTERM;
  bp::child child;
};

ChildProcess::ChildProcess(std::unique_ptr<State> state) : state_(std::move(state)) {}
ChildProcess::ChildProcess(ChildProcess&&) noexcept = default;
ChildProcess& ChildProcess::operator=(ChildProcess&&) noexcept = default;

Result<ChildProcess> ChildProcess::start(const Command& command) {
  // An earlier attempt of the same run may have written to it: Boost would overwrite that.
  const Descriptor log(::open(command.log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0660));
  if (log.get() < 0) {
    return make_error(ErrorCode::kIo,
                      fmt::format("cannot start {}: its log {} cannot be written: {}", command.name,
                                  command.log.string(), std::strerror(errno)));
  }
  auto state = std::make_unique<State>();
  state->name = command.name;
  state->log = command.log;
  state->stop_signal = command.shielded ? SIGINT : SIGTERM;
  const pid_t parent = getpid();
  std::error_code failed;
  // The log first: if the parent has no standard input, the log's number is that of the child's
  // input.
  state->child = bp::child(
      command.program.string(), bp::args(command.arguments),
      bp::extend::on_exec_setup =
          [parent, output = log.get(), shielded = command.shielded](auto& /*executor*/) {
            prepare_child(parent, output, shielded);
          },
      bp::std_in < bp::null, failed);
  if (failed) {
    return make_error(
        failed == std::errc::no_such_file_or_directory ? ErrorCode::kNotFound : ErrorCode::kIo,
        fmt::format("cannot start {} as {}, log {}: {}", command.name, command.program.string(),
                    command.log.string(), failed.message()));
  }
  return ChildProcess(std::move(state));
}

ChildProcess::~ChildProcess() {
  if (!state_) return;
  kill();
  std::error_code ignored;
  state_->child.wait(ignored);
}

const std::string& ChildProcess::name() const {
  return state_->name;
}
const std::filesystem::path& ChildProcess::log() const {
  return state_->log;
}
pid_t ChildProcess::pid() const {
  return state_->child.id();
}

bool ChildProcess::running() {
  std::error_code ignored;
  return state_->child.running(ignored);
}

std::string ChildProcess::ending() const {
  const int status = state_->child.native_exit_code();
  if (WIFSIGNALED(status)) {
    return fmt::format("was killed by signal {} ({})", WTERMSIG(status),
                       strsignal(WTERMSIG(status)));
  }
  return fmt::format("exited with status {}", WEXITSTATUS(status));
}

bool ChildProcess::ended_well() const {
  const int status = state_->child.native_exit_code();
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void ChildProcess::terminate() {
  if (!running()) return;
  ::kill(pid(), state_->stop_signal);
  ::kill(pid(), SIGCONT);
}

void ChildProcess::kill() {
  if (running()) ::kill(pid(), SIGKILL);
}

std::vector<std::string> end_all(std::vector<ChildProcess>& children, Duration grace) {
  const auto any_running = [&] {
    bool any = false;
    for (ChildProcess& child : children) any = child.running() || any;
    return any;
  };
  const auto pause = [] { std::this_thread::sleep_for(std::chrono::milliseconds(5)); };
  for (ChildProcess& child : children) child.terminate();
  const TimePoint deadline = steady_now() + grace;
  while (any_running() && steady_now() < deadline) pause();
  std::vector<std::string> killed;
  for (ChildProcess& child : children) {
    if (!child.running()) continue;
    killed.push_back(child.name());
    child.kill();
  }
  while (any_running()) pause();
  return killed;
}

}  // namespace taut::cli

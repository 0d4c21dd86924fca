#pragma once

#include <sys/types.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "common/time.hpp"

namespace taut::cli {

/// A program that this process started. It never outlives this process: the kernel kills it,
/// stopped or not, when this one dies, however that happens. Thread: the one that started it, which
/// must live as long as the child.
class ChildProcess {
 public:
  struct Command {
    std::string name;  // for people: "worker0"
    std::filesystem::path program;
    std::vector<std::string> arguments;
    // Its standard output and standard error are appended to this file.
    std::filesystem::path log;
    // It ignores SIGTERM and SIGUSR1, which an engine such as Slurm sends to every process of a job
    // at once: this one then decides when the child ends.
    bool shielded = false;
  };

  /// Starts it in a separate process group, so that Ctrl-C reaches only this process.
  /// Errors    not_found: no such program; io: the log cannot be written, no more processes
  [[nodiscard]] static Result<ChildProcess> start(const Command& command);
  /// Kills what still runs.
  ~ChildProcess();
  ChildProcess(ChildProcess&&) noexcept;
  ChildProcess& operator=(ChildProcess&&) noexcept;

  [[nodiscard]] const std::string& name() const;
  [[nodiscard]] const std::filesystem::path& log() const;
  [[nodiscard]] pid_t pid() const;
  /// Whether it still runs; reaps a child that has ended.
  [[nodiscard]] bool running();
  /// How it ended: "exited with status 1", "was killed by signal 9 (Killed)".
  /// REQUIRES  !running()
  [[nodiscard]] std::string ending() const;
  /// REQUIRES  !running()
  [[nodiscard]] bool ended_well() const;

  /// Requests its end, also if it is stopped: SIGTERM, or SIGINT if it is shielded.
  void terminate();
  void kill();

 private:
  struct State;
  explicit ChildProcess(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Ends all of them: terminate() at once, SIGKILL for those that still run after `grace`. Returns
/// the names of those that had to be killed, once every one has ended.
std::vector<std::string> end_all(std::vector<ChildProcess>& children, Duration grace);

}  // namespace taut::cli

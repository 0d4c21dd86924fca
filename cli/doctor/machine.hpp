#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/doctor/facts.hpp"
#include "common/net/security.hpp"
#include "common/result.hpp"

namespace taut::cli {

/// The machine as the doctor sees it. Nothing is changed. Thread: main.
class Machine {
 public:
  Machine() = default;
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;
  virtual ~Machine() = default;

  /// Whether "host:port" can be listened on, and which process listens there.
  [[nodiscard]] virtual PortFacts port(const std::string& address) = 0;
  /// Requests a coordinator's status, several times.
  /// Errors    timeout: no answer within wait_s; mismatch: another wire version
  [[nodiscard]] virtual Result<CoordinatorFacts> coordinator(const std::string& address,
                                                             double wait_s) = 0;
  /// Lets another process read memory of this one, as workers and shards do.
  /// Errors    the system call that failed
  [[nodiscard]] virtual Result<void> shared_memory() = 0;
  [[nodiscard]] virtual FolderFacts folder(const std::filesystem::path& path) = 0;
  [[nodiscard]] virtual GpuFacts gpu() = 0;
  [[nodiscard]] virtual HostFacts host() = 0;
  [[nodiscard]] virtual std::vector<LibraryFacts> libraries() = 0;
  [[nodiscard]] virtual std::vector<ProgramFacts> programs() = 0;
};

/// The machine that this process runs on.
/// security  the credentials for the coordinator, or why there are none
[[nodiscard]] std::unique_ptr<Machine> this_machine(Result<Security> security);

// Its parts, one file each.
[[nodiscard]] PortFacts system_port(const std::string& address);
[[nodiscard]] Result<CoordinatorFacts> ask_coordinator(const std::string& address, double wait_s,
                                                       const Security& security);
[[nodiscard]] Result<void> try_shared_memory();
[[nodiscard]] FolderFacts system_folder(const std::filesystem::path& path);
[[nodiscard]] GpuFacts system_gpu();
[[nodiscard]] HostFacts system_host();
[[nodiscard]] std::vector<LibraryFacts> linked_libraries();
[[nodiscard]] std::vector<ProgramFacts> sibling_programs();

}  // namespace taut::cli

#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/result.hpp"

namespace taut::cli {

// Facts about the machine, as found. The checks judge them.

struct PortFacts {
  enum class State : std::uint8_t {
    kFree,
    kHeld,
    kElsewhere,  // the address is another machine's
    kForbidden,  // the system does not let this user listen there
    kUnknown,    // the host's name cannot be resolved
  };
  State state = State::kFree;
  std::string holder{};  // "python3 (process 412)"; empty: unknown
};

/// One request to the coordinator and its answer, in seconds since 1970. `sent` and `received` are
/// read from this machine's clock, `coordinator_s` from the coordinator's; 0: it sends none.
struct ClockReading {
  double sent = 0;
  double received = 0;
  double coordinator_s = 0;
};

struct CoordinatorFacts {
  std::vector<ClockReading> readings{};
  int servers = 0;
  int workers = 0;
  std::vector<std::string> lost{};  // names of those that were declared lost
  int running_jobs = 0;
};

struct FolderFacts {
  std::filesystem::path nearest{};  // the folder itself, or the closest existing one above it
  std::string unwritable{};         // why no file can be created in `nearest`; empty: one can
  std::uint64_t free_bytes = 0;
  std::uint64_t free_files = 0;
};

struct GpuFacts {
  std::string driver{};                // from /proc/driver/nvidia; empty: no driver is loaded
  std::vector<std::string> present{};  // models that the driver lists
  std::string library_error{};  // why libcuda.so.1 cannot be opened or initialized; empty: it can
  int cuda_version = 0;         // the newest that the driver supports: 1000 major + 10 minor
  struct Device {
    std::string name{};
    int capability = 0;  // 10 major + minor
    std::uint64_t bytes = 0;
  };
  std::vector<Device> devices{};
};

struct HostFacts {
  std::string processor{};
  std::vector<std::string> flags{};  // of /proc/cpuinfo
  int processors = 0;                // that this process may run on
  int online_processors = 0;
  double processor_quota = 0;  // of its control group, in processors; 0: none
  std::uint64_t memory_bytes = 0;
  std::uint64_t available_bytes = 0;
  std::uint64_t group_limit_bytes = 0;       // of its control group; 0: none
  std::uint64_t open_files = 0;              // the soft limit
  std::uint64_t open_files_hard = 0;         // the most that it may be raised to
  std::uint64_t address_space = 0;           // bytes; 0: no limit
  std::optional<std::uint64_t> shm_bytes{};  // free in /dev/shm; nullopt if it does not exist
};

struct LibraryFacts {
  std::string name{};
  std::string built_with{};
  std::string running{};  // empty: unknown
};

/// Another program of Tautline, next to this one.
struct ProgramFacts {
  std::string name{};
  Result<std::string> build;  // as it reports
};

}  // namespace taut::cli

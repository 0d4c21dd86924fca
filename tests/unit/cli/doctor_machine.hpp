#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cli/doctor/machine.hpp"

namespace taut::cli {

/// A machine as a test needs it; in order where the test says nothing.
class FakeMachine final : public Machine {
 public:
  PortFacts port(const std::string& address) override {
    probed.push_back(address);
    const auto found = ports.find(address);
    return found == ports.end() ? PortFacts{} : found->second;
  }
  Result<CoordinatorFacts> coordinator(const std::string& /*address*/, double /*wait_s*/) override {
    return cluster;
  }
  Result<void> shared_memory() override { return shared; }
  FolderFacts folder(const std::filesystem::path& path) override {
    const auto found = folders.find(path.string());
    if (found != folders.end()) return found->second;
    return {.nearest = path, .unwritable = "", .free_bytes = 1ULL << 40U, .free_files = 1U << 20U};
  }
  GpuFacts gpu() override { return {}; }
  HostFacts host() override { return {}; }
  std::vector<LibraryFacts> libraries() override { return {}; }
  std::vector<ProgramFacts> programs() override { return {}; }

  std::map<std::string, PortFacts> ports;
  std::map<std::string, FolderFacts> folders;
  Result<CoordinatorFacts> cluster = make_error(ErrorCode::kTimeout, "no process answered");
  Result<void> shared = ok();
  std::vector<std::string> probed;  // addresses
};

}  // namespace taut::cli

#include <chrono>

#include "cli/doctor/machine.hpp"
#include "proto/session/control_client.hpp"

namespace taut::cli {
namespace {

// The shortest of a few round trips was disturbed least.
constexpr int kReadings = 8;

double unix_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

class ThisMachine final : public Machine {
 public:
  explicit ThisMachine(Result<Security> security) : security_(std::move(security)) {}
  PortFacts port(const std::string& address) override { return system_port(address); }
  Result<CoordinatorFacts> coordinator(const std::string& address, double wait_s) override {
    TAUT_TRY(const Security& security, security_);
    return ask_coordinator(address, wait_s, security);
  }
  Result<void> shared_memory() override { return try_shared_memory(); }
  FolderFacts folder(const std::filesystem::path& path) override { return system_folder(path); }
  GpuFacts gpu() override { return system_gpu(); }
  HostFacts host() override { return system_host(); }
  std::vector<LibraryFacts> libraries() override { return linked_libraries(); }
  std::vector<ProgramFacts> programs() override { return sibling_programs(); }

 private:
  const Result<Security> security_;
};

}  // namespace

std::unique_ptr<Machine> this_machine(Result<Security> security) {
  return std::make_unique<ThisMachine>(std::move(security));
}

Result<CoordinatorFacts> ask_coordinator(const std::string& address, double wait_s,
                                         const Security& security) {
  TAUT_TRY(auto client, connect_control(address, wait_s, security));
  CoordinatorFacts facts;
  pb::StatusReply status;
  for (int i = 0; i < kReadings; ++i) {
    const double sent = unix_now();
    TAUT_TRY(status, client.status());
    facts.readings.push_back(
        {.sent = sent, .received = unix_now(), .coordinator_s = status.unix_time_s()});
  }
  facts.servers = status.servers_size();
  facts.workers = status.workers_size();
  for (const pb::ServerStatus& server : status.servers()) {
    if (server.state() == pb::PROCESS_LOST) facts.lost.push_back(server.name());
  }
  for (const pb::WorkerStatus& worker : status.workers()) {
    if (worker.state() == pb::PROCESS_LOST) facts.lost.push_back(worker.name());
  }
  for (const pb::JobStatus& job : status.jobs()) {
    facts.running_jobs += job.state() == pb::RUNNING ? 1 : 0;
  }
  return facts;
}

}  // namespace taut::cli

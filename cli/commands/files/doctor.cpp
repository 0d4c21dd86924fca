#include <fmt/format.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands/shared_options.hpp"
#include "cli/doctor/checks.hpp"
#include "cli/doctor/data_sets.hpp"
#include "cli/install_paths.hpp"
#include "common/files/file.hpp"
#include "proto/config/cluster_config.hpp"
#include "proto/wire_version.hpp"

namespace taut::cli {
namespace {

struct DoctorOptions {
  bool json = false;
  CoordinatorOption coordinator;
};

void append(Findings& findings, Findings more) {
  for (Finding& finding : more) findings.push_back(std::move(finding));
}

/// The config of the daemons here: the file's, or one with every role on this machine.
pb::ClusterConfig config_of(const DoctorOptions& options, Findings& findings) {
  pb::ClusterConfig usual;
  usual.mutable_server()->mutable_coordinator();
  usual.mutable_worker();
  usual.mutable_http();
  const std::string& file = options.coordinator.config_file;
  if (file.empty()) return usual;
  auto config = load_cluster_config(file);
  if (!config) {
    findings.push_back(trouble("config", config.error().message,
                               "correct it; what follows is for the default config"));
    return usual;
  }
  findings.push_back(fine("config", file + " can be read"));
  append(findings, check_config(config.value()));
  return std::move(config).value();
}

CoordinatorAim aim_of(const DoctorOptions& options, const pb::ClusterConfig& config) {
  CoordinatorAim aim{.address = config.coordinator_address(),
                     .wait_s = options.coordinator.wait_s,
                     .must_answer = !config.server().has_coordinator()};
  const char* named = std::getenv("TAUTLINE_COORDINATOR");
  if (!options.coordinator.address.empty()) {
    aim.address = options.coordinator.address;
    aim.must_answer = true;
  } else if (options.coordinator.config_file.empty() && named != nullptr) {
    aim.address = named;
    aim.must_answer = true;
  }
  return aim;
}

Findings examine_data() {
  const auto configs = configs_folder();
  const std::filesystem::path folder = configs ? configs.value() : std::filesystem::path();
  const auto text =
      configs ? read_file(folder / "data_sets.txt") : Result<std::string>(configs.error());
  const auto sets = text ? parse_data_sets(text.value(), (folder / "data_sets.txt").string())
                         : Result<std::vector<DataSet>>(text.error());
  if (!sets) {
    return {warning("data", sets.error().message,
                    "the list of data sets is installed with the configurations: install them")};
  }
  std::vector<DataSetFacts> facts;
  for (const DataSet& set : sets.value()) facts.push_back(examine(set, places_of(set, folder)));
  return check_data(facts);
}

Findings examine_all(const DoctorOptions& options, Machine& machine) {
  Findings findings;
  const pb::ClusterConfig config = config_of(options, findings);
  // First: asking a coordinator starts threads, and this one makes a process.
  Findings shared = check_shared_memory(config, machine);
  append(findings, check_versions(machine.libraries(), machine.programs(), build_name()));
  bool answers = false;
  append(findings, check_coordinator(aim_of(options, config), machine, answers));
  append(findings, check_ports(config, answers, machine));
  append(findings, std::move(shared));
  append(findings, check_disk(config, machine));
  append(findings, check_host(config, machine.host()));
  append(findings, check_gpu(config, machine.gpu()));
  append(findings, examine_data());
  return findings;
}

void run(const DoctorOptions& options, int& status) {
  const auto machine = this_machine(options.coordinator.security());
  const Findings findings = examine_all(options, *machine);
  if (options.json) {
    fmt::print("{}\n", findings_json(findings));
  } else {
    for (const std::string& line : findings_lines(findings)) fmt::print("{}\n", line);
  }
  if (worst(findings) == Verdict::kTrouble) status = kFailed;
}

}  // namespace

void add_doctor(Command& command, int& status) {
  auto options = std::make_shared<DoctorOptions>();
  options->coordinator.wait_s = 2;
  options->coordinator.add_to(command);
  command.flag("--json", options->json, "Prints one JSON object on a line");
  command.on_run([options, &status] { run(*options, status); });
}

}  // namespace taut::cli

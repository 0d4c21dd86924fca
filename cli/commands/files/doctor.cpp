#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cli/checkpoint_paths.hpp"
#include "cli/commands/shared_options.hpp"
#include "cli/doctor/checks.hpp"
#include "cli/doctor/cluster_doctor.hpp"
#include "cli/doctor/data_sets.hpp"
#include "cli/doctor/job_needs.hpp"
#include "cli/install_paths.hpp"
#include "common/files/file.hpp"
#include "proto/config/cluster_config.hpp"
#include "proto/wire_version.hpp"
#include "worker/model/job/job.hpp"
#include "worker/model/weights.hpp"

namespace taut::cli {
namespace {

constexpr auto kBetweenLooks = std::chrono::milliseconds(20);
constexpr std::uint64_t kMaxTransferBytes = 64ULL << 20U;

struct DoctorOptions {
  bool json = false;
  bool cluster = false;
  std::string job_file;
  std::vector<std::string> paths;
  std::uint64_t transfer_bytes = kUsualTransferBytes;
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
  const std::string named = environment_variable("TAUTLINE_COORDINATOR");
  if (!options.coordinator.address.empty()) {
    aim.address = options.coordinator.address;
    aim.must_answer = true;
  } else if (options.coordinator.config_file.empty() && !named.empty()) {
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
  // First, since a request to a coordinator starts threads, and this check forks a process.
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

/// The needs of the named job, with the paths that the user names.
Result<JobNeeds> needs_of(const DoctorOptions& options) {
  JobNeeds needs;
  if (!options.job_file.empty()) {
    TAUT_TRY(pb::Job job, model::load_job(options.job_file));
    settle_checkpoint_paths("checkpoints", job);
    settle_last_checkpoint(job);
    TAUT_TRY(model::settle_weights(options.job_file, options.job_file, job));
    TAUT_TRY(needs, cli::needs_of(job));
  }
  for (const std::string& path : options.paths) {
    needs.paths.push_back({NeededPath::Use::kShared, absolute_path(path)});
  }
  pb::ClusterConfig config;
  if (!options.coordinator.config_file.empty()) {
    TAUT_TRY(config, load_cluster_config(options.coordinator.config_file));
  }
  const pb::ReplicationConfig& replication = config.server().coordinator().replication();
  needs.backups = replication.interval() > 0 ? replication.copies() : 0;
  return needs;
}

Result<Findings> examine_nodes(const DoctorOptions& options, const JobNeeds& needs) {
  TAUT_TRY(auto client, options.coordinator.connect());
  TAUT_TRY(const ClusterFacts cluster,
           examine_cluster(client, needs, static_cast<std::uint32_t>(options.transfer_bytes),
                           kExamineWait_s, [] {
                             std::this_thread::sleep_for(kBetweenLooks);
                             return ok();
                           }));
  return judge_cluster(cluster, needs, build_name());
}

Findings examine_all_nodes(const DoctorOptions& options) {
  const auto needs = needs_of(options);
  if (!needs) return {trouble("job", needs.error().message, "correct it and run this again")};
  const auto findings = examine_nodes(options, needs.value());
  if (findings) return findings.value();
  return {trouble("coordinator", findings.error().message,
                  "see that the server with coordinator {} runs, and that this command's key is "
                  "one of a role that may submit")};
}

void run(const DoctorOptions& options, int& status) {
  if (!options.cluster && (!options.job_file.empty() || !options.paths.empty())) {
    throw UsageError("JOB and --path are for --cluster: what the nodes are examined for");
  }
  Findings findings;
  if (options.cluster) {
    findings = examine_all_nodes(options);
  } else {
    const auto machine = this_machine(options.coordinator.security());
    findings = examine_all(options, *machine);
  }
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
  command
      .text("JOB", options->job_file,
            "With --cluster: the job to train, whose paths and memory are checked")
      .value("FILE");
  command.flag("--cluster", options->cluster,
               "Checks every server and worker of a running cluster: reachable shards, keys, "
               "clocks, paths, rates");
  command
      .texts("--path", options->paths,
             "With --cluster: a folder or file that must be the same for every process")
      .value("PATH");
  command
      .byte_size("--transfer", options->transfer_bytes,
                 "With --cluster: the bytes that each process sends to each shard, up to 64MiB")
      .check([](const std::string& text) {
        std::uint64_t bytes = 0;
        std::string wrong = command_line::check_byte_size(text, bytes);
        if (wrong.empty() && bytes > kMaxTransferBytes) wrong = "must be at most 64MiB, is " + text;
        return wrong;
      })
      .by_default("8MiB");
  command.flag("--json", options->json, "Prints one JSON object on a line");
  command.on_run([options, &status] { run(*options, status); });
}

}  // namespace taut::cli

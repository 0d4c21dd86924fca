// tautline-worker: trains jobs on this machine's device, as a member of a cluster or alone.
#include <cstdint>
#include <cstdio>
#include <exception>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "common/command_line/program.hpp"
#include "common/files/file.hpp"
#include "common/log.hpp"
#include "common/system/descriptor_limit.hpp"
#include "common/system/memory.hpp"
#include "common/system/rack_name.hpp"
#include "common/system/stop_signal.hpp"
#include "common/timeline.hpp"
#include "proto/config/cluster_config.hpp"
#include "proto/config/experiment_check.hpp"
#include "proto/config/text.hpp"
#include "proto/session/timeline_switch.hpp"
#include "proto/wire_version.hpp"
#include "worker/local_run.hpp"
#include "worker/model/job/job.hpp"
#include "worker/model/weights.hpp"
#include "worker/tools/run_tool.hpp"
#include "worker/worker_daemon.hpp"

namespace {

constexpr std::uint64_t kMaxReplicas = 1024;
constexpr std::uint64_t kMaxThreads = 1024;
constexpr std::uint64_t kMaxDeviceIndex = 1023;

struct Arguments {
  std::string config;
  std::string name;
  std::string ready_file;
  std::string rack;
  std::vector<std::string> stragglers;
  std::optional<double> clock_time_ms;
  bool with_parent = false;
  std::string local_job;
  std::uint32_t replicas = 1;
  int threads = 1;
  std::string device = "auto";
  int device_index = 0;
  int max_iter = 0;
  std::string data;
  std::vector<std::string> weights;
  std::string tool;
  std::string speaks_as = "tautline-worker";
  std::uint64_t budget = 0;
  bool only_plan = false;
  std::string records;
};

/// Reports once why the process ends: in the log if that is a file, and on the terminal.
void print_failure(const Arguments& arguments, const std::string& failure, bool log_is_file) {
  if (log_is_file) taut::log::error("{}", failure);
  std::fprintf(stderr, "%s: %s\n", arguments.speaks_as.c_str(), failure.c_str());
}

/// Overrides the configuration with the command line's options for experiments.
taut::Result<void> put_over(const Arguments& arguments, taut::pb::WorkerConfig& worker) {
  using namespace taut;
  for (const std::string& text : arguments.stragglers) {
    TAUT_TRY(*worker.add_straggler(), parse_straggler(text, "--straggler"));
  }
  if (arguments.clock_time_ms) worker.set_clock_time_ms(*arguments.clock_time_ms);
  return check_experiment(worker, "");
}

taut::Result<void> work(const Arguments& arguments, bool& log_is_file) {
  using namespace taut;
  TAUT_TRY(pb::ClusterConfig config, load_cluster_config(arguments.config));
  if (!arguments.name.empty()) config.mutable_worker()->set_name(arguments.name);
  TAUT_TRY(put_over(arguments, *config.mutable_worker()));
  TAUT_TRY(log::start(log_options(config, "worker", config.worker().name())));
  log_is_file = !config.log().file().empty();
  if (config.insecure()) {
    log::warn("insecure: true: any process that answers at the coordinator's address is trusted");
  }
  TAUT_TRY(limit_files(config, arguments.ready_file));
  switch_timeline(config.records().timeline(), config.records(), config.worker().name());
  TAUT_TRY(auto daemon, worker::WorkerDaemon::start(config, arguments.rack));
  log::info("{}", build_name());
  return daemon->run([&]() -> Result<void> {
    if (arguments.ready_file.empty()) return ok();
    std::string ready = "worker " + config.worker().name() + "\n";
    if (!daemon->http_address().empty()) ready += "http " + daemon->http_address() + "\n";
    return write_file_atomically(arguments.ready_file, ready);
  });
}

taut::Result<void> work_alone(const Arguments& arguments) {
  using namespace taut;
  log::Options log_to;
  log_to.role = "worker";
  log_to.name = "alone";
  TAUT_TRY(log::start(log_to));
  TAUT_TRY(pb::Job job, model::load_job(arguments.local_job));
  if (arguments.max_iter > 0) job.mutable_solver_param()->set_max_iter(arguments.max_iter);
  if (!arguments.data.empty()) {
    job.clear_data();
    job.add_data()->set_folder(arguments.data);
  }
  if (!arguments.weights.empty()) job.clear_weights();
  for (const std::string& file : arguments.weights) job.add_weights(file);
  TAUT_TRY(model::settle_weights(arguments.local_job, arguments.local_job, job));
  TAUT_TRY(const auto warnings, model::check_job_itself(job));
  for (const std::string& warning : warnings) log::warn("{}", warning);
  BackendOptions options;
  options.threads = arguments.threads;
  options.device = arguments.device == "cpu"    ? DeviceKind::kCpu
                   : arguments.device == "cuda" ? DeviceKind::kCuda
                                                : DeviceKind::kAuto;
  options.cuda_device = arguments.device_index;
  TAUT_TRY(const BackendChoice choice, make_backend(options));
  log::info("{}", choice.reason);
  worker::LocalRunOptions run;
  run.replicas = arguments.replicas;
  run.budget = Bytes(arguments.budget);
  run.only_plan = arguments.only_plan;
  run.records = arguments.records;
  return worker::run_locally(job, *choice.backend, run);
}

/// Runs the request of `tautline test`, `predict` or `sample`.
taut::Result<void> use_model(const Arguments& arguments) {
  using namespace taut;
  log::Options log_to;
  log_to.role = "worker";
  log_to.name = "alone";
  log_to.level = "warn";
  TAUT_TRY(log::start(log_to));
  pb::ToolRequest request;
  TAUT_TRY(parse_text(arguments.tool, "--tool", request));
  BackendOptions options;
  options.threads = arguments.threads;
  TAUT_TRY(const BackendChoice choice, make_backend(options));
  return worker::run_tool(request, *choice.backend);
}

taut::Result<void> run(const Arguments& arguments, bool& log_is_file) {
  if (!arguments.tool.empty()) return use_model(arguments);
  return arguments.local_job.empty() ? work(arguments, log_is_file) : work_alone(arguments);
}

void add_daemon_options(taut::command_line::Command& command, Arguments& arguments) {
  command.text("--name", arguments.name, "Overrides worker.name")
      .check([](const std::string& name) {
        return std::string(name.empty() ? "must not be empty" : "");
      });
  command
      .text("--ready-file", arguments.ready_file,
            "Written once the coordinator has accepted this worker")
      .value("FILE");
  command
      .text("--rack", arguments.rack,
            "With --config: the rack or switch of this machine; jobs prefer workers of one rack")
      .value("NAME")
      .check(taut::check_rack);
  command.flag("--end-with-parent", arguments.with_parent, "Ends when the parent process does");
  command
      .texts("--straggler", arguments.stragglers,
             "With --config, for experiments: slows this worker down, e.g. \"slowdown: 3 burst { "
             "period: 100 length: 30 }\"; may be given several times")
      .check([](const std::string& text) {
        const auto straggler = taut::parse_straggler(text, "TEXT");
        return straggler ? std::string() : straggler.error().message;
      });
  command.number("--clock-time", arguments.clock_time_ms,
                 "With --config, for experiments: the shortest time of a clock", "MS", {});
}

void add_local_options(taut::command_line::Command& command, Arguments& arguments) {
  command.whole_number("--replicas", arguments.replicas,
                       "With --local: computes the sums of this many workers", 1, kMaxReplicas);
  command.whole_number("--threads", arguments.threads, "With --local: compute threads", 1,
                       kMaxThreads);
  command.one_of("--device", arguments.device,
                 "With --local: auto uses the CPU if no CUDA device works",
                 {"auto", "cpu", "cuda"});
  command.whole_number("--device-index", arguments.device_index,
                       "With --local: which of the machine's CUDA devices", 0, kMaxDeviceIndex);
  command.whole_number("--max-iter", arguments.max_iter, "With --local: overrides the solver's", 1);
  command
      .texts("--weights", arguments.weights,
             "With --local: starts from trained parameters (.safetensors, .caffemodel, .h5)")
      .separated_by_commas()
      .value("FILE");
  command.text("--data", arguments.data, "With --local: the data set's folder").value("DIR");
  command
      .text("--records", arguments.records,
            "With --local: writes metrics.csv into this folder, below the worker's name")
      .value("DIR");
  auto budget = command.byte_size("--device-memory-budget", arguments.budget,
                                  "With --local: device memory that may be used, e.g. 64MiB; the "
                                  "rest is swapped to the host's");
  command
      .flag("--plan", arguments.only_plan,
            "With --local: prints how the training keeps to the budget, and does not train")
      .needs(budget);
  // Not for people: `tautline` starts it so, and failures are printed in that command's name.
  command.text("--tool", arguments.tool, "").hidden();
  command.text("--speaks-as", arguments.speaks_as, "").hidden();
}

taut::command_line::ManNotes man_notes() {
  return {
      .version = taut::build_name(),
      .purpose = "trains jobs on this machine's device",
      .description =
          "One process of a Tautline cluster, or with --local a training without a cluster. It "
          "draws its share of the data, computes gradients, pushes them to the servers and reads "
          "parameters within the job's staleness bound.",
      .environment = {},
      .see_also = {"tautline", "tautline-server"}};
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  taut::command_line::Program program(
      "tautline-worker",
      "Tautline's worker: trains jobs as a member of a cluster, or one job alone",
      "Examples:\n"
      "  tautline-worker --config configs/clusters/local.textproto --name w1\n"
      "  tautline-worker --local configs/jobs/fashion_lenet.textproto --replicas 2",
      man_notes());
  taut::command_line::Command command = program.command();
  auto config = command.text("--config", arguments.config, "The daemon's config, text protobuf")
                    .value("CLUSTERFILE");
  command
      .text("--local", arguments.local_job,
            "Trains this job in this process, without a server, and prints the result")
      .value("FILE")
      .excludes(config);
  add_daemon_options(command, arguments);
  add_local_options(command, arguments);
  if (const auto status = program.parse(argc, argv)) return *status;
  const bool has_work =
      !arguments.config.empty() || !arguments.local_job.empty() || !arguments.tool.empty();
  if (!has_work) {
    std::fprintf(stderr, "tautline-worker: give --config or --local; see tautline-worker --help\n");
    return taut::command_line::kUsage;
  }
  taut::keep_freed_memory();
  taut::raise_descriptor_limit();
  taut::silence_protobuf();
  taut::settle_process_signals(arguments.with_parent);
  if (!arguments.config.empty()) taut::watch_stop_signals();
  std::string failure;
  bool log_is_file = false;
  try {
    auto worked = run(arguments, log_is_file);
    if (!worked) failure = worked.error().message;
  } catch (const std::exception& fault) {
    failure = fault.what();
  }
  if (!failure.empty()) print_failure(arguments, failure, log_is_file);
  taut::timeline::stop();
  taut::log::stop();
  return failure.empty() ? 0 : 1;
}

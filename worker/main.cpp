// tautline-worker: trains jobs on this machine's device, as a member of a cluster or alone.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/file.hpp"
#include "common/log.hpp"
#include "common/memory.hpp"
#include "common/stop_signal.hpp"
#include "common/timeline.hpp"
#include "proto/cluster_config.hpp"
#include "proto/experiment_check.hpp"
#include "proto/text.hpp"
#include "proto/timeline_switch.hpp"
#include "proto/wire_version.hpp"
#include "worker/local_run.hpp"
#include "worker/model/job.hpp"
#include "worker/model/weights.hpp"
#include "worker/tools/run_tool.hpp"
#include "worker/worker_daemon.hpp"

namespace {

struct Arguments {
  std::string config;
  std::string name;
  std::string ready_file;
  std::vector<std::string> stragglers;
  std::optional<double> clock_time_ms;
  bool with_parent = false;
  std::string local_job;
  std::uint32_t replicas = 1;
  int threads = 1;
  taut::DeviceKind device = taut::DeviceKind::kAuto;
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

/// Prints why the process ends, once: in the log where that is a file, and on the terminal.
void print_failure(const Arguments& arguments, const std::string& failure, bool log_is_file) {
  if (log_is_file) taut::log::error("{}", failure);
  std::fprintf(stderr, "%s: %s\n", arguments.speaks_as.c_str(), failure.c_str());
}

/// Puts what an experiment asks for over the config.
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
  switch_timeline(config.records().timeline(), config.records(), config.worker().name());
  TAUT_TRY(auto daemon, worker::WorkerDaemon::start(config));
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
  options.device = arguments.device;
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

/// What `tautline test`, `predict` and `sample` start this program for.
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

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("Tautline's worker: trains jobs as a member of a cluster, or one job alone.");
  app.footer(
      "Examples:\n"
      "  tautline-worker --config configs/clusters/local.textproto --name w1\n"
      "  tautline-worker --local configs/jobs/fashion_lenet.textproto --replicas 2");
  auto* config = app.add_option("--config", arguments.config, "The daemon's config, text protobuf");
  auto* local = app.add_option("--local", arguments.local_job,
                               "Train this job in this process, without a server, and print the "
                               "result");
  config->excludes(local);
  app.add_option("--name", arguments.name, "Overrides worker.name");
  app.add_option("--ready-file", arguments.ready_file,
                 "Written once the coordinator has accepted this worker");
  app.add_flag("--end-with-parent", arguments.with_parent, "End when the parent process does");
  app.add_option("--straggler", arguments.stragglers,
                 "With --config, for experiments: slows this worker down, e.g. \"slowdown: 3 burst "
                 "{ period: 100 length: 30 }\"; may be given several times")
      ->type_name("TEXT");
  app.add_option("--clock-time", arguments.clock_time_ms,
                 "With --config, for experiments: makes every clock at least so long")
      ->type_name("MS");
  app.add_option("--replicas", arguments.replicas, "With --local: do the sums of so many workers")
      ->check(CLI::Range(1, 1024));
  app.add_option("--threads", arguments.threads, "With --local: compute threads")
      ->check(CLI::Range(1, 1024));
  const std::map<std::string, taut::DeviceKind> devices{{"auto", taut::DeviceKind::kAuto},
                                                        {"cpu", taut::DeviceKind::kCpu},
                                                        {"cuda", taut::DeviceKind::kCuda}};
  app.add_option("--device", arguments.device,
                 "With --local: auto, cpu or cuda; auto takes the CPU where no CUDA device works")
      ->transform(CLI::CheckedTransformer(devices, CLI::ignore_case));
  app.add_option("--device-index", arguments.device_index,
                 "With --local: which of the machine's CUDA devices")
      ->check(CLI::Range(0, 1023));
  app.add_option("--max-iter", arguments.max_iter, "With --local: overrides the solver's");
  app.add_option("--weights", arguments.weights,
                 "With --local: begins with trained parameters (.safetensors, .caffemodel)")
      ->delimiter(',')
      ->type_name("FILE");
  app.add_option("--data", arguments.data, "With --local: the data set's folder");
  app.add_option("--records", arguments.records,
                 "With --local: writes metrics.csv into a folder of this one")
      ->type_name("DIR");
  app.set_version_flag("--version", taut::build_name());
  // Not for people: `tautline` starts it so, and what fails is said in that command's name.
  app.add_option("--tool", arguments.tool)->group("");
  app.add_option("--speaks-as", arguments.speaks_as)->group("");
  auto* budget = app.add_option("--device-memory-budget", arguments.budget,
                                "With --local: bytes of device memory, e.g. 64MiB; what does not "
                                "fit is swapped to the host's")
                     ->transform(CLI::AsSizeValue(false))
                     ->type_name("SIZE");
  app.add_flag("--plan", arguments.only_plan,
               "With --local: print how the training keeps to the budget, and do not train")
      ->needs(budget);
  CLI11_PARSE(app, argc, argv);
  const bool has_work =
      !arguments.config.empty() || !arguments.local_job.empty() || !arguments.tool.empty();
  if (!has_work) {
    std::fprintf(stderr, "tautline-worker: give --config or --local; see --help\n");
    return 2;
  }
  taut::keep_freed_memory();
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

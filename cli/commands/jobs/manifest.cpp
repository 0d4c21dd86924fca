#include "cli/manifest/manifest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>

#include "cli/checkpoint_paths.hpp"
#include "cli/commands/job_arguments.hpp"
#include "cli/commands/shared_options.hpp"
#include "cli/job_records.hpp"
#include "cli/manifest/object_name.hpp"
#include "cli/manifest/pod_paths.hpp"
#include "proto/wire_version.hpp"
#include "worker/model/job/job.hpp"
#include "worker/model/layer_place.hpp"

namespace taut::cli {
namespace {

/// The options as they were typed.
struct ManifestArguments {
  std::string job_file;
  std::string keys;
  JobOptions job;
  ManifestOptions options;
  DataSecurityOption data_security;
};

/// The job as pods train it; its warnings are printed.
/// Errors    the job
Result<pb::Job> job_for_pods(ManifestArguments& arguments) {
  TAUT_TRY(pb::Job job, model::load_job(arguments.job_file));
  put_over(arguments.job, job);
  if (job.external_members()) {
    return invalid("its members are external programs, for which there is no image here");
  }
  ManifestOptions& options = arguments.options;
  options.workers = std::max(1U, job.workers());
  if (options.name.empty()) options.name = object_name(job.name());
  const JobRecords known = records_of(job);
  TAUT_TRY(const auto warnings, known.unknown.empty() ? model::check_job(job, known.records)
                                                      : model::check_job_itself(job));
  for (const std::string& warning : warnings) fmt::print(stderr, "warning: {}\n", warning);
  settle_in_pods(options, job);
  TAUT_TRY(const auto closed, closed_paths(options, job));
  for (const std::string& line : closed) fmt::print(stderr, "warning: {}\n", line);
  return job;
}

Result<void> write(ManifestArguments& arguments) {
  TAUT_TRY(const pb::Job job, job_for_pods(arguments));
  const ManifestOptions& options = arguments.options;
  ManifestKeys keys;
  if (!arguments.keys.empty()) {
    TAUT_TRY(keys, keys_for_pods(arguments.keys, options.servers, options.workers));
  }
  TAUT_TRY(const std::string text,
           manifests(options, job, arguments.keys.empty() ? nullptr : &keys));
  if (options.data_claim.empty()) {
    fmt::print(stderr,
               "warning: without --data-claim the pods have no data but what is in the image\n");
  }
  if (options.runs_claim.empty()) {
    fmt::print(stderr,
               "warning: without --runs-claim checkpoints are gone with their pods, and servers do "
               "not see each other's\n");
  }
  fmt::print("{}", text);
  return ok();
}

void check_monitor(const ManifestOptions& options) {
  if (options.open_metrics || !options.monitor) return;
  throw UsageError(
      "--monitor: Prometheus reaches only metrics that are served on the pods' addresses, without "
      "a login: add --open-metrics if every pod of the network may read them");
}

void check_names(const ManifestOptions& options) {
  if (!options.name.empty() && object_name(options.name) != options.name) {
    throw UsageError(
        fmt::format("--name: {} must be lower case letters, digits and '-', at most 40 of "
                    "them and a letter first, e.g. {}",
                    command_line::in_quotes(options.name), object_name(options.name)));
  }
  if (!options.name_space.empty() && !is_namespace_name(options.name_space)) {
    throw UsageError(
        fmt::format("--namespace: {} must be lower case letters, digits and '-', at most 63 of "
                    "them, without a '-' first or last",
                    command_line::in_quotes(options.name_space)));
  }
  const auto check_claim = [](const char* option, const std::string& name) {
    if (name.empty() || is_claim_name(name)) return;
    throw UsageError(
        fmt::format("{}: {} must be lower case letters, digits, '-' and '.', at most 253 of them, "
                    "with a letter or a digit first, last and around each '.'",
                    option, command_line::in_quotes(name)));
  };
  check_claim("--data-claim", options.data_claim);
  check_claim("--runs-claim", options.runs_claim);
  const auto is_plain = [](unsigned char letter) {
    return std::isalnum(letter) != 0 ||
           std::string_view("._-/:@").find(static_cast<char>(letter)) != std::string_view::npos;
  };
  if (options.image.empty() || !std::ranges::all_of(options.image, is_plain)) {
    throw UsageError(
        fmt::format("--image: {} is not the name of an image, such as "
                    "registry.example.org/tautline:0.1.0",
                    command_line::in_quotes(options.image)));
  }
}

void add_sizes(Command& command, ManifestOptions& options) {
  constexpr std::uint64_t kMaxGpus = 64;
  constexpr std::uint64_t kMaxThreads = 1024;
  constexpr std::uint64_t kMaxNotice_s = 86400;
  command.whole_number("--servers", options.servers, "Server pods", 1, kMaxProcesses)
      .by_default("1");
  command
      .whole_number("--shards", options.shards, "Shards (threads) of each server", 1, kMaxProcesses)
      .by_default("1");
  command
      .whole_number("--gpus", options.gpus, "GPUs of each worker pod; 0: it computes on the CPU", 0,
                    kMaxGpus)
      .by_default("0");
  command
      .whole_number("--threads", options.threads, "Compute threads of each worker on the CPU", 1,
                    kMaxThreads)
      .by_default("1");
  command.byte_size("--server-memory", options.server_memory, "Memory of each server pod")
      .by_default("4GiB");
  command.byte_size("--worker-memory", options.worker_memory, "Memory of each worker pod")
      .by_default("4GiB");
  command
      .whole_number("--notice", options.notice_s,
                    "Seconds for a pod that is asked to terminate to hand its work over", 0,
                    kMaxNotice_s)
      .by_default("60");
}

}  // namespace

void add_manifest(Command& command, int& status) {
  auto arguments = std::make_shared<ManifestArguments>();
  ManifestOptions& options = arguments->options;
  options.image = "tautline:" + release_version();
  command.text("JOB", arguments->job_file, "Job or solver file").required().value("FILE");
  add_job_options(command, std::shared_ptr<JobOptions>(arguments, &arguments->job));
  command.text("--name", options.name, "Name of the JobSet (default: the job's)").value("NAME");
  command
      .text("--namespace", options.name_space,
            "Namespace of the objects (default: the one in which they are applied)")
      .value("NAME");
  command.text("--image", options.image, "The container's image")
      .value("IMAGE")
      .by_default(options.image);
  add_sizes(command, options);
  arguments->data_security.add_to(command);
  command
      .text("--data-claim", options.data_claim,
            "A PersistentVolumeClaim with the data set's files, which is mounted at /data")
      .value("CLAIM");
  command
      .text("--runs-claim", options.runs_claim,
            "A PersistentVolumeClaim that all pods may write, for checkpoints and records, mounted "
            "at /runs")
      .value("CLAIM");
  command
      .text("--keys", arguments->keys,
            "A folder of keys: missing keys for the pods are made there, and all are printed as "
            "Secrets")
      .value("DIR");
  command.flag("--open-metrics", options.open_metrics,
               "Serves /metrics of servers and workers on the pods' addresses without a login, "
               "instead of on their loopback with one");
  command.flag("--monitor", options.monitor,
               "With a PodMonitor, for the Prometheus operator; needs --open-metrics");
  command.on_run([arguments, &status] {
    check_job_options(arguments->job);
    check_names(arguments->options);
    check_monitor(arguments->options);
    arguments->options.data_security = arguments->data_security.value();
    const Result<void> done = write(*arguments);
    if (!done) {
      status = fail("manifest", model::with_layer_place(arguments->job_file, done.error().message));
    }
  });
}

}  // namespace taut::cli

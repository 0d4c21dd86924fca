#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <string>

#include "cli/commands/job_arguments.hpp"
#include "cli/commands/shared_options.hpp"
#include "cli/views/settings_text.hpp"
#include "proto/cluster.pb.h"
#include "proto/config/text.hpp"
#include "worker/model/job/field_places.hpp"
#include "worker/model/job/file_kind.hpp"
#include "worker/model/job/job.hpp"

namespace taut::cli {
namespace {

struct ShowOptions {
  std::string file;
  JobOptions job;
};

Result<void> print(const std::string& file, const google::protobuf::Message& effective,
                   const google::protobuf::Message& from_file) {
  TAUT_TRY(const auto places, model::field_places(file));
  // Settings that no file contains, such as a job's name, follow from the file that was named.
  const auto place_of = [&](const std::string& field) {
    const auto found = places.find(field);
    return found == places.end() ? file : found->second;
  };
  for (const std::string& line : settings_text(effective, from_file, place_of)) {
    fmt::print("{}\n", line);
  }
  return ok();
}

/// Throws UsageError for options of a job with a cluster file.
Result<void> show(const ShowOptions& options) {
  TAUT_TRY(const model::FileKind kind, model::file_kind(std::filesystem::path(options.file)));
  if (kind == model::FileKind::kCluster) {
    pb::Job typed;
    put_over(options.job, typed);
    if (typed.ByteSizeLong() > 0) {
      throw UsageError(
          fmt::format("{} is a cluster file, and the options are put over a job", options.file));
    }
    pb::ClusterConfig config;
    TAUT_TRY(read_text(options.file, config));
    return print(options.file, config, config);
  }
  TAUT_TRY(const pb::Job file, model::load_job(options.file));
  pb::Job effective = file;
  put_over(options.job, effective);
  return print(options.file, effective, file);
}

}  // namespace

void add_config(Command& config, int& status) {
  config.require_command();
  Command command = config.command(
      "show",
      "Prints every setting in effect and its origin: a flag, a line of a file or a default",
      "Example: tautline config show configs/jobs/fashion_lenet.textproto --slack 3");
  auto options = std::make_shared<ShowOptions>();
  command.text("FILE", options->file, "Job, solver or cluster file").required().value("FILE");
  add_job_options(command, std::shared_ptr<JobOptions>(options, &options->job));
  command.on_run([options, &status] {
    check_job_options(options->job);
    const Result<void> done = show(*options);
    if (!done) status = fail("config show", done.error().message);
  });
}

}  // namespace taut::cli

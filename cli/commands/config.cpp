#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <string>

#include "cli/commands/command.hpp"
#include "cli/commands/job_arguments.hpp"
#include "cli/views/settings_text.hpp"
#include "proto/cluster.pb.h"
#include "proto/config/text.hpp"
#include "worker/model/file_kind.hpp"
#include "worker/model/job.hpp"

namespace taut::cli {
namespace {

struct ShowOptions {
  std::string file;
  JobOptions job;
};

void print(const google::protobuf::Message& effective, const google::protobuf::Message& file) {
  for (const std::string& line : settings_text(effective, file)) fmt::print("{}\n", line);
}

Result<void> show(const ShowOptions& options) {
  TAUT_TRY(const model::FileKind kind, model::file_kind(std::filesystem::path(options.file)));
  if (kind == model::FileKind::kCluster) {
    pb::ClusterConfig config;
    TAUT_TRY(read_text(options.file, config));
    print(config, config);
    return ok();
  }
  TAUT_TRY(const pb::Job file, model::load_job(options.file));
  pb::Job effective = file;
  put_over(options.job, effective);
  print(effective, file);
  return ok();
}

}  // namespace

void add_config(Command& config, int& status) {
  config.require_command();
  Command command = config.command(
      "show",
      "Prints every setting that is in force, and whether it is from a flag, the file or a "
      "default",
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

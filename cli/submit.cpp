#include <fmt/format.h>

#include <memory>
#include <string>

#include "cli/command.hpp"
#include "cli/control_client.hpp"
#include "worker/model/job.hpp"

namespace taut::cli {
namespace {

struct SubmitOptions {
  std::string job_file;
  CoordinatorOption coordinator;
};

Result<pb::SubmitReply> submit(const SubmitOptions& options) {
  TAUT_TRY(const std::string address, options.coordinator.resolve());
  TAUT_TRY(const pb::Job job, model::load_job(options.job_file));
  TAUT_TRY(auto client, connect_control(address, options.coordinator.wait_s));
  return client.submit(job);
}

}  // namespace

void add_submit(CLI::App& app, int& status) {
  auto options = std::make_shared<SubmitOptions>();
  CLI::App* command = app.add_subcommand("submit", "Hands a job to the coordinator");
  command->add_option("JOB", options->job_file, "Job file; the files it names go along")
      ->required();
  options->coordinator.add_to(*command);
  command->footer("Example: tautline submit configs/jobs/fashion_lenet.textproto");
  command->callback([options, &status] {
    const Result<pb::SubmitReply> reply = submit(*options);
    if (!reply) {
      status = fail("submit", reply.error().message);
      return;
    }
    const auto job = reply.value().job();
    fmt::print("job {} submitted; tautline status {} --watch follows it\n", job, job);
    if (!reply.value().message().empty()) fmt::print("{}\n", reply.value().message());
  });
}

}  // namespace taut::cli

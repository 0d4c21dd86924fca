#include "cli/commands/job_arguments.hpp"

#include <fmt/format.h>

#include <cctype>
#include <limits>
#include <utility>

#include "proto/config/experiment_check.hpp"

namespace taut::cli {
namespace {

std::string lower(std::string word) {
  for (char& c : word) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return word;
}

void add_mode(Command& command, const std::shared_ptr<JobOptions>& options) {
  const std::vector<std::string> words{"bsp", "ssp", "async"};
  const auto set = [options](const std::string& word) {
    for (const auto mode : {pb::Consistency::BSP, pb::Consistency::SSP, pb::Consistency::ASYNC}) {
      if (lower(pb::Consistency::Mode_Name(mode)) == word) options->mode = mode;
    }
  };
  command.text("--mode", set, "How reads are bounded (default: the job's)")
      .value("bsp|ssp|async")
      .check([words](const std::string& word) { return command_line::check_word(word, words); });
}

}  // namespace

std::string check_slack(const std::string& text) {
  if (parse_slack(text)) return {};
  return fmt::format("must be a number of clocks from 0 to {}, or async, is {}",
                     std::numeric_limits<std::uint32_t>::max(), command_line::in_quotes(text));
}

command_line::Option slack_option(Command& command, const std::string& name,
                                  std::optional<Slack>& slack, const std::string& help) {
  const auto set = [&slack](const std::string& text) { slack = parse_slack(text); };
  return command.text(name, set, help).value("SLACK").check(check_slack);
}

void straggler_option(Command& command, std::vector<pb::Straggler>& stragglers) {
  const auto set = [&stragglers](const std::vector<std::string>& texts) {
    for (const std::string& text : texts) {
      auto straggler = parse_straggler(text, "--straggler");
      if (straggler) stragglers.push_back(std::move(straggler.value()));
    }
  };
  command
      .texts("--straggler", set,
             "For experiments: slows workers down, e.g. \"worker: 1 slowdown: 3\"; may be given "
             "several times")
      .check([](const std::string& text) {
        const auto straggler = parse_straggler(text, "TEXT");
        return straggler ? std::string() : straggler.error().message;
      });
}

void add_job_options(Command& command, const std::shared_ptr<JobOptions>& options,
                     std::uint64_t max_workers) {
  command.whole_number("--workers", options->workers, "Workers (default: the job's)", 1,
                       max_workers);
  add_mode(command, options);
  slack_option(command, "--slack", options->slack,
               "Clocks that a worker's reads may be behind: 0 is bsp, async is no bound (default: "
               "the job's)");
  command.whole_number("--max-iter", options->max_iter, "Iterations of each worker", 1);
  command.whole_number("--seed", options->seed,
                       "Seed of the initial values and of everything that is drawn");
  straggler_option(command, options->stragglers);
  command.number("--clock-time", options->clock_time_ms,
                 "For experiments: the shortest time of a worker's clock", "MS", {});
  command
      .texts("--weights", options->weights,
             "Starts from trained parameters, matched by the layers' names (.safetensors, "
             ".caffemodel, .caffemodel.h5); several files with ',' between them")
      .separated_by_commas()
      .value("FILE");
  command.text("--data", options->data, "Folder of the data set").value("DIR");
  command
      .text("--resume", options->resume,
            "Continues from a checkpoint: its folder, or the folder of several for the newest")
      .value("DIR");
}

void check_job_options(const JobOptions& options) {
  if (!options.slack || !options.mode) return;
  const Slack slack = *options.slack;
  const pb::Consistency::Mode meant = slack.is_unbounded() ? pb::Consistency::ASYNC
                                      : slack == Slack(0)  ? pb::Consistency::BSP
                                                           : pb::Consistency::SSP;
  if (*options.mode == meant) return;
  throw UsageError(
      fmt::format("--slack {} contradicts --mode {}: bsp is slack 0, ssp is 1 or more, async has "
                  "no bound; give "
                  "one of the two",
                  slack.to_string(), lower(pb::Consistency::Mode_Name(*options.mode))));
}

void blame_options(const JobOptions& options, pb::Job job, const std::string& mistake,
                   const std::function<bool(const pb::Job&)>& can_train) {
  JobOptions files;
  files.data = options.data;
  files.resume = options.resume;
  files.weights = options.weights;
  put_over(files, job);
  if (can_train(job)) throw UsageError(mistake);
}

}  // namespace taut::cli

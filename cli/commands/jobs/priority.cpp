#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "cli/commands/jobs/change_queue.hpp"
#include "proto/config/experiment_check.hpp"

namespace taut::cli {
namespace {

struct PriorityChange {
  QueueChange change;
  std::int32_t priority = 0;
};

std::optional<std::int32_t> parse(const std::string& text) {
  std::int32_t number = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_whole = failed == std::errc() && end == text.data() + text.size();
  if (!is_whole || number < -kMaxPriority || number > kMaxPriority) return std::nullopt;
  return number;
}

std::string check(const std::string& text) {
  if (parse(text)) return {};
  return fmt::format("must be a whole number from {} to {}, is {}", -kMaxPriority, kMaxPriority,
                     command_line::in_quotes(text));
}

}  // namespace

void add_priority(Command& command, int& status) {
  auto typed = std::make_shared<PriorityChange>();
  command.whole_number("JOB", typed->change.job, "Number of the job", 1).required();
  command
      .text(
          "PRIORITY",
          [typed = typed.get()](const std::string& text) {
            typed->priority = parse(text).value_or(0);
          },
          "The highest starts first; 0 unless the job names another")
      .required()
      .value("NUMBER")
      .check(check);
  add_queue_change(command, status, std::shared_ptr<QueueChange>(typed, &typed->change),
                   [typed](ControlClient& client, JobId job) {
                     return client.set_priority(job, typed->priority);
                   });
}

}  // namespace taut::cli

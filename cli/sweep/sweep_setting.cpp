#include "cli/sweep/sweep_setting.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <system_error>

#include "cli/run_origin.hpp"
#include "common/files/file.hpp"
#include "proto/config/net_state.hpp"

namespace taut::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFile = "began.json";

}  // namespace

Result<void> write_start_record(const fs::path& folder) {
  std::error_code ignored;
  if (fs::exists(folder / kFile, ignored)) return ok();
  const pb::RunOrigin origin = run_origin();
  const nlohmann::ordered_json began = {
      {"began", fmt::format("{:%Y-%m-%d %H:%M} UTC", fmt::gmtime(std::time(nullptr)))},
      {"command", std::vector<std::string>(origin.command().begin(), origin.command().end())},
      {"project", origin.project()}};
  return write_file_atomically(
      folder / kFile, began.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

std::vector<std::pair<std::string, std::string>> beginning_of(const fs::path& folder) {
  std::vector<std::pair<std::string, std::string>> lines;
  const auto text = read_file(folder / kFile);
  if (!text) return lines;
  const auto began = nlohmann::json::parse(text.value(), nullptr, false);
  if (!began.is_object()) return lines;
  if (began.contains("began")) lines.emplace_back("date", began.value("began", ""));
  if (began.contains("command") && began["command"].is_array()) {
    std::vector<std::string> words;
    for (const auto& word : began["command"]) {
      if (word.is_string()) words.push_back(word.get<std::string>());
    }
    if (!words.empty()) words[0] = fs::path(words[0]).filename().string();
    lines.emplace_back("command", shell_line(words));
  }
  if (!began.value("project", "").empty()) {
    lines.emplace_back("project", began.value("project", ""));
  }
  return lines;
}

std::string batch_text(const pb::Job& job) {
  const auto batch = batch_of_text(job);
  if (!batch) return {};
  return fmt::format("{} {}", batch.value() * std::max(1, job.solver_param().iter_size()),
                     job.global_batch() ? "of all workers" : "of each worker");
}

}  // namespace taut::cli

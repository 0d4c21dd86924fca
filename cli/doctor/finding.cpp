#include "cli/doctor/finding.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/views/draw.hpp"

namespace taut::cli {
namespace {

const char* word(Verdict verdict) {
  switch (verdict) {
    case Verdict::kWarning:
      return "warning";
    case Verdict::kTrouble:
      return "trouble";
    case Verdict::kOk:
      break;
  }
  return "ok";
}

std::int64_t count(const Findings& findings, Verdict verdict) {
  return std::ranges::count(findings, verdict, &Finding::verdict);
}

}  // namespace

Finding fine(std::string about, std::string found, std::string advice) {
  return {Verdict::kOk, std::move(about), std::move(found), std::move(advice)};
}
Finding warning(std::string about, std::string found, std::string advice) {
  return {Verdict::kWarning, std::move(about), std::move(found), std::move(advice)};
}
Finding trouble(std::string about, std::string found, std::string advice) {
  return {Verdict::kTrouble, std::move(about), std::move(found), std::move(advice)};
}

Verdict worst(const Findings& findings) {
  Verdict gravest = Verdict::kOk;
  for (const Finding& finding : findings) gravest = std::max(gravest, finding.verdict);
  return gravest;
}

std::vector<std::string> findings_lines(const Findings& findings) {
  std::vector<std::string> lines;
  for (const Finding& finding : findings) {
    lines.push_back(
        fmt::format("{:<8}{:<15}{}", word(finding.verdict), finding.about, finding.found));
    if (!finding.advice.empty()) lines.push_back(fmt::format("{:23}-> {}", "", finding.advice));
  }
  const std::int64_t warnings = count(findings, Verdict::kWarning);
  const std::int64_t troubles = count(findings, Verdict::kTrouble);
  lines.emplace_back();
  lines.push_back(fmt::format("{} ok, {}, {}", count(findings, Verdict::kOk),
                              counted(warnings, "warning"), counted(troubles, "trouble")));
  return lines;
}

std::string findings_json(const Findings& findings) {
  using Json = nlohmann::ordered_json;
  Json all = Json::array();
  for (const Finding& finding : findings) {
    all.push_back({{"verdict", word(finding.verdict)},
                   {"about", finding.about},
                   {"found", finding.found},
                   {"advice", finding.advice}});
  }
  const Json whole = {{"verdict", word(worst(findings))}, {"findings", all}};
  // A path may contain bytes that are not UTF-8.
  return whole.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace taut::cli

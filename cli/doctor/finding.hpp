#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace taut::cli {

enum class Verdict : std::uint8_t {
  kOk,
  kWarning,  // it works, but not as well as it could, or not for everything
  kTrouble,  // something that is configured, or that every run needs, will fail
};

/// The result of checking one thing.
struct Finding {
  Verdict verdict = Verdict::kOk;
  std::string about;   // a word or two: "port", "disk"
  std::string found;   // the fact, with its values
  std::string advice;  // what to do about it; empty: nothing
};
using Findings = std::vector<Finding>;

[[nodiscard]] Finding fine(std::string about, std::string found, std::string advice = {});
[[nodiscard]] Finding warning(std::string about, std::string found, std::string advice);
[[nodiscard]] Finding trouble(std::string about, std::string found, std::string advice);

/// The gravest verdict; kOk if there are none.
[[nodiscard]] Verdict worst(const Findings& findings);

/// One line for each, with the advice below it; the last line counts them.
[[nodiscard]] std::vector<std::string> findings_lines(const Findings& findings);
/// One object on a line: {"verdict": ..., "findings": [{"verdict", "about", "found", "advice"}]}.
[[nodiscard]] std::string findings_json(const Findings& findings);

}  // namespace taut::cli

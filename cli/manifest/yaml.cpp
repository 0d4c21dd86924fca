#include "cli/manifest/yaml.hpp"

#include <fmt/format.h>

#include <sstream>

namespace taut::cli {

std::string indented(const std::string& text, int columns) {
  std::string out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    out += line.empty() ? "\n" : std::string(static_cast<std::size_t>(columns), ' ') + line + "\n";
  }
  return out;
}

std::string metadata(const ManifestOptions& options, const std::string& suffix) {
  std::string text = fmt::format("metadata:\n  name: {}{}\n", options.name, suffix);
  if (!options.name_space.empty()) text += fmt::format("  namespace: \"{}\"\n", options.name_space);
  return text + fmt::format(
                    "  labels:\n    app.kubernetes.io/name: tautline\n"
                    "    app.kubernetes.io/instance: {}\n",
                    options.name);
}

}  // namespace taut::cli

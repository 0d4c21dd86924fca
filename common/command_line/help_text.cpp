#include "common/command_line/help_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

namespace taut::command_line {
namespace {

constexpr std::size_t kWidth = 80;
constexpr std::size_t kHelpColumn = 26;

void append_entry(std::string& text, const std::string& label, const std::string& help) {
  std::string line = "  " + label;
  // The help of a long label starts on the next line.
  if (line.size() + 2 > kHelpColumn) {
    text += line + "\n";
    line.clear();
  }
  for (const std::string& part : wrapped(help, kWidth - kHelpColumn)) {
    text += fmt::format("{:<{}}{}\n", line, kHelpColumn, part);
    line.clear();
  }
}

void append_options(std::string& text, const std::string& title,
                    const std::vector<OptionFacts>& options) {
  if (options.empty()) return;
  text += "\n" + title + ":\n";
  for (const OptionFacts& option : options) {
    append_entry(text, option_label(option), option_help(option));
  }
}

void append_commands(std::string& text, const CommandFacts& command) {
  std::vector<std::string> groups;
  for (const CommandFacts& inner : command.commands) {
    if (std::find(groups.begin(), groups.end(), inner.group) == groups.end()) {
      groups.push_back(inner.group);
    }
  }
  for (const std::string& group : groups) {
    text += "\n" + group + ":\n";
    for (const CommandFacts& inner : command.commands) {
      if (inner.group == group) append_entry(text, inner.name, inner.help);
    }
  }
}

}  // namespace

std::vector<std::string> wrapped(const std::string& text, std::size_t width) {
  std::vector<std::string> lines;
  std::istringstream words(text);
  std::string line;
  for (std::string word; words >> word;) {
    if (!line.empty() && line.size() + 1 + word.size() > width) {
      lines.push_back(std::move(line));
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  lines.push_back(std::move(line));
  return lines;
}

std::string option_label(const OptionFacts& option) {
  const bool is_positional = option.names.front().front() != '-';
  std::string label = fmt::format("{}", fmt::join(option.names, ", "));
  if (!is_positional && !option.value.empty()) label += " " + option.value;
  return label + (is_positional && option.repeats ? "..." : "");
}

std::string option_help(const OptionFacts& option) {
  if (option.default_value.empty()) return option.help;
  return fmt::format("{} (default: {})", option.help, option.default_value);
}

std::string usage(const CommandFacts& command) {
  std::string text = command.path;
  for (const OptionFacts& option : command.options) {
    if (option.required) text += " " + option_label(option);
  }
  text += " [OPTIONS]";
  for (const OptionFacts& option : command.positionals) {
    const std::string label = option_label(option);
    text += option.required ? " " + label : " [" + label + "]";
  }
  if (!command.commands.empty()) text += command.requires_command ? " COMMAND" : " [COMMAND]";
  return text;
}

std::string help_text(const CommandFacts& command) {
  std::string text;
  for (const std::string& line : wrapped(command.help, kWidth)) text += line + "\n";
  text += "Usage: " + usage(command) + "\n";
  append_options(text, "Arguments", command.positionals);
  append_options(text, "Options", command.options);
  append_commands(text, command);
  if (!command.footer.empty()) text += "\n" + command.footer + "\n";
  return text;
}

}  // namespace taut::command_line

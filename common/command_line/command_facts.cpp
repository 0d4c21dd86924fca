#include "common/command_line/command_facts.hpp"

#include <CLI/CLI.hpp>
#include <array>
#include <sstream>
#include <string_view>

#include "common/command_line/command.hpp"

namespace taut::command_line {
namespace {

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, at);) parts.push_back(part);
  return parts;
}

OptionFacts facts_of(const CLI::Option& option) {
  OptionFacts facts;
  if (option.get_positional()) {
    facts.names.push_back(option.get_name(true, false));
  } else {
    for (const std::string& name : option.get_lnames()) facts.names.push_back("--" + name);
    for (const std::string& name : option.get_snames()) facts.names.push_back("-" + name);
  }
  const bool is_flag = option.get_items_expected_max() == 0;
  if (!is_flag) {
    facts.value = option.get_type_name();
    if (facts.value.find('|') != std::string::npos) facts.choices = split(facts.value, '|');
    facts.default_value = option.get_default_str();
    facts.repeats = option.get_items_expected_max() > 1;
  }
  facts.help = option.get_description();
  facts.required = option.get_required();
  return facts;
}

CommandFacts facts_of(const CLI::App& app, const std::string& parent) {
  CommandFacts facts;
  facts.name = app.get_name();
  facts.path = parent.empty() ? facts.name : parent + " " + facts.name;
  facts.group = app.get_group();
  facts.help = app.get_description();
  facts.footer = app.get_footer();
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    (option->get_positional() ? facts.positionals : facts.options).push_back(facts_of(*option));
  }
  facts.requires_command = app.get_require_subcommand_min() > 0;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    facts.commands.push_back(facts_of(*command, facts.path));
  }
  return facts;
}

}  // namespace

CommandFacts facts_of(const Command& command) {
  return facts_of(*command.app_);
}

CommandFacts facts_of(const CLI::App& app) {
  const CLI::App* const parent = app.get_parent();
  return facts_of(app, parent == nullptr ? std::string() : facts_of(*parent).path);
}

ValueKind value_kind(const OptionFacts& option) {
  if (!option.choices.empty()) return ValueKind::kChoices;
  if (option.value == "COMMAND") return ValueKind::kCommand;
  if (option.value == "DIR") return ValueKind::kFolder;
  // Placeholders of values that are not files.
  static constexpr std::array<std::string_view, 10> kNoFiles{
      "", "N", "TEXT", "NUMBER", "MS", "SECONDS", "SIZE", "HOST:PORT", "SLACK", "HxW"};
  for (const std::string_view value : kNoFiles) {
    if (option.value == value) return ValueKind::kNone;
  }
  return ValueKind::kFile;
}

}  // namespace taut::command_line

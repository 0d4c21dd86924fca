#include "common/command_line/command.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <utility>

#include "common/command_line/command_facts.hpp"
#include "common/command_line/help_text.hpp"
#include "common/did_you_mean.hpp"

namespace taut::command_line {
namespace {

using Check = std::function<std::string(const std::string&)>;

std::string with_range(const std::string& help, const std::string& range) {
  return range.empty() ? help : help + " (" + range + ")";
}

/// REQUIRES  a check found nothing wrong with the text
template <class Number>
Number read(const std::string& text) {
  Number value{};
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::vector<CLI::App*> commands_of(CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

}  // namespace

Option Option::required() {
  option_->required();
  return *this;
}

Option Option::value(const std::string& name) {
  option_->type_name(name);
  return *this;
}

Option Option::by_default(const std::string& shown) {
  option_->default_str(shown);
  return *this;
}

Option Option::hidden() {
  option_->group("");
  return *this;
}

Option Option::needs(Option other) {
  option_->needs(other.option_);
  return *this;
}

Option Option::excludes(Option other) {
  option_->excludes(other.option_);
  return *this;
}

Option Option::separated_by_commas() {
  option_->delimiter(',');
  return *this;
}

Option Option::check(const Check& check) {
  option_->check(check);
  return *this;
}

std::string Option::name() const {
  return option_->get_name();
}

bool Option::is_given() const {
  return option_->count() > 0;
}

Option Command::text(const std::string& name, const SetText& set, const std::string& help) {
  return Option(app_->add_option_function<std::string>(name, set, help)->type_name("TEXT"));
}

Option Command::text(const std::string& name, std::string& target, const std::string& help) {
  return text(
      name, [&target](const std::string& value) { target = value; }, help);
}

Option Command::texts(const std::string& name,
                      const std::function<void(const std::vector<std::string>&)>& set,
                      const std::string& help) {
  CLI::Option* option = app_->add_option_function<std::vector<std::string>>(name, set, help);
  // The word after an option's value is an argument, not another value.
  if (name.starts_with('-')) option->allow_extra_args(false);
  return Option(option->type_name("TEXT"));
}

Option Command::texts(const std::string& name, std::vector<std::string>& target,
                      const std::string& help) {
  return texts(
      name, [&target](const std::vector<std::string>& values) { target = values; }, help);
}

Option Command::whole_number(const std::string& name, const SetNumber& set, const std::string& help,
                             std::uint64_t min, std::uint64_t max) {
  return text(
             name, [set](const std::string& value) { set(read<std::uint64_t>(value)); },
             with_range(help, range_text(min, max)))
      .value("N")
      .check([=](const std::string& value) { return check_whole_number(value, min, max); });
}

Option Command::number_option(const std::string& name, const std::function<void(double)>& set,
                              const std::string& help, const std::string& unit, NumberRange range) {
  return text(
             name, [set](const std::string& value) { set(read<double>(value)); },
             with_range(help, range_text(range)))
      .value(unit)
      .check([=](const std::string& value) { return check_number(value, range); });
}

Option Command::one_of(const std::string& name, std::string& target, const std::string& help,
                       const std::vector<std::string>& words) {
  std::string joined;
  for (const std::string& word : words) joined += (joined.empty() ? "" : "|") + word;
  return text(name, target, help).value(joined).check([words](const std::string& value) {
    return check_word(value, words);
  });
}

Option Command::byte_size(const std::string& name, std::uint64_t& target, const std::string& help) {
  const auto set = [&target](const std::string& value) {
    [[maybe_unused]] const std::string checked = check_byte_size(value, target);
  };
  return text(name, set, help).value("SIZE").check([](const std::string& value) {
    std::uint64_t bytes = 0;
    return check_byte_size(value, bytes);
  });
}

Option Command::flag(const std::string& name, const std::function<void()>& set,
                     const std::string& help) {
  return Option(app_->add_flag_callback(name, set, help));
}

Option Command::flag(const std::string& name, bool& target, const std::string& help) {
  return flag(
      name, [&target] { target = true; }, help);
}

Command Command::command(const std::string& name, const std::string& help,
                         const std::string& footer, const std::string& group) {
  CLI::App* inner = app_->add_subcommand(name, help);
  inner->group(group);
  inner->footer(footer);
  return Command(*inner);
}

void Command::require_command() {
  app_->require_subcommand(1);
}

void Command::on_run(const std::function<void()>& run) {
  // CLI11 also calls it after a subcommand of this command has run.
  app_->callback([app = app_, run] {
    if (app->get_subcommands().empty()) run();
  });
}

std::string Command::name() const {
  return app_->get_name();
}

std::string Command::help_of(const std::vector<std::string>& words) const {
  CLI::App* at = app_;
  while (at->get_parent() != nullptr) at = at->get_parent();
  for (const std::string& word : words) {
    std::vector<std::string> names;
    CLI::App* next = nullptr;
    for (CLI::App* inner : commands_of(*at)) {
      names.push_back(inner->get_name());
      if (inner->get_name() == word) next = inner;
    }
    if (next == nullptr) {
      throw UsageError("no command " + in_quotes(word) + did_you_mean(word, names));
    }
    at = next;
  }
  return help_text(facts_of(*at));
}

}  // namespace taut::command_line

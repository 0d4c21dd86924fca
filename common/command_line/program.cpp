#include "common/command_line/program.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/command_line/completion.hpp"
#include "common/command_line/help_text.hpp"
#include "common/did_you_mean.hpp"

namespace taut::command_line {
namespace {

/// CLI11's own help is wider, and phrases types and limits differently.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string /*name*/,
                        CLI::AppFormatMode /*mode*/) const override {
    return help_text(facts_of(*app));
  }
};

/// Today, or the day that a reproducible build sets, in seconds since 1970.
std::string date_of_page() {
  const char* const named = std::getenv("SOURCE_DATE_EPOCH");
  const std::time_t when = named != nullptr ? std::atoll(named) : std::time(nullptr);
  return fmt::format("{:%Y-%m-%d}", fmt::gmtime(when));
}

int generate(const CLI::App& app, const ManNotes& notes, std::string_view what) {
  const CommandFacts facts = facts_of(app);
  if (what == "bash") {
    fmt::print("{}", bash_completion(facts));
  } else if (what == "zsh") {
    fmt::print("{}", zsh_completion(facts));
  } else if (what == "man") {
    fmt::print("{}", man_page(facts, notes, date_of_page()));
  } else {
    fmt::print(stderr, "{}: --generate must be one of bash, zsh, man\n", app.get_name());
    return kUsage;
  }
  return kFine;
}

/// The innermost command that the command line names.
const CLI::App& chosen_in(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? app : chosen_in(*chosen.front());
}

/// What is wrong with a word that the command does not accept.
std::string unexpected(const std::string& word, const CommandFacts& command) {
  const std::string name = word.substr(0, word.find('='));
  std::vector<std::string> known;
  if (name.starts_with('-')) {
    for (const OptionFacts& option : command.options) {
      known.insert(known.end(), option.names.begin(), option.names.end());
    }
    return fmt::format("no option {}{}", in_quotes(name), did_you_mean(name, known));
  }
  if (command.commands.empty()) return fmt::format("{} is one argument too many", in_quotes(word));
  for (const CommandFacts& inner : command.commands) known.push_back(inner.name);
  return fmt::format("no command {}{}", in_quotes(word), did_you_mean(word, known));
}

/// Rewords CLI11's "--mode: 1 required bsp|ssp|async missing" and "--seed: At Most 1 required but
/// received 2".
std::string wrong_number_of_values(const CLI::ParseError& error) {
  constexpr std::string_view kBefore = ": 1 required ";
  constexpr std::string_view kAfter = " missing";
  std::string what = error.what();
  const std::size_t twice = what.find(": At Most 1 required");
  if (twice != std::string::npos) return what.substr(0, twice) + " is given more than once";
  const std::size_t at = what.find(kBefore);
  if (at == std::string::npos || !what.ends_with(kAfter)) return what;
  const std::size_t start = at + kBefore.size();
  return fmt::format("{} has no value: {} is required", what.substr(0, at),
                     what.substr(start, what.size() - kAfter.size() - start));
}

/// Why the command line is refused, without a final full stop.
std::string explain(const CLI::App& app, const CLI::ParseError& error) {
  const CommandFacts command = facts_of(chosen_in(app));
  // If a required command is missing or unknown, CLI11 only reports that one is required.
  const std::vector<std::string> left = app.remaining(true);
  if (!left.empty()) return unexpected(left.front(), command);
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr && !command.commands.empty() &&
      chosen_in(app).get_subcommands().empty()) {
    return "no command is given";
  }
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr)
    return wrong_number_of_values(error);
  return error.what();
}

}  // namespace

Program::Program(const std::string& name, const std::string& help, const std::string& footer,
                 ManNotes notes)
    : app_(std::make_unique<CLI::App>(help, name)), notes_(std::move(notes)) {
  app_->footer(footer);
  // Commands inherit the formatter and the help flag.
  app_->formatter(std::make_shared<HelpFormatter>());
  app_->set_help_flag("-h,--help", "Prints this help");
  app_->set_version_flag("--version", notes_.version, "Prints the version");
}

Program::~Program() = default;

std::string Program::chosen() const {
  const auto chosen = app_->get_subcommands();
  return chosen.empty() ? std::string() : chosen.front()->get_name();
}

std::optional<int> Program::parse(int argc, char** argv) {
  if (argc == 3 && std::string_view(argv[1]) == "--generate") {
    return generate(*app_, notes_, argv[2]);
  }
  std::string mistake;
  try {
    app_->parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::Success& done) {  // --help, --version
    app_->exit(done);
    return kFine;
  } catch (const CLI::ParseError& error) {
    mistake = explain(*app_, error);
  } catch (const UsageError& error) {
    mistake = error.what();
  }
  std::fflush(stdout);
  fmt::print(stderr, "{0}: {1}; see {0} --help\n", facts_of(chosen_in(*app_)).path, mistake);
  return kUsage;
}

}  // namespace taut::command_line

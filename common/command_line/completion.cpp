#include "common/command_line/completion.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <vector>

namespace taut::command_line {
namespace {

/// "tautline-server" as part of a shell function's name.
std::string identifier(std::string name) {
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
}

/// Appends a command and then every command below it.
void collect(const CommandFacts& command, std::vector<const CommandFacts*>& all) {
  all.push_back(&command);
  for (const CommandFacts& inner : command.commands) collect(inner, all);
}

std::vector<std::string> names_of(const std::vector<CommandFacts>& commands) {
  std::vector<std::string> names;
  names.reserve(commands.size());
  for (const CommandFacts& command : commands) names.push_back(command.name);
  return names;
}

/// The bash command that proposes an option's values, from $cur.
std::string bash_values(const OptionFacts& option, const CommandFacts& program) {
  switch (value_kind(option)) {
    case ValueKind::kChoices:
      return fmt::format("_taut_propose '{}'", fmt::join(option.choices, " "));
    case ValueKind::kCommand:
      return fmt::format("_taut_propose '{}'", fmt::join(names_of(program.commands), " "));
    case ValueKind::kFile:
      return "_taut_propose_paths -f";
    case ValueKind::kFolder:
      return "_taut_propose_paths -d";
    case ValueKind::kNone:
      break;
  }
  return ":";
}

/// Quoted for the right side of a zsh argument specification.
std::string zsh_text(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\'') {
      escaped += "'\\''";
      continue;
    }
    if (c == '[' || c == ']' || c == ':' || c == '\\') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string zsh_values(const OptionFacts& option, const CommandFacts& program) {
  switch (value_kind(option)) {
    case ValueKind::kChoices:
      return fmt::format("({})", fmt::join(option.choices, " "));
    case ValueKind::kCommand:
      return fmt::format("({})", fmt::join(names_of(program.commands), " "));
    case ValueKind::kFile:
      return "_files";
    case ValueKind::kFolder:
      return "_files -/";
    case ValueKind::kNone:
      break;
  }
  return " ";
}

/// The arguments of _arguments, one per line.
std::string zsh_specifications(const CommandFacts& command, const CommandFacts& program) {
  std::string text;
  for (const OptionFacts& option : command.options) {
    for (const std::string& name : option.names) {
      text +=
          fmt::format(" \\\n    '{}{}[{}]", option.repeats ? "*" : "", name, zsh_text(option.help));
      if (!option.value.empty()) {
        text += fmt::format(":{}:{}", zsh_text(option.value), zsh_values(option, program));
      }
      text += '\'';
    }
  }
  for (const OptionFacts& option : command.positionals) {
    text += fmt::format(" \\\n    '{}:{}:{}'", option.repeats ? "*" : "",
                        zsh_text(option.names.front()), zsh_values(option, program));
  }
  return text;
}

std::string zsh_function(const CommandFacts& command, const CommandFacts& program) {
  std::string text = fmt::format("{}() {{\n", "_" + identifier(command.path));
  if (command.commands.empty()) {
    return text + "  _arguments -S" + zsh_specifications(command, program) + "\n}\n";
  }
  text += "  local context state state_descr line\n  typeset -A opt_args\n";
  text += "  _arguments -C" + zsh_specifications(command, program) +
          " \\\n    '1:command:->command' '*::argument:->argument'\n";
  text += "  case $state in\n    command)\n      local -a commands=(\n";
  for (const CommandFacts& inner : command.commands) {
    text += fmt::format("        '{}:{}'\n", inner.name, zsh_text(inner.help));
  }
  text += "      )\n      _describe -t commands command commands ;;\n    argument)\n";
  text += "      case $words[1] in\n";
  for (const CommandFacts& inner : command.commands) {
    text += fmt::format("        {}) _{} ;;\n", inner.name, identifier(inner.path));
  }
  return text + "      esac ;;\n  esac\n}\n";
}

}  // namespace

std::string bash_completion(const CommandFacts& program) {
  std::vector<const CommandFacts*> all;
  collect(program, all);
  std::string paths;
  std::string values;
  std::string words;
  for (const CommandFacts* command : all) {
    std::vector<std::string> options;
    for (const OptionFacts& option : command->options) {
      options.insert(options.end(), option.names.begin(), option.names.end());
      if (option.value.empty()) continue;
      std::vector<std::string> cases;
      for (const std::string& name : option.names) {
        cases.push_back(fmt::format("'{} {}'", command->path, name));
      }
      values += fmt::format("    {}) {}; return ;;\n", fmt::join(cases, " | "),
                            bash_values(option, program));
    }
    for (const CommandFacts& inner : command->commands) {
      paths += fmt::format("{}'{}'", paths.empty() ? "" : " | ", inner.path);
    }
    std::string other = ":";
    if (!command->commands.empty()) {
      other = fmt::format("_taut_propose '{}'", fmt::join(names_of(command->commands), " "));
    } else if (!command->positionals.empty()) {
      other = bash_values(command->positionals.front(), program);
    }
    words += fmt::format(
        "    '{}')\n      if [[ $cur == -* ]]; then _taut_propose '{}'; else {}; fi ;;\n",
        command->path, fmt::join(options, " "), other);
  }
  const std::string function = "_" + identifier(program.name);
  return fmt::format(R"(# bash completion for {0}, generated by `{0} --generate bash`.
_taut_propose() {{ mapfile -t COMPREPLY < <(compgen -W "$1" -- "$cur"); }}
_taut_propose_paths() {{
  mapfile -t COMPREPLY < <(compgen "$1" -- "$cur")
  compopt -o filenames 2>/dev/null
}}
{1}() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} path={0} i
  # --option=value is three words here.
  [[ $prev == = ]] && prev=${{COMP_WORDS[COMP_CWORD-2]}}
  [[ $cur == = ]] && cur=
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case "$path ${{COMP_WORDS[i]}}" in
      {2}) path="$path ${{COMP_WORDS[i]}}" ;;
    esac
  done
  case "$path $prev" in
{3}  esac
  case $path in
{4}  esac
}}
complete -F {1} {0}
)",
                     program.name, function, paths.empty() ? "''" : paths, values, words);
}

std::string zsh_completion(const CommandFacts& program) {
  std::vector<const CommandFacts*> all;
  collect(program, all);
  std::string text = fmt::format(
      "#compdef {0}\n# zsh completion for {0}, generated by `{0} --generate zsh`.\n", program.name);
  // zsh reads a function when it is called, so the program's own comes last.
  std::ranges::reverse(all);
  for (const auto* command : all) {
    text += zsh_function(*command, program);
  }
  return text + fmt::format("_{} \"$@\"\n", identifier(program.name));
}

}  // namespace taut::command_line

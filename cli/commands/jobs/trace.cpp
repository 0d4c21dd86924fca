#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands/shared_options.hpp"
#include "proto/session/control_client.hpp"

namespace taut::cli {
namespace {

/// Lines of a timeline, without the brackets and the commas between them.
Result<void> append_events(const std::string& file, std::ofstream& out, bool& is_first) {
  std::ifstream in(file);
  if (!in) return make_error(ErrorCode::kNotFound, fmt::format("{} cannot be read", file));
  for (std::string line; std::getline(in, line);) {
    if (line == "[" || line == "]" || line.empty()) continue;
    if (line.ends_with(',')) line.pop_back();
    // The last line of a process that was killed while writing may be incomplete.
    if (!line.starts_with('{') || !line.ends_with('}')) {
      if (is_first) return invalid(fmt::format("{}: not a timeline of Tautline's", file));
      continue;
    }
    out << (is_first ? "[\n" : ",\n") << line;
    is_first = false;
  }
  return ok();
}

Result<void> merge(const std::vector<std::string>& files, const std::string& target) {
  for (const std::string& file : files) {
    if (std::filesystem::weakly_canonical(file) == std::filesystem::weakly_canonical(target)) {
      return invalid(fmt::format("{} is read and written; name another file with --output", file));
    }
  }
  std::ofstream out(target);
  if (!out) return make_error(ErrorCode::kIo, fmt::format("{} cannot be written", target));
  bool is_first = true;
  for (const std::string& file : files) {
    TAUT_TRY(append_events(file, out, is_first));
  }
  out << (is_first ? "[]\n" : "\n]\n");
  out.close();
  if (!out) return make_error(ErrorCode::kIo, fmt::format("{}: the disk is full", target));
  return ok();
}

void add_switch(Command& trace, const char* name, const char* what, bool on, int& status) {
  auto coordinator = std::make_shared<CoordinatorOption>();
  Command command = trace.command(name, what, fmt::format("Example: tautline trace {}", name));
  coordinator->add_to(command);
  command.on_run([coordinator, on, &status] {
    const auto run = [&]() -> Result<std::string> {
      TAUT_TRY(auto client, coordinator->connect());
      return client.set_trace(on);
    };
    if (const auto done = run()) {
      fmt::print("{}\n", done.value());
    } else {
      status = fail("trace", done.error().message);
    }
  });
}

}  // namespace

void add_trace(Command& trace, int& status) {
  trace.require_command();
  add_switch(trace, "start", "Every server and worker starts a timeline in its records' folder",
             true, status);
  add_switch(trace, "stop", "Every server and worker ends its timeline", false, status);
  Command command =
      trace.command("merge", "Combines several timelines into one file",
                    "Example: tautline trace merge runs/R/*.trace.json --output run.trace.json");
  auto files = std::make_shared<std::vector<std::string>>();
  auto target = std::make_shared<std::string>();
  command.texts("FILE", *files, "The processes' timelines").required().value("FILE");
  command.text("--output", *target, "The file to write").required().value("FILE");
  command.on_run([files, target, &status] {
    const Result<void> done = merge(*files, *target);
    if (!done) status = fail("trace merge", done.error().message);
  });
}

}  // namespace taut::cli

// tautline-server: shards of the parameter tables, and the coordinator if its config has one.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <string>

#include "common/command_line/program.hpp"
#include "common/files/file.hpp"
#include "common/log.hpp"
#include "common/net/ucx/ucx_endpoint.hpp"
#include "common/system/descriptor_limit.hpp"
#include "common/system/memory.hpp"
#include "common/system/stop_signal.hpp"
#include "common/timeline.hpp"
#include "proto/config/cluster_config.hpp"
#include "proto/config/text.hpp"
#include "proto/session/timeline_switch.hpp"
#include "proto/wire_version.hpp"
#include "server/server_daemon.hpp"

namespace {

struct Arguments {
  std::string config;
  std::string name;
  std::string ready_file;
  bool with_parent = false;
};

/// Prints why the process ends, once: to the log if that is a file, and to the terminal.
void print_failure(const std::string& failure, bool log_is_file) {
  if (log_is_file) taut::log::error("{}", failure);
  std::fprintf(stderr, "tautline-server: %s\n", failure.c_str());
}

taut::Result<void> serve(const Arguments& arguments, bool& log_is_file) {
  using namespace taut;
  TAUT_TRY(pb::ClusterConfig config, load_cluster_config(arguments.config));
  if (!arguments.name.empty()) config.mutable_server()->set_name(arguments.name);
  TAUT_TRY(log::start(log_options(config, "server", config.server().name())));
  log_is_file = !config.log().file().empty();
  if (config.insecure()) {
    log::warn(
        "insecure: true: no keys are required; every process that reaches this host can read and "
        "change everything");
  }
  TAUT_TRY(limit_files(config, arguments.ready_file));
  switch_timeline(config.records().timeline(), config.records(), config.server().name());
  if (config.server().transport() == pb::ServerConfig::UCX) prepare_to_listen_on_ucx();
  TAUT_TRY(auto daemon, server::ServerDaemon::start(config));
  const std::size_t shards = daemon->shard_addresses().size();
  log::info("{}: {} shard{}", build_name(), shards, shards == 1 ? "" : "s");
  std::string ready = "coordinator " + daemon->coordinator_address() + "\n";
  for (const std::string& address : daemon->shard_addresses()) {
    log::info("shard at {}", address);
    ready += "shard " + address + "\n";
  }
  if (const std::string http = daemon->http_address(); !http.empty()) {
    log::info("http://{}/{}", http, config.server().has_coordinator() ? "" : "metrics");
    ready += "http " + http + "\n";
    // Not into the log, which others may read.
    if (config.server().has_coordinator() && isatty(STDOUT_FILENO) != 0) {
      TAUT_TRY(const std::string link, daemon->page_link());
      fmt::print("page: {}\n", link);
      std::fflush(stdout);
    }
  }
  if (!arguments.ready_file.empty()) {
    TAUT_TRY(write_file_atomically(arguments.ready_file, ready));
  }
  return daemon->run();
}

taut::command_line::ManNotes man_notes() {
  return {
      .version = taut::build_name(),
      .purpose = "keeps parameter tables and coordinates jobs",
      .description =
          "One process of a Tautline cluster. It holds slices of the parameter tables, applies the "
          "workers' updates and answers their reads within the job's staleness bound. The server "
          "whose config has a coordinator section also accepts jobs and serves the dashboard.",
      .environment = {},
      .see_also = {"tautline", "tautline-worker"}};
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  taut::command_line::Program program(
      "tautline-server",
      "Tautline's server: keeps parameter tables, and coordinates jobs where configured to",
      "Example: tautline-server --config configs/clusters/local.textproto", man_notes());
  taut::command_line::Command command = program.command();
  command.text("--config", arguments.config, "The daemon's config, text protobuf")
      .required()
      .value("CLUSTERFILE");
  command.text("--name", arguments.name, "Overrides server.name")
      .check([](const std::string& name) {
        return std::string(name.empty() ? "must not be empty" : "");
      });
  command
      .text("--ready-file", arguments.ready_file,
            "Written once everything listens: the addresses, one per line")
      .value("FILE");
  command.flag("--end-with-parent", arguments.with_parent, "Ends when the parent process does");
  if (const auto status = program.parse(argc, argv)) return *status;
  taut::keep_freed_memory();
  taut::raise_descriptor_limit();
  taut::silence_protobuf();
  taut::settle_process_signals(arguments.with_parent);
  taut::watch_stop_signals();
  std::string failure;
  bool log_is_file = false;
  try {
    if (auto served = serve(arguments, log_is_file); !served) failure = served.error().message;
  } catch (const std::exception& fault) {
    failure = fault.what();
  }
  if (!failure.empty()) print_failure(failure, log_is_file);
  taut::timeline::stop();
  taut::log::stop();
  return failure.empty() ? 0 : 1;
}

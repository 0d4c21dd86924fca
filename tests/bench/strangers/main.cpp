// How many of many tries of each kind of stranger get anything through, at each plane and port,
// with the handler that admits keys alive and without it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/log.hpp"
#include "tests/bench/strangers/port_rows.hpp"

namespace taut::strangers {
namespace {

/// Whether no stranger got anything through at this port.
bool try_port(Port& port, int tries) {
  const std::vector<Stranger> strangers = port.strangers();
  std::vector<int> alive;
  alive.reserve(strangers.size());
  for (const Stranger& one : strangers) alive.push_back(granted_alive(one, tries));
  port.end_admission();
  // Its socket closes a moment later.
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  bool is_tight = true;
  for (std::size_t i = 0; i < strangers.size(); ++i) {
    const Stranger& one = strangers[i];
    const int dead = port.has_handler() ? granted_without_handler(one, tries) : -1;
    const int expected = one.may ? tries : 0;
    is_tight = print_row(one.port, one.who, one.what, alive[i], dead, expected) && is_tight;
  }
  return is_tight;
}

/// Whether no stranger got anything through anywhere.
bool try_all(int tries, bool is_plain) {
  fmt::print("{} tries each; granted with the handler alive, and without it\n\n", tries);
  fmt::print("{:12} {:40} {:32} {:>6} {:>6}\n", "port", "key or secret", "request", "alive",
             "dead");
  test::GuardedCluster cluster(is_plain);
  bool is_tight = true;
  // The others ask the cluster's coordinator, so its own handler ends last.
  if (!is_plain) {
    for (const auto make : {standby_port, rank_port, relay_port}) {
      is_tight = try_port(*make(cluster), tries) && is_tight;
    }
    is_tight = try_http(tries) && is_tight;
  } else if (const auto ucx = ucx_port()) {
    is_tight = try_port(*ucx, tries) && is_tight;
  }
  return try_port(*cluster_ports(cluster, is_plain), tries) && is_tight;
}

}  // namespace

bool print_row(const std::string& port, const std::string& who, const std::string& what, int alive,
               int dead, int expected) {
  const bool is_right = alive == expected && dead <= 0;
  fmt::print("{:12} {:40} {:32} {:>6} {:>6}{}\n", port, who, what, alive,
             dead < 0 ? "-" : std::to_string(dead), is_right ? "" : "  WRONG");
  return is_right;
}

}  // namespace taut::strangers

int main(int argc, char** argv) {
  int tries = 1000;
  CLI::App app("Counts what strangers get through to each port of a cluster with keys.");
  bool is_plain = false;
  app.add_option("--tries", tries, "Of each kind")->check(CLI::Range(1, 1000000));
  app.add_flag(
      "--plain", is_plain,
      "Under data_security: TOKEN, where a shard's peers prove themselves by secrets, over "
      "ZeroMQ and over UCX; the ports of a coordinator and a shard alone");
  CLI11_PARSE(app, argc, argv);
  std::setvbuf(stdout, nullptr, _IOLBF, 1 << 12);
  taut::log::Options quiet;
  quiet.level = "error";
  if (!taut::log::start(quiet)) return 1;
  const bool is_tight = taut::strangers::try_all(tries, is_plain);
  fmt::print("\n{}\n", is_tight ? "no stranger got anything through"
                                : "SOMETHING IS WRONG: see the rows above");
  return is_tight ? 0 : 1;
}

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "cli/doctor/checks.hpp"
#include "cli/views/draw.hpp"
#include "proto/config/cluster_config.hpp"

namespace taut::cli {
namespace {

// Clocks further apart misalign timelines and logs of several machines.
constexpr double kSkewLimit_s = 0.1;

Finding clock_finding(const std::vector<ClockReading>& readings) {
  const auto offset = clock_offset(readings);
  if (!offset) {
    return fine("clock", "the coordinator reports no time (older release)");
  }
  const std::string found =
      fmt::format("the coordinator's clock is {:.1f} ms {} this machine's, +-{:.1f} ms",
                  std::abs(offset->seconds) * 1e3, offset->seconds < 0 ? "behind" : "ahead of",
                  offset->uncertain_by * 1e3);
  if (std::abs(offset->seconds) - offset->uncertain_by <= kSkewLimit_s) return fine("clock", found);
  return warning(
      "clock", found,
      "training does not depend on it, but logs, metrics and timelines of the two machines cannot "
      "be compared: set the clocks by chrony or systemd-timesyncd");
}

Finding unreachable(const CoordinatorAim& aim, const Error& why) {
  // Another release, for example: it answers, and its answer is the finding.
  if (why.code != ErrorCode::kTimeout) {
    return trouble("coordinator", why.message, "run the same release everywhere");
  }
  const std::string found =
      fmt::format("none answers at {} within {:g} s", aim.address, aim.wait_s);
  if (!aim.must_answer) {
    return fine("coordinator", found + "; no cluster runs here",
                "tautline train starts a separate one; otherwise start tautline-server");
  }
  return trouble("coordinator", found,
                 "start the server whose config has coordinator {}, see that the address is its "
                 "own, and that no firewall is in between");
}

}  // namespace

std::optional<ClockOffset> clock_offset(const std::vector<ClockReading>& readings) {
  std::optional<ClockOffset> best;
  for (const ClockReading& one : readings) {
    const double half_way = (one.received - one.sent) / 2;
    // A reading during which the clock was set back is not a measurement.
    if (one.coordinator_s <= 0 || half_way < 0) continue;
    if (best && best->uncertain_by <= half_way) continue;
    best =
        ClockOffset{.seconds = one.coordinator_s - (one.sent + half_way), .uncertain_by = half_way};
  }
  return best;
}

Findings check_config(const pb::ClusterConfig& config) {
  Findings findings;
  for (const auto& [field, address] : http_addresses(config)) {
    if (const auto allowed = check_http_address(address, config); !allowed) {
      findings.push_back(
          trouble("config", fmt::format("{}: {}", field, allowed.error().message),
                  "listen on 127.0.0.1, or set http { insecure: true } in a network that only "
                  "you can reach"));
    }
  }
  if (config.insecure()) {
    findings.push_back(
        warning("config", "insecure: true",
                "every process that reaches the ports can read and change everything: use keys, "
                "or keep the ports behind a firewall"));
  }
  return findings;
}

Findings check_coordinator(const CoordinatorAim& aim, Machine& machine, bool& answers) {
  answers = false;
  if (aim.address.ends_with(":0")) {
    if (!aim.must_answer) {
      return {fine("coordinator", "not checked: the system chooses its port when it starts")};
    }
    return {trouble("coordinator", fmt::format("{} names no port", aim.address),
                    "set coordinator_address to what the coordinator's ready file and log say")};
  }
  const auto facts = machine.coordinator(aim.address, aim.wait_s);
  answers = facts.has_value();
  if (!facts) return {unreachable(aim, facts.error())};
  const CoordinatorFacts& cluster = facts.value();
  Findings findings{
      fine("coordinator",
           fmt::format("answers at {}: {}, {}, {}", aim.address, counted(cluster.servers, "server"),
                       counted(cluster.workers, "worker"),
                       cluster.running_jobs > 0 ? "a job runs" : "no job runs"))};
  if (!cluster.lost.empty()) {
    findings.push_back(warning("coordinator",
                               fmt::format("lost: {}", fmt::join(cluster.lost, ", ")),
                               "see their logs; start them again and they rejoin"));
  }
  findings.push_back(clock_finding(cluster.readings));
  return findings;
}

}  // namespace taut::cli

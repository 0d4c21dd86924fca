#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "cli/doctor/node_facts.hpp"
#include "cli/views/draw.hpp"

namespace taut::cli {
namespace {

// A link that is slower than the median by this factor delays every clock.
constexpr double kSlow = 4;

struct Link {
  const pb::NodeFacts* node = nullptr;
  const pb::LinkFacts* facts = nullptr;

  [[nodiscard]] double bytes_per_s() const {
    return facts->sent_s() > 0 ? static_cast<double>(facts->sent_bytes()) / facts->sent_s() : 0;
  }
  [[nodiscard]] std::string text() const {
    return fmt::format("{} -> {}", title_of(*node), facts->address());
  }
};

std::vector<Link> links_of(const ClusterFacts& cluster) {
  std::vector<Link> links;
  for (const pb::NodeFacts& node : cluster.nodes) {
    for (const pb::LinkFacts& facts : node.links()) links.push_back({&node, &facts});
  }
  return links;
}

/// Links that failed for the same reason are one finding.
Findings failures(const std::vector<Link>& links) {
  struct Cases {
    bool connects = false;
    std::vector<std::string> names;
  };
  std::map<std::string, Cases> by_reason;
  for (const Link& link : links) {
    if (link.facts->error().empty()) continue;
    Cases& cases = by_reason[link.facts->error()];
    cases.connects = link.facts->connects();
    cases.names.push_back(link.text());
  }
  Findings findings;
  for (const auto& [reason, cases] : by_reason) {
    findings.push_back(trouble(
        "links", fmt::format("{}: the shard {}", some_of(cases.names), reason),
        cases.connects
            ? "see that the server admits this process's key (tautline keys list), and its log"
            : "let the server listen on an address that the others reach, server { listen "
              "port_base "
              "}, and open those ports in the firewall"));
  }
  return findings;
}

std::string rate_text(double bytes_per_s) {
  return fmt::format("{:.0f} MB/s", bytes_per_s / 1e6);
}

Findings rates(std::vector<Link> measured, const JobNeeds& needs) {
  if (measured.empty()) return {};
  std::ranges::sort(measured, {}, &Link::bytes_per_s);
  const Link& slowest = measured.front();
  const double median = measured[measured.size() / 2].bytes_per_s();
  const double longest = std::ranges::max_element(measured, {}, [](const Link& link) {
                           return link.facts->round_trip_s();
                         })->facts->round_trip_s();
  std::string found = fmt::format(
      "{} measured while all send: the slowest {} at {}, the median {}; round trips up to {:.2f} "
      "ms",
      counted(static_cast<std::int64_t>(measured.size()), "link"), slowest.text(),
      rate_text(slowest.bytes_per_s()), rate_text(median), longest * 1e3);
  if (needs.parameter_bytes > 0 && slowest.bytes_per_s() > 0) {
    found += fmt::format("; {:.1f} MB of updates of {} take {:.3f} s there",
                         static_cast<double>(needs.parameter_bytes) / 1e6, needs.job,
                         static_cast<double>(needs.parameter_bytes) / slowest.bytes_per_s());
  }
  if (slowest.bytes_per_s() * kSlow >= median) return {fine("rates", found)};
  return {warning("rates", found,
                  "in BSP every clock waits for that link: look at its cable, its switch and what "
                  "else uses it, or give the job a slack")};
}

}  // namespace

Findings check_links(const ClusterFacts& cluster, const JobNeeds& needs) {
  const std::vector<Link> links = links_of(cluster);
  if (links.empty()) {
    return cluster.nodes.empty()
               ? Findings{}
               : Findings{fine("links", "no process has a shard of another one to reach")};
  }
  Findings findings = failures(links);
  std::vector<Link> measured;
  for (const Link& link : links) {
    if (link.facts->error().empty() && link.facts->sent_bytes() > 0) measured.push_back(link);
  }
  const auto answered =
      std::ranges::count_if(links, [](const Link& link) { return link.facts->answers(); });
  if (findings.empty()) {
    findings.push_back(fine("links", fmt::format("{} from processes to shards, and all answer",
                                                 counted(answered, "link"))));
  }
  for (Finding& finding : rates(std::move(measured), needs)) {
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace taut::cli

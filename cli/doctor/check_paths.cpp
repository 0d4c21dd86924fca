#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "cli/doctor/node_facts.hpp"

namespace taut::cli {
namespace {

using Use = NeededPath::Use;

struct Seen {
  const pb::NodeFacts* node = nullptr;
  const pb::PathFacts* facts = nullptr;
};

const char* word(Use use) {
  switch (use) {
    case Use::kData:
      return "data";
    case Use::kWeights:
      return "weights";
    case Use::kCheckpoints:
      return "checkpoints";
    case Use::kShared:
      break;
  }
  return "shared";
}

bool uses(const pb::NodeFacts& node, Use use) {
  if (use == Use::kData) return !node.is_server();
  if (use == Use::kCheckpoints) return node.is_server();
  return true;
}

std::vector<Seen> seen_by(const ClusterFacts& cluster, const NeededPath& needed) {
  std::vector<Seen> all;
  for (const pb::NodeFacts& node : cluster.nodes) {
    if (!uses(node, needed.use)) continue;
    for (const pb::PathFacts& facts : node.paths()) {
      if (facts.path() == needed.path) all.push_back({&node, &facts});
    }
  }
  return all;
}

std::vector<std::string> titles(const std::vector<Seen>& seen) {
  std::vector<std::string> names;
  names.reserve(seen.size());
  for (const Seen& one : seen) names.push_back(title_of(*one.node));
  return names;
}

template <class Condition>
std::vector<Seen> those(const std::vector<Seen>& seen, const Condition& condition) {
  std::vector<Seen> found;
  std::ranges::copy_if(seen, std::back_inserter(found), condition);
  return found;
}

bool is_copied(Use use) {
  return use == Use::kData || use == Use::kWeights;
}

/// What makes two views of a path the same. Copies of data may be many: their contents count. A
/// shared folder is a single one: it has one inode, which a network file system shows on every
/// machine.
std::string mark(const Seen& one, Use use) {
  const pb::PathFacts& facts = *one.facts;
  if (is_copied(use)) {
    return fmt::format("{} {} {}", facts.exists(), facts.size(), facts.contents());
  }
  return fmt::format("{} {}", facts.exists(), facts.inode());
}

/// When a shared folder was changed: two folders that have the same inode by chance differ in it. A
/// machine that has cached the attributes shows an older time of the same folder.
std::string change_mark(const Seen& one, Use use) {
  return is_copied(use) ? std::string() : std::to_string(one.facts->changed_ns());
}

/// The sides by their marks, the largest first: "a, b: 4 entries | c: 5 entries". Empty: one side.
template <class Mark>
std::string sides_of(const std::vector<Seen>& seen, Use use, const Mark& mark_of) {
  std::map<std::string, std::vector<Seen>> groups;
  for (const Seen& one : seen) groups[mark_of(one, use)].push_back(one);
  if (groups.size() < 2) return {};
  std::vector<std::vector<Seen>> sorted;
  sorted.reserve(groups.size());
  for (auto& [key, group] : groups) sorted.push_back(std::move(group));
  std::ranges::stable_sort(sorted, std::ranges::greater(), [](const auto& g) { return g.size(); });
  std::vector<std::string> texts;
  texts.reserve(sorted.size());
  for (const auto& group : sorted) {
    const pb::PathFacts& facts = *group.front().facts;
    texts.push_back(fmt::format("{}: {} {}", some_of(titles(group)), facts.size(),
                                facts.is_folder() ? "entries" : "bytes"));
  }
  std::string text;
  for (const std::string& one : texts) text += (text.empty() ? "" : " | ") + one;
  return text;
}

Finding judge(const ClusterFacts& cluster, const NeededPath& needed) {
  const std::vector<Seen> seen = seen_by(cluster, needed);
  const std::string place = fmt::format("{} {}", word(needed.use), needed.path);
  const bool is_written = needed.use == Use::kCheckpoints;
  if (seen.empty()) {
    return warning("paths", fmt::format("{} was looked at by no process that needs it", place),
                   "start the servers and workers first");
  }
  const auto unknown = those(seen, [](const Seen& one) { return !one.facts->error().empty(); });
  if (!unknown.empty()) {
    return trouble(
        "paths",
        fmt::format("{}: {}: {}", place, some_of(titles(unknown)), unknown.front().facts->error()),
        "name a path that these processes may open: allowed_folders, and its permissions "
        "over there");
  }
  const auto missing = those(seen, [](const Seen& one) { return !one.facts->exists(); });
  if (!missing.empty() && !is_written) {
    return trouble("paths",
                   fmt::format("{} does not exist at {} ({})", place, some_of(titles(missing)),
                               missing.front().facts->whole()),
                   needed.use == Use::kData
                       ? "mount it there, or copy it to the same path; --data names another"
                       : "mount it there, or copy it to the same path");
  }
  const auto sealed = those(seen, [](const Seen& one) { return !one.facts->is_writable(); });
  if (is_written && !sealed.empty()) {
    return trouble("paths",
                   fmt::format("{} cannot be written by {}", place, some_of(titles(sealed))),
                   "let the user of the servers write there, or give the job another "
                   "checkpoint { folder }");
  }
  if (const std::string sides = sides_of(seen, needed.use, mark); !sides.empty()) {
    return trouble(
        "paths", fmt::format("{} is not the same everywhere: {}", place, sides),
        is_copied(needed.use)
            ? "copy the same files to each machine; the workers would train on different records"
            : "name a folder of a file system that all of them mount");
  }
  if (const std::string sides = sides_of(seen, needed.use, change_mark); !sides.empty()) {
    return warning(
        "paths", fmt::format("{} has one inode and different times of change: {}", place, sides),
        "a file system that caches attributes, as NFS does, agrees within a minute while no job "
        "writes there; if it does not, these are different folders");
  }
  return fine("paths", fmt::format("{} is the same for {}", place, processes(seen.size())));
}

}  // namespace

Findings check_paths(const ClusterFacts& cluster, const JobNeeds& needs) {
  Findings findings;
  if (cluster.nodes.empty()) return findings;
  for (const NeededPath& needed : needs.paths) findings.push_back(judge(cluster, needed));
  return findings;
}

}  // namespace taut::cli

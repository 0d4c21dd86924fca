#include "server/coordinator/ranks/rank_group.hpp"
#include "proto/config/exchange/settle_exchange.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <tuple>

namespace taut {
namespace {

using Rank = pb::RankGroup::Rank;

/// known  the group so far; its hosts are used while a process has not reconnected yet
Rank rank_of(const pb::StoredMember& member, const Registry& registry, const pb::RankGroup& known) {
  Rank rank;
  rank.set_worker(member.member().worker());
  rank.set_name(member.member().name());
  *rank.mutable_place() = member.progress().rank_place();
  const Participant* process = registry.find_live(pb::ROLE_WORKER, member.member().name(),
                                                  Incarnation(member.member().incarnation()));
  if (process != nullptr && !process->host.empty()) {
    rank.set_host(process->host);
    return rank;
  }
  for (const Rank& one : known.ranks()) {
    if (one.worker() == rank.worker()) rank.set_host(one.host());
  }
  return rank;
}

/// Whether a group's unfinished workers are the same as these, at the same places.
bool is_same(const pb::RankGroup& group, const std::vector<Rank>& ranks,
             const std::set<std::uint32_t>& finished) {
  std::vector<Rank> left;
  std::ranges::copy_if(group.ranks(), std::back_inserter(left),
                       [&](const Rank& rank) { return !finished.contains(rank.worker()); });
  return std::ranges::equal(left, ranks, [](const Rank& one, const Rank& other) {
    return one.worker() == other.worker() && one.host() == other.host() &&
           one.place().address() == other.place().address();
  });
}

}  // namespace

void advance_rank_group(JobRecord& job, const Registry& registry, Notes& notes) {
  const pb::StoredJob& stored = job.stored();
  if (!exchanges_at_workers(stored.definition())) return;
  const pb::RankGroup& group = stored.rank_group();
  std::set<std::uint32_t> finished;
  std::vector<Rank> ranks;
  bool is_broken = false;
  for (const pb::StoredMember& member : stored.members()) {
    if (member.finished() && !member.lost()) finished.insert(member.member().worker());
    if (!job.works(member)) continue;
    is_broken |= group.number() > 0 && member.progress().rank_place().broken() == group.number();
    if (!member.progress().has_rank_place()) {
      if (group.number() == 0) return;
      continue;
    }
    ranks.push_back(rank_of(member, registry, group));
  }
  if (ranks.empty()) return;
  // Workers on the same host are neighbours.
  std::ranges::sort(ranks, {},
                    [](const Rank& rank) { return std::tuple(rank.host(), rank.worker()); });
  if (is_same(group, ranks, finished) && !is_broken) return;
  pb::RankGroup& changed = *job.change().mutable_rank_group();
  changed.set_number(changed.number() + 1);
  changed.clear_ranks();
  for (Rank& rank : ranks) *changed.add_ranks() = std::move(rank);
  job.revise_workers();
  notes.add(JobId(stored.job()),
            fmt::format("{} workers sum their gradients among themselves", changed.ranks_size()));
}

}  // namespace taut

#include "server/coordinator/ranks/rank_group.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "proto/config/settle_averaging.hpp"

namespace taut {
namespace {

using Rank = pb::RankGroup::Rank;

Rank rank_of(const pb::StoredMember& member, const Registry& registry) {
  Rank rank;
  rank.set_worker(member.member().worker());
  rank.set_name(member.member().name());
  *rank.mutable_place() = member.progress().rank_place();
  const Participant* process = registry.find_live(pb::ROLE_WORKER, member.member().name(),
                                                  Incarnation(member.member().incarnation()));
  if (process != nullptr) rank.set_host(process->host);
  return rank;
}

/// Whether they are the same workers, at the same places.
bool is_same(const pb::RankGroup& group, const std::vector<Rank>& ranks) {
  return std::ranges::equal(group.ranks(), ranks, [](const Rank& one, const Rank& other) {
    return one.worker() == other.worker() && one.place().address() == other.place().address();
  });
}

}  // namespace

void advance_rank_group(JobRecord& job, const Registry& registry, Notes& notes) {
  const pb::StoredJob& stored = job.stored();
  if (!sums_at_workers(stored.definition())) return;
  const pb::RankGroup& group = stored.rank_group();
  std::set<std::uint32_t> known;
  for (const Rank& rank : group.ranks()) known.insert(rank.worker());
  std::vector<Rank> ranks;
  bool any_works = false;
  bool is_broken = false;
  for (const pb::StoredMember& member : stored.members()) {
    const bool works = job.works(member);
    const bool has_finished =
        member.finished() && !member.lost() && known.contains(member.member().worker());
    if (!works && !has_finished) continue;
    any_works |= works;
    is_broken |=
        works && group.number() > 0 && member.progress().rank_place().broken() == group.number();
    if (!member.progress().has_rank_place()) {
      if (group.number() == 0) return;
      continue;
    }
    ranks.push_back(rank_of(member, registry));
  }
  if (!any_works || ranks.empty()) return;
  // Those of a host are neighbours.
  std::ranges::sort(ranks, {},
                    [](const Rank& rank) { return std::tuple(rank.host(), rank.worker()); });
  if (is_same(group, ranks) && !is_broken) return;
  pb::RankGroup& changed = *job.change().mutable_rank_group();
  changed.set_number(changed.number() + 1);
  changed.clear_ranks();
  for (Rank& rank : ranks) *changed.add_ranks() = std::move(rank);
  for (int i = 0; i < stored.members_size(); ++i) {
    if (job.works(stored.members(i))) job.revise_worker(i);
  }
  notes.push_back(fmt::format("job {}: {} workers sum their gradients among themselves",
                              stored.job(), changed.ranks_size()));
}

}  // namespace taut

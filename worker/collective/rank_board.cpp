#include "worker/collective/rank_board.hpp"

#include <map>

namespace taut::collective {

void RankBoard::post(const pb::WorkerJob& job) {
  if (job.group().number() <= number_) return;
  auto ranks = std::make_shared<Ranks>();
  ranks->number = job.group().number();
  std::map<std::string, std::uint32_t> hosts;
  for (const pb::RankGroup::Rank& rank : job.group().ranks()) {
    if (rank.worker() == job.worker()) {
      ranks->own = Rank(static_cast<std::uint32_t>(ranks->members.size()));
    }
    const auto host = hosts.emplace(rank.host(), static_cast<std::uint32_t>(hosts.size())).first;
    ranks->members.push_back({.name = rank.name(),
                              .address = rank.place().address(),
                              .key = rank.place().key(),
                              .host = host->second});
  }
  const std::scoped_lock lock(mutex_);
  newest_ = std::move(ranks);
  number_ = newest_->number;
}

std::shared_ptr<const RankBoard::Ranks> RankBoard::newest() const {
  const std::scoped_lock lock(mutex_);
  return newest_;
}

void RankBoard::report_broken(std::uint64_t number) {
  const std::scoped_lock lock(mutex_);
  if (place_) place_->set_broken(number);
}

void RankBoard::set_place(const pb::RankPlace& place) {
  const std::scoped_lock lock(mutex_);
  place_ = place;
}

void RankBoard::report(pb::Progress& progress) const {
  const std::scoped_lock lock(mutex_);
  if (place_) *progress.mutable_rank_place() = *place_;
}

}  // namespace taut::collective

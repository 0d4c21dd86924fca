#include "server/replication/update_log.hpp"

#include <algorithm>
#include <utility>

namespace taut::server {

std::deque<UpdateLog::Entry>::iterator UpdateLog::find(WorkerId worker, Clock clock) {
  return std::ranges::find_if(entries_, [&](const Entry& entry) {
    return entry.push.worker == worker && entry.push.item.clock == clock;
  });
}

void UpdateLog::add(Push push) {
  const auto known = find(push.worker, push.item.clock);
  if (known == entries_.end()) {
    entries_.push_back(Entry{std::move(push), BackupSet::first(backups_)});
    return;
  }
  // It is the same update, perhaps over another connection, and now with a read.
  if (!known->push.counts_already) known->push = std::move(push);
}

void UpdateLog::add_first(std::vector<Push> held) {
  for (; !held.empty(); held.pop_back()) {
    held.back().counts_already = true;
    entries_.push_front(Entry{std::move(held.back()), BackupSet::first(backups_)});
  }
}

bool UpdateLog::has(WorkerId worker, Clock clock) const {
  return std::ranges::any_of(entries_, [&](const Entry& entry) {
    return entry.push.worker == worker && entry.push.item.clock == clock;
  });
}

std::optional<Clock> UpdateLog::newest(WorkerId worker) const {
  std::optional<Clock> newest;
  for (const Entry& entry : entries_) {
    if (entry.push.worker == worker) {
      newest = std::max(newest.value_or(entry.push.item.clock), entry.push.item.clock);
    }
  }
  return newest;
}

std::size_t UpdateLog::waiting() const {
  return static_cast<std::size_t>(std::ranges::count_if(
      entries_, [](const Entry& entry) { return !entry.push.counts_already; }));
}

void UpdateLog::reset(std::size_t backups) {
  backups_ = backups;
  std::erase_if(entries_, [](const Entry& entry) { return entry.push.counts_already; });
  for (Entry& entry : entries_) entry = Entry{std::move(entry.push), BackupSet::first(backups)};
  number_ = 0;
  under_way_ = 0;
}

void UpdateLog::send(std::span<DataImages> batches, std::uint64_t& under_way, TimePoint now,
                     Duration again) {
  constexpr int kMaxDoublings = 6;
  for (Entry& entry : entries_) {
    const bool is_full = std::ranges::any_of(
        batches, [](const auto& batch) { return batch.logged.size() >= DataImages::kMaxImages; });
    if (is_full) return;
    if (entry.lacking.empty()) continue;
    const DataItem& item = entry.push.item;
    if (!entry.sent) {
      if (under_way >= kMaxBytesInFlight) return;
      under_way += item.payload.size();
      under_way_ += item.payload.size();
      entry.since = now;
      entry.number = ++number_;
    } else if (now - *entry.sent < (1 << std::min(entry.attempts - 1, kMaxDoublings)) * again) {
      continue;
    }
    for (std::size_t backup = 0; backup < batches.size(); ++backup) {
      if (!entry.lacking.has(backup)) continue;
      batches[backup].logged.push_back(
          {item.table, item.slice, entry.push.worker, entry.number, item.count, update_of(item)});
    }
    entry.sent = now;
    ++entry.attempts;
  }
}

void UpdateLog::note_kept(std::size_t backup, WorkerId worker, Clock clock) {
  const auto found = find(worker, clock);
  if (found == entries_.end() || !found->sent || !found->lacking.has(backup)) return;
  found->lacking.remove(backup);
  if (!found->lacking.empty()) return;
  under_way_ -= found->push.item.payload.size();
}

TimePoint UpdateLog::lacks_since(std::size_t backup) const {
  TimePoint oldest = TimePoint::never();
  for (const Entry& entry : entries_) {
    if (entry.lacking.has(backup)) {
      oldest = std::min(oldest, entry.since.value_or(TimePoint::never()));
    }
  }
  return oldest;
}

bool UpdateLog::lacks_accepted() const {
  return std::ranges::any_of(entries_, [](const Entry& entry) {
    return entry.push.counts_already && !entry.lacking.empty();
  });
}

std::vector<UpdateLog::Push> UpdateLog::take_kept(std::size_t most) {
  std::vector<Push> kept;
  for (; !entries_.empty() && entries_.front().lacking.empty(); entries_.pop_front()) {
    if (kept.size() == most) break;
    if (!entries_.front().push.counts_already) kept.push_back(std::move(entries_.front().push));
  }
  return kept;
}

const UpdateLog::Push* UpdateLog::next_kept() const {
  for (const Entry& entry : entries_) {
    if (!entry.lacking.empty()) return nullptr;
    if (!entry.push.counts_already) return &entry.push;
  }
  return nullptr;
}

std::vector<UpdateLog::Push> UpdateLog::take_all() {
  std::vector<Push> all;
  under_way_ = 0;
  for (Entry& entry : std::exchange(entries_, {})) {
    if (!entry.push.counts_already) all.push_back(std::move(entry.push));
  }
  return all;
}

void UpdateLog::excuse(TimePoint now) {
  for (Entry& entry : entries_) {
    if (entry.since) entry.since = now;
  }
}

}  // namespace taut::server

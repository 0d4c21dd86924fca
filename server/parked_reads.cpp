#include "server/parked_reads.hpp"

#include <algorithm>
#include <utility>

namespace taut::server {

void ParkedReads::park(const Reader& reader, Slack slack, RowAllowance::Share share) {
  const auto parked = reads_.find(reader.worker);
  if (parked != reads_.end() && reader.clock < parked->second.reader.clock) return;
  reads_.insert_or_assign(reader.worker, Read{reader, slack, std::move(share)});
}

void ParkedReads::note_answered(const Reader& reader) {
  const auto parked = reads_.find(reader.worker);
  if (parked != reads_.end() && parked->second.reader.clock <= reader.clock) reads_.erase(parked);
}

void ParkedReads::update(const JobView& job) {
  swept_.reset();
  std::erase_if(reads_, [&](const auto& entry) {
    const Member* member = job.membership.find(entry.first);
    return member == nullptr || member->fenced;
  });
  for (auto& [worker, parked] : reads_) {
    parked.slack = job.slack_at(parked.reader.clock, std::max(parked.slack, job.slack));
  }
}

std::vector<Reader> ParkedReads::take_true(const SliceClock& clock, Clock last,
                                           std::optional<WorkerId> pushed) {
  std::vector<Reader> readers;
  const Sweep sweep{clock.complete_until(), last};
  auto parked = reads_.begin();
  auto end = reads_.end();
  // With a thousand workers there are a thousand pushes between two rises of V.
  if (pushed && swept_ == sweep) {
    parked = reads_.find(*pushed);
    if (parked != reads_.end()) end = std::next(parked);
  }
  swept_ = sweep;
  while (parked != end) {
    const Reader& reader = parked->second.reader;
    if (reader.clock <= last && may_read(clock.complete_until(), clock.done(reader.worker),
                                         reader.clock, parked->second.slack)) {
      readers.push_back(reader);
      parked = reads_.erase(parked);
    } else {
      ++parked;
    }
  }
  return readers;
}

}  // namespace taut::server

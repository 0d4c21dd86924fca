#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <vector>

#include "common/net/endpoint.hpp"
#include "common/net/message.hpp"
#include "common/ssp/slice_clock.hpp"
#include "common/types.hpp"
#include "server/job_view.hpp"
#include "server/tables/row_allowance.hpp"

namespace taut::server {

/// The reader of a slice, and its clock.
struct Reader {
  PeerId peer;
  WorkerId worker;
  Clock clock;
  Frame rows = {};  // of a table that is kept by rows: their numbers, 8 bytes each
};

/// The reads of one slice that are too early: the newest one of each worker.
/// Thread    shard thread
class ParkedReads {
 public:
  /// A worker's newer read replaces its older one; an older one changes nothing.
  /// share  of what its rows take
  void park(const Reader& reader, Slack slack, RowAllowance::Share share = {});
  /// A read was answered: an older one of the same worker is removed. A late copy of an older read
  /// leaves a newer one parked.
  void note_answered(const Reader& reader);
  /// Takes over a changed view of the job: reads of lost workers are removed, and a larger slack
  /// applies from now on.
  void update(const JobView& job);
  /// Removes those that are true now. REQUIRES: one that was parked since the last call was not.
  /// last    the last clock at which a read may be answered, whatever V is
  /// pushed  the only worker whose own clock may have changed since the last call; nullopt: several
  [[nodiscard]] std::vector<Reader> take_true(const SliceClock& clock, Clock last = Clock::never(),
                                              std::optional<WorkerId> pushed = std::nullopt);

  [[nodiscard]] bool holds(WorkerId worker) const { return reads_.contains(worker); }
  /// What the rows of a worker's read take.
  [[nodiscard]] std::uint64_t row_bytes(WorkerId worker) const {
    const auto read = reads_.find(worker);
    return read == reads_.end() ? 0 : read->second.share.bytes();
  }
  [[nodiscard]] std::size_t size() const { return reads_.size(); }

 private:
  struct Read {
    Reader reader;
    Slack slack;  // the largest slack since it was parked
    RowAllowance::Share share;
  };
  /// What all reads were compared with.
  struct Sweep {
    Clock until;
    Clock last;
    bool operator==(const Sweep&) const = default;
  };
  std::map<WorkerId, Read> reads_;
  std::optional<Sweep> swept_;  // nullopt: they are to be compared anew
};

}  // namespace taut::server

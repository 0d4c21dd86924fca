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
  Frame rows = {};  // for a table that is kept by rows: row numbers, 8 bytes each
};

/// The reads of one slice that are too early: the newest one of each worker.
/// Thread    shard thread
class ParkedReads {
 public:
  /// Parks a read; it replaces the worker's parked read unless that one is newer.
  /// share  the allowance that its row numbers take
  void park(const Reader& reader, Slack slack, RowAllowance::Share share = {});
  /// Removes the worker's parked read after `reader` was answered, unless the parked one is newer:
  /// the answered one may be a late copy.
  void note_answered(const Reader& reader);
  /// Adopts a changed view of the job: removes the reads of lost workers and applies a larger slack
  /// from now on.
  void update(const JobView& job);
  /// Removes and returns the reads that can be answered now.
  /// REQUIRES: no read could be answered at the time it was parked.
  /// last    the last clock at which a read may be answered, whatever V is
  /// pushed  the only worker whose own clock may have changed since the last call; nullopt if
  ///         several clocks may have changed
  [[nodiscard]] std::vector<Reader> take_true(const SliceClock& clock, Clock last = Clock::never(),
                                              std::optional<WorkerId> pushed = std::nullopt);

  [[nodiscard]] bool holds(WorkerId worker) const { return reads_.contains(worker); }
  /// The bytes that the rows of a worker's parked read take.
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
  /// The limits with which all reads were compared.
  struct Sweep {
    Clock until;
    Clock last;
    bool operator==(const Sweep&) const = default;
  };
  std::map<WorkerId, Read> reads_;
  std::optional<Sweep> swept_;  // nullopt: all reads must be compared again
};

}  // namespace taut::server

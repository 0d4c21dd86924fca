#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "common/net/endpoint.hpp"
#include "common/ssp/slice_clock.hpp"
#include "common/types.hpp"
#include "server/job_view.hpp"

namespace taut::server {

/// Who reads a slice, and at which clock.
struct Reader {
  PeerId peer;
  WorkerId worker;
  Clock clock;
};

/// The reads of one slice that are too early: of each worker its newest.
/// Thread    shard thread
class ParkedReads {
 public:
  /// A worker's newer read takes the place of its older one; an older one changes nothing.
  void park(const Reader& reader, Slack slack);
  /// A read was answered: an older one of the same worker waits no longer. A late copy of an older
  /// read leaves a newer one parked.
  void note_answered(const Reader& reader);
  /// Takes over a changed view of the job: workers that were declared lost read no more, and a
  /// larger slack holds from now on.
  void update(const JobView& job);
  /// Removes those that are true now.
  [[nodiscard]] std::vector<Reader> take_true(const SliceClock& clock);

  [[nodiscard]] std::size_t size() const { return reads_.size(); }

 private:
  struct Read {
    Reader reader;
    Slack slack;  // the largest that held since it was parked
  };
  std::map<WorkerId, Read> reads_;
};

}  // namespace taut::server

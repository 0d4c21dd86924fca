#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "common/net/endpoint.hpp"
#include "common/types.hpp"
#include "proto/data_message.hpp"

namespace taut {

/// The requests of the followers that this one passes models on to: for each slice, who waits for
/// it and from which version on. No I/O.
class ModelRelay {
 public:
  /// More are not kept: those that ask for them ask again.
  static constexpr std::size_t kMax = 1U << 20U;

  struct Waiting {
    PeerId peer;
    Clock from;
  };

  void park(PeerId peer, const DataItem& item);
  /// Removes and returns those that values of this version serve.
  [[nodiscard]] std::vector<Waiting> take(TableId table, SliceId slice, Clock version);
  /// The lowest version that is waited for; nothing: none is.
  [[nodiscard]] std::optional<Clock> wanted() const;
  /// A peer lives, and still waits for what it has asked for.
  void refresh(PeerId peer) { ages_[peer] = age_; }
  /// Forgets those that have said nothing since the last call but one: they have gone.
  void age();

 private:
  std::map<std::pair<TableId, SliceId>, std::map<PeerId, Clock>> waiting_;
  std::map<PeerId, std::uint64_t> ages_;  // when each was heard of last
  std::size_t count_ = 0;
  std::uint64_t age_ = 0;
};

}  // namespace taut

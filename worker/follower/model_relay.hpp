#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "common/net/endpoint.hpp"
#include "common/ssp/slice_layout.hpp"
#include "common/types.hpp"
#include "proto/data_message.hpp"

namespace taut {

/// The requests of the followers that this one passes models on to: for each slice, which
/// followers wait for it and from which version on. No I/O.
class ModelRelay {
 public:
  /// More are not kept: those that ask for them ask again.
  static constexpr std::size_t kMax = 1U << 20U;

  /// What a peer is to get of a slice: elements, counted from its first.
  struct Part {
    PeerId peer;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };

  void park(PeerId peer, const DataItem& item);
  /// What those get next that values of this version serve; one that has got all of them is
  /// removed.
  /// filled  how many of the slice's elements are here, from the first on
  [[nodiscard]] std::vector<Part> take(const Slice& place, Clock version, std::uint64_t filled);
  /// What is sent from now on is of other values: each gets a slice from its first element on.
  void restart();
  /// The lowest version that is waited for; nullopt if none is.
  [[nodiscard]] std::optional<Clock> wanted() const;
  /// A peer lives, and still waits for what it has asked for.
  void refresh(PeerId peer) { ages_[peer] = age_; }
  /// Forgets those that have said nothing since the last call but one: they have gone.
  void age();

 private:
  struct Waiting {
    Clock from;
    Clock version;           // of what it has got
    std::uint64_t sent = 0;  // elements
  };

  std::map<std::pair<TableId, SliceId>, std::map<PeerId, Waiting>> waiting_;
  std::map<PeerId, std::uint64_t> ages_;  // when each was heard of last
  std::size_t count_ = 0;
  std::uint64_t age_ = 0;
};

}  // namespace taut

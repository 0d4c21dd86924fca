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
  /// Limit on kept requests: further ones are dropped, and their followers send them again.
  static constexpr std::size_t kMax = 1U << 20U;

  /// A part of a slice to send to a peer: elements, counted from the slice's first.
  struct Part {
    PeerId peer;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };

  void park(PeerId peer, const DataItem& item);
  /// Returns the next part for each peer whose request this version serves, and removes requests
  /// that are then complete.
  /// filled  how many of the slice's elements have arrived, from the first on
  [[nodiscard]] std::vector<Part> take(const Slice& place, Clock version, std::uint64_t filled);
  /// The values are no longer the same: sends each partly sent slice again from its first element.
  void restart();
  /// The lowest version that a peer waits for; nullopt if none does.
  [[nodiscard]] std::optional<Clock> wanted() const;
  /// Records that a peer is alive and still waits for what it has requested.
  void refresh(PeerId peer) { ages_[peer] = age_; }
  /// Forgets peers that have sent nothing since the last call but one: they have gone.
  void age();

 private:
  struct Waiting {
    Clock from;
    Clock version;           // of what was sent to it
    std::uint64_t sent = 0;  // elements
  };

  std::map<std::pair<TableId, SliceId>, std::map<PeerId, Waiting>> waiting_;
  std::map<PeerId, std::uint64_t> ages_;  // `age_` at each peer's last message
  std::size_t count_ = 0;
  std::uint64_t age_ = 0;
};

}  // namespace taut

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/net/buffer_pool.hpp"
#include "common/net/message.hpp"
#include "common/result.hpp"
#include "common/time.hpp"
#include "worker/collective/schedule.hpp"

namespace taut::collective {

/// A message between two ranks: consecutive elements of the values that are summed.
struct Chunk {
  Phase phase = Phase::kPartial;
  std::uint64_t total = 0;   // elements of the whole sum, the same at every rank
  std::uint64_t offset = 0;  // of the first element
  std::uint64_t count = 0;   // elements
  Frame payload;             // [count] float32
};

struct ChunkTo {
  Rank to;
  Chunk chunk;
};

/// One rank's part in one sum over a group: follows its schedule, element by element in its order,
/// in messages of at most `chunk` elements, each as soon as what it depends on has arrived.
///
/// Messages may arrive in any order and more than once: early ones are held, at most one copy of
/// each that is expected, and those that were applied are dropped. The transport must not lose any:
/// the messages of one connection all arrive, in order, or it breaks, and then the sum never ends;
/// waits_for() returns what is missing.
///
/// Sent chunks share the memory of the values and are not copied. Schedule explains why they do not
/// change while the receiver needs them; after the sum the memory may be reused once
/// Buffer::unshared() returns true.
/// Thread    one
class AllReduce {
 public:
  /// schedule  of this rank, for as many elements as `values` has floats; empty: done at once
  /// values    what this rank adds; they become the sum
  /// chunk     maximum elements of a message, the same at every rank
  AllReduce(const Schedule& schedule, const Buffer& values, std::uint64_t chunk);
  /// Overload for a schedule that receives elements at other places than it sends them from.
  /// total     elements that are sent and received, the same at every rank
  /// values    these, and room for what is received
  AllReduce(const Schedule& schedule, Buffer values, std::uint64_t chunk, std::uint64_t total);

  /// Returns what can be sent at once. Call it once, before receive().
  [[nodiscard]] std::vector<ChunkTo> start(TimePoint now);

  /// Applies a chunk, or holds it; returns what can be sent now.
  /// Errors    mismatch: the other side sums another number of elements; invalid: elements that
  ///           this rank does not receive from that one in that phase, or a payload of another size
  [[nodiscard]] Result<std::vector<ChunkTo>> receive(Rank from, const Chunk& chunk, TimePoint now);

  /// Whether every element of the values is the sum, and everything was returned for sending.
  [[nodiscard]] bool is_done() const { return left_ == 0; }

  /// The first chunk that has not arrived although it could be applied.
  struct Missing {
    Rank from;
    Phase phase = Phase::kPartial;
    Range range;
    Duration silence{0};  // since any message was applied, or the start
  };
  [[nodiscard]] std::optional<Missing> waits_for(TimePoint now) const;

  [[nodiscard]] std::uint64_t repeated() const { return repeated_; }  // messages that were dropped

 private:
  struct Step {
    Transfer what;
    std::uint64_t end_done = 0;             // elements up to here are sent, or applied
    std::vector<std::size_t> after;         // earlier steps of the same elements
    std::vector<std::size_t> before;        // later ones
    std::map<std::uint64_t, Frame> held{};  // by offset: arrived, too early
  };

  [[nodiscard]] Range next_chunk(const Step& step) const;
  [[nodiscard]] bool may_proceed(const Step& step, Range chunk) const;
  void apply(const Step& step, Range chunk, const Frame& payload);
  void advance(std::size_t first, std::vector<ChunkTo>& out);
  [[nodiscard]] Step* expected(Rank from, const Chunk& chunk);

  const Buffer values_;
  const std::uint64_t count_;
  const std::uint64_t chunk_;
  std::vector<Step> steps_;
  std::uint64_t left_ = 0;  // elements of all steps
  std::uint64_t repeated_ = 0;
  TimePoint last_applied_;
};

/// "elements [0, 100) as a partial sum"
[[nodiscard]] std::string to_string(Phase phase, Range range);

}  // namespace taut::collective

#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "common/net/message.hpp"
#include "common/net/shared_arena.hpp"
#include "common/net/shared_view.hpp"
#include "common/result.hpp"

namespace taut {

/// Where a payload is in its sender's arena, and the loan through which the receiver returns
/// it.
struct SharedPlace {
  std::uint64_t offset = 0;
  std::uint32_t loan = 0;        // index of the connection's loan, below SharedLink::kMaxLoans
  std::uint32_t generation = 0;  // a new value each time the loan is used
};

/// Payloads of one connection between two processes of a machine. A payload that is sent stays
/// in place, on loan: its sender leaves it unchanged until the receiver has dropped every copy of
/// the received frame. The receiver records that in its own arena, which the sender maps; so
/// no process writes another's memory, and a loan is returned without a message.
///
/// A loan whose message was lost returns when the link ends: at a shard, once the other side has
/// closed its memory or repeated the handshake.
/// Thread    one; borrowed frames may be dropped on any
class SharedLink {
 public:
  /// Maximum number of payloads on loan; further payloads are sent as bytes.
  static constexpr std::uint32_t kMaxLoans = 16384;
  /// Minimum size of a lent payload; a smaller one costs less as bytes.
  static constexpr std::size_t kMinBytes = 2048;

  /// What the other side must know about this one.
  struct Offer {
    SharedMemoryOffer memory;
    std::uint64_t returns = 0;  // offset of the returned loans: kMaxLoans 32-bit words
    friend bool operator==(const Offer&, const Offer&) = default;
  };

  /// ours     the arena of this side's payloads. Throws std::bad_alloc.
  /// pinning  pins what is borrowed; nullptr: nothing is pinned
  explicit SharedLink(std::shared_ptr<SharedArena> ours,
                      std::shared_ptr<MemoryPinning> pinning = nullptr);

  [[nodiscard]] Offer offer() const;
  /// Maps the other side's memory.
  /// pages     kStay: the other side is not trusted, and nothing is read that it has never written
  /// Errors    as SharedView::open; invalid: its `returns` are outside of it, or never written
  [[nodiscard]] Result<void> open(const Offer& theirs, ArenaPages pages = ArenaPages::kReturned);
  [[nodiscard]] bool is_open() const { return theirs_ != nullptr; }
  /// Whether the other side's memory still exists.
  [[nodiscard]] bool is_alive() const { return theirs_ != nullptr && theirs_->owner_has_it(); }

  /// From now on payloads are lent where possible: both sides have mapped each other.
  void start() { started_ = true; }

  /// Lends a payload that is about to be sent. nullopt: it must be sent as bytes.
  [[nodiscard]] std::optional<SharedPlace> lend(const Frame& payload);
  /// Releases returned payloads.
  void collect();
  /// The number of loans so far; undo_since() cancels later ones, which were not sent.
  [[nodiscard]] std::uint64_t lent_so_far() const { return lent_so_far_; }
  void undo_since(std::uint64_t lent_so_far);
  [[nodiscard]] std::size_t on_loan() const { return lent_.size(); }
  [[nodiscard]] std::uint64_t bytes_on_loan() const { return bytes_on_loan_; }

  /// A payload lent by the other side.
  /// Errors    invalid: a place outside of the other side's memory, or that it has never written;
  ///           no such loan
  [[nodiscard]] Result<Frame> borrow(const SharedPlace& place, std::size_t size);

 private:
  using Returns = std::atomic<std::uint32_t>;
  struct Lent {
    std::uint32_t loan = 0;
    std::uint32_t generation = 0;
    std::uint64_t number = 0;
    Frame payload;
  };

  const std::shared_ptr<SharedArena> ours_;
  const std::shared_ptr<MemoryPinning> pinning_;
  std::shared_ptr<Returns> given_back_;  // [kMaxLoans], by this side
  std::shared_ptr<SharedView> theirs_;
  const Returns* their_returns_ = nullptr;  // [kMaxLoans], by the other side
  bool started_ = false;
  std::vector<Lent> lent_;
  std::vector<std::uint32_t> free_;         // loans
  std::vector<std::uint32_t> generations_;  // of each loan
  std::uint64_t lent_so_far_ = 0;
  std::uint64_t bytes_on_loan_ = 0;
};

}  // namespace taut

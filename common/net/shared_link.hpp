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

/// Where a payload lies in its sender's arena, and the loan by which the receiver says that it has
/// done with it.
struct SharedPlace {
  std::uint64_t offset = 0;
  std::uint32_t loan = 0;        // which of the connection's loans, below SharedLink::kLoans
  std::uint32_t generation = 0;  // how often that loan was made
};

/// Payloads of one connection between two processes of a machine. A payload that is sent stays
/// where it is, on loan: its sender keeps it as it is until the receiver has dropped every copy of
/// the frame that it got for it. The receiver says so in its own arena, which the sender maps; so
/// nobody writes another process's memory, and a loan comes back without a message.
///
/// A loan whose message was lost comes back when the link ends: at a shard, when the other side has
/// closed its memory or agreed anew.
/// Thread    one; borrowed frames may be dropped on any
class SharedLink {
 public:
  /// Payloads that may be on loan at a time; what goes beyond travels as bytes.
  static constexpr std::uint32_t kLoans = 16384;
  /// A smaller payload costs less as bytes.
  static constexpr std::size_t kLeast = 2048;

  /// What the other side must know of this one.
  struct Offer {
    SharedMemoryOffer memory;
    std::uint64_t returns = 0;  // where in the arena loans are given back: kLoans 32-bit words
    friend bool operator==(const Offer&, const Offer&) = default;
  };

  /// ours  where this side's payloads lie. Throws std::bad_alloc.
  explicit SharedLink(std::shared_ptr<SharedArena> ours);

  [[nodiscard]] Offer offer() const;
  /// Maps the other side's memory. Errors: as SharedView::open; invalid: returns outside of it.
  [[nodiscard]] Result<void> open(const Offer& theirs);
  [[nodiscard]] bool is_open() const { return theirs_ != nullptr; }
  /// Whether the other side still has its memory.
  [[nodiscard]] bool is_alive() const { return theirs_ != nullptr && theirs_->owner_has_it(); }

  /// From now on payloads that can travel as places do: both sides have opened.
  void start() { started_ = true; }

  /// Lends a payload that is about to be sent. Nothing: it must travel as bytes.
  [[nodiscard]] std::optional<SharedPlace> lend(const Frame& payload);
  /// Drops what has come back.
  void collect();
  /// How many loans were made so far, and the undoing of those made since: they were not sent.
  [[nodiscard]] std::uint64_t lent_so_far() const { return lent_so_far_; }
  void undo_since(std::uint64_t lent_so_far);
  [[nodiscard]] std::size_t on_loan() const { return lent_.size(); }

  /// A payload that the other side has lent.
  /// Errors    invalid: a place outside of the other side's memory, or no such loan
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
  std::shared_ptr<Returns> given_back_;  // [kLoans], by this side
  std::shared_ptr<SharedView> theirs_;
  const Returns* come_back_ = nullptr;  // [kLoans], by the other side
  bool started_ = false;
  std::vector<Lent> lent_;
  std::vector<std::uint32_t> free_;         // loans
  std::vector<std::uint32_t> generations_;  // of each loan
  std::uint64_t lent_so_far_ = 0;
};

}  // namespace taut

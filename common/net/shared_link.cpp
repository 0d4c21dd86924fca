#include "common/net/shared_link.hpp"

#include <fmt/format.h>

#include <numeric>
#include <random>
#include <utility>

namespace taut {
namespace {

using Word = std::atomic<std::uint32_t>;
constexpr std::size_t kReturnsBytes = SharedLink::kMaxLoans * sizeof(Word);
// Processes share these words, so no lock of one process may guard them.
static_assert(Word::is_always_lock_free && sizeof(Word) == sizeof(std::uint32_t));

/// Keeps a borrowed payload's memory mapped, and returns the loan with its last copy.
struct Borrowed {
  Borrowed(std::shared_ptr<SharedView> view_, std::shared_ptr<Word> returns_, SharedPlace place_)
      : view(std::move(view_)), returns(std::move(returns_)), place(place_) {}
  ~Borrowed() {
    // Reads of the payload happen before the sender writes there again.
    (returns.get() + place.loan)->store(place.generation, std::memory_order_release);
  }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;

  std::shared_ptr<SharedView> view;
  std::shared_ptr<Word> returns;
  SharedPlace place;
};

}  // namespace

SharedLink::SharedLink(std::shared_ptr<SharedArena> ours, std::shared_ptr<MemoryPinning> pinning)
    : ours_(std::move(ours)), pinning_(std::move(pinning)) {
  void* memory = ours_->allocate(kReturnsBytes);
  Word* words = new (memory) Word[kMaxLoans]();
  given_back_ = {words, [arena = ours_](Word* spent) { arena->deallocate(spent, kReturnsBytes); }};
  free_.resize(kMaxLoans);
  std::iota(free_.rbegin(), free_.rend(), 0U);
  // A peer may still know an earlier link by the same offer, with the loans that it returned there.
  generations_.assign(kMaxLoans, std::random_device()());
}

SharedLink::Offer SharedLink::offer() const {
  const auto words = std::as_bytes(std::span(given_back_.get(), kMaxLoans));
  return {ours_->offer(), *ours_->offset_of(words)};
}

Result<void> SharedLink::open(const Offer& theirs, ArenaPages pages) {
  if (theirs.memory.size < kReturnsBytes || theirs.returns > theirs.memory.size - kReturnsBytes ||
      theirs.returns % 64 != 0) {
    return invalid(fmt::format("loans are given back at {}, outside of {} shared bytes",
                               theirs.returns, theirs.memory.size));
  }
  TAUT_TRY(auto view, SharedView::open(theirs.memory, pinning_, pages));
  if (!view->is_readable(theirs.returns, kReturnsBytes)) {
    return invalid(fmt::format("loans are given back at {}, where the peer has never written",
                               theirs.returns));
  }
  theirs_ = std::move(view);
  their_returns_ = reinterpret_cast<const Word*>(theirs_->bytes().data() + theirs.returns);
  return ok();
}

std::optional<SharedPlace> SharedLink::lend(const Frame& payload) {
  if (!started_ || payload.size() < kMinBytes || free_.empty()) return std::nullopt;
  const auto offset = ours_->offset_of(payload.bytes());
  if (!offset) return std::nullopt;
  ours_->touch(payload.bytes());
  const std::uint32_t loan = free_.back();
  free_.pop_back();
  const std::uint32_t generation = ++generations_[loan];
  lent_.push_back({loan, generation, lent_so_far_++, payload});
  bytes_on_loan_ += payload.size();
  return SharedPlace{*offset, loan, generation};
}

void SharedLink::collect() {
  std::erase_if(lent_, [this](const Lent& lent) {
    if (their_returns_[lent.loan].load(std::memory_order_acquire) != lent.generation) return false;
    free_.push_back(lent.loan);
    bytes_on_loan_ -= lent.payload.size();
    return true;
  });
}

void SharedLink::undo_since(std::uint64_t lent_so_far) {
  while (!lent_.empty() && lent_.back().number >= lent_so_far) {
    free_.push_back(lent_.back().loan);
    bytes_on_loan_ -= lent_.back().payload.size();
    lent_.pop_back();
  }
}

Result<Frame> SharedLink::borrow(const SharedPlace& place, std::size_t size) {
  if (!theirs_) return invalid("a payload in shared memory that was not agreed on");
  const auto memory = theirs_->bytes();
  if (place.loan >= kMaxLoans || size > memory.size() || place.offset > memory.size() - size) {
    return invalid(fmt::format("a payload of {} bytes at {} by loan {} of {} shared bytes", size,
                               place.offset, place.loan, memory.size()));
  }
  if (!theirs_->is_readable(place.offset, size)) {
    return invalid(fmt::format("a payload of {} bytes at {}, where the peer has never written",
                               size, place.offset));
  }
  const auto bytes = memory.subspan(place.offset, size);
  if (pinning_) theirs_->pin(bytes);
  return Frame(std::make_shared<Borrowed>(theirs_, given_back_, place), bytes);
}

}  // namespace taut

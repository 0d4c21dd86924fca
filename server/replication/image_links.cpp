#include "server/replication/image_links.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "common/log.hpp"
#include "proto/session/shared_handshake.hpp"

namespace taut::server {
namespace {

constexpr Duration kSweepLinksEvery{1'000'000};
constexpr Bytes kKept{64ULL << 20U};  // of free buffers
// Bytes lent with one message: far above what a primary lends.
constexpr std::uint64_t kMaxLent = 64ULL << 20U;

Result<Frame> copy_of(SharedLink& link, const SharedPlace& place, std::uint64_t size,
                      BufferPool& pool) {
  TAUT_TRY(Frame lent, link.borrow(place, size));
  const Buffer copy = pool.acquire(size);
  std::memcpy(copy.data(), lent.bytes().data(), size);
  return Frame(copy);
}

Result<void> take_image(SharedLink& link, ImageItem& image, BufferPool& pool) {
  TAUT_TRY(image.values, copy_of(link, image.lent.front(), image.lent_bytes, pool));
  for (std::size_t i = 1; i < image.lent.size(); ++i) {
    TAUT_TRY(Frame state, copy_of(link, image.lent[i], image.lent_bytes, pool));
    image.states.push_back(std::move(state));
  }
  image.lent.clear();
  return ok();
}

Result<void> take_update(SharedLink& link, LoggedUpdate& logged, BufferPool& pool) {
  const std::uint64_t size = push_bytes(push_of(logged));
  TAUT_TRY(Frame gradient, copy_of(link, *logged.lent, size, pool));
  logged.lent.reset();
  return set_gradient(gradient, logged);
}

/// Errors    invalid: more than a primary lends with one message
Result<void> check_lent(const DataImages& images) {
  std::uint64_t bytes = 0;
  const auto add = [&bytes](std::uint64_t more) {
    bytes = more > kMaxLent ? kMaxLent + 1 : std::min(bytes + more, kMaxLent + 1);
  };
  for (const ImageItem& image : images.images) {
    for (std::size_t i = 0; i < image.lent.size(); ++i) add(image.lent_bytes);
  }
  for (const LoggedUpdate& logged : images.logged) {
    if (logged.lent) add(push_bytes(push_of(logged)));
  }
  if (bytes <= kMaxLent) return ok();
  return invalid(fmt::format("more than {} bytes of images are lent with one message", kMaxLent));
}

}  // namespace

ImageLinks::ImageLinks(std::shared_ptr<SharedArena> arena)
    : arena_(std::move(arena)),
      lent_(kKept, arena_ ? std::shared_ptr<BufferAllocator>(arena_) : host_allocator()) {}

void ImageLinks::add(PeerId backup) {
  if (!arena_) return;
  try {
    backups_[backup] = {std::make_unique<SharedLink>(arena_), {}};
  } catch (const std::bad_alloc&) {
    log::warn("images travel as bytes: no shared memory is left");
  }
}

void ImageLinks::remove(PeerId backup) {
  const auto found = backups_.find(backup);
  if (found == backups_.end()) return;
  if (found->second.link->on_loan() > 0) old_links_.push_back(std::move(found->second.link));
  backups_.erase(found);
}

SharedLink* ImageLinks::offer(PeerId backup, DataImages& images) {
  const auto found = backups_.find(backup);
  if (found == backups_.end()) return nullptr;
  images.memory = to_wire(found->second.link->offer());
  SharedLink* const open = link(backup);
  if (open == nullptr) return nullptr;
  images.lent_to = found->second.offer.memory.probe;
  for (LoggedUpdate& logged : images.logged) make_lendable(logged.update.gradient);
  return open;
}

/// Copies an update out of its worker's memory, which the shard cannot lend.
void ImageLinks::make_lendable(Frame& gradient) {
  if (gradient.size() < SharedLink::kMinBytes || arena_->offset_of(gradient.bytes())) return;
  try {
    const Buffer copy = lent_.acquire(gradient.size());
    std::memcpy(copy.data(), gradient.bytes().data(), gradient.size());
    gradient = Frame(copy).part(0, gradient.size());
  } catch (const std::bad_alloc&) {
    // It travels as bytes.
  }
}

SharedLink* ImageLinks::link(PeerId backup) {
  const auto found = backups_.find(backup);
  if (found == backups_.end() || !found->second.link->is_open()) return nullptr;
  SharedLink& link = *found->second.link;
  if (link.bytes_on_loan() > kMaxOnLoan) link.collect();
  return link.bytes_on_loan() > kMaxOnLoan ? nullptr : &link;
}

void ImageLinks::hear(PeerId backup, const pb::SliceImagesReply& reply) {
  const auto found = backups_.find(backup);
  if (found == backups_.end()) return;
  if (found->second.link->is_open()) found->second.link->collect();
  if (!reply.has_shared_memory()) return;
  const auto offer = from_wire(reply.shared_memory());
  if (!offer || (found->second.link->is_open() && found->second.offer == offer.value())) return;
  if (found->second.link->is_open()) {
    // Another process at the same address.
    remove(backup);
    add(backup);
    return;
  }
  if (auto opened = found->second.link->open(offer.value()); !opened) {
    log::debug("images travel as bytes: {}", opened.error().message);
    return;
  }
  found->second.offer = offer.value();
  found->second.link->start();
}

SharedLink* ImageLinks::link_to(const pb::SharedMemory& memory) {
  if (!arena_) return nullptr;
  const auto parsed = from_wire(memory);
  if (!parsed) return nullptr;
  const SharedLink::Offer& primary = parsed.value();
  const auto known = std::ranges::find(primaries_, primary, &Primary::offer);
  if (known != primaries_.end()) return known->link.get();
  if (primaries_.size() >= kMaxPrimaries) return nullptr;
  try {
    auto link = std::make_unique<SharedLink>(arena_);
    if (auto opened = link->open(primary); !opened) {
      log::debug("images travel as bytes: {}", opened.error().message);
      link.reset();
    }
    return primaries_.emplace_back(Primary{std::move(link), primary}).link.get();
  } catch (const std::bad_alloc&) {
    log::warn("images travel as bytes: no shared memory is left");
    return nullptr;
  }
}

Result<void> ImageLinks::take(DataImages& images) {
  if (!images.lent_to) return ok();
  SharedLink* const link = link_to(*images.memory);
  if (link == nullptr || *images.lent_to != arena_->offer().probe) {
    return invalid("images in shared memory that this process does not read");
  }
  TAUT_TRY(check_lent(images));
  try {
    for (ImageItem& image : images.images) {
      if (image.lent.empty()) continue;
      TAUT_TRY(take_image(*link, image, copies_));
    }
    for (LoggedUpdate& logged : images.logged) {
      if (!logged.lent) continue;
      TAUT_TRY(take_update(*link, logged, copies_));
    }
  } catch (const std::bad_alloc&) {
    return make_error(ErrorCode::kUnavailable, "there is no memory for images");
  }
  return ok();
}

void ImageLinks::give_back(const DataImages& images) {
  const bool are_for_us = arena_ && images.lent_to && *images.lent_to == arena_->offer().probe;
  SharedLink* const link = are_for_us ? link_to(*images.memory) : nullptr;
  if (link == nullptr) return;
  const auto return_one = [link](const SharedPlace& place) {
    static_cast<void>(link->borrow(place, 0));
  };
  for (const ImageItem& image : images.images) std::ranges::for_each(image.lent, return_one);
  for (const LoggedUpdate& logged : images.logged) {
    if (logged.lent) return_one(*logged.lent);
  }
}

void ImageLinks::answer(const pb::SharedMemory& primary, pb::SliceImagesReply& reply) {
  if (SharedLink* const link = link_to(primary)) {
    *reply.mutable_shared_memory() = to_wire(link->offer());
  }
}

void ImageLinks::abandon_memory() {
  if (arena_) arena_->abandon();
}

void ImageLinks::sweep(TimePoint now) {
  if (now - swept_ < kSweepLinksEvery) return;
  swept_ = now;
  std::erase_if(primaries_, [](const Primary& primary) {
    return primary.link == nullptr || !primary.link->is_alive();
  });
  std::erase_if(old_links_, [](const std::unique_ptr<SharedLink>& link) {
    link->collect();
    return link->on_loan() == 0 || !link->is_alive();
  });
  std::vector<PeerId> ended;
  for (const auto& [peer, backup] : backups_) {
    if (!backup.link->is_open()) continue;
    backup.link->collect();
    if (!backup.link->is_alive()) ended.push_back(peer);
  }
  for (const PeerId peer : ended) {
    backups_.erase(peer);
    add(peer);
  }
}

}  // namespace taut::server

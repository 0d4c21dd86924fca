#include "common/net/shared_view.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/interprocess/file_mapping.hpp>
#include <boost/interprocess/mapped_region.hpp>
#include <filesystem>
#include <map>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "common/files/descriptor.hpp"
#include "common/net/byte_ranges.hpp"

namespace taut {

namespace bip = boost::interprocess;

struct SharedView::State {
  // The descriptor is closed again: the mapping alone keeps the memory.
  bip::mapped_region region;
  std::string path;
  dev_t device = 0;
  ino_t inode = 0;
  ArenaPages pages = ArenaPages::kReturned;
  bool tells_what_has_pages = false;  // mincore() reports all pages of other users' files

  [[nodiscard]] std::span<const std::byte> bytes() const {
    return {static_cast<const std::byte*>(region.get_address()), region.get_size()};
  }
  [[nodiscard]] const SharedArenaHead& head() const {
    return *std::launder(reinterpret_cast<const SharedArenaHead*>(region.get_address()));
  }
  void pin_part(std::uintptr_t index);
  [[nodiscard]] bool has_pages(std::uint64_t begin, std::uint64_t end) const;
  void ask_for_next_hole(std::uint64_t offset);

  struct PinnedPart {
    std::span<const std::byte> bytes;
    std::uint64_t pages_returned = 0;  // before it was pinned
  };
  std::shared_ptr<MemoryPinning> pinning;       // nullptr: nothing is pinned
  std::mutex mutex;                             // guards all below
  bool has_failed = false;                      // nothing more is pinned
  std::map<std::uintptr_t, PinnedPart> pinned;  // by address, in multiples of kPart
  ByteRanges written;                           // where pages stay; as far as checked
};

namespace {

constexpr std::string_view kOurKind = "/memfd:tautline";

Error not_here() {
  return make_error(ErrorCode::kNotFound, "the peer's shared memory is not on this machine");
}

std::string link_of(const Descriptor& file) {
  return fmt::format("/proc/self/fd/{}", file.get());
}

/// The file behind a descriptor of a peer's process, checked before it is opened: a peer may name a
/// pipe or a device, and may replace what it has named at any time.
Result<Descriptor> find_memory(const std::string& path) {
  Descriptor place(::open(path.c_str(), O_PATH | O_CLOEXEC));
  if (place.get() < 0) return not_here();
  std::error_code failed;
  const std::string target = std::filesystem::read_symlink(link_of(place), failed).string();
  if (failed || !target.starts_with(kOurKind)) return not_here();
  return place;
}

Result<Descriptor> open_memory(const std::string& path) {
  TAUT_TRY(const Descriptor place, find_memory(path));
  Descriptor memory(::open(link_of(place).c_str(), O_RDONLY | O_CLOEXEC));
  if (memory.get() < 0) return not_here();
  return memory;
}

/// Whether it is as its owner describes it, and as SharedArena makes it.
bool is_as_offered(const Descriptor& memory, const SharedMemoryOffer& offer, ArenaPages pages,
                   struct stat& status) {
  struct statfs system {};
  const int seals = fcntl(memory.get(), F_GET_SEALS);
  const int required = F_SEAL_SHRINK | (pages == ArenaPages::kStay ? kSealThatKeepsPages : 0);
  // Reading memory that its owner has shortened would kill this process; so would huge pages of
  // which none is left.
  return seals >= 0 && (seals & required) == required && fstatfs(memory.get(), &system) == 0 &&
         system.f_type == TMPFS_MAGIC && fstat(memory.get(), &status) == 0 &&
         static_cast<std::uint64_t>(status.st_size) == offer.size &&
         offer.size >= offer.probe.size();
}

}  // namespace

SharedView::SharedView(std::unique_ptr<State> state) : state_(std::move(state)) {}

SharedView::~SharedView() {
  for (const auto& [index, part] : state_->pinned) state_->pinning->unpin(part.bytes);
}

Result<std::shared_ptr<SharedView>> SharedView::open(const SharedMemoryOffer& offer,
                                                     std::shared_ptr<MemoryPinning> pinning,
                                                     ArenaPages pages) {
  const std::string path = fmt::format("/proc/{}/fd/{}", offer.process, offer.descriptor);
  TAUT_TRY(const Descriptor memory, open_memory(path));
  auto state = std::make_unique<State>();
  struct stat status_of_file = {};
  if (!is_as_offered(memory, offer, pages, status_of_file)) {
    return make_error(ErrorCode::kMismatch, "the peer's shared memory is not as it was offered");
  }
  try {
    const bip::file_mapping file(link_of(memory).c_str(), bip::read_only);
    state->region = bip::mapped_region(file, bip::read_only, 0, offer.size);
  } catch (const bip::interprocess_exception& failure) {
    return make_error(ErrorCode::kIo,
                      fmt::format("mapping the peer's shared memory: {}", failure.what()));
  }
  state->path = path;
  state->device = status_of_file.st_dev;
  state->inode = status_of_file.st_ino;
  state->pages = pages;
  state->tells_what_has_pages = status_of_file.st_uid == geteuid();
  std::shared_ptr<SharedView> view(new SharedView(std::move(state)));
  if (!std::ranges::equal(view->bytes().first(offer.probe.size()), offer.probe)) {
    return make_error(ErrorCode::kMismatch, "the peer's shared memory is another's");
  }
  // Memory whose owner does not count the returned pages cannot be pinned.
  if (offer.size >= sizeof(SharedArenaHead) &&
      view->state_->head().mark == SharedArenaHead::kMark) {
    view->state_->pinning = std::move(pinning);
  }
  return view;
}

bool SharedView::owner_has_it() const {
  struct stat status = {};
  return stat(state_->path.c_str(), &status) == 0 && status.st_ino == state_->inode;
}

std::span<const std::byte> SharedView::bytes() const {
  return state_->bytes();
}

bool SharedView::is_readable(std::uint64_t offset, std::uint64_t size) {
  if (state_->pages != ArenaPages::kStay) return true;
  const std::scoped_lock lock(state_->mutex);
  const std::uint64_t end = offset + size;
  if (state_->written.contains(offset, end)) return true;
  if (state_->has_pages(offset, end)) {
    state_->written.add(offset, end);
    return true;
  }
  state_->ask_for_next_hole(offset);
  return state_->written.contains(offset, end);
}

/// Whether the pages of all these bytes are in memory. False if some are swapped out or if the
/// system does not report it. Takes time in proportion to the bytes up to the first hole.
bool SharedView::State::has_pages(std::uint64_t begin, std::uint64_t end) const {
  if (!tells_what_has_pages) return false;
  std::array<unsigned char, 1024> are_present{};
  const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  auto* const base = static_cast<std::byte*>(region.get_address());
  for (std::uint64_t at = begin / page * page; at < end; at += are_present.size() * page) {
    const std::uint64_t size = std::min(are_present.size() * page, end - at);
    if (mincore(base + at, size, are_present.data()) != 0) return false;
    const auto asked = std::span(are_present).first((size + page - 1) / page);
    if (!std::ranges::all_of(asked, [](unsigned char one) { return (one & 1U) != 0; })) {
      return false;
    }
  }
  return true;
}

/// Recognizes swapped pages too, but scans everything that is written from `offset` on. Opens the
/// memory again: an open descriptor per peer would use up those of connections. REQUIRES: the lock.
void SharedView::State::ask_for_next_hole(std::uint64_t offset) {
  const auto memory = open_memory(path);
  struct stat status = {};
  if (!memory || fstat(memory.value().get(), &status) != 0 || status.st_dev != device ||
      status.st_ino != inode) {
    return;
  }
  const off_t hole = lseek(memory.value().get(), static_cast<off_t>(offset), SEEK_HOLE);
  if (hole > 0) written.add(offset, static_cast<std::uint64_t>(hole));
}

void SharedView::pin(std::span<const std::byte> bytes) {
  if (!state_->pinning || !state_->pinning->is_enabled() || bytes.empty()) return;
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
  const std::scoped_lock lock(state_->mutex);
  for (std::uintptr_t index = begin / MemoryPinning::kPart;
       index <= (begin + bytes.size() - 1) / MemoryPinning::kPart; ++index) {
    state_->pin_part(index);
  }
}

/// Pins a part again if the owner has returned pages since it was pinned: the bytes at hand are
/// lent, so their pages stay. REQUIRES: the lock.
void SharedView::State::pin_part(std::uintptr_t index) {
  if (has_failed) return;
  const auto* const first = bytes().data();
  const auto base = reinterpret_cast<std::uintptr_t>(first);
  const std::uintptr_t begin = std::max(base, index * MemoryPinning::kPart);
  const std::uintptr_t end = std::min(base + bytes().size(), (index + 1) * MemoryPinning::kPart);
  const std::uint64_t returned = head().returned(begin - base, end - base);
  if (const auto found = pinned.find(index); found != pinned.end()) {
    if (found->second.pages_returned == returned) return;
    pinning->unpin(found->second.bytes);
    pinned.erase(found);
  }
  const std::span<const std::byte> part(first + (begin - base), end - begin);
  if (pinning->pin(part)) {
    pinned[index] = {part, returned};
  } else {
    has_failed = true;
  }
}

}  // namespace taut

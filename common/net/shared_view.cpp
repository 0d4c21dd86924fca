#include "common/net/shared_view.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <boost/interprocess/file_mapping.hpp>
#include <boost/interprocess/mapped_region.hpp>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "common/files/descriptor.hpp"

namespace taut {

namespace bip = boost::interprocess;

struct SharedView::State {
  // The descriptor is closed again: the mapping alone keeps the memory.
  bip::mapped_region region;
  std::string path;
  ino_t inode = 0;
};

namespace {

constexpr std::string_view kOurKind = "/memfd:tautline";

Error not_here() {
  return make_error(ErrorCode::kNotFound, "the peer's shared memory is not on this machine");
}

std::string link_of(const Descriptor& file) {
  return fmt::format("/proc/self/fd/{}", file.get());
}

/// What a peer's process has under a number, looked at before it is opened: a peer may name a pipe
/// or a device, and may exchange what it has named at any time.
Result<Descriptor> find_memory(const std::string& path) {
  Descriptor place(::open(path.c_str(), O_PATH | O_CLOEXEC));
  if (place.get() < 0) return not_here();
  std::error_code failed;
  const std::string target = std::filesystem::read_symlink(link_of(place), failed).string();
  if (failed || !target.starts_with(kOurKind)) return not_here();
  return place;
}

/// Whether it is as its owner describes it, and as SharedArena makes it.
bool is_as_offered(const Descriptor& memory, const SharedMemoryOffer& offer, struct stat& status) {
  struct statfs system {};
  const int seals = fcntl(memory.get(), F_GET_SEALS);
  // Memory that its owner may shorten would end this process when it is read; so would huge pages
  // of which none is left.
  return seals >= 0 && (seals & F_SEAL_SHRINK) != 0 && fstatfs(memory.get(), &system) == 0 &&
         system.f_type == TMPFS_MAGIC && fstat(memory.get(), &status) == 0 &&
         static_cast<std::uint64_t>(status.st_size) == offer.size &&
         offer.size >= offer.probe.size();
}

}  // namespace

SharedView::SharedView(std::unique_ptr<State> state) : state_(std::move(state)) {}
SharedView::~SharedView() = default;

Result<std::shared_ptr<SharedView>> SharedView::open(const SharedMemoryOffer& offer) {
  const std::string path = fmt::format("/proc/{}/fd/{}", offer.process, offer.descriptor);
  TAUT_TRY(const Descriptor place, find_memory(path));
  const Descriptor memory(::open(link_of(place).c_str(), O_RDONLY | O_CLOEXEC));
  if (memory.get() < 0) return not_here();
  auto state = std::make_unique<State>();
  struct stat status_of_file = {};
  if (!is_as_offered(memory, offer, status_of_file)) {
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
  state->inode = status_of_file.st_ino;
  std::shared_ptr<SharedView> view(new SharedView(std::move(state)));
  if (!std::ranges::equal(view->bytes().first(offer.probe.size()), offer.probe)) {
    return make_error(ErrorCode::kMismatch, "the peer's shared memory is another's");
  }
  return view;
}

bool SharedView::owner_has_it() const {
  struct stat status = {};
  return stat(state_->path.c_str(), &status) == 0 && status.st_ino == state_->inode;
}

std::span<const std::byte> SharedView::bytes() const {
  return {static_cast<const std::byte*>(state_->region.get_address()), state_->region.get_size()};
}

}  // namespace taut

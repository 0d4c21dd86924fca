#include "common/net/shared_view.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <boost/interprocess/file_mapping.hpp>
#include <boost/interprocess/mapped_region.hpp>
#include <filesystem>
#include <string>
#include <utility>

namespace taut {

namespace bip = boost::interprocess;

struct SharedView::State {
  // The descriptor is closed again: the mapping alone keeps the memory.
  bip::mapped_region region;
  std::string path;
  ino_t inode = 0;
};

SharedView::SharedView(std::unique_ptr<State> state) : state_(std::move(state)) {}
SharedView::~SharedView() = default;

Result<std::shared_ptr<SharedView>> SharedView::open(const SharedMemoryOffer& offer) {
  const std::string path = fmt::format("/proc/{}/fd/{}", offer.process, offer.descriptor);
  // A peer names the descriptor: only memory of our own kind is opened, never a pipe or a device.
  std::error_code unreadable;
  const std::string target = std::filesystem::read_symlink(path, unreadable).string();
  if (unreadable || !target.starts_with("/memfd:tautline")) {
    return make_error(ErrorCode::kNotFound, "the peer's shared memory is not on this machine");
  }
  auto state = std::make_unique<State>();
  struct stat status_of_file = {};
  try {
    const bip::file_mapping file(path.c_str(), bip::read_only);
    const int descriptor = file.get_mapping_handle().handle;
    const int seals = fcntl(descriptor, F_GET_SEALS);
    // Memory that its owner may shorten would end this process when it is read.
    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(descriptor, &status_of_file) != 0 ||
        static_cast<std::uint64_t>(status_of_file.st_size) != offer.size ||
        offer.size < offer.probe.size()) {
      return make_error(ErrorCode::kMismatch, "the peer's shared memory is not as it was offered");
    }
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

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
  try {
    const bip::file_mapping file(path.c_str(), bip::read_only);
    const int descriptor = file.get_mapping_handle().handle;
    struct stat status = {};
    const int seals = fcntl(descriptor, F_GET_SEALS);
    // Memory that its owner may shorten would end this process when it is read.
    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(descriptor, &status) != 0 ||
        static_cast<std::uint64_t>(status.st_size) != offer.size ||
        offer.size < offer.probe.size()) {
      return make_error(ErrorCode::kMismatch, "the peer's shared memory is not as it was offered");
    }
    state->region = bip::mapped_region(file, bip::read_only, 0, offer.size);
  } catch (const bip::interprocess_exception& failure) {
    return make_error(ErrorCode::kIo,
                      fmt::format("mapping the peer's shared memory: {}", failure.what()));
  }
  std::shared_ptr<SharedView> view(new SharedView(std::move(state)));
  if (!std::ranges::equal(view->bytes().first(offer.probe.size()), offer.probe)) {
    return make_error(ErrorCode::kMismatch, "the peer's shared memory is another's");
  }
  return view;
}

std::span<const std::byte> SharedView::bytes() const {
  return {static_cast<const std::byte*>(state_->region.get_address()), state_->region.get_size()};
}

}  // namespace taut

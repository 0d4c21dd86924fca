#include "common/hdf5/hdf5_handle.hpp"

#include <algorithm>

namespace taut::hdf5 {
namespace {

std::mutex& library_mutex() {
  static std::mutex mutex;
  return mutex;
}

/// The innermost entry of the error stack is the reason; the outer entries are its callers.
herr_t keep_innermost(unsigned /*depth*/, const H5E_error2_t* entry, void* data) {
  if (entry->desc != nullptr) *static_cast<std::string*>(data) = entry->desc;
  return 0;
}

}  // namespace

Library::Library() : lock_(library_mutex()) {
  static const bool is_set_up = [] {
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);  // errors are returned, not printed
    H5PLset_loading_state(0);                     // a file must not choose code to load
    return true;
  }();
  static_cast<void>(is_set_up);
  H5Eclear2(H5E_DEFAULT);
}

std::string Library::problem() const {
  std::string text = "libhdf5 gives no reason";
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, keep_innermost, &text);
  H5Eclear2(H5E_DEFAULT);
  // The message may quote names from the file.
  std::ranges::replace_if(
      text, [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  return text;
}

}  // namespace taut::hdf5

#pragma once

#include <mutex>
#include <string>
#include <utility>

// Maps API names to their version of 1.10, which all supported systems have.
#ifndef H5_USE_110_API
#define H5_USE_110_API
#endif
#include <hdf5.h>

namespace taut::hdf5 {

/// The attribute of a file's root that names what wrote the file.
inline constexpr const char* kWriterAttribute = "written_by";

/// Holds the one lock of the library. Every call into it must be made while one of these exists.
class Library {
 public:
  Library();

  /// The library's message about its last failed call, in one line; clears it.
  [[nodiscard]] std::string problem() const;

 private:
  std::unique_lock<std::mutex> lock_;
};

/// Owns an identifier of the library. REQUIRES: a Library exists when it is destroyed.
class Handle {
 public:
  using Close = herr_t (*)(hid_t);
  Handle(hid_t id, Close close) : id_(id), close_(close) {}
  ~Handle() {
    if (id_ >= 0) close_(id_);
  }
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Handle& operator=(Handle&&) = delete;

  [[nodiscard]] hid_t id() const { return id_; }
  [[nodiscard]] explicit operator bool() const { return id_ >= 0; }

 private:
  hid_t id_;
  Close close_;
};

}  // namespace taut::hdf5

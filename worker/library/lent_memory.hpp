#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace taut::library {

/// Memory of the caller that the library uses until no part of the library needs it.
class LentMemory {
 public:
  /// release  called once, by the thread that drops the last share, if accepted; must not throw
  LentMemory(void* data, std::function<void()> release)
      : release_(std::make_shared<Release>()), memory_(release_, static_cast<std::byte*>(data)) {
    release_->call = std::move(release);
  }

  [[nodiscard]] const std::shared_ptr<std::byte>& memory() const { return memory_; }

  /// Must be called when the call that passes the memory has succeeded: the library then releases
  /// it. Otherwise it stays with the caller, and `release` is not called.
  void accept() { release_->is_due = true; }

 private:
  struct Release {
    Release() = default;
    Release(const Release&) = delete;
    Release& operator=(const Release&) = delete;
    ~Release() {
      if (is_due && call) call();
    }
    std::function<void()> call;
    bool is_due = false;  // written while LentMemory has a share, so before the last is dropped
  };

  std::shared_ptr<Release> release_;
  std::shared_ptr<std::byte> memory_;
};

/// The `release` of a tautline_buffer or a tautline_device_buffer.
template <class Lent>
[[nodiscard]] std::function<void()> release_of(const Lent& buffer) {
  if (buffer.release == nullptr) return {};
  return [release = buffer.release, context = buffer.context] { release(context); };
}

}  // namespace taut::library

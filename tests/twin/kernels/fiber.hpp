#pragma once

#include <boost/context/fiber.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <cstddef>
#include <functional>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace taut::twin {

/// A separate stack on which one function runs forever, now and then. Switches are told to
/// AddressSanitizer, which otherwise takes another stack for an overrun.
class Fiber {
 public:
#if defined(__SANITIZE_ADDRESS__)
  static constexpr std::size_t kStack = 256UL << 10U;
#else
  static constexpr std::size_t kStack = 64UL << 10U;
#endif

  /// loop  never returns; it calls leave() instead
  explicit Fiber(std::function<void(Fiber&)> loop) : loop_(std::move(loop)) {
    Stack stack(kStack);
    const boost::context::stack_context space = stack.allocate();
    bottom_ = static_cast<std::byte*>(space.sp) - space.size;
    size_ = space.size;
    own_ = boost::context::fiber(std::allocator_arg,
                                 boost::context::preallocated(space.sp, space.size, space), stack,
                                 [this](boost::context::fiber&& caller) {
                                   caller_ = std::move(caller);
                                   arrived(nullptr);
                                   loop_(*this);
                                   return std::move(caller_);
                                 });
  }

  /// Runs it until it leaves.
  void enter() {
#if defined(__SANITIZE_ADDRESS__)
    void* fake = nullptr;
    __sanitizer_start_switch_fiber(&fake, bottom_, size_);
    own_ = std::move(own_).resume();
    __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#else
    own_ = std::move(own_).resume();
#endif
  }

  /// Back to who entered it, until it is entered again.
  void leave() {
#if defined(__SANITIZE_ADDRESS__)
    void* fake = nullptr;
    __sanitizer_start_switch_fiber(&fake, caller_bottom_, caller_size_);
    caller_ = std::move(caller_).resume();
    arrived(fake);
#else
    caller_ = std::move(caller_).resume();
#endif
  }

 private:
  using Stack = boost::context::protected_fixedsize_stack;
  void arrived([[maybe_unused]] void* fake) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fake, &caller_bottom_, &caller_size_);
#endif
  }

  std::function<void(Fiber&)> loop_;
  boost::context::fiber own_;
  boost::context::fiber caller_;
  const void* bottom_ = nullptr;
  std::size_t size_ = 0;
  [[maybe_unused]] const void* caller_bottom_ = nullptr;
  [[maybe_unused]] std::size_t caller_size_ = 0;
};

}  // namespace taut::twin

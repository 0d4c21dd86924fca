#pragma once

#include <boost/context/fiber.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <cstddef>
#include <functional>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace taut {

/// A function with its own stack, which may leave in the middle and be entered again. If it is
/// destroyed before it has ended, its stack is unwound. AddressSanitizer is notified of switches;
/// otherwise it mistakes another fiber's stack for a frame that has returned.
class Fiber {
 public:
  /// stack_bytes  only the pages that are touched take memory
  Fiber(std::function<void()> body, std::size_t stack_bytes) : body_(std::move(body)) {
    Stack stack(stack_bytes);
    const boost::context::stack_context space = stack.allocate();
    bottom_ = static_cast<std::byte*>(space.sp) - space.size;
    size_ = space.size;
    own_ = boost::context::fiber(std::allocator_arg,
                                 boost::context::preallocated(space.sp, space.size, space), stack,
                                 [this](boost::context::fiber&& caller) {
                                   caller_ = std::move(caller);
                                   const Departure departure(*this);
                                   arrive(nullptr);
                                   body_();
                                   return std::move(caller_);
                                 });
  }
  ~Fiber() {
    if (has_ended()) return;
    void* fake = depart(bottom_, size_);
    own_ = boost::context::fiber();
    arrive_at_caller(fake);
  }
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Runs it until it leaves or ends. REQUIRES: it has not ended, and is not the caller.
  void enter() {
    void* fake = depart(bottom_, size_);
    own_ = std::move(own_).resume();
    arrive_at_caller(fake);
  }
  /// Returns to the caller of enter(), until it is entered again. REQUIRES: the fiber calls it.
  void leave() {
    // The guard also covers the unwinding of the stack, where resume() throws.
    const Arrival arrival(*this, depart(caller_bottom_, caller_size_));
    caller_ = std::move(caller_).resume();
  }
  [[nodiscard]] bool has_ended() const { return !own_; }

 private:
  using Stack = boost::context::protected_fixedsize_stack;

#if defined(__SANITIZE_ADDRESS__)
  static void* depart(const void* bottom, std::size_t size) {
    void* fake = nullptr;
    __sanitizer_start_switch_fiber(&fake, bottom, size);
    return fake;
  }
  void depart_for_ever() {
    __sanitizer_start_switch_fiber(nullptr, caller_bottom_, caller_size_);
  }
  void arrive(void* fake) {
    __sanitizer_finish_switch_fiber(fake, &caller_bottom_, &caller_size_);
  }
  static void arrive_at_caller(void* fake) {
    __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
  }
#else
  static void* depart(const void* /*bottom*/, std::size_t /*size*/) {
    return nullptr;
  }
  void depart_for_ever() {}
  void arrive(void* /*fake*/) {}
  static void arrive_at_caller(void* /*fake*/) {}
#endif

  struct Arrival {
    Arrival(Fiber& fiber, void* fake) : fiber(fiber), fake(fake) {}
    ~Arrival() { fiber.arrive(fake); }
    Arrival(const Arrival&) = delete;
    Arrival& operator=(const Arrival&) = delete;
    Fiber& fiber;
    void* const fake;
  };
  /// Leaves for the last time, at the end of the body or of the unwinding.
  struct Departure {
    explicit Departure(Fiber& fiber) : fiber(fiber) {}
    ~Departure() { fiber.depart_for_ever(); }
    Departure(const Departure&) = delete;
    Departure& operator=(const Departure&) = delete;
    Fiber& fiber;
  };

  std::function<void()> body_;
  const void* bottom_ = nullptr;
  std::size_t size_ = 0;
  const void* caller_bottom_ = nullptr;
  std::size_t caller_size_ = 0;
  boost::context::fiber caller_;
  boost::context::fiber own_;  // last: its stack uses the others
};

}  // namespace taut

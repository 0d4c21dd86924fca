#pragma once

#include <boost/context/fiber.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <cstddef>
#include <functional>
#include <utility>

namespace taut::lab {

/// A function with its own stack, which may leave in the middle and be entered again. If it is
/// destroyed before it has ended, its stack is unwound.
class Fiber {
 public:
  // Only what is touched takes memory.
  static constexpr std::size_t kStack = 512UL << 10U;

  explicit Fiber(std::function<void()> body)
      : body_(std::move(body)),
        own_(std::allocator_arg, boost::context::protected_fixedsize_stack(kStack),
             [this](boost::context::fiber&& caller) {
               caller_ = std::move(caller);
               body_();
               return std::move(caller_);
             }) {}
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Runs it until it leaves or ends. REQUIRES: it has not ended, and this is not called in it.
  void enter() { own_ = std::move(own_).resume(); }
  /// Back to its caller, until it is entered again. Called in it.
  void leave() { caller_ = std::move(caller_).resume(); }
  [[nodiscard]] bool has_ended() const { return !own_; }

 private:
  std::function<void()> body_;
  boost::context::fiber caller_;
  boost::context::fiber own_;  // last: its stack uses the others
};

}  // namespace taut::lab

#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

#include "worker/engine/own_memory_parts.hpp"

// The memory that operations on the CPU keep or use in addition to their operands
// (DeviceOp::own_memory).
namespace taut::cpu {

/// Floats: a dedicated block, or a part of lent memory. The operating system commits a block's
/// memory when it is first written.
class OwnMemory {
 public:
  explicit OwnMemory(std::size_t count = 0) : count_(count) {
    if (count == 0) return;
    block_.reset(static_cast<float*>(std::aligned_alloc(kLine, room() * sizeof(float))));
    if (!block_) throw std::bad_alloc();
    at_ = block_.get();
  }

  [[nodiscard]] std::size_t size() const { return count_; }
  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] float* data() const { return at_; }
  [[nodiscard]] float& operator[](std::size_t index) const { return at_[index]; }
  /// The number of floats up to where the next part may start, on a cache line.
  [[nodiscard]] std::size_t room() const {
    constexpr std::size_t kUnit = kLine / sizeof(float);
    return (count_ + kUnit - 1) / kUnit * kUnit;
  }

  void lend(float* at) {
    block_.reset();
    at_ = at;
  }

 private:
  static constexpr std::size_t kLine = 64;
  struct Free {
    void operator()(float* block) const { std::free(block); }
  };

  std::size_t count_;
  std::unique_ptr<float, Free> block_;
  float* at_ = nullptr;
};

using taut::bytes_of;
using taut::lend_in_turn;

}  // namespace taut::cpu

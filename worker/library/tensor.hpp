#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "worker/library/dlpack.hpp"
#include "worker/library/lent_memory.hpp"
#include "worker/library/tautline.h"

namespace taut::library {

/// A tensor that a caller passes by DLPack, in C order.
class GivenTensor {
 public:
  /// tensor     a dlpack::ManagedVersioned, or a dlpack::Managed; the caller's until accept()
  /// what       names it in messages
  /// place      where it must be
  /// Errors     invalid: a wrong device or order; an unsupported element type or version
  enum class Place : std::uint8_t { kHost, kCuda };
  [[nodiscard]] static Result<GivenTensor> take(void* tensor, bool is_versioned,
                                                const std::string& what,
                                                Place place = Place::kHost);

  [[nodiscard]] tautline_element element() const { return element_; }
  [[nodiscard]] std::span<const std::int64_t> shape() const { return shape_; }
  [[nodiscard]] std::uint64_t count() const { return count_; }
  /// CUDA's number of its device. REQUIRES: it is on a CUDA device.
  [[nodiscard]] int device() const { return device_; }
  [[nodiscard]] bool is_read_only() const { return is_read_only_; }
  [[nodiscard]] const LentMemory& memory() const { return memory_; }
  /// The tensor's deleter is called once no part of the library needs it.
  void accept() { memory_.accept(); }

 private:
  GivenTensor(LentMemory memory) : memory_(std::move(memory)) {}

  LentMemory memory_;
  tautline_element element_ = TAUTLINE_FLOAT32;
  std::vector<std::int64_t> shape_;
  std::uint64_t count_ = 1;
  int device_ = 0;
  bool is_read_only_ = false;
};

/// Makes a tensor for others from float32 memory; its deleter drops the owner.
/// device  the memory's device
[[nodiscard]] void* make_tensor(float* values, const std::vector<std::int64_t>& shape,
                                std::shared_ptr<void> owner, bool is_versioned,
                                dlpack::Device device = {dlpack::kCpu, 0});

}  // namespace taut::library

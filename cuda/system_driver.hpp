#pragma once

#include "cuda/device_choice.hpp"

namespace taut::cuda {

/// The machine's driver and libraries.
class SystemDriver final : public Driver {
 public:
  [[nodiscard]] int driver_version() const override;
  [[nodiscard]] int runtime_version() const override;
  [[nodiscard]] std::size_t cudnn_loaded() const override;
  [[nodiscard]] std::size_t cudnn_built() const override;
  [[nodiscard]] Result<int> device_count() const override;
  [[nodiscard]] Result<DeviceFacts> facts(int index) const override;
  [[nodiscard]] Result<Bytes> open(int index) const override;
};

}  // namespace taut::cuda

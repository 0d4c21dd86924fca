#include "cuda/device_choice.hpp"

#include <fmt/format.h>

namespace taut::cuda {
namespace {

constexpr int kOldestMajor = 8;  // the oldest that the kernels are compiled for

Result<void> check_versions(const Driver& driver) {
  const int has = driver.driver_version();
  const int needs = driver.runtime_version();
  if (has == 0) {
    return make_error(ErrorCode::kUnavailable, "no NVIDIA driver is loaded on this machine");
  }
  if (has / 1000 < needs / 1000) {
    return make_error(
        ErrorCode::kUnavailable,
        fmt::format("the NVIDIA driver supports CUDA up to {}, and this build requires {}: "
                    "install a newer driver",
                    version_text(has), version_text(needs)));
  }
  // Within one major version the numbers of cuDNN's functions and types do not change.
  if (driver.cudnn_loaded() / 10000 != driver.cudnn_built() / 10000) {
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("cuDNN {} was loaded, and this build requires cuDNN {}: put that "
                                  "version where the loader looks first",
                                  cudnn_version_text(driver.cudnn_loaded()),
                                  cudnn_version_text(driver.cudnn_built())));
  }
  return ok();
}

}  // namespace

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string cudnn_version_text(std::size_t version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

Result<DeviceFacts> choose_device(const Driver& driver, int index) {
  TAUT_TRY(check_versions(driver));
  TAUT_TRY(const int count, driver.device_count());
  if (count == 0) {
    return make_error(ErrorCode::kUnavailable, "the NVIDIA driver is loaded, but shows no device");
  }
  if (index < 0 || index >= count) {
    return invalid(fmt::format(
        "device_index {} does not exist: this machine has {}", index,
        count == 1 ? std::string("device 0 only") : fmt::format("devices 0 to {}", count - 1)));
  }
  TAUT_TRY(DeviceFacts facts, driver.facts(index));
  if (facts.major < kOldestMajor) {
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("CUDA device {} ({}) has compute capability {}.{}; {}.0 or newer "
                                  "is required",
                                  index, facts.name, facts.major, facts.minor, kOldestMajor));
  }
  const Result<Bytes> free = driver.open(index);
  if (!free) {
    return make_error(free.error().code, fmt::format("CUDA device {} ({}): {}", index, facts.name,
                                                     free.error().message));
  }
  facts.free = free.value();
  return facts;
}

}  // namespace taut::cuda

#include "worker/device/devices.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "common/log.hpp"

namespace taut::worker {
namespace {

DeviceKind device_kind(pb::WorkerConfig::Device device) {
  switch (device) {
    case pb::WorkerConfig::CPU:
      return DeviceKind::kCpu;
    case pb::WorkerConfig::CUDA:
      return DeviceKind::kCuda;
    default:
      return DeviceKind::kAuto;
  }
}

}  // namespace

Result<std::vector<std::unique_ptr<Backend>>> open_devices(const pb::WorkerConfig& settings) {
  BackendOptions options;
  options.device = device_kind(settings.device());
  options.threads = static_cast<int>(settings.threads());
  options.cuda_graphs = settings.cuda_graphs();
  std::vector<std::unique_ptr<Backend>> devices;
  std::string missing;  // why one of them is the CPU
  const int count = std::max(1, settings.device_index_size());
  for (int i = 0; i < count; ++i) {
    if (i < settings.device_index_size()) {
      options.cuda_device = static_cast<int>(settings.device_index(i));
    }
    TAUT_TRY(BackendChoice choice, make_backend(options));
    log::info("{}", choice.reason);
    if (choice.backend->shares_host_memory()) missing = choice.reason;
    devices.push_back(std::move(choice.backend));
  }
  const bool mixed = !missing.empty() && std::ranges::any_of(devices, [](const auto& device) {
    return !device->shares_host_memory();
  });
  if (!mixed) return devices;
  return make_error(
      ErrorCode::kUnavailable,
      fmt::format("worker.device_index: {}; name devices that are all there", missing));
}

std::string description_of(const std::vector<std::unique_ptr<Backend>>& devices) {
  std::string text;
  std::size_t same = 1;
  for (std::size_t i = 0; i < devices.size(); i += same) {
    const std::string one = devices[i]->description();
    same = 1;
    while (i + same < devices.size() && devices[i + same]->description() == one) ++same;
    if (!text.empty()) text += "; ";
    text += same == 1 ? one : fmt::format("{} x {}", same, one);
  }
  return text;
}

std::optional<DeviceMemoryUse> memory_use_of(const std::vector<std::unique_ptr<Backend>>& devices) {
  std::optional<DeviceMemoryUse> sum;
  std::set<std::string> seen;  // a device that is named repeatedly counts once
  for (const auto& device : devices) {
    const auto use = memory_use(*device);
    if (!use) continue;
    if (!sum) sum = DeviceMemoryUse{Bytes(0), Bytes(0)};
    sum->used = Bytes(sum->used.value() + use->used.value());
    if (!seen.insert(device->description()).second) continue;
    sum->free = Bytes(sum->free.value() + use->free.value());
  }
  return sum;
}

}  // namespace taut::worker

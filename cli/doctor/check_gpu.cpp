#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/doctor/checks.hpp"

namespace taut::cli {
namespace {

// The toolkit that the CUDA backend is built with, in the driver's numbering.
constexpr int kNeeded = 12040;

std::string version(int number) {
  return fmt::format("{}.{}", number / 1000, number % 1000 / 10);
}

Finding device_finding(const GpuFacts::Device& device) {
  return fine("gpu", fmt::format("{}, {:.0f} GiB, compute capability {}.{}", device.name,
                                 static_cast<double>(device.bytes) / (1ULL << 30U),
                                 device.capability / 10, device.capability % 10));
}

}  // namespace

Findings check_gpu(const pb::ClusterConfig& config, const GpuFacts& gpu) {
  const bool is_needed = config.worker().device() == pb::WorkerConfig::CUDA;
  // What a worker with device: AUTO does without is a warning; one with CUDA will not start.
  const auto problem = [&](std::string found, std::string advice) {
    return is_needed ? trouble("gpu", std::move(found), std::move(advice))
                     : warning("gpu", std::move(found), advice + "; until then the CPU trains");
  };
  if (gpu.driver.empty() && gpu.devices.empty()) {
    const char* found = "no NVIDIA driver is loaded; training runs on the CPU";
    if (!is_needed) return {fine("gpu", found)};
    return {trouble("gpu", "worker { device: CUDA }, but no NVIDIA driver is loaded",
                    "install the driver (nvidia-smi must list the device), or set device: AUTO")};
  }
  Findings findings;
  if (!gpu.driver.empty()) {
    findings.push_back(fine(
        "gpu", fmt::format("driver {}, which lists {}", gpu.driver,
                           gpu.present.empty() ? "no device"
                                               : fmt::format("{}", fmt::join(gpu.present, ", ")))));
  }
  if (!gpu.library_error.empty()) {
    findings.push_back(problem(gpu.library_error,
                               "install the driver's library of the same version (libcuda1), or "
                               "start the container with access to the GPU"));
  } else if (gpu.devices.empty()) {
    findings.push_back(problem("the driver shows this process no device",
                               "see CUDA_VISIBLE_DEVICES, and the permissions of /dev/nvidia*"));
  } else if (gpu.cuda_version < kNeeded) {
    findings.push_back(
        problem(fmt::format("the driver supports CUDA {} at most", version(gpu.cuda_version)),
                fmt::format("install a driver for CUDA {} or later", version(kNeeded))));
  } else {
    findings.push_back(fine("gpu", fmt::format("CUDA {}", version(gpu.cuda_version))));
  }
  for (const GpuFacts::Device& device : gpu.devices) findings.push_back(device_finding(device));
  return findings;
}

}  // namespace taut::cli

#include <fmt/format.h>

#include <utility>

#include "worker/engine/backend.hpp"
#include "worker/engine/cpu/cpu_backend.hpp"
#include "worker/engine/cuda/cuda_backend.hpp"

namespace taut {
namespace {

BackendChoice chosen(std::unique_ptr<Backend> backend, const std::string& why) {
  std::string reason = backend->description() + why;
  return {std::move(backend), std::move(reason)};
}

}  // namespace

Result<BackendChoice> make_backend(const BackendOptions& options) {
  if (options.threads < 0) {
    return invalid(fmt::format("{} compute threads: give 1 or more, or 0 for OpenMP's choice",
                               options.threads));
  }
  if (options.device == DeviceKind::kCpu) return chosen(make_cpu_backend(options), "");
  auto cuda = make_cuda_backend(options);
  if (cuda) return chosen(std::move(cuda).value(), "");
  if (options.device == DeviceKind::kCuda) return cuda.error();
  return chosen(make_cpu_backend(options),
                fmt::format(" (AUTO: no CUDA device: {})", cuda.error().message));
}

}  // namespace taut

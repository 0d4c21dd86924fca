#pragma once

#include <memory>
#include <span>

#include "worker/engine/backend.hpp"

namespace taut {

/// The backend that runs everywhere, on oneDNN, and the reference for the others. Streams run
/// inline: queued work is done when the call returns. Images are stored channels last (N, H, W, C):
/// oneDNN's fastest kernels take that order directly, so nothing is converted between layers.
/// The results are bit-identical for the same binary, kind of processor and thread count.
/// Errors    DeviceError: oneDNN finds no CPU engine
[[nodiscard]] std::unique_ptr<Backend> make_cpu_backend(const BackendOptions& options);

/// The host's view of a device span. REQUIRES: its backend shares the host's memory.
template <class T>
[[nodiscard]] std::span<T> host_view(DeviceSpan<T> span) {
  return {span.address(), span.size()};
}

}  // namespace taut

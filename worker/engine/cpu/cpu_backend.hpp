#pragma once

#include <memory>
#include <span>

#include "worker/engine/backend.hpp"

namespace taut {

/// The backend that runs everywhere, on oneDNN, and the reference for the others. Streams run
/// inline: what is queued is done when the call returns. Images lie channels last (N, H, W, C):
/// oneDNN's fastest kernels take that order as it is, so nothing is converted from layer to layer.
/// The results are the same bits for the same binary, kind of processor and thread count.
/// Errors    DeviceError: oneDNN finds no CPU engine
[[nodiscard]] std::unique_ptr<Backend> make_cpu_backend(const BackendOptions& options);

/// What a device span shows, for the host. REQUIRES: its backend shares the host's memory.
template <class T>
[[nodiscard]] std::span<T> host_view(DeviceSpan<T> span) {
  return {span.address(), span.size()};
}

}  // namespace taut

#pragma once

#include <cstdint>
#include <tuple>

#include "tests/twin/kernels/device_code.hpp"
#include "tests/twin/kernels/shared_memory.hpp"
#include "tests/twin/kernels/start_kernel.hpp"

// In the place of cuda/kernels/start.cuh: kernels as host C++, each thread of a block a fiber.

/// Memory that a block's threads share: fresh and poisoned for each block, with red zones.
// NOLINTBEGIN(bugprone-macro-parentheses): a type and a name that are declared have none
#define TAUT_SHARED(Type, name)             \
  static char name##_place;                    \
  Type& name = *static_cast<Type*>(::taut::twin::shared_memory( \
      &name##_place, sizeof(Type), alignof(Type)))
// NOLINTEND(bugprone-macro-parentheses)

namespace taut::cuda {

template <class... Parameters, class... Arguments>
void start(const char* name, std::int64_t elements, void (*kernel)(Parameters...), dim3 grid,
           unsigned threads, cudaStream_t stream, const Arguments&... arguments) {
  const std::tuple<Parameters...> held(arguments...);
  twin::start_kernel({.name = name,
                      .grid = grid,
                      .threads = threads,
                      .stream = stream,
                      // NOLINTNEXTLINE(bugprone-sizeof-expression): addresses are parameters
                      .parameter_bytes = (sizeof(Parameters) + ... + 0),
                      .elements = static_cast<std::uint64_t>(elements)},
                     [kernel, held] { std::apply(kernel, held); });
}

}  // namespace taut::cuda

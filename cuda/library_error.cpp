#include <fmt/format.h>

#include "cuda/error.hpp"

// The error messages of cuDNN and cuBLASLt. Separate from the runtime's, so that kernels can be
// linked without these libraries.
namespace taut::cuda {

void fail(cudnnStatus_t status, std::string_view call, std::string_view about) {
  char detail[512] = "";
  cudnnGetLastErrorString(detail, sizeof detail);
  const std::string message = detail[0] == '\0'
                                  ? std::string(cudnnGetErrorString(status))
                                  : fmt::format("{}: {}", cudnnGetErrorString(status), detail);
  fail(call, about, message);
}

void fail(cublasStatus_t status, std::string_view call, std::string_view about) {
  fail(call, about, cublasLtGetStatusString(status));
}

}  // namespace taut::cuda

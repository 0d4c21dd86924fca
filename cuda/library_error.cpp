#include <fmt/format.h>

#include "cuda/error.hpp"

// What cuDNN and cuBLASLt say of a failure. Apart from the runtime's, so that kernels are linked
// without them.
namespace taut::cuda {

void fail(cudnnStatus_t status, std::string_view call, std::string_view about) {
  char detail[512] = "";
  cudnnGetLastErrorString(detail, sizeof detail);
  const std::string said = detail[0] == '\0'
                               ? std::string(cudnnGetErrorString(status))
                               : fmt::format("{}: {}", cudnnGetErrorString(status), detail);
  fail(call, about, said);
}

void fail(cublasStatus_t status, std::string_view call, std::string_view about) {
  fail(call, about, cublasLtGetStatusString(status));
}

}  // namespace taut::cuda

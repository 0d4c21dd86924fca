#include <cstring>
#include <memory>
#include <new>

#include "tests/twin/libraries/cublaslt/cublaslt_state.hpp"
#include "tests/twin/stream_queue.hpp"

namespace taut::twin::cublas {
namespace {

/// What a call is to fail with, as the test's order says.
cublasStatus_t faulted(const char* call) {
  switch (next_fault(call).kind) {
    case Fault::kNone:
      return CUBLAS_STATUS_SUCCESS;
    case Fault::kRefused:
      return CUBLAS_STATUS_INTERNAL_ERROR;
    case Fault::kOutOfMemory:
      return CUBLAS_STATUS_ALLOC_FAILED;
    case Fault::kDeviceLost:
      fail_device(current_device(), cudaErrorIllegalAddress);
      return CUBLAS_STATUS_EXECUTION_FAILED;
  }
  return CUBLAS_STATUS_SUCCESS;
}

/// An attribute's value is taken where the size is that of what it is kept in.
template <class Stored, class Kept>
cublasStatus_t take(const void* from, std::size_t bytes, Kept& into) {
  if (from == nullptr || bytes != sizeof(Stored)) return CUBLAS_STATUS_INVALID_VALUE;
  Stored value{};
  std::memcpy(&value, from, sizeof value);
  into = static_cast<Kept>(value);
  return CUBLAS_STATUS_SUCCESS;
}

template <class Opaque, class Own, class... Arguments>
cublasStatus_t create(const char* call, Opaque** into, Arguments... arguments) {
  if (into == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  const cublasStatus_t fault = faulted(call);
  if (fault != CUBLAS_STATUS_SUCCESS) return fault;
  *into = reinterpret_cast<Opaque*>(new Own{arguments...});
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

bool is_known(cudaDataType type) {
  return type == CUDA_R_32F || type == CUDA_R_16F || type == CUDA_R_16BF;
}

Format format_of(cudaDataType type) {
  if (type == CUDA_R_16F) return Format::kFloat16;
  return type == CUDA_R_16BF ? Format::kBfloat16 : Format::kFloat32;
}

Format factor_of(cublasComputeType_t compute, cudaDataType type) {
  if (type != CUDA_R_32F) return format_of(type);
  return compute == CUBLAS_COMPUTE_32F_FAST_TF32 ? Format::kTf32 : Format::kFloat32;
}

std::size_t span_of(const Layout& layout) {
  const auto stride = static_cast<std::uint64_t>(layout.stride);
  const std::uint64_t one = stride * (layout.columns - 1) + layout.rows;
  const std::uint64_t all = static_cast<std::uint64_t>(layout.batch_offset) *
                                static_cast<std::uint64_t>(layout.batch - 1) +
                            one;
  return all * size_of(format_of(layout.type));
}

}  // namespace taut::twin::cublas

using namespace taut::twin;
using namespace taut::twin::cublas;

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  if (handle == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  const cublasStatus_t fault = faulted("cublasLtCreate");
  if (fault != CUBLAS_STATUS_SUCCESS) return fault;
  if (!may_call_unsafely("cublasLtCreate")) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (device_status(current_device()) != cudaSuccess) return CUBLAS_STATUS_NOT_INITIALIZED;
  *handle = reinterpret_cast<cublasLtHandle_t>(new Handle{current_device()});
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  if (handle == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  delete reinterpret_cast<Handle*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}

const char* cublasLtGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "success";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "the library was not initialized";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "the resource allocation failed";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "an unsupported value or parameter was passed to the function";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "the function failed to launch on the GPU";
    case CUBLAS_STATUS_INTERNAL_ERROR:
      return "an internal operation failed";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "the functionality requested is not supported";
    default:
      return "the requested feature is not available on the device";
  }
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* into, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  return create<cublasLtMatmulDescOpaque_t, Product>("cublasLtMatmulDescCreate", into, compute,
                                                     scale);
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t descriptor) {
  delete reinterpret_cast<Product*>(descriptor);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t descriptor,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes) {
  const cublasStatus_t fault = faulted("cublasLtMatmulDescSetAttribute");
  if (fault != CUBLAS_STATUS_SUCCESS) return fault;
  if (descriptor == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  Product& product = *reinterpret_cast<Product*>(descriptor);
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return take<std::int32_t>(value, bytes, product.transpose_a);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return take<std::int32_t>(value, bytes, product.transpose_b);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return take<std::uint32_t>(value, bytes, product.epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return take<const void*>(value, bytes, product.bias);
    default:
      report_violation("cublaslt.not-emulated",
                       "cublasLtMatmulDescSetAttribute: attribute " + std::to_string(attribute));
  }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* into, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t stride) {
  return create<cublasLtMatrixLayoutOpaque_t, Layout>("cublasLtMatrixLayoutCreate", into, type,
                                                      rows, columns, stride);
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete reinterpret_cast<Layout*>(layout);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t descriptor,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* value, size_t bytes) {
  const cublasStatus_t fault = faulted("cublasLtMatrixLayoutSetAttribute");
  if (fault != CUBLAS_STATUS_SUCCESS) return fault;
  if (descriptor == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  Layout& layout = *reinterpret_cast<Layout*>(descriptor);
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
      return take<std::int32_t>(value, bytes, layout.batch);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return take<std::int64_t>(value, bytes, layout.batch_offset);
    default:
      report_violation("cublaslt.not-emulated",
                       "cublasLtMatrixLayoutSetAttribute: attribute " + std::to_string(attribute));
  }
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* into) {
  return create<cublasLtMatmulPreferenceOpaque_t, Preference>("cublasLtMatmulPreferenceCreate",
                                                              into);
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete reinterpret_cast<Preference*>(preference);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t descriptor,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t bytes) {
  const cublasStatus_t fault = faulted("cublasLtMatmulPreferenceSetAttribute");
  if (fault != CUBLAS_STATUS_SUCCESS) return fault;
  if (descriptor == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  Preference& preference = *reinterpret_cast<Preference*>(descriptor);
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return take<std::uint64_t>(value, bytes, preference.workspace);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return take<std::uint32_t>(value, bytes, preference.reductions);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
      return take<std::uint32_t>(value, bytes, preference.alignments[0]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
      return take<std::uint32_t>(value, bytes, preference.alignments[1]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
      return take<std::uint32_t>(value, bytes, preference.alignments[2]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return take<std::uint32_t>(value, bytes, preference.alignments[3]);
    default:
      report_violation("cublaslt.not-emulated", "cublasLtMatmulPreferenceSetAttribute: attribute " +
                                                    std::to_string(attribute));
  }
}
}

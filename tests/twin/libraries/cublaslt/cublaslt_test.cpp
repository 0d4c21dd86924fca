// The twin's cuBLASLt: what it computes, and that it objects to what its documentation forbids.
#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "tests/support/catch.hpp"
#include "tests/twin/libraries/broken_rule.hpp"
#include "tests/twin/libraries/device_values.hpp"
#include "tests/twin/runtime/seed.hpp"
#include "tests/twin/stream_queue.hpp"

using namespace taut::twin;
using namespace taut::twin::test;

namespace {

struct Shape {
  std::size_t m = 6, n = 5, k = 7;  // by columns: D [m, n] = op(A) [m, k] op(B) [k, n]
  bool transpose_a = false, transpose_b = false;
  Format format = Format::kFloat32;  // of A and B
  bool tf32 = false;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  std::int32_t batch = 1;
};

cudaDataType type_of(Format format) {
  return format == Format::kFloat16    ? CUDA_R_16F
         : format == Format::kBfloat16 ? CUDA_R_16BF
                                       : CUDA_R_32F;
}

/// A product with all that it is asked with.
struct Product {
  explicit Product(const Shape& of) : shape(of) {
    REQUIRE(cublasLtCreate(&library) == CUBLAS_STATUS_SUCCESS);
    const auto compute = of.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    REQUIRE(cublasLtMatmulDescCreate(&product, compute, CUDA_R_32F) == CUBLAS_STATUS_SUCCESS);
    set(CUBLASLT_MATMUL_DESC_TRANSA, of.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, of.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, of.epilogue);
    const cudaDataType type = type_of(of.format);
    a = layout(type, of.transpose_a ? of.k : of.m, of.transpose_a ? of.m : of.k);
    b = layout(type, of.transpose_b ? of.n : of.k, of.transpose_b ? of.k : of.n);
    d = layout(CUDA_R_32F, of.m, of.n);
    REQUIRE(cublasLtMatmulPreferenceCreate(&preference) == CUBLAS_STATUS_SUCCESS);
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{1} << 20U);
  }
  ~Product() {
    cublasLtMatmulPreferenceDestroy(preference);
    for (cublasLtMatrixLayout_t one : {a, b, d}) cublasLtMatrixLayoutDestroy(one);
    cublasLtMatmulDescDestroy(product);
    cublasLtDestroy(library);
  }
  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    REQUIRE(cublasLtMatmulDescSetAttribute(product, attribute, &value, sizeof value) ==
            CUBLAS_STATUS_SUCCESS);
  }
  template <class T>
  void prefer(cublasLtMatmulPreferenceAttributes_t attribute, const T& value) {
    REQUIRE(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value) ==
            CUBLAS_STATUS_SUCCESS);
  }
  [[nodiscard]] cublasLtMatrixLayout_t layout(cudaDataType type, std::size_t rows,
                                              std::size_t columns) const {
    cublasLtMatrixLayout_t created = nullptr;
    REQUIRE(cublasLtMatrixLayoutCreate(&created, type, rows, columns,
                                       static_cast<std::int64_t>(rows)) == CUBLAS_STATUS_SUCCESS);
    if (shape.batch == 1) return created;
    const auto offset = static_cast<std::int64_t>(rows * columns);
    REQUIRE(cublasLtMatrixLayoutSetAttribute(created, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                                             &shape.batch,
                                             sizeof shape.batch) == CUBLAS_STATUS_SUCCESS);
    REQUIRE(cublasLtMatrixLayoutSetAttribute(created, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                             &offset, sizeof offset) == CUBLAS_STATUS_SUCCESS);
    return created;
  }
  void align(std::uint32_t bytes) {
    for (const auto attribute :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      prefer(attribute, bytes);
    }
  }
  std::vector<cublasLtMatmulHeuristicResult_t> ask() {
    std::vector<cublasLtMatmulHeuristicResult_t> results(8);
    int found = 0;
    status = cublasLtMatmulAlgoGetHeuristic(library, product, a, b, d, d, preference, 8,
                                            results.data(), &found);
    results.resize(static_cast<std::size_t>(found));
    return results;
  }
  cublasStatus_t run(const cublasLtMatmulAlgo_t& algorithm, const void* from_a, const void* from_b,
                     void* into, void* workspace, std::size_t bytes, float beta = 0) {
    const float alpha = 0.5F;
    return cublasLtMatmul(library, product, &alpha, from_a, a, from_b, b, &beta, into, d, into, d,
                          &algorithm, workspace, bytes, nullptr);
  }

  Shape shape;
  cublasLtHandle_t library = nullptr;
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, d = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
};

/// alpha 0.5; factors rounded as asked.
std::vector<double> expected_of(const Shape& shape, const Values& a, const Values& b,
                                const Values& bias, const Values& before, double beta) {
  std::vector<double> out;
  const Format factor = shape.tf32 ? Format::kTf32 : shape.format;
  for (std::size_t batch = 0; batch < static_cast<std::size_t>(shape.batch); ++batch) {
    for (std::size_t j = 0; j < shape.n; ++j) {
      for (std::size_t i = 0; i < shape.m; ++i) {
        double sum = 0;
        for (std::size_t s = 0; s < shape.k; ++s) {
          const std::size_t at = shape.transpose_a ? i * shape.k + s : s * shape.m + i;
          const std::size_t bt = shape.transpose_b ? s * shape.n + j : j * shape.k + s;
          sum += static_cast<double>(round_to(factor, a[batch * shape.m * shape.k + at])) *
                 round_to(factor, b[batch * shape.k * shape.n + bt]);
        }
        double value = 0.5 * sum;
        if (beta != 0) value += beta * before[out.size()];
        if (!bias.empty()) value += bias[i];
        if ((shape.epilogue & CUBLASLT_EPILOGUE_RELU) != 0) value = std::max(value, 0.0);
        out.push_back(value);
      }
    }
  }
  return out;
}

constexpr std::size_t kWorkspace = 1 << 20;

}  // namespace

TEST_CASE("cuBLASLt products of each kind are those of plain loops", "[twin][cublaslt]") {
  std::vector<Shape> shapes(1);
  for (int i = 0; i < 16; ++i) {
    Shape shape{.m = 6, .n = 5, .k = 7, .transpose_a = (i & 1) != 0, .transpose_b = (i & 2) != 0};
    shape.tf32 = i / 4 == 1;
    if (i / 4 == 2) shape.format = Format::kBfloat16;
    if (i / 4 == 3) shape.format = Format::kFloat16;
    shapes.push_back(shape);
  }
  shapes.push_back({.m = 16, .n = 8, .k = 32, .batch = 3});
  shapes.push_back({.m = 16, .n = 8, .k = 32, .epilogue = CUBLASLT_EPILOGUE_RELU_BIAS});
  shapes.push_back({.m = 8, .n = 8, .k = 40, .epilogue = CUBLASLT_EPILOGUE_BIAS});
  shapes.push_back({.m = 64, .n = 1, .k = 1, .epilogue = CUBLASLT_EPILOGUE_RELU});
  for (const Shape& shape : shapes) {
    const auto count = static_cast<std::size_t>(shape.batch);
    const Values left = some_values(count * shape.m * shape.k, 1);
    const Values right = some_values(count * shape.k * shape.n, 2);
    const DeviceValues a(left, shape.format);
    const DeviceValues b(right, shape.format);
    const bool has_bias = (shape.epilogue & CUBLASLT_EPILOGUE_BIAS) != 0;
    const Values bias = has_bias ? some_values(shape.m, 3) : Values();
    const DeviceValues bias_at(has_bias ? bias : Values(shape.m));
    Product product(shape);
    if (has_bias) product.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias_at.get());
    product.align(16);
    const DeviceValues workspace(kWorkspace / sizeof(float));
    const auto found = product.ask();
    REQUIRE(product.status == CUBLAS_STATUS_SUCCESS);
    for (const auto& result : found) {
      for (const float beta : {0.0F, 2.0F}) {
        const Values before = some_values(count * shape.m * shape.n, 4);
        // Where beta is 0 the old values are not read: a NaN would be seen.
        const DeviceValues d(beta == 0 ? Values(before.size(), NAN) : before);
        REQUIRE(product.run(result.algo, a.get(), b.get(), d.get(), workspace.get(),
                            result.workspaceSize, beta) == CUBLAS_STATUS_SUCCESS);
        CHECK(difference(d.read(), expected_of(shape, left, right, bias, before, beta)) < 2e-6);
      }
    }
  }
}

TEST_CASE("cuBLASLt answers with algorithms within the requested workspace and schemes",
          "[twin][cublaslt]") {
  Product product({.m = 64, .n = 64, .k = 64});
  product.align(16);
  CHECK(product.ask().size() > 1);
  product.prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{0});
  for (const auto& result : product.ask()) CHECK(result.workspaceSize == 0);
  // Larger matrices than the workspace's default of none still have an algorithm.
  CHECK(product.status == CUBLAS_STATUS_SUCCESS);
}

TEST_CASE("cuBLASLt refuses matrices that do not fit each other", "[twin][cublaslt]") {
  Product product({});
  cublasLtMatrixLayoutDestroy(product.b);
  product.b = product.layout(CUDA_R_32F, 9, 5);
  CHECK(product.ask().empty());
  CHECK(product.status == CUBLAS_STATUS_INVALID_VALUE);
  cublasLtMatrixLayoutDestroy(product.b);
  product.b = product.layout(CUDA_R_16F, 7, 5);
  CHECK(product.ask().empty());
  CHECK(product.status == CUBLAS_STATUS_NOT_SUPPORTED);
}

TEST_CASE("cuBLASLt refuses a leading dimension below the rows when it is used",
          "[twin][cublaslt]") {
  Product product({});
  cublasLtMatrixLayoutDestroy(product.a);
  REQUIRE(cublasLtMatrixLayoutCreate(&product.a, CUDA_R_32F, 6, 7, 5) == CUBLAS_STATUS_SUCCESS);
  CHECK(product.ask().empty());
  CHECK(product.status == CUBLAS_STATUS_INVALID_VALUE);
}

TEST_CASE("cuBLASLt refuses types that its table does not have", "[twin][cublaslt]") {
  Product product({.format = Format::kBfloat16, .tf32 = true});
  CHECK(product.ask().empty());
  CHECK(product.status == CUBLAS_STATUS_NOT_SUPPORTED);
}

TEST_CASE("cuBLASLt accepts an attribute only with its own size", "[twin][cublaslt]") {
  Product product({});
  const std::uint64_t wide = 0;
  CHECK(cublasLtMatmulDescSetAttribute(product.product, CUBLASLT_MATMUL_DESC_TRANSA, &wide, 8) ==
        CUBLAS_STATUS_INVALID_VALUE);
  CHECK(cublasLtMatmulPreferenceSetAttribute(product.preference,
                                             CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &wide,
                                             4) == CUBLAS_STATUS_INVALID_VALUE);
}

TEST_CASE("cuBLASLt refuses a workspace that is smaller than the algorithm needs",
          "[twin][cublaslt]") {
  Product product({.m = 64, .n = 64, .k = 64});
  product.align(16);
  const DeviceValues a(64 * 64), b(64 * 64), d(64 * 64), workspace(kWorkspace / 4);
  for (const auto& result : product.ask()) {
    if (result.workspaceSize == 0) continue;
    CHECK(product.run(result.algo, a.get(), b.get(), d.get(), workspace.get(),
                      result.workspaceSize - 1) == CUBLAS_STATUS_INVALID_VALUE);
  }
}

TEST_CASE("cuBLASLt refuses an algorithm that was chosen for another product", "[twin][cublaslt]") {
  Product product({});
  const auto found = product.ask();
  const DeviceValues a(64), b(64), d(64), workspace(kWorkspace / 4);
  Product other({.epilogue = CUBLASLT_EPILOGUE_RELU});
  CHECK(other.run(found.at(0).algo, a.get(), b.get(), d.get(), workspace.get(), kWorkspace) ==
        CUBLAS_STATUS_NOT_SUPPORTED);
}

TEST_CASE("cuBLASLt's heuristic assumes any address for an unnamed bias", "[twin][cublaslt]") {
  Product product({.m = 16, .n = 16, .k = 16, .epilogue = CUBLASLT_EPILOGUE_BIAS});
  product.align(16);
  const DeviceValues a(256), b(256), d(256), bias(17), workspace(kWorkspace / 4);
  REQUIRE_BROKEN("cublaslt.bias-alignment", {
    const auto found = product.ask();
    product.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias.floats() + 1);
    for (const auto& result : found) {
      (void)product.run(result.algo, a.get(), b.get(), d.get(), workspace.get(), kWorkspace);
    }
  });
  // Asked with the pointer, it answers with what can read it.
  product.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias.floats() + 1);
  const auto found = product.ask();
  REQUIRE(!found.empty());
  for (const auto& result : found) {
    CHECK(product.run(result.algo, a.get(), b.get(), d.get(), workspace.get(), kWorkspace) ==
          CUBLAS_STATUS_SUCCESS);
  }
}

TEST_CASE("cuBLASLt needs the bias that its epilogue adds", "[twin][cublaslt]") {
  Product product({.m = 16, .n = 16, .k = 16, .epilogue = CUBLASLT_EPILOGUE_BIAS});
  const DeviceValues a(256), b(256), d(256), workspace(kWorkspace / 4);
  REQUIRE_BROKEN("cublaslt.bias", {
    (void)product.run(product.ask().at(0).algo, a.get(), b.get(), d.get(), workspace.get(),
                      kWorkspace);
  });
}

TEST_CASE("cuBLASLt's operands must have the alignment given to its heuristic",
          "[twin][cublaslt]") {
  Product product({.m = 16, .n = 16, .k = 16});
  product.align(16);
  const DeviceValues a(257), b(256), d(256), workspace(kWorkspace / 4);
  REQUIRE_BROKEN("cublaslt.alignment", {
    for (const auto& result : product.ask()) {
      (void)product.run(result.algo, a.floats() + 1, b.get(), d.get(), workspace.get(), kWorkspace);
    }
  });
}

TEST_CASE("cuBLASLt's workspace must be at a multiple of 16", "[twin][cublaslt]") {
  Product product({.m = 16, .n = 16, .k = 16});
  product.align(16);
  const DeviceValues a(256), b(256), d(256), workspace(kWorkspace / 4);
  REQUIRE_BROKEN("cublaslt.workspace-alignment", {
    for (const auto& result : product.ask()) {
      (void)product.run(result.algo, a.get(), b.get(), d.get(), workspace.floats() + 1,
                        kWorkspace - 64);
    }
  });
}

TEST_CASE("cuBLASLt runs what its heuristic returned", "[twin][cublaslt]") {
  Product product({.m = 16, .n = 16, .k = 16});
  const DeviceValues a(256), b(256), d(256), workspace(kWorkspace / 4);
  REQUIRE_BROKEN("cublaslt.algorithm", {
    (void)product.run({}, a.get(), b.get(), d.get(), workspace.get(), kWorkspace);
  });
}

TEST_CASE("no library overwrites its input", "[twin][cublaslt]") {
  Product product({.m = 16, .n = 16, .k = 16});
  const DeviceValues a(512), b(256), workspace(kWorkspace / 4);
  REQUIRE_BROKEN("library.overlap", {
    (void)product.run(product.ask().at(0).algo, a.get(), b.get(), a.floats() + 128, workspace.get(),
                      kWorkspace);
  });
}

TEST_CASE("a workspace is destroyed by the call that was given it", "[twin][cublaslt]") {
  Product product({.m = 64, .n = 64, .k = 64});
  product.align(16);
  const DeviceValues a(Values(4096, 1.0F)), b(Values(4096, 1.0F)), d(4096);
  bool any = false;
  for (const auto& result : product.ask()) {
    if (result.workspaceSize == 0) continue;
    const DeviceValues workspace(Values(result.workspaceSize / 4, 7.0F));
    REQUIRE(product.run(result.algo, a.get(), b.get(), d.get(), workspace.get(),
                        result.workspaceSize) == CUBLAS_STATUS_SUCCESS);
    const Values left = workspace.read();
    CHECK(left.front() != 7.0F);
    CHECK(left.back() != 7.0F);
    any = true;
  }
  CHECK(any);
}

TEST_CASE("sums in place have no fixed order, others have one", "[twin][cublaslt]") {
  Product product({.m = 16, .n = 16, .k = 512});
  product.align(16);
  const DeviceValues a(some_values(16 * 512, 1)), b(some_values(16 * 512, 2)), d(256);
  const DeviceValues workspace(1 << 18);
  const auto most_outcomes = [&] {
    std::size_t most = 0;
    for (const auto& result : product.ask()) {
      std::set<Values> outcomes;
      for (std::uint64_t seed = 1; seed <= 12; ++seed) {
        set_seed(seed);
        REQUIRE(product.run(result.algo, a.get(), b.get(), d.get(), workspace.get(),
                            result.workspaceSize) == CUBLAS_STATUS_SUCCESS);
        outcomes.insert(d.read());
      }
      most = std::max(most, outcomes.size());
    }
    return most;
  };
  CHECK(most_outcomes() > 1);
  product.prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                 static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE |
                                            CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE));
  CHECK(most_outcomes() == 1);
}

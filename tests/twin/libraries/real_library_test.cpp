// The twin's descriptors against those of the libraries of this machine, which check them without a
// device: what one refuses the other refuses, with a status of the same kind.
#include <cublasLt.h>
#include <cudnn.h>
#include <dlfcn.h>

#include <array>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"

namespace {

/// A library that nothing else in the process is bound to.
class Library {
 public:
  explicit Library(const char* file)
      : handle_(dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND)) {}
  [[nodiscard]] bool is_found() const { return handle_ != nullptr; }
  template <class Function>
  [[nodiscard]] Function* get(Function*, const char* name) const {
    return reinterpret_cast<Function*>(dlsym(handle_, name));
  }

 private:
  void* handle_;
};
#define CALL(library, name, ...) (library).get(&name, #name)(__VA_ARGS__)

/// "cudnnSetTensor4dDescriptor 3: BAD_PARAM" and so on.
struct Answers {
  std::vector<std::string> all;
  void add(const char* call, cudnnStatus_t status) {
    const int kind = CUDNN_STATUS_CATEGORY(static_cast<int>(status));
    all.push_back(std::string(call) + " " + std::to_string(all.size()) + ": " +
                  std::to_string(kind));
  }
  void add(const char* call, cublasStatus_t status) {
    all.push_back(std::string(call) + " " + std::to_string(all.size()) + ": " +
                  std::to_string(static_cast<int>(status)));
  }
};

void ask_tensors(const Library& library, Answers& answers) {
  cudnnTensorDescriptor_t tensor = nullptr;
  (void)CALL(library, cudnnCreateTensorDescriptor, &tensor);
  constexpr std::array<int, 4> kSides[] = {{1, 2, 3, 4},
                                           {0, 2, 3, 4},
                                           {1, -1, 3, 4},
                                           {1 << 16, 1 << 10, 1 << 6, 1},
                                           {1 << 16, 1 << 15, 1, 1},
                                           {1 << 15, 1 << 15, 1, 1},
                                           {46340, 46340, 1, 1}};
  for (const auto& side : kSides) {
    answers.add("cudnnSetTensor4dDescriptor",
                CALL(library, cudnnSetTensor4dDescriptor, tensor, CUDNN_TENSOR_NCHW,
                     CUDNN_DATA_FLOAT, side[0], side[1], side[2], side[3]));
  }
  const int extents[] = {1, 2, 3, 1, 1, 1, 1, 1, 1};
  const int strides[] = {6, 3, 1, 1, 1, 1, 1, 1, 1};
  for (const int dimensions : {1, 2, 3, 8, 9}) {
    answers.add("cudnnSetTensorNdDescriptor", CALL(library, cudnnSetTensorNdDescriptor, tensor,
                                                   CUDNN_DATA_FLOAT, dimensions, extents, strides));
  }
  (void)CALL(library, cudnnDestroyTensorDescriptor, tensor);
  cudnnFilterDescriptor_t filter = nullptr;
  (void)CALL(library, cudnnCreateFilterDescriptor, &filter);
  for (const int channels : {2, 0, -1}) {
    answers.add("cudnnSetFilter4dDescriptor",
                CALL(library, cudnnSetFilter4dDescriptor, filter, CUDNN_DATA_FLOAT,
                     CUDNN_TENSOR_NCHW, 1, channels, 3, 3));
  }
  (void)CALL(library, cudnnDestroyFilterDescriptor, filter);
}

void ask_convolutions(const Library& library, Answers& answers) {
  cudnnConvolutionDescriptor_t convolution = nullptr;
  (void)CALL(library, cudnnCreateConvolutionDescriptor, &convolution);
  const auto set = [&](int pad, int stride, int dilation, cudnnDataType_t compute) {
    answers.add("cudnnSetConvolution2dDescriptor",
                CALL(library, cudnnSetConvolution2dDescriptor, convolution, pad, 0, stride, 1,
                     dilation, 1, CUDNN_CROSS_CORRELATION, compute));
  };
  set(0, 1, 1, CUDNN_DATA_FLOAT);
  set(-1, 1, 1, CUDNN_DATA_FLOAT);
  set(0, 0, 1, CUDNN_DATA_FLOAT);
  set(0, 1, 0, CUDNN_DATA_FLOAT);
  set(0, 1, 1, CUDNN_DATA_HALF);
  set(0, 1, 1, CUDNN_DATA_BFLOAT16);
  set(0, 1, 1, CUDNN_DATA_INT8);
  for (const int groups : {1, 2, 0, -1}) {
    answers.add("cudnnSetConvolutionGroupCount",
                CALL(library, cudnnSetConvolutionGroupCount, convolution, groups));
  }
  for (int math = 0; math < 5; ++math) {
    answers.add("cudnnSetConvolutionMathType",
                CALL(library, cudnnSetConvolutionMathType, convolution,
                     static_cast<cudnnMathType_t>(math)));
  }
  (void)CALL(library, cudnnDestroyConvolutionDescriptor, convolution);
}

void ask_sequences(const Library& library, Answers& answers) {
  cudnnRNNDataDescriptor_t data = nullptr;
  (void)CALL(library, cudnnCreateRNNDataDescriptor, &data);
  const auto set = [&](int steps, const std::vector<int>& lengths, cudnnDataType_t type) {
    answers.add(
        "cudnnSetRNNDataDescriptor",
        CALL(library, cudnnSetRNNDataDescriptor, data, type, CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED,
             steps, static_cast<int>(lengths.size()), 5, lengths.data(), nullptr));
  };
  set(3, {3, 3}, CUDNN_DATA_FLOAT);
  set(3, {2, 3}, CUDNN_DATA_FLOAT);
  set(3, {3, 0}, CUDNN_DATA_FLOAT);
  set(3, {4, 3}, CUDNN_DATA_FLOAT);
  set(3, {3, -1}, CUDNN_DATA_FLOAT);
  set(0, {3, 3}, CUDNN_DATA_FLOAT);
  set(3, {3, 3}, CUDNN_DATA_INT8);
  set(65535, {65535}, CUDNN_DATA_FLOAT);
  set(65536, {65536}, CUDNN_DATA_FLOAT);
  (void)CALL(library, cudnnDestroyRNNDataDescriptor, data);
}

void ask_layers(const Library& library, Answers& answers) {
  cudnnRNNDescriptor_t layer = nullptr;
  (void)CALL(library, cudnnCreateRNNDescriptor, &layer);
  const auto set = [&](cudnnRNNAlgo_t algorithm, cudnnRNNMode_t mode, cudnnRNNBiasMode_t bias,
                       cudnnDataType_t precision, int inputs, int hidden, int projected, int layers,
                       unsigned flags) {
    answers.add("cudnnSetRNNDescriptor_v8",
                CALL(library, cudnnSetRNNDescriptor_v8, layer, algorithm, mode, bias,
                     CUDNN_UNIDIRECTIONAL, CUDNN_LINEAR_INPUT, CUDNN_DATA_FLOAT, precision,
                     CUDNN_FMA_MATH, inputs, hidden, projected, layers, nullptr, flags));
  };
  constexpr auto kStandard = CUDNN_RNN_ALGO_STANDARD;
  constexpr auto kTwo = CUDNN_RNN_DOUBLE_BIAS;
  for (const auto mode : {CUDNN_RNN_TANH, CUDNN_LSTM, CUDNN_GRU}) {
    for (const auto bias : {CUDNN_RNN_NO_BIAS, CUDNN_RNN_SINGLE_INP_BIAS, kTwo}) {
      set(kStandard, mode, bias, CUDNN_DATA_FLOAT, 4, 8, 8, 1, 0);
    }
    set(CUDNN_RNN_ALGO_PERSIST_STATIC, mode, CUDNN_RNN_SINGLE_INP_BIAS, CUDNN_DATA_FLOAT, 4, 8, 8,
        1, 0);
    set(kStandard, mode, kTwo, CUDNN_DATA_DOUBLE, 4, 8, 8, 1, 0);
    set(kStandard, mode, kTwo, CUDNN_DATA_HALF, 4, 8, 8, 1, 0);
    set(kStandard, mode, kTwo, CUDNN_DATA_FLOAT, 4, 8, 9, 1, 0);
  }
  set(kStandard, CUDNN_GRU, kTwo, CUDNN_DATA_FLOAT, 4, 8, 4, 1, 0);
  set(kStandard, CUDNN_LSTM, kTwo, CUDNN_DATA_FLOAT, 0, 8, 8, 1, 0);
  set(kStandard, CUDNN_LSTM, kTwo, CUDNN_DATA_FLOAT, 4, 0, 0, 1, 0);
  set(kStandard, CUDNN_LSTM, kTwo, CUDNN_DATA_FLOAT, 4, 8, 0, 1, 0);
  set(kStandard, CUDNN_LSTM, kTwo, CUDNN_DATA_FLOAT, 4, 8, 8, 0, 0);
  set(kStandard, CUDNN_LSTM, kTwo, CUDNN_DATA_FLOAT, 4, 8, 8, 1, 2);
  (void)CALL(library, cudnnDestroyRNNDescriptor, layer);
}

void ask_products(const Library& library, Answers& answers) {
  cublasLtMatmulDesc_t product = nullptr;
  answers.add("cublasLtMatmulDescCreate",
              CALL(library, cublasLtMatmulDescCreate, &product, CUBLAS_COMPUTE_32F, CUDA_R_16F));
  const std::int64_t value = 1;
  for (const auto attribute : {CUBLASLT_MATMUL_DESC_TRANSA, CUBLASLT_MATMUL_DESC_TRANSB,
                               CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_MATMUL_DESC_BIAS_POINTER}) {
    for (const std::size_t bytes : {2U, 4U, 8U}) {
      answers.add("cublasLtMatmulDescSetAttribute",
                  CALL(library, cublasLtMatmulDescSetAttribute, product, attribute, &value, bytes));
    }
    answers.add("cublasLtMatmulDescSetAttribute",
                CALL(library, cublasLtMatmulDescSetAttribute, product, attribute, nullptr, 4));
  }
  (void)CALL(library, cublasLtMatmulDescDestroy, product);
  cublasLtMatrixLayout_t layout = nullptr;
  for (const std::int64_t stride : {5, 4, 3, -1}) {
    answers.add("cublasLtMatrixLayoutCreate",
                CALL(library, cublasLtMatrixLayoutCreate, &layout, CUDA_R_32F, 4, 5, stride));
  }
  for (const auto attribute :
       {CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET}) {
    for (const std::size_t bytes : {4U, 8U}) {
      answers.add(
          "cublasLtMatrixLayoutSetAttribute",
          CALL(library, cublasLtMatrixLayoutSetAttribute, layout, attribute, &value, bytes));
    }
  }
  cublasLtMatmulPreference_t preference = nullptr;
  (void)CALL(library, cublasLtMatmulPreferenceCreate, &preference);
  for (const auto attribute :
       {CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    for (const std::size_t bytes : {4U, 8U}) {
      answers.add("cublasLtMatmulPreferenceSetAttribute",
                  CALL(library, cublasLtMatmulPreferenceSetAttribute, preference, attribute, &value,
                       bytes));
    }
  }
  (void)CALL(library, cublasLtMatmulPreferenceDestroy, preference);
}

template <class... Ask>
void compare(const char* file, const Ask&... ask) {
#if defined(__SANITIZE_ADDRESS__)
  WARN(file << ": AddressSanitizer ends a process that opens a library with RTLD_DEEPBIND");
  return;
#endif
  const Library real(file);
  const Library twin(TAUT_TWIN_LIBRARY);
  REQUIRE(twin.is_found());
  if (!real.is_found()) {
    WARN(file << " is not found: the twin is tested alone");
    return;
  }
  Answers expected, found;
  (ask(real, expected), ...);
  (ask(twin, found), ...);
  CHECK(found.all == expected.all);
}

}  // namespace

TEST_CASE("the twin's cuDNN takes and refuses the descriptors that cuDNN does", "[twin]") {
  compare("libcudnn.so.9", ask_tensors, ask_convolutions, ask_sequences, ask_layers);
}

TEST_CASE("the twin's cuBLASLt takes and refuses the descriptors that cuBLASLt does", "[twin]") {
  compare(TAUT_CUBLASLT_FILE, ask_products);
}

#include "worker/backend/cpu_dnnl_gemm.hpp"

#include <fmt/format.h>

#include <dnnl.hpp>
#include <optional>
#include <stdexcept>

#include "worker/backend/backend.hpp"

namespace taut::dnnl_cpu {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

dnnl::stream& stream() {
  static thread_local dnnl::stream inline_stream(engine());
  return inline_stream;
}

memory::desc matrix(std::int64_t rows, std::int64_t columns, Tag tag) {
  return {{rows, columns}, memory::data_type::f32, tag};
}

dnnl::matmul::primitive_desc describe(const memory::desc& a, const memory::desc& b,
                                      const memory::desc& c) {
  dnnl::post_ops then;
  then.append_sum();
  dnnl::primitive_attr adding;
  adding.set_post_ops(then);
#if DNNL_VERSION_MAJOR >= 3
  return {engine(), a, b, c, adding};
#else
  return {dnnl::matmul::desc(a, b, c), adding, engine()};
#endif
}

void point(memory& at, const float* address) {
  at.set_data_handle(const_cast<float*>(address));  // oneDNN has no memory that is only read
}

}  // namespace

struct PackedMatmul::State {
  dnnl::matmul matmul;
  dnnl::reorder reorder;
  memory a, callers_b, b, c;
};

PackedMatmul::PackedMatmul(const PackedMatmulSpec& spec) : state_(std::make_unique<State>()) {
  try {
    const auto a = matrix(spec.rows, spec.inner, Tag::ab);
    const auto b = matrix(spec.inner, spec.columns, spec.transpose_b ? Tag::ba : Tag::ab);
    const auto c = matrix(spec.rows, spec.columns, Tag::ab);
    const auto chosen = describe(a, matrix(spec.inner, spec.columns, Tag::any), c);
    state_->matmul = dnnl::matmul(chosen);
    state_->a = memory(a, engine(), DNNL_MEMORY_NONE);
    state_->callers_b = memory(b, engine(), DNNL_MEMORY_NONE);
    state_->b = memory(chosen.weights_desc(), engine());
    state_->c = memory(c, engine(), DNNL_MEMORY_NONE);
    state_->reorder = dnnl::reorder(state_->callers_b, state_->b);
  } catch (const dnnl::error& failure) {
    throw std::invalid_argument(
        fmt::format("oneDNN cannot make a matrix product of {} x {} x {}: {}", spec.rows,
                    spec.inner, spec.columns, failure.message));
  }
}

PackedMatmul::~PackedMatmul() = default;

void PackedMatmul::pack(const float* b) try {
  point(state_->callers_b, b);
  state_->reorder.execute(stream(), state_->callers_b, state_->b);
} catch (const dnnl::error& failure) {
  throw DeviceError(fmt::format("oneDNN failed to reorder a matrix: {}", failure.message));
}

void PackedMatmul::add(const float* a, float* c) try {
  point(state_->a, a);
  point(state_->c, c);
  state_->matmul.execute(
      stream(),
      {{DNNL_ARG_SRC, state_->a}, {DNNL_ARG_WEIGHTS, state_->b}, {DNNL_ARG_DST, state_->c}});
} catch (const dnnl::error& failure) {
  throw DeviceError(fmt::format("oneDNN failed a matrix product: {}", failure.message));
}

void multiply(std::int64_t rows, std::int64_t columns, std::int64_t inner, float alpha,
              const MatrixView& a, const MatrixView& b, float* c, std::int64_t step) {
  const auto done = dnnl::sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', rows, columns,
                                inner, alpha, a.address, a.step, b.address, b.step, 0, c, step);
  if (done != dnnl::status::success) throw DeviceError("oneDNN failed a matrix product");
}

}  // namespace taut::dnnl_cpu

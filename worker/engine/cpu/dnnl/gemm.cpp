#include "worker/engine/cpu/dnnl/gemm.hpp"

#include <fmt/format.h>

#include <dnnl.hpp>
#include <optional>
#include <stdexcept>

#include "worker/engine/backend.hpp"

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
  adding.set_scratchpad_mode(dnnl::scratchpad_mode::user);
#if DNNL_VERSION_MAJOR >= 3
  return {engine(), a, b, c, adding};
#else
  return {dnnl::matmul::desc(a, b, c), adding, engine()};
#endif
}

void point(memory& at, const float* address) {
  at.set_data_handle(const_cast<float*>(address));  // oneDNN has no read-only memory
}

std::size_t floats_of(const memory::desc& desc) {
  return (desc.get_size() + sizeof(float) - 1) / sizeof(float);
}

}  // namespace

struct PackedMatmul::State {
  dnnl::matmul matmul;
  dnnl::reorder reorder;
  memory a, callers_b, b, c, scratchpad;
  cpu::OwnMemory packed, scratch;
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
    state_->b = memory(chosen.weights_desc(), engine(), DNNL_MEMORY_NONE);
    state_->packed = cpu::OwnMemory(floats_of(chosen.weights_desc()));
    state_->scratchpad = memory(chosen.scratchpad_desc(), engine(), DNNL_MEMORY_NONE);
    state_->scratch = cpu::OwnMemory(floats_of(chosen.scratchpad_desc()));
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
  point(state_->b, state_->packed.data());
  state_->reorder.execute(stream(), state_->callers_b, state_->b);
} catch (const dnnl::error& failure) {
  throw DeviceError(fmt::format("oneDNN failed to reorder a matrix: {}", failure.message));
}

void PackedMatmul::add(const float* a, float* c) try {
  point(state_->a, a);
  point(state_->b, state_->packed.data());
  point(state_->c, c);
  point(state_->scratchpad, state_->scratch.data());
  state_->matmul.execute(stream(), {{DNNL_ARG_SRC, state_->a},
                                    {DNNL_ARG_WEIGHTS, state_->b},
                                    {DNNL_ARG_DST, state_->c},
                                    {DNNL_ARG_SCRATCHPAD, state_->scratchpad}});
} catch (const dnnl::error& failure) {
  throw DeviceError(fmt::format("oneDNN failed a matrix product: {}", failure.message));
}

cpu::OwnMemory& PackedMatmul::packed() {
  return state_->packed;
}
const cpu::OwnMemory& PackedMatmul::packed() const {
  return state_->packed;
}
cpu::OwnMemory& PackedMatmul::scratch() {
  return state_->scratch;
}
const cpu::OwnMemory& PackedMatmul::scratch() const {
  return state_->scratch;
}

void multiply(std::int64_t rows, std::int64_t columns, std::int64_t inner, float alpha,
              const MatrixView& a, const MatrixView& b, float* c, std::int64_t step) {
  const auto done = dnnl::sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', rows, columns,
                                inner, alpha, a.address, a.step, b.address, b.step, 0, c, step);
  if (done != dnnl::status::success) throw DeviceError("oneDNN failed a matrix product");
}

}  // namespace taut::dnnl_cpu

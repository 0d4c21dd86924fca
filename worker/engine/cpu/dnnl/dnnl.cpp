#include "worker/engine/cpu/dnnl/dnnl.hpp"

#include <utility>

#include "worker/engine/cpu/dnnl/engine.hpp"

namespace taut::dnnl_cpu {
namespace {

memory::desc matrix(std::int64_t rows, std::int64_t columns, bool transposed) {
  return plain({rows, columns}, transposed ? Tag::ba : Tag::ab);
}

}  // namespace

std::string version() {
  const dnnl_version_t* library = dnnl_version();
  return fmt::format("{}.{}.{}", library->major, library->minor, library->patch);
}

struct Matmul::State {
  Prepared matmul;
  memory a, b, bias, c;
};

Matmul::Matmul(const MatmulSpec& spec) : state_(std::make_unique<State>()) {
  built("matrix product", [&] {
    const memory::desc a = matrix(spec.rows, spec.inner, spec.transpose_a);
    const memory::desc b = matrix(spec.inner, spec.columns, spec.transpose_b);
    const memory::desc bias = spec.bias ? matrix(1, spec.columns, false) : memory::desc();
    const memory::desc c = matrix(spec.rows, spec.columns, false);
    const auto chosen = describe<dnnl::matmul>(cpu_engine(), a, b, bias, c);
    state_->matmul = {dnnl::matmul(chosen), chosen.scratchpad_desc()};
    state_->a = foreign(a);
    state_->b = foreign(b);
    state_->c = foreign(c);
    if (spec.bias) state_->bias = foreign(bias);
  });
}

Matmul::~Matmul() = default;

void Matmul::run(const float* a, const float* b, const float* bias, float* c) {
  point(state_->a, a);
  point(state_->b, b);
  point(state_->c, c);
  Arguments arguments{
      {DNNL_ARG_SRC, state_->a}, {DNNL_ARG_WEIGHTS, state_->b}, {DNNL_ARG_DST, state_->c}};
  if (state_->bias) {
    point(state_->bias, bias);
    arguments.emplace(DNNL_ARG_BIAS, state_->bias);
  }
  state_->matmul.run(std::move(arguments));
}

cpu::OwnMemory& Matmul::scratch() {
  return state_->matmul.scratch();
}
const cpu::OwnMemory& Matmul::scratch() const {
  return state_->matmul.scratch();
}

struct ImageReorder::State {
  primitive reorder;
  memory from, to;
};

ImageReorder::ImageReorder(const ImageShape& shape, ImageOrder to)
    : state_(std::make_unique<State>()) {
  built("reordering of images", [&] {
    const memory::dims dims{shape.n, shape.c, shape.h, shape.w};
    const bool to_last = to == ImageOrder::kChannelsLast;
    state_->from = foreign(plain(dims, to_last ? Tag::nchw : Tag::nhwc));
    state_->to = foreign(plain(dims, to_last ? Tag::nhwc : Tag::nchw));
    state_->reorder = dnnl::reorder(state_->from, state_->to);
  });
}

ImageReorder::~ImageReorder() = default;

void ImageReorder::run(const float* from, float* to) {
  point(state_->from, from);
  point(state_->to, to);
  execute(state_->reorder, {{DNNL_ARG_FROM, state_->from}, {DNNL_ARG_TO, state_->to}});
}

}  // namespace taut::dnnl_cpu

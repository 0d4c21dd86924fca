#include "worker/export/onnx/layer_operators.hpp"
#include "worker/model/extents.hpp"

namespace taut::onnx {
namespace {

/// For records: Gemm, which includes the bias and takes the weights in either order.
void of_records(LayerTranslation& layer) {
  const bool transpose = layer.definition().inner_product_param().transpose();
  std::string rows = layer.bottom(0);
  if (layer.bottom_shape(0).size() != 2) {
    rows = layer.add("Flatten", {rows}, {whole("axis", 1)});
  }
  Names inputs{rows, layer.parameter(0)};
  if (layer.parameter_count() > 1) inputs.push_back(layer.parameter(1));
  layer.write(0, "Gemm", inputs, {whole("transB", transpose ? 0 : 1)});
}

/// For the steps of sequences, or for a whole batch.
void of_rows(LayerTranslation& layer, std::size_t axis) {
  const model::Shape& bottom = layer.bottom_shape(0);
  std::string rows = layer.bottom(0);
  if (axis + 1 != bottom.size()) {
    Dims dims = layer.top_dims(0);
    dims.back() = model::extent_product(bottom, axis, bottom.size());
    rows = layer.reshape(rows, dims);
  }
  std::string weights = layer.parameter(0);
  if (!layer.definition().inner_product_param().transpose()) {
    weights = layer.add("Transpose", {weights}, {{"perm", Dims{1, 0}}});
  }
  if (layer.parameter_count() == 1) {
    layer.write(0, "MatMul", {rows, weights});
  } else {
    layer.write(0, "Add", {layer.add("MatMul", {rows, weights}), layer.parameter(1)});
  }
}

Result<void> inner_product(LayerTranslation& layer) {
  TAUT_TRY(const std::size_t axis,
           model::axis_index(layer.definition().inner_product_param().axis(), layer.bottom_shape(0),
                             "inner_product_param.axis"));
  if (axis == 1) {
    of_records(layer);
  } else {
    of_rows(layer, axis);
  }
  return ok();
}

constexpr LayerOperators kInnerProductOperators[]{
    {"InnerProduct", inner_product},
};

}  // namespace

std::span<const LayerOperators> inner_product_operators() {
  return kInnerProductOperators;
}

}  // namespace taut::onnx

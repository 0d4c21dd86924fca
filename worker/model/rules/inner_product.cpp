#include <fmt/format.h>

#include "worker/model/extents.hpp"
#include "worker/model/rules/rules.hpp"

namespace taut::model::rules {
namespace {

Result<LayerShapes> settle_inner_product(const pb::LayerParameter& layer, const Shapes& bottoms,
                                         const GraphOptions&) {
  const pb::InnerProductParameter& parameter = layer.inner_product_param();
  const Shape& bottom = bottoms[0];
  TAUT_TRY(const std::int64_t outputs, outputs_of(parameter, "inner_product_param"));
  TAUT_TRY(const std::size_t axis,
           axis_index(parameter.axis(), bottom, "inner_product_param.axis"));
  Shape top(bottom.begin(), bottom.begin() + static_cast<std::ptrdiff_t>(axis));
  top.push_back(outputs);
  LayerShapes out{{top}, {}};
  const std::int64_t inputs = extent_product(bottom, axis, bottom.size());
  out.parameters.push_back({"weight",
                            parameter.transpose() ? Shape{inputs, outputs} : Shape{outputs, inputs},
                            parameter.weight_filler()});
  if (parameter.bias_term()) {
    out.parameters.push_back({"bias", {outputs}, parameter.bias_filler()});
  }
  return out;
}

constexpr LayerRule kInnerProductRules[]{
    LayerRule{.type = "InnerProduct", .settle = settle_inner_product},
};

}  // namespace

LayerRules inner_product_rules() {
  return kInnerProductRules;
}

}  // namespace taut::model::rules

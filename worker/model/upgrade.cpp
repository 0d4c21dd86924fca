#include "worker/model/upgrade.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

namespace taut::model {
namespace {

using V1 = pb::V1LayerParameter;

struct TypeName {
  V1::LayerType old_type;
  std::string_view type;
};

constexpr std::array kTypeNames{
    TypeName{V1::ABSVAL, "AbsVal"},
    TypeName{V1::ACCURACY, "Accuracy"},
    TypeName{V1::ARGMAX, "ArgMax"},
    TypeName{V1::BNLL, "BNLL"},
    TypeName{V1::CONCAT, "Concat"},
    TypeName{V1::CONTRASTIVE_LOSS, "ContrastiveLoss"},
    TypeName{V1::CONVOLUTION, "Convolution"},
    TypeName{V1::DATA, "Data"},
    TypeName{V1::DECONVOLUTION, "Deconvolution"},
    TypeName{V1::DROPOUT, "Dropout"},
    TypeName{V1::DUMMY_DATA, "DummyData"},
    TypeName{V1::ELTWISE, "Eltwise"},
    TypeName{V1::EUCLIDEAN_LOSS, "EuclideanLoss"},
    TypeName{V1::EXP, "Exp"},
    TypeName{V1::FLATTEN, "Flatten"},
    TypeName{V1::HDF5_DATA, "HDF5Data"},
    TypeName{V1::HDF5_OUTPUT, "HDF5Output"},
    TypeName{V1::HINGE_LOSS, "HingeLoss"},
    TypeName{V1::IM2COL, "Im2col"},
    TypeName{V1::IMAGE_DATA, "ImageData"},
    TypeName{V1::INFOGAIN_LOSS, "InfogainLoss"},
    TypeName{V1::INNER_PRODUCT, "InnerProduct"},
    TypeName{V1::LRN, "LRN"},
    TypeName{V1::MEMORY_DATA, "MemoryData"},
    TypeName{V1::MULTINOMIAL_LOGISTIC_LOSS, "MultinomialLogisticLoss"},
    TypeName{V1::MVN, "MVN"},
    TypeName{V1::POOLING, "Pooling"},
    TypeName{V1::POWER, "Power"},
    TypeName{V1::RELU, "ReLU"},
    TypeName{V1::SIGMOID, "Sigmoid"},
    TypeName{V1::SIGMOID_CROSS_ENTROPY_LOSS, "SigmoidCrossEntropyLoss"},
    TypeName{V1::SILENCE, "Silence"},
    TypeName{V1::SLICE, "Slice"},
    TypeName{V1::SOFTMAX, "Softmax"},
    TypeName{V1::SOFTMAX_LOSS, "SoftmaxWithLoss"},
    TypeName{V1::SPLIT, "Split"},
    TypeName{V1::TANH, "TanH"},
    TypeName{V1::THRESHOLD, "Threshold"},
    TypeName{V1::WINDOW_DATA, "WindowData"},
};

/// blobs_lr, weight_decay and param each set one property of the same parameters.
void upgrade_params(const V1& old, pb::LayerParameter& layer) {
  const int count = std::max(
      {old.param_size(), old.blob_share_mode_size(), old.blobs_lr_size(), old.weight_decay_size()});
  for (int i = 0; i < count; ++i) {
    pb::ParamSpec& spec = *layer.add_param();
    if (i < old.param_size()) spec.set_name(old.param(i));
    if (i < old.blob_share_mode_size()) spec.set_share_mode(old.blob_share_mode(i));
    if (i < old.blobs_lr_size()) spec.set_lr_mult(old.blobs_lr(i));
    if (i < old.weight_decay_size()) spec.set_decay_mult(old.weight_decay(i));
  }
}

/// The parameters of types that have the same names and messages in both vocabularies.
void copy_type_parameters(const V1& old, pb::LayerParameter& layer) {
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  old.GetReflection()->ListFields(old, &fields);
  for (const auto* field : fields) {
    if (field->is_repeated() || field->message_type() == nullptr) continue;
    const auto* target = layer.GetDescriptor()->FindFieldByName(field->name());
    layer.GetReflection()
        ->MutableMessage(&layer, target)
        ->CopyFrom(old.GetReflection()->GetMessage(old, field));
  }
}

Result<pb::LayerParameter> upgrade_layer(const V1& old) {
  const auto named = std::find_if(kTypeNames.begin(), kTypeNames.end(), [&](const TypeName& name) {
    return name.old_type == old.type();
  });
  if (named == kTypeNames.end()) {
    return invalid(fmt::format("layers \"{}\" has no type", old.name()));
  }
  pb::LayerParameter layer;
  layer.set_name(old.name());
  layer.set_type(std::string(named->type));
  *layer.mutable_bottom() = old.bottom();
  *layer.mutable_top() = old.top();
  *layer.mutable_include() = old.include();
  *layer.mutable_exclude() = old.exclude();
  *layer.mutable_loss_weight() = old.loss_weight();
  upgrade_params(old, layer);
  copy_type_parameters(old, layer);
  return layer;
}

bool has_older_transform(const pb::LayerParameter& layer) {
  const pb::ImageDataParameter& older = layer.image_data_param();
  return older.has_scale() || older.has_mean_file() || older.has_crop_size() || older.has_mirror();
}

/// Moves the transform fields of image_data_param to transform_param, overwriting what is there,
/// as Caffe does. A Data layer's are read in their old place.
void move_transform(pb::LayerParameter& layer) {
  if (!has_older_transform(layer)) return;
  pb::ImageDataParameter& older = *layer.mutable_image_data_param();
  pb::TransformationParameter& transform = *layer.mutable_transform_param();
  if (older.has_scale()) transform.set_scale(older.scale());
  if (older.has_mean_file()) transform.set_mean_file(older.mean_file());
  if (older.has_crop_size()) transform.set_crop_size(older.crop_size());
  if (older.has_mirror()) transform.set_mirror(older.mirror());
  older.clear_scale();
  older.clear_mean_file();
  older.clear_crop_size();
  older.clear_mirror();
}

/// An Input layer for the net's `input` fields.
Result<pb::LayerParameter> input_layer(const pb::NetParameter& net) {
  constexpr int kImageAxes = 4;
  const int inputs = net.input_size();
  if (net.input_shape_size() > 0 && net.input_dim_size() > 0) {
    return invalid("input_shape and input_dim are both given: use one of them");
  }
  if (net.input_shape_size() != inputs && net.input_dim_size() != kImageAxes * inputs) {
    return invalid(
        fmt::format("input is given {} times, input_shape {} times and input_dim {} times: give "
                    "each input a shape, or four dims",
                    inputs, net.input_shape_size(), net.input_dim_size()));
  }
  pb::LayerParameter layer;
  layer.set_name("input");
  layer.set_type("Input");
  *layer.mutable_top() = net.input();
  for (int i = 0; i < inputs; ++i) {
    pb::BlobShape& shape = *layer.mutable_input_param()->add_shape();
    if (net.input_shape_size() > 0) {
      shape = net.input_shape(i);
      continue;
    }
    for (int axis = 0; axis < kImageAxes; ++axis) {
      shape.add_dim(net.input_dim(kImageAxes * i + axis));
    }
  }
  return layer;
}

/// Names of layers, grouped by the field without effect that they set.
using Vain = std::map<std::string, std::vector<std::string>>;

void find_vain(const pb::LayerParameter& layer, Vain& vain) {
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  layer.GetReflection()->ListFields(layer, &fields);
  for (const auto* field : fields) {
    if (field->is_repeated() || field->message_type() == nullptr) continue;
    const auto& parameter = layer.GetReflection()->GetMessage(layer, field);
    for (const char* name : {"engine", "force_nd_im2col", "stable_prod_grad"}) {
      const auto* inner = parameter.GetDescriptor()->FindFieldByName(name);
      if (inner == nullptr || !parameter.GetReflection()->HasField(parameter, inner)) continue;
      vain[field->name() + "." + name].push_back(layer.name());
    }
  }
}

/// Whether a layer's rules restrict it to test phases.
bool is_for_tests(const pb::LayerParameter& layer) {
  return layer.include_size() > 0 &&
         std::ranges::all_of(layer.include(), [](const pb::NetStateRule& rule) {
           return rule.has_phase() && rule.phase() == pb::TEST;
         });
}

}  // namespace

Result<pb::NetParameter> upgrade_net(const pb::NetParameter& net) {
  if (net.input_size() == 0 && (net.input_shape_size() > 0 || net.input_dim_size() > 0)) {
    return invalid("input_shape or input_dim is given, but input is missing");
  }
  if (net.layers_size() > 0 && net.layer_size() > 0) {
    return invalid("the net has `layer` and `layers`: use one of them, `layer` is the current one");
  }
  pb::NetParameter out = net;
  out.clear_layer();
  out.clear_layers();
  if (net.input_size() > 0) {
    TAUT_TRY(*out.add_layer(), input_layer(net));
    out.clear_input();
    out.clear_input_shape();
    out.clear_input_dim();
  }
  for (const pb::LayerParameter& layer : net.layer()) *out.add_layer() = layer;
  for (const V1& old : net.layers()) {
    TAUT_TRY(*out.add_layer(), upgrade_layer(old));
  }
  for (pb::LayerParameter& layer : *out.mutable_layer()) move_transform(layer);
  return out;
}

std::vector<std::string> net_warnings(const pb::NetParameter& net) {
  std::vector<std::string> warnings;
  if (net.has_force_backward()) {
    warnings.emplace_back("force_backward: gradients are computed where a parameter needs them");
  }
  if (net.has_debug_info()) warnings.emplace_back("debug_info: nothing reads it");
  if (net.state().has_phase()) warnings.emplace_back("state.phase: the run determines the phase");
  for (const pb::LayerParameter& layer : net.layer()) {
    if (layer.type() != "HDF5Output" || is_for_tests(layer)) continue;
    warnings.push_back(
        fmt::format("layer \"{}\" (HDF5Output): writes while the net is tested, not in training",
                    layer.name()));
  }
  Vain vain;
  for (const pb::LayerParameter& layer : net.layer()) find_vain(layer, vain);
  for (const auto& [field, layers] : vain) {
    const std::string more =
        layers.size() > 1 ? fmt::format(" and {} more", layers.size() - 1) : std::string();
    const bool engine = field.ends_with(".engine");
    warnings.push_back(
        fmt::format("{} of layer \"{}\"{}: {}", field, layers[0], more,
                    engine ? "superseded by the worker's device setting" : "nothing reads it"));
  }
  return warnings;
}

}  // namespace taut::model

#include "worker/layers/layer_makers.hpp"
#include "worker/model/extents.hpp"

namespace taut::layers {
namespace {

/// Concat and Slice: a whole, and its consecutive parts along an axis.
class Parts final : public Layer {
 public:
  Parts(Backend& backend, Extents whole, const std::vector<Extents>& parts, std::size_t axis,
        bool joins)
      : backend_(backend), whole_(std::move(whole)), joins_(joins) {
    std::int64_t offset = 0;
    for (const Extents& part : parts) {
      // Described as the copy out of the whole.
      parts_.push_back({.from = whole_,
                        .to = part,
                        .axis = axis,
                        .from_offset = offset,
                        .to_offset = 0,
                        .length = part[axis]});
      offset += part[axis];
    }
  }

  void forward(const Ports& ports, Stream& stream, Clock) override {
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      if (joins_) {
        join(stream, i, ports.bottoms[i].value, ports.tops[0].value);
      } else {
        backend_.copy_part(stream, parts_[i], ports.bottoms[0].value, ports.tops[i].value);
      }
    }
  }

  void backward(const Ports& ports, Stream& stream) override {
    if (joins_) {
      for (std::size_t i = 0; i < parts_.size(); ++i) {
        if (ports.bottoms[i].gradient.empty()) continue;
        backend_.copy_part(stream, parts_[i], ports.tops[0].gradient, ports.bottoms[i].gradient);
      }
      return;
    }
    const DeviceSpan<float> whole = ports.bottoms[0].gradient;
    if (whole.empty()) return;
    for (const Tensor& top : ports.tops) {
      if (!top.gradient.empty()) continue;
      backend_.fill(stream, whole, 0);  // no loss reads this part
      break;
    }
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      if (!ports.tops[i].gradient.empty()) join(stream, i, ports.tops[i].gradient, whole);
    }
  }

 private:
  void join(Stream& stream, std::size_t i, DeviceSpan<const float> part, DeviceSpan<float> whole) {
    const PartCopy& out = parts_[i];
    backend_.copy_part(stream,
                       {.from = out.to,
                        .to = whole_,
                        .axis = out.axis,
                        .from_offset = 0,
                        .to_offset = out.from_offset,
                        .length = out.length},
                       part, whole);
  }

  Backend& backend_;
  Extents whole_;
  std::vector<PartCopy> parts_;
  bool joins_;
};

/// Flatten and Reshape.
class Reshape final : public Layer {
 public:
  Reshape(Backend& backend, const LayerSetup& setup)
      : backend_(backend), bottom_(setup.bottoms[0]), top_(setup.tops[0]) {}

  void forward(const Ports& ports, Stream& stream, Clock) override {
    backend_.reshape(stream, bottom_, top_, ports.bottoms[0].value, ports.tops[0].value);
  }
  void backward(const Ports& ports, Stream& stream) override {
    if (ports.bottoms[0].gradient.empty()) return;
    backend_.reshape(stream, top_, bottom_, ports.tops[0].gradient, ports.bottoms[0].gradient);
  }

 private:
  Backend& backend_;
  Extents bottom_;
  Extents top_;
};

/// One cut for each axis that becomes shorter, with intermediate tensors.
class Crop final : public Layer {
 public:
  Crop(Backend& backend, const LayerSetup& setup) : backend_(backend) {
    const pb::CropParameter& parameter = setup.node.definition.crop_param();
    const Extents& top = setup.tops[0];
    Extents shape = setup.bottoms[0];
    const std::size_t first = axis_of(parameter.axis(), shape);
    for (std::size_t axis = first; axis < shape.size(); ++axis) {
      if (shape[axis] == top[axis]) continue;
      Extents cut = shape;
      cut[axis] = top[axis];
      if (!cuts_.empty()) {
        between_.push_back(backend.allocate_floats(model::element_count(shape), "a crop's part"));
      }
      cuts_.push_back({.from = shape,
                       .to = cut,
                       .axis = axis,
                       .from_offset = model::crop_offset(parameter, axis - first),
                       .to_offset = 0,
                       .length = top[axis]});
      shape = std::move(cut);
    }
  }

  void forward(const Ports& ports, Stream& stream, Clock) override {
    if (cuts_.empty()) return backend_.copy(stream, ports.bottoms[0].value, ports.tops[0].value);
    for (std::size_t i = 0; i < cuts_.size(); ++i) {
      backend_.copy_part(stream, cuts_[i], before(i, ports.bottoms[0].value),
                         before(i + 1, ports.tops[0].value));
    }
  }

  void backward(const Ports& ports, Stream& stream) override {
    const DeviceSpan<float> whole = ports.bottoms[0].gradient;
    if (whole.empty()) return;
    if (cuts_.empty()) return backend_.copy(stream, ports.tops[0].gradient, whole);
    for (std::size_t i = cuts_.size(); i-- > 0;) {
      const PartCopy& cut = cuts_[i];
      const DeviceSpan<float> into = before(i, whole);
      backend_.fill(stream, into, 0);
      backend_.copy_part(stream,
                         {.from = cut.to,
                          .to = cut.from,
                          .axis = cut.axis,
                          .from_offset = 0,
                          .to_offset = cut.from_offset,
                          .length = cut.length},
                         before(i + 1, ports.tops[0].gradient), into);
    }
  }

 private:
  /// The input of cut `i`, or its gradient; `end` at both ends of the cuts.
  [[nodiscard]] DeviceSpan<float> before(std::size_t i, DeviceSpan<float> end) const {
    return i == 0 || i == cuts_.size() ? end : between_[i - 1].as<float>();
  }

  Backend& backend_;
  std::vector<PartCopy> cuts_;
  std::vector<DeviceBuffer> between_;  // between cuts: each is the input of the next one
};

class Tile final : public Layer {
 public:
  Tile(Backend& backend, const LayerSetup& setup)
      : backend_(backend), bottom_(setup.bottoms[0]), top_(setup.tops[0]) {
    const pb::TileParameter& parameter = setup.node.definition.tile_param();
    axis_ = axis_of(parameter.axis(), bottom_);
    tiles_ = parameter.tiles();
    const std::size_t count =
        tiles_ > 1 && setup.bottom_gradients[0] ? model::element_count(bottom_) : 0;
    part_ = backend.allocate_floats(count, "the gradient of a tile");
  }

  void forward(const Ports& ports, Stream& stream, Clock) override {
    for (std::int64_t tile = 0; tile < tiles_; ++tile) {
      backend_.copy_part(stream,
                         {.from = bottom_,
                          .to = top_,
                          .axis = axis_,
                          .from_offset = 0,
                          .to_offset = tile * bottom_[axis_],
                          .length = bottom_[axis_]},
                         ports.bottoms[0].value, ports.tops[0].value);
    }
  }

  void backward(const Ports& ports, Stream& stream) override {
    const DeviceSpan<float> sum = ports.bottoms[0].gradient;
    if (sum.empty()) return;
    for (std::int64_t tile = 0; tile < tiles_; ++tile) {
      const DeviceSpan<float> part = tile == 0 ? sum : part_.as<float>();
      backend_.copy_part(stream,
                         {.from = top_,
                          .to = bottom_,
                          .axis = axis_,
                          .from_offset = tile * bottom_[axis_],
                          .to_offset = 0,
                          .length = bottom_[axis_]},
                         ports.tops[0].gradient, part);
      if (tile > 0) backend_.add(stream, part, sum);
    }
  }

 private:
  Backend& backend_;
  Extents bottom_;
  Extents top_;
  std::size_t axis_ = 0;
  std::int64_t tiles_ = 1;
  DeviceBuffer part_;  // of one tile
};

/// A top that is a parameter. Parameters are in Caffe's order, tensors in the backend's.
class ParameterTop final : public Layer {
 public:
  ParameterTop(Backend& backend, const LayerSetup& setup)
      : backend_(backend),
        shape_(setup.tops[0]),
        row_{static_cast<std::int64_t>(model::element_count(shape_))} {}

  void forward(const Ports& ports, Stream& stream, Clock) override {
    backend_.reshape(stream, row_, shape_, ports.parameters[0].value, ports.tops[0].value);
  }
  void backward(const Ports& ports, Stream& stream) override {
    if (ports.parameters[0].gradient.empty()) return;
    backend_.reshape(stream, shape_, row_, ports.tops[0].gradient, ports.parameters[0].gradient);
  }

 private:
  Backend& backend_;
  Extents shape_;
  Extents row_;
};

class Split final : public Layer {
 public:
  explicit Split(Backend& backend) : backend_(backend) {}

  void forward(const Ports& ports, Stream& stream, Clock) override {
    for (const Tensor& top : ports.tops) {
      backend_.copy(stream, ports.bottoms[0].value, top.value);
    }
  }
  void backward(const Ports& ports, Stream& stream) override {
    if (ports.bottoms[0].gradient.empty()) return;
    std::vector<Term> terms;
    for (const Tensor& top : ports.tops) {
      if (!top.gradient.empty()) terms.push_back({top.gradient, 1});
    }
    backend_.weighted_sum(stream, terms, ports.bottoms[0].gradient);
  }

 private:
  Backend& backend_;
};

class Silence final : public Layer {
 public:
  void forward(const Ports&, Stream&, Clock) override {}
  void backward(const Ports&, Stream&) override {}
};

std::unique_ptr<Layer> make_concat(Backend& backend, const LayerSetup& setup) {
  const pb::ConcatParameter& parameter = setup.node.definition.concat_param();
  const std::int64_t axis =
      parameter.has_concat_dim() ? std::int64_t{parameter.concat_dim()} : parameter.axis();
  return std::make_unique<Parts>(backend, setup.tops[0], setup.bottoms,
                                 axis_of(axis, setup.tops[0]), true);
}

std::unique_ptr<Layer> make_slice(Backend& backend, const LayerSetup& setup) {
  const pb::SliceParameter& parameter = setup.node.definition.slice_param();
  const std::int64_t axis =
      parameter.has_slice_dim() ? std::int64_t{parameter.slice_dim()} : parameter.axis();
  return std::make_unique<Parts>(backend, setup.bottoms[0], setup.tops,
                                 axis_of(axis, setup.bottoms[0]), false);
}

std::unique_ptr<Layer> make_reshape(Backend& backend, const LayerSetup& setup) {
  return std::make_unique<Reshape>(backend, setup);
}

std::unique_ptr<Layer> make_crop(Backend& backend, const LayerSetup& setup) {
  return std::make_unique<Crop>(backend, setup);
}

std::unique_ptr<Layer> make_tile(Backend& backend, const LayerSetup& setup) {
  return std::make_unique<Tile>(backend, setup);
}

std::unique_ptr<Layer> make_parameter(Backend& backend, const LayerSetup& setup) {
  return std::make_unique<ParameterTop>(backend, setup);
}

std::unique_ptr<Layer> make_split(Backend& backend, const LayerSetup&) {
  return std::make_unique<Split>(backend);
}

std::unique_ptr<Layer> make_silence(Backend&, const LayerSetup&) {
  return std::make_unique<Silence>();
}

}  // namespace

LayerTypes shape_layers() {
  static constexpr LayerType kTypes[]{
      {"Concat", make_concat},      {"Slice", make_slice}, {"Reshape", make_reshape},
      {"Flatten", make_reshape},    {"Split", make_split}, {"Silence", make_silence},
      {"Crop", make_crop},          {"Tile", make_tile},   {"Parameter", make_parameter},
      {"HDF5Output", make_silence},  // worker::Hdf5Output reads its bottoms
  };
  return kTypes;
}

}  // namespace taut::layers

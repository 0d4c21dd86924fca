#include "worker/layers/layer_makers.hpp"

namespace taut::layers {
namespace {

/// Concat and Slice: one whole, and parts that follow each other along an axis.
class Parts final : public Layer {
 public:
  Parts(Backend& backend, Extents whole, const std::vector<Extents>& parts, std::size_t axis,
        bool joins)
      : backend_(backend), whole_(std::move(whole)), joins_(joins) {
    std::int64_t offset = 0;
    for (const Extents& part : parts) {
      // Written as the copy out of the whole.
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

}  // namespace

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

std::unique_ptr<Layer> make_split(Backend& backend, const LayerSetup&) {
  return std::make_unique<Split>(backend);
}

std::unique_ptr<Layer> make_silence(Backend&, const LayerSetup&) {
  return std::make_unique<Silence>();
}

}  // namespace taut::layers

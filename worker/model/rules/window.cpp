#include "worker/model/rules/window.hpp"

#include <fmt/format.h>

#include <initializer_list>
#include <optional>

namespace taut::model {
namespace {

constexpr std::int64_t kMaxExtent = 1 << 20;  // keeps every product within 64 bits

struct Sides {
  std::int64_t height = 0;
  std::int64_t width = 0;
  friend bool operator==(const Sides&, const Sides&) = default;
};

Result<void> check_range(const std::string& field, std::int64_t value, std::int64_t least) {
  if (value >= least && value <= kMaxExtent) return ok();
  return invalid(
      fmt::format("{0} must be between {2} and {3}, is {1}", field, value, least, kMaxExtent));
}

/// A pair of settings in Caffe's two spellings: `both` (for both sides at once), or one for each
/// side. REQUIRES: `both` has at most two numbers.
struct Spelled {
  std::string field;                      // "kernel_size"
  std::string stem;                       // "kernel", of kernel_h and kernel_w
  std::optional<Sides> both;              // the value of `field`
  std::optional<std::int64_t> h;          // the value of <stem>_h
  std::optional<std::int64_t> w;          // the value of <stem>_w
  std::optional<std::int64_t> otherwise;  // the default
  std::int64_t least = 1;
};

Result<Sides> settle(const Spelled& spelled) {
  if (spelled.both && (spelled.h || spelled.w)) {
    return invalid(fmt::format("{0} and {1}_h or {1}_w are both given: use one of them",
                               spelled.field, spelled.stem));
  }
  Sides sides;
  if (spelled.both) {
    sides = *spelled.both;
  } else {
    const auto h = spelled.h ? spelled.h : spelled.otherwise;
    const auto w = spelled.w ? spelled.w : spelled.otherwise;
    if (!h || !w) {
      return invalid(
          fmt::format("{0} is missing: give {0}, or {1}_h and {1}_w", spelled.field, spelled.stem));
    }
    sides = {*h, *w};
  }
  const std::string h_name = spelled.both ? spelled.field : spelled.stem + "_h";
  const std::string w_name = spelled.both ? spelled.field : spelled.stem + "_w";
  TAUT_TRY(check_range(h_name, sides.height, spelled.least));
  TAUT_TRY(check_range(w_name, sides.width, spelled.least));
  return sides;
}

template <class Values>
Result<std::optional<Sides>> from_repeated(const std::string& field, const Values& values) {
  if (values.size() > 2) {
    return invalid(fmt::format("{} is given {} times; images have 2 sides", field, values.size()));
  }
  if (values.size() == 0) return std::optional<Sides>();
  return std::optional<Sides>({values.Get(0), values.Get(values.size() - 1)});
}

std::optional<std::int64_t> if_set(bool is_set, std::int64_t value) {
  return is_set ? std::optional(value) : std::nullopt;
}

std::optional<Sides> both_if_set(bool is_set, std::int64_t value) {
  return is_set ? std::optional<Sides>({value, value}) : std::nullopt;
}

Result<void> check_fits(std::int64_t size, const WindowSide& side, const std::string& side_name) {
  if (side.covered() <= size + 2 * side.pad) return ok();
  std::string kernel = fmt::format("the kernel's {} of {}", side_name, side.kernel);
  if (side.dilation > 1) {
    kernel += fmt::format(" (it covers {} with dilation {})", side.covered(), side.dilation);
  }
  return invalid(fmt::format("{} is larger than the padded input's {} ({} + 2 * {})", kernel,
                             size + 2 * side.pad, size, side.pad));
}

Window window_of(Sides kernel, Sides stride, Sides pad, Sides dilation) {
  return {.height = {kernel.height, stride.height, pad.height, dilation.height},
          .width = {kernel.width, stride.width, pad.width, dilation.width}};
}

}  // namespace

namespace {

/// The window over signals of one side, which has no fields for two sides.
Result<Window> signal_window(const pb::ConvolutionParameter& p) {
  if (p.has_kernel_h() || p.has_kernel_w() || p.has_stride_h() || p.has_stride_w() ||
      p.has_pad_h() || p.has_pad_w()) {
    return invalid("the bottom has one side: give kernel_size, stride and pad, not their _h or _w");
  }
  for (const auto* field : {&p.kernel_size(), &p.stride(), &p.pad(), &p.dilation()}) {
    if (field->size() > 1) {
      return invalid("the bottom has one side, and kernel_size, stride, pad or dilation gives two");
    }
  }
  if (p.kernel_size_size() == 0) return invalid("kernel_size is missing");
  Window window;
  window.width.kernel = p.kernel_size(0);
  if (p.stride_size() > 0) window.width.stride = p.stride(0);
  if (p.pad_size() > 0) window.width.pad = p.pad(0);
  if (p.dilation_size() > 0) window.width.dilation = p.dilation(0);
  TAUT_TRY(check_range("kernel_size", window.width.kernel, 1));
  TAUT_TRY(check_range("stride", window.width.stride, 1));
  TAUT_TRY(check_range("pad", window.width.pad, 0));
  TAUT_TRY(check_range("dilation", window.width.dilation, 1));
  return window;
}

}  // namespace

Result<Window> convolution_window(const pb::ConvolutionParameter& p, std::size_t sides) {
  if (sides == 1) return signal_window(p);
  TAUT_TRY(const auto kernel_both, from_repeated("kernel_size", p.kernel_size()));
  TAUT_TRY(const auto stride_both, from_repeated("stride", p.stride()));
  TAUT_TRY(const auto pad_both, from_repeated("pad", p.pad()));
  TAUT_TRY(const auto dilation_both, from_repeated("dilation", p.dilation()));
  TAUT_TRY(const Sides kernel, settle({.field = "kernel_size",
                                       .stem = "kernel",
                                       .both = kernel_both,
                                       .h = if_set(p.has_kernel_h(), p.kernel_h()),
                                       .w = if_set(p.has_kernel_w(), p.kernel_w()),
                                       .otherwise = std::nullopt}));
  TAUT_TRY(const Sides stride, settle({.field = "stride",
                                       .stem = "stride",
                                       .both = stride_both,
                                       .h = if_set(p.has_stride_h(), p.stride_h()),
                                       .w = if_set(p.has_stride_w(), p.stride_w()),
                                       .otherwise = 1}));
  TAUT_TRY(const Sides pad, settle({.field = "pad",
                                    .stem = "pad",
                                    .both = pad_both,
                                    .h = if_set(p.has_pad_h(), p.pad_h()),
                                    .w = if_set(p.has_pad_w(), p.pad_w()),
                                    .otherwise = 0,
                                    .least = 0}));
  TAUT_TRY(const Sides dilation, settle({.field = "dilation",
                                         .stem = "dilation",
                                         .both = dilation_both,
                                         .h = std::nullopt,
                                         .w = std::nullopt,
                                         .otherwise = 1}));
  return window_of(kernel, stride, pad, dilation);
}

Result<Window> pooling_window(const pb::PoolingParameter& p, std::int64_t height,
                              std::int64_t width) {
  Spelled kernel_fields{.field = "kernel_size",
                        .stem = "kernel",
                        .both = both_if_set(p.has_kernel_size(), p.kernel_size()),
                        .h = if_set(p.has_kernel_h(), p.kernel_h()),
                        .w = if_set(p.has_kernel_w(), p.kernel_w()),
                        .otherwise = std::nullopt};
  if (p.global_pooling()) {
    if (kernel_fields.both || kernel_fields.h || kernel_fields.w) {
      return invalid("global_pooling covers the whole image: omit the kernel's size");
    }
    kernel_fields.both = Sides{height, width};
  }
  TAUT_TRY(const Sides kernel, settle(kernel_fields));
  TAUT_TRY(const Sides stride, settle({.field = "stride",
                                       .stem = "stride",
                                       .both = both_if_set(p.has_stride(), p.stride()),
                                       .h = if_set(p.has_stride_h(), p.stride_h()),
                                       .w = if_set(p.has_stride_w(), p.stride_w()),
                                       .otherwise = 1}));
  TAUT_TRY(const Sides pad, settle({.field = "pad",
                                    .stem = "pad",
                                    .both = both_if_set(p.has_pad(), p.pad()),
                                    .h = if_set(p.has_pad_h(), p.pad_h()),
                                    .w = if_set(p.has_pad_w(), p.pad_w()),
                                    .otherwise = 0,
                                    .least = 0}));
  if (p.global_pooling() && (pad != Sides{} || stride != Sides{1, 1})) {
    return invalid("global_pooling has one window: pad 0 and stride 1");
  }
  if (pad.height >= kernel.height || pad.width >= kernel.width) {
    return invalid(fmt::format("the pad of {}x{} is not smaller than the kernel of {}x{}",
                               pad.height, pad.width, kernel.height, kernel.width));
  }
  return window_of(kernel, stride, pad, {1, 1});
}

Result<std::int64_t> convolution_extent(std::int64_t size, const WindowSide& side,
                                        const std::string& side_name) {
  TAUT_TRY(check_fits(size, side, side_name));
  return (size + 2 * side.pad - side.covered()) / side.stride + 1;
}

Result<std::int64_t> deconvolution_extent(std::int64_t size, const WindowSide& side,
                                          const std::string& side_name) {
  const std::int64_t extent = side.stride * (size - 1) + side.covered() - 2 * side.pad;
  if (extent >= 1) return extent;
  return invalid(fmt::format("the pad of {} leaves nothing of the {}: {} * ({} - 1) + {} - 2 * {}",
                             side.pad, side_name, side.stride, size, side.covered(), side.pad));
}

Result<std::int64_t> pooling_extent(std::int64_t size, const WindowSide& side,
                                    const std::string& side_name, bool round_down) {
  TAUT_TRY(check_fits(size, side, side_name));
  const std::int64_t room = size + 2 * side.pad - side.kernel;
  const std::int64_t windows = (room + (round_down ? 0 : side.stride - 1)) / side.stride + 1;
  return (windows - 1) * side.stride >= size + side.pad ? windows - 1 : windows;
}

}  // namespace taut::model

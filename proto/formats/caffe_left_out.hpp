#pragma once

#include <fmt/format.h>

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace taut {

/// A layer type of Caffe's that is not supported here, and the field of a layer that it alone
/// reads, if it has one.
struct LeftOut {
  std::string_view type;
  std::string_view field;
};

/// Source: Caffe's documentation of its layers, release 1.0.
inline constexpr std::array kCaffeLeftOut{
    LeftOut{"BatchReindex", ""},
    LeftOut{"Filter", ""},
    LeftOut{"Im2col", ""},
    LeftOut{"MemoryData", "memory_data_param"},
    LeftOut{"MultinomialLogisticLoss", ""},
    LeftOut{"Python", "python_param"},
    LeftOut{"SPP", "spp_param"},
    LeftOut{"WindowData", "window_data_param"},
};

/// What follows "layer ... is " or "it is " about a type of Caffe's that is left out; nullopt for
/// any other type.
inline std::optional<std::string> why_left_out(std::string_view type) {
  for (const LeftOut& left_out : kCaffeLeftOut) {
    if (left_out.type != type) continue;
    if (type == "MemoryData" || type == "WindowData") {
      return fmt::format(
          "of type \"{}\", which is not supported: convert the data to HDF5 for an HDF5Data layer, "
          "or into an LMDB for a Data layer (tautline convert)",
          type);
    }
    if (type == "Python") {
      return std::string(
          "of type \"Python\", whose code is not run: replace it by layers that do the same, or "
          "compute its top ahead and feed it with an HDF5Data layer");
    }
    return fmt::format("of type \"{}\", which Caffe has and Tautline does not carry out", type);
  }
  return std::nullopt;
}

/// As why_left_out(), for a field that only layers of such a type have.
inline std::optional<std::string> why_left_out_field(std::string_view field) {
  if (field.empty()) return std::nullopt;
  for (const LeftOut& left_out : kCaffeLeftOut) {
    if (left_out.field == field) return why_left_out(left_out.type);
  }
  return std::nullopt;
}

}  // namespace taut

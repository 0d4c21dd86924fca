#pragma once

#include <fmt/format.h>

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace taut {

/// A layer type of Caffe's that is not carried out here, and the field of a layer that it alone
/// reads, where it has one.
struct LeftOut {
  std::string_view type;
  std::string_view field;
};

/// Source: Caffe's documentation of its layers, release 1.0.
inline constexpr std::array kCaffeLeftOut{
    LeftOut{"BatchReindex", ""},
    LeftOut{"Crop", "crop_param"},
    LeftOut{"Filter", ""},
    LeftOut{"HDF5Data", "hdf5_data_param"},
    LeftOut{"HDF5Output", "hdf5_output_param"},
    LeftOut{"Im2col", ""},
    LeftOut{"InfogainLoss", "infogain_loss_param"},
    LeftOut{"MemoryData", "memory_data_param"},
    LeftOut{"MultinomialLogisticLoss", ""},
    LeftOut{"MVN", "mvn_param"},
    LeftOut{"Parameter", "parameter_param"},
    LeftOut{"Python", "python_param"},
    LeftOut{"SPP", "spp_param"},
    LeftOut{"Swish", "swish_param"},
    LeftOut{"Threshold", "threshold_param"},
    LeftOut{"Tile", "tile_param"},
    LeftOut{"WindowData", "window_data_param"},
};

/// What follows "layer ... is " or "it is " about a type of Caffe's that is left out; nothing for
/// any other type.
inline std::optional<std::string> why_left_out(std::string_view type) {
  for (const LeftOut& left_out : kCaffeLeftOut) {
    if (left_out.type != type) continue;
    if (type == "HDF5Data" || type == "MemoryData" || type == "WindowData") {
      return fmt::format(
          "of type \"{}\", which is not read: bring the data into an LMDB (tautline convert) for a "
          "Data layer, or use an ImageData layer",
          type);
    }
    return fmt::format("of type \"{}\", which Caffe has and Tautline does not carry out", type);
  }
  return std::nullopt;
}

/// The same about a field of a layer by which such a type is told.
inline std::optional<std::string> why_left_out_field(std::string_view field) {
  if (field.empty()) return std::nullopt;
  for (const LeftOut& left_out : kCaffeLeftOut) {
    if (left_out.field == field) return why_left_out(left_out.type);
  }
  return std::nullopt;
}

}  // namespace taut

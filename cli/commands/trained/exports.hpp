#pragma once

#include <cstdint>
#include <string>

#include "common/result.hpp"
#include "worker/model/saved_model.hpp"

// The exports of `tautline export` other than parameters under our names.
namespace taut::cli {

/// Writes a saved model's TEST net as an ONNX file, and prints its inputs and outputs.
/// batch    fixes the number of records in a batch; 0: any number, if the net allows it
/// Errors   as translate_net(), tables_of() and write_model()
[[nodiscard]] Result<void> export_onnx(const model::SavedModel& saved, const std::string& path,
                                       std::int64_t batch);

/// Writes a saved model's parameters as the state_dict of a PyTorch module, as .safetensors.
/// names    a file of pytorch::Renames; empty: none
/// Errors   as counterparts_of(), tables_of() and safetensors::Writer
[[nodiscard]] Result<void> export_pytorch(const model::SavedModel& saved, const std::string& path,
                                          const std::string& names);

}  // namespace taut::cli

#pragma once

#include <filesystem>
#include <vector>

#include "common/result.hpp"
#include "common/ssp/table.hpp"
#include "proto/job.pb.h"
#include "worker/model/read_table.hpp"

namespace taut::cli {

/// Writes tables as a .safetensors under our names, with the job that they belong to.
/// Errors   as `read` and safetensors::Writer
[[nodiscard]] Result<void> write_tables(const std::filesystem::path& path,
                                        const std::vector<TableSpec>& tables,
                                        const model::ReadTable& read, const pb::Job& job);

}  // namespace taut::cli

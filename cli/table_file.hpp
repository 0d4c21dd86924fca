#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <vector>

#include "common/files/safetensors.hpp"
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

/// The metadata of such a file: the job, and that PyTorch's readers may use it.
[[nodiscard]] safetensors::Metadata notes_of(const pb::Job& job);

/// Reads the numbers of one tensor, starting at `first`.
using ReadNumbers = std::function<Result<void>(std::uint64_t first, std::span<float> out)>;

/// Writes a tensor of `count` numbers, block by block.
/// Errors   as `read` and safetensors::Writer
[[nodiscard]] Result<void> append_numbers(std::uint64_t count, const ReadNumbers& read,
                                          safetensors::Writer& writer);

}  // namespace taut::cli

#pragma once

#include <filesystem>
#include <vector>

#include "common/result.hpp"

namespace taut {

/// Restricts what open_to_read() and open_to_write() open in this process to files that are in
/// these folders after every link is followed, and to these files, also under their names with
/// ".part..." appended while they are written. REQUIRES: no other thread opens files yet.
/// folders  empty: no limit, as before the first call. A folder whose name is empty or cannot be
///          resolved allows nothing
void limit_files_to(const std::vector<std::filesystem::path>& folders,
                    const std::vector<std::filesystem::path>& files);

/// Whether access is restricted.
[[nodiscard]] bool are_files_limited();

/// Checks that a folder or a file, which need not exist, is within the limit now. Opening that name
/// afterwards may open another file, if its owner changes a link in between.
/// Errors    invalid: it is not; names the allowed folders
[[nodiscard]] Result<void> check_place(const std::filesystem::path& path);

/// Checks that an open file is within the limit.
/// shown     its name in errors
/// inside    a file in it, if it is a folder
/// Errors    as check_place()
[[nodiscard]] Result<void> check_opened(int file, const std::filesystem::path& shown,
                                        const std::filesystem::path& inside = {});

}  // namespace taut

#pragma once

#include <filesystem>
#include <vector>

#include "common/result.hpp"

namespace taut {

/// Limits what open_to_read() and open_to_write() open in this process: files that are in these
/// folders once every link is followed, and these files, also while they are written under their
/// name with ".part" after it. Call it before other threads open files.
/// folders  empty: there is no limit, as before the first call. One whose name is empty, or cannot
///          be resolved, allows nothing
void limit_files_to(const std::vector<std::filesystem::path>& folders,
                    const std::vector<std::filesystem::path>& files);

/// Whether there is a limit.
[[nodiscard]] bool are_files_limited();

/// Whether a folder or a file, which need not exist, is within the limit now. What is opened by its
/// name afterwards may be another one, if its owner changes a link in between.
/// Errors    invalid: it is not, with the folders that are
[[nodiscard]] Result<void> check_place(const std::filesystem::path& path);

/// Whether an open file is within the limit.
/// shown     its name in errors
/// inside    a file in it, if it is a folder
/// Errors    as check_place()
[[nodiscard]] Result<void> check_opened(int file, const std::filesystem::path& shown,
                                        const std::filesystem::path& inside = {});

}  // namespace taut

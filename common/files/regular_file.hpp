#pragma once

#include <filesystem>

#include "common/files/descriptor.hpp"
#include "common/result.hpp"

namespace taut {

/// Opens a file for reading. Never blocks: a pipe is refused, not opened.
/// Errors    not_found; io; invalid: a folder, a pipe, a socket or a device; outside of the folders
///           of limit_files_to()
[[nodiscard]] Result<Descriptor> open_to_read(const std::filesystem::path& path);

/// Opens or creates a file for writing, also without blocking; a link is not followed.
/// flags     of open(2), in addition to O_CREAT
/// shown     the name in errors; empty: the path
/// Errors    io; invalid: as above
[[nodiscard]] Result<Descriptor> open_to_write(const std::filesystem::path& path, int flags,
                                               const std::filesystem::path& shown = {});

/// Creates a new file. An existing link or file of that name is unlinked, never written to, since
/// its content may have other names.
/// flags     of open(2), in addition to O_CREAT and O_EXCL
/// Errors    as open_to_write()
[[nodiscard]] Result<Descriptor> create_anew(const std::filesystem::path& path, int flags,
                                             const std::filesystem::path& shown = {});

}  // namespace taut

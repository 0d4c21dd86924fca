#pragma once

#include <filesystem>

#include "common/files/descriptor.hpp"
#include "common/result.hpp"

namespace taut {

/// Opens a file for reading, and never waits, as opening a pipe would.
/// Errors    not_found; io; invalid: a folder, a pipe, a socket or a device; outside of the folders
///           of limit_files_to()
[[nodiscard]] Result<Descriptor> open_to_read(const std::filesystem::path& path);

/// Opens or creates a file for writing, without waiting either; a link is not followed.
/// flags     of open(2), in addition to O_CREAT
/// shown     the name in errors; empty: the path
/// Errors    io; invalid: as above
[[nodiscard]] Result<Descriptor> open_to_write(const std::filesystem::path& path, int flags,
                                               const std::filesystem::path& shown = {});

/// Creates a file that nothing else has: whatever has its name, a link or a file, of which the
/// content may have other names too, loses the name and is not written to.
/// flags     of open(2), in addition to O_CREAT and O_EXCL
/// Errors    as open_to_write()
[[nodiscard]] Result<Descriptor> create_anew(const std::filesystem::path& path, int flags,
                                             const std::filesystem::path& shown = {});

}  // namespace taut

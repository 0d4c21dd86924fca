#pragma once

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "tests/support/temp_folder.hpp"

namespace taut::fuzz {

/// Where inputs are stored, in memory if the system has such a folder: a disk takes milliseconds
/// for each.
inline test::TempFolder memory_folder() {
  std::error_code failed;
  if (std::filesystem::is_directory("/dev/shm", failed)) setenv("TMPDIR", "/dev/shm", 0);
  return {};
}

}  // namespace taut::fuzz

#pragma once

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <system_error>

#include "server/coordinator/store/job_record.hpp"

namespace taut::test {

/// A folder that is removed when the test ends.
struct Folder {
  Folder()
      : path(std::filesystem::temp_directory_path() / ("taut_state_" + std::to_string(getpid()))) {
    std::filesystem::remove_all(path);
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::filesystem::path path;
};

inline pb::StoredJob stored_job(std::uint64_t id, const std::string& message) {
  pb::StoredJob job;
  job.set_job(id);
  job.set_message(message);
  return job;
}

}  // namespace taut::test

#pragma once

#include <string>
#include <vector>

#include "proto/control.pb.h"

namespace taut::cli {

/// This process's command line, working folder, host, and the commit of the git repository that the
/// folder is in.
[[nodiscard]] pb::RunOrigin run_origin();

/// The words as a line for a shell.
[[nodiscard]] std::string shell_line(const std::vector<std::string>& words);

/// The line that continues this command's run from a checkpoint: the same options, without those
/// that name a new folder or another checkpoint.
[[nodiscard]] std::string resume_line(const std::string& checkpoint);

/// Overload for a given command line, whose first word is the program's.
[[nodiscard]] std::string resume_line(const std::vector<std::string>& words,
                                      const std::string& checkpoint);

}  // namespace taut::cli

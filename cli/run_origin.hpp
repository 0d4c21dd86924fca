#pragma once

#include <string>
#include <vector>

#include "proto/control.pb.h"

namespace taut::cli {

/// This process's command line, working folder and host, and the commit of the git repository that
/// contains the folder.
[[nodiscard]] pb::RunOrigin run_origin();

/// The words as a command line for a shell.
[[nodiscard]] std::string shell_line(const std::vector<std::string>& words);

/// The command line that continues this command's run from a checkpoint: the same options, without
/// those that name a new folder or another checkpoint.
[[nodiscard]] std::string resume_line(const std::string& checkpoint);

/// Overload for a given command line, which starts with the program's name.
[[nodiscard]] std::string resume_line(const std::vector<std::string>& words,
                                      const std::string& checkpoint);

}  // namespace taut::cli

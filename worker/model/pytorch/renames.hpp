#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "common/result.hpp"

namespace taut::model::pytorch {

/// Replaces our layers' names by those of modules and tensors: a text file with a line "OURS
/// THEIRS" for each, "conv1 features.0" for example; the rest of a tensor's name is kept. If
/// several match, the longest is used. Empty lines and lines that start with '#' are skipped.
class Renames {
 public:
  /// Errors   not_found, io; invalid: a line without two words, or a name twice (with its place)
  [[nodiscard]] static Result<Renames> read(const std::filesystem::path& path);

  /// The new name of a tensor.
  [[nodiscard]] std::string apply(const std::string& name);
  /// Errors   invalid: a line that apply() did not use (with its place)
  [[nodiscard]] Result<void> check_used() const;

 private:
  struct Line {
    std::string ours;
    std::string theirs;
    std::size_t number = 0;  // of the line in the file
    bool is_used = false;
  };
  std::string path_;
  std::vector<Line> lines_;
};

}  // namespace taut::model::pytorch

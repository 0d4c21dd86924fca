#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"

namespace taut::cli {

/// A data set as it was published.
struct DataSet {
  struct File {
    std::string name{};
    std::string sha256{};  // of its bytes once decompressed
  };
  std::string name{};
  std::vector<File> files{};
};

/// A data set on this machine.
struct DataSetFacts {
  std::string name{};
  std::filesystem::path folder{};  // the folder with its files; empty: none
  std::vector<std::string> missing{};
  std::vector<std::string> damaged{};  // their bytes differ from the published ones
};

/// Reads the list of the published sets, configs/data_sets.txt: lines of "set file sha256"; text
/// after # is a comment.
/// Errors    invalid: with the number of the line
[[nodiscard]] Result<std::vector<DataSet>> parse_data_sets(std::string_view text,
                                                           const std::string& name);

/// Looks for a set in each folder in turn, and checks the files of the first that has any.
[[nodiscard]] DataSetFacts examine(const DataSet& set,
                                   const std::vector<std::filesystem::path>& folders);

/// The folders in which a set is searched for: Debian's package, and data/NAME of the working
/// folder and of the project.
[[nodiscard]] std::vector<std::filesystem::path> places_of(const DataSet& set,
                                                           const std::filesystem::path& configs);

}  // namespace taut::cli

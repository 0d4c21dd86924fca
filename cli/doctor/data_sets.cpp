#include "cli/doctor/data_sets.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <system_error>

#include "common/files/gz_stream.hpp"
#include "common/files/sha256.hpp"
#include "worker/model/job/job_data.hpp"

namespace taut::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kDigits = 64;

bool is_sha256(const std::string& text) {
  return text.size() == kDigits && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

/// The file as published, or unpacked; empty if it does not exist.
fs::path find_file(const fs::path& folder, const std::string& name) {
  constexpr std::string_view kPacked = ".gz";
  std::error_code ignored;
  fs::path as_published = folder / name;
  if (fs::is_regular_file(as_published, ignored)) return as_published;
  if (!name.ends_with(kPacked)) return {};
  fs::path unpacked = folder / name.substr(0, name.size() - kPacked.size());
  return fs::is_regular_file(unpacked, ignored) ? unpacked : fs::path();
}

bool is_right(const fs::path& file, const std::string& sha256) {
  auto stream = GzStream::open(file);
  if (!stream) return false;
  Sha256 digest;
  std::vector<std::byte> block(std::size_t{64} << 10U);
  while (true) {
    const auto count = stream.value().read(block);
    if (!count) return false;
    digest.update(std::span(block).first(count.value()));
    if (count.value() < block.size()) return digest.finish() == sha256;
  }
}

}  // namespace

Result<std::vector<DataSet>> parse_data_sets(std::string_view text, const std::string& name) {
  std::vector<DataSet> sets;
  std::istringstream lines{std::string(text)};
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    line.resize(std::min(line.size(), line.find('#')));
    std::istringstream words(line);
    std::string set;
    DataSet::File file;
    if (!(words >> set)) continue;
    std::string more;
    if (!(words >> file.name >> file.sha256) || words >> more || !is_sha256(file.sha256)) {
      return invalid(fmt::format("{}:{}: is not \"set file sha256\", the last of 64 hex digits",
                                 name, number));
    }
    auto known = std::ranges::find(sets, set, &DataSet::name);
    if (known == sets.end()) known = sets.insert(sets.end(), {set, {}});
    known->files.push_back(std::move(file));
  }
  return sets;
}

DataSetFacts examine(const DataSet& set, const std::vector<fs::path>& folders) {
  DataSetFacts facts{.name = set.name};
  for (const fs::path& folder : folders) {
    const auto has = [&](const DataSet::File& file) {
      return !find_file(folder, file.name).empty();
    };
    if (std::ranges::none_of(set.files, has)) continue;
    facts.folder = folder;
    break;
  }
  if (facts.folder.empty()) return facts;
  for (const DataSet::File& file : set.files) {
    const fs::path path = find_file(facts.folder, file.name);
    if (path.empty()) {
      facts.missing.push_back(file.name);
    } else if (!is_right(path, file.sha256)) {
      facts.damaged.push_back(path.filename().string());
    }
  }
  return facts;
}

std::vector<fs::path> places_of(const DataSet& set, const fs::path& configs) {
  std::vector<fs::path> places;
  const fs::path package = model::kDefaultDataFolder;
  if (package.filename() == set.name) places.push_back(package);
  places.push_back(fs::path("data") / set.name);
  if (!configs.empty()) places.push_back(configs.parent_path() / "data" / set.name);
  return places;
}

}  // namespace taut::cli

#include "worker/model/pytorch/renames.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "common/files/file.hpp"

namespace taut::model::pytorch {
namespace {

constexpr Bytes kMaxFile{4ULL << 20U};

/// Whether a tensor's name is the module's, or is within the module.
bool starts_with(const std::string& name, const std::string& module) {
  return name.starts_with(module) && (name.size() == module.size() || name[module.size()] == '.');
}

}  // namespace

Result<Renames> Renames::read(const std::filesystem::path& path) {
  TAUT_TRY(const std::string text, read_file(path, kMaxFile));
  Renames renames;
  renames.path_ = path.string();
  std::istringstream lines(text);
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::istringstream words(line);
    Line one{.ours = {}, .theirs = {}, .number = number};
    std::string more;
    if (!(words >> one.ours) || one.ours.front() == '#') continue;
    if (!(words >> one.theirs) || words >> more) {
      return invalid(fmt::format("{}:{}: a line must have two names, ours and PyTorch's",
                                 renames.path_, number));
    }
    std::ranges::replace(one.ours, '/', '.');
    const auto same = std::ranges::find(renames.lines_, one.ours, &Line::ours);
    if (same != renames.lines_.end()) {
      return invalid(fmt::format("{}:{}: \"{}\" is renamed in line {} already", renames.path_,
                                 number, one.ours, same->number));
    }
    renames.lines_.push_back(std::move(one));
  }
  return renames;
}

std::string Renames::apply(const std::string& name) {
  Line* longest = nullptr;
  for (Line& line : lines_) {
    if (!starts_with(name, line.ours)) continue;
    if (longest == nullptr || line.ours.size() > longest->ours.size()) longest = &line;
  }
  if (longest == nullptr) return name;
  longest->is_used = true;
  return longest->theirs + name.substr(longest->ours.size());
}

Result<void> Renames::check_used() const {
  const auto unused = std::ranges::find(lines_, false, &Line::is_used);
  if (unused == lines_.end()) return ok();
  return invalid(fmt::format("{}:{}: the net has no layer or parameter \"{}\"", path_,
                             unused->number, unused->ours));
}

}  // namespace taut::model::pytorch

#include "cli/run_origin.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <system_error>

#include "common/files/file.hpp"
#include "common/system/host_name.hpp"

namespace taut::cli {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> command_words() {
  // A file of /proc has no size, so it is read as a stream.
  std::ifstream in("/proc/self/cmdline", std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\0', begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

std::string first_line(const fs::path& file) {
  const auto text = read_file(file);
  if (!text) return {};
  return text.value().substr(0, text.value().find('\n'));
}

bool is_commit(const std::string& text) {
  constexpr std::size_t kMinDigits = 40;
  return text.size() >= kMinDigits &&
         std::ranges::all_of(text, [](unsigned char c) { return std::isxdigit(c) != 0; });
}

/// The commit that a symbolic reference such as refs/heads/main points to.
std::string commit_of(const fs::path& git, const std::string& reference) {
  if (std::string commit = first_line(git / reference); is_commit(commit)) return commit;
  const auto packed = read_file(git / "packed-refs");
  if (!packed) return {};
  const std::size_t at = packed.value().find(" " + reference + "\n");
  constexpr std::size_t kDigits = 40;
  return at == std::string::npos || at < kDigits ? std::string()
                                                 : packed.value().substr(at - kDigits, kDigits);
}

/// The commit that is checked out in the repository around a folder; empty if there is none.
std::string project_commit(fs::path folder) {
  constexpr std::string_view kLink = "gitdir: ";
  constexpr std::string_view kSymbolic = "ref: ";
  std::error_code ignored;
  while (!fs::exists(folder / ".git", ignored)) {
    if (!folder.has_parent_path() || folder == folder.parent_path()) return {};
    folder = folder.parent_path();
  }
  fs::path git = folder / ".git";
  if (const std::string link = first_line(git); link.starts_with(kLink)) {
    git = folder / link.substr(kLink.size());
  }
  const std::string head = first_line(git / "HEAD");
  if (!head.starts_with(kSymbolic)) return is_commit(head) ? head : std::string();
  const std::string reference = head.substr(kSymbolic.size());
  if (std::string commit = commit_of(git, reference); !commit.empty()) return commit;
  // In an additional working tree, the references are in the first one's folder.
  const std::string common = first_line(git / "commondir");
  return common.empty() ? std::string() : commit_of(git / common, reference);
}

std::string quoted(const std::string& word) {
  constexpr std::string_view kPlain = "@%+=:,./-_";
  const bool is_plain = !word.empty() && std::ranges::all_of(word, [&](unsigned char c) {
    return std::isalnum(c) != 0 || kPlain.find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (is_plain) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? "'\\''" : std::string(1, c);
  return text + "'";
}

}  // namespace

pb::RunOrigin run_origin() {
  pb::RunOrigin origin;
  for (const std::string& word : command_words()) origin.add_command(word);
  origin.set_host(host_name());
  std::error_code failed;
  const fs::path folder = fs::current_path(failed);
  if (failed) return origin;
  origin.set_folder(folder.string());
  origin.set_project(project_commit(folder));
  return origin;
}

std::string shell_line(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + quoted(word);
  return line;
}

std::string resume_line(const std::string& checkpoint) {
  return resume_line(command_words(), checkpoint);
}

std::string resume_line(const std::vector<std::string>& words, const std::string& checkpoint) {
  static const std::array<std::string, 2> kLeftOut{"--output", "--resume"};
  std::vector<std::string> kept;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (i == 0) {
      kept.push_back(fs::path(word).filename().string());
    } else if (std::ranges::find(kLeftOut, word) != kLeftOut.end()) {
      ++i;
    } else if (word != "--force" && std::ranges::none_of(kLeftOut, [&](const std::string& option) {
                 return word.starts_with(option + "=");
               })) {
      kept.push_back(word);
    }
  }
  kept.insert(kept.end(), {"--resume", checkpoint});
  return shell_line(kept);
}

}  // namespace taut::cli

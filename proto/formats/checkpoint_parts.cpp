#include "proto/formats/checkpoint_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <system_error>
#include <utility>

#include "common/coding/coded_file.hpp"
#include "proto/formats/checkpoint_manifest.hpp"

namespace taut {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kDisk = "disk-";

class PartOnDisk final : public RandomRead {
 public:
  explicit PartOnDisk(TensorFile file) : file_(std::move(file)) {}
  [[nodiscard]] Result<void> read(std::uint64_t offset, std::span<std::byte> out) const override {
    return file_.read_bytes(offset, out);
  }

 private:
  TensorFile file_;
};

std::shared_ptr<const RandomRead> open_part(const fs::path& path, std::uint64_t bytes,
                                            const std::string& sha256) {
  auto file = TensorFile::open(path);
  if (!file || file.value().bytes() != bytes) return nullptr;
  const auto digest = file.value().pin();
  if (!digest || digest.value() != sha256) return nullptr;
  return std::make_shared<PartOnDisk>(std::move(file.value()));
}

}  // namespace

Striping striping_of(const pb::CheckpointCoding& coding, std::uint64_t file_bytes) {
  return {coding.data(), coding.block_bytes(), file_bytes};
}

Result<TensorFile> open_coded_file(const fs::path& path, const pb::CheckpointCoding& coding,
                                   const pb::CheckpointFile& file, const FindPart& find) {
  const Striping striping = striping_of(coding, file.bytes());
  std::vector<std::shared_ptr<const RandomRead>> parts;
  std::string gone;
  std::size_t found = 0;
  for (const pb::CodedPart& part : file.parts()) {
    const std::size_t number = parts.size();
    parts.push_back(
        find(part_file_name(file.name(), number), striping.part_bytes(), part.sha256()));
    if (parts.back()) {
      ++found;
    } else {
      gone += fmt::format("{}part {} of server \"{}\"", gone.empty() ? "" : ", ", number,
                          part.holder());
    }
  }
  if (found < coding.data()) {
    return make_error(
        ErrorCode::kUnavailable,
        fmt::format("{}: {} of its {} parts are needed and {} are found; gone or damaged: {}",
                    path.string(), coding.data(), parts.size(), found, gone));
  }
  TAUT_TRY(auto coded, CodedFile::open(path.string(), ReedSolomon(coding.data(), coding.parity()),
                                       striping, std::move(parts)));
  return TensorFile(path, file.bytes(), std::shared_ptr<const RandomRead>(std::move(coded)));
}

std::string disk_folder_name(const std::string& server) {
  std::string name(kDisk);
  name += server;
  std::ranges::replace(name, '/', '_');
  return name;
}

std::vector<fs::path> part_folders(const fs::path& folder) {
  std::error_code failed;
  const fs::path self = fs::absolute(folder, failed).lexically_normal();
  const fs::path own = self.has_filename() ? self : self.parent_path();
  fs::path home = own.parent_path();
  // A server's own copy of the manifest is next to its parts.
  if (home.filename().string().starts_with(kDisk)) home = home.parent_path();
  std::vector<fs::path> folders{own};
  for (fs::directory_iterator entry(home, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    if (!entry->path().filename().string().starts_with(kDisk)) continue;
    folders.push_back(entry->path() / own.filename());
  }
  std::sort(folders.begin() + 1, folders.end());
  return folders;
}

FindPart find_parts_here(const fs::path& folder) {
  return [folders = part_folders(folder)](const std::string& name, std::uint64_t bytes,
                                          const std::string& sha256) {
    for (const fs::path& one : folders) {
      if (auto part = open_part(one / name, bytes, sha256)) return part;
    }
    return std::shared_ptr<const RandomRead>();
  };
}

}  // namespace taut

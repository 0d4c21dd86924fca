#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <system_error>
#include <utility>

#include "common/files/file.hpp"
#include "common/files/folder.hpp"
#include "worker/data/images/decode_image.hpp"
#include "worker/data/images/image_store.hpp"

namespace taut::data {
namespace {

namespace fs = std::filesystem;

constexpr Bytes kMaxImage{1ULL << 30};

struct Entry {
  fs::path path;
  std::int64_t label = 0;
};

/// "path label": the label follows the last space, since paths may contain spaces.
Result<Entry> parse_line(std::string_view line, const std::string& name, std::size_t number) {
  const std::size_t space = line.find_last_of(" \t");
  Entry entry;
  if (space != std::string_view::npos) {
    const std::string_view digits = line.substr(space + 1);
    const auto [end, fault] =
        std::from_chars(digits.data(), digits.data() + digits.size(), entry.label);
    const std::size_t last = line.find_last_not_of(" \t", space);
    if (fault == std::errc() && end == digits.data() + digits.size() &&
        last != std::string_view::npos) {
      entry.path = line.substr(0, last + 1);
      return entry;
    }
  }
  return invalid(fmt::format("{}:{}: \"{}\" is not a path followed by a whole number", name, number,
                             line.substr(0, 80)));
}

Result<std::vector<Entry>> read_list(const fs::path& source, const fs::path& root) {
  TAUT_TRY(const std::string text, read_file(source));
  std::vector<Entry> entries;
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    ++number;
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.remove_suffix(1);
    if (line.empty()) continue;
    TAUT_TRY(Entry entry, parse_line(line, source.string(), number));
    if (entry.path.is_relative()) entry.path = root / entry.path;
    entries.push_back(std::move(entry));
  }
  return entries;
}

/// The folders or the files of a folder, by name.
/// Errors    io: the folder, or an entry that may be a subfolder, cannot be read
Result<std::vector<fs::path>> sorted(const fs::path& folder, bool folders) {
  std::vector<fs::path> paths;
  std::error_code failed;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    std::error_code unknown;
    const bool is_folder = entry->is_directory(unknown);
    // Skipping a class's folder would change the labels of the classes after it. An image that
    // cannot be read is an error of its record.
    if (folders && unknown) return io_error(entry->path(), "be read", unknown);
    if (is_folder == folders) paths.push_back(entry->path());
  }
  if (failed) return io_error(folder, "be read", failed);
  std::sort(paths.begin(), paths.end());
  return paths;
}

Result<std::vector<Entry>> read_folder(const fs::path& source) {
  std::vector<Entry> entries;
  std::int64_t label = 0;
  TAUT_TRY(const std::vector<fs::path> folders, sorted(source, true));
  for (const fs::path& folder : folders) {
    TAUT_TRY(std::vector<fs::path> images, sorted(folder, false));
    for (fs::path& path : images) entries.push_back({std::move(path), label});
    ++label;
  }
  return entries;
}

class ImageList final : public ImageStore {
 public:
  ImageList(std::vector<Entry> entries, std::string name, const ImageListOptions& options)
      : entries_(std::move(entries)), name_(std::move(name)), options_(options) {}

  /// Errors: the first image cannot be read.
  Result<void> look() {
    TAUT_TRY(const StoredImage first, read(0));
    shape_ = first.shape;
    return ok();
  }

  std::uint64_t size() const override { return entries_.size(); }
  ImageShape shape() const override { return shape_; }

  Result<StoredImage> read(std::uint64_t index) const override {
    const Entry& entry = entries_[index];
    const std::string name = fmt::format("{}: record {}: {}", name_, index, entry.path.string());
    auto file = read_file(entry.path, kMaxImage);
    if (!file) {
      return make_error(file.error().code,
                        fmt::format("{}: record {}: {}", name_, index, file.error().message));
    }
    const std::string& bytes = file.value();
    TAUT_TRY(DecodedImage decoded,
             decode_image({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()}, name,
                          options_.colour));
    if (options_.height > 0) decoded = resize(decoded, options_.height, options_.width);
    StoredImage image;
    image.shape = decoded.shape;
    image.decoded = std::move(decoded.pixels);
    image.pixels = image.decoded;
    image.label = entry.label;
    return image;
  }

  Result<void> check_labels(const RecordSource::LabelRange& range) const override {
    for (std::uint64_t i = 0; i < entries_.size(); ++i) {
      TAUT_TRY(check_label(name_, i, entries_[i].label, range));
    }
    return ok();
  }

 private:
  const std::vector<Entry> entries_;
  const std::string name_;
  const ImageListOptions options_;
  ImageShape shape_;
};

}  // namespace

Result<std::unique_ptr<ImageStore>> open_image_list(const fs::path& source,
                                                    const ImageListOptions& options) {
  std::error_code ignored;
  if (!fs::exists(source, ignored)) {
    return make_error(ErrorCode::kNotFound,
                      fmt::format("{}: no such list or folder of images", source.string()));
  }
  if ((options.height > 0) != (options.width > 0)) {
    return invalid(fmt::format("{}: resizing to {}x{}: give both sides", source.string(),
                               options.height, options.width));
  }
  if (options.height > 0) {
    TAUT_TRY(check_image_size(static_cast<std::uint64_t>(options.height),
                              static_cast<std::uint64_t>(options.width), source.string()));
  }
  std::vector<Entry> entries;
  if (fs::is_directory(source, ignored)) {
    TAUT_TRY(entries, read_folder(source));
  } else {
    TAUT_TRY(entries, read_list(source, options.root));
  }
  if (entries.empty()) {
    return invalid(
        fmt::format("{}: names no image: give lines of \"path label\", or a folder with "
                    "one folder for each class",
                    source.string()));
  }
  auto list = std::make_unique<ImageList>(std::move(entries), source.string(), options);
  TAUT_TRY(list->look());
  return std::unique_ptr<ImageStore>(std::move(list));
}

}  // namespace taut::data

#include <array>
#include <string_view>

#include "common/files/file.hpp"
#include "worker/data/tables/number_table.hpp"

namespace taut::data {
namespace {

namespace fs = std::filesystem;

/// The extension that names the format: ".csv" of "a.csv.gz".
fs::path format_of(const fs::path& path) {
  return path.extension() == ".gz" ? path.stem().extension() : path.extension();
}

bool is_svm(const fs::path& format) {
  return format == ".svm" || format == ".libsvm";
}

}  // namespace

bool is_table_name(const fs::path& path) {
  const fs::path format = format_of(path);
  return format == ".csv" || format == ".tsv" || is_svm(format) || path.extension() == ".npy";
}

Result<NumberTable> read_table(const fs::path& path, const TableOptions& options) {
  TAUT_TRY(const std::string bytes, read_file_gz(path));
  const fs::path format = format_of(path);
  const std::string name = path.string();
  if (format == ".npy") return parse_npy(bytes, options, name);
  if (is_svm(format)) return parse_svm(bytes, options, name);
  TableOptions of_format = options;
  if (format == ".tsv" && options.separator == ',') of_format.separator = '\t';
  return parse_csv(bytes, of_format, name);
}

}  // namespace taut::data

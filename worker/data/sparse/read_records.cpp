#include "worker/data/sparse/read_records.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "worker/data/sparse/table_columns.hpp"
#include "worker/data/sparse/text_window.hpp"
#include "worker/data/tables/csv_reader.hpp"
#include "worker/data/tables/svm_line.hpp"

namespace taut::data {
namespace {

Error with_place(const LinePlace& place, const Error& error) {
  return make_error(error.code, place.wrong(0, error.message).message);
}

/// The features of a line of LIBSVM's text.
Result<void> to_features(const SvmLine& line, const LinePlace& place, std::uint64_t features,
                         std::vector<SparseFeature>& into) {
  into.clear();
  for (const SvmEntry& entry : line.entries) {
    if (entry.index == 0) {
      return place.wrong(entry.column,
                         "number 0: numbers must start from 1; write the file that way "
                         "(scikit-learn: zero_based=False)");
    }
    if (entry.index > features) {
      return place.wrong(entry.column,
                         fmt::format("number {} is beyond sparse_data_param.features, {}: raise it "
                                     "to the highest number of all files",
                                     entry.index, features));
    }
    if (entry.value == 0) continue;
    into.push_back({static_cast<std::uint32_t>(entry.index - 1), entry.value});
  }
  return ok();
}

Result<void> read_svm_records(const pb::SparseDataParameter& layer, TextWindow& window,
                              const std::string& name, const TakeRecord& take) {
  SvmLine line;
  std::vector<SparseFeature> features;
  for (LinePlace place{name, 1};; ++place.line) {
    std::size_t end = window.text().find('\n');
    while (end == std::string_view::npos && !window.has_ended()) {
      const std::size_t seen = window.text().size();
      TAUT_TRY(const bool extended, window.extend());
      if (!extended && !window.has_ended()) {
        return place.wrong(0, fmt::format("is longer than the limit of {} bytes: is this LIBSVM's "
                                          "text?",
                                          TextWindow::kMaxBytes));
      }
      end = window.text().find('\n', seen);
    }
    if (window.text().empty()) return ok();
    const std::string_view text = window.text().substr(0, end);
    TAUT_TRY(parse_svm_line(text, place, line));
    if (!line.label.empty()) {
      TAUT_TRY(to_features(line, place, layer.features(), features));
      const auto taken = take(line.label_number, features);
      if (!taken) return with_place(place, taken.error());
    }
    window.pass(std::min(text.size() + 1, window.text().size()));
  }
}

/// Cuts a CSV that is read piece by piece into lines of fields.
class CsvWindow {
 public:
  CsvWindow(TextWindow& window, char separator, const std::string& name)
      : window_(window), separator_(separator), name_(name) {}

  /// As CsvReader::next().
  Result<std::vector<CsvField>> next() {
    while (true) {
      CsvReader reader(window_.text().substr(passed_), separator_, name_, line_);
      auto fields = reader.next();
      // A line that the end of the piece cuts off is read again as a whole.
      if (!window_.has_ended() && (!fields || reader.at_end())) {
        window_.pass(std::exchange(passed_, 0));
        TAUT_TRY(const bool extended, window_.extend());
        if (extended || (fields && window_.has_ended())) continue;
        if (fields) {
          return LinePlace{name_, line_}.wrong(
              0, fmt::format("is longer than the limit of {} bytes", TextWindow::kMaxBytes));
        }
      }
      passed_ += reader.place();
      line_ = reader.line();
      return fields;
    }
  }

 private:
  TextWindow& window_;
  const char separator_;
  const std::string& name_;
  std::size_t passed_ = 0;  // of the window's text
  std::size_t line_ = 1;    // of the text after that
};

Result<void> read_table_records(const pb::SparseDataParameter& layer, TextWindow& window,
                                const std::string& name, const TakeRecord& take) {
  CsvWindow csv(window, layer.separator()[0], name);
  TAUT_TRY(const std::vector<CsvField> head, csv.next());
  TAUT_TRY(const TableColumns columns, TableColumns::of(layer, head, name));
  TableRecord record;
  while (true) {
    TAUT_TRY(const std::vector<CsvField> fields, csv.next());
    if (fields.empty()) return ok();
    TAUT_TRY(columns.read(fields, record));
    const auto taken = take(record.label, record.features);
    if (!taken) return with_place({name, fields.front().line}, taken.error());
  }
}

}  // namespace

Result<void> read_records(const pb::SparseDataParameter& layer, const std::filesystem::path& path,
                          const TakeRecord& take) {
  TAUT_TRY(TextWindow window, TextWindow::open(path));
  const std::string name = path.string();
  if (layer.format() == pb::SparseDataParameter::TABLE) {
    return read_table_records(layer, window, name, take);
  }
  return read_svm_records(layer, window, name, take);
}

}  // namespace taut::data

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <functional>
#include <string_view>
#include <utility>

#include "common/float16.hpp"
#include "worker/data/tables/label_column.hpp"

namespace taut::data {
namespace {

constexpr std::string_view kMagic{"\x93NUMPY"};

template <class Stored>
float number_at(const char* place) {
  Stored stored;
  std::memcpy(&stored, place, sizeof stored);
  return static_cast<float>(stored);
}

float half_at(const char* place) {
  std::uint16_t stored = 0;
  std::memcpy(&stored, place, sizeof stored);
  return half_to_float(stored);
}

struct NumberType {
  std::string_view name;
  std::size_t bytes;
  float (*read)(const char* place);
};

constexpr std::array kTypes{NumberType{"<f4", 4, number_at<float>},
                            NumberType{"<f8", 8, number_at<double>},
                            NumberType{"<f2", 2, half_at},
                            NumberType{"|i1", 1, number_at<std::int8_t>},
                            NumberType{"|u1", 1, number_at<std::uint8_t>},
                            NumberType{"|b1", 1, number_at<std::uint8_t>},
                            NumberType{"<i2", 2, number_at<std::int16_t>},
                            NumberType{"<u2", 2, number_at<std::uint16_t>},
                            NumberType{"<i4", 4, number_at<std::int32_t>},
                            NumberType{"<u4", 4, number_at<std::uint32_t>},
                            NumberType{"<i8", 8, number_at<std::int64_t>},
                            NumberType{"<u8", 8, number_at<std::uint64_t>}};

/// An array's header.
struct Head {
  const NumberType* type = nullptr;
  bool is_fortran = false;
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
  std::size_t data = 0;  // where the numbers start, bytes
};

/// The text after 'key': in the header's dictionary; "" if absent.
std::string_view value_of(std::string_view dictionary, std::string_view key) {
  const std::string quoted = fmt::format("'{}':", key);
  const std::size_t found = dictionary.find(quoted);
  if (found == std::string_view::npos) return {};
  std::string_view rest = dictionary.substr(found + quoted.size());
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  return rest;
}

/// The extents in "(3, 4)"; nullopt if it is not a tuple of numbers.
std::optional<std::vector<std::uint64_t>> extents_of(std::string_view text) {
  if (!text.starts_with('(')) return std::nullopt;
  text = text.substr(1, text.find(')') == std::string_view::npos ? 0 : text.find(')') - 1);
  std::vector<std::uint64_t> extents;
  while (!text.empty()) {
    text.remove_prefix(std::min(text.find_first_not_of(" ,"), text.size()));
    if (text.empty()) break;
    std::uint64_t extent = 0;
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), extent);
    if (fault != std::errc()) return std::nullopt;
    extents.push_back(extent);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  }
  return extents;
}

Result<std::string_view> dictionary_of(const std::string& bytes, const std::string& name,
                                       std::size_t& data) {
  const auto byte = [&](std::size_t place) {
    return static_cast<std::size_t>(static_cast<unsigned char>(bytes[place]));
  };
  if (bytes.size() < 12 || !bytes.starts_with(kMagic)) {
    return invalid(fmt::format("{}: is not a NumPy array (.npy)", name));
  }
  const std::size_t version = byte(6);
  const std::size_t begin = version == 1 ? 10 : 12;
  std::size_t length = byte(8) | byte(9) << 8U;
  if (version > 1) length |= byte(10) << 16U | byte(11) << 24U;
  if (version < 1 || version > 3 || length > bytes.size() - begin) {
    return invalid(
        fmt::format("{}: its header of version {} and {} bytes does not fit the file's "
                    "{} bytes",
                    name, version, length, bytes.size()));
  }
  data = begin + length;
  return std::string_view(bytes).substr(begin, length);
}

Result<Head> head_of(const std::string& bytes, const std::string& name) {
  Head head;
  TAUT_TRY(const std::string_view dictionary, dictionary_of(bytes, name, head.data));
  const std::string_view type = value_of(dictionary, "descr");
  const auto known = std::ranges::find_if(kTypes, [&](const NumberType& one) {
    return type.size() > one.name.size() && type.substr(1).starts_with(one.name);
  });
  if (known == kTypes.end()) {
    return invalid(fmt::format("{}: holds elements of type {}; little-endian numbers are read",
                               name, type.substr(0, type.find(','))));
  }
  head.type = &*known;
  head.is_fortran = value_of(dictionary, "fortran_order").starts_with("True");
  const auto extents = extents_of(value_of(dictionary, "shape"));
  if (!extents || extents->size() != 2 || (*extents)[0] == 0 || (*extents)[1] == 0) {
    return invalid(fmt::format("{}: its shape must be (rows, columns), both above 0", name));
  }
  head.rows = (*extents)[0];
  head.columns = (*extents)[1];
  std::uint64_t needed = head.type->bytes;
  const bool overflows = __builtin_mul_overflow(needed, head.rows, &needed) ||
                         __builtin_mul_overflow(needed, head.columns, &needed);
  if (!overflows && needed == bytes.size() - head.data) return head;
  return invalid(
      fmt::format("{}: {} x {} elements of {} bytes do not fit the {} bytes after its "
                  "header: it is truncated or damaged",
                  name, head.rows, head.columns, head.type->bytes, bytes.size() - head.data));
}

}  // namespace

Result<NumberTable> parse_npy(const std::string& bytes, const TableOptions& options,
                              const std::string& name) {
  TAUT_TRY(const Head head, head_of(bytes, name));
  TAUT_TRY(const ColumnRoles roles, column_roles(options, {}, head.columns, name));
  TAUT_TRY(check_table_size(head.rows, roles.features, name));
  NumberTable table{head.rows, roles.features, {}, {}, {}};
  table.features.reserve(table.rows * table.columns);
  std::vector<std::string> labels;
  for (std::uint64_t row = 0; row < head.rows; ++row) {
    for (std::uint64_t column = 0; column < head.columns; ++column) {
      const std::uint64_t place =
          head.is_fortran ? column * head.rows + row : row * head.columns + column;
      const float value = head.type->read(bytes.data() + head.data + place * head.type->bytes);
      const bool is_label = column == roles.label;
      if (is_label) labels.push_back(fmt::format("{}", value));
      if (!is_label && !roles.is_feature[column]) continue;
      if (!std::isfinite(value)) {
        return invalid(fmt::format("{}: row {}, column {} holds {}: numbers must be finite", name,
                                   row + 1, column + 1, value));
      }
      if (!is_label) table.features.push_back(value);
    }
  }
  if (roles.label) set_labels(labels, options.classes, table);
  return table;
}

}  // namespace taut::data

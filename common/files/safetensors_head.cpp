#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

#include "common/files/safetensors.hpp"

namespace taut::safetensors {
namespace {

/// A name as it may appear in a message: of bounded length, on one line.
std::string shown(const std::string& name) {
  constexpr std::size_t kMax = 80;
  std::string text = name.substr(0, kMax) + (name.size() > kMax ? "..." : "");
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < 0x20; }, '?');
  return text;
}

/// Handles the header while it is parsed, so that a repeated name is detected, and nothing grows
/// beyond the header's schema.
class HeadReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeadReader(Head& head) : head_(head) {}

  [[nodiscard]] const std::string& problem() const { return problem_; }

  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("a truth value"); }
  bool number_integer(number_integer_t) override { return unexpected("a negative number"); }
  bool number_float(number_float_t, const string_t&) override { return unexpected("a fraction"); }
  bool binary(binary_t&) override { return unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ == Place::kShape) {
      tensor_.shape.push_back(value);
      return tensor_.shape.size() <= kMaxAxes || wrong("has more than 32 axes");
    }
    if (place_ == Place::kOffsets && offsets_ < 2) {
      (offsets_++ == 0 ? tensor_.begin : tensor_.end) = value;
      return true;
    }
    return unexpected("a number");
  }

  bool string(string_t& value) override {
    if (place_ == Place::kMetadata) {
      head_.metadata[key_] = std::move(value);
      return true;
    }
    if (place_ != Place::kTensor || key_ != "dtype") return unexpected("a string");
    const std::optional<ElementType> type = element_type(value);
    if (!type) return wrong(fmt::format("has dtype {}", shown(value)));
    tensor_.type = *type;
    return true;
  }

  bool start_object(std::size_t) override {
    switch (place_) {
      case Place::kBefore:
        place_ = Place::kTop;
        return true;
      case Place::kTop:
        place_ = in_metadata_ ? Place::kMetadata : Place::kTensor;
        seen_ = {};
        offsets_ = 0;
        return true;
      default:
        return unexpected("an object");
    }
  }

  bool key(string_t& name) override {
    if (name.size() > kMaxNameBytes) return wrong("or what follows it has a name above 4096 bytes");
    if (place_ == Place::kTop) return begin_entry(name);
    if (place_ == Place::kTensor) {
      const auto at = std::find(kFields.begin(), kFields.end(), name);
      if (at == kFields.end()) return wrong(fmt::format("has a field {}", shown(name)));
      bool& seen = seen_[static_cast<std::size_t>(at - kFields.begin())];
      if (std::exchange(seen, true)) return wrong(fmt::format("has {} twice", name));
    }
    if (place_ == Place::kMetadata && head_.metadata.contains(name)) {
      return wrong(fmt::format("has {} twice", shown(name)));
    }
    key_ = std::move(name);
    return true;
  }

  bool end_object() override {
    if (place_ == Place::kTop) {
      place_ = Place::kAfter;
      return true;
    }
    if (place_ == Place::kTensor) {
      for (std::size_t i = 0; i < kFields.size(); ++i) {
        if (!seen_[i]) return wrong(fmt::format("has no {}", kFields[i]));
      }
      head_.tensors.push_back(std::move(tensor_));
    }
    place_ = Place::kTop;
    return true;
  }

  bool start_array(std::size_t) override {
    if (place_ != Place::kTensor || key_ == "dtype") return unexpected("a list");
    place_ = key_ == "shape" ? Place::kShape : Place::kOffsets;
    return true;
  }

  bool end_array() override {
    if (place_ == Place::kOffsets && offsets_ != 2) return wrong("requires two data_offsets");
    place_ = Place::kTensor;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::json::exception&) override {
    problem_ = fmt::format("its header is not valid JSON at byte {}", position);
    return false;
  }

 private:
  enum class Place : std::uint8_t { kBefore, kTop, kTensor, kShape, kOffsets, kMetadata, kAfter };
  static constexpr std::array<std::string_view, 3> kFields = {"dtype", "shape", "data_offsets"};

  bool begin_entry(std::string& name) {
    in_metadata_ = name == "__metadata__";
    if (!names_.insert(name).second) {
      entry_ = std::move(name);
      return wrong("is given twice");
    }
    if (names_.size() > kMaxTensors) return wrong("is one too many; at most 1048576 are read");
    entry_ = name;
    tensor_ = {};
    tensor_.name = std::move(name);
    return true;
  }

  bool wrong(const std::string& what) {
    problem_ = fmt::format("{} {}", entry_.empty() ? "its header" : shown(entry_), what);
    return false;
  }
  bool unexpected(const char* what) {
    return wrong(fmt::format("holds {} where the format has none", what));
  }

  Head& head_;
  Place place_ = Place::kBefore;
  bool in_metadata_ = false;
  std::string entry_;  // the tensor or "__metadata__" being read
  std::string key_;
  Tensor tensor_;
  std::array<bool, 3> seen_{};  // of kFields
  int offsets_ = 0;
  std::unordered_set<std::string> names_;
  std::string problem_;
};

/// The bytes of a shape, or nullopt if they exceed 64 bits.
std::optional<std::uint64_t> bytes_of_shape(const Tensor& tensor) {
  std::uint64_t bytes = bytes_of(tensor.type);
  for (const std::uint64_t extent : tensor.shape) {
    if (__builtin_mul_overflow(bytes, extent, &bytes)) return std::nullopt;
  }
  return bytes;
}

Result<void> check_places(const Head& head, std::uint64_t data_bytes, const std::string& name) {
  std::uint64_t expected = 0;
  for (const Tensor& tensor : head.tensors) {
    if (tensor.end < tensor.begin || tensor.end > data_bytes) {
      return invalid(
          fmt::format("{}: {} is at bytes [{}, {}) of {}: the file is truncated or damaged", name,
                      shown(tensor.name), tensor.begin, tensor.end, data_bytes));
    }
    const std::optional<std::uint64_t> bytes = bytes_of_shape(tensor);
    if (!bytes || *bytes != tensor.bytes()) {
      return invalid(fmt::format("{}: {} of {} [{}] does not fit its {} bytes", name,
                                 shown(tensor.name), to_string(tensor.type),
                                 fmt::join(tensor.shape, ", "), tensor.bytes()));
    }
    if (tensor.begin != expected) {
      return invalid(fmt::format("{}: {} begins at byte {}, and what is before it ends at {}", name,
                                 shown(tensor.name), tensor.begin, expected));
    }
    expected = tensor.end;
  }
  if (expected == data_bytes) return ok();
  return invalid(fmt::format("{}: {} bytes of tensors are followed by {} of no tensor", name,
                             expected, data_bytes - expected));
}

}  // namespace

Result<std::uint64_t> parse_head_length(std::span<const std::byte> bytes, std::uint64_t file_bytes,
                                        const std::string& name) {
  if (bytes.size() < sizeof(std::uint64_t) || file_bytes < sizeof(std::uint64_t)) {
    return invalid(fmt::format("{}: {} bytes are not a safetensors file", name, file_bytes));
  }
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  if (length > kMaxHeaderBytes) {
    return invalid(
        fmt::format("{}: starts with a header of {} bytes, above the limit of {}: not a "
                    "safetensors file, or a damaged one",
                    name, length, kMaxHeaderBytes));
  }
  if (length > file_bytes - sizeof length) {
    return invalid(
        fmt::format("{}: its header has {} bytes, but the file has {}", name, length, file_bytes));
  }
  return length;
}

Result<Head> parse_head(std::span<const std::byte> json, std::uint64_t file_bytes,
                        const std::string& name) {
  Head head;
  HeadReader reader(head);
  const auto* text = reinterpret_cast<const char*>(json.data());
  if (json.empty() || *text != '{' ||
      !nlohmann::json::sax_parse(text, text + json.size(), &reader)) {
    return invalid(fmt::format(
        "{}: {}", name,
        reader.problem().empty() ? "its header is not a JSON object" : reader.problem()));
  }
  head.data_begin = sizeof(std::uint64_t) + json.size();
  // Empty tensors come before the one that starts at the same offset.
  std::stable_sort(head.tensors.begin(), head.tensors.end(), [](const Tensor& a, const Tensor& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  TAUT_TRY(check_places(head, file_bytes - head.data_begin, name));
  return head;
}

}  // namespace taut::safetensors

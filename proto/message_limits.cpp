#include "proto/message_limits.hpp"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <boost/locale/utf.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/printable.hpp"
#include "proto/limits.pb.h"

namespace taut {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

constexpr std::string_view kCut = "...";

bool is_text(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_STRING;
}

bool is_utf8(std::string_view text) {
  namespace utf = boost::locale::utf;
  for (auto at = text.begin(); at != text.end();) {
    const utf::code_point one = utf::utf_traits<char>::decode(at, text.end());
    if (one == utf::illegal || one == utf::incomplete) return false;
  }
  return true;
}

/// A text in which each byte that belongs to no character is written as "\xe9".
std::string as_utf8(std::string_view text) {
  namespace utf = boost::locale::utf;
  std::string valid;
  for (auto at = text.begin(); at != text.end();) {
    const auto begin = at;
    const utf::code_point one = utf::utf_traits<char>::decode(at, text.end());
    if (one == utf::illegal || one == utf::incomplete) {
      at = std::next(begin);
      valid += fmt::format("\\x{:02x}", static_cast<unsigned char>(*begin));
    } else {
      valid.append(begin, at);
    }
  }
  return valid;
}

/// Checks a message's limits, or its texts alone, and knows where in the message they are.
class Check {
 public:
  enum class Of : std::uint8_t { kLimits, kUtf8 };
  explicit Check(Of what) : what_(what) {}

  [[nodiscard]] Result<void> message(const Message& message) {
    const Reflection& fields = *message.GetReflection();
    std::vector<const FieldDescriptor*> present;
    fields.ListFields(message, &present);
    for (const FieldDescriptor* field : present) {
      path_.push_back(field);
      TAUT_TRY(field->is_repeated() ? list(message, *field) : single(message, *field));
      path_.pop_back();
    }
    return ok();
  }

 private:
  Result<void> single(const Message& message, const FieldDescriptor& field) {
    const Reflection& fields = *message.GetReflection();
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      return this->message(fields.GetMessage(message, &field));
    }
    if (!is_text(field)) return ok();
    std::string scratch;
    return text(field, fields.GetStringReference(message, &field, &scratch));
  }

  Result<void> list(const Message& message, const FieldDescriptor& field) {
    const Reflection& fields = *message.GetReflection();
    const int count = fields.FieldSize(message, &field);
    const std::uint32_t limit = field.options().GetExtension(pb::max_count);
    const bool has_limit = what_ == Of::kLimits && limit != 0;
    if (has_limit && static_cast<std::uint32_t>(count) > limit) {
      return refusal("elements", static_cast<std::size_t>(count), limit);
    }
    for (int i = 0; i < count; ++i) {
      if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        TAUT_TRY(this->message(fields.GetRepeatedMessage(message, &field, i)));
      } else if (is_text(field)) {
        std::string scratch;
        TAUT_TRY(text(field, fields.GetRepeatedStringReference(message, &field, i, &scratch)));
      } else {
        break;  // numbers
      }
    }
    return ok();
  }

  Result<void> text(const FieldDescriptor& field, const std::string& value) {
    if (what_ == Of::kLimits) {
      const std::uint32_t limit = field.options().GetExtension(pb::max_bytes);
      if (limit == 0) return ok();
      if (value.size() > limit) return refusal("bytes", value.size(), limit);
    }
    if (field.type() == FieldDescriptor::TYPE_BYTES || is_utf8(value)) return ok();
    return invalid(path() + " must be UTF-8 text, and holds other bytes");
  }

  [[nodiscard]] std::string path() const {
    std::string path;
    for (const FieldDescriptor* field : path_) {
      if (!path.empty()) path += '.';
      path += field->name();
    }
    return path;
  }

  [[nodiscard]] Error refusal(const char* unit, std::size_t size, std::uint32_t limit) const {
    return invalid(fmt::format("{} has {} {}; the limit is {}", path(), size, unit, limit));
  }

  const Of what_;
  std::vector<const FieldDescriptor*> path_;
};

/// The replacement of a text; nullopt if it stays.
using Change = std::function<std::optional<std::string>(
    const FieldDescriptor& field, std::uint32_t limit, const std::string& text)>;

/// The longest prefix of a text, of at most `bytes` bytes, that ends between two characters.
std::string_view beginning(std::string_view text, std::size_t bytes) {
  while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xC0U) == 0x80U) --bytes;
  return text.substr(0, bytes);
}

std::string cut(const std::string& text, std::uint32_t limit) {
  if (limit <= kCut.size()) return std::string(beginning(text, limit));
  return std::string(beginning(text, limit - kCut.size())).append(kCut);
}

/// Replaces the texts of a field for which `change` returns another one.
void change_field(Message& message, const FieldDescriptor& field, const Change& change) {
  const Reflection& fields = *message.GetReflection();
  const std::uint32_t limit = field.options().GetExtension(pb::max_bytes);
  if (limit == 0) return;
  std::string scratch;
  if (!field.is_repeated()) {
    auto changed = change(field, limit, fields.GetStringReference(message, &field, &scratch));
    if (changed) fields.SetString(&message, &field, *std::move(changed));
    return;
  }
  for (int i = 0; i < fields.FieldSize(message, &field); ++i) {
    auto changed =
        change(field, limit, fields.GetRepeatedStringReference(message, &field, i, &scratch));
    if (changed) fields.SetRepeatedString(&message, &field, i, *std::move(changed));
  }
}

void change_texts(Message& message, const Change& change) {
  const Reflection& fields = *message.GetReflection();
  std::vector<const FieldDescriptor*> present;
  fields.ListFields(message, &present);
  for (const FieldDescriptor* field : present) {
    if (is_text(*field)) {
      change_field(message, *field, change);
    } else if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
      continue;
    } else if (!field->is_repeated()) {
      change_texts(*fields.MutableMessage(&message, field), change);
    } else {
      for (int i = 0; i < fields.FieldSize(message, field); ++i) {
        change_texts(*fields.MutableRepeatedMessage(&message, field, i), change);
      }
    }
  }
}

constexpr std::size_t kFewBytes = 64UL << 10U;
constexpr std::uint64_t kMaxParsedBytes = 48ULL << 20U;
constexpr int kMaxDepth = 64;
// The memory of a string outside its message, and of an element of a list, in addition to their
// bytes.
constexpr std::uint64_t kStringBytes = 48;
constexpr std::uint64_t kElementBytes = 16;

/// Estimates the memory that a message's bytes take once they are parsed; never far too low.
class ParsedSize {
 public:
  /// Returns whether all bytes were read: they are a message, and not over the limit.
  bool add(const google::protobuf::Descriptor& type, CodedInputStream& stream, int depth) {
    if (depth > kMaxDepth) total_ = kMaxParsedBytes + 1;
    total_ += empty_size(type);
    while (const std::uint32_t tag = stream.ReadTag()) {
      if (is_over()) return false;
      const auto* field = type.FindFieldByNumber(WireFormatLite::GetTagFieldNumber(tag));
      total_ += kElementBytes;
      const auto wire_type = WireFormatLite::GetTagWireType(tag);
      has_group_ = wire_type == WireFormatLite::WIRETYPE_START_GROUP;
      if (has_group_) return false;
      if (wire_type != WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
        if (!WireFormatLite::SkipField(&stream, tag)) return false;
        continue;
      }
      std::uint32_t length = 0;
      if (!stream.ReadVarint32(&length)) return false;
      if (field != nullptr && field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        const auto outer = stream.PushLimit(static_cast<int>(length));
        if (!add(*field->message_type(), stream, depth + 1)) return false;
        stream.PopLimit(outer);
        continue;
      }
      const bool is_packed = field != nullptr && !is_text(*field);
      total_ += is_packed ? std::uint64_t{length} * sizeof(std::uint64_t) : length + kStringBytes;
      if (!stream.Skip(static_cast<int>(length))) return false;
    }
    return !is_over();
  }
  [[nodiscard]] bool is_over() const { return total_ > kMaxParsedBytes; }
  /// Whether the reading ended at a group.
  [[nodiscard]] bool has_group() const { return has_group_; }

 private:
  std::uint64_t empty_size(const google::protobuf::Descriptor& type) {
    auto& known = sizes_[&type];
    if (known == 0) {
      const Message* message =
          google::protobuf::MessageFactory::generated_factory()->GetPrototype(&type);
      known = message == nullptr ? kElementBytes : message->SpaceUsedLong();
    }
    return known;
  }

  std::uint64_t total_ = 0;
  bool has_group_ = false;
  std::unordered_map<const google::protobuf::Descriptor*, std::uint64_t> sizes_;
};

}  // namespace

Result<void> check_parsed_bytes(const Message& prototype, std::span<const std::byte> bytes) {
  if (bytes.size() <= kFewBytes) return ok();
  CodedInputStream stream(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                          static_cast<int>(bytes.size()));
  ParsedSize size;
  if (size.add(*prototype.GetDescriptor(), stream, 0)) return ok();
  // The parser would keep it as unknown fields, which take dozens of times its bytes.
  if (size.has_group()) {
    return invalid(
        fmt::format("a message of {} bytes with a group, which no schema has", bytes.size()));
  }
  // If it ends early for another reason, so does the parser.
  if (!size.is_over()) return ok();
  return invalid(fmt::format("a message of {} bytes whose fields would take more than {} bytes",
                             bytes.size(), kMaxParsedBytes));
}

Result<void> check_limits(const Message& message) {
  return Check(Check::Of::kLimits).message(message);
}

Result<void> check_utf8(const Message& message) {
  return Check(Check::Of::kUtf8).message(message);
}

void cut_to_limits(Message& message) {
  change_texts(message,
               [](const FieldDescriptor& field, std::uint32_t limit,
                  const std::string& text) -> std::optional<std::string> {
                 const bool is_text = field.type() != FieldDescriptor::TYPE_BYTES;
                 std::string sent = is_text ? as_utf8(text) : text;
                 if (sent.size() > limit) sent = cut(sent, limit);
                 if (sent == text) return std::nullopt;
                 return sent;
               });
}

void make_printable(Message& message) {
  change_texts(message,
               [](const FieldDescriptor& field, std::uint32_t /*limit*/,
                  const std::string& text) -> std::optional<std::string> {
                 if (field.type() == FieldDescriptor::TYPE_BYTES) return std::nullopt;
                 std::string shown = printable(text, Lines::kSeveral);
                 if (shown == text) return std::nullopt;
                 return shown;
               });
}

}  // namespace taut

#include "cli/views/settings_text.hpp"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/text_format.h>

#include <algorithm>

#include "proto/net.pb.h"

namespace taut::cli {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::TextFormat;

constexpr std::size_t kOriginColumn = 48;

class Settings {
 public:
  void add(const Message& effective, const Message* file, const std::string& indent) {
    for (int i = 0; i < effective.GetDescriptor()->field_count(); ++i) {
      add_field(effective, file, *effective.GetDescriptor()->field(i), indent);
    }
  }

  [[nodiscard]] std::vector<std::string> lines() && { return std::move(lines_); }

 private:
  void add_field(const Message& effective, const Message* file, const FieldDescriptor& field,
                 const std::string& indent) {
    const auto& reflection = *effective.GetReflection();
    const bool is_message = field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    if (field.is_repeated()) {
      for (int at = 0; at < reflection.FieldSize(effective, &field); ++at) {
        add_value(effective, file, field, at, indent);
      }
    } else if (!is_message) {
      add_value(effective, file, field, -1, indent);
    } else if (reflection.HasField(effective, &field)) {
      add_message(effective, file, field, indent);
    }
  }

  void add_message(const Message& effective, const Message* file, const FieldDescriptor& field,
                   const std::string& indent) {
    const Message& value = effective.GetReflection()->GetMessage(effective, &field);
    if (const auto* net = dynamic_cast<const pb::NetParameter*>(&value)) {
      add_line(fmt::format("{}# {}: \"{}\", {} layers", indent, field.name(), net->name(),
                           net->layer_size()),
               "file");
      return;
    }
    const bool in_file = file != nullptr && file->GetReflection()->HasField(*file, &field);
    lines_.push_back(indent + field.name() + " {");
    add(value, in_file ? &file->GetReflection()->GetMessage(*file, &field) : nullptr,
        indent + "  ");
    lines_.push_back(indent + "}");
  }

  /// at   -1: the field is not repeated
  void add_value(const Message& effective, const Message* file, const FieldDescriptor& field,
                 int at, const std::string& indent) {
    const std::string value = text_of(effective, field, at);
    const bool is_message = field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    add_line(fmt::format("{}{}{} {}", indent, field.name(), is_message ? " {" : ":",
                         is_message ? value + " }" : value),
             origin_of(effective, file, field, at, value));
  }

  static std::string text_of(const Message& message, const FieldDescriptor& field, int at) {
    TextFormat::Printer printer;
    printer.SetSingleLineMode(true);
    std::string text;
    printer.PrintFieldValueToString(message, &field, at, &text);
    while (text.ends_with(' ')) text.pop_back();
    return text;
  }

  static const char* origin_of(const Message& effective, const Message* file,
                               const FieldDescriptor& field, int at, const std::string& value) {
    const auto is_in = [&](const Message& message) {
      const auto& reflection = *message.GetReflection();
      return at < 0 ? reflection.HasField(message, &field)
                    : at < reflection.FieldSize(message, &field);
    };
    const bool in_file = file != nullptr && is_in(*file);
    if (!is_in(effective)) return in_file ? "flag" : "default";
    return in_file && text_of(*file, field, at) == value ? "file" : "flag";
  }

  void add_line(const std::string& text, const std::string& origin) {
    lines_.push_back(fmt::format("{:<{}}  # {}", text, kOriginColumn, origin));
  }

  std::vector<std::string> lines_;
};

}  // namespace

std::vector<std::string> settings_text(const Message& effective, const Message& from_file) {
  Settings settings;
  settings.add(effective, &from_file, "");
  return std::move(settings).lines();
}

}  // namespace taut::cli

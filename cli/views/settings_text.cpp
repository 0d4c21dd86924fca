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
  explicit Settings(const PlaceOf& place_of) : place_of_(place_of) {}

  /// path      of the message in the whole, e.g. "solver_param."; it has one dot for each level
  void add(const Message& effective, const Message* file, const std::string& path) {
    for (int i = 0; i < effective.GetDescriptor()->field_count(); ++i) {
      add_field(effective, file, *effective.GetDescriptor()->field(i), path);
    }
  }

  [[nodiscard]] std::vector<std::string> lines() && { return std::move(lines_); }

 private:
  static std::string indent_of(const std::string& path) {
    return std::string(2 * static_cast<std::size_t>(std::ranges::count(path, '.')), ' ');
  }

  void add_field(const Message& effective, const Message* file, const FieldDescriptor& field,
                 const std::string& path) {
    const auto& reflection = *effective.GetReflection();
    const bool is_message = field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    if (field.is_repeated()) {
      for (int at = 0; at < reflection.FieldSize(effective, &field); ++at) {
        add_value(effective, file, field, at, path);
      }
    } else if (!is_message) {
      add_value(effective, file, field, -1, path);
    } else if (reflection.HasField(effective, &field)) {
      add_message(effective, file, field, path);
    }
  }

  void add_message(const Message& effective, const Message* file, const FieldDescriptor& field,
                   const std::string& path) {
    const Message& value = effective.GetReflection()->GetMessage(effective, &field);
    const std::string indent = indent_of(path);
    if (const auto* net = dynamic_cast<const pb::NetParameter*>(&value)) {
      add_line(fmt::format("{}# {}: \"{}\", {} layers", indent, field.name(), net->name(),
                           net->layer_size()),
               place_of_(path + field.name()));
      return;
    }
    const bool in_file = file != nullptr && file->GetReflection()->HasField(*file, &field);
    lines_.push_back(indent + field.name() + " {");
    add(value, in_file ? &file->GetReflection()->GetMessage(*file, &field) : nullptr,
        path + field.name() + ".");
    lines_.push_back(indent + "}");
  }

  /// at   -1: the field is not repeated
  void add_value(const Message& effective, const Message* file, const FieldDescriptor& field,
                 int at, const std::string& path) {
    const std::string value = text_of(effective, field, at);
    const bool is_message = field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    add_line(fmt::format("{}{}{} {}", indent_of(path), field.name(), is_message ? " {" : ":",
                         is_message ? value + " }" : value),
             origin_of(effective, file, field, at, path));
  }

  static std::string text_of(const Message& message, const FieldDescriptor& field, int at) {
    TextFormat::Printer printer;
    printer.SetSingleLineMode(true);
    std::string text;
    printer.PrintFieldValueToString(message, &field, at, &text);
    while (text.ends_with(' ')) text.pop_back();
    return text;
  }

  [[nodiscard]] std::string origin_of(const Message& effective, const Message* file,
                                      const FieldDescriptor& field, int at,
                                      const std::string& path) const {
    const auto is_in = [&](const Message& message) {
      const auto& reflection = *message.GetReflection();
      return at < 0 ? reflection.HasField(message, &field)
                    : at < reflection.FieldSize(message, &field);
    };
    const bool in_file = file != nullptr && is_in(*file);
    if (!is_in(effective)) return in_file ? "flag" : "default";
    if (!in_file || text_of(*file, field, at) != text_of(effective, field, at)) return "flag";
    const std::string name = path + field.name();
    return place_of_(at < 0 ? name : fmt::format("{}[{}]", name, at));
  }

  void add_line(const std::string& text, const std::string& origin) {
    lines_.push_back(fmt::format("{:<{}}  # {}", text, kOriginColumn, origin));
  }

  const PlaceOf& place_of_;
  std::vector<std::string> lines_;
};

}  // namespace

std::vector<std::string> settings_text(const Message& effective, const Message& from_file,
                                       const PlaceOf& place_of) {
  Settings settings(place_of);
  settings.add(effective, &from_file, "");
  return std::move(settings).lines();
}

}  // namespace taut::cli

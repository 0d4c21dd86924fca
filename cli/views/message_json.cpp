#include "cli/views/message_json.hpp"

#include <google/protobuf/descriptor.h>

#include <nlohmann/json.hpp>
#include <string>

#include "proto/state_word.hpp"

namespace taut::cli {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using Json = nlohmann::ordered_json;

Json to_json(const Message& message);

/// The value of a field, or of one element of a repeated one.
Json value_of(const Message& message, const FieldDescriptor& field, int at) {
  const auto& reflection = *message.GetReflection();
  const bool repeated = field.is_repeated();
  const auto get = [&](auto single, auto element) {
    return repeated ? Json((reflection.*element)(message, &field, at))
                    : Json((reflection.*single)(message, &field));
  };
  using R = google::protobuf::Reflection;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return get(&R::GetInt32, &R::GetRepeatedInt32);
    case FieldDescriptor::CPPTYPE_INT64:
      return get(&R::GetInt64, &R::GetRepeatedInt64);
    case FieldDescriptor::CPPTYPE_UINT32:
      return get(&R::GetUInt32, &R::GetRepeatedUInt32);
    case FieldDescriptor::CPPTYPE_UINT64:
      return get(&R::GetUInt64, &R::GetRepeatedUInt64);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return get(&R::GetDouble, &R::GetRepeatedDouble);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return get(&R::GetFloat, &R::GetRepeatedFloat);
    case FieldDescriptor::CPPTYPE_BOOL:
      return get(&R::GetBool, &R::GetRepeatedBool);
    case FieldDescriptor::CPPTYPE_STRING:
      return get(&R::GetString, &R::GetRepeatedString);
    case FieldDescriptor::CPPTYPE_ENUM:
      if (field.enum_type() == pb::ProcessState_descriptor()) {
        return state_word(static_cast<pb::ProcessState>(reflection.GetEnumValue(message, &field)));
      }
      return repeated ? reflection.GetRepeatedEnum(message, &field, at)->name()
                      : reflection.GetEnum(message, &field)->name();
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return to_json(repeated ? reflection.GetRepeatedMessage(message, &field, at)
                              : reflection.GetMessage(message, &field));
  }
  return {};
}

Json to_json(const Message& message) {
  Json object = Json::object();
  const auto& reflection = *message.GetReflection();
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor& field = *message.GetDescriptor()->field(i);
    if (field.is_repeated()) {
      Json list = Json::array();
      for (int at = 0; at < reflection.FieldSize(message, &field); ++at) {
        list.push_back(value_of(message, field, at));
      }
      object[field.name()] = std::move(list);
      continue;
    }
    const bool is_message = field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    if (is_message && !reflection.HasField(message, &field)) continue;
    object[field.name()] = value_of(message, field, 0);
  }
  return object;
}

}  // namespace

std::string message_json(const Message& message) {
  // Bytes that are not UTF-8 become U+FFFD: a worker's name comes from its own config.
  return to_json(message).dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace taut::cli

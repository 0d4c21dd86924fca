#include "worker/library/json_text.hpp"

#include <fmt/format.h>
#include <google/protobuf/util/json_util.h>

#include <cstdlib>
#include <cstring>
#include <new>

namespace taut::library {

Result<std::string> json_of(const google::protobuf::Message& message, const char* what) {
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string json;
  const auto status = google::protobuf::util::MessageToJsonString(message, &json, options);
  if (status.ok()) return json;
  return invalid(fmt::format("{} cannot be written as JSON: {}", what, status.ToString()));
}

char* text_of(const std::string& text) {
  auto* const copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy == nullptr) throw std::bad_alloc();
  std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

}  // namespace taut::library

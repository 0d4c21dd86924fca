#include "cli/sweep/job_field.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "common/did_you_mean.hpp"

namespace taut::cli {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

/// "layer[conv1]": a name, and which element of a list.
struct Step {
  std::string name;
  std::optional<std::string> element;
};

/// A field of a message; for a list, the element, or the whole list.
struct Place {
  Message* message = nullptr;
  const FieldDescriptor* field = nullptr;
  std::optional<int> element;
};

/// Layer names contain '.' and '/', so a path is split only outside of brackets.
Result<std::vector<Step>> steps_of(const std::string& path) {
  std::vector<Step> steps;
  std::size_t at = 0;
  while (at <= path.size()) {
    Step step;
    const std::size_t end = std::min(path.find_first_of(".[", at), path.size());
    step.name = path.substr(at, end - at);
    at = end;
    if (at < path.size() && path[at] == '[') {
      const std::size_t close = path.find(']', at);
      if (close == std::string::npos) return invalid(fmt::format("{}: '[' has no ']'", path));
      step.element = path.substr(at + 1, close - at - 1);
      at = close + 1;
      if (at < path.size() && path[at] != '.') {
        return invalid(fmt::format("{}: '.' must follow ']', e.g. net.layer[conv1].type", path));
      }
    }
    if (step.name.empty()) {
      return invalid(
          fmt::format("{}: must be a field's path in the job, e.g. solver.base_lr", path));
    }
    steps.push_back(std::move(step));
    ++at;
  }
  return steps;
}

/// The field with a step's name. The contents of the solver's and the net's files have the names of
/// the files' fields.
const FieldDescriptor* field_of(const Descriptor& type, const std::string& name, bool is_last) {
  const bool is_job = &type == pb::Job::descriptor();
  if (is_job && !is_last && (name == "solver" || name == "net")) {
    return type.FindFieldByName(name + "_param");
  }
  return type.FindFieldByName(name);
}

std::string unknown_field(const std::string& path, const Descriptor& type,
                          const std::string& name) {
  std::vector<std::string> known;
  known.reserve(static_cast<std::size_t>(type.field_count()));
  for (int i = 0; i < type.field_count(); ++i) known.push_back(type.field(i)->name());
  return fmt::format("{}: no field \"{}\" in {}{}", path, name, type.name(),
                     did_you_mean(name, known));
}

std::optional<int> index_in(const std::string& text, int size) {
  int index = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, index);
  if (error != std::errc() || stopped != end || index < 0 || index >= size) return std::nullopt;
  return index;
}

/// The element's own name; empty if it has none.
std::string name_of(const Message& element) {
  const FieldDescriptor* field = element.GetDescriptor()->FindFieldByName("name");
  if (field == nullptr || field->is_repeated() ||
      field->cpp_type() != FieldDescriptor::CPPTYPE_STRING) {
    return {};
  }
  return element.GetReflection()->GetString(element, field);
}

/// The index of the element of a list of messages that a step names.
Result<int> message_element(const std::string& path, const Place& place, const Step& step) {
  const Reflection& reflection = *place.message->GetReflection();
  const int size = reflection.FieldSize(*place.message, place.field);
  if (!step.element) {
    if (size == 1) return 0;
    return invalid(fmt::format("{}: there are {} \"{}\": name one, as in {}[{}]", path, size,
                               step.name, step.name, size == 0 ? "NAME" : "0"));
  }
  std::vector<std::string> names;
  std::vector<int> same;
  for (int i = 0; i < size; ++i) {
    names.push_back(name_of(reflection.GetRepeatedMessage(*place.message, place.field, i)));
    if (names.back() == *step.element) same.push_back(i);
  }
  if (same.size() == 1) return same.front();
  if (same.size() > 1) {
    return invalid(fmt::format("{}: \"{}\" is the name of several: {}[{}]; name one by its number",
                               path, *step.element, step.name, fmt::join(same, "], [")));
  }
  if (const auto index = index_in(*step.element, size)) return *index;
  return invalid(fmt::format("{}: no {} \"{}\"; there are {}{}", path, step.name, *step.element,
                             size, did_you_mean(*step.element, names)));
}

Result<Place> find(const std::string& path, pb::Job& job) {
  TAUT_TRY(const std::vector<Step> steps, steps_of(path));
  Message* message = &job;
  for (std::size_t i = 0;; ++i) {
    const Step& step = steps[i];
    const bool is_last = i + 1 == steps.size();
    const Descriptor& type = *message->GetDescriptor();
    Place place{message, field_of(type, step.name, is_last), std::nullopt};
    if (place.field == nullptr) return invalid(unknown_field(path, type, step.name));
    const Reflection& reflection = *message->GetReflection();
    const bool is_message = place.field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    if (step.element && !place.field->is_repeated()) {
      return invalid(fmt::format("{}: {} is not a list", path, step.name));
    }
    if (is_last && is_message) {
      return invalid(fmt::format("{}: is a {}, name one of its fields", path,
                                 place.field->message_type()->name()));
    }
    if (is_last) {
      if (!step.element) return place;
      place.element = index_in(*step.element, reflection.FieldSize(*message, place.field));
      if (place.element) return place;
      return invalid(fmt::format("{}: has {} elements, counted from 0", path,
                                 reflection.FieldSize(*message, place.field)));
    }
    if (!is_message) return invalid(fmt::format("{}: {} has no fields", path, step.name));
    if (place.field->is_repeated()) {
      TAUT_TRY(const int element, message_element(path, place, step));
      message = reflection.MutableRepeatedMessage(message, place.field, element);
    } else {
      message = reflection.MutableMessage(message, place.field);
    }
  }
}

/// The functions of Reflection that set a field of one type.
template <class Value>
using Set = void (Reflection::*)(Message*, const FieldDescriptor*, Value) const;
template <class Value>
using SetElement = void (Reflection::*)(Message*, const FieldDescriptor*, int, Value) const;

template <class Value>
void put(const Place& place, Value value, Set<Value> set, SetElement<Value> set_element,
         Set<Value> add) {
  const Reflection& reflection = *place.message->GetReflection();
  if (place.element)
    return (reflection.*set_element)(place.message, place.field, *place.element, value);
  if (!place.field->is_repeated()) return (reflection.*set)(place.message, place.field, value);
  reflection.ClearField(place.message, place.field);
  (reflection.*add)(place.message, place.field, value);
}

template <class Whole>
Result<Whole> whole_number(const std::string& path, const std::string& text) {
  Whole value = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  if (!text.empty() && error == std::errc() && stopped == end) return value;
  return invalid(fmt::format("{}: must be a whole number from {} to {}, is \"{}\"", path,
                             std::numeric_limits<Whole>::min(), std::numeric_limits<Whole>::max(),
                             text));
}

template <class Whole>
Result<void> put_whole(const std::string& path, const Place& place, const std::string& text,
                       Set<Whole> set, SetElement<Whole> set_element, Set<Whole> add) {
  TAUT_TRY(const Whole value, whole_number<Whole>(path, text));
  put<Whole>(place, value, set, set_element, add);
  return ok();
}

Result<double> number(const std::string& path, const std::string& text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  if (!text.empty() && error == std::errc() && stopped == end && std::isfinite(value)) return value;
  return invalid(fmt::format("{}: must be a number, is \"{}\"", path, text));
}

Result<void> put_word(const std::string& path, const Place& place, const std::string& text) {
  std::vector<std::string> known;
  const auto& type = *place.field->enum_type();
  known.reserve(static_cast<std::size_t>(type.value_count()));
  for (int i = 0; i < type.value_count(); ++i) known.push_back(type.value(i)->name());
  const EnumValueDescriptor* value = type.FindValueByName(text);
  if (value == nullptr) {
    return invalid(fmt::format("{}: no value \"{}\"{}; known are {}", path, text,
                               did_you_mean(text, known), fmt::join(known, ", ")));
  }
  put<const EnumValueDescriptor*>(place, value, &Reflection::SetEnum, &Reflection::SetRepeatedEnum,
                                  &Reflection::AddEnum);
  return ok();
}

}  // namespace

Result<FieldKind> job_field_kind(const std::string& path, const pb::Job& job) {
  pb::Job copy = job;  // messages that the job omits are added on the way
  TAUT_TRY(const Place place, find(path, copy));
  switch (place.field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
    case FieldDescriptor::CPPTYPE_INT64:
    case FieldDescriptor::CPPTYPE_UINT32:
    case FieldDescriptor::CPPTYPE_UINT64:
      return FieldKind::kWholeNumber;
    case FieldDescriptor::CPPTYPE_FLOAT:
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return FieldKind::kNumber;
    default:
      return FieldKind::kWord;
  }
}

Result<void> set_job_field(const std::string& path, const std::string& value, pb::Job& job) {
  TAUT_TRY(const Place place, find(path, job));
  switch (place.field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return put_whole<std::int32_t>(path, place, value, &Reflection::SetInt32,
                                     &Reflection::SetRepeatedInt32, &Reflection::AddInt32);
    case FieldDescriptor::CPPTYPE_INT64:
      return put_whole<std::int64_t>(path, place, value, &Reflection::SetInt64,
                                     &Reflection::SetRepeatedInt64, &Reflection::AddInt64);
    case FieldDescriptor::CPPTYPE_UINT32:
      return put_whole<std::uint32_t>(path, place, value, &Reflection::SetUInt32,
                                      &Reflection::SetRepeatedUInt32, &Reflection::AddUInt32);
    case FieldDescriptor::CPPTYPE_UINT64:
      return put_whole<std::uint64_t>(path, place, value, &Reflection::SetUInt64,
                                      &Reflection::SetRepeatedUInt64, &Reflection::AddUInt64);
    case FieldDescriptor::CPPTYPE_FLOAT: {
      TAUT_TRY(const double parsed, number(path, value));
      put<float>(place, static_cast<float>(parsed), &Reflection::SetFloat,
                 &Reflection::SetRepeatedFloat, &Reflection::AddFloat);
      return ok();
    }
    case FieldDescriptor::CPPTYPE_DOUBLE: {
      TAUT_TRY(const double parsed, number(path, value));
      put<double>(place, parsed, &Reflection::SetDouble, &Reflection::SetRepeatedDouble,
                  &Reflection::AddDouble);
      return ok();
    }
    case FieldDescriptor::CPPTYPE_BOOL:
      if (value != "true" && value != "false") {
        return invalid(fmt::format("{}: must be true or false, is \"{}\"", path, value));
      }
      put<bool>(place, value == "true", &Reflection::SetBool, &Reflection::SetRepeatedBool,
                &Reflection::AddBool);
      return ok();
    case FieldDescriptor::CPPTYPE_ENUM:
      return put_word(path, place, value);
    default:
      put<std::string>(place, value, &Reflection::SetString, &Reflection::SetRepeatedString,
                       &Reflection::AddString);
      return ok();
  }
}

}  // namespace taut::cli

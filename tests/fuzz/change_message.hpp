#pragma once

#include <google/protobuf/message.h>

#include <cstdint>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "tests/fuzz/script.hpp"

namespace taut::fuzz {

/// Changes one field of a message, or of one within it, as the script decides: to a number or a
/// text of any size; adds, removes and exchanges elements.
class MessageChange {
 public:
  explicit MessageChange(Script& script) : script_(script) {}

  void apply(google::protobuf::Message& message, int depth = 0) {
    const auto* type = message.GetDescriptor();
    const auto* access = message.GetReflection();
    if (type->field_count() == 0) return;
    // Mostly what is set: most of a record's fields are not.
    std::vector<const Field*> set;
    access->ListFields(message, &set);
    const bool any = set.empty() || script_.pick(4) == 0;
    const Field* field = any ? type->field(static_cast<int>(
                                   script_.pick(static_cast<std::uint32_t>(type->field_count()))))
                             : set[script_.pick(static_cast<std::uint32_t>(set.size()))];
    if (field->is_repeated()) {
      change_list(message, field, depth);
    } else if (field->cpp_type() == Field::CPPTYPE_MESSAGE) {
      if (depth < kMaxDepth) apply(*access->MutableMessage(&message, field), depth + 1);
      if (script_.pick(16) == 0) access->ClearField(&message, field);
    } else {
      change_value(message, field);
    }
  }

 private:
  using Field = google::protobuf::FieldDescriptor;
  static constexpr int kMaxDepth = 4;

  void change_list(google::protobuf::Message& message, const Field* field, int depth) {
    const auto* access = message.GetReflection();
    const int size = access->FieldSize(message, field);
    const bool has_messages = field->cpp_type() == Field::CPPTYPE_MESSAGE;
    const std::uint32_t what = script_.pick(8);
    if (size > 0 && what == 0) return access->RemoveLast(&message, field);
    if (size > 1 && what == 1) return access->SwapElements(&message, field, 0, size - 1);
    if (what == 2 || size == 0) {
      if (!has_messages) return add_value(message, field);
      auto* added = access->AddMessage(&message, field);
      if (size > 0 && script_.pick(2) == 0) {
        added->CopyFrom(access->GetRepeatedMessage(message, field, size - 1));
      }
      return;
    }
    if (!has_messages) return;
    const int index = static_cast<int>(script_.pick(static_cast<std::uint32_t>(size)));
    if (depth < kMaxDepth)
      apply(*access->MutableRepeatedMessage(&message, field, index), depth + 1);
  }

  /// An end of the range of numbers, or one near 0.
  std::uint64_t number() {
    switch (script_.pick(4)) {
      case 0:
        return ~std::uint64_t{0} >> script_.pick(2);
      case 1:
        return std::uint64_t{1} << script_.pick(64);
      default:
        return script_.number();
    }
  }
  std::string text() {
    const auto bytes = script_.bytes(script_.pick(8));
    return {bytes.begin(), bytes.end()};
  }
  double real() {
    constexpr double kReals[] = {0, -1, 1e308, -1e308, 1e-308, 0.5};
    return script_.pick(8) == 0 ? std::numeric_limits<double>::quiet_NaN()
                                : kReals[script_.pick(std::size(kReals))];
  }

  void change_value(google::protobuf::Message& message, const Field* field) {
    const auto* access = message.GetReflection();
    switch (field->cpp_type()) {
      case Field::CPPTYPE_BOOL:
        return access->SetBool(&message, field, !access->GetBool(message, field));
      case Field::CPPTYPE_INT32:
        return access->SetInt32(&message, field, static_cast<std::int32_t>(number()));
      case Field::CPPTYPE_UINT32:
        return access->SetUInt32(&message, field, static_cast<std::uint32_t>(number()));
      case Field::CPPTYPE_INT64:
        return access->SetInt64(&message, field, static_cast<std::int64_t>(number()));
      case Field::CPPTYPE_UINT64:
        return access->SetUInt64(&message, field, number());
      case Field::CPPTYPE_FLOAT:
        return access->SetFloat(&message, field, static_cast<float>(script_.pick(8)) - 1);
      case Field::CPPTYPE_DOUBLE:
        return access->SetDouble(&message, field, real());
      case Field::CPPTYPE_STRING:
        return access->SetString(&message, field, text());
      case Field::CPPTYPE_ENUM: {
        const auto* type = field->enum_type();
        const auto index =
            static_cast<int>(script_.pick(static_cast<std::uint32_t>(type->value_count())));
        return access->SetEnum(&message, field, type->value(index));
      }
      default:
        return;
    }
  }
  void add_value(google::protobuf::Message& message, const Field* field) {
    const auto* access = message.GetReflection();
    switch (field->cpp_type()) {
      case Field::CPPTYPE_UINT32:
        return access->AddUInt32(&message, field, static_cast<std::uint32_t>(number()));
      case Field::CPPTYPE_UINT64:
        return access->AddUInt64(&message, field, number());
      case Field::CPPTYPE_STRING:
        return access->AddString(&message, field, text());
      default:
        return;
    }
  }

  Script& script_;
};

}  // namespace taut::fuzz

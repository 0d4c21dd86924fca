#pragma once

#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"

namespace taut {

/// A text protobuf that remembers where its fields are, for errors about their values.
class PlacedText {
 public:
  /// Errors    as parse_text
  [[nodiscard]] Result<void> read(std::string_view text, const std::string& name,
                                  google::protobuf::Message& out);

  /// A field, or an element of a repeated one.
  struct Step {
    const char* field;
    int index = -1;
  };
  /// "name:line:column: what", at the field to which the steps lead from the whole message; if the
  /// text does not have that field, at the last one on the way that it has.
  [[nodiscard]] Error error(const std::vector<Step>& steps, const std::string& what) const;

 private:
  std::string name_;
  const google::protobuf::Descriptor* type_ = nullptr;
  google::protobuf::TextFormat::ParseInfoTree tree_;
};

}  // namespace taut

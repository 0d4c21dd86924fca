#include "proto/config/text_places.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "proto/config/text.hpp"

namespace taut {

Result<void> PlacedText::read(std::string_view text, const std::string& name,
                              google::protobuf::Message& out) {
  name_ = name;
  type_ = out.GetDescriptor();
  TAUT_TRY(parse_text(text, name, out));
  // It parses, so this time only the places are new.
  google::protobuf::TextFormat::Parser parser;
  parser.WriteLocationsTo(&tree_);
  (void)parser.ParseFromString(std::string(text), &out);
  return ok();
}

Error PlacedText::error(const std::vector<Step>& steps, const std::string& what) const {
  google::protobuf::TextFormat::ParseLocation place(0, 0);
  const auto* tree = &tree_;
  const auto* type = type_;
  for (const Step& step : steps) {
    const auto* field = type == nullptr ? nullptr : type->FindFieldByName(step.field);
    if (tree == nullptr || field == nullptr) break;
    // A field of several values has its place with the first of them.
    const int index = field->is_repeated() ? std::max(step.index, 0) : -1;
    const auto found = tree->GetLocation(field, index);
    if (found.line < 0) break;
    place = found;
    type = field->message_type();
    tree = type == nullptr ? nullptr : tree->GetTreeForNested(field, index);
  }
  return {ErrorCode::kInvalid,
          fmt::format("{}:{}:{}: {}", name_, place.line + 1, place.column + 1, what)};
}

}  // namespace taut

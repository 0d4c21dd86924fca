#include "worker/model/layer_place.hpp"

#include <fmt/format.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/text_format.h>

#include <optional>
#include <vector>

#include "common/files/file.hpp"
#include "proto/job.pb.h"
#include "worker/model/job/file_kind.hpp"
#include "worker/model/job/mentioned.hpp"

namespace taut::model {
namespace {

namespace fs = std::filesystem;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::TextFormat;
using Tree = TextFormat::ParseInfoTree;

/// The name in `layer "NAME"`.
std::optional<std::string> layer_in(const std::string& message) {
  constexpr std::string_view kBefore = "layer \"";
  const std::size_t at = message.find(kBefore);
  if (at == std::string::npos) return std::nullopt;
  const std::size_t start = at + kBefore.size();
  const std::size_t end = message.find('"', start);
  if (end == std::string::npos) return std::nullopt;
  return message.substr(start, end - start);
}

std::optional<std::string> place_in_net(const pb::NetParameter& net, const Tree& tree,
                                        const std::string& layer, const std::string& file) {
  const auto* field = net.GetDescriptor()->FindFieldByName("layer");
  for (int i = 0; i < net.layer_size(); ++i) {
    if (net.layer(i).name() != layer) continue;
    const auto location = tree.GetLocation(field, i);
    if (location.line < 0) return std::nullopt;
    return fmt::format("{}:{}:{}", file, location.line + 1, location.column + 1);
  }
  return std::nullopt;
}

/// The nets in a message, including those of a solver in a job.
std::optional<std::string> place_in(const Message& message, const Tree& tree,
                                    const std::string& layer, const std::string& file) {
  if (const auto* net = dynamic_cast<const pb::NetParameter*>(&message)) {
    return place_in_net(*net, tree, layer, file);
  }
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const bool holds_nets = field->message_type() == pb::NetParameter::descriptor() ||
                            field->message_type() == pb::SolverParameter::descriptor();
    if (!holds_nets) continue;
    const int count = field->is_repeated() ? message.GetReflection()->FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      const int at = field->is_repeated() ? i : -1;
      const Tree* inner = tree.GetTreeForNested(field, at);
      const Message& value = field->is_repeated()
                                 ? message.GetReflection()->GetRepeatedMessage(message, field, i)
                                 : message.GetReflection()->GetMessage(message, field);
      if (inner == nullptr) continue;
      if (auto place = place_in(value, *inner, layer, file)) return place;
    }
  }
  return std::nullopt;
}

/// The files that a message's "net", "train_net", "test_net" and "solver" name.
std::vector<std::string> files_named_by(const Message& message) {
  std::vector<std::string> files;
  const auto& reflection = *message.GetReflection();
  for (const char* name : {"net", "train_net", "test_net", "solver"}) {
    const auto* field = message.GetDescriptor()->FindFieldByName(name);
    if (field == nullptr || field->cpp_type() != FieldDescriptor::CPPTYPE_STRING) continue;
    if (field->is_repeated()) {
      for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
        files.push_back(reflection.GetRepeatedString(message, field, i));
      }
    } else if (reflection.HasField(message, field)) {
      files.push_back(reflection.GetString(message, field));
    }
  }
  return files;
}

std::optional<std::string> place_in_file(const fs::path& path, const std::string& layer,
                                         int depth) {
  constexpr int kMaxDepth = 3;  // a job names a solver, which names a net
  const auto kind = file_kind(path);
  const auto text = read_file(path);
  if (depth > kMaxDepth || !kind || !text) return std::nullopt;
  pb::Job job;
  Message* message = &job;
  if (kind.value() == FileKind::kSolver) message = job.mutable_solver_param();
  if (kind.value() == FileKind::kNet) message = job.mutable_net_param();
  Tree tree;
  TextFormat::Parser parser;
  parser.WriteLocationsTo(&tree);
  if (!parser.ParseFromString(text.value(), message)) return std::nullopt;
  if (auto place = place_in(*message, tree, layer, path.string())) return place;
  for (const std::string& file : files_named_by(*message)) {
    const auto found = find_mentioned(file, path);
    if (!found) continue;
    if (auto place = place_in_file(found.value(), layer, depth + 1)) return place;
  }
  return std::nullopt;
}

}  // namespace

std::string with_layer_place(const fs::path& path, const std::string& message) {
  const auto layer = layer_in(message);
  if (!layer) return message;
  const auto place = place_in_file(path, *layer, 0);
  return place ? *place + ": " + message : message;
}

namespace {

/// Whether a message has ":LINE:COLUMN: ".
bool has_line_and_column(const std::string& message) {
  const auto is_digit = [&](std::size_t at) {
    return at < message.size() && message[at] >= '0' && message[at] <= '9';
  };
  for (std::size_t at = message.find(':'); at != std::string::npos;
       at = message.find(':', at + 1)) {
    std::size_t end = at;
    int numbers = 0;
    while (end < message.size() && message[end] == ':' && is_digit(end + 1)) {
      do ++end;
      while (is_digit(end));
      ++numbers;
    }
    if (numbers == 2 && message.compare(end, 2, ": ") == 0) return true;
  }
  return false;
}

}  // namespace

std::string with_file_place(const fs::path& path, const std::string& message) {
  std::string placed = with_layer_place(path, message);
  const bool has_place = placed != message || has_line_and_column(message) ||
                         message.find(path.string()) != std::string::npos;
  return has_place ? placed : path.string() + ": " + message;
}

}  // namespace taut::model

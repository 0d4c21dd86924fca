#include "worker/model/job/field_places.hpp"

#include <fmt/format.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/text_format.h>

#include <utility>
#include <vector>

#include "common/files/file.hpp"
#include "proto/cluster.pb.h"
#include "proto/job.pb.h"
#include "worker/model/job/file_kind.hpp"

namespace taut::model {
namespace {

namespace fs = std::filesystem;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::TextFormat;
using Tree = TextFormat::ParseInfoTree;
using Places = std::map<std::string, std::string>;

class Walk {
 public:
  /// prefix    of the fields' names, e.g. "solver_param."
  Result<void> add_file(const fs::path& file, Message& message, const std::string& prefix) {
    TAUT_TRY(const std::string text, read_file(file));
    Tree tree;
    TextFormat::Parser parser;
    parser.WriteLocationsTo(&tree);
    if (!parser.ParseFromString(text, &message)) {
      return invalid(fmt::format("{}: cannot be read", file.string()));
    }
    add(message, tree, prefix, file);
    return ok();
  }

  void add_net(const std::string& named, const fs::path& mentioned_in) {
    if (const auto found = find_mentioned(named, mentioned_in)) {
      places_.try_emplace("net_param", found.value().string());
    }
  }

  [[nodiscard]] Places take() && { return std::move(places_); }

 private:
  void add(const Message& message, const Tree& tree, const std::string& prefix,
           const fs::path& file) {
    std::vector<const FieldDescriptor*> fields;
    message.GetReflection()->ListFields(message, &fields);
    for (const FieldDescriptor* field : fields) {
      const int count =
          field->is_repeated() ? message.GetReflection()->FieldSize(message, field) : 1;
      for (int i = 0; i < count; ++i) {
        const int at = field->is_repeated() ? i : -1;
        std::string name = prefix + field->name();
        if (at >= 0) name += fmt::format("[{}]", at);
        const bool is_net = field->message_type() == pb::NetParameter::descriptor() && at < 0;
        if (is_net) name = "net_param";
        const auto location = tree.GetLocation(field, at);
        if (location.line >= 0) {
          places_.try_emplace(name, fmt::format("{}:{}", file.string(), location.line + 1));
        }
        if (is_net || at >= 0 || field->message_type() == nullptr) continue;
        const Tree* inner = tree.GetTreeForNested(field, at);
        if (inner == nullptr) continue;
        add(message.GetReflection()->GetMessage(message, field), *inner, name + ".", file);
      }
    }
  }

  Places places_;
};

/// Adds the current names of fields that were set by an older spelling.
void add_older(Places& places) {
  const auto stands_for = [&](const char* older, const char* newer) {
    const auto found = places.find(older);
    if (found != places.end()) places.try_emplace(newer, found->second);
  };
  stands_for("solver_param.random_seed", "seed");
  stands_for("solver_param.solver_type", "solver_param.type");
}

}  // namespace

Result<Places> field_places(const fs::path& path) {
  TAUT_TRY(const FileKind kind, file_kind(path));
  Walk walk;
  if (kind == FileKind::kCluster) {
    pb::ClusterConfig config;
    TAUT_TRY(walk.add_file(path, config, ""));
    return std::move(walk).take();
  }
  pb::Job job;
  fs::path solver_file = path;
  if (kind == FileKind::kSolver) {
    TAUT_TRY(walk.add_file(path, *job.mutable_solver_param(), "solver_param."));
  } else {
    TAUT_TRY(walk.add_file(path, job, ""));
    if (job.has_net()) walk.add_net(job.net(), path);
    if (job.has_solver()) {
      TAUT_TRY(solver_file, find_mentioned(job.solver(), path));
      TAUT_TRY(walk.add_file(solver_file, *job.mutable_solver_param(), "solver_param."));
    }
  }
  for (const std::string& net : {job.solver_param().train_net(), job.solver_param().net()}) {
    if (!net.empty()) walk.add_net(net, solver_file);
  }
  Places places = std::move(walk).take();
  add_older(places);
  return places;
}

}  // namespace taut::model

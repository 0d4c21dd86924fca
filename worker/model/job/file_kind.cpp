#include "worker/model/job/file_kind.hpp"

#include <fmt/format.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <array>
#include <utility>
#include <vector>

#include "common/did_you_mean.hpp"
#include "common/files/file.hpp"
#include "proto/cluster.pb.h"
#include "proto/job.pb.h"
#include "proto/lab.pb.h"
#include "proto/net.pb.h"
#include "proto/solver.pb.h"
#include "proto/sweep.pb.h"

namespace taut::model {
namespace {

namespace io = google::protobuf::io;

constexpr Bytes kMaxText{16ULL << 20};

/// Ignores errors: the parser reports them later, and better.
class NoErrors final : public io::ErrorCollector {
 public:
  void AddError(int, io::ColumnNumber, const std::string&) override {}
};

/// The names before a ':' or a '{' that are not inside a message.
std::vector<std::string> outermost_fields(std::string_view text) {
  io::ArrayInputStream input(text.data(), static_cast<int>(text.size()));
  NoErrors errors;
  io::Tokenizer tokenizer(&input, &errors);
  tokenizer.set_comment_style(io::Tokenizer::SH_COMMENT_STYLE);
  std::vector<std::string> names;
  std::string before;
  for (std::int64_t depth = 0; tokenizer.Next();) {
    const std::string& token = tokenizer.current().text;
    const bool opens = token == "{" || token == "<";
    if (depth == 0 && !before.empty() && (opens || token == ":")) names.push_back(before);
    if (opens) ++depth;
    if (token == "}" || token == ">") --depth;
    const bool is_name = tokenizer.current().type == io::Tokenizer::TYPE_IDENTIFIER;
    before = is_name ? token : std::string();
  }
  return names;
}

int known_names(const google::protobuf::Descriptor& schema, const std::vector<std::string>& names) {
  int known = 0;
  for (const std::string& name : names) known += schema.FindFieldByName(name) != nullptr ? 1 : 0;
  return known;
}

/// A hint for the first name that is close to one of a schema's: ": no field "wrkers"; did you mean
/// "workers"?"; empty if there is none.
template <class Schemas>
std::string nearest_field(const std::vector<std::string>& names, const Schemas& schemas) {
  std::vector<std::string> known;
  for (const auto& [kind, schema] : schemas) {
    for (int i = 0; i < schema->field_count(); ++i) known.push_back(schema->field(i)->name());
  }
  for (const std::string& name : names) {
    if (const std::string guess = did_you_mean(name, known); !guess.empty()) {
      return fmt::format(": no field \"{}\"{}", name, guess);
    }
  }
  return {};
}

}  // namespace

std::string to_string(FileKind kind) {
  switch (kind) {
    case FileKind::kJob:
      return "job";
    case FileKind::kNet:
      return "net";
    case FileKind::kSolver:
      return "solver";
    case FileKind::kCluster:
      return "cluster";
    case FileKind::kSweep:
      return "sweep";
    case FileKind::kLabCluster:
      return "lab cluster";
  }
  return "unknown";
}

Result<FileKind> file_kind(std::string_view text, const std::string& name) {
  if (text.size() > kMaxText.value()) {
    return invalid(
        fmt::format("{}: {} bytes of text, the limit is {}", name, text.size(), kMaxText.value()));
  }
  const std::vector<std::string> names = outermost_fields(text);
  const std::array schemas{std::pair(FileKind::kJob, pb::Job::descriptor()),
                           std::pair(FileKind::kNet, pb::NetParameter::descriptor()),
                           std::pair(FileKind::kSolver, pb::SolverParameter::descriptor()),
                           std::pair(FileKind::kCluster, pb::ClusterConfig::descriptor()),
                           std::pair(FileKind::kSweep, pb::Sweep::descriptor()),
                           std::pair(FileKind::kLabCluster, pb::LabCluster::descriptor())};
  int most = 0;
  FileKind best = FileKind::kJob;
  for (const auto& [kind, schema] : schemas) {
    const int known = known_names(*schema, names);
    if (known > most) {
      most = known;
      best = kind;
    }
  }
  if (most > 0) return best;
  return invalid(
      fmt::format("{}: has no field of a job, a net, a solver, a cluster, a sweep or a "
                  "lab's cluster{}",
                  name, nearest_field(names, schemas)));
}

Result<FileKind> file_kind(const std::filesystem::path& path) {
  TAUT_TRY(const std::string text, read_file(path, kMaxText));
  return file_kind(text, path.string());
}

}  // namespace taut::model

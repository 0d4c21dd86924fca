#include "worker/model/saved_model.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <system_error>
#include <utility>

#include "common/files/safetensors.hpp"
#include "proto/config/text.hpp"
#include "worker/model/job/file_kind.hpp"
#include "worker/model/job/job.hpp"
#include "worker/model/job/job_data.hpp"
#include "worker/model/pytorch/state_dict.hpp"
#include "worker/model/upgrade.hpp"
#include "worker/model/weights.hpp"

namespace taut::model {
namespace {

namespace fs = std::filesystem;

/// The job in an exported file; nullopt if it has none.
Result<std::optional<pb::Job>> carried_job(const fs::path& path) {
  const auto reader = safetensors::Reader::open(path);
  if (!reader) return std::optional<pb::Job>();
  const auto note = reader.value().metadata().find(kJobNote);
  if (note == reader.value().metadata().end()) return std::optional<pb::Job>();
  pb::Job job;
  TAUT_TRY(parse_text(note->second, path.string() + ", note " + kJobNote, job));
  return std::optional<pb::Job>(std::move(job));
}

Error missing(const fs::path& path, const std::vector<std::string>& tables) {
  return make_error(ErrorCode::kMismatch,
                    fmt::format("{}: has nothing for \"{}\"{}; does it belong to another net?",
                                path.string(), tables.front(),
                                tables.size() > 1 ? fmt::format(" and {} more of the net's "
                                                                "parameters",
                                                                tables.size() - 1)
                                                  : std::string()));
}

}  // namespace

Result<pb::Job> load_net_or_job(const fs::path& path) {
  TAUT_TRY(const FileKind kind, file_kind(path));
  if (kind != FileKind::kNet) return load_job(path);
  pb::Job job;
  TAUT_TRY(read_text(path, *job.mutable_net_param()));
  TAUT_TRY(*job.mutable_net_param(), upgrade_net(job.net_param()));
  settle_net_paths(path, *job.mutable_net_param());
  return job;
}

Result<SavedModel> SavedModel::open(const fs::path& model, const fs::path& net_file) {
  SavedModel saved;
  saved.path_ = model;
  bool has_job = !net_file.empty();
  if (has_job) {
    TAUT_TRY(saved.job_, load_net_or_job(net_file));
  }
  std::error_code ignored;
  if (fs::is_directory(model, ignored)) {
    TAUT_TRY(saved.checkpoint_, CheckpointReader::open(model));
    TAUT_TRY(saved.checkpoint_->readable());
    if (!has_job) saved.job_ = saved.checkpoint_->manifest().definition();
    return saved;
  }
  TAUT_TRY(WeightsFile file, open_weights(model));
  saved.weights_.push_back(std::move(file));
  if (!has_job) {
    TAUT_TRY(std::optional<pb::Job> job, carried_job(model));
    has_job = job.has_value();
    if (job) saved.job_ = std::move(*job);
  }
  if (has_job) return saved;
  return invalid(
      fmt::format("{}: does not say which net its parameters belong to; name it with --net "
                  "FILE (a net, solver or job file)",
                  model.string()));
}

Result<ReadTable> SavedModel::tables_of(const Graph& graph) const {
  const auto by_rows = std::ranges::find_if(
      graph.parameters, [](const TableSpec& table) { return table.rows.has_value(); });
  if (by_rows != graph.parameters.end()) {
    return invalid(fmt::format(
        "{}: \"{}\" is kept by rows at the servers (embed_param.by_rows), and this reads "
        "whole tables; to test such a model, continue its job from a checkpoint (resume)",
        path_.string(), by_rows->name));
  }
  return checkpoint_ ? from_checkpoint(graph) : from_weights(graph);
}

Result<ReadTable> SavedModel::from_checkpoint(const Graph& graph) const {
  std::vector<TableId> ids;
  std::vector<std::string> lacking;
  for (const TableSpec& table : graph.parameters) {
    const TableSpec* found = checkpoint_->find(table.name);
    if (found == nullptr) {
      lacking.push_back(table.name);
      continue;
    }
    if (found->rows) {
      return invalid(fmt::format(
          "{}: \"{}\" is kept by rows: only those that were updated are saved, and this command "
          "reads whole tables; train with by_rows: false to use it",
          path_.string(), table.name));
    }
    if (found->shape != table.shape) {
      return make_error(
          ErrorCode::kMismatch,
          fmt::format("{}: \"{}\" has shape {}, but the net requires {}", path_.string(),
                      table.name, fmt::join(found->shape, "x"), to_string(table.shape)));
    }
    ids.push_back(found->id);
  }
  if (!lacking.empty()) return missing(path_, lacking);
  return ReadTable([this, ids](std::size_t table, std::uint64_t first, std::span<float> out) {
    return checkpoint_->read_values(ids[table], first, out);
  });
}

Result<ReadTable> SavedModel::from_weights(const Graph& graph) const {
  if (graph.parameters.empty()) return ReadTable();
  const auto counterparts =
      pytorch::counterparts_of(graph, renames_ ? *renames_ : pytorch::Renames());
  if (renames_ && !counterparts) return counterparts.error();
  if (counterparts && pytorch::is_state_dict(weights_.front(), counterparts.value())) {
    return pytorch::tables_from(weights_.front(), graph, counterparts.value());
  }
  if (renames_) {
    const auto absent = pytorch::lacking(weights_.front(), counterparts.value());
    return make_error(ErrorCode::kMismatch,
                      fmt::format("{}: is not a state_dict of the net under these names: it lacks "
                                  "\"{}\"",
                                  path_.string(), absent ? *absent : "names without '/'"));
  }
  TAUT_TRY(const WeightsMatch match, match_weights(graph, weights_));
  if (!match.missing.empty()) return missing(path_, match.missing);
  std::vector<std::size_t> tensors;  // by table: none is missing
  for (const WeightsMatch::Found& found : match.found) tensors.push_back(found.tensor);
  const WeightsFile& file = weights_.front();
  return ReadTable([&file, tensors](std::size_t table, std::uint64_t first, std::span<float> out) {
    const StoredTensor& tensor = file.tensors[tensors[table]];
    return file.file.read_floats(tensor.type, tensor.offset + first * bytes_of(tensor.type), out);
  });
}

}  // namespace taut::model

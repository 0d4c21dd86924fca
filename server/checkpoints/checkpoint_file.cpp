#include "server/checkpoints/checkpoint_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>

#include "common/failpoint.hpp"
#include "common/files/allowed_folders.hpp"
#include "common/files/file_stream.hpp"
#include "common/files/folder.hpp"
#include "common/files/safetensors.hpp"
#include "common/files/sha256.hpp"
#include "common/log.hpp"
#include "common/math/finite.hpp"
#include "proto/config/settle_policies.hpp"
#include "proto/config/text.hpp"
#include "proto/formats/checkpoint_manifest.hpp"
#include "server/checkpoints/row_tensors.hpp"
#include "server/checkpoints/unchanged_slices.hpp"

namespace taut::server {
namespace fs = std::filesystem;
namespace {

class WholeFile final : public CheckpointOutput {
 public:
  WholeFile(std::unique_ptr<FileStream> out, std::string name, std::uint64_t bytes)
      : out_(std::move(out)) {
    file_.set_name(std::move(name));
    file_.set_bytes(bytes);
  }
  [[nodiscard]] Result<void> append(std::span<const std::byte> bytes) override {
    digest_.update(bytes);
    return out_->append(bytes);
  }
  [[nodiscard]] Result<pb::CheckpointFile> commit() override {
    TAUT_TRY(out_->commit());
    file_.set_sha256(digest_.finish());
    return file_;
  }

 private:
  std::unique_ptr<FileStream> out_;
  Sha256 digest_;
  pb::CheckpointFile file_;
};

const TableSpec& table_of(const SliceImage& image, const ShardCapture& capture) {
  return capture.tables[image.place.table.value()];
}

pb::CheckpointSlice describe(const SliceImage& image, const ShardCapture& capture) {
  pb::CheckpointSlice slice;
  slice.set_table(image.place.table.value());
  slice.set_offset(image.place.offset);
  slice.set_version(image.version.value());
  slice.set_applications(image.applications);
  if (table_of(image, capture).rows) {
    slice.set_count(1);
    slice.set_rows(image.rows.rows);
    slice.set_row_changes(image.rows.changes);
    slice.set_states(static_cast<std::uint32_t>(image.rows.states));
  } else {
    slice.set_count(image.place.count);
    slice.set_states(static_cast<std::uint32_t>(image.states.size()));
  }
  const auto term = capture.terms.find(image.place.shard);
  if (term != capture.terms.end()) slice.set_term(term->second);
  for (const auto& [worker, done] : image.done) {
    pb::CheckpointDone& one = *slice.add_done();
    one.set_worker(worker.value());
    one.set_done(done.value());
  }
  return slice;
}

/// A file to write, with its slices' indices in the capture.
struct Plan {
  std::string name;
  std::vector<std::size_t> slices;
  pb::CheckpointSlices note;
};

/// One file with everything; or, for an incremental order, one with the slices that have changed
/// and one with those that have not. The first of them describes all slices.
std::array<Plan, 2> plan_files(const ShardCapture& capture, const UnchangedSlices& unchanged) {
  std::array<Plan, 2> plans;
  const bool is_incremental = capture.order.is_incremental;
  const std::uint32_t shard = capture.shard.value();
  plans[0].name =
      is_incremental ? shard_file_name(shard, capture.order.number, true) : shard_file_name(shard);
  plans[1].name = shard_file_name(shard, capture.order.number, false);
  for (std::size_t i = 0; i < capture.slices.size(); ++i) {
    const SliceImage& image = capture.slices[i];
    pb::CheckpointSlice& slice = *plans[0].note.add_slices() = describe(image, capture);
    const std::string* shared = unchanged.file_of(image);
    if (shared != nullptr) {
      slice.set_file(*shared);
      continue;
    }
    const bool is_unchanged = is_incremental && unchanged.contains(image);
    if (is_unchanged) slice.set_file(plans[1].name);
    plans[is_unchanged ? 1 : 0].slices.push_back(i);
  }
  return plans;
}

Result<void> check_finite(const SliceImage& image, const ShardCapture& capture) {
  const auto check = [&](const Buffer& part, const char* what) -> Result<void> {
    if (math::all_finite(part.floats())) return ok();
    return invalid(fmt::format("table \"{}\" has {} that are not finite: the training has diverged",
                               table_of(image, capture).name, what));
  };
  TAUT_TRY(check(image.values, "values"));
  for (const Buffer& state : image.states) {
    TAUT_TRY(check(state, "values of the solver's state"));
  }
  return ok();
}

std::vector<safetensors::TensorSpec> tensors_of(const SliceImage& image,
                                                const ShardCapture& capture) {
  const pb::CheckpointSlice slice = describe(image, capture);
  const TableSpec& table = table_of(image, capture);
  if (table.rows) return row_tensors(table, slice);
  std::vector<safetensors::TensorSpec> tensors{{slice_tensor(table.name, slice), {slice.count()}}};
  for (std::uint32_t state = 0; state < slice.states(); ++state) {
    tensors.push_back({state_tensor(table.name, slice, state), {slice.count()}});
  }
  return tensors;
}

Error withdrawn_error(const std::string& what) {
  return {ErrorCode::kClosed, what + ": the checkpoint is withdrawn"};
}

/// No process needs a file of a withdrawn order. The coordinator may have removed the folder before
/// it was created here.
void remove_withdrawn(const std::string& folder) {
  const auto removed = remove_files(folder, kManifestName, [](const std::string& name) {
    return name.find(".safetensors") != std::string::npos;
  });
  if (!removed) log::warn("a withdrawn checkpoint stays: {}", removed.error().message);
}

/// Errors    those of `out`; closed: it was stopped; invalid: values that are not finite
Result<void> append(const SliceImage& image, const ShardCapture& capture, CheckpointOutput& out,
                    const std::atomic<bool>& stop) {
  const TableSpec& table = table_of(image, capture);
  if (table.rows) return append_rows(image.rows, table, out, stop);
  TAUT_TRY(check_finite(image, capture));
  TAUT_TRY(out.append(image.values.bytes()));
  for (const Buffer& state : image.states) {
    TAUT_TRY(out.append(state.bytes()));
  }
  return ok();
}

Result<pb::CheckpointFile> write_file(const Plan& plan, ShardCapture& capture,
                                      const MakeOutput& make, const std::atomic<bool>& stop) {
  std::vector<safetensors::TensorSpec> tensors;
  for (const std::size_t i : plan.slices) {
    std::ranges::move(tensors_of(capture.slices[i], capture), std::back_inserter(tensors));
  }
  TAUT_TRY(const safetensors::EncodedHead head,
           safetensors::encode_head(tensors, {{kSlicesNote, to_text(plan.note)}}, plan.name));
  TAUT_TRY(const auto out, make(plan.name, head.file_bytes()));
  TAUT_TRY(out->append(std::as_bytes(std::span(head.bytes))));
  for (const std::size_t i : plan.slices) {
    if (stop) return make_error(ErrorCode::kClosed, plan.name + ": the server ends");
    if (*capture.withdrawn) return withdrawn_error(plan.name);
    const SliceImage image = std::move(capture.slices[i]);
    TAUT_TRY(append(image, capture, *out, stop));
  }
  return out->commit();
}

}  // namespace

MakeOutput whole_files(const std::string& folder) {
  return [folder](const std::string& name,
                  std::uint64_t bytes) -> Result<std::unique_ptr<CheckpointOutput>> {
    TAUT_TRY(auto out, FileStream::create(fs::path(folder) / name, bytes));
    return std::unique_ptr<CheckpointOutput>(
        std::make_unique<WholeFile>(std::move(out), name, bytes));
  };
}

Result<std::vector<pb::CheckpointFile>> write_shard_files(ShardCapture capture,
                                                          const MakeOutput& make,
                                                          const std::atomic<bool>& stop) {
  UnchangedSlices unchanged;
  if (capture.order.is_incremental) {
    unchanged = UnchangedSlices::link(capture);
    if (!unchanged.problem().empty()) {
      log::warn("job {}: the checkpoint at clock {} shares no files with the one before it: {}",
                capture.job.value(), capture.order.clock.value(), unchanged.problem());
    }
    if (!unchanged.files().empty()) failpoint("checkpoint linked");
  }
  const std::array<Plan, 2> plans = plan_files(capture, unchanged);
  std::vector<pb::CheckpointFile> files;
  for (const Plan& plan : plans) {
    if (&plan != plans.data() && plan.slices.empty()) continue;
    TAUT_TRY(files.emplace_back(), write_file(plan, capture, make, stop));
  }
  files.insert(files.end(), unchanged.files().begin(), unchanged.files().end());
  return files;
}

Result<std::vector<pb::CheckpointFile>> write_shard_files(ShardCapture capture,
                                                          const std::atomic<bool>& stop) {
  const std::string folder = capture.order.folder;
  TAUT_TRY(check_place(folder));
  const auto withdrawn = capture.withdrawn;
  if (*withdrawn) return withdrawn_error(folder);
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) {
    return make_error(ErrorCode::kIo,
                      fmt::format("{}: cannot be made: {}", folder, failed.message()));
  }
  auto files = write_shard_files(std::move(capture), whole_files(folder), stop);
  if (!*withdrawn) return files;
  remove_withdrawn(folder);
  return withdrawn_error(folder);
}

}  // namespace taut::server

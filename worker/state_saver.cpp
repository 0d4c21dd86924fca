#include "worker/state_saver.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "common/files/allowed_folders.hpp"
#include "common/files/file.hpp"
#include "common/files/safetensors.hpp"
#include "common/files/sha256.hpp"
#include "common/log.hpp"
#include "proto/formats/checkpoint_reader.hpp"

namespace taut::worker {
namespace fs = std::filesystem;
namespace {

std::string tensor_name(std::size_t number) {
  return fmt::format("carried{}", number);
}

std::string residual_name(std::size_t table) {
  return fmt::format("residual{}", table);
}

std::string own_name(std::size_t number) {
  return fmt::format("own{}", number);
}

/// Metadata: the number of arrays of a worker's own training; empty ones are left out of the file.
constexpr const char* kOwnNote = "own_arrays";
constexpr std::size_t kMaxOwn = 1U << 20U;

/// Whether a worker with this job continues from the state of its share's member. A checkpoint in
/// parts, for which the job names a manifest, has no workers' files.
bool continues_share(const pb::WorkerJob& job) {
  return job.has_resume() && job.resume().manifest_sha256().empty() &&
         job.start_clock() == job.resume().clock() && job.slots() == job.resume().slots();
}

/// Opens the file that the member of the worker's share has saved; nullopt if there is none.
/// REQUIRES: continues_share(job)
Result<std::optional<safetensors::Reader>> open_own_file(const pb::WorkerJob& job) {
  TAUT_TRY(const CheckpointReader saved, CheckpointReader::open(job.resume().folder()));
  return saved.open_compared(worker_file_name(job.slot()));
}

Result<pb::CheckpointFile> write_file(const pb::CheckpointOrder& order, std::uint32_t slot,
                                      const std::vector<std::vector<float>>& state,
                                      const TableState& tables) {
  const fs::path path = fs::path(order.folder()) / worker_file_name(slot);
  TAUT_TRY(check_place(path));
  std::error_code failed;
  fs::create_directories(path.parent_path(), failed);
  if (failed) {
    return make_error(ErrorCode::kIo,
                      fmt::format("{}: cannot be created: {}", order.folder(), failed.message()));
  }
  std::vector<safetensors::TensorSpec> tensors;
  for (std::size_t i = 0; i < state.size(); ++i) {
    tensors.push_back({tensor_name(i), {state[i].size()}});
  }
  const auto name_all = [&](const std::vector<std::vector<float>>& arrays, auto name) {
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      if (!arrays[i].empty()) tensors.push_back({name(i), {arrays[i].size()}});
    }
  };
  name_all(tables.residuals, residual_name);
  name_all(tables.own, own_name);
  safetensors::Metadata notes;
  if (!tables.own.empty()) notes[kOwnNote] = std::to_string(tables.own.size());
  TAUT_TRY(auto writer, safetensors::Writer::create(path, tensors, notes));
  for (const auto* arrays : {&state, &tables.residuals, &tables.own}) {
    for (const std::vector<float>& one : *arrays) {
      if (one.empty()) continue;
      TAUT_TRY(writer.append(std::span<const float>(one)));
    }
  }
  TAUT_TRY(writer.finish());
  TAUT_TRY(const std::string bytes, read_file(path));
  Sha256 digest;
  digest.update(std::as_bytes(std::span(bytes)));
  pb::CheckpointFile file;
  file.set_name(path.filename().string());
  file.set_bytes(bytes.size());
  file.set_sha256(digest.finish());
  return file;
}

}  // namespace

void StateSaver::order(const pb::CheckpointOrder& order) {
  std::optional<Copy> end;
  {
    std::scoped_lock lock(mutex_);
    if (order.number() <= order_.number()) return;
    order_ = order;
    due_ = true;
    end = end_;
  }
  if (end && is_due_at(end->clock)) serve(*std::move(end));
}

pb::CheckpointPart StateSaver::part() const {
  std::scoped_lock lock(mutex_);
  return part_;
}

void StateSaver::put(pb::CheckpointPart part) {
  std::scoped_lock lock(mutex_);
  part_ = std::move(part);
}

bool StateSaver::is_due_at(Clock clock) const {
  std::scoped_lock lock(mutex_);
  return due_ && clock.value() >= order_.clock();
}

namespace {

/// The states of all nets, concatenated.
std::vector<std::vector<float>> copy_state(std::span<const Carrier> carriers) {
  std::vector<std::vector<float>> state;
  for (const Carrier& carrier : carriers) {
    for (const DeviceSpan<float> one : carrier.net->carried_state()) {
      carrier.backend->copy_to_host(*carrier.stream, one, state.emplace_back(one.size()));
    }
    carrier.stream->finish();
  }
  return state;
}

}  // namespace

void StateSaver::at_clock(Clock first, Clock clock, std::uint32_t slot,
                          std::span<const Carrier> carriers, TableState tables) {
  if (is_due_at(clock)) serve({first, clock, slot, copy_state(carriers), std::move(tables)});
}

void StateSaver::at_end(Clock clock, std::uint32_t slot, std::span<const Carrier> carriers,
                        TableState tables) {
  Copy copy{clock, clock, slot, copy_state(carriers), std::move(tables)};
  {
    std::scoped_lock lock(mutex_);
    end_ = copy;
  }
  if (is_due_at(clock)) serve(std::move(copy));
}

/// Serves the newest order, once.
void StateSaver::serve(Copy copy) {
  std::scoped_lock serving(serving_);
  pb::CheckpointOrder order;
  {
    std::scoped_lock lock(mutex_);
    if (!std::exchange(due_, false)) return;
    order = order_;
    if (copy.first.value() > order.clock()) {
      part_.Clear();
      part_.set_number(order.number());
      part_.set_missed(true);
      return;
    }
  }
  if (writes_ == Writes::kAtOnce) return write(order, copy);
  if (writing_.valid()) writing_.wait();  // an earlier file, which is small
  writing_ =
      std::async(std::launch::async, [this, order, copy = std::move(copy)] { write(order, copy); });
}

void StateSaver::write(const pb::CheckpointOrder& order, const Copy& copy) {
  pb::CheckpointPart part;
  part.set_number(order.number());
  auto file = write_file(order, copy.slot, copy.state, copy.tables);
  part.set_written(file.has_value());
  if (file) {
    *part.add_files() = std::move(file.value());
  } else {
    part.set_error(file.error().message);
    log::warn("the checkpoint at clock {} cannot be written: {}", order.clock(), part.error());
  }
  put(std::move(part));
}

Result<bool> restore_state(const pb::WorkerJob& job, std::span<const Carrier> carriers) {
  struct Place {
    const Carrier* carrier;
    DeviceSpan<float> state;
  };
  std::vector<Place> carried;
  for (const Carrier& carrier : carriers) {
    for (const DeviceSpan<float> one : carrier.net->carried_state()) {
      carried.push_back({&carrier, one});
    }
  }
  if (!continues_share(job) || carried.empty()) return false;
  TAUT_TRY(const auto saved, open_own_file(job));
  if (!saved) return false;
  const safetensors::Reader& file = *saved;
  std::vector<std::vector<float>> state;
  for (std::size_t i = 0; i < carried.size(); ++i) {
    const safetensors::Tensor* tensor = file.find(tensor_name(i));
    const std::size_t count = carried[i].state.size();
    if (tensor == nullptr || tensor->count() != count) return false;
    TAUT_TRY(file.read_floats(*tensor, 0, state.emplace_back(count)));
  }
  if (file.find(tensor_name(carried.size())) != nullptr) return false;
  for (std::size_t i = 0; i < carried.size(); ++i) {
    const Carrier& carrier = *carried[i].carrier;
    carrier.backend->copy_to_device(*carrier.stream, state[i], carried[i].state);
  }
  for (const Carrier& carrier : carriers) carrier.stream->finish();
  return true;
}

Result<Residuals> saved_residuals(const pb::WorkerJob& job, std::size_t tables) {
  Residuals residuals(tables);
  if (!continues_share(job)) return residuals;
  TAUT_TRY(const auto saved, open_own_file(job));
  if (!saved) return residuals;
  const safetensors::Reader& file = *saved;
  for (std::size_t i = 0; i < tables; ++i) {
    const safetensors::Tensor* tensor = file.find(residual_name(i));
    if (tensor == nullptr) continue;
    residuals[i].resize(tensor->count());
    TAUT_TRY(file.read_floats(*tensor, 0, residuals[i]));
  }
  return residuals;
}

Result<std::vector<std::vector<float>>> saved_own_state(const pb::WorkerJob& job) {
  std::vector<std::vector<float>> own;
  if (!continues_share(job)) return own;
  TAUT_TRY(const auto saved, open_own_file(job));
  if (!saved) return own;
  const safetensors::Reader& file = *saved;
  const auto note = file.metadata().find(kOwnNote);
  if (note == file.metadata().end()) return own;
  std::size_t count = 0;
  std::from_chars(note->second.data(), note->second.data() + note->second.size(), count);
  own.resize(std::min(count, kMaxOwn));
  for (std::size_t i = 0; i < own.size(); ++i) {
    const safetensors::Tensor* tensor = file.find(own_name(i));
    if (tensor == nullptr) continue;
    own[i].resize(tensor->count());
    TAUT_TRY(file.read_floats(*tensor, 0, own[i]));
  }
  return own;
}

}  // namespace taut::worker

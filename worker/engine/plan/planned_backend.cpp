#include "worker/engine/plan/planned_backend.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/check.hpp"

namespace taut {

PlannedBackend::PlannedBackend(Backend& inner, const Options& options)
    : WrappedBackend(inner),
      budget_(options.budget),
      repeats_(inner.repeats()),
      arena_(inner, {.budget = options.budget, .poison = options.poison}),
      movers_{inner.make_copy_stream(), inner.make_copy_stream()} {}

std::string PlannedBackend::description() const {
  return fmt::format("{}, within {} bytes", WrappedBackend::description(), budget_.value());
}

void PlannedBackend::set_math(const MathOptions& options) {
  MathOptions within = options;
  within.budget = budget_;
  WrappedBackend::set_math(within);
}

DeviceBuffer PlannedBackend::allocate(Bytes size, BufferKind kind, std::string_view name) {
  if (size.value() == 0) return {};
  if (size.value() >= kMaxVirtualBytes) {
    throw DeviceError(fmt::format("no memory for {} of {} bytes", name, size.value()));
  }
  buffers_.push_back({std::string(name), size, kind});
  needed_ = Bytes(needed_.value() + arena_.align(size).value());
  return {virtual_address(buffers_.size() - 1), size, [](void*, void*) noexcept {}};
}

void PlannedBackend::begin_cycle(Stream& compute, std::string_view name) {
  if (mode_ == Mode::kDryRun) return;
  TAUT_CHECK(mode_ == Mode::kOutside, "a cycle begins within another one");
  compute_ = &compute;
  const auto known = cycles_.find(name);
  if (known == cycles_.end()) {
    mode_ = Mode::kLearning;
    learning_ = name;
    learnt_.clear();
    return;
  }
  if (loaded_ != known->second.get()) {
    empty_arena(compute);
    known->second->load(compute);
    loaded_ = known->second.get();
  }
  loaded_->begin();
  mode_ = Mode::kRunning;
}

void PlannedBackend::end_cycle() {
  const Mode was = mode_;
  if (was == Mode::kDryRun) return;
  mode_ = Mode::kOutside;
  std::exchange(compute_, nullptr)->finish();
  if (was == Mode::kLearning) {
    if (auto planned = plan_cycle(); !planned) throw DeviceError(planned.error().message);
  } else if (was == Mode::kRunning && !loaded_->is_over()) {
    throw DeviceError(fmt::format("cycle \"{}\" ended before {}, which its memory plan expects",
                                  loaded_->name(), loaded_->expected()));
  }
}

Result<void> PlannedBackend::dry_run(Stream& compute, std::string_view name,
                                     const std::function<Result<void>()>& calls) {
  TAUT_CHECK(mode_ == Mode::kOutside, "a dry run in the middle of a cycle");
  mode_ = Mode::kDryRun;
  compute_ = &compute;
  learning_ = name;
  learnt_.clear();
  auto result = calls();
  mode_ = Mode::kOutside;
  compute_ = nullptr;
  TAUT_TRY(std::move(result));
  return plan_cycle();
}

Result<void> PlannedBackend::plan_cycle() {
  TAUT_TRY(auto runner,
           PlanRunner::make(learning_, std::exchange(learnt_, {}), buffers_, arena_, movers_));
  cycles_[learning_] = std::move(runner);
  return ok();
}

const PlanRunner* PlannedBackend::cycle(std::string_view name) const {
  const auto found = cycles_.find(name);
  return found == cycles_.end() ? nullptr : found->second.get();
}

bool PlannedBackend::begin_repeat(Stream& stream, std::uint64_t key, Clock clock) {
  if (mode_ == Mode::kRunning && &stream == compute_) loaded_->begin_repeat(key, clock);
  return true;
}

void PlannedBackend::end_repeat(Stream& stream) {
  if (mode_ == Mode::kRunning && &stream == compute_) loaded_->end_repeat(stream);
}

void PlannedBackend::abandon_repeat(Stream& stream) noexcept {
  if (mode_ == Mode::kRunning && &stream == compute_) loaded_->abandon_repeat(stream);
}

TraceStep PlannedBackend::step_of(Stream& stream, const DeviceCall& call) const {
  return {std::string(call.what), accesses_of(call, buffers_), &stream == compute_};
}

void PlannedBackend::on_call(Stream& stream, DeviceCall call) {
  switch (mode_) {
    case Mode::kDryRun:
      learnt_.push_back(step_of(stream, call));
      return;
    case Mode::kLearning:
      learnt_.push_back(step_of(stream, call));
      run_alone(stream, call);
      return;
    case Mode::kRunning:
      run_planned(stream, call, step_of(stream, call));
      return;
    case Mode::kOutside:
      if (call.kind == CallKind::kCopyToHost) {
        look_at(stream, call);
      } else if (!copy_host_values(stream, call)) {
        run_alone(stream, call);
      }
      return;
  }
}

void PlannedBackend::run_planned(Stream& stream, const DeviceCall& call, const TraceStep& step) {
  if (loaded_->expects(step)) {
    loaded_->run(*compute_, stream, call);
  } else if (call.kind == CallKind::kCopyToHost) {
    look_at(stream, call);
  } else {
    refuse(call);
  }
}

/// REQUIRES: a planned cycle is running.
void PlannedBackend::refuse(const DeviceCall& call) const {
  std::string of;
  if (!call.operands.empty()) {
    of = fmt::format(" of {}", buffers_[place_of(call.operands[0].address).buffer].name);
  }
  throw DeviceError(fmt::format("cycle \"{}\": the call is {}{}, its memory plan expects {}",
                                loaded_->name(), call.what, of, loaded_->expected()));
}

/// A copy from the host to a buffer that is not on the device goes to the host's copy.
bool PlannedBackend::copy_host_values(Stream& stream, const DeviceCall& call) {
  if (call.host_source.empty()) return false;
  const VirtualPlace place = place_of(call.operands[0].address);
  if (loaded_ != nullptr && loaded_->newest(place.buffer) != nullptr) return false;
  stream.finish();
  movers_.in->finish();
  movers_.out->finish();
  Arena::HostCopy& copy = arena_.give_value(place.buffer, buffers_[place.buffer].bytes);
  std::memcpy(copy.memory.as<std::byte>().data() + place.offset, call.host_source.data(),
              call.host_source.size());
  return true;
}

/// Runs a copy to the host that the plan does not expect. It changes nothing on the device: it
/// reads the newest value, on the device or on the host.
void PlannedBackend::look_at(Stream& stream, const DeviceCall& call) {
  const VirtualPlace place = place_of(call.operands[0].address);
  if (std::byte* const newest = loaded_ == nullptr ? nullptr : loaded_->newest(place.buffer)) {
    const auto mark = inner().make_event();
    if (compute_ != nullptr && compute_ != &stream) {
      mark->record(*compute_);
      mark->wait(stream);
    }
    std::byte* const address = newest + place.offset;
    call.run(stream, std::span(&address, 1));
    stream.finish();
    return;
  }
  if (call.host_target.empty()) {
    // Running alone in the arena would end the current cycle.
    if (mode_ == Mode::kRunning) refuse(call);
    run_alone(stream, call);
    return;
  }
  movers_.out->finish();
  const VirtualBuffer& buffer = buffers_[place.buffer];
  const Arena::HostCopy& copy = arena_.host_copy(place.buffer);
  if (!copy.is_current) {
    throw DeviceError(fmt::format("{} is read after its last use in the memory plan", buffer.name));
  }
  std::memcpy(call.host_target.data(), copy.memory.as<std::byte>().data() + place.offset,
              call.host_target.size());
}

/// Offsets for the buffers of a call that runs alone in the arena.
std::map<std::size_t, Bytes> PlannedBackend::place_alone(const DeviceCall& call) const {
  std::map<std::size_t, Bytes> offsets;
  std::uint64_t end = 0;
  std::size_t largest = 0;
  for (const auto& [buffer, mode] : accesses_of(call, buffers_)) {
    offsets[buffer] = Bytes(end);
    end += arena_.align(buffers_[buffer].bytes).value();
    if (offsets.size() == 1 || buffers_[buffer].bytes > buffers_[largest].bytes) {
      largest = buffer;
    }
  }
  if (end > budget_.value()) {
    throw DeviceError(fmt::format(
        "memory plan: {} needs {} bytes at once, device_memory_budget is {} bytes; its largest "
        "tensor is {} '{}' with {} bytes: raise the budget or lower the batch size",
        call.what, end, budget_.value(), to_string(buffers_[largest].kind), buffers_[largest].name,
        buffers_[largest].bytes.value()));
  }
  return offsets;
}

void PlannedBackend::run_alone(Stream& stream, const DeviceCall& call) {
  const std::map<std::size_t, Bytes> offsets = place_alone(call);
  empty_arena(stream);
  std::uint64_t end = 0;
  for (const auto& [buffer, offset] : offsets) {
    end = std::max(end, offset.value() + arena_.align(buffers_[buffer].bytes).value());
  }
  arena_.reserve(Bytes(end));
  const std::vector<Access> accesses = accesses_of(call, buffers_);
  for (const auto& [buffer, mode] : accesses) {
    if (!needs_old(mode)) continue;
    arena_.bring(stream, buffer, buffers_[buffer].bytes, arena_.at(offsets.at(buffer)));
  }
  std::vector<std::byte*> addresses;
  for (const Operand& operand : call.operands) {
    const VirtualPlace place = place_of(operand.address);
    addresses.push_back(arena_.at(offsets.at(place.buffer)) + place.offset);
  }
  call.run(stream, addresses);
  for (const auto& [buffer, mode] : accesses) {
    if (!writes(mode)) continue;
    arena_.take_back(stream, buffer, buffers_[buffer].bytes, arena_.at(offsets.at(buffer)));
  }
  stream.finish();
}

void PlannedBackend::empty_arena(Stream& stream) {
  if (loaded_ == nullptr) return;
  loaded_->unload(stream);
  loaded_ = nullptr;
}

}  // namespace taut

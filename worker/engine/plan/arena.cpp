#include "worker/engine/plan/arena.hpp"

#include <algorithm>

#include "common/check.hpp"

namespace taut {
namespace {

/// Copies move whole floats; a buffer's place and its host copy have room for the last one.
std::size_t floats_of(Bytes bytes) {
  return (bytes.value() + sizeof(float) - 1) / sizeof(float);
}

DeviceSpan<float> span_at(std::byte* address, Bytes bytes) {
  return {reinterpret_cast<float*>(address), floats_of(bytes)};
}

}  // namespace

Arena::Arena(Backend& backend, const Options& options) : backend_(backend), options_(options) {}

Arena::HostCopy& Arena::host_copy(std::size_t buffer) {
  if (copies_.size() <= buffer) copies_.resize(buffer + 1);
  auto& copy = copies_[buffer];
  if (!copy) copy = std::make_unique<HostCopy>();
  return *copy;
}

Arena::HostCopy& Arena::give_value(std::size_t buffer, Bytes bytes) {
  HostCopy& copy = host_copy(buffer);
  if (copy.memory.size() == Bytes(0)) {
    copy.memory = backend_.allocate_host(Bytes(floats_of(bytes) * sizeof(float)));
  }
  copy.is_current = true;
  copy.has_value = true;
  return copy;
}

Bytes Arena::align(Bytes bytes) const {
  const std::uint64_t unit = options_.alignment.value();
  return Bytes((bytes.value() + unit - 1) / unit * unit);
}

void Arena::reserve(Bytes bytes) {
  TAUT_CHECK(bytes <= options_.budget, "an arena larger than the budget");
  if (bytes <= block_.size()) return;
  block_ = DeviceBuffer();
  block_ = backend_.allocate(bytes, "the arena of device_memory_budget");
}

std::byte* Arena::at(Bytes offset) const {
  TAUT_CHECK(offset <= block_.size(), "a place outside of the arena");
  return block_.as<std::byte>().address() + offset.value();
}

void Arena::bring(Stream& stream, std::size_t buffer, Bytes bytes, std::byte* to) {
  const HostCopy& copy = host_copy(buffer);
  if (!copy.has_value) return;
  backend_.copy_to_device(stream, copy.memory.as<float>(), span_at(to, bytes));
}

void Arena::take_back(Stream& stream, std::size_t buffer, Bytes bytes, const std::byte* from) {
  HostCopy& copy = give_value(buffer, bytes);
  const DeviceSpan<const float> source(reinterpret_cast<const float*>(from), floats_of(bytes));
  backend_.copy_to_host(stream, source, copy.memory.as<float>());
}

void Arena::give_up(Stream& stream, std::byte* address, Bytes bytes) {
  if (!options_.poison) return;
  backend_.fill(stream, span_at(address, bytes), std::numeric_limits<float>::quiet_NaN());
}

}  // namespace taut

#include "worker/cache/device_encoder.hpp"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "common/log.hpp"
#include "common/math/codec.hpp"
#include "common/math/codec_elements.hpp"

namespace taut {

DeviceEncoder::DeviceEncoder(Client& client, Backend& backend)
    : client_(client), backend_(backend) {}

DeviceEncoder::~DeviceEncoder() {
  client_.forget_residual_sources();
}

void DeviceEncoder::add(TableId id, Clock clock) {
  const TableEncoding how = client_.encoding_of(id, clock);
  if (how.encoding.codec == math::Codec::kFloat32 || !backend_.encodes()) return;
  std::size_t states = 0;
  std::size_t velocities = 0;
  for (const TableEncoding::Part& part : how.parts) {
    states += math::state_values(how.encoding, part.count);
    if (how.correction) velocities += part.count;
  }
  Table table;
  try {
    table.encoded = backend_.allocate(Bytes(how.bytes), BufferKind::kGradient, "an encoded update");
    if (states + velocities > 0) {
      table.kept = backend_.allocate_floats(states + velocities, BufferKind::kGradient,
                                            "what updates leave out");
    }
  } catch (const DeviceError& full) {
    log::info("updates of table {} are encoded on the host: {}", id.value(), full.what());
    return;
  }
  if (states > 0) table.states = table.kept.as<float>().subspan(0, states);
  if (velocities > 0) table.velocity = table.kept.as<float>().subspan(states, velocities);
  clips_ = clips_ || (how.correction && how.correction->clips());
  table.is_kept = backend_.make_event();
  if (!to_host_) to_host_ = backend_.make_copy_stream();
  tables_[id] = std::move(table);
}

/// Starts from what an earlier member has left out, or from zeros.
void DeviceEncoder::take_kept(TableId id, Table& table, Stream& compute) {
  if (std::exchange(table.has_taken, true) || table.kept.size() == Bytes(0)) return;
  const DeviceSpan<float> kept = table.kept.as<float>();
  const auto copy = [this, &table](std::span<float> into) {
    table.is_kept->wait(*to_host_);
    backend_.copy_to_host(*to_host_, table.kept.as<float>(), into);
    to_host_->finish();
  };
  const std::vector<float> given = client_.hand_over_residual(id, copy);
  if (std::ranges::all_of(given, [](float value) { return math::float_bits(value) == 0; })) {
    backend_.fill(compute, kept, 0);
    return;
  }
  backend_.copy_to_device(compute, given, kept);
  compute.finish();  // before `given` is freed
}

/// Advances the table's velocity, and replaces the gradient with it.
void DeviceEncoder::advance(const Table& table, const TableEncoding& how,
                            DeviceSpan<float> gradient, float norm, Stream& compute) {
  const float scale = how.correction->scale(norm);
  for (const TableEncoding::Part& part : how.parts) {
    backend_.advance_velocity(compute, how.correction->momentum, scale,
                              gradient.subspan(part.offset, part.count),
                              table.velocity.subspan(part.offset, part.count));
  }
}

void DeviceEncoder::encode_slices(const Table& table, const TableEncoding& how,
                                  DeviceSpan<const float> gradient, Stream& compute) {
  const DeviceSpan<float> out = table.encoded.as<float>();
  std::size_t done = 0;  // of the states
  for (const TableEncoding::Part& part : how.parts) {
    const std::uint64_t bytes = math::encoded_bytes(how.encoding, part.count);
    const std::size_t kept = math::state_values(how.encoding, part.count);
    backend_.encode(
        compute, {how.encoding, part.draw}, gradient.subspan(part.offset, part.count),
        out.subspan(part.begin / sizeof(float), (bytes + sizeof(float) - 1) / sizeof(float)),
        table.states.subspan(done, kept));
    done += kept;
  }
  if (how.correction && how.encoding.is_sparse()) {
    backend_.clear_sent_velocities(compute, table.states, table.velocity);
  }
}

/// The gradient and what earlier updates have left out, as float32.
DeviceEncoder::Update DeviceEncoder::rest(const Table& table, TableEncoding how,
                                          DeviceSpan<float> gradient, Stream& compute) {
  std::size_t done = 0;  // of the states
  for (const TableEncoding::Part& part : how.parts) {
    const DeviceSpan<float> residual = table.states.subspan(done, part.count);
    backend_.add(compute, residual, gradient.subspan(part.offset, part.count));
    backend_.fill(compute, residual, 0);
    done += math::state_values(how.encoding, part.count);
  }
  how.encoding = {};
  for (TableEncoding::Part& part : how.parts) part.begin = part.offset * sizeof(float);
  how.bytes = gradient.size() * sizeof(float);
  return {std::move(how), gradient};
}

std::optional<DeviceEncoder::Update> DeviceEncoder::encode(TableId id, Clock clock,
                                                           DeviceSpan<float> gradient, float norm,
                                                           Stream& compute) {
  const auto found = tables_.find(id);
  if (found == tables_.end()) return std::nullopt;
  Table& table = found->second;
  TableEncoding how = client_.encoding_of(id, clock);
  take_kept(id, table, compute);
  if (how.correction) advance(table, how, gradient, norm, compute);
  // Fewer bytes than at the first clock, if the encoding has a warm-up.
  const auto encoded = table.encoded.as<float>().subspan(0, how.bytes / sizeof(float));
  Update update{std::move(how), encoded};
  if (update.how.encoding.has_residual() && client_.sends_rest()) {
    update = rest(table, std::move(update.how), gradient, compute);
  } else {
    encode_slices(table, update.how, gradient, compute);
  }
  table.is_kept->record(compute);
  return update;
}

}  // namespace taut

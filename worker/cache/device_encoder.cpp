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
  if (!backend_.encodes(how.encoding)) return;
  std::uint64_t kept = 0;
  for (const TableEncoding::Part& part : how.parts) {
    kept += math::state_values(how.encoding, part.count);
  }
  Table table;
  try {
    table.encoded = backend_.allocate(Bytes(how.bytes), BufferKind::kGradient, "an encoded update");
    if (kept > 0) {
      table.residual = backend_.allocate_floats(kept, BufferKind::kGradient, "a residual");
    }
  } catch (const DeviceError& full) {
    log::info("updates of table {} are encoded on the host: {}", id.value(), full.what());
    return;
  }
  table.kept = backend_.make_event();
  if (!to_host_) to_host_ = backend_.make_copy_stream();
  tables_[id] = std::move(table);
}

/// What an earlier member has left out, or zeros.
void DeviceEncoder::take_residual(TableId id, Table& table, Stream& compute) {
  if (std::exchange(table.has_residual, true) || table.residual.size() == Bytes(0)) return;
  const DeviceSpan<float> residual = table.residual.as<float>();
  const auto copy = [this, &table](std::span<float> into) {
    table.kept->wait(*to_host_);
    backend_.copy_to_host(*to_host_, table.residual.as<float>(), into);
    to_host_->finish();
  };
  const std::vector<float> given = client_.hand_over_residual(id, copy);
  if (std::ranges::all_of(given, [](float value) { return math::float_bits(value) == 0; })) {
    backend_.fill(compute, residual, 0);
    return;
  }
  backend_.copy_to_device(compute, given, residual);
  compute.finish();  // before `given` is freed
}

/// All that is left to send, as float32: the gradient and what earlier updates have left out.
DeviceEncoder::Update DeviceEncoder::rest(Table& table, TableEncoding how,
                                          DeviceSpan<float> gradient, Stream& compute) {
  how.encoding = {};
  for (TableEncoding::Part& part : how.parts) part.begin = part.offset * sizeof(float);
  how.bytes = gradient.size() * sizeof(float);
  backend_.add(compute, table.residual.as<float>(), gradient);
  backend_.fill(compute, table.residual.as<float>(), 0);
  table.kept->record(compute);
  return {std::move(how), gradient};
}

std::optional<DeviceEncoder::Update> DeviceEncoder::encode(TableId id, Clock clock,
                                                           DeviceSpan<float> gradient,
                                                           Stream& compute) {
  const auto found = tables_.find(id);
  if (found == tables_.end()) return std::nullopt;
  Table& table = found->second;
  TableEncoding how = client_.encoding_of(id, clock);
  take_residual(id, table, compute);
  const bool keeps = table.residual.size() != Bytes(0);
  if (keeps && client_.sends_rest()) return rest(table, std::move(how), gradient, compute);
  const DeviceSpan<float> out = table.encoded.as<float>();
  for (const TableEncoding::Part& part : how.parts) {
    const std::uint64_t bytes = math::encoded_bytes(how.encoding, part.count);
    const DeviceSpan<float> into =
        out.subspan(part.begin / sizeof(float), (bytes + sizeof(float) - 1) / sizeof(float));
    const DeviceSpan<float> residual =
        keeps ? table.residual.as<float>().subspan(part.offset, part.count) : DeviceSpan<float>();
    backend_.encode(compute, {how.encoding, part.draw}, gradient.subspan(part.offset, part.count),
                    into, residual);
  }
  table.kept->record(compute);
  return Update{std::move(how), out};
}

}  // namespace taut

#include "lab/training/costs/codec_costs.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <span>

#include "common/math/update_kernels.hpp"
#include "common/ssp/compression.hpp"
#include "common/ssp/slice_layout.hpp"
#include "lab/training/meter.hpp"
#include "proto/config/settle_averaging.hpp"
#include "proto/config/settle_compression.hpp"

namespace taut::lab {
namespace {

constexpr double kValuesPerMib = 0x1p20 / sizeof(float);

/// Rounds to a hundredth, for a file that people read.
double in_hundredths(double value) {
  constexpr double kParts = 100;
  return std::round(value * kParts) / kParts;
}

bool is_push(const DataItem& item) {
  return item.kind == pb::DataItem::PUSH || item.kind == pb::DataItem::PUSH_READ;
}

const std::vector<DataItem>& items_of(const DataMessage& message) {
  static const std::vector<DataItem> kNone;
  const auto* const items = std::get_if<DataItems>(&message.body);
  return items == nullptr ? kNone : items->items;
}

/// Microseconds per MiB of values that the job's rule updates by a gradient.
double measure_apply(const math::UpdateRule& rule) {
  constexpr std::size_t kValues = SliceLayout::kSliceElements;
  constexpr int kRounds = 21;
  std::vector<float> values(kValues, 0.5F);
  const std::vector<float> gradient(kValues, 1e-3F);
  std::vector<std::vector<float>> states(static_cast<std::size_t>(rule.state_count()),
                                         std::vector<float>(kValues));
  std::vector<float*> state;
  state.reserve(states.size());
  for (std::vector<float>& one : states) state.push_back(one.data());
  const math::GradientView view{.bytes = reinterpret_cast<const std::byte*>(gradient.data()),
                                .count = kValues};
  std::vector<double> times;
  for (int round = 0; round < kRounds; ++round) {
    const math::UpdateStep step = math::make_step(rule, round, 1, 1, 1, round);
    const Stopwatch stopwatch;
    math::apply_update(rule.kind, step, std::span(&view, 1), 1, values, values, state);
    times.push_back(stopwatch.microseconds());
  }
  std::ranges::nth_element(times, times.begin() + kRounds / 2);
  return times[kRounds / 2] * kValuesPerMib / static_cast<double>(kValues);
}

void add_codec(const math::Encoding& encoding, const worker::CodecTime& time, bool is_pulled,
               double plain_add_s, pb::LabCosts& costs) {
  constexpr double kUsPerMib = 1e6 * kValuesPerMib;
  const double read_s = reading_s(time, is_pulled, plain_add_s);
  pb::LabCodec& codec = *costs.add_codec();
  codec.set_name(std::string(math::to_string(encoding.codec)));
  codec.set_encode_us_per_mib(in_hundredths(time.encode_s * kUsPerMib));
  codec.set_decode_us_per_mib(in_hundredths(read_s * kUsPerMib));
}

}  // namespace

double reading_s(const worker::CodecTime& time, bool is_pulled, double plain_add_s) {
  return is_pulled ? time.decode_s : std::max(0.0, time.add_s - plain_add_s);
}

CodecCosts::CodecCosts(const pb::LabCosts& costs)
    : apply_us_(costs.apply_us_per_mib() / kValuesPerMib) {
  for (std::size_t i = 0; i < math::kCodecs; ++i) {
    const auto found = std::ranges::find(
        costs.codec(), math::to_string(static_cast<math::Codec>(i)), &pb::LabCodec::name);
    if (found == costs.codec().end()) continue;
    each_[i] = {found->encode_us_per_mib() / kValuesPerMib,
                found->decode_us_per_mib() / kValuesPerMib};
    are_free_ = false;
  }
}

double CodecCosts::encode_us(const math::Encoding& encoding, std::uint64_t count) const {
  return of(encoding).encode_us * static_cast<double>(count);
}

double CodecCosts::decode_us(const math::Encoding& encoding, std::uint64_t count) const {
  return of(encoding).decode_us * static_cast<double>(count);
}

double CodecCosts::encode_us(const DataItem& item) const {
  return encode_us(item.encoding, item.count);
}

double CodecCosts::decode_us(const DataMessage& message) const {
  double us = 0;
  for (const DataItem& item : items_of(message)) {
    if (!item.payload.empty()) us += decode_us(item.encoding, item.count);
  }
  return us;
}

double CodecCosts::apply_us(const DataMessage& message) const {
  double us = 0;
  for (const DataItem& item : items_of(message)) {
    if (is_push(item)) us += apply_us_ * static_cast<double>(item.count);
  }
  return us;
}

double Encoded::take(const CodecCosts& costs, const DataMessage& message) {
  double us = 0;
  for (const DataItem& item : items_of(message)) {
    if (item.payload.empty() || item.encoding == math::Encoding()) continue;
    const Place place(item.table, item.slice);
    if (is_push(item)) {
      const auto [known, is_new] = pushed_.try_emplace(place, item.clock);
      if (!is_new && item.clock <= known->second) continue;
      known->second = item.clock;
    } else {
      Frame& known = values_[place];
      if (known.bytes().data() == item.payload.bytes().data()) continue;
      known = item.payload;
    }
    us += costs.encode_us(item);
  }
  return us;
}

std::vector<std::string> codecs_of(const pb::Job& job) {
  std::set<math::Codec> codecs;
  for (const pb::PushCompression& one : job.compression().push()) {
    codecs.insert(encoding_of(one).codec);
  }
  for (const pb::PullCompression& one : job.compression().pull()) {
    codecs.insert(encoding_of(one).codec);
  }
  codecs.erase(math::Codec::kFloat32);
  std::vector<std::string> names;
  names.reserve(codecs.size());
  for (const math::Codec codec : codecs) names.emplace_back(math::to_string(codec));
  return names;
}

std::vector<std::string> missing_codecs(const pb::Job& job, const pb::LabCosts& costs) {
  std::vector<std::string> names = codecs_of(job);
  std::erase_if(names, [&](const std::string& name) {
    return std::ranges::count(costs.codec(), name, &pb::LabCodec::name) > 0;
  });
  return names;
}

worker::CodecTime time_on_slice(const math::Encoding& encoding, std::optional<float> momentum) {
  return worker::time_codec(encoding, SliceLayout::kSliceElements, momentum);
}

Result<void> measure_codecs(const pb::Job& job, const std::vector<TableSpec>& tables,
                            pb::LabCosts& costs, const TimeCodec& time) {
  TAUT_TRY(const Compression compression, to_compression(job));
  TAUT_TRY(const math::UpdateRule rule, to_shard_rule(job));
  costs.set_apply_us_per_mib(in_hundredths(measure_apply(rule)));
  if (compression.is_off()) return ok();
  const double plain_add_s = time({}, std::nullopt).add_s;
  std::optional<float> applied;  // by workers
  if (compression.correction()) applied = compression.correction()->momentum;
  std::set<math::Codec> pulled;
  for (const TableSpec& table : tables) pulled.insert(compression.of_pull(table).codec);
  std::set<math::Codec> known = {math::Codec::kFloat32};
  for (const TableSpec& table : tables) {
    for (const math::Encoding& encoding :
         {compression.of_push(table), compression.of_pull(table)}) {
      if (!known.insert(encoding.codec).second) continue;
      // Codecs of values keep no state, and have no velocity.
      const auto momentum = encoding.has_residual() ? applied : std::nullopt;
      add_codec(encoding, time(encoding, momentum), pulled.contains(encoding.codec), plain_add_s,
                costs);
    }
  }
  return ok();
}

}  // namespace taut::lab

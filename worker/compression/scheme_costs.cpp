#include "worker/compression/scheme_costs.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "common/log.hpp"
#include "common/math/codec.hpp"
#include "common/net/reach.hpp"
#include "common/net/ucx/ucx_endpoint.hpp"
#include "common/ssp/slice_layout.hpp"
#include "common/time.hpp"
#include "proto/config/settle_compression.hpp"
#include "proto/node_check/link_facts.hpp"
#include "proto/session/data_secret.hpp"
#include "worker/cache/initial_values.hpp"
#include "worker/compression/codec_times.hpp"
#include "worker/device/math_options.hpp"

namespace taut::worker {
namespace {

constexpr std::uint64_t kTransfer = std::uint64_t{16} << 20U;
constexpr Duration kLinksWithin = std::chrono::seconds(30);
constexpr Duration kBatchWait = std::chrono::seconds(60);
constexpr int kRounds = 3;  // after one that is not counted

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

double timed(const std::function<void()>& work) {
  const TimePoint begin = steady_now();
  work();
  return seconds(steady_now() - begin);
}

/// One shard address of each server, as told apart by host; workers start at different servers.
std::vector<std::string> servers_of(const pb::WorkerJob& job) {
  const auto host_of = [](const std::string& address) {
    return address.substr(0, address.rfind(':'));
  };
  std::vector<std::string> servers;
  for (const pb::ShardInfo& shard : job.shards()) {
    const bool is_known = std::ranges::any_of(servers, [&](const std::string& known) {
      return host_of(known) == host_of(shard.address());
    });
    if (!is_known) servers.push_back(shard.address());
  }
  if (servers.empty()) return servers;
  const auto first = static_cast<std::ptrdiff_t>(job.worker() % servers.size());
  std::rotate(servers.begin(), servers.begin() + first, servers.end());
  return servers;
}

/// Whether a server has an address of this machine, whatever its transport.
bool is_here(const std::string& address) {
  const std::string place =
      address.starts_with(kUcxScheme) ? address.substr(kUcxScheme.size()) : address;
  const auto own = local_host_towards(place);
  return own && place.substr(0, place.rfind(':')) == own.value();
}

/// Seconds per byte copied, a slice at a time.
double copied_byte_s() {
  std::vector<float> from(SliceLayout::kSliceElements, 1);
  std::vector<float> into(SliceLayout::kSliceElements);
  std::vector<double> times;
  for (int round = 0; round <= 2 * kRounds; ++round) {
    times.push_back(timed([&] { std::ranges::copy(from, into.begin()); }));
    from[0] = into[1] + 1;
  }
  return median(times) / static_cast<double>(from.size() * sizeof(float));
}

/// A net that computes with its own parameters and gradients.
class TimedNet {
 public:
  TimedNet(const pb::WorkerJob& job, Replica replica)
      : job_(job), replica_(std::move(replica)), stream_(replica_.backend->make_stream()) {}

  Result<void> bind() {
    for (const TableSpec& table : replica_.net->parameters()) {
      const std::string name = "measured parameter " + table.name;
      Backend& backend = *replica_.backend;
      memory_.push_back(backend.allocate_floats(table.count(), BufferKind::kParameter, name));
      std::vector<float> values(table.count());
      TAUT_TRY(read_initial_values(table, job_.definition().seed(), values));
      backend.copy_to_device(*stream_, values, memory_.back().as<float>());
      stream_->finish();
      replica_.net->bind_value(table.id.value(), memory_.back().as<float>());
      if (table.kind == TableKind::kFrozen) continue;
      memory_.push_back(
          backend.allocate_floats(table.count(), BufferKind::kGradient, "gradient of " + name));
      replica_.net->bind_gradient(table.id.value(), memory_.back().as<float>());
    }
    return ok();
  }

  /// Seconds for one batch, without the time to read it.
  Result<double> compute() {
    TAUT_TRY(data::Batch batch, replica_.loader->next(kBatchWait));
    const std::vector<std::span<const float>> fed = batch.spans();
    Net& net = *replica_.net;
    const double took = timed([&] {
      net.set_batch(*stream_, fed);
      for (std::size_t layer = 0; layer < net.layer_count(); ++layer) {
        net.forward(layer, *stream_, batch.clock);
      }
      for (std::size_t layer = net.layer_count(); layer-- > 0;) net.backward(layer, *stream_);
      stream_->finish();
    });
    replica_.loader->recycle(std::move(batch));
    return took;
  }

 private:
  const pb::WorkerJob& job_;
  Replica replica_;
  std::unique_ptr<Stream> stream_;
  std::vector<DeviceBuffer> memory_;
};

/// An encoding that was timed once.
struct Timing {
  math::Encoding encoding;
  CodecTime time;
};

class CodecTimes {
 public:
  /// count  the number of values of a slice
  const Timing& of(const math::Encoding& encoding, std::size_t count) {
    const auto known = std::ranges::find(timings_, encoding, &Timing::encoding);
    return known != timings_.end() ? *known : timings_.emplace_back(time(encoding, count));
  }

 private:
  static Timing time(const math::Encoding& encoding, std::size_t count) {
    return {encoding, time_codec(encoding, count)};
  }

  std::vector<Timing> timings_;
};

/// Adds a table's cost over all its slices.
/// read_s  for an update: the shard's, which adds it to a sum; for values: the worker's
void add_table(const TableSpec& table, const math::Encoding& encoding, double CodecTime::*read_s,
               CodecTimes& times, pb::SchemeCost& cost) {
  const std::uint64_t count = table.count();
  std::uint64_t bytes = cost.bytes();
  for (std::uint64_t begin = 0; begin < count; begin += SliceLayout::kSliceElements) {
    bytes += math::encoded_bytes(encoding, std::min(SliceLayout::kSliceElements, count - begin));
  }
  cost.set_bytes(bytes);
  const bool is_plain = encoding == math::Encoding();
  // float32 is sent and read in place, without a copy; only sums have to read it.
  if (count == 0 || (is_plain && read_s != &CodecTime::add_s)) return;
  // float32 is not encoded, and its smallest table may be too short to be timed.
  const std::size_t length =
      is_plain ? SliceLayout::kSliceElements : std::min(SliceLayout::kSliceElements, count);
  const CodecTime& time = times.of(encoding, length).time;
  const auto values = static_cast<double>(count);
  if (!is_plain) cost.set_encode_s(cost.encode_s() + time.encode_s * values);
  cost.set_decode_s(cost.decode_s() + time.*read_s * values);
}

using Costs = google::protobuf::RepeatedPtrField<pb::SchemeCost>;

/// Adds the cost of each candidate that takes the place of AUTO in a list, or of the scheme that
/// the job names.
/// encoding_of  a table's encoding
/// read_s       as in add_table()
template <class List, class EncodingOf>
Result<void> add_costs(const pb::Job& job, List* (pb::Compression::*mutable_list)(),
                       const EncodingOf& encoding_of, double CodecTime::*read_s,
                       std::span<const TableSpec> tables, CodecTimes& times, Costs& costs) {
  pb::Job requested;
  *requested.mutable_compression() = job.compression();
  List& list = *(requested.mutable_compression()->*mutable_list)();
  using One = typename List::value_type;
  const One first = list.size() == 1 ? list.Get(0) : One();
  for (const auto scheme : candidates(first)) {
    if (list.size() == 1) *list.Mutable(0) = with_scheme(first, scheme);
    // The other list stays as it is: it does not matter here.
    TAUT_TRY(const Compression compression, to_compression(requested));
    pb::SchemeCost& cost = *costs.Add();
    cost.set_scheme(static_cast<pb::PushCompression::Scheme>(scheme));
    for (const TableSpec& table : tables) {
      if (table.kind == TableKind::kFrozen) continue;
      add_table(table, encoding_of(compression, table), read_s, times, cost);
    }
  }
  return ok();
}

}  // namespace

double measure_bandwidth(ZmqContext& context, const pb::WorkerJob& job, bool shares_memory,
                         const std::atomic<bool>& given_up) {
  const HelloSender sender{JobId(job.job()), WorkerId(job.worker()),
                           Incarnation(job.incarnation())};
  std::vector<std::string> servers = servers_of(job);
  std::vector<double> byte_s;  // to each server
  if (shares_memory) {
    byte_s.assign(std::erase_if(servers, is_here), copied_byte_s());
  }
  for (const pb::LinkFacts& link :
       examine_links(context, to_token(job.secret()), servers, kTransfer,
                     steady_now() + kLinksWithin, given_up, sender)) {
    if (!link.error().empty()) log::warn("link to {}: {}", link.address(), link.error());
    if (link.sent_bytes() == 0 || !(link.sent_s() > 0)) continue;
    byte_s.push_back(link.sent_s() / static_cast<double>(link.sent_bytes()));
  }
  // Each server receives the same number of bytes.
  const double sum = std::accumulate(byte_s.begin(), byte_s.end(), 0.0);
  return sum > 0 ? static_cast<double>(byte_s.size()) / sum : 0;
}

Result<double> measure_compute(const pb::WorkerJob& job, const JobAssets& assets, Backend& device) {
  device.set_math(math_options(job.definition().solver_param()));
  ReplicaOptions sharing;
  sharing.loading = data::Loading::kOnRequest;
  TAUT_TRY(Replica replica, assets.make_replica(device, job.slot(), job.slots(),
                                                Clock(job.start_clock()), 0, sharing));
  TimedNet net(job, std::move(replica));
  TAUT_TRY(net.bind());
  std::vector<double> times;
  for (int round = 0; round <= kRounds; ++round) {
    TAUT_TRY(const double took, net.compute());
    if (round > 0) times.push_back(took);
  }
  return median(times) * job.definition().solver_param().iter_size();
}

Result<void> measure_codecs(const pb::Job& job, std::span<const TableSpec> tables,
                            pb::CompressionCosts& costs) {
  CodecTimes times;
  TAUT_TRY(add_costs(
      job, &pb::Compression::mutable_push,
      [](const Compression& compression, const TableSpec& table) {
        return compression.of_push(table);
      },
      &CodecTime::add_s, tables, times, *costs.mutable_push()));
  return add_costs(
      job, &pb::Compression::mutable_pull,
      [](const Compression& compression, const TableSpec& table) {
        return compression.of_pull(table);
      },
      &CodecTime::decode_s, tables, times, *costs.mutable_pull());
}

}  // namespace taut::worker

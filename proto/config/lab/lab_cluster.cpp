#include "proto/config/lab/lab_cluster.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include "common/did_you_mean.hpp"
#include "common/files/file.hpp"
#include "common/math/codec.hpp"
#include "common/printable.hpp"
#include "proto/config/lab/lab_times.hpp"

namespace taut {
namespace {

using Steps = std::vector<PlacedText::Step>;

constexpr Bytes kMaxText{16UL << 20U};
constexpr double kMaxMicroseconds = 1e7;
constexpr double kMaxPrice = 1e6;
constexpr double kMaxMemory_gib = 1e6;

/// Checks one cluster; the first mistake is kept.
class Check {
 public:
  Check(const pb::LabCluster& cluster, const PlacedText& text) : cluster_(cluster), text_(text) {}

  [[nodiscard]] Result<void> run() const {
    TAUT_TRY(links());
    TAUT_TRY(racks());
    TAUT_TRY(hosts());
    TAUT_TRY(uses());
    TAUT_TRY(compute());
    TAUT_TRY(outages());
    TAUT_TRY(control());
    return costs();
  }

 private:
  [[nodiscard]] Result<void> links() const {
    std::set<std::string> names;
    for (int i = 0; i < cluster_.link_size(); ++i) {
      const pb::LabLink& link = cluster_.link(i);
      TAUT_TRY(is_new(names, link.name(), "link", {{"link", i}, {"name"}}));
      TAUT_TRY(is_in({{"link", i}, {"gbit_per_s"}}, link.gbit_per_s(), 1e-6, 1e5));
      TAUT_TRY(is_in({{"link", i}, {"latency_us"}}, link.latency_us(), 0, kMaxMicroseconds));
      TAUT_TRY(is_in({{"link", i}, {"jitter_us"}}, link.jitter_us(), 0, kMaxMicroseconds));
      TAUT_TRY(is_in({{"link", i}, {"loss"}}, link.loss(), 0, 0.5));
    }
    return ok();
  }
  [[nodiscard]] Result<void> racks() const {
    std::set<std::string> names;
    for (int i = 0; i < cluster_.rack_size(); ++i) {
      const pb::LabRack& rack = cluster_.rack(i);
      TAUT_TRY(is_new(names, rack.name(), "rack", {{"rack", i}, {"name"}}));
      if (rack.has_link() == rack.has_oversubscription()) {
        return text_.error(
            {{"rack", i}, {"oversubscription"}},
            fmt::format("rack \"{}\": give its link, or its oversubscription", rack.name()));
      }
      if (rack.has_link()) {
        TAUT_TRY(is_link({{"rack", i}, {"link"}}, rack.link()));
      } else {
        TAUT_TRY(is_in({{"rack", i}, {"oversubscription"}}, rack.oversubscription(), 0.01, 1000));
      }
    }
    return ok();
  }
  [[nodiscard]] Result<void> hosts() const {
    constexpr double kMaxHosts = 100'000;
    constexpr double kMaxOfHost = 4096;
    constexpr double kMaxDevices = 64;
    if (cluster_.host_size() == 0) return text_.error({}, "the cluster has no host; add host { }");
    std::set<std::string> names;
    std::set<std::string> known;
    std::uint64_t workers = 0;
    std::uint64_t servers = 0;
    for (int i = 0; i < cluster_.host_size(); ++i) {
      const pb::LabHost& host = cluster_.host(i);
      TAUT_TRY(is_new(names, host.name(), "host", {{"host", i}, {"name"}}));
      TAUT_TRY(is_in({{"host", i}, {"count"}}, host.count(), 1, kMaxHosts));
      TAUT_TRY(are_new(known, i));
      TAUT_TRY(is_in({{"host", i}, {"cores"}}, host.cores(), 1, kMaxOfHost));
      TAUT_TRY(is_in({{"host", i}, {"workers"}}, host.workers(), 0, kMaxOfHost));
      TAUT_TRY(is_in({{"host", i}, {"servers"}}, host.servers(), 0, kMaxOfHost));
      TAUT_TRY(is_in({{"host", i}, {"speed"}}, host.speed(), 1e-4, 1e4));
      TAUT_TRY(is_in({{"host", i}, {"devices"}}, host.devices(), 0, kMaxDevices));
      TAUT_TRY(is_in({{"host", i}, {"price_per_hour"}}, host.price_per_hour(), 0, kMaxPrice));
      if (host.has_memory_gib()) {
        TAUT_TRY(is_above({{"host", i}, {"memory_gib"}}, host.memory_gib(), kMaxMemory_gib));
      }
      workers += std::uint64_t{host.count()} * host.workers();
      servers += std::uint64_t{host.count()} * host.servers();
      const bool is_alone = cluster_.host_size() == 1 && host.count() == 1;
      if (host.has_link() || !is_alone) {
        TAUT_TRY(is_link({{"host", i}, {"link"}}, host.link()));
      }
      if (host.has_loopback()) {
        TAUT_TRY(is_link({{"host", i}, {"loopback"}}, host.loopback()));
      }
      if (host.has_island()) {
        TAUT_TRY(is_link({{"host", i}, {"island"}}, host.island()));
        if (host.devices() == 0) {
          return text_.error(
              {{"host", i}, {"island"}},
              fmt::format("host \"{}\" has an island and no devices; add devices: 8", host.name()));
        }
      }
      if (!host.rack().empty()) {
        TAUT_TRY(is_rack({{"host", i}, {"rack"}}, host.rack()));
      }
      if (!host.has_link() && is_sum_of_links(host.rack())) {
        return text_.error(
            {{"host", i}, {"link"}},
            fmt::format("host \"{}\" has no link, and the link of its rack is the sum of its "
                        "hosts' ones; name one",
                        host.name()));
      }
    }
    if (workers == 0) return text_.error({{"host", 0}}, "no host has workers; add workers: 1");
    if (servers == 0) return text_.error({{"host", 0}}, "no host has servers; add servers: 1");
    return ok();
  }
  /// Whether each link and each rack is used: an unused one probably has a mistaken name.
  [[nodiscard]] Result<void> uses() const {
    std::set<std::string> links;
    std::set<std::string> racks;
    for (const pb::LabRack& rack : cluster_.rack()) links.insert(rack.link());
    for (const pb::LabHost& host : cluster_.host()) {
      links.insert({host.link(), host.loopback(), host.island()});
      racks.insert(host.rack());
    }
    for (int i = 0; i < cluster_.link_size(); ++i) {
      const std::string& name = cluster_.link(i).name();
      if (links.contains(name)) continue;
      return text_.error({{"link", i}, {"name"}},
                         fmt::format("link \"{}\" is used by no host and no rack; name it in one, "
                                     "or remove it",
                                     name));
    }
    for (int i = 0; i < cluster_.rack_size(); ++i) {
      const std::string& name = cluster_.rack(i).name();
      if (racks.contains(name)) continue;
      return text_.error(
          {{"rack", i}, {"name"}},
          fmt::format("rack \"{}\" has no host; name it in one, or remove it", name));
    }
    return ok();
  }
  /// Whether no name of a host or of its machines is one of an earlier host's: "gpu1" may also be a
  /// machine of "gpu", and its machine gpu10 another one of them.
  /// known  names so far
  [[nodiscard]] Result<void> are_new(std::set<std::string>& known, int number) const {
    const pb::LabHost& host = cluster_.host(number);
    for (const std::string& name : names_of(host)) {
      if (known.insert(name).second) continue;
      return text_.error({{"host", number}, {"name"}},
                         fmt::format("host \"{}\": \"{}\" is a machine of another host too; give "
                                     "another name",
                                     host.name(), name));
    }
    return ok();
  }
  /// The names of a host and, if it has several machines, of each of them.
  [[nodiscard]] static std::vector<std::string> names_of(const pb::LabHost& host) {
    std::vector<std::string> names = {host.name()};
    for (std::uint32_t i = 0; host.count() > 1 && i < host.count(); ++i) {
      names.push_back(fmt::format("{}{}", host.name(), i));
    }
    return names;
  }
  [[nodiscard]] bool is_sum_of_links(const std::string& rack) const {
    const auto found = std::ranges::find(cluster_.rack(), rack, &pb::LabRack::name);
    return found != cluster_.rack().end() && found->has_oversubscription();
  }
  [[nodiscard]] Result<void> compute() const {
    const pb::LabCompute& compute = cluster_.compute();
    if (compute.layer_size() > 0 && compute.has_clock_ms()) {
      return text_.error({{"compute"}, {"clock_ms"}},
                         "compute has layers and clock_ms; give one of them");
    }
    constexpr double kMaxLayer_us = 1e9;
    for (int i = 0; i < compute.layer_size(); ++i) {
      const pb::LabLayer& layer = compute.layer(i);
      TAUT_TRY(
          is_in({{"compute"}, {"layer", i}, {"forward_us"}}, layer.forward_us(), 0, kMaxLayer_us));
      TAUT_TRY(is_in({{"compute"}, {"layer", i}, {"backward_us"}}, layer.backward_us(), 0,
                     kMaxLayer_us));
    }
    if (compute.has_clock_ms()) {
      TAUT_TRY(is_above({{"compute"}, {"clock_ms"}}, compute.clock_ms(), 1e7));
    }
    TAUT_TRY(is_in({{"compute"}, {"feed_us"}}, compute.feed_us(), 0, kMaxLayer_us));
    if (compute.has_batch()) {
      TAUT_TRY(is_in({{"compute"}, {"batch"}}, compute.batch(), 1, 1e9));
    }
    TAUT_TRY(is_above({{"compute"}, {"deviation"}}, compute.deviation(), 10));
    TAUT_TRY(is_in({{"compute"}, {"shape"}}, compute.shape(), 1.1, 100));
    TAUT_TRY(is_in({{"compute"}, {"burst_factor"}}, compute.burst_factor(), 1, 1e4));
    TAUT_TRY(is_in({{"compute"}, {"burst_clocks"}}, compute.burst_clocks(), 1, 1e6));
    TAUT_TRY(is_in({{"compute"}, {"burst_share"}}, compute.burst_share(), 0, 1));
    return times();
  }
  [[nodiscard]] Result<void> times() const {
    const pb::LabCompute& compute = cluster_.compute();
    for (int i = 0; i < compute.time_ms_size(); ++i) {
      TAUT_TRY(is_above({{"compute"}, {"time_ms", i}}, compute.time_ms(i), 1e7));
    }
    const bool is_trace = compute.spread() == pb::LabCompute::TRACE;
    const bool has_times = compute.time_ms_size() > 0 || compute.has_times_file();
    if (is_trace == has_times) return ok();
    if (is_trace) {
      return text_.error({{"compute"}, {"spread"}},
                         "spread TRACE without times; give time_ms or times_file");
    }
    const PlacedText::Step times =
        compute.has_times_file() ? PlacedText::Step{"times_file"} : PlacedText::Step{"time_ms", 0};
    return text_.error({{"compute"}, times},
                       "time_ms and times_file are for spread: TRACE; set it");
  }
  [[nodiscard]] Result<void> outages() const {
    constexpr double kMax_s = 1e9;
    constexpr double kMaxNotice_s = 86'400;
    std::vector<std::string> known;
    for (const pb::LabHost& host : cluster_.host()) {
      std::ranges::move(names_of(host), std::back_inserter(known));
    }
    for (int i = 0; i < cluster_.outage_size(); ++i) {
      const pb::LabOutage& outage = cluster_.outage(i);
      TAUT_TRY(is_known({{"outage", i}, {"host"}}, outage.host(), "host", known));
      if (outage.has_at_s() == outage.has_per_hour()) {
        return text_.error({{"outage", i}, {"per_hour"}},
                           "an outage has either at_s or per_hour; give one of them");
      }
      TAUT_TRY(is_in({{"outage", i}, {"at_s"}}, outage.at_s(), 0, kMax_s));
      if (outage.has_per_hour()) {
        TAUT_TRY(is_above({{"outage", i}, {"per_hour"}}, outage.per_hour(), 3600));
      }
      TAUT_TRY(is_in({{"outage", i}, {"notice_s"}}, outage.notice_s(), 0, kMaxNotice_s));
      TAUT_TRY(is_in({{"outage", i}, {"back_s"}}, outage.back_s(), 0, kMax_s));
    }
    return ok();
  }
  [[nodiscard]] Result<void> control() const {
    const pb::LabControl& control = cluster_.control();
    TAUT_TRY(is_in({{"control"}, {"heartbeat_limit_s"}}, control.heartbeat_limit_s(), 0.1, 86'400));
    TAUT_TRY(
        is_in({{"control"}, {"replication_interval"}}, control.replication_interval(), 0, 1000));
    TAUT_TRY(is_in({{"control"}, {"replication_copies"}}, control.replication_copies(), 1, 7));
    return is_in({{"control"}, {"worker_wait_s"}}, control.worker_wait_s(), 0, 604'800);
  }
  [[nodiscard]] Result<void> costs() const {
    constexpr double kMax = 1e6;
    const pb::LabCosts& costs = cluster_.costs();
    TAUT_TRY(is_in({{"costs"}, {"shard_message_us"}}, costs.shard_message_us(), 0, kMax));
    TAUT_TRY(is_in({{"costs"}, {"shard_us_per_mib"}}, costs.shard_us_per_mib(), 0, kMax));
    TAUT_TRY(is_in({{"costs"}, {"client_message_us"}}, costs.client_message_us(), 0, kMax));
    TAUT_TRY(is_in({{"costs"}, {"client_us_per_mib"}}, costs.client_us_per_mib(), 0, kMax));
    TAUT_TRY(is_in({{"costs"}, {"apply_us_per_mib"}}, costs.apply_us_per_mib(), 0, kMax));
    return codecs();
  }
  [[nodiscard]] Result<void> codecs() const {
    constexpr double kMax = 1e7;
    std::vector<std::string> known;
    for (std::size_t i = 1; i < math::kCodecs; ++i) {
      known.emplace_back(math::to_string(static_cast<math::Codec>(i)));
    }
    std::set<std::string> names;
    for (int i = 0; i < cluster_.costs().codec_size(); ++i) {
      const pb::LabCodec& codec = cluster_.costs().codec(i);
      TAUT_TRY(is_new(names, codec.name(), "codec", {{"costs"}, {"codec", i}, {"name"}}));
      if (std::ranges::count(known, codec.name()) == 0) {
        return text_.error({{"costs"}, {"codec", i}, {"name"}},
                           fmt::format("no codec \"{}\"; must be one of {}", codec.name(),
                                       fmt::join(known, ", ")));
      }
      TAUT_TRY(is_in({{"costs"}, {"codec", i}, {"encode_us_per_mib"}}, codec.encode_us_per_mib(), 0,
                     kMax));
      TAUT_TRY(is_in({{"costs"}, {"codec", i}, {"decode_us_per_mib"}}, codec.decode_us_per_mib(), 0,
                     kMax));
    }
    return ok();
  }

  [[nodiscard]] Result<void> is_in(const Steps& steps, double value, double low,
                                   double high) const {
    if (value >= low && value <= high) return ok();
    return text_.error(steps, fmt::format("{} must be between {} and {}, is {}", steps.back().field,
                                          low, high, value));
  }
  [[nodiscard]] Result<void> is_above(const Steps& steps, double value, double high) const {
    if (value > 0 && value <= high) return ok();
    return text_.error(steps, fmt::format("{} must be greater than 0 and at most {}, is {}",
                                          steps.back().field, high, value));
  }
  [[nodiscard]] Result<void> is_new(std::set<std::string>& names, const std::string& name,
                                    const char* kind, const Steps& steps) const {
    if (name.empty()) return text_.error(steps, fmt::format("a {} has no name; give one", kind));
    if (const std::string shown = printable(name, Lines::kOne); shown != name) {
      return text_.error(
          steps,
          fmt::format("{} \"{}\" has control characters in its name; omit them", kind, shown));
    }
    if (names.insert(name).second) return ok();
    return text_.error(steps,
                       fmt::format("{} \"{}\" is given twice; give another name", kind, name));
  }
  [[nodiscard]] Result<void> is_link(const Steps& steps, const std::string& name) const {
    std::vector<std::string> known;
    for (const pb::LabLink& link : cluster_.link()) known.push_back(link.name());
    return is_known(steps, name, "link", known);
  }
  [[nodiscard]] Result<void> is_rack(const Steps& steps, const std::string& name) const {
    std::vector<std::string> known;
    for (const pb::LabRack& rack : cluster_.rack()) known.push_back(rack.name());
    return is_known(steps, name, "rack", known);
  }
  [[nodiscard]] Result<void> is_known(const Steps& steps, const std::string& name, const char* kind,
                                      const std::vector<std::string>& known) const {
    for (const std::string& one : known) {
      if (one == name) return ok();
    }
    if (name.empty()) {
      return text_.error(steps,
                         std::string_view(kind) == "host"
                             ? "an outage without a host; name one"
                             : fmt::format("a host without a {} among several; name one", kind));
    }
    std::string advice = did_you_mean(name, known);
    if (advice.empty()) advice = fmt::format("; add {} {{ name: \"{}\" }}", kind, name);
    return text_.error(steps, fmt::format("no {} \"{}\"{}", kind, name, advice));
  }

  const pb::LabCluster& cluster_;
  const PlacedText& text_;
};

}  // namespace

Result<pb::LabCluster> parse_lab_cluster(std::string_view text, const std::string& name) {
  pb::LabCluster cluster;
  PlacedText places;
  TAUT_TRY(places.read(text, name, cluster));
  TAUT_TRY(Check(cluster, places).run());
  return cluster;
}

Result<pb::LabCluster> read_lab_cluster(const std::filesystem::path& path) {
  TAUT_TRY(const std::string text, read_file(path, kMaxText));
  TAUT_TRY(pb::LabCluster cluster, parse_lab_cluster(text, path.string()));
  if (!cluster.compute().has_times_file()) return cluster;
  pb::LabCompute& compute = *cluster.mutable_compute();
  TAUT_TRY(const std::vector<double> times,
           read_compute_times(path.parent_path() / compute.times_file()));
  compute.mutable_time_ms()->Add(times.begin(), times.end());
  compute.clear_times_file();
  return cluster;
}

Error lab_cluster_error(const std::filesystem::path& path,
                        const std::vector<PlacedText::Step>& steps, const std::string& what) {
  if (path.empty()) return invalid(what);
  const auto text = read_file(path, kMaxText);
  pb::LabCluster cluster;
  PlacedText places;
  if (!text || !places.read(text.value(), path.string(), cluster)) {
    return invalid(fmt::format("{}: {}", path.string(), what));
  }
  return places.error(steps, what);
}

}  // namespace taut

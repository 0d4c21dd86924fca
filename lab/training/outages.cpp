#include "lab/training/outages.hpp"

#include <fmt/format.h>

#include <cmath>

#include "common/log.hpp"

namespace taut::lab {

double wait_s(sim::Random& random, double per_hour) {
  constexpr double kHour_s = 3600;
  // In (0, 1].
  const double unit = static_cast<double>((random.next() >> 11U) + 1) * 0x1p-53;
  return -std::log(unit) * kHour_s / per_hour;
}

Outages::Outages(World& world, Processes& processes, const pb::LabCluster& cluster,
                 std::uint64_t seed, TimePoint limit)
    : world_(world), processes_(processes), limit_(limit), is_affected_(world.machines.size()) {
  const auto& hosts = world.topology->hosts();
  for (int i = 0; i < cluster.outage_size(); ++i) {
    for (std::size_t host = 0; host < hosts.size(); ++host) {
      const std::string& name = cluster.outage(i).host();
      if (hosts[host].name != name && hosts[host].kind != name) continue;
      const auto number = static_cast<std::uint64_t>(i) << 32U | host;
      sources_.push_back({cluster.outage(i), host,
                          sim::Random(sim::Random::mix(~seed ^ sim::Random::mix(number)))});
    }
  }
}

double Outages::since_submitted_s() const {
  return seconds(world_.now() - begun_);
}

void Outages::begin() {
  begun_ = world_.now();
  for (std::size_t i = 0; i < sources_.size(); ++i) expect(i);
}

void Outages::expect(std::size_t number) {
  OutageSource& source = sources_[number];
  const pb::LabOutage& outage = source.outage;
  const double wait = outage.has_at_s() ? outage.at_s() : wait_s(source.random, outage.per_hour());
  const TimePoint at = world_.now() + from_seconds(wait);
  if (at <= limit_) world_.agenda.at(at, [this, number] { trigger(number); });
}

void Outages::trigger(std::size_t number) {
  const OutageSource& source = sources_[number];
  if (is_affected_[source.host]) {
    if (source.outage.has_per_hour()) expect(number);
    return;
  }
  is_affected_[source.host] = true;
  if (source.outage.notice_s() <= 0) return take_down(number);
  log::info("host {} goes away in {:g} s", world_.topology->hosts()[source.host].name,
            source.outage.notice_s());
  processes_.give_notice(source.host);
  world_.agenda.at(world_.now() + from_seconds(source.outage.notice_s()),
                   [this, number] { take_down(number); });
}

void Outages::take_down(std::size_t number) {
  const OutageSource& source = sources_[number];
  const pb::LabOutage& outage = source.outage;
  const std::string& name = world_.topology->hosts()[source.host].name;
  log::info("host {} is gone", name);
  processes_.stop(source.host);
  losses_.push_back({name, since_submitted_s(), std::nullopt, outage.notice_s() > 0});
  if (!outage.has_back_s()) return;
  world_.agenda.at(world_.now() + from_seconds(outage.back_s()),
                   [this, number, loss = losses_.size() - 1] { bring_back(number, loss); });
}

void Outages::bring_back(std::size_t number, std::size_t loss) {
  const OutageSource& source = sources_[number];
  log::info("host {} is back", losses_[loss].host);
  losses_[loss].back_s = since_submitted_s();
  is_affected_[source.host] = false;
  if (world_.timeline != nullptr) {
    const TimePoint gone = begun_ + from_seconds(losses_[loss].at_s);
    for (const sim::NodeId node : processes_.on_host(source.host)) {
      world_.timeline->add({.process = node, .kind = VirtualTimeline::Kind::kPause}, "away",
                           Clock(-1), gone, world_.now());
    }
  }
  processes_.start_again(source.host);
  if (source.outage.has_per_hour()) expect(number);
}

}  // namespace taut::lab

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
      threats_.push_back({cluster.outage(i), host,
                          sim::Random(sim::Random::mix(~seed ^ sim::Random::mix(number)))});
    }
  }
}

double Outages::since_submitted_s() const {
  return seconds(world_.now() - begun_);
}

void Outages::begin() {
  begun_ = world_.now();
  for (std::size_t i = 0; i < threats_.size(); ++i) expect(i);
}

void Outages::expect(std::size_t number) {
  Threat& threat = threats_[number];
  const pb::LabOutage& outage = threat.outage;
  const double wait = outage.has_at_s() ? outage.at_s() : wait_s(threat.random, outage.per_hour());
  const TimePoint at = world_.now() + from_seconds(wait);
  if (at <= limit_) world_.agenda.at(at, [this, number] { happen(number); });
}

void Outages::happen(std::size_t number) {
  const Threat& threat = threats_[number];
  if (is_affected_[threat.host]) {
    if (threat.outage.has_per_hour()) expect(number);
    return;
  }
  is_affected_[threat.host] = true;
  if (threat.outage.notice_s() <= 0) return take_down(number);
  log::info("host {} goes away in {:g} s", world_.topology->hosts()[threat.host].name,
            threat.outage.notice_s());
  processes_.give_notice(threat.host);
  world_.agenda.at(world_.now() + from_seconds(threat.outage.notice_s()),
                   [this, number] { take_down(number); });
}

void Outages::take_down(std::size_t number) {
  const Threat& threat = threats_[number];
  const pb::LabOutage& outage = threat.outage;
  const std::string& name = world_.topology->hosts()[threat.host].name;
  log::info("host {} is gone", name);
  processes_.stop(threat.host);
  losses_.push_back({name, since_submitted_s(), std::nullopt, outage.notice_s() > 0});
  if (!outage.has_back_s()) return;
  world_.agenda.at(world_.now() + from_seconds(outage.back_s()),
                   [this, number, loss = losses_.size() - 1] { bring_back(number, loss); });
}

void Outages::bring_back(std::size_t number, std::size_t loss) {
  const Threat& threat = threats_[number];
  log::info("host {} is back", losses_[loss].host);
  losses_[loss].back_s = since_submitted_s();
  is_affected_[threat.host] = false;
  if (world_.timeline != nullptr) {
    const TimePoint gone = begun_ + from_seconds(losses_[loss].at_s);
    for (const sim::NodeId node : processes_.on_host(threat.host)) {
      world_.timeline->add({.process = node, .kind = VirtualTimeline::Kind::kPause}, "away",
                           Clock(-1), gone, world_.now());
    }
  }
  processes_.start_again(threat.host);
  if (threat.outage.has_per_hour()) expect(number);
}

}  // namespace taut::lab

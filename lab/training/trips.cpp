#include <algorithm>
#include <cmath>
#include <utility>

#include "lab/training/topology.hpp"

// How messages pass the links of a cluster.

namespace taut::lab {
namespace {

double to_us(TimePoint time) {
  return static_cast<double>(time.since_origin().count());
}

TimePoint from_us(double us) {
  return TimePoint(from_microseconds(us));
}

}  // namespace

/// Books a message on a link, behind earlier ones. Returns when it leaves the link.
Topology::Front Topology::pass(std::uint32_t number, const Trip& trip, const Front& front) {
  Pipe& pipe = pipes_[number];
  const double takes = static_cast<double>(trip.bytes) * pipe.us_per_byte;
  const double start = std::max(front.head_us, to_us(pipe.free_at));
  const double end = std::max(start + takes, front.tail_us);
  pipe.free_at = from_us(end);
  pipe.bytes += trip.bytes;
  ++pipe.messages;
  pipe.busy_us += takes;
  if (notify_) {
    notify_({number, trip.from, trip.to, from_us(start), pipe.free_at, takes});
  }
  double later = pipe.latency_us;
  if (pipe.jitter_us > 0) later += pipe.jitter_us * draw();
  return {start + later, end + later};
}

double Topology::losses_us(const FairLinks::Way& way, std::uint64_t bytes) {
  double path_us = 0;
  for (const std::uint32_t number : way.links()) path_us += pipes_[number].latency_us;
  double later = 0;
  for (const std::uint32_t number : way.links()) later += loss_us(pipes_[number], bytes, path_us);
  return later;
}

TimePoint Topology::arrival(sim::NodeId from, sim::NodeId to, std::uint64_t bytes, TimePoint now) {
  const FairLinks::Way way = way_of(from, to);
  const Trip trip{.from = from, .to = to, .bytes = bytes};
  Front front{to_us(now), to_us(now)};
  for (const std::uint32_t number : way.links()) front = pass(number, trip, front);
  return from_us(front.tail_us + losses_us(way, bytes));
}

/// Lets a message pass the next link of its way, which its first byte has reached.
void Topology::continue_trip(Leg leg) {
  const Trip& trip = trips_[leg.flight];
  const FairLinks::Way way = way_of(trip.from, trip.to);
  leg.front = pass(way.link[leg.links], trip, leg.front);
  if (++leg.links == way.count) {
    const double at_us = leg.front.tail_us + losses_us(way, trip.bytes);
    known_.push_back({leg.flight, from_us(at_us)});
    return;
  }
  if (keep_order_) {
    // Jitter does not let a message of a connection overtake another one.
    if (trip.connection >= newest_us_.size()) newest_us_.resize(trip.connection + 1);
    double& newest_us = newest_us_[trip.connection][leg.links];
    leg.front.head_us = newest_us = std::max(newest_us, leg.front.head_us);
  }
  leg.at = from_us(leg.front.head_us);
  leg.order = order_++;
  legs_.push_back(leg);
  std::push_heap(legs_.begin(), legs_.end());
}

void Topology::share_fairly() {
  std::vector<double> us_per_byte;
  us_per_byte.reserve(pipes_.size());
  for (const Pipe& pipe : pipes_) us_per_byte.push_back(pipe.us_per_byte);
  fair_.emplace(std::move(us_per_byte));
  fair_->on_pass([this](const FairLinks::Passage& passage) {
    if (!notify_) return;
    const Trip& trip = trips_[passage.flight];
    notify_({passage.link, trip.from, trip.to, from_us(passage.begin_us), from_us(passage.end_us),
             static_cast<double>(trip.bytes) * pipes_[passage.link].us_per_byte});
  });
}

void Topology::count(const Trip& trip) {
  const auto is_server = [this](sim::NodeId node) { return node > kUser && node < worker_node(0); };
  const auto is_worker = [this](sim::NodeId node) { return node >= worker_node(0); };
  if (trip.to == kCoordinator) coordinator_.count_in(trip.bytes);
  if (trip.from == kCoordinator) coordinator_.count_out(trip.bytes);
  if (is_worker(trip.from) && is_server(trip.to)) servers_of_workers_.count_in(trip.bytes);
  if (is_server(trip.from) && is_worker(trip.to)) servers_of_workers_.count_out(trip.bytes);
}

std::optional<TimePoint> Topology::depart(const Trip& trip, TimePoint now) {
  count(trip);
  if (trip.flight >= trips_.size()) trips_.resize(trip.flight + 1);
  trips_[trip.flight] = trip;
  if (!fair_) {
    continue_trip({.flight = trip.flight, .front = {to_us(now), to_us(now)}});
    return std::nullopt;
  }
  const FairLinks::Way way = way_of(trip.from, trip.to);
  for (const std::uint32_t number : way.links()) {
    Pipe& pipe = pipes_[number];
    pipe.bytes += trip.bytes;
    ++pipe.messages;
    pipe.busy_us += static_cast<double>(trip.bytes) * pipe.us_per_byte;
  }
  fair_->send(trip.connection, {trip.flight, trip.bytes, way}, now);
  return std::nullopt;
}

TimePoint Topology::next() const {
  if (fair_) return fair_->next();
  return legs_.empty() ? TimePoint::never() : legs_.front().at;
}

void Topology::advance(TimePoint now) {
  if (fair_) fair_->advance(now);
  while (!legs_.empty() && legs_.front().at <= now) {
    std::pop_heap(legs_.begin(), legs_.end());
    const Leg leg = legs_.back();
    legs_.pop_back();
    continue_trip(leg);
  }
}

std::vector<sim::Journey::Arrival> Topology::take_known() {
  std::vector<Arrival> known = std::exchange(known_, {});
  if (!fair_) return known;
  for (const FairLinks::Passed& passed : fair_->take_passed()) {
    const Trip& trip = trips_[passed.flight];
    const double later = later_us(way_of(trip.from, trip.to), trip.bytes);
    known.push_back({passed.flight, from_us(passed.at_us + later)});
  }
  return known;
}

double Topology::later_us(const FairLinks::Way& way, std::uint64_t bytes) {
  double path_us = 0;
  double later = 0;
  for (const std::uint32_t number : way.links()) {
    const Pipe& pipe = pipes_[number];
    path_us += pipe.latency_us;
    if (pipe.jitter_us > 0) later += pipe.jitter_us * draw();
  }
  for (const std::uint32_t number : way.links()) later += loss_us(pipes_[number], bytes, path_us);
  return path_us + later;
}

double Topology::draw() {
  constexpr double kUnit = 0x1p-53;
  return static_cast<double>(random_.next() >> 11U) * kUnit;
}

/// Source    RFC 5681: three later segments have a lost one sent again at once; RFC 6298, and the
///           minimum retransmission timeout of Linux, 200 ms, if too few follow
double Topology::loss_us(const Pipe& pipe, std::uint64_t bytes, double path_us) {
  constexpr double kPacket = 1448;
  constexpr double kFollowing = 3;
  constexpr double kTimeout_us = 200e3;
  if (pipe.loss <= 0) return 0;
  const double packets = std::max(1.0, std::ceil(static_cast<double>(bytes) / kPacket));
  const auto any_of = [&](double count) { return 1 - std::pow(1 - pipe.loss, count); };
  const double drawn = draw();
  if (drawn < any_of(std::min(packets, kFollowing))) return kTimeout_us;
  return drawn < any_of(packets) ? 2 * path_us : 0;
}

}  // namespace taut::lab

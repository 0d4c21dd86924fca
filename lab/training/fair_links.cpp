#include "lab/training/fair_links.hpp"

#include <algorithm>
#include <utility>

#include "common/check.hpp"

namespace taut::lab {
namespace {

// Microseconds: the rounding error that may remain.
constexpr double kRest_us = 1e-6;

double microseconds_of(TimePoint time) {
  return static_cast<double>(time.since_origin().count());
}

}  // namespace

FairLinks::FairLinks(std::vector<double> us_per_byte) {
  links_.resize(us_per_byte.size());
  for (std::size_t i = 0; i < links_.size(); ++i) links_[i].us_per_byte = us_per_byte[i];
}

std::uint32_t FairLinks::queue(const Message& message) {
  if (free_.empty()) {
    queued_.push_back({message});
    return static_cast<std::uint32_t>(queued_.size() - 1);
  }
  const std::uint32_t place = free_.back();
  free_.pop_back();
  queued_[place] = {message};
  return place;
}

void FairLinks::send(std::uint32_t number, const Message& message, TimePoint now) {
  TAUT_CHECK(message.way.count > 0, "a message passes at least one link");
  if (number >= connections_.size()) connections_.resize(number + 1);
  const std::uint32_t place = queue(message);
  Connection& connection = connections_[number];
  if (connection.first != kNone) {
    queued_[std::exchange(connection.last, place)].next = place;
    return;
  }
  connection.first = connection.last = place;
  set_out(number, microseconds_of(now));
  settle(microseconds_of(now));
}

/// Gives a connection's first message its share of each link of its way.
void FairLinks::set_out(std::uint32_t number, double now_us) {
  Connection& connection = connections_[number];
  const Message& message = queued_[connection.first].message;
  connection.links_left = message.way.count;
  connection.passed_us = now_us;
  for (const std::uint32_t one : message.way.links()) {
    advance(one, now_us);
    Link& link = links_[one];
    if (link.shares.empty()) link.attained = 0;
    link.shares.push_back(
        {link.attained + static_cast<double>(message.bytes), order_++, number, now_us});
    std::push_heap(link.shares.begin(), link.shares.end());
    plan(one);
  }
}

/// Lets a link carry its messages until now.
void FairLinks::advance(std::uint32_t number, double now_us) {
  Link& link = links_[number];
  while (!link.shares.empty()) {
    const double each_us = link.us_per_byte * static_cast<double>(link.shares.size());
    const double left_us = std::max(0.0, (link.shares.front().finish - link.attained) * each_us);
    if (link.last_us + left_us > now_us + kRest_us) {
      link.attained += (now_us - link.last_us) / each_us;
      break;
    }
    link.last_us = std::min(link.last_us + left_us, now_us);
    link.attained = link.shares.front().finish;
    leave(link, number);
  }
  link.last_us = now_us;
}

/// The next message of a link has passed it.
void FairLinks::leave(Link& link, std::uint32_t number) {
  std::pop_heap(link.shares.begin(), link.shares.end());
  const Share share = link.shares.back();
  link.shares.pop_back();
  Connection& connection = connections_[share.connection];
  connection.passed_us = std::max(connection.passed_us, link.last_us);
  if (notify_) {
    notify_({number, queued_[connection.first].message.flight, share.begin_us, link.last_us});
  }
  if (--connection.links_left == 0) through_.push_back(share.connection);
}

/// Reports the messages that have passed, and lets the next ones on the same connections depart.
void FairLinks::settle(double now_us) {
  while (!through_.empty()) {
    for (const std::uint32_t number : std::exchange(through_, {})) {
      Connection& connection = connections_[number];
      const std::uint32_t place = connection.first;
      passed_.push_back({queued_[place].message.flight, connection.passed_us});
      connection.first = queued_[place].next;
      free_.push_back(place);
      if (connection.first != kNone) set_out(number, now_us);
    }
  }
}

/// Plans when the next message of a link has passed, at the present shares.
void FairLinks::plan(std::uint32_t number) {
  Link& link = links_[number];
  if (link.shares.empty()) return;
  const double each_us = link.us_per_byte * static_cast<double>(link.shares.size());
  const double left_us = std::max(0.0, (link.shares.front().finish - link.attained) * each_us);
  const TimePoint at(from_microseconds(link.last_us + left_us - kRest_us));
  if (at >= link.planned) return;
  link.planned = at;
  plans_.push_back({at, order_++, number});
  std::push_heap(plans_.begin(), plans_.end());
}

void FairLinks::advance(TimePoint now) {
  while (next() <= now) {
    const Plan due = plans_.front();
    std::pop_heap(plans_.begin(), plans_.end());
    plans_.pop_back();
    Link& link = links_[due.link];
    if (link.planned != due.at) continue;
    link.planned = TimePoint::never();
    advance(due.link, microseconds_of(now));
    settle(microseconds_of(now));
    plan(due.link);
  }
}

}  // namespace taut::lab

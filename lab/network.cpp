#include "lab/network.hpp"

#include <algorithm>
#include <utility>

#include "common/check.hpp"
#include "proto/control_message.hpp"

namespace taut::sim {
namespace {

/// The message as it arrives after encoding and decoding.
Body through_frames(const Body& body) {
  if (std::holds_alternative<Message>(body)) return body;
  if (const auto* data = std::get_if<DataMessage>(&body)) {
    auto again = decode_data(encode(*data));
    TAUT_CHECK(again.has_value(), "a data message of ours does not decode");
    return std::move(again.value());
  }
  auto again = decode_control(encode(std::get<pb::ControlMessage>(body)));
  TAUT_CHECK(again.has_value(), "a control message of ours does not decode");
  return std::move(again.value());
}

std::uint64_t bytes_of(const Message& message) {
  std::uint64_t bytes = 0;
  for (const Frame& frame : message.frames) bytes += frame.size();
  return bytes;
}

std::uint64_t bytes_of(const Body& body) {
  if (const auto* message = std::get_if<Message>(&body)) return bytes_of(*message);
  if (const auto* data = std::get_if<DataMessage>(&body)) return bytes_of(encode(*data));
  return std::get<pb::ControlMessage>(body).ByteSizeLong();
}

}  // namespace

Network::Network(std::uint64_t seed, LinkFaults faults, double framed)
    : random_(seed), faults_(faults), framed_(framed) {}

Network::Network(Journey& journey) : random_(0), framed_(0), journey_(&journey) {}

SocketId Network::open(NodeId node) {
  sockets_.push_back({.node = node});
  return static_cast<SocketId>(sockets_.size() - 1);
}

std::uint32_t Network::address_number(const std::string& address) {
  const auto [entry, added] =
      addresses_.try_emplace(address, static_cast<std::uint32_t>(bound_.size()));
  if (added) {
    bound_.emplace_back();
    to_.emplace_back();
  }
  return entry->second;
}

void Network::listen(SocketId socket, const std::string& address) {
  const std::uint32_t number = address_number(address);
  TAUT_CHECK(!bound_[number], "two sockets listen on one address");
  bound_[number] = socket;
  sockets_[socket].addresses.push_back(number);
}

PeerId Network::new_peer(std::uint32_t link, bool leads_to_listener) {
  peers_.push_back({link, leads_to_listener});
  return PeerId(peers_.size() - 1);
}

PeerId Network::connect(SocketId socket, const std::string& address) {
  const auto number = static_cast<std::uint32_t>(links_.size());
  Link& link = links_.emplace_back();
  link.connecting = socket;
  link.address = address_number(address);
  sockets_[socket].links.push_back(number);
  to_[link.address].push_back(number);
  link.at_connecting = new_peer(number, true);
  return link.at_connecting;
}

void Network::break_link(Link& link) {
  ++link.generation;
  if (link.at_listening) closed_.push_back(*link.at_listening);
  link.at_listening.reset();
}

void Network::disconnect(PeerId peer) {
  Link& link = links_[peers_[peer.value()].link];
  break_link(link);
  link.alive = false;
}

void Network::close(SocketId socket) {
  Socket& one = sockets_[socket];
  one.open = false;
  std::vector<std::uint32_t> ending = std::exchange(one.links, {});
  for (const std::uint32_t address : std::exchange(one.addresses, {})) {
    bound_[address].reset();
    ending.insert(ending.end(), to_[address].begin(), to_[address].end());
  }
  // Each once, in the order in which they were connected.
  std::ranges::sort(ending);
  ending.erase(std::unique(ending.begin(), ending.end()), ending.end());
  for (const std::uint32_t number : ending) {
    Link& link = links_[number];
    if (link.connecting == socket) {
      break_link(link);
      link.alive = false;
    } else if (link.at_listening) {
      break_link(link);
    }
  }
}

void Network::end(NodeId node) {
  for (std::size_t i = 0; i < sockets_.size(); ++i) {
    if (sockets_[i].open && sockets_[i].node == node) close(static_cast<SocketId>(i));
  }
}

void Network::break_connections(NodeId node) {
  for (Link& link : links_) {
    const auto listener = bound_[link.address];
    const bool ends_here =
        sockets_[link.connecting].node == node || (listener && sockets_[*listener].node == node);
    if (link.alive && ends_here) break_link(link);
  }
}

void Network::block(NodeId a, NodeId b, bool blocked) {
  if (blocked) {
    blocked_.emplace(a, b);
  } else {
    blocked_.erase({a, b});
  }
}

void Network::send(SocketId from, PeerId to, Body body) {
  const Peer& peer = peers_[to.value()];
  const Link& link = links_[peer.link];
  const auto listener = bound_[link.address];
  if (!link.alive || !listener) return;
  if (!peer.leads_to_listener && link.at_listening != to) return;  // the peer has gone
  const NodeId target = sockets_[peer.leads_to_listener ? *listener : link.connecting].node;
  if (blocked_.contains({sockets_[from].node, target}) || random_.chance(faults_.drop)) return;
  if (random_.chance(framed_)) body = through_frames(body);
  if (random_.chance(faults_.duplicate)) schedule(peer.link, peer.leads_to_listener, body);
  schedule(peer.link, peer.leads_to_listener, std::move(body));
}

std::optional<TimePoint> Network::depart(std::uint32_t number) {
  if (journey_ == nullptr) {
    return now_ + Duration(random_.between(faults_.delay_min.count(), faults_.delay_max.count()));
  }
  const Flight& flight = flights_[number];
  const Link& link = links_[flight.link];
  NodeId from = sockets_[link.connecting].node;
  NodeId to = sockets_[*bound_[link.address]].node;
  if (!flight.to_listener) std::swap(from, to);
  return journey_->depart(
      {number, 2 * flight.link + (flight.to_listener ? 1U : 0U), from, to, bytes_of(flight.body)},
      now_);
}

std::uint32_t Network::add_flight(Flight flight) {
  if (free_.empty()) {
    flights_.push_back(std::move(flight));
    return static_cast<std::uint32_t>(flights_.size() - 1);
  }
  const std::uint32_t place = free_.back();
  free_.pop_back();
  flights_[place] = std::move(flight);
  return place;
}

void Network::schedule(std::uint32_t number, bool to_listener, Body body) {
  const std::uint32_t flight =
      add_flight({number, links_[number].generation, to_listener, std::move(body)});
  if (const auto at = depart(flight)) {
    expect(flight, *at);
  } else {
    expect_known();
  }
}

void Network::expect_known() {
  for (const Journey::Arrival& known : journey_->take_known()) expect(known.flight, known.at);
}

void Network::expect(std::uint32_t number, TimePoint at) {
  const Flight& flight = flights_[number];
  TimePoint& last = links_[flight.link].last[flight.to_listener ? 1 : 0];
  if (!faults_.reorder) at = last = std::max(at, last);
  due_.push_back({at, order_++, number});
  std::push_heap(due_.begin(), due_.end());
}

std::optional<Delivery> Network::take_next() {
  if (const TimePoint change = next_change(); change < next_arrival()) {
    now_ = std::max(now_, change);
    journey_->advance(now_);
    expect_known();
    return std::nullopt;
  }
  std::pop_heap(due_.begin(), due_.end());
  const Due due = due_.back();
  due_.pop_back();
  now_ = std::max(now_, due.at);
  Flight& flight = flights_[due.flight];
  free_.push_back(due.flight);
  Body body = std::move(flight.body);
  Link& link = links_[flight.link];
  if (!link.alive || flight.generation != link.generation) return std::nullopt;
  if (!flight.to_listener) {
    ++delivered_;
    return Delivery{link.connecting, link.at_connecting, std::move(body)};
  }
  const auto listener = bound_[link.address];
  if (!listener) return std::nullopt;
  if (!link.at_listening) link.at_listening = new_peer(flight.link, false);
  ++delivered_;
  return Delivery{*listener, *link.at_listening, std::move(body)};
}

}  // namespace taut::sim

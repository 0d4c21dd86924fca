#include "common/net/memory_network.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>

#include "common/check.hpp"

namespace taut {

class MemoryEndpoint;

namespace {

/// One direction of a connection ends at a peer number of the receiving endpoint.
struct Link {
  std::string address;  // requested by the connecting side
  MemoryEndpoint* connecting = nullptr;
  PeerId at_connecting;          // how the connecting side names the listener
  PeerId at_listening;           // how the listener names the connecting side; changes on a break
  std::uint64_t generation = 0;  // grows when the connection breaks
  TimePoint last_to_listener;
  TimePoint last_to_connecting;
};

struct Flight {
  std::shared_ptr<Link> link;
  bool to_listener = false;
  std::uint64_t generation = 0;
  Message message;
};

}  // namespace

struct MemoryNetwork::State {
  State(std::uint64_t seed, NetworkFaults what) : random(seed), faults(what) {}

  void send(const std::shared_ptr<Link>& link, bool to_listener, const Message& message);
  void deliver(Flight& flight);
  bool step(TimePoint until);
  [[nodiscard]] bool parted(const Link& link, bool to_listener) const;
  [[nodiscard]] std::string name_of(const MemoryEndpoint* endpoint) const;
  void schedule(const std::shared_ptr<Link>& link, bool to_listener, const Message& message);

  std::mt19937_64 random;
  NetworkFaults faults;
  TimePoint now{Duration(0)};
  std::uint64_t order = 0;
  std::uint64_t delivered = 0;
  std::map<std::pair<TimePoint, std::uint64_t>, Flight> in_flight;
  std::map<std::string, MemoryEndpoint*> bound;
  std::map<const MemoryEndpoint*, std::string> names;
  std::set<std::pair<std::string, std::string>> partitions;
  std::uint16_t next_port = 20000;
};

class MemoryEndpoint final : public Endpoint {
 public:
  MemoryEndpoint(std::shared_ptr<MemoryNetwork::State> state, EndpointLimits limits)
      : state_(std::move(state)), limits_(limits) {}
  ~MemoryEndpoint() override {
    for (const std::string& address : addresses_) state_->bound.erase(address);
    state_->names.erase(this);
    for (auto& [peer, link] : connections_) {
      ++link->generation;
      link->connecting = nullptr;
    }
  }
  MemoryEndpoint(const MemoryEndpoint&) = delete;
  MemoryEndpoint& operator=(const MemoryEndpoint&) = delete;

  Result<std::string> bind(const std::string& address) override {
    std::string place = address;
    if (place.ends_with(":0")) {
      place = place.substr(0, place.size() - 1) + std::to_string(state_->next_port++);
    }
    if (!state_->bound.emplace(place, this).second) {
      return make_error(ErrorCode::kExists,
                        fmt::format("{}: the port is in use by another process", place));
    }
    addresses_.push_back(place);
    state_->names.try_emplace(this, place);
    return place;
  }

  Result<PeerId> connect(const std::string& address) override {
    if (address.rfind(':') == std::string::npos) {
      return invalid(fmt::format("{}: cannot connect there: no port", address));
    }
    auto link = std::make_shared<Link>();
    link->address = address;
    link->connecting = this;
    link->at_connecting = PeerId(next_peer_++);
    connections_.emplace(link->at_connecting, link);
    return link->at_connecting;
  }

  void disconnect(PeerId peer) override {
    const auto found = connections_.find(peer);
    if (found == connections_.end()) return;
    ++found->second->generation;
    found->second->connecting = nullptr;
    connections_.erase(found);
  }

  Result<void> send(PeerId to, Message message) override {
    TAUT_CHECK(!message.frames.empty(), "a message has at least one frame");
    for (const Frame& frame : message.frames) {
      // A real peer closes the connection on a frame beyond its limit: the message never arrives.
      if (frame.size() > limits_.frame.value()) return ok();
    }
    if (const auto link = connections_.find(to); link != connections_.end()) {
      state_->send(link->second, true, message);
      return ok();
    }
    if (const auto link = accepted_.find(to); link != accepted_.end()) {
      const bool closed = link->second->connecting == nullptr || link->second->at_listening != to;
      if (!closed) {
        state_->send(link->second, false, message);
        return ok();
      }
      accepted_.erase(link);
    }
    return make_error(ErrorCode::kNotFound, fmt::format("peer {} has disconnected", to.value()));
  }

  std::optional<Incoming> receive(Duration wait) override {
    const TimePoint deadline = state_->now + wait;
    while (inbox_.empty() && !woken_ && state_->step(deadline)) {
    }
    woken_ = false;
    if (inbox_.empty()) return std::nullopt;
    Incoming incoming = std::move(inbox_.front());
    inbox_.pop_front();
    return incoming;
  }

  void wake() override { woken_ = true; }

  void accept(const std::shared_ptr<Link>& link, const Message& message) {
    if (link->at_listening == PeerId()) {
      link->at_listening = PeerId(next_peer_++);
      accepted_[link->at_listening] = link;
    }
    receive_one(link->at_listening, message);
  }
  void receive_one(PeerId from, const Message& message) {
    if (inbox_.size() < limits_.queued_messages && message.frames.size() <= limits_.frames) {
      inbox_.push_back({from, message});
    }
  }
  void break_connections() {
    for (auto* links : {&connections_, &accepted_}) {
      for (auto& [peer, link] : *links) {
        ++link->generation;
        link->at_listening = PeerId();
      }
    }
    accepted_.clear();
  }

 private:
  std::shared_ptr<MemoryNetwork::State> state_;
  const EndpointLimits limits_;
  std::vector<std::string> addresses_;
  std::map<PeerId, std::shared_ptr<Link>> connections_;
  std::map<PeerId, std::shared_ptr<Link>> accepted_;
  std::deque<Incoming> inbox_;
  std::uint64_t next_peer_ = 1;
  bool woken_ = false;
};

std::string MemoryNetwork::State::name_of(const MemoryEndpoint* endpoint) const {
  const auto found = names.find(endpoint);
  return found == names.end() ? std::string() : found->second;
}

bool MemoryNetwork::State::parted(const Link& link, bool to_listener) const {
  const auto listener = bound.find(link.address);
  const std::string connecting = name_of(link.connecting);
  const std::string listening = listener == bound.end() ? link.address : name_of(listener->second);
  return to_listener ? partitions.contains({connecting, listening})
                     : partitions.contains({listening, connecting});
}

void MemoryNetwork::State::send(const std::shared_ptr<Link>& link, bool to_listener,
                                const Message& message) {
  const auto chance = [this] { return std::uniform_real_distribution<double>(0, 1)(random); };
  if (parted(*link, to_listener) || chance() < faults.drop) return;
  schedule(link, to_listener, message);
  if (chance() < faults.duplicate) schedule(link, to_listener, message);
}

void MemoryNetwork::State::schedule(const std::shared_ptr<Link>& link, bool to_listener,
                                    const Message& message) {
  std::uniform_int_distribution<Duration::rep> delay(faults.delay_min.count(),
                                                     faults.delay_max.count());
  TimePoint due = now + Duration(delay(random));
  TimePoint& last = to_listener ? link->last_to_listener : link->last_to_connecting;
  if (!faults.reorder) {
    due = std::max(due, last);
    last = due;
  }
  in_flight.emplace(std::pair(due, order++), Flight{link, to_listener, link->generation, message});
}

void MemoryNetwork::State::deliver(Flight& flight) {
  if (flight.generation != flight.link->generation || flight.link->connecting == nullptr) return;
  if (flight.to_listener) {
    const auto listener = bound.find(flight.link->address);
    if (listener == bound.end()) return;
    ++delivered;
    listener->second->accept(flight.link, flight.message);
  } else {
    ++delivered;
    flight.link->connecting->receive_one(flight.link->at_connecting, flight.message);
  }
}

bool MemoryNetwork::State::step(TimePoint until) {
  if (in_flight.empty() || in_flight.begin()->first.first > until) {
    now = std::max(now, until);
    return false;
  }
  auto first = in_flight.extract(in_flight.begin());
  now = std::max(now, first.key().first);
  deliver(first.mapped());
  return true;
}

MemoryNetwork::MemoryNetwork(std::uint64_t seed, NetworkFaults faults)
    : state_(std::make_shared<State>(seed, faults)) {}
MemoryNetwork::~MemoryNetwork() = default;

std::unique_ptr<Endpoint> MemoryNetwork::make_endpoint(EndpointLimits limits) {
  return std::make_unique<MemoryEndpoint>(state_, limits);
}

TimePoint MemoryNetwork::now() const {
  return state_->now;
}
bool MemoryNetwork::step(TimePoint until) {
  return state_->step(until);
}
std::uint64_t MemoryNetwork::delivered() const {
  return state_->delivered;
}
void MemoryNetwork::set_faults(NetworkFaults faults) {
  state_->faults = faults;
}
void MemoryNetwork::partition(const std::string& a, const std::string& b) {
  state_->partitions.insert({a, b});
}
void MemoryNetwork::heal() {
  state_->partitions.clear();
}
void MemoryNetwork::name(Endpoint& endpoint, const std::string& name) {
  state_->names[dynamic_cast<MemoryEndpoint*>(&endpoint)] = name;
}
void MemoryNetwork::break_connections(Endpoint& endpoint) {
  dynamic_cast<MemoryEndpoint&>(endpoint).break_connections();
}

}  // namespace taut

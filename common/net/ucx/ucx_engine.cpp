#include "common/net/ucx/ucx_engine.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <future>
#include <stdexcept>
#include <utility>

#include "common/check.hpp"
#include "common/log.hpp"
#include "common/net/ucx/ucx_endpoint.hpp"

namespace taut {
namespace {

constexpr int kStepsAtOnce = 64;
constexpr Bytes kKeptBytes{256ULL << 20U};
// A peer that connects and says nothing is cut off after this time, as with ZeroMQ.
constexpr Duration kGreetingLimit = std::chrono::seconds(5);
constexpr Duration kDialLimit = std::chrono::seconds(10);
constexpr Duration kFirstPause = std::chrono::milliseconds(50);
constexpr Duration kMaxPause = std::chrono::seconds(1);
constexpr Duration kMaxSleep = std::chrono::seconds(60);

}  // namespace

UcxEngine::UcxEngine(Settings settings, UcxMailbox& mailbox)
    : settings_(std::move(settings)),
      mailbox_(mailbox),
      pool_(kKeptBytes),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (wake_ < 0) throw std::runtime_error("eventfd: no file descriptors left");
}

Result<std::unique_ptr<UcxEngine>> UcxEngine::start(Settings settings, UcxMailbox& mailbox) {
  std::unique_ptr<UcxEngine> engine(new UcxEngine(std::move(settings), mailbox));
  // Shared, since the thread may still use it after its result has been read.
  const auto opened = std::make_shared<std::promise<Result<void>>>();
  engine->thread_ = std::thread([opened, self = engine.get()] {
    auto worker = UcxWorker::open(
        {.on_caller = [self](ucp_conn_request_h request) { self->requests_.push_back(request); },
         .on_lost = [self](ucp_ep_h handle,
                           const char* why) { self->broken_.emplace_back(handle, why); },
         .on_part =
             [self](std::span<const std::byte> header, void* data, std::size_t bytes, bool is_large,
                    ucp_ep_h from) {
               return self->take_part(header, data, bytes, is_large, from);
             }});
    if (!worker) {
      opened->set_value(worker.error());
      return;
    }
    self->worker_ = std::move(worker.value());
    opened->set_value(ok());
    self->run();
  });
  TAUT_TRY(opened->get_future().get());
  return engine;
}

UcxEngine::~UcxEngine() {
  if (thread_.joinable()) {
    post([this] { stops_ = true; });
    thread_.join();
  }
  close(wake_);
}

void UcxEngine::post(Command command) {
  {
    const std::scoped_lock lock(mutex_);
    commands_.push_back(std::move(command));
    if (!std::exchange(is_asleep_, false)) return;
  }
  wake();
}

void UcxEngine::wake() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_, &one, sizeof one);
}

void UcxEngine::resume() {
  post([] {});
}

Result<std::string> UcxEngine::listen(const std::string& address) {
  const auto bound = std::make_shared<std::promise<Result<std::string>>>();
  post([this, bound, address] { bound->set_value(worker_->listen(address)); });
  return bound->get_future().get();
}

void UcxEngine::dial(std::shared_ptr<UcxPeer> peer, std::string address,
                     std::optional<DataToken> token) {
  post([this, peer = std::move(peer), address = std::move(address), token = std::move(token)] {
    UcxConnection& connection = connections_[peer->id.value()];
    connection.number = peer->id;
    connection.peer = peer;
    connection.address = address;
    connection.pause = kFirstPause;
    if (token) {
      connection.own_secret = token->request();
      connection.expected_secret = token->answer();
    }
    redial(connection);
  });
}

void UcxEngine::hang_up(PeerId peer) {
  post([this, peer] {
    if (UcxConnection* const found = find(peer.value())) {
      found->address.clear();
      lose(peer, "it is forgotten");
    }
  });
}

void UcxEngine::send(std::shared_ptr<UcxOutgoing> message) {
  post([this, message = std::move(message)] {
    UcxConnection* const to = find(message->peer->id.value());
    if (to == nullptr) return;  // it is gone
    if (to->state == State::kOpen) {
      send_now(*to, message);
    } else if (message->peer->is_dialed) {
      to->waiting.push_back(message);
    }
  });
}

void UcxEngine::run() {
  while (!stops_) {
    const bool has_executed = execute();
    const bool has_moved = move();
    if (const TimePoint now = steady_now(); now >= next_due_) tick(now);
    if (!has_executed && !has_moved) sleep();
  }
  finish();
}

/// Executes the posted commands. Returns whether there was any.
bool UcxEngine::execute() {
  std::deque<Command> commands;
  {
    const std::scoped_lock lock(mutex_);
    commands.swap(commands_);
  }
  for (const Command& command : commands) command();
  return !commands.empty();
}

/// Sends and receives for a while, unless the mailbox is full. Returns whether it did
/// anything.
bool UcxEngine::move() {
  bool has_moved = handle_events();
  for (int i = 0; i < kStepsAtOnce && !mailbox_.is_full(); ++i) {
    const bool did = worker_->progress();
    const bool had_events = handle_events();
    if (!did && !had_events) break;
    has_moved = true;
  }
  return has_moved;
}

/// Sleeps until there is something to do.
void UcxEngine::sleep() {
  const bool is_full = mailbox_.is_full();
  if (!is_full && !worker_->arm()) return;
  {
    const std::scoped_lock lock(mutex_);
    if (!commands_.empty()) return;
    is_asleep_ = true;
  }
  const Duration left = std::min(next_due_ - steady_now(), kMaxSleep);
  const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(left).count();
  std::array<pollfd, 2> waiting{
      {{wake_, POLLIN, 0}, {is_full ? -1 : worker_->descriptor(), POLLIN, 0}}};
  (void)poll(waiting.data(), waiting.size(),
             static_cast<int>(std::max<std::int64_t>(milliseconds, 0)));
  const std::scoped_lock lock(mutex_);
  is_asleep_ = false;
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t drained = read(wake_, &count, sizeof count);
}

void UcxEngine::finish() {
  const auto is_sent = [this] {
    return std::ranges::none_of(connections_, [](const auto& one) {
      return one.second.peer && one.second.peer->messages > 0;
    });
  };
  const TimePoint until = steady_now() + settings_.limits.linger;
  while (steady_now() < until && !is_sent()) {
    if (const TimePoint now = steady_now(); now >= next_due_) tick(now);
    worker_->progress();
    handle_events();
  }
  for (auto& [number, connection] : connections_) {
    for (const auto& one : connection.postponed) worker_->drop(one.data);
    connection.postponed.clear();
  }
  // The worker's callbacks still look for connections: they find none.
  connections_.clear();
  worker_.reset();
}

/// Dials the connections that are due, and cuts off those that have not greeted in time.
void UcxEngine::tick(TimePoint now) {
  next_due_ = TimePoint::never();
  std::vector<PeerId> late;
  std::vector<PeerId> apart;
  for (const auto& [number, connection] : connections_) {
    if (connection.state == State::kOpen) continue;
    if (connection.due > now) {
      be_due(connection.due);
    } else if (connection.state == State::kApart) {
      apart.push_back(connection.number);
    } else {
      late.push_back(connection.number);
    }
  }
  for (const PeerId one : late) lose(one, "it did not greet in time");
  for (const PeerId one : apart) redial(connections_.at(one.value()));
}

UcxConnection* UcxEngine::find(std::uint64_t number) {
  const auto found = connections_.find(number);
  return found == connections_.end() ? nullptr : &found->second;
}

UcxConnection* UcxEngine::find(ucp_ep_h handle) {
  const auto found = by_handle_.find(handle);
  return found == by_handle_.end() ? nullptr : find(found->second);
}

void UcxEngine::redial(UcxConnection& connection) {
  const auto failed = [&](const std::string& why) {
    log::debug("{}: {}", connection.address, why);
    connection.state = State::kApart;
    connection.due = steady_now() + connection.pause;
    connection.pause = std::min(2 * connection.pause, kMaxPause);
    be_due(connection.due);
  };
  const auto place = look_up_socket(connection.address, false);
  if (!place) {
    failed(place.error().message);
    return;
  }
  const auto handle = worker_->dial(place.value());
  if (!handle) {
    failed(handle.error().message);
    return;
  }
  connection.handle = handle.value();
  connection.state = State::kGreeting;
  connection.due = steady_now() + kDialLimit;
  be_due(connection.due);
  by_handle_[connection.handle] = connection.number.value();
  connection.own = new_ucx_number(true).value();
  by_own_[connection.own] = connection.number.value();
  send_part(connection, {.kind = UcxPartKind::kHello, .connection = connection.own});
}

void UcxEngine::accept(ucp_conn_request_h request) {
  if (callers_ >= settings_.limits.peers) make_room();
  const auto handle = worker_->accept(request);
  if (!handle) {
    log::debug("a caller was not accepted: {}", handle.error().message);
    return;
  }
  const PeerId number = new_ucx_number(false);
  UcxConnection& connection = connections_[number.value()];
  connection.number = number;
  connection.handle = handle.value();
  connection.state = State::kGreeting;
  connection.due = steady_now() + kGreetingLimit;
  connection.last_heard = ++heard_;
  be_due(connection.due);
  by_handle_[connection.handle] = number.value();
  connection.own = number.value();
  by_own_[connection.own] = connection.own;
  ++callers_;
}

/// Closes the longest-silent connection of the key that has the most connections; those that
/// have not said hello count as one key.
void UcxEngine::make_room() {
  std::map<std::string, std::size_t> crowds;
  const auto key_of = [](const UcxConnection& one) {
    return one.peer ? "key " + one.peer->key : std::string();
  };
  const auto is_caller = [](const UcxConnection& one) { return one.address.empty(); };
  for (const auto& [number, one] : connections_) {
    if (is_caller(one)) ++crowds[key_of(one)];
  }
  const auto crowded =
      std::ranges::max_element(crowds, {}, [](const auto& one) { return one.second; });
  if (crowded == crowds.end()) return;
  const UcxConnection* silent = nullptr;
  for (const auto& [number, one] : connections_) {
    if (!is_caller(one) || key_of(one) != crowded->first) continue;
    if (silent == nullptr || one.last_heard < silent->last_heard) silent = &one;
  }
  lose(silent->number, "others need its place");
}

/// Ends a connection: a dialed one is dialed again later, a caller is forgotten.
void UcxEngine::lose(PeerId number, const std::string& why) {
  UcxConnection* const lost = find(number.value());
  if (lost == nullptr) return;
  log::debug("connection {} is lost: {}", number.value(), why);
  for (const auto& one : lost->postponed) worker_->drop(one.data);
  lost->postponed.clear();
  if (lost->handle != nullptr) {
    by_handle_.erase(lost->handle);
    by_own_.erase(lost->own);
    worker_->close(std::exchange(lost->handle, nullptr));
  }
  const bool is_dialed = lost->peer && lost->peer->is_dialed;
  if (!is_dialed) --callers_;
  if (lost->address.empty()) {
    if (lost->peer && !is_dialed) mailbox_.note_gone(number);
    connections_.erase(number.value());
    return;
  }
  if (lost->state == State::kOpen) lost->pause = kFirstPause;
  lost->state = State::kApart;
  lost->assemblies.clear();
  lost->kept = 0;
  lost->fetched = 0;
  lost->next_in = 0;
  lost->next_out = 0;
  lost->due = steady_now() + lost->pause;
  lost->pause = std::min(2 * lost->pause, kMaxPause);
  be_due(lost->due);
}

/// Handles what callbacks have noted: they must not create or close connections themselves.
bool UcxEngine::handle_events() {
  const bool has_some = !requests_.empty() || !broken_.empty() || !lost_.empty();
  for (const auto& [handle, why] : std::exchange(broken_, {})) {
    if (const UcxConnection* const found = find(handle)) lose(found->number, why);
  }
  for (const auto& [number, why] : std::exchange(lost_, {})) lose(number, why);
  for (const ucp_conn_request_h request : std::exchange(requests_, {})) accept(request);
  return has_some;
}

}  // namespace taut

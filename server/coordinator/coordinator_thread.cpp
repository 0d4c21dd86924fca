#include "server/coordinator/coordinator_thread.hpp"

#include <exception>
#include <future>
#include <utility>

#include "common/log.hpp"
#include "proto/control_message.hpp"

namespace taut {
namespace {

constexpr Duration kWarningInterval = std::chrono::seconds(1);

}  // namespace

CoordinatorThread::CoordinatorThread(std::unique_ptr<Endpoint> endpoint,
                                     std::unique_ptr<CoordinatorStore> store, Config config)
    : config_(std::move(config)), endpoint_(std::move(endpoint)), store_(std::move(store)) {}

Result<std::unique_ptr<CoordinatorThread>> CoordinatorThread::start(
    std::unique_ptr<Endpoint> endpoint, std::unique_ptr<CoordinatorStore> store, Config config) {
  std::unique_ptr<CoordinatorThread> thread(
      new CoordinatorThread(std::move(endpoint), std::move(store), std::move(config)));
  TAUT_TRY(thread->recovered_, thread->store_->load());
  // The endpoint belongs to the thread that serves it, binding included.
  std::promise<Result<std::string>> bound;
  std::future<Result<std::string>> address = bound.get_future();
  thread->thread_ = std::thread([self = thread.get(), bound = std::move(bound)]() mutable {
    Result<std::string> result = self->endpoint_->bind(self->config_.address);
    const bool is_bound = result.has_value();
    bound.set_value(std::move(result));
    if (is_bound) self->run();
  });
  // Binding asks the operating system and waits for nobody.
  TAUT_TRY(thread->address_, address.get());
  return thread;
}

CoordinatorThread::~CoordinatorThread() {
  stop();
}

void CoordinatorThread::stop() {
  if (!thread_.joinable()) return;
  stopping_ = true;
  endpoint_->wake();
  thread_.join();
}

std::string CoordinatorThread::failure() const {
  std::scoped_lock lock(failure_mutex_);
  return failure_;
}

void CoordinatorThread::run() {
  try {
    Coordinator coordinator(config_.coordinator, std::exchange(recovered_, {}), steady_now());
    serve(coordinator);
  } catch (const std::exception& failure) {
    log::error("the coordinator ended: {}", failure.what());
    std::scoped_lock lock(failure_mutex_);
    failure_ = failure.what();
  }
}

void CoordinatorThread::serve(Coordinator& coordinator) {
  TimePoint next_tick = steady_now();
  while (!stopping_) {
    if (steady_now() >= next_tick) {
      carry_out(coordinator.tick(steady_now()));
      next_tick = steady_now() + config_.tick;
    }
    const Duration wait = std::max(next_tick - steady_now(), Duration::zero());
    std::optional<Incoming> incoming = endpoint_->receive(wait);
    if (!incoming) continue;
    Result<pb::ControlMessage> message = decode_control(incoming->message);
    if (message) {
      carry_out(coordinator.handle(incoming->from, message.value(), steady_now()));
    } else {
      warn(
          fmt::format("dropped from peer {}: {}", incoming->from.value(), message.error().message));
    }
  }
}

void CoordinatorThread::carry_out(CoordinatorOutput output) {
  for (const std::string& note : output.notes) log::info("{}", note);
  unsaved_.merge(std::move(output.changes));
  if (!unsaved_.empty()) {
    if (Result<void> saved = store_->save(unsaved_); !saved) {
      // Nothing may be known outside that a restart would forget. What is not sent now is sent
      // again later, or asked for again.
      warn(fmt::format("the coordinator's state cannot be saved, so nothing is answered: {}",
                       saved.error().message));
      return;
    }
    unsaved_ = {};
  }
  for (CoordinatorMessage& outgoing : output.messages) {
    Result<void> sent = endpoint_->send(outgoing.to, encode(outgoing.message));
    if (!sent) log::debug("not sent: {}", sent.error().message);
  }
}

void CoordinatorThread::warn(const std::string& text) {
  const TimePoint now = steady_now();
  if (now < next_warning_) {
    ++quiet_warnings_;
    return;
  }
  if (quiet_warnings_ > 0) {
    log::warn("{} (and {} more warnings)", text, std::exchange(quiet_warnings_, 0));
  } else {
    log::warn("{}", text);
  }
  next_warning_ = now + kWarningInterval;
}

}  // namespace taut

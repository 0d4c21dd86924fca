#include "worker/cache/gradient_sender.hpp"

#include <exception>
#include <utility>

#include "common/system/affinity.hpp"
#include "common/timeline.hpp"

namespace taut {
namespace {

constexpr Duration kPatience{100'000};

}  // namespace

GradientSender::GradientSender(Client& client, const Options& options)
    : client_(client), options_(options), queue_(options.limit), thread_([this] { run(); }) {}

GradientSender::~GradientSender() {
  queue_.close();
  thread_.join();
}

void GradientSender::hand_over(Update update) {
  put(std::optional<Update>(std::move(update)));
}

void GradientSender::finish_clock() {
  put(std::nullopt);
}

void GradientSender::put(std::optional<Update> item) {
  {
    std::scoped_lock lock(mutex_);
    ++put_;
  }
  // If the queue is full, nothing is moved.
  while (!queue_.push(std::move(item), kPatience)) {  // NOLINT(bugprone-use-after-move)
    if (queue_.closed()) return;
  }
}

bool GradientSender::drain(Duration wait) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, wait, [this] { return taken_ == put_; });
}

std::string GradientSender::failure() const {
  std::scoped_lock lock(mutex_);
  return failure_;
}

void GradientSender::run() {
  follow_main_thread();
  while (true) {
    auto item = queue_.pop(kPatience);
    if (!item) {
      if (queue_.closed()) return;
      continue;
    }
    std::string failure;
    try {
      take(std::move(*item));
    } catch (const std::exception& fault) {
      failure = fault.what();
    }
    {
      std::scoped_lock lock(mutex_);
      if (failure_.empty()) failure_ = failure;
      ++taken_;
      changed_.notify_all();
    }
    // The next values of this gradient's table never arrive: stop waiting for them.
    if (!failure.empty()) client_.cancel();
  }
}

void GradientSender::take(std::optional<Update> update) {
  if (update) {
    const timeline::Span span(timeline::Row::kCopy, "from the device", update->clock.value());
    update->copied->finish();
    if (options_.at_once) {
      send(*update, 0);
    } else {
      waiting_.push_back(std::move(*update));
    }
    return;
  }
  const float norm = options_.norm == math::UpdateNorm::kGradient ? gradient_norm() : 0;
  for (const Update& one : std::exchange(waiting_, {})) send(one, norm);
}

/// The norm over all tables, summed in table order: the sum's bits depend on it.
float GradientSender::gradient_norm() const {
  std::vector<double> squares;
  for (const Update& update : waiting_) {
    const std::size_t table = update.table.value();
    if (squares.size() <= table) squares.resize(table + 1, 0.0);
    if (update.is_trained) squares[table] = update.squares[0];
  }
  double sum = 0;
  for (const double one : squares) sum += one;
  return math::gradient_norm(sum);
}

void GradientSender::send(const Update& update, float norm) {
  if (options_.norm == math::UpdateNorm::kRelative && update.is_trained) {
    norm = math::relative_norm(update.squares[0], update.squares[1]);
  }
  if (update.encoding) {
    client_.push_encoded_and_read(update.table, update.clock, update.gradient, *update.encoding,
                                  update.into, norm);
  } else {
    client_.push_and_read(update.table, update.clock, update.gradient, update.into, norm);
  }
}

}  // namespace taut

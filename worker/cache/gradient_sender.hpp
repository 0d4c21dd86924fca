#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "common/bounded_queue.hpp"
#include "common/math/update_rule.hpp"
#include "common/ssp/table.hpp"
#include "worker/backend/stream.hpp"
#include "worker/client/client.hpp"

namespace taut {

/// Sends gradients to the shards once their copies from the device have landed, in the order in
/// which they were handed over: the compute does not wait for a copy.
/// Thread    its own; hand_over() and finish_clock() from the compute's
class GradientSender {
 public:
  struct Options {
    math::UpdateNorm norm = math::UpdateNorm::kNone;
    bool at_once = true;     // each when it has landed; else all of a clock together
    std::size_t limit = 64;  // copies under way before hand_over() waits
  };

  /// A copy under way.
  struct Update {
    TableId table;
    Clock clock;
    bool is_trained = true;
    Buffer gradient;  // where it lands
    std::shared_ptr<Event> landed;
    std::span<float> into;  // where the table's next values go
    /// The sums of squares of the gradient and of the values that it was made with, as far as the
    /// norm wants them; both have landed when the gradient has.
    std::span<const double, 2> squares;
  };

  /// client  outlives this
  GradientSender(Client& client, const Options& options);
  /// Sends nothing more.
  ~GradientSender();
  GradientSender(const GradientSender&) = delete;
  GradientSender& operator=(const GradientSender&) = delete;

  void hand_over(Update update);
  /// All of a clock's updates are handed over.
  void finish_clock();

  /// Waits until all that was handed over is sent. False: it took longer.
  [[nodiscard]] bool drain(Duration wait);

  /// Copies that have not been sent yet.
  [[nodiscard]] std::size_t depth() const { return queue_.size(); }
  /// What the device failed with, in one line; empty: nothing.
  [[nodiscard]] std::string failure() const;

 private:
  void put(std::optional<Update> item);
  void run();
  void take(std::optional<Update> update);
  void send(const Update& update, float norm);
  [[nodiscard]] float gradient_norm() const;

  Client& client_;
  const Options options_;
  BoundedQueue<std::optional<Update>> queue_;  // none: the clock is over
  std::vector<Update> waiting_;                // the thread's: landed, and sent with the clock
  mutable std::mutex mutex_;                   // guards all below
  std::condition_variable changed_;
  std::string failure_;
  std::uint64_t put_ = 0;
  std::uint64_t taken_ = 0;
  std::thread thread_;
};

}  // namespace taut

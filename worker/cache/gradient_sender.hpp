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
#include "worker/client/client.hpp"
#include "worker/engine/stream.hpp"

namespace taut {

/// Sends gradients to the shards when their copies from the device are complete, in the order of
/// hand_over(): the compute does not wait for a copy.
/// Thread    a dedicated one; hand_over() and finish_clock() from the compute's
class GradientSender {
 public:
  struct Options {
    math::UpdateNorm norm = math::UpdateNorm::kNone;
    bool at_once = true;     // sends each when it is copied; else all of a clock together
    std::size_t limit = 64;  // pending copies before hand_over() waits
  };

  /// A pending copy.
  struct Update {
    TableId table;
    Clock clock;
    bool is_trained = true;
    Buffer gradient;  // the copy; of `encoding.bytes` if the device has encoded it
    std::shared_ptr<Event> copied;
    std::span<float> into;  // where the table's next values go
    /// The sums of squares of the gradient and of the values that it was computed with, if the norm
    /// uses them; both are complete when the gradient's copy is.
    std::span<const double, 2> squares;
    std::optional<TableEncoding> encoding;  // nullopt: the client encodes it
  };

  /// client  outlives this
  GradientSender(Client& client, const Options& options);
  /// Does not send what is pending.
  ~GradientSender();
  GradientSender(const GradientSender&) = delete;
  GradientSender& operator=(const GradientSender&) = delete;

  void hand_over(Update update);
  /// Marks the end of a clock's updates.
  void finish_clock();

  /// Waits until everything handed over is sent. Returns false if that takes longer than `wait`.
  [[nodiscard]] bool drain(Duration wait);

  /// The device's failure, in one line; empty if none.
  [[nodiscard]] std::string failure() const;

 private:
  void put(std::optional<Update> item);
  void run();
  void take(std::optional<Update> update);
  void send(const Update& update, float norm);
  [[nodiscard]] float gradient_norm() const;

  Client& client_;
  const Options options_;
  BoundedQueue<std::optional<Update>> queue_;  // nullopt: the end of a clock
  std::vector<Update> waiting_;                // the thread's: copied, and sent with the clock
  mutable std::mutex mutex_;                   // guards all below
  std::condition_variable changed_;
  std::string failure_;
  std::uint64_t put_ = 0;
  std::uint64_t taken_ = 0;
  std::thread thread_;
};

}  // namespace taut

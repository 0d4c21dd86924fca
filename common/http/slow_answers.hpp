#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "common/bounded_queue.hpp"
#include "common/http/request.hpp"
#include "common/time.hpp"

namespace taut::http {

/// Answers that may wait for another process, made one after the other on a dedicated thread, so
/// that the thread of all connections never waits.
/// Thread    the connections' thread
class SlowAnswers {
 public:
  using Handler = std::function<Response(const Request&)>;
  using Done = std::function<void(Response)>;

  /// connections  where a request's `done` is called
  /// slow         makes the answers, on the dedicated thread
  /// instead      the answer, on the connections' thread, to a request that is not answered within
  ///              `patience`, or that arrives when `max` are pending
  SlowAnswers(boost::asio::io_context& connections, Handler slow, Handler instead,
              Duration patience, std::size_t max);
  /// Waits until the pending answers are made, and joins.
  ~SlowAnswers();
  SlowAnswers(const SlowAnswers&) = delete;
  SlowAnswers& operator=(const SlowAnswers&) = delete;

  /// Answers a request: `done` is called once.
  void answer(const Request& request, Done done);
  /// Queues `work` for the dedicated thread. Returns whether it will run: false if too much is
  /// pending there.
  [[nodiscard]] bool run(std::function<void()> work);
  /// Queues no further requests; the pending ones are still answered.
  void stop();

 private:
  boost::asio::io_context& connections_;
  const Handler slow_;
  const Handler instead_;
  const Duration patience_;
  BoundedQueue<std::function<void()>> queue_;
  std::thread thread_;
};

}  // namespace taut::http

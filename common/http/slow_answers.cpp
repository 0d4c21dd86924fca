#include "common/http/slow_answers.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <exception>
#include <string>

#include "common/log.hpp"

namespace taut::http {
namespace {

namespace asio = boost::asio;

constexpr Duration kIdle{1'000'000};

/// A request that waits for the first of its answers. Thread: the connections' thread.
struct Waiting {
  explicit Waiting(asio::io_context& connections) : patience(connections) {}

  void finish(Response response) {
    if (!done) return;
    patience.cancel();
    std::exchange(done, nullptr)(std::move(response));
  }

  Request request;
  SlowAnswers::Done done;
  asio::steady_timer patience;
};

Response answer_of(const SlowAnswers::Handler& handler, const Request& request) {
  try {
    return handler(request);
  } catch (const std::exception& failure) {
    log::warn("http: {} {}: {}", request.method, request.path.substr(0, 100), failure.what());
    return text_response(500, "internal error; the log has the details");
  }
}

}  // namespace

SlowAnswers::SlowAnswers(asio::io_context& connections, Handler slow, Handler instead,
                         Duration patience, std::size_t max)
    : connections_(connections),
      slow_(std::move(slow)),
      instead_(std::move(instead)),
      patience_(patience),
      queue_(max),
      thread_([this] {
        while (true) {
          if (auto work = queue_.pop(kIdle)) {
            (*work)();
          } else if (queue_.closed()) {
            return;
          }
        }
      }) {}

SlowAnswers::~SlowAnswers() {
  stop();
  thread_.join();
}

void SlowAnswers::stop() {
  queue_.close();
}

void SlowAnswers::answer(const Request& request, Done done) {
  auto waiting = std::make_shared<Waiting>(connections_);
  waiting->request = request;
  waiting->done = std::move(done);
  waiting->patience.expires_after(patience_);
  waiting->patience.async_wait([this, waiting](const boost::system::error_code& error) {
    if (!error) waiting->finish(answer_of(instead_, waiting->request));
  });
  const bool is_queued = queue_.push(
      [this, waiting] {
        // The request is not changed while it waits.
        Response response = answer_of(slow_, waiting->request);
        asio::post(connections_, [waiting, response = std::move(response)]() mutable {
          waiting->finish(std::move(response));
        });
      },
      Duration::zero());
  if (!is_queued) waiting->finish(answer_of(instead_, waiting->request));
}

bool SlowAnswers::run(std::function<void()> work) {
  return queue_.push(
      [work = std::move(work)] {
        try {
          work();
        } catch (const std::exception& failure) {
          log::warn("http: {}", failure.what());
        }
      },
      Duration::zero());
}

}  // namespace taut::http

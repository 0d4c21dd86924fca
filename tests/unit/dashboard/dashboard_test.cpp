#include "server/dashboard/dashboard.hpp"

#include <atomic>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <future>
#include <string>
#include <thread>

#include "tests/support/catch.hpp"
#include "tests/unit/dashboard/status_maker.hpp"

namespace taut::dashboard {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

std::string get(const std::string& address, const std::string& path) {
  asio::io_context context;
  tcp::socket socket(context);
  const std::string port = address.substr(address.rfind(':') + 1);
  asio::connect(socket, tcp::resolver(context).resolve("127.0.0.1", port));
  asio::write(socket, asio::buffer("GET " + path + " HTTP/1.1\r\nHost: " + address +
                                   "\r\nConnection: close\r\n\r\n"));
  boost::system::error_code ended;
  std::string all;
  asio::read(socket, asio::dynamic_buffer(all), ended);
  return all;
}

TEST_CASE("while the coordinator does not answer, the page's files and /metrics do",
          "[dashboard]") {
  std::atomic<bool> hangs = false;
  std::atomic<int> hanging = 0;
  std::promise<void> release;
  const auto released = release.get_future().share();
  Dashboard::Options options;
  options.server = "server0";
  options.http.address = "127.0.0.1:0";
  options.http.limits.patience = Duration(200'000);
  auto dashboard = Dashboard::start(
                       options,
                       [&](const pb::ControlMessage&) -> Result<pb::ControlMessage> {
                         if (hangs) {
                           ++hanging;
                           released.wait();
                         }
                         pb::ControlMessage reply;
                         *reply.mutable_status_reply() = make_status(2);
                         return reply;
                       },
                       [] { return ServerFigures(); })
                       .value();
  const std::string known = get(dashboard->address(), "/metrics");
  CHECK(known.starts_with("HTTP/1.1 200"));
  CHECK_THAT(known, Catch::Matchers::Contains("tautline_job"));
  hangs = true;
  while (hanging == 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  // What is known of the cluster is repeated for a while.
  const std::string metrics = get(dashboard->address(), "/metrics");
  CHECK(metrics.starts_with("HTTP/1.1 200"));
  CHECK_THAT(metrics, Catch::Matchers::Contains("tautline_job"));
  CHECK(get(dashboard->address(), "/").starts_with("HTTP/1.1 200"));
  CHECK(get(dashboard->address(), "/api/status").starts_with("HTTP/1.1 503"));
  release.set_value();
}

}  // namespace
}  // namespace taut::dashboard

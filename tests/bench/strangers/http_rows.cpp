// The rows of what a daemon serves over HTTP.
#include <array>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <string>

#include "common/http/login.hpp"
#include "common/http/server.hpp"
#include "common/unix_time.hpp"
#include "tests/bench/strangers/port_rows.hpp"

namespace taut::strangers {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

struct HttpTry {
  std::string who;
  std::string first_line;     // "GET /api/status"
  std::string authorization;  // empty: none
  bool may = false;
};

/// The status of the answer to one request over a new connection; 0: there was none.
unsigned status_of(const std::string& address, const HttpTry& request) {
  asio::io_context context;
  tcp::socket socket(context);
  boost::system::error_code failed;
  const std::string port = address.substr(address.rfind(':') + 1);
  asio::connect(socket, tcp::resolver(context).resolve("127.0.0.1", port), failed);
  std::string text = request.first_line + " HTTP/1.1\r\nHost: " + address +
                     "\r\nConnection: close\r\nContent-Type: application/json\r\n";
  if (!request.authorization.empty()) text += "Authorization: " + request.authorization + "\r\n";
  if (request.first_line.starts_with("POST")) text += "Content-Length: 2\r\n\r\n{}";
  asio::write(socket, asio::buffer(text + "\r\n"), failed);
  std::string answer;
  asio::read(socket, asio::dynamic_buffer(answer), failed);
  const std::size_t space = answer.find(' ');
  if (!answer.starts_with("HTTP/") || space == std::string::npos) return 0;
  return static_cast<unsigned>(std::stoul(answer.substr(space + 1, 3)));
}

}  // namespace

bool try_http(int tries) {
  const std::string secret = make_key_pair().secret_key;
  http::Server::Options options;
  options.address = "127.0.0.1:0";
  options.secret = secret;
  const auto server = http::Server::start(options, [](const http::Request&) {
                        return http::text_response(200, "granted");
                      }).value();
  const auto bearer = [](const std::string& of, http::TokenRight right) {
    return "Bearer " + http::token_of(of, right);
  };
  const std::string link = "GET " + http::login_path(secret, unix_time_s());
  // It is used here, and works once.
  (void)status_of(server->address(), {"", link, "", true});
  const std::string other = make_key_pair().secret_key;
  const std::array<HttpTry, 9> rows = {{
      {"a token for changes", "POST /api/stop", bearer(secret, http::TokenRight::kChange), true},
      {"a token for reading", "GET /api/status", bearer(secret, http::TokenRight::kRead), true},
      {"none", "GET /api/status", "", false},
      {"none", "POST /api/stop", "", false},
      {"of another cluster", "GET /api/status", bearer(other, http::TokenRight::kChange), false},
      {"a token of chance", "POST /api/stop", "Bearer " + std::string(64, 'x'), false},
      {"a link that was used", link, "", false},
      {"a link of another cluster", "GET " + http::login_path(other, unix_time_s()), "", false},
      {"wrong role: for reading", "POST /api/stop", bearer(secret, http::TokenRight::kRead), false},
  }};
  bool is_tight = true;
  for (const HttpTry& row : rows) {
    int granted = 0;
    for (int i = 0; i < tries; ++i) {
      const unsigned status = status_of(server->address(), row);
      // A good link is answered with the way to the page, 303.
      granted += static_cast<int>(status >= 200 && status < 400);
    }
    const std::string what = row.first_line.substr(0, row.first_line.find('?'));
    is_tight = print_row("HTTP", row.who, what, granted, -1, row.may ? tries : 0) && is_tight;
  }
  return is_tight;
}

}  // namespace taut::strangers

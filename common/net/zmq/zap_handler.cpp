#include "common/net/zmq/zap_handler.hpp"

#include <sys/eventfd.h>
#include <unistd.h>
#include <zmq.h>

#include <algorithm>
#include <array>
#include <exception>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/log.hpp"
#include "common/net/zmq/handshake_watch.hpp"

namespace taut {
namespace {

constexpr const char* kPlace = "inproc://zeromq.zap.01";
// A revocation takes effect within a second.
constexpr long kRefresh_ms = 200;
constexpr std::size_t kMaxFrameBytes = 256;
constexpr std::size_t kMaxFrames = 16;
// Of a request: version, number, domain, address, routing id, mechanism, the credentials.
constexpr std::size_t kNumber = 1;
constexpr std::size_t kMechanism = 5;
constexpr std::size_t kCurveKey = 6;
constexpr std::size_t kCurveKeyBytes = 32;
constexpr std::size_t kPlainUser = 6;
constexpr std::size_t kPlainSecret = 7;

/// The frames of the next request; a frame longer than any in a request is cut.
std::vector<std::string> receive(void* socket) {
  std::vector<std::string> frames;
  int more = 1;
  while (more == 1) {
    std::array<char, kMaxFrameBytes> bytes{};
    const int size = zmq_recv(socket, bytes.data(), bytes.size(), ZMQ_DONTWAIT);
    if (size < 0) return {};
    if (frames.size() < kMaxFrames) {
      frames.emplace_back(bytes.data(), std::min(static_cast<std::size_t>(size), bytes.size()));
    }
    std::size_t option_size = sizeof more;
    zmq_getsockopt(socket, ZMQ_RCVMORE, &more, &option_size);
  }
  return frames;
}

/// The key that a CURVE request proves, as Z85; empty if none.
std::string curve_key_in(const std::vector<std::string>& request) {
  if (request.size() <= kCurveKey || request[kMechanism] != "CURVE" ||
      request[kCurveKey].size() != kCurveKeyBytes) {
    return {};
  }
  std::array<char, 41> text{};
  zmq_z85_encode(text.data(), reinterpret_cast<const std::uint8_t*>(request[kCurveKey].data()),
                 kCurveKeyBytes);
  return text.data();
}

}  // namespace

ZapHandler::ZapHandler(void* context, std::shared_ptr<Admission> admission,
                       std::optional<TokenKey> tokens)
    : admission_(std::move(admission)),
      tokens_(std::move(tokens)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (wake_ < 0) throw std::runtime_error("eventfd: no file descriptors left");
  socket_ = zmq_socket(context, ZMQ_REP);
  const int no_linger = 0;
  if (socket_ == nullptr ||
      zmq_setsockopt(socket_, ZMQ_LINGER, &no_linger, sizeof no_linger) != 0 ||
      zmq_bind(socket_, kPlace) != 0) {
    const std::string reason = zmq_strerror(zmq_errno());
    if (socket_ != nullptr) zmq_close(socket_);
    close(wake_);
    throw std::runtime_error("the handler that admits keys cannot start: " + reason);
  }
  thread_ = std::thread([this] { run(); });
}

ZapHandler::~ZapHandler() {
  stopping_ = true;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_, &one, sizeof one);
  thread_.join();
  zmq_close(socket_);
  close(wake_);
}

void ZapHandler::run() {
  while (!stopping_) {
    std::array<zmq_pollitem_t, 2> items = {
        {{socket_, 0, ZMQ_POLLIN, 0}, {nullptr, wake_, ZMQ_POLLIN, 0}}};
    zmq_poll(items.data(), static_cast<int>(items.size()), kRefresh_ms);
    try {
      admission_->refresh();
    } catch (const std::exception& failure) {
      log::error("the keys cannot be read again; the current ones stay in use: {}", failure.what());
    }
    if ((items[0].revents & ZMQ_POLLIN) != 0) answer_one();
  }
}

/// The key that a request proves, its own or that of the holder of its secret; empty if none.
std::string ZapHandler::key_in(const std::vector<std::string>& request) const {
  const bool has_secret = request.size() > kPlainSecret && request[kMechanism] == "PLAIN" &&
                          request[kPlainUser] == kSecretUser;
  if (!has_secret || !tokens_) return curve_key_in(request);
  const auto scope = tokens_->check(std::as_bytes(std::span(request[kPlainSecret])));
  return scope ? scope->public_key : std::string();
}

void ZapHandler::answer_one() {
  const std::vector<std::string> request = receive(socket_);
  if (request.empty()) return;
  const std::string key = key_in(request);
  std::string code = "400";
  try {
    if (!key.empty() && admission_->find(key) != nullptr) code = "200";
  } catch (const std::exception& failure) {
    log::error("a key cannot be looked up: {}", failure.what());
    code = "500";
  }
  const std::string number = request.size() > kNumber ? request[kNumber] : std::string();
  const std::string user = code == "200" ? key : std::string();
  const std::array<std::string, 6> reply = {"1.0", number, code, "", user, ""};
  for (std::size_t i = 0; i < reply.size(); ++i) {
    const int flags = ZMQ_DONTWAIT | (i + 1 < reply.size() ? ZMQ_SNDMORE : 0);
    if (zmq_send(socket_, reply[i].data(), reply[i].size(), flags) < 0) return;
  }
}

}  // namespace taut

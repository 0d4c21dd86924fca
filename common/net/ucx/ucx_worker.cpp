#include "common/net/ucx/ucx_worker.hpp"

#include <fmt/format.h>
#include <netdb.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "common/log.hpp"
#include "common/time.hpp"

namespace taut {
namespace {

constexpr unsigned kActiveMessage = 1;
constexpr Duration kCloseWithin = std::chrono::seconds(1);

/// Whether the user's environment chooses transports without shared memory. UCX warns of settings
/// for a transport that is not chosen.
bool leaves_shared_memory_out() {
  const char* const chosen = std::getenv("UCX_TLS");
  if (chosen == nullptr) return false;
  const std::string_view names(chosen);
  return std::ranges::none_of(std::array{"all", "shm", "sm", "posix", "sysv"}, [&](auto* name) {
    return names.find(name) != std::string_view::npos;
  });
}

}  // namespace

Result<SocketAddress> look_up_socket(const std::string& address, bool to_listen) {
  const auto colon = address.rfind(':');
  if (colon == std::string::npos || colon + 1 == address.size()) {
    return invalid(fmt::format("{}: no port", address));
  }
  std::string host = address.substr(0, colon);
  const bool is_ipv6 = host.starts_with('[') && host.ends_with(']');
  if (is_ipv6) host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_family = is_ipv6 ? AF_INET6 : AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (to_listen ? AI_PASSIVE : 0);
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), address.c_str() + colon + 1, &hints, &found) != 0) {
    return make_error(ErrorCode::kNotFound, fmt::format("{}: is not known here", address));
  }
  SocketAddress place;
  place.size = found->ai_addrlen;
  std::copy_n(reinterpret_cast<const std::byte*>(found->ai_addr), found->ai_addrlen,
              reinterpret_cast<std::byte*>(&place.place));
  freeaddrinfo(found);
  return place;
}

std::string text_of(const SocketAddress& address) {
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  const auto* const place = reinterpret_cast<const sockaddr*>(&address.place);
  // A listener reports its address without its length, which follows from the family.
  const socklen_t size =
      address.place.ss_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  if (getnameinfo(place, size, host.data(), host.size(), port.data(), port.size(),
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return {};
  }
  const bool is_ipv6 = address.place.ss_family == AF_INET6;
  return fmt::format("{}{}{}:{}", is_ipv6 ? "[" : "", host.data(), is_ipv6 ? "]" : "", port.data());
}

/// What must be kept until an active message has been sent.
struct UcxWorker::Sent {
  const UcxLibrary* library;
  std::vector<std::byte> header;
  std::shared_ptr<const void> keeps;

  static void done(void* request, ucs_status_t /*status*/, void* self) {
    const std::unique_ptr<Sent> sent(static_cast<Sent*>(self));
    sent->library->request_free(request);
  }
};

struct UcxWorker::Received {
  const UcxLibrary* library;
  std::function<void(bool is_whole)> done;

  static void arrived(void* request, ucs_status_t status, std::size_t /*bytes*/, void* self) {
    const std::unique_ptr<Received> received(static_cast<Received*>(self));
    received->library->request_free(request);
    received->done(status == UCS_OK);
  }
};

Result<std::unique_ptr<UcxWorker>> UcxWorker::open(Events events) {
  TAUT_TRY(const UcxLibrary* library, ucx_library());
  std::unique_ptr<UcxWorker> worker(new UcxWorker(*library, std::move(events)));
  TAUT_TRY(worker->open());
  return worker;
}

Result<void> UcxWorker::open() {
  const auto failed = [&](const char* what, ucs_status_t status) {
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("UCX cannot {}: {}; the variable UCX_TLS chooses its transports",
                                  what, library_.status_string(status)));
  };
  ucp_config_t* config = nullptr;
  if (const auto status = library_.config_read(nullptr, nullptr, &config); status != UCS_OK) {
    return failed("read its settings", status);
  }
  // The user's group may read and write UCX's System V shared memory; its POSIX shared memory is
  // the user's alone.
  if (std::getenv("UCX_TLS") == nullptr) (void)library_.config_modify(config, "TLS", "^sysv");
  // Without it, connections whose peers may fail do not use shared memory.
  if (std::getenv("UCX_MM_ERROR_HANDLING") == nullptr && !leaves_shared_memory_out()) {
    (void)library_.config_modify(config, "MM_ERROR_HANDLING", "y");
  }
  ucp_params_t parameters{};
  parameters.field_mask = UCP_PARAM_FIELD_FEATURES;
  parameters.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  const auto begun =
      library_.init_version(UCP_API_MAJOR, UCP_API_MINOR, &parameters, config, &context_);
  library_.config_release(config);
  if (begun != UCS_OK) return failed("start", begun);
  ucp_worker_params_t settings{};
  settings.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  settings.thread_mode = UCS_THREAD_MODE_SINGLE;
  if (const auto status = library_.worker_create(context_, &settings, &worker_); status != UCS_OK) {
    return failed("use a transport", status);
  }
  if (const auto status = library_.worker_get_efd(worker_, &descriptor_); status != UCS_OK) {
    return failed("wait for messages", status);
  }
  ucp_am_handler_param_t handler{};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                       UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = kActiveMessage;
  handler.arg = this;
  handler.cb = [](void* self, const void* header, std::size_t header_bytes, void* data,
                  std::size_t bytes, const ucp_am_recv_param_t* what) {
    const auto& worker = *static_cast<UcxWorker*>(self);
    const bool has_sender = (what->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) != 0;
    return worker.events_.on_part({static_cast<const std::byte*>(header), header_bytes}, data,
                                  bytes, (what->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0,
                                  has_sender ? what->reply_ep : nullptr);
  };
  if (const auto status = library_.worker_set_am_recv_handler(worker_, &handler);
      status != UCS_OK) {
    return failed("take messages", status);
  }
  return ok();
}

UcxWorker::~UcxWorker() {
  while (!open_.empty()) close(open_.back());
  const TimePoint until = steady_now() + kCloseWithin;
  while (!closing_.empty() && steady_now() < until) progress();
  for (const ucp_listener_h listener : listeners_) library_.listener_destroy(listener);
  if (worker_ != nullptr) library_.worker_destroy(worker_);
  if (context_ != nullptr) library_.cleanup(context_);
}

Result<std::string> UcxWorker::listen(const std::string& address) {
  const auto place = look_up_socket(address, true);
  if (!place) return invalid(fmt::format("{}: cannot listen there", place.error().message));
  ucp_listener_params_t parameters{};
  parameters.field_mask =
      UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER;
  parameters.sockaddr = {reinterpret_cast<const sockaddr*>(&place.value().place),
                         place.value().size};
  parameters.conn_handler.arg = this;
  parameters.conn_handler.cb = [](ucp_conn_request_h request, void* self) {
    static_cast<UcxWorker*>(self)->events_.on_caller(request);
  };
  ucp_listener_h listener = nullptr;
  const auto status = library_.listener_create(worker_, &parameters, &listener);
  if (status == UCS_ERR_BUSY) {
    return make_error(ErrorCode::kExists,
                      fmt::format("{}: the port is in use by another process", address));
  }
  if (status != UCS_OK) {
    return invalid(
        fmt::format("{}: cannot listen there: {}", address, library_.status_string(status)));
  }
  listeners_.push_back(listener);
  ucp_listener_attr_t attributes{};
  attributes.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR;
  SocketAddress bound;
  if (library_.listener_query(listener, &attributes) == UCS_OK) bound.place = attributes.sockaddr;
  return text_of(bound);
}

Result<ucp_ep_h> UcxWorker::connect(ucp_ep_params_t& parameters) {
  parameters.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLER | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
  parameters.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  parameters.err_handler.arg = this;
  parameters.err_handler.cb = [](void* self, ucp_ep_h connection, ucs_status_t status) {
    const auto& worker = *static_cast<UcxWorker*>(self);
    worker.events_.on_lost(connection, worker.library_.status_string(status));
  };
  ucp_ep_h connection = nullptr;
  if (const auto status = library_.ep_create(worker_, &parameters, &connection); status != UCS_OK) {
    return make_error(ErrorCode::kUnavailable, library_.status_string(status));
  }
  open_.push_back(connection);
  return connection;
}

Result<ucp_ep_h> UcxWorker::dial(const SocketAddress& address) {
  ucp_ep_params_t parameters{};
  parameters.field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR;
  parameters.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
  parameters.sockaddr = {reinterpret_cast<const sockaddr*>(&address.place), address.size};
  return connect(parameters);
}

Result<ucp_ep_h> UcxWorker::accept(ucp_conn_request_h request) {
  ucp_ep_params_t parameters{};
  parameters.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST;
  parameters.conn_request = request;
  return connect(parameters);
}

void UcxWorker::close(ucp_ep_h connection) {
  std::erase(open_, connection);
  ucp_request_param_t parameters{};
  parameters.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  parameters.flags = UCP_EP_CLOSE_FLAG_FORCE;
  void* const request = library_.ep_close_nbx(connection, &parameters);
  if (UCS_PTR_IS_PTR(request)) closing_.push_back(request);
}

void UcxWorker::collect_closed() {
  std::erase_if(closing_, [this](void* request) {
    if (library_.request_check_status(request) == UCS_INPROGRESS) return false;
    library_.request_free(request);
    return true;
  });
}

bool UcxWorker::send(ucp_ep_h connection, std::vector<std::byte> header,
                     std::span<const std::byte> data, std::shared_ptr<const void> keeps,
                     bool is_large, bool names_sender) {
  auto sent = std::make_unique<Sent>(Sent{&library_, std::move(header), std::move(keeps)});
  ucp_request_param_t parameters{};
  parameters.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                            UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  parameters.cb.send = Sent::done;
  parameters.user_data = sent.get();
  parameters.memory_type = UCS_MEMORY_TYPE_HOST;
  if (is_large) parameters.flags |= UCP_AM_SEND_FLAG_RNDV;
  if (names_sender) parameters.flags |= UCP_AM_SEND_FLAG_REPLY;
  void* const request =
      library_.am_send_nbx(connection, kActiveMessage, sent->header.data(), sent->header.size(),
                           data.data(), data.size(), &parameters);
  if (UCS_PTR_IS_PTR(request)) (void)sent.release();
  return !UCS_PTR_IS_ERR(request);
}

void UcxWorker::receive(void* data, std::span<std::byte> into,
                        std::function<void(bool is_whole)> done) {
  auto received = std::make_unique<Received>(Received{&library_, std::move(done)});
  ucp_request_param_t parameters{};
  parameters.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  parameters.cb.recv_am = Received::arrived;
  parameters.user_data = received.get();
  parameters.memory_type = UCS_MEMORY_TYPE_HOST;
  void* const request =
      library_.am_recv_data_nbx(worker_, data, into.data(), into.size(), &parameters);
  if (UCS_PTR_IS_PTR(request)) {
    (void)received.release();
    return;
  }
  received->done(!UCS_PTR_IS_ERR(request));
}

bool UcxWorker::progress() {
  const bool did_something = library_.worker_progress(worker_) != 0;
  if (!closing_.empty()) collect_closed();
  return did_something;
}

bool UcxWorker::arm() {
  return library_.worker_arm(worker_) == UCS_OK;
}

}  // namespace taut

#include "common/net/zmq/zmq_endpoint.hpp"

#include <utility>
#include <zmq.hpp>

#include "common/net/ucx/two_wires.hpp"
#include "common/net/zmq/connection_watch.hpp"
#include "common/net/zmq/zap_handler.hpp"
#include "common/net/zmq/zmq_sockets.hpp"

namespace taut {

struct ZmqContext::State {
  State(Security what, int io_threads)
      : security(std::move(what)), context(io_threads), watch(context) {
    if (security.is_insecure() || !security.admission) return;
    security.admission->refresh();
    if (security.plain_data && !security.cluster_secret.empty()) {
      tokens.emplace(security.cluster_secret);
    }
    handler = std::make_unique<ZapHandler>(context.handle(), security.admission, tokens);
  }
  const Security security;
  std::optional<TokenKey> tokens;
  zmq::context_t context;
  ConnectionWatch watch;  // its sockets close before the context, as the next one's
  std::unique_ptr<ZapHandler> handler;
};

ZmqContext::ZmqContext(Security security, int io_threads)
    : state_(std::make_unique<State>(std::move(security), io_threads)) {}
ZmqContext::~ZmqContext() = default;

std::unique_ptr<Endpoint> ZmqContext::make_endpoint(EndpointLimits limits) {
  auto zmq = std::make_unique<ZmqSockets>(state_->context, state_->watch, state_->security,
                                          state_->tokens, limits);
  return std::make_unique<TwoWires>(
      std::move(zmq), [state = state_.get(), limits]() -> Result<std::unique_ptr<WatchedEndpoint>> {
        if (state->security.is_insecure()) {
          return make_error(ErrorCode::kUnavailable,
                            "UCX is used under data_security: TOKEN alone, and insecure: true has "
                            "no secrets");
        }
        return make_ucx_endpoint(state->security, state->tokens, limits);
      });
}

std::unique_ptr<Endpoint> ZmqContext::make_data_endpoint(EndpointLimits limits) {
  auto endpoint = make_endpoint(limits);
  if (state_->tokens) {
    endpoint->use_token(state_->tokens->make(
        {.use = TokenUse::kServe, .public_key = state_->security.own.public_key}));
  }
  return endpoint;
}

const std::optional<TokenKey>& ZmqContext::tokens() const {
  return state_->tokens;
}

void ZmqContext::end_admission() {
  state_->handler.reset();
}

}  // namespace taut

// For a build without UCX's headers.
#include "common/net/ucx/ucx_endpoint.hpp"

namespace taut {

Result<std::unique_ptr<WatchedEndpoint>> make_ucx_endpoint(
    const Security& /*security*/, const std::optional<TokenKey>& /*tokens*/,
    EndpointLimits /*limits*/) {
  return make_error(ErrorCode::kUnavailable,
                    "this build has no UCX: install the package libucx-dev and build again, or "
                    "leave out transport: UCX");
}

}  // namespace taut

#pragma once

#include <optional>

#include "common/net/data_token.hpp"
#include "proto/control.pb.h"

namespace taut {

/// The secret that the coordinator has sent; nullopt if there is none, as the data plane is not
/// plain.
[[nodiscard]] inline std::optional<DataToken> to_token(const pb::DataToken& secret) {
  return DataToken::from(secret.request(), secret.answer());
}

}  // namespace taut

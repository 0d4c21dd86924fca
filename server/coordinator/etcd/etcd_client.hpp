#pragma once

#include <atomic>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "common/http/http_client.hpp"
#include "common/result.hpp"
#include "common/time.hpp"

namespace taut {

/// The addresses of an etcd cluster, and which of its keys are ours.
struct EtcdOptions {
  std::vector<std::string> members;  // "host:port", for clients
  std::string prefix;                // of every key
  Duration wait{1'000'000};          // for each member's answer
  /// The index of the member that is asked first: one that answers, as far as is known. Clients
  /// with copies of these options share it, so that a silent member delays only one of them.
  std::shared_ptr<std::atomic<std::size_t>> first = std::make_shared<std::atomic<std::size_t>>(0);
};

/// Keys and values are sent as base64.
[[nodiscard]] std::string to_base64(std::string_view bytes);
/// Errors    invalid: not base64
[[nodiscard]] Result<std::string> from_base64(std::string_view text);

/// Sends requests to etcd's JSON gateway: to the member that answered last, or else to the next
/// one. Clients with copies of the same options share which member that is.
/// Source    etcd's documentation, "gRPC gateway", version 3.4
/// Thread    one
class EtcdClient {
 public:
  explicit EtcdClient(const EtcdOptions& options);

  /// Posts a request, such as "/v3/kv/range". It may be executed more than once, and late.
  /// Errors    unavailable: no member answered; invalid: etcd refused it, with the reason
  [[nodiscard]] Result<nlohmann::json> call(const std::string& path, const nlohmann::json& request);

 private:
  [[nodiscard]] Result<nlohmann::json> ask(http::HttpClient& member, const std::string& path,
                                           const std::string& request);

  const Duration wait_;
  const std::shared_ptr<std::atomic<std::size_t>> first_;
  std::vector<http::HttpClient> members_;
};

}  // namespace taut

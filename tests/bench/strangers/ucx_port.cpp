// The rows of a shard that is reached through UCX. Its data plane is plain: there is no other.
#include <fmt/format.h>

#include <optional>
#include <string>

#include "common/net/ucx/ucx_endpoint.hpp"
#include "tests/bench/strangers/port_rows.hpp"

namespace taut::strangers {
namespace {

class UcxPort final : public Port {
 public:
  std::vector<Stranger> strangers() override {
    std::vector<Stranger> rows = plain_rows(cluster_);
    // No process of ours connects there without a secret: a test says what it tries instead.
    std::erase_if(rows, [](const Stranger& row) { return !row.token; });
    for (Stranger& row : rows) {
      row.port = "shard, UCX";
      // Each takes several descriptors, for a second after it was refused.
      row.at_once = 10;
    }
    return rows;
  }

  /// The engine itself looks up the holder of each secret.
  [[nodiscard]] bool has_handler() const override { return false; }
  void end_admission() override {}

 private:
  test::GuardedCluster cluster_{true, "ucx://127.0.0.1:0"};
};

}  // namespace

std::unique_ptr<Port> ucx_port() {
  const Security security = Security::insecure();
  const std::optional<TokenKey> tokens;
  const auto tried = make_ucx_endpoint(security, tokens, {});
  if (tried) return std::make_unique<UcxPort>();
  fmt::print("a shard reached through UCX is left out: {}\n", tried.error().message);
  return nullptr;
}

}  // namespace taut::strangers

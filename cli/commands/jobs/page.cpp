#include <fmt/format.h>

#include <memory>
#include <string>

#include "cli/commands/shared_options.hpp"
#include "common/http/login.hpp"
#include "common/unix_time.hpp"
#include "proto/cluster.pb.h"
#include "proto/config/cluster_security.hpp"

namespace taut::cli {
namespace {

struct PageOptions {
  std::string place;
  std::string token;
  std::string config_file;
  std::string keys;
};

/// The URL of "127.0.0.1:7680", "train.example.org" or "https://train.example.org/".
std::string url_of(std::string place) {
  if (place.find("://") == std::string::npos) place = "http://" + place;
  while (place.ends_with('/')) place.pop_back();
  return place;
}

Result<void> page(const PageOptions& options) {
  TAUT_TRY(const pb::ClusterConfig config, read_cluster(options.config_file, options.keys, false));
  const std::string place =
      url_of(options.place.empty() ? config.http().dashboard() : options.place);
  TAUT_TRY(const std::string secret, http_secret(config));
  if (secret.empty()) {
    return invalid(fmt::format("{} says insecure: true: the page has no login, open {}/",
                               options.config_file, place));
  }
  if (!options.token.empty()) {
    const bool may_change = options.token == "change";
    fmt::print("{}\n", http::token_of(secret, may_change ? http::TokenRight::kChange
                                                         : http::TokenRight::kRead));
    return ok();
  }
  fmt::print("{}{}\n", place, http::login_path(secret, unix_time_s()));
  return ok();
}

}  // namespace

void add_page(Command& command, int& status) {
  auto options = std::make_shared<PageOptions>();
  command
      .text("ADDRESS", options->place,
            "Where a browser reaches the page: HOST:PORT, or the URL of a proxy")
      .value("ADDRESS")
      .by_default(pb::HttpConfig().dashboard());
  command
      .text("--config", options->config_file,
            "Cluster file of the daemon, for its keys and the address")
      .value("CLUSTERFILE");
  command
      .text("--keys", options->keys,
            "The folder of the daemon's keys (default: TAUTLINE_KEYS, else your own)")
      .value("DIR");
  command.one_of("--token", options->token,
                 "Prints a token for \"Authorization: Bearer TOKEN\": one that may read, for "
                 "scrapers, or one that may change jobs",
                 {"read", "change"});
  command.on_run([options, &status] {
    if (const auto done = page(*options); !done) status = fail("page", done.error().message);
  });
}

}  // namespace taut::cli

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "proto/config/exchange/settle_exchange.hpp"
#include "proto/config/external_job.hpp"
#include "proto/config/job_misfit.hpp"
#include "proto/config/text.hpp"
#include "proto/session/control_client.hpp"
#include "proto/wire_version.hpp"
#include "worker/library/guarded.hpp"
#include "worker/library/json_text.hpp"
#include "worker/library/library_keys.hpp"

struct tautline_cluster {
  taut::ControlClient client;
};

using namespace taut;           // NOLINT(google-build-using-namespace): what follows is C
using namespace taut::library;  // NOLINT(google-build-using-namespace)

const char* tautline_version(void) {
  static const std::string version = build_name();
  return version.c_str();
}

void tautline_free(char* text) {
  std::free(text);
}

tautline_code tautline_connect(const char* address, const char* keys, double wait_s,
                               tautline_cluster** cluster) {
  return guarded([&]() -> Result<void> {
    if (address == nullptr || cluster == nullptr) return invalid("an argument is NULL");
    TAUT_TRY(to_wait(wait_s));
    prepare_process();
    TAUT_TRY(const Security security, user_keys(keys));
    TAUT_TRY(auto client, connect_control(address, wait_s, security));
    *cluster = std::make_unique<tautline_cluster>(tautline_cluster{std::move(client)}).release();
    return ok();
  });
}

void tautline_disconnect(tautline_cluster* cluster) {
  const std::unique_ptr<tautline_cluster> owned(cluster);
}

tautline_code tautline_submit(tautline_cluster* cluster, const char* job_text, uint64_t* job) {
  return guarded([&]() -> Result<void> {
    if (cluster == nullptr || job_text == nullptr || job == nullptr) {
      return invalid("an argument is NULL");
    }
    pb::Job definition;
    TAUT_TRY(parse_text(job_text, "job", definition));
    settle_exchange(definition);
    TAUT_TRY(check_places(definition, job_text, "job"));
    TAUT_TRY(check_external_members(definition));
    TAUT_TRY(const pb::SubmitReply reply, cluster->client.submit(definition));
    *job = reply.job();
    return ok();
  });
}

tautline_code tautline_status(tautline_cluster* cluster, uint64_t job, char** json) {
  return guarded([&]() -> Result<void> {
    if (cluster == nullptr || json == nullptr) return invalid("an argument is NULL");
    TAUT_TRY(const pb::StatusReply reply, cluster->client.status(JobId(job)));
    TAUT_TRY(const std::string text, json_of(reply, "the status"));
    *json = text_of(text);
    return ok();
  });
}

tautline_code tautline_set_slack(tautline_cluster* cluster, uint64_t job, int64_t slack) {
  return guarded([&]() -> Result<void> {
    if (cluster == nullptr) return invalid("an argument is NULL");
    TAUT_TRY(cluster->client.set_slack(JobId(job), slack < 0 ? Slack::unbounded() : Slack(slack)));
    return ok();
  });
}

tautline_code tautline_stop(tautline_cluster* cluster, uint64_t job, int discard) {
  return guarded([&]() -> Result<void> {
    if (cluster == nullptr) return invalid("an argument is NULL");
    TAUT_TRY(cluster->client.stop(JobId(job), discard != 0));
    return ok();
  });
}

tautline_code tautline_finish_job(tautline_cluster* cluster, uint64_t job) {
  return guarded([&]() -> Result<void> {
    if (cluster == nullptr) return invalid("an argument is NULL");
    TAUT_TRY(cluster->client.finish(JobId(job)));
    return ok();
  });
}

tautline_code tautline_checkpoint(tautline_cluster* cluster, uint64_t job) {
  return guarded([&]() -> Result<void> {
    if (cluster == nullptr) return invalid("an argument is NULL");
    TAUT_TRY(cluster->client.checkpoint(JobId(job)));
    return ok();
  });
}

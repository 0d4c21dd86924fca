#include "server/coordinator/data_secrets.hpp"

namespace taut {

void add_secret(pb::ControlMessage& message, const TokenKey& tokens,
                const std::string& public_key) {
  TokenScope scope;
  scope.public_key = public_key;
  pb::DataToken* secret = nullptr;
  // A worker that is told to end a job to which it does not belong needs no shard.
  if (message.has_worker_job() && !message.worker_job().shards().empty()) {
    pb::WorkerJob& job = *message.mutable_worker_job();
    scope.use = TokenUse::kTrain;
    scope.job = JobId(job.job());
    scope.submission = job.token();
    scope.worker = WorkerId(job.worker());
    scope.incarnation = Incarnation(job.incarnation());
    secret = job.mutable_secret();
  } else if (message.has_follow_reply() && message.follow_reply().job() != 0) {
    pb::FollowReply& reply = *message.mutable_follow_reply();
    scope.use = TokenUse::kRead;
    scope.job = JobId(reply.job());
    scope.submission = reply.submission();
    secret = reply.mutable_secret();
  } else if (message.has_heartbeat_reply() && message.heartbeat_reply().has_check()) {
    scope.use = TokenUse::kCheck;
    secret = message.mutable_heartbeat_reply()->mutable_check_secret();
  }
  if (secret == nullptr) return;
  const DataToken token = tokens.make(scope);
  secret->set_request(std::string(token.request().text()));
  secret->set_answer(std::string(token.answer().text()));
}

}  // namespace taut

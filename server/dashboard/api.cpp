#include "server/dashboard/api.hpp"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "common/types.hpp"
#include "server/dashboard/assets.hpp"
#include "server/dashboard/status_json.hpp"

namespace taut::dashboard {
namespace {

using nlohmann::json;

std::string event(const char* name, const json& data) {
  return fmt::format("event: {}\ndata: {}\n\n", name, to_text(data));
}

/// "/api/jobs/7/slack": 7 and "slack". nullopt for any other path.
std::optional<std::pair<std::uint64_t, std::string>> job_path(const std::string& path) {
  constexpr std::string_view kBefore = "/api/jobs/";
  if (!path.starts_with(kBefore)) return std::nullopt;
  const char* const begin = path.data() + kBefore.size();
  const char* const end = path.data() + path.size();
  std::uint64_t job = 0;
  const auto [stopped, error] = std::from_chars(begin, end, job);
  if (error != std::errc() || job == 0) return std::nullopt;
  if (stopped == end) return std::pair{job, std::string()};
  if (*stopped != '/') return std::nullopt;
  return std::pair{job, std::string(stopped + 1, end)};
}

bool is_command(const std::string& path) {
  const auto job = job_path(path);
  return path == "/api/trace" || (job && (job->second == "slack" || job->second == "stop"));
}

bool is_page(const std::string& path) {
  const auto job = job_path(path);
  return asset(path) != nullptr || path == "/api/status" || path == "/api/events" ||
         (job && job->second.empty());
}

http::Response refusal(unsigned status, const std::string& reason) {
  return http::json_response(status, json{{"error", reason}}.dump() + "\n");
}

http::Response wrong_method(const std::string& allowed) {
  http::Response response = refusal(405, "this address answers " + allowed);
  response.allow = allowed;
  return response;
}

}  // namespace

http::Response Api::answer(const http::Request& request) {
  const bool looks = request.method == "GET" || request.method == "HEAD";
  if (is_command(request.path)) {
    return request.method == "POST" ? command(request) : wrong_method("POST");
  }
  if (!is_page(request.path)) return refusal(404, "this address does not exist");
  if (!looks) return wrong_method("GET, HEAD");
  if (const Asset* file = asset(request.path)) {
    http::Response response;
    response.type = file->type;
    response.body = std::string(file->bytes);
    return response;
  }
  if (request.path == "/api/events") return stream_response();
  const auto job = job_path(request.path);
  return status_response(job ? job->first : 0);
}

Result<pb::StatusReply> Api::status(std::uint64_t job) {
  pb::ControlMessage message;
  message.mutable_status_request()->set_job(job);
  TAUT_TRY(auto reply, ask_(message));
  return std::move(*reply.mutable_status_reply());
}

http::Response Api::status_response(std::uint64_t job) {
  auto found = status();
  if (!found) return refusal(503, found.error().message);
  const pb::JobStatus* shown = shown_job(found.value(), job);
  if (job != 0 && shown == nullptr) return refusal(404, fmt::format("job {} does not exist", job));
  if (job != 0 && shown->state() >= pb::DONE) {
    // In a status of all jobs, one that ended long ago may be shortened.
    const auto own = status(job);
    const bool is_found = own && own.value().jobs_size() == 1;
    for (pb::JobStatus& one : *found.value().mutable_jobs()) {
      if (is_found && one.job() == job) one = own.value().jobs(0);
    }
  }
  json all = status_json(found.value(), now_(), job);
  if (shown != nullptr) all["history"] = history_.of(shown->job());
  return http::json_response(200, to_text(all));
}

http::Response Api::stream_response() {
  const auto found = status();
  if (!found) return refusal(503, found.error().message);
  http::Response response;
  response.streams = true;
  const pb::JobStatus* shown = shown_job(found.value());
  if (shown != nullptr) response.body = event("history", history_.of(shown->job()));
  response.body += event("status", status_json(found.value(), now_()));
  return response;
}

std::string Api::tick() {
  const auto found = status();
  if (!found) return {};
  if (const pb::JobStatus* shown = shown_job(found.value())) history_.add(*shown);
  return event("status", status_json(found.value(), now_()));
}

http::Response Api::command(const http::Request& request) {
  // A form on another site cannot send this type without a preflight request.
  if (!request.content_type.starts_with("application/json")) {
    return refusal(415, "send the body as application/json");
  }
  const auto job = job_path(request.path);
  if (job) return job_command(job->first, job->second, request.body);
  const json body = json::parse(request.body, nullptr, false);
  if (!body.is_object() || !body.contains("on") || !body["on"].is_boolean()) {
    return refusal(400, R"(the body must be {"on": true or false})");
  }
  pb::ControlMessage message;
  message.mutable_set_trace()->set_on(body["on"]);
  return carry_out(message);
}

http::Response Api::job_command(std::uint64_t job, const std::string& word,
                                const std::string& text) {
  pb::ControlMessage message;
  const json body = json::parse(text, nullptr, false);
  if (word == "stop") {
    const bool fits =
        body.is_object() && (!body.contains("discard") || body["discard"].is_boolean());
    if (!fits) return refusal(400, R"(the body must be {} or {"discard": true or false})");
    message.mutable_stop_job()->set_job(job);
    message.mutable_stop_job()->set_discard(body.value("discard", false));
    return carry_out(message);
  }
  const bool has_slack = body.is_object() && body.contains("slack");
  const bool fits = has_slack && (body["slack"].is_null() || body["slack"].is_number_unsigned());
  if (!fits || (!body["slack"].is_null() && body["slack"] > 1'000'000'000)) {
    return refusal(
        400, R"(the body must be {"slack": N}, with a number of clocks, or null for no bound)");
  }
  message.mutable_set_slack()->set_job(job);
  message.mutable_set_slack()->set_slack(
      body["slack"].is_null() ? Slack::unbounded().clocks() : body["slack"].get<std::int64_t>());
  return carry_out(message);
}

http::Response Api::carry_out(const pb::ControlMessage& message) {
  const auto reply = ask_(message);
  if (!reply) return refusal(503, reply.error().message);
  const pb::CommandReply& done = reply.value().command_reply();
  if (!done.error().empty()) return refusal(409, done.error());
  return http::json_response(200, json{{"message", done.message()}}.dump() + "\n");
}

}  // namespace taut::dashboard

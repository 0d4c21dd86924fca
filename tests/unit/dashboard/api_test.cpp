#include "server/dashboard/api.hpp"

#include <nlohmann/json.hpp>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/unit/dashboard/status_maker.hpp"

namespace taut::dashboard {
namespace {

/// An Api before a coordinator that notes what it is asked.
class ApiTest {
 public:
  http::Response send(const std::string& method, const std::string& path,
                      const std::string& body = "", const std::string& type = "application/json") {
    http::Request request;
    request.method = method;
    request.path = path;
    request.body = body;
    request.content_type = type;
    return api.answer(request);
  }
  std::vector<pb::ControlMessage> commands;
  std::string refuses;
  bool is_silent = false;
  Api api{[this](const pb::ControlMessage& message) -> Result<pb::ControlMessage> {
            if (is_silent) return make_error(ErrorCode::kTimeout, "the coordinator is silent");
            pb::ControlMessage reply;
            if (message.has_status_request()) {
              *reply.mutable_status_reply() = make_status(2);
            } else {
              commands.push_back(message);
              reply.mutable_command_reply()->set_error(refuses);
              reply.mutable_command_reply()->set_message("done so");
            }
            return reply;
          },
          [] { return 1000.0; }};
};

TEST_CASE_METHOD(ApiTest, "the page and its parts are served with their types", "[dashboard]") {
  CHECK(send("GET", "/").type == "text/html; charset=utf-8");
  CHECK(send("GET", "/app.js").type == "text/javascript; charset=utf-8");
  CHECK(send("GET", "/uplot.css").type == "text/css; charset=utf-8");
}

TEST_CASE("a job that has ended is served in full though the list has it in short", "[dashboard]") {
  const auto answer = [](const pb::ControlMessage& message) -> Result<pb::ControlMessage> {
    pb::ControlMessage reply;
    const bool in_full = message.status_request().job() == 7;
    *reply.mutable_status_reply() = make_status(in_full ? 5 : 1);
    pb::JobStatus& job = *reply.mutable_status_reply()->mutable_jobs(0);
    job.set_state(pb::DONE);
    if (!in_full) job.set_former_workers(4);
    return reply;
  };
  Api api{answer, [] { return 1000.0; }};
  http::Request request;
  request.method = "GET";
  request.path = "/api/jobs/7";
  const auto shown = nlohmann::json::parse(api.answer(request).body);
  CHECK(shown["job"]["by_worker"]["name"].size() == 5);
  request.path = "/api/status";
  const auto listed = nlohmann::json::parse(api.answer(request).body);
  CHECK(listed["jobs"][0]["workers"] == 5);
}

TEST_CASE_METHOD(ApiTest, "another path is 404, another method 405 with what works",
                 "[dashboard]") {
  for (const char* path :
       {"/none", "/api", "/api/jobs", "/api/jobs/x", "/api/jobs/0", "/api/jobs/7/fly",
        "/../etc/passwd", "//", "/api/jobs/-1", "/api/jobs/99999999999999999999999"}) {
    INFO(path);
    CHECK(send("GET", path).status == 404);
    CHECK(send("POST", path, "{}").status == 404);
  }
  for (const char* path : {"/", "/api/status", "/api/events", "/api/jobs/7"}) {
    INFO(path);
    CHECK(send("POST", path, "{}").status == 405);
    CHECK(send("DELETE", path).allow == "GET, HEAD");
  }
  for (const char* path : {"/api/jobs/7/slack", "/api/jobs/7/stop", "/api/trace"}) {
    INFO(path);
    CHECK(send("GET", path).status == 405);
    CHECK(send("PUT", path, "{}").allow == "POST");
  }
  CHECK(commands.empty());
}

TEST_CASE_METHOD(ApiTest, "slack is set to a number, or to none", "[dashboard]") {
  CHECK(send("POST", "/api/jobs/7/slack", R"({"slack": 3})").status == 200);
  CHECK(send("POST", "/api/jobs/7/slack", R"({"slack": null})").status == 200);
  REQUIRE(commands.size() == 2);
  CHECK(commands[0].set_slack().job() == 7);
  CHECK(commands[0].set_slack().slack() == 3);
  CHECK(Slack(commands[1].set_slack().slack()).is_unbounded());
}

TEST_CASE_METHOD(ApiTest, "a body that is no slack is refused and changes nothing", "[dashboard]") {
  for (const char* body :
       {"", "{}", "[]", "3", R"({"slack": -1})", R"({"slack": 1.5})", R"({"slack": "3"})",
        R"({"slack": 99999999999})", R"({"slack": true})", "{\"slack\": 3", "\xff\xfe"}) {
    INFO(body);
    CHECK(send("POST", "/api/jobs/7/slack", body).status == 400);
  }
  CHECK(send("POST", "/api/trace", R"({"on": 1})").status == 400);
  CHECK(send("POST", "/api/jobs/7/slack", R"({"slack": 3})", "text/plain").status == 415);
  CHECK(send("POST", "/api/jobs/7/stop", "{}", "").status == 415);
  CHECK(send("POST", "/api/jobs/7/stop", R"({"discard": 1})").status == 400);
  CHECK(commands.empty());
}

TEST_CASE_METHOD(ApiTest, "stop and trace reach the coordinator, and its refusals come back",
                 "[dashboard]") {
  CHECK(send("POST", "/api/jobs/9/stop", "{}").body.find("done so") != std::string::npos);
  CHECK(send("POST", "/api/trace", R"({"on": true})").status == 200);
  REQUIRE(commands.size() == 2);
  CHECK(commands[0].stop_job().job() == 9);
  CHECK(!commands[0].stop_job().discard());
  CHECK(send("POST", "/api/jobs/9/stop", R"({"discard": true})").status == 200);
  CHECK(commands[2].stop_job().discard());
  CHECK(commands[1].set_trace().on());
  refuses = "job 9 has ended: it is done";
  const http::Response refused = send("POST", "/api/jobs/9/stop", "{}");
  CHECK(refused.status == 409);
  CHECK(nlohmann::json::parse(refused.body)["error"] == refuses);
}

TEST_CASE_METHOD(ApiTest, "a stream starts with the history and a status", "[dashboard]") {
  CHECK(api.tick().starts_with("event: status\ndata: {"));
  const http::Response response = send("GET", "/api/events");
  CHECK(response.streams);
  CHECK(response.body.starts_with("event: history\ndata: {"));
  CHECK(response.body.find("event: status\n") != std::string::npos);
  const auto job = nlohmann::json::parse(send("GET", "/api/jobs/7").body);
  CHECK(job["history"]["clock"].size() == 1);
  CHECK(send("GET", "/api/jobs/8").status == 404);
}

TEST_CASE_METHOD(ApiTest, "while the coordinator is silent, that is said", "[dashboard]") {
  is_silent = true;
  for (const char* path : {"/api/status", "/api/events", "/api/jobs/7"}) {
    CHECK(send("GET", path).status == 503);
  }
  CHECK(send("POST", "/api/jobs/7/stop", "{}").status == 503);
  CHECK(api.tick().empty());
  CHECK(send("GET", "/").status == 200);
}

}  // namespace
}  // namespace taut::dashboard

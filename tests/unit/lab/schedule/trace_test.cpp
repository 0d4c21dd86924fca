// Traces: four formats are read, and lines that cannot be are refused with their place.
#include "lab/schedule/trace.hpp"
#include "lab/schedule/traces/host_list.hpp"

#include "lab/schedule/models.hpp"
#include "tests/support/catch.hpp"

namespace taut::schedule {
namespace {

const std::string kTiresias =
    "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n";
const std::string kMuri =
    "job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval,iteration_time,"
    "resource_time_0,resource_time_1,resource_time_2,priority\n";
const std::string kPhilly = "timestamp,duration,num_gpus,gpu_time,cluster\n";
const std::string kAlibaba =
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,"
    "deletion_time,scheduled_time\n";

std::string refusal(const std::string& text) {
  const auto trace = parse_trace(text, "jobs.csv");
  REQUIRE_FALSE(trace);
  return trace.error().message;
}

TEST_CASE("a trace of Tiresias is read, in seconds", "[schedule]") {
  const auto trace =
      parse_trace(kTiresias + "7,8,30,133,vgg11,147,23\n3,1,10,606,ResNet50,164.5,30\n", "t");
  REQUIRE(trace);
  CHECK(trace.value().format == "tiresias");
  REQUIRE(trace.value().jobs.size() == 2);
  const Job& first = trace.value().jobs[0];
  CHECK(first.name == "3");
  CHECK(first.submit_s == 0);
  CHECK(first.service_s == 164.5);
  CHECK(models()[first.model].name == "resnet50");
  const Job& second = trace.value().jobs[1];
  CHECK(second.submit_s == 20);
  CHECK(second.workers == 8);
  CHECK(second.min_workers == 4);
  CHECK(second.max_workers == 16);
}

TEST_CASE("a trace of Muri is read, in milliseconds, with its stages", "[schedule]") {
  const auto trace = parse_trace(
      kMuri + "2,8,5000,20901556,vgg16,16,4472933000,197456000,214,82,75,66,0\r\n", "t");
  REQUIRE(trace);
  CHECK(trace.value().format == "muri");
  const Job& job = trace.value().jobs.at(0);
  CHECK(job.service_s == 4472933);
  CHECK(job.iteration_s == 0.214);
  CHECK(job.stage_s == StageSeconds{0.082, 0.075, 0.066});
}

TEST_CASE("a trace of Philly is sorted by its times of day", "[schedule]") {
  const auto trace = parse_trace(kPhilly +
                                     "2017-10-04 00:00:10,60.5,2,121,ed69ec\n"
                                     "2017-10-03 23:59:50,10,1,10,6214e9\n",
                                 "t");
  REQUIRE(trace);
  CHECK(trace.value().format == "philly");
  CHECK(trace.value().jobs.at(0).workers == 1);
  CHECK(trace.value().jobs.at(1).submit_s == 20);
  CHECK(trace.value().jobs.at(1).service_s == 60.5);
}

TEST_CASE("a trace of Alibaba leaves out jobs without a device or that never ran", "[schedule]") {
  const auto trace = parse_trace(kAlibaba +
                                     "a,4000,1024,1,460,,LS,Running,100,900,150\n"
                                     "b,4000,1024,0,0,,LS,Running,100,900,150\n"
                                     "c,4000,1024,1,1000,,BE,Pending,100,,\n"
                                     "d,4000,1024,8,1000,V100M32,BE,Succeeded,120,180,121\n",
                                 "t");
  REQUIRE(trace);
  CHECK(trace.value().format == "alibaba");
  CHECK(trace.value().left_out == 2);
  REQUIRE(trace.value().jobs.size() == 2);
  CHECK(trace.value().jobs[0].share == 0.46);
  CHECK(trace.value().jobs[0].service_s == 750);
  CHECK(trace.value().jobs[1].workers == 8);
  CHECK(trace.value().jobs[1].submit_s == 20);
}

TEST_CASE("a bad line of a trace is refused with file, line, column, value and what is required",
          "[schedule]") {
  CHECK(refusal("") == "jobs.csv: must have at least one job");
  CHECK(refusal(kTiresias) == "jobs.csv: must have at least one job");
  CHECK(refusal("a,b\n1,2\n") ==
        "jobs.csv:1:1: the columns must be those of a trace of Tiresias, Muri, Philly or Alibaba "
        "2023, are \"a,b\"");
  CHECK(refusal(kTiresias + "0,1,0,606,vgg19,164,30\n1,1,0,606,vgg19,164\n") ==
        "jobs.csv:3:20: a line must have 7 fields as the first one has, has 6");
  CHECK(refusal(kTiresias + "1,1,0,606,vgg19,164,30,7\n") ==
        "jobs.csv:2:24: a line must have 7 fields as the first one has, has 8");
  CHECK(refusal(kTiresias + "0,0,0,606,vgg19,164,30\n") ==
        "jobs.csv:2:3: num_gpu must be a whole number from 1 to 65536, is \"0\"");
  CHECK(refusal(kTiresias + "0,1.5,0,606,vgg19,164,30\n") ==
        "jobs.csv:2:3: num_gpu must be a whole number from 1 to 65536, is \"1.5\"");
  CHECK(refusal(kTiresias + "0,1,-3,606,vgg19,164,30\n") ==
        "jobs.csv:2:5: submit_time must be a number of at least 0, is \"-3\"");
  CHECK(refusal(kTiresias + "0,1,0,606,vgg19,0,30\n") ==
        "jobs.csv:2:17: duration must be a number greater than 0, is \"0\"");
  CHECK(refusal(kTiresias + "0,1,0,606,vgg19,nan,30\n") ==
        "jobs.csv:2:17: duration must be a number greater than 0, is \"nan\"");
  // The simulation would lose seconds, as of nanoseconds since 1970.
  CHECK(refusal(kTiresias + "0,1,1e14,606,vgg19,164,30\n") ==
        "jobs.csv:2:5: submit_time must be a number of at most 4e+09, is \"1e14\"");
  CHECK(refusal(kTiresias + "0,1,0,606,vgg19,5e9,30\n") ==
        "jobs.csv:2:17: duration must be a number of at most 4e+09, is \"5e9\"");
  CHECK(refusal(kMuri + "2,8,5e12,2,vgg16,16,447,197,214,82,75,66,0\n") ==
        "jobs.csv:2:5: submit_time must be a number of at most 4e+12, is \"5e12\"");
  CHECK(refusal(kPhilly + "2117-10-03 14:02:11,60.5,2,121,ed69ec\n") ==
        "jobs.csv:2:1: timestamp must be a time from 1970 to 2096, is \"2117-10-03 14:02:11\"");
  CHECK(refusal(kMuri + "2,8,5,2,vgg16,16,447,197,0,82,75,66,0\n") ==
        "jobs.csv:2:26: iteration_time must be a number greater than 0, is \"0\"");
  CHECK(
      refusal(kPhilly + "2017-02-29 00:00:10,60.5,2,121,ed69ec\n") ==
      "jobs.csv:2:1: timestamp must be a time as 2017-10-03 14:02:11, is \"2017-02-29 00:00:10\"");
  CHECK(
      refusal(kPhilly + "2017-10-03 24:00:10,60.5,2,121,ed69ec\n") ==
      "jobs.csv:2:1: timestamp must be a time as 2017-10-03 14:02:11, is \"2017-10-03 24:00:10\"");
  CHECK(
      refusal(kPhilly + "2o17-10-03 14:02:11,60.5,2,121,ed69ec\n") ==
      "jobs.csv:2:1: timestamp must be a time as 2017-10-03 14:02:11, is \"2o17-10-03 14:02:11\"");
  CHECK(refusal(kAlibaba + "a,4000,1024,1,2000,,LS,Running,100,900,150\n") ==
        "jobs.csv:2:15: gpu_milli must be a whole number from 1 to 1000, is \"2000\"");
  CHECK(refusal(kAlibaba + "a,4000,1024,1,460,,LS,Running,100,150,150\n") ==
        "jobs.csv:2:35: deletion_time must be a number greater than 150, is \"150\"");
  CHECK(refusal(kAlibaba + "b,4000,1024,0,0,,LS,Running,100,900,150\n") ==
        "jobs.csv: at least one job must use a device, none does");
}

TEST_CASE("the nodes of Alibaba's cluster are its hosts", "[schedule]") {
  const std::string head = "sn,cpu_milli,memory_mib,gpu,model\n";
  const auto cluster = parse_nodes(head +
                                       "n0,64000,262144,2,P100\n"
                                       "n1,96000,393216,0,\n"
                                       "n2,96000,786432,8,V100M32\r\n"
                                       "n3,128000,786432,4,G2\n",
                                   "nodes.csv", 2);
  REQUIRE(cluster);
  const auto& hosts = cluster.value().hosts;
  REQUIRE(hosts.size() == 3);
  CHECK(cluster.value().devices() == 14);
  CHECK(hosts[0].type == DeviceType::kP100);
  CHECK(hosts[1].type == DeviceType::kV100);
  CHECK(hosts[1].devices == 8);
  CHECK(hosts[2].type == DeviceType::kV100);
  CHECK(hosts[2].first == 10);
  CHECK(hosts[1].rack == 0);
  CHECK(hosts[2].rack == 1);
  const auto refused = [&](const std::string& text) {
    const auto nodes = parse_nodes(text, "nodes.csv", 0);
    REQUIRE_FALSE(nodes);
    return nodes.error().message;
  };
  CHECK(
      refused(head + "n0,1,1,2,P4\n") ==
      "nodes.csv:2:10: model must be V100, V100M16, V100M32, P100, K80, T4, A10, G1, G2 or G3, is "
      "\"P4\"");
  CHECK(refused(head + "n0,1,1,65,T4\n") ==
        "nodes.csv:2:8: gpu must be a whole number from 0 to 64, is \"65\"");
  CHECK(refused("sn,gpu\nn0,1\n") ==
        "nodes.csv:1:1: the columns must be sn,cpu_milli,memory_mib,gpu,model, are \"sn,gpu\"");
  CHECK(refused(head) == "nodes.csv: must have at least one node");
  CHECK(refused(head + "n0,1,1,0,\n") ==
        "nodes.csv: at least one node must have a device, none does");
}

TEST_CASE("a trace with random damage is read or refused, never more", "[schedule]") {
  const std::string whole = kTiresias + "0,1,0,606,vgg19,164,30\n1,8,30,133,vgg11,147,23\n";
  for (std::size_t length = 0; length <= whole.size(); ++length) {
    const auto trace = parse_trace(whole.substr(0, length), "t");
    if (trace) CHECK_FALSE(trace.value().jobs.empty());
  }
  for (std::size_t i = 0; i < whole.size(); ++i) {
    for (const char c : {'\0', ',', '\n', '9', '-', '\xff'}) {
      std::string damaged = whole;
      damaged[i] = c;
      const auto trace = parse_trace(damaged, "t");
      if (!trace) CHECK(trace.error().message.starts_with("t:"));
    }
  }
}

}  // namespace
}  // namespace taut::schedule

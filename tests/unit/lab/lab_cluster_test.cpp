#include "proto/config/lab/lab_cluster.hpp"

#include "proto/config/lab/lab_times.hpp"
#include "tests/support/catch.hpp"

namespace taut {
namespace {

std::string refusal_of(const std::string& text) {
  const auto cluster = parse_lab_cluster(text, "c");
  CAPTURE(text);
  REQUIRE_FALSE(cluster.has_value());
  return cluster.error().message;
}

const std::string kHosts = "host { name: \"h\" count: 2 servers: 1 link: \"a\" }\n";

}  // namespace

TEST_CASE("a cluster of one host needs no link", "[lab]") {
  CHECK(parse_lab_cluster("host { name: \"h\" servers: 1 }", "c").has_value());
}

TEST_CASE("a host alone in a rack that has its own link needs none", "[lab]") {
  CHECK(parse_lab_cluster("host { name: \"h\" servers: 1 rack: \"r\" }\n"
                          "rack { name: \"r\" link: \"a\" }\nlink { name: \"a\" gbit_per_s: 1 }",
                          "c")
            .has_value());
}

TEST_CASE("a lab's cluster that cannot be is refused with line and column", "[lab]") {
  CHECK(refusal_of("") == "c:1:1: the cluster has no host; add host { }");
  CHECK(refusal_of(kHosts + "link { name: \"fast\" gbit_per_s: 1 }") ==
        "c:1:38: no link \"a\"; add link { name: \"a\" }");
  CHECK(refusal_of(kHosts + "link { name: \"a\" gbit_per_s: 0 }") ==
        "c:2:18: gbit_per_s must be between 1e-06 and 100000, is 0");
  CHECK(refusal_of(kHosts + "link { name: \"a\" gbit_per_s: nan }") ==
        "c:2:18: gbit_per_s must be between 1e-06 and 100000, is nan");
  CHECK(refusal_of(kHosts + "link { name: \"a\" gbit_per_s: 1e-17 }") ==
        "c:2:18: gbit_per_s must be between 1e-06 and 100000, is 1e-17");
  CHECK(refusal_of(kHosts + "link { name: \"a\" gbit_per_s: 1 latency_us: -1 }") ==
        "c:2:32: latency_us must be between 0 and 10000000, is -1");
  CHECK(refusal_of(kHosts + "link { name: \"a\" gbit_per_s: 1 }\n\nlink { name: \"a\" }") ==
        "c:4:8: link \"a\" is given twice; give another name");
  CHECK(refusal_of("host { name: \"h\\033[2J\" servers: 1 }") ==
        "c:1:8: host \"h\\x1b[2J\" has control characters in its name; omit them");
  CHECK(refusal_of("host { name: \"h\" count: 2 servers: 1 }") ==
        "c:1:1: a host without a link among several; name one");
  CHECK(refusal_of("host { name: \"h\" servers: 1 rack: \"r\" }") ==
        "c:1:29: no rack \"r\"; add rack { name: \"r\" }");
  CHECK(refusal_of("host { name: \"h\" servers: 1 rack: \"r\" }\n"
                   "rack { name: \"r\" oversubscription: 4 }") ==
        "c:1:1: host \"h\" has no link, and the link of its rack is the sum of its hosts' ones; "
        "name one");
  CHECK(refusal_of("host { name: \"h\" servers: 1 }\nlink { name: \"a\" gbit_per_s: 1 }") ==
        "c:2:8: link \"a\" is used by no host and no rack; name it in one, or remove it");
  CHECK(refusal_of("host { name: \"h\" servers: 1 }\n"
                   "rack { name: \"r\" link: \"a\" }\nlink { name: \"a\" gbit_per_s: 1 }") ==
        "c:2:8: rack \"r\" has no host; name it in one, or remove it");
  // An outage of "h1", or of "h10", would be one of machines of both.
  CHECK(refusal_of("host { name: \"h\" count: 11 link: \"a\" }\n"
                   "host { name: \"h1\" count: 2 link: \"a\" }\n"
                   "link { name: \"a\" gbit_per_s: 1 }") ==
        "c:2:8: host \"h1\": \"h1\" is a machine of another host too; give another name");
  CHECK(refusal_of("host { name: \"h10\" link: \"a\" }\n"
                   "host { name: \"h\" count: 11 link: \"a\" }\n"
                   "link { name: \"a\" gbit_per_s: 1 }") ==
        "c:2:8: host \"h\": \"h10\" is a machine of another host too; give another name");
  CHECK(refusal_of("host { name: \"h\" }") == "c:1:1: no host has servers; add servers: 1");
  CHECK(refusal_of("host { name: \"h\" servers: 1 cores: 0 }") ==
        "c:1:29: cores must be between 1 and 4096, is 0");
  CHECK(refusal_of("host { name: \"h\" servers: 1 }\ncompute { clock_ms: 0 }") ==
        "c:2:11: clock_ms must be greater than 0 and at most 10000000, is 0");
  CHECK(refusal_of("host { name: \"h\" servers: 1 }\n"
                   "compute { clock_ms: 1 layer { name: \"x\" } }") ==
        "c:2:11: compute has layers and clock_ms; give one of them");
  CHECK(refusal_of("host { name: \"h\" servers: 1 }\nrack { name: \"r\" }") ==
        "c:2:1: rack \"r\": give its link, or its oversubscription");
  CHECK(refusal_of("host { name: \"h\" servers: 1 devices: 65 }") ==
        "c:1:29: devices must be between 0 and 64, is 65");
  CHECK(refusal_of("host { name: \"h\" servers: 1 devices: 2 island: \"fast\" }") ==
        "c:1:40: no link \"fast\"; add link { name: \"fast\" }");
  CHECK(refusal_of("host { name: \"h\" servers: 1 island: \"a\" }\n"
                   "link { name: \"a\" gbit_per_s: 1 }") ==
        "c:1:29: host \"h\" has an island and no devices; add devices: 8");
  const std::string host =
      "host { name: \"h\" count: 2 servers: 1 link: \"a\" }\n"
      "link { name: \"a\" gbit_per_s: 1 }\n";
  CHECK(refusal_of(host + "outage { host: \"h3\" at_s: 1 }") ==
        "c:3:10: no host \"h3\"; did you mean \"h\"?");
  CHECK(refusal_of(host + "outage { host: \"h1\" }") ==
        "c:3:1: an outage has either at_s or per_hour; give one of them");
  CHECK(refusal_of(host + "outage { host: \"h\" per_hour: 0 }") ==
        "c:3:20: per_hour must be greater than 0 and at most 3600, is 0");
  CHECK(refusal_of(host + "outage { host: \"h\" at_s: 1 notice_s: -1 }") ==
        "c:3:28: notice_s must be between 0 and 86400, is -1");
  CHECK(refusal_of(host + "control { heartbeat_limit_s: 0 }") ==
        "c:3:11: heartbeat_limit_s must be between 0.1 and 86400, is 0");
  CHECK(refusal_of(host + "compute { spread: TRACE }") ==
        "c:3:11: spread TRACE without times; give time_ms or times_file");
  CHECK(refusal_of(host + "compute { clock_ms: 1 time_ms: 1 }") ==
        "c:3:23: time_ms and times_file are for spread: TRACE; set it");
  CHECK(refusal_of(host + "compute { spread: TRACE time_ms: 1 time_ms: 0 }") ==
        "c:3:36: time_ms must be greater than 0 and at most 10000000, is 0");
  CHECK(refusal_of("host { nmae: \"h\" }") ==
        "c:1:8: no field \"nmae\" in LabHost; did you mean \"name\"?");
}

TEST_CASE("measured times are read from lines, and from a worker's metrics.csv", "[lab]") {
  const auto lines = parse_compute_times("1.5\n\n 2e1\r\n3", "t");
  REQUIRE(lines.has_value());
  CHECK(lines.value() == std::vector<double>{1.5, 20, 3});
  const auto table = parse_compute_times("clock,compute_s,loss\n0,0.25,1\n,,2\n1,0.5,1\n", "t");
  REQUIRE(table.has_value());
  CHECK(table.value() == std::vector<double>{250, 500});
}

TEST_CASE("a file of times that cannot be is refused with its line and column", "[lab]") {
  const auto refusal = [](const std::string& text) {
    const auto times = parse_compute_times(text, "t");
    REQUIRE_FALSE(times.has_value());
    return times.error().message;
  };
  CHECK(refusal("1\n x\n") ==
        "t:2:2: must be a number of milliseconds greater than 0 and at most "
        "1e+07, is \"x\"");
  CHECK(refusal("1\n-2\n") ==
        "t:2:1: must be a number of milliseconds greater than 0 and at most "
        "1e+07, is \"-2\"");
  CHECK(refusal("b,compute_s\n17, 0\n") ==
        "t:2:5: must be a number of seconds greater than 0 and at "
        "most 10000, is \"0\"");
  CHECK(refusal("a,b\n1,2\n").starts_with("t:1:1: a table without the column compute_s"));
  CHECK(refusal("\n").starts_with("t:1:1: has no times"));
}

}  // namespace taut

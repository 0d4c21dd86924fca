#include "proto/config/lab_cluster.hpp"

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

TEST_CASE("a lab's cluster that cannot be is refused with line and column", "[lab]") {
  CHECK(refusal_of("") == "c:1:1: the cluster has no host; add host { }");
  CHECK(refusal_of(kHosts + "link { name: \"fast\" gbit_per_s: 1 }") ==
        "c:1:38: no link \"a\"; add link { name: \"a\" }");
  CHECK(refusal_of(kHosts + "link { name: \"a\" gbit_per_s: 0 }") ==
        "c:2:18: gbit_per_s must be greater than 0 and at most 100000, is 0");
  CHECK(refusal_of(kHosts + "link { name: \"a\" gbit_per_s: nan }") ==
        "c:2:18: gbit_per_s must be greater than 0 and at most 100000, is nan");
  CHECK(refusal_of(kHosts + "link { name: \"a\" gbit_per_s: 1 latency_us: -1 }") ==
        "c:2:32: latency_us must be between 0 and 10000000, is -1");
  CHECK(refusal_of(kHosts + "link { name: \"a\" gbit_per_s: 1 }\n\nlink { name: \"a\" }") ==
        "c:4:8: link \"a\" is there twice; give another name");
  CHECK(refusal_of("host { name: \"h\" count: 2 servers: 1 }") ==
        "c:1:1: a host without a link among several; name one");
  CHECK(refusal_of("host { name: \"h\" servers: 1 rack: \"r\" }") ==
        "c:1:29: no rack \"r\"; add rack { name: \"r\" }");
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
  CHECK(refusal_of("host { nmae: \"h\" }") ==
        "c:1:8: no field \"nmae\" in LabHost; did you mean \"name\"?");
}

}  // namespace taut

#include "common/check.hpp"
#include "proto/config/text.hpp"
#include "proto/job.pb.h"
#include "tests/fuzz/fuzz_target.hpp"

namespace taut {

std::vector<std::string> fuzz::samples() {
  std::string nested = "net_param { layer { ";
  for (int i = 0; i < 200; ++i) nested += "include { ";
  return {
      R"(name: "lenet"  # a comment
net_param {
  layer { name: 'conv1' type: "Convolution" bottom: "data" top: "conv1"
    param { lr_mult: 1 } convolution_param { num_output: 20 kernel_size: [5, 5] } }
})",
      "solver_param { base_lr: 0.01 lr_policy: \"inv\" gamma: 1e-4 stepvalue: 1 stepvalue: -0x7f }",
      "consistency { mode: SSP slack: 3 }\tdata { folder: \"/tmp/\\303\\251\" }\nworkers: 2\r\n",
      "seed: 18446744073709551615\nnam: 1\nname: 'twice'\nname: 'again'\n",
      nested,
  };
}

}  // namespace taut

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  taut::pb::Job job;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto parsed = taut::parse_text(text, "input", job);
  if (!parsed) {
    TAUT_CHECK(parsed.error().message.starts_with("input:"), "a refusal says where");
    return 0;
  }
  taut::pb::Job again;
  TAUT_CHECK(taut::parse_text(taut::to_text(job), "output", again).has_value(), "a round trip");
  return 0;
}

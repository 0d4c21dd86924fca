#include <google/protobuf/stubs/logging.h>

#include "common/check.hpp"
#include "proto/control_message.hpp"
#include "tests/fuzz/frames.hpp"
#include "tests/fuzz/fuzz_target.hpp"

namespace taut {

std::vector<std::string> fuzz::samples() {
  std::vector<std::string> samples;
  const auto add = [&](const pb::ControlMessage& message) {
    samples.push_back(to_bytes(encode(message)));
  };
  pb::ControlMessage submit;
  submit.set_request(9);
  submit.mutable_submit()->set_token(77);
  submit.mutable_submit()->mutable_definition()->set_name("job");
  auto& layer = *submit.mutable_submit()->mutable_definition()->mutable_net_param()->add_layer();
  layer.set_name("conv1");
  layer.mutable_convolution_param()->add_kernel_size(5);
  add(submit);
  pb::ControlMessage hello;
  hello.mutable_hello()->set_wire_version(1);
  hello.mutable_hello()->set_name("worker0");
  hello.mutable_hello()->add_shard_addresses("127.0.0.1:7601");
  add(hello);
  pb::ControlMessage job;
  job.mutable_server_job()->set_job(3);
  job.mutable_server_job()->add_members()->set_leave_clock(5);
  job.mutable_server_job()->add_modes()->set_first_clock(0);
  add(job);
  pb::ControlMessage beat;
  beat.mutable_heartbeat()->mutable_progress()->set_clock(12);
  beat.mutable_heartbeat()->add_jobs()->add_fenced()->set_min_done(4);
  add(beat);
  return samples;
}

}  // namespace taut

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const google::protobuf::LogSilencer silent;
  const auto decoded = taut::decode_control(taut::fuzz::to_message({data, size}));
  if (!decoded) {
    TAUT_CHECK(!decoded.error().message.empty(), "a refusal says why");
    return 0;
  }
  TAUT_CHECK(taut::decode_control(taut::encode(decoded.value())).has_value(), "a round trip");
  return 0;
}

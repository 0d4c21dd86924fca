#include <google/protobuf/stubs/logging.h>

#include "common/check.hpp"
#include "proto/data_message.hpp"
#include "tests/fuzz/frames.hpp"
#include "tests/fuzz/fuzz_target.hpp"

namespace taut {
namespace {

/// By rows: numbers of 8 bytes in a push and in a read, values in a push and in an answer.
std::uint64_t announced_bytes(const DataItem& item) {
  if (!item.by_rows) return math::encoded_bytes(item.encoding, item.count);
  const std::uint64_t values = std::uint64_t{item.rows} * item.count * sizeof(float);
  switch (item.kind) {
    case pb::DataItem::PUSH:
      return std::uint64_t{item.rows} * sizeof(std::uint64_t) + values;
    case pb::DataItem::READ:
    case pb::DataItem::SNAPSHOT:
      return std::uint64_t{item.rows} * sizeof(std::uint64_t);
    default:
      return values;
  }
}

}  // namespace

std::vector<std::string> fuzz::samples() {
  std::vector<std::string> samples;
  const auto add = [&](auto body) {
    samples.push_back(
        to_bytes(encode(DataMessage{JobId(7), WorkerId(1), Incarnation(2), std::move(body)})));
  };
  DataItem push;
  push.kind = pb::DataItem::PUSH_READ;
  push.count = 3;
  push.clock = Clock(5);
  push.gradient_norm = 1.5F;
  push.payload = Frame::copy_of(std::string(12, '\x3f'));
  DataItem compressed = push;
  compressed.count = 300;
  compressed.encoding = {math::Codec::kInt8};
  compressed.payload =
      Frame::copy_of(std::string(math::encoded_bytes(compressed.encoding, 300), '\x11'));
  add(DataItems{{compressed, push, compressed}});
  for (const math::Encoding& encoding :
       {math::Encoding{math::Codec::kOneBit}, math::Encoding{math::Codec::kTopK, 10},
        math::Encoding{math::Codec::kRandomK, 10},
        math::Encoding{.codec = math::Codec::kLowRank, .rank = 2, .columns = 25}}) {
    const std::vector<float> values(300, 0.5F);
    std::vector<float> state(math::state_values(encoding, values.size()));
    std::string bytes(math::encoded_bytes(encoding, values.size()), '\0');
    math::encode(encoding, values, math::draw_of(1, 2, 3, 4, 5),
                 std::as_writable_bytes(std::span(bytes)).data(), state);
    compressed.encoding = encoding;
    compressed.payload = Frame::copy_of(bytes);
    add(DataItems{{compressed, push}});
  }
  DataItem read;
  read.kind = pb::DataItem::READ;
  DataItem rows = push;
  rows.kind = pb::DataItem::PUSH;
  rows.by_rows = true;
  rows.rows = 2;
  rows.payload = Frame::copy_of(std::string(announced_bytes(rows), '\1'));
  DataItem some = rows;
  some.kind = pb::DataItem::READ;
  some.payload = rows.payload.part(0, announced_bytes(some));
  DataItem values = rows;
  values.kind = pb::DataItem::VALUE;
  values.payload = rows.payload.part(0, announced_bytes(values));
  add(DataItems{{rows, some, values, push}});
  DataItem refused;
  refused.kind = pb::DataItem::REFUSED;
  refused.reason = "out of order";
  add(DataItems{{push, read, push, refused}});
  pb::DataHello hello;
  hello.set_wire_version(1);
  hello.set_role("worker");
  hello.set_job_hash("0123456789abcdef");
  add(hello);
  pb::OpenTables open;
  open.add_tables()->set_name("conv1");
  open.mutable_tables(0)->add_shape(20);
  open.mutable_tables(0)->mutable_filler()->set_type("gaussian");
  add(open);
  pb::OpenTablesReply opened;
  opened.set_reason("no");
  add(opened);
  DataPartRequest write;
  write.head.set_kind(pb::PartRequest::WRITE);
  write.head.set_request(3);
  write.head.set_folder("saved/net_iter_5.part-1-2");
  write.head.set_file("shard0.safetensors.part1");
  write.payload = Frame::copy_of(std::string(20, 'x'));
  add(write);
  DataPartReply answer;
  answer.head.set_request(3);
  answer.head.set_error("no space left");
  add(answer);
  return samples;
}

}  // namespace taut

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const google::protobuf::LogSilencer silent;
  const auto decoded = taut::decode_data(taut::fuzz::to_message({data, size}));
  if (!decoded) {
    TAUT_CHECK(!decoded.error().message.empty(), "a refusal says why");
    return 0;
  }
  // What was understood is written and understood again.
  TAUT_CHECK(taut::decode_data(taut::encode(decoded.value())).has_value(), "a round trip");
  if (const auto* batch = std::get_if<taut::DataItems>(&decoded.value().body)) {
    for (const taut::DataItem& item : batch->items) {
      TAUT_CHECK(item.payload.empty() || item.payload.size() == taut::announced_bytes(item),
                 "a payload of another size than announced");
    }
  }
  return 0;
}

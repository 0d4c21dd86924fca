#include "proto/message_limits.hpp"

#include <google/protobuf/descriptor.h>

#include <set>
#include <span>
#include <string>

#include "proto/checkpoint.pb.h"
#include "proto/cluster.pb.h"
#include "proto/control.pb.h"
#include "proto/control_message.hpp"
#include "proto/coordinator_state.pb.h"
#include "proto/data.pb.h"
#include "proto/data_message.hpp"
#include "proto/limits.pb.h"
#include "proto/wire_version.hpp"
#include "tests/support/catch.hpp"

using namespace taut;
using Catch::Matchers::Contains;
using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

namespace {

/// The fields below a message that could hold any number of bytes. What users write in a job is
/// bounded by the size of its message alone.
void find_unlimited(const Descriptor& type, std::set<const Descriptor*>& seen,
                    std::set<std::string>& found) {
  // A choice of schemes repeats the job's compression.
  const bool is_users = type.full_name() == "taut.pb.Job" ||
                        type.full_name() == "taut.pb.Compression" ||
                        type.full_name() == "taut.pb.FillerParameter";
  if (is_users || !seen.insert(&type).second) return;
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    const bool is_text = field.cpp_type() == FieldDescriptor::CPPTYPE_STRING;
    if (is_text && field.options().GetExtension(pb::max_bytes) == 0)
      found.insert(field.full_name());
    if (field.is_repeated() && field.options().GetExtension(pb::max_count) == 0) {
      found.insert(field.full_name());
    }
    if (field.message_type() != nullptr) find_unlimited(*field.message_type(), seen, found);
  }
}

/// Whether a message has room for a secret of a plain data plane, at any depth.
bool has_secret(const Descriptor& type, std::set<const Descriptor*>& seen) {
  if (&type == pb::DataToken::descriptor()) return true;
  if (!seen.insert(&type).second) return false;
  for (int i = 0; i < type.field_count(); ++i) {
    const Descriptor* const inner = type.field(i)->message_type();
    if (inner != nullptr && has_secret(*inner, seen)) return true;
  }
  return false;
}

bool has_secret(const Descriptor& type) {
  std::set<const Descriptor*> seen;
  return has_secret(type, seen);
}

}  // namespace

TEST_CASE("no message that is written to a file or a database has room for a secret", "[limits]") {
  CHECK(has_secret(*pb::WorkerJob::descriptor()));
  // Nor what servers send each other, or write in the folder of a run.
  for (const Descriptor* const one :
       {pb::StoredJob::descriptor(), pb::Job::descriptor(), pb::ClusterConfig::descriptor(),
        pb::CheckpointManifest::descriptor(), pb::ServerJob::descriptor(),
        pb::StatusReply::descriptor(), pb::DataHeader::descriptor()}) {
    for (int i = 0; i < one->file()->message_type_count(); ++i) {
      const Descriptor& type = *one->file()->message_type(i);
      INFO(type.full_name());
      const bool is_sent_alone = type.file() == pb::ControlMessage::descriptor()->file();
      if (!is_sent_alone) CHECK_FALSE(has_secret(type));
    }
    INFO(one->full_name());
    CHECK_FALSE(has_secret(*one));
  }
}

TEST_CASE("every string and every list of both planes has a limit", "[limits]") {
  std::set<const Descriptor*> seen;
  std::set<std::string> found;
  find_unlimited(*pb::ControlMessage::descriptor(), seen, found);
  find_unlimited(*pb::DataHeader::descriptor(), seen, found);
  CHECK(found == std::set<std::string>{});
}

TEST_CASE("what exceeds a limit is refused with its path, size and limit", "[limits]") {
  pb::ControlMessage message;
  message.mutable_hello()->set_name(std::string(128, 'x'));
  CHECK(check_limits(message).has_value());
  message.mutable_hello()->set_name(std::string(129, 'x'));
  const auto refused = check_limits(message);
  REQUIRE_FALSE(refused.has_value());
  CHECK_THAT(refused.error().message, Contains("hello.name") && Contains("129") && Contains("128"));
  message.mutable_hello()->set_name("gpu1");
  for (int i = 0; i < 257; ++i) message.mutable_hello()->add_shard_addresses("127.0.0.1:1");
  const auto too_many = check_limits(message);
  REQUIRE_FALSE(too_many.has_value());
  CHECK_THAT(too_many.error().message, Contains("hello.shard_addresses has 257 elements"));

  message.mutable_heartbeat()->add_jobs()->add_problems()->set_reason(std::string(5000, 'x'));
  const auto inside = check_limits(message);
  REQUIRE_FALSE(inside.has_value());
  CHECK_THAT(inside.error().message, Contains("heartbeat.jobs.problems.reason"));
}

TEST_CASE("a sender cuts what it says to its limit, between characters", "[limits]") {
  pb::ControlMessage message;
  std::string text(4092, 'x');
  text += "\xc3\xa4\xc3\xa4\xc3\xa4";  // three times a-umlaut, of two bytes each
  message.mutable_goodbye()->set_reason(text);
  const auto received = decode_control(encode(message));
  REQUIRE(received.has_value());
  CHECK(received.value().goodbye().reason() == std::string(4092, 'x') + "...");
  message.mutable_log_reply()->add_processes(std::string(1000, 'y'));
  const auto list = decode_control(encode(message));
  REQUIRE(list.has_value());
  CHECK(list.value().log_reply().processes(0) == std::string(125, 'y') + "...");
  cut_to_limits(message);
  CHECK(check_limits(message).has_value());
}

TEST_CASE("an error with bytes that are not UTF-8 reaches the other side", "[limits]") {
  pb::ControlMessage message;
  pb::Heartbeat& heartbeat = *message.mutable_heartbeat();
  heartbeat.mutable_progress()->set_error("caf\xe9.jpg: no such file in \xc3\xa9t\xc3\xa9");
  heartbeat.add_records()->set_text("caf\xe9");
  CHECK_FALSE(check_limits(message).has_value());
  const auto received = decode_control(encode(message));
  REQUIRE(received.has_value());
  CHECK(received.value().heartbeat().progress().error() ==
        "caf\\xe9.jpg: no such file in \xc3\xa9t\xc3\xa9");
  CHECK(received.value().heartbeat().records(0).text() == "caf\xe9");
  heartbeat.mutable_progress()->set_error(std::string(4096, '\xe9'));
  const auto longer = decode_control(encode(message));
  REQUIRE(longer.has_value());
  CHECK(longer.value().heartbeat().progress().error().size() == 4096);
  CHECK_THAT(longer.value().heartbeat().progress().error(), Contains("\\xe9\\xe9"));
}

TEST_CASE("a peer's long strings are refused before they are kept", "[limits]") {
  pb::ControlMessage message;
  message.mutable_hello()->set_name(std::string(15U << 20U, 'x'));
  Message frames = encode(pb::ControlMessage());
  std::string bytes(reinterpret_cast<const char*>(frames.frames[0].bytes().data()),
                    frames.frames[0].size());
  message.AppendToString(&bytes);
  frames.frames[0] = Frame::copy_of(bytes);
  const auto refused = decode_control(frames);
  REQUIRE_FALSE(refused.has_value());
  CHECK_THAT(refused.error().message, Contains("hello.name has 15728640 bytes"));
  CHECK(refused.error().message.size() < 200);
}

TEST_CASE("a list of empty elements is refused before it takes memory", "[limits]") {
  // Two bytes for each item, which takes a hundred times that.
  std::string bytes;
  append_prefix(Plane::kData, bytes);
  pb::DataHeader header;
  header.mutable_items();
  constexpr std::size_t kElements = 4UL << 20U;
  std::string items;
  for (std::size_t i = 0; i < kElements; ++i) items += std::string("\x0a\0", 2);
  bytes += '\x42';  // field 8, items
  for (std::size_t length = items.size(); length > 0; length >>= 7U) {
    bytes += static_cast<char>((length & 0x7fU) | (length > 0x7f ? 0x80U : 0U));
  }
  bytes += items;
  const auto refused = decode_data(Message{{Frame::copy_of(bytes)}});
  REQUIRE_FALSE(refused.has_value());
  CHECK_THAT(refused.error().message, Contains("would take more than"));
  // What a message of ours has at most is far from it.
  pb::OpenTables tables;
  for (int i = 0; i < 65536; ++i) {
    pb::TableSpec& table = *tables.add_tables();
    table.set_name("layer" + std::to_string(i));
    for (int k = 0; k < 4; ++k) table.add_shape(3);
    table.mutable_filler()->set_type("xavier");
  }
  const std::string named = tables.SerializeAsString();
  CHECK(check_parsed_bytes(tables, std::as_bytes(std::span(named))));
}

TEST_CASE("a group of empty groups is refused before it takes memory", "[limits]") {
  // Field 15: the start of a group, and its end.
  std::string groups = "\x7b";
  for (int i = 0; i < 1 << 20; ++i) groups += "\x7b\x7c";
  groups += '\x7c';
  std::string data;
  append_prefix(Plane::kData, data);
  const auto refused = decode_data(Message{{Frame::copy_of(data + groups)}});
  REQUIRE_FALSE(refused.has_value());
  CHECK_THAT(refused.error().message, Contains("a group, which no schema has"));
  std::string control;
  append_prefix(Plane::kControl, control);
  const auto also = decode_control(Message{{Frame::copy_of(control + groups)}});
  REQUIRE_FALSE(also.has_value());
  CHECK_THAT(also.error().message, Contains("a group, which no schema has"));
}

TEST_CASE("a text of a job's definition that is none is found by its path", "[limits]") {
  pb::Job job;
  job.set_name("net \xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80");
  job.mutable_net_param()->add_layer()->set_name("conv");
  CHECK(check_utf8(job).has_value());
  for (const char* wrong :
       {"\x80", "\xC3", "\xC3(", "\xC0\xAF", "\xE0\x80\xAF", "\xED\xA0\x80", "\xF0\x80\x80\xAF",
        "\xF4\x90\x80\x80", "\xF8\x88\x80\x80\x80", "\xFF", "\xE2\x82"}) {
    job.mutable_net_param()->mutable_layer(0)->set_name(std::string("conv") + wrong);
    const auto checked = check_utf8(job);
    REQUIRE_FALSE(checked.has_value());
    CHECK(checked.error().message ==
          "net_param.layer.name must be UTF-8 text, and holds other bytes");
  }
}

TEST_CASE("what a peer says cannot move the reader's cursor", "[limits]") {
  pb::ControlMessage message;
  message.mutable_command_reply()->set_error("line 1\nline 2\x1b[2J");
  message.mutable_command_reply()->set_message("plain");
  const auto received = decode_control(encode(message));
  REQUIRE(received.has_value());
  CHECK(received.value().command_reply().error() == "line 1\nline 2\\x1b[2J");
  CHECK(received.value().command_reply().message() == "plain");
}

#include "common/check.hpp"
#include "common/files/sha256.hpp"
#include "proto/config/text.hpp"
#include "proto/formats/checkpoint_manifest.hpp"
#include "tests/fuzz/fuzz_target.hpp"

namespace taut {
namespace {

constexpr const char* kManifest = R"(# A checkpoint of Tautline.
format: 1 build: "a test" job: 3 clock: 40 slots: 2
members { worker: 0 name: "w" leave_clock: 9223372036854775807 } members { worker: 1 slot: 1 }
tables { name: "a" shape: 5 shape: 2 filler { type: "constant" } lr_mult: 1 }
tables { table: 1 name: "b" shape: 1099511627776 filler { type: "gaussian" std: 1 } }
files { name: "shard0.safetensors" bytes: 99
        sha256: "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef" }
definition { name: "tiny" net_param { layer { name: "x" } } }
)";

constexpr const char* kSlices =
    R"(slices { count: 6 version: 4 done { worker: 1 done: 5 } states: 1 }
slices { offset: 6 count: 4 } slices { table: 1 offset: 18446744073709551615 count: 2 })";

std::string digest_of(const std::string& text) {
  Sha256 digest;
  digest.update(std::as_bytes(std::span(text)));
  return digest.finish();
}

}  // namespace

std::vector<std::string> fuzz::samples() {
  return {kManifest, kSlices, write_manifest({})};
}

}  // namespace taut

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace taut;
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (const auto raw = parse_manifest(text, "input"); !raw) {
    TAUT_CHECK(raw.error().message.starts_with("input:"), "a refusal says where");
  }
  // With a checksum that fits, so that what is behind it is reached.
  const auto parsed =
      parse_manifest(text + "# sha256 of the above: " + digest_of(text) + "\n", "input");
  std::vector<TableSpec> tables;
  if (parsed) {
    TAUT_CHECK(parse_manifest(write_manifest(parsed.value()), "again").has_value(), "a round trip");
    tables = tables_of(parsed.value());
  } else {
    pb::CheckpointManifest sample;
    TAUT_CHECK(parse_text(kManifest, "sample", sample).has_value(), "the sample");
    tables = tables_of(sample);
  }
  const auto slices = parse_slices(text, tables, "input");
  if (!slices) return 0;
  for (const pb::CheckpointSlice& slice : slices.value().slices()) {
    const std::uint64_t total = tables[slice.table()].count();
    TAUT_CHECK(slice.offset() < total && slice.count() <= total - slice.offset(), "within bounds");
  }
  return 0;
}

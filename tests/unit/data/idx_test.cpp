#include "worker/data/images/idx.hpp"

#include "tests/support/catch.hpp"
#include "tests/unit/data/idx_bytes.hpp"

using taut::data::parse_idx;
using taut::test::big_endian;
using taut::test::idx_header;
using taut::test::idx_images;

namespace {

std::string error_of(const std::string& bytes, std::size_t extents) {
  const auto parsed = parse_idx(bytes, "f", extents);
  REQUIRE_FALSE(parsed.has_value());
  CHECK(parsed.error().code == taut::ErrorCode::kInvalid);
  return parsed.error().message;
}

}  // namespace

TEST_CASE("an IDX file's extents and elements are read", "[idx]") {
  const auto idx = parse_idx(idx_images(2, 3, 4), "f", 3);
  REQUIRE(idx.has_value());
  CHECK(idx.value().extents == std::vector<std::uint64_t>{2, 3, 4});
  REQUIRE(idx.value().elements().size() == 24);
  CHECK(idx.value().elements()[0] == 0);
  CHECK(idx.value().elements()[23] == 7 + 11);
}

TEST_CASE("an IDX file truncated anywhere is reported", "[idx]") {
  const std::string whole = idx_images(2, 3, 4);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    INFO("cut after " << size);
    CHECK(error_of(whole.substr(0, size), 3).find("f: ") == 0);
  }
  CHECK(error_of(whole.substr(0, 3), 3) ==
        "f: truncated: 3 bytes, an IDX file's magic number alone has 4");
  CHECK(error_of(whole.substr(0, 15), 3) == "f: truncated: 15 bytes, the header alone has 16");
  CHECK(error_of(whole.substr(0, 39), 3) ==
        "f: truncated: 2x3x4 elements need 24 bytes after the header, and there are 23");
}

TEST_CASE("bytes after the elements are reported", "[idx]") {
  CHECK(error_of(idx_images(2, 3, 4) + "x", 3) ==
        "f: has trailing bytes: 2x3x4 elements need 24 bytes after the header, and there are "
        "25");
}

TEST_CASE("another magic number, type or number of extents is reported", "[idx]") {
  CHECK(error_of("PNG image here", 3) ==
        "f: no IDX file: its magic number must be 0x00000803, is 0x504e4720");
  CHECK(error_of(big_endian(0x0D03) + big_endian(1), 3) ==
        "f: holds elements of type 0x0d; only unsigned bytes (0x08) are read");
  CHECK(error_of(idx_images(1, 1, 1), 1) ==
        "f: has 3 extents instead of 1: images have 3, labels have 1");
  CHECK(error_of(taut::test::idx_labels(3), 3) ==
        "f: has 1 extents instead of 3: images have 3, labels have 1");
}

TEST_CASE("extents of zero and products beyond the limit are reported", "[idx]") {
  CHECK(error_of(idx_header({0, 28, 28}), 3) ==
        "f: extent 0 is 0; all of them multiply to 1 at least and 4294967296 at most");
  CHECK(error_of(idx_header({0xFFFFFFFFU, 0xFFFFFFFFU, 0xFFFFFFFFU}), 3) ==
        "f: extent 1 is 4294967295; all of them multiply to 1 at least and 4294967296 at most");
}

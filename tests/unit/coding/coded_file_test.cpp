#include "common/coding/coded_file.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"

namespace taut {
namespace {

using Bytes_ = std::vector<std::byte>;

Bytes_ noise(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Bytes_ bytes(count);
  for (std::byte& one : bytes) one = static_cast<std::byte>(random());
  return bytes;
}

class InMemory final : public RandomRead {
 public:
  explicit InMemory(Bytes_ bytes, bool fails = false) : bytes_(std::move(bytes)), fails_(fails) {}
  [[nodiscard]] Result<void> read(std::uint64_t offset, std::span<std::byte> out) const override {
    if (fails_) return make_error(ErrorCode::kIo, "a disk that has failed");
    REQUIRE(offset + out.size() <= bytes_.size());
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
    return ok();
  }

 private:
  Bytes_ bytes_;
  bool fails_;
};

/// The parts of a file, as an encoder that gets it in pieces puts them.
std::vector<Bytes_> encode(const Bytes_& file, const ReedSolomon& code, const Striping& striping,
                           std::size_t piece) {
  std::vector<Bytes_> parts(code.parts());
  PartEncoder encoder(code, striping,
                      [&](std::size_t part, std::uint64_t offset,
                          std::span<const std::byte> bytes) -> Result<void> {
                        CHECK(offset == parts[part].size());
                        parts[part].insert(parts[part].end(), bytes.begin(), bytes.end());
                        return ok();
                      });
  for (std::size_t first = 0; first < file.size(); first += piece) {
    const std::size_t count = std::min(piece, file.size() - first);
    REQUIRE(encoder.append(std::span(file).subspan(first, count)).has_value());
  }
  REQUIRE(encoder.finish().has_value());
  for (const Bytes_& part : parts) CHECK(part.size() == striping.part_bytes());
  return parts;
}

std::vector<std::shared_ptr<const RandomRead>> all_of(const std::vector<Bytes_>& parts) {
  std::vector<std::shared_ptr<const RandomRead>> sources;
  sources.reserve(parts.size());
  for (const Bytes_& part : parts) sources.push_back(std::make_shared<InMemory>(part));
  return sources;
}

Bytes_ read_all(const CodedFile& file, std::size_t bytes, std::size_t piece) {
  Bytes_ read(bytes);
  for (std::size_t first = 0; first < bytes; first += piece) {
    const std::size_t count = std::min(piece, bytes - first);
    REQUIRE(file.read(first, std::span(read).subspan(first, count)).has_value());
  }
  return read;
}

TEST_CASE("any two of six parts may be gone: the file has equal bits, at odd lengths too",
          "[coding]") {
  const ReedSolomon code(4, 2);
  for (const std::size_t bytes : {1U, 3U, 4U, 5U, 63U, 64U, 1000U, 4096U, 4097U, 10'007U}) {
    const Striping striping{4, 256, bytes};
    const Bytes_ file = noise(bytes, bytes);
    const std::vector<Bytes_> parts = encode(file, code, striping, 333);
    std::size_t pairs = 0;
    for (std::size_t a = 0; a < 6; ++a) {
      for (std::size_t b = a + 1; b < 6; ++b) {
        auto left = all_of(parts);
        left[a] = left[b] = nullptr;
        const auto opened = CodedFile::open("file", code, striping, left);
        REQUIRE(opened.has_value());
        CHECK(read_all(*opened.value(), bytes, 100) == file);
        CHECK(read_all(*opened.value(), bytes, bytes) == file);
        ++pairs;
      }
    }
    CHECK(pairs == 15);
  }
}

TEST_CASE("each lost part, parity too, is computed from any others", "[coding]") {
  for (const auto& [data, parity] :
       {std::pair{1U, 1U}, {2U, 1U}, {3U, 3U}, {10U, 4U}, {32U, 16U}}) {
    const ReedSolomon code(data, parity);
    std::vector<Bytes_> blocks;
    std::vector<std::span<const std::byte>> in;
    std::vector<std::span<std::byte>> out;
    for (std::size_t i = 0; i < code.parts(); ++i) blocks.push_back(noise(777, i));
    for (std::size_t i = 0; i < code.parts(); ++i) {
      if (i < data) {
        in.emplace_back(blocks[i]);
      } else {
        out.emplace_back(blocks[i]);
      }
    }
    code.encode(in, out);
    std::mt19937_64 random(data);
    for (std::size_t lost = 0; lost < code.parts(); ++lost) {
      std::vector<ReedSolomon::Block> others;
      for (std::size_t i = 0; i < code.parts(); ++i) {
        if (i != lost) others.push_back({i, blocks[i]});
      }
      std::ranges::shuffle(others, random);
      others.resize(data);
      Bytes_ computed(777);
      code.rebuild(others, lost, computed);
      CHECK(computed == blocks[lost]);
    }
  }
}

TEST_CASE("with three of six parts gone a file is refused, and one that fails counts as gone",
          "[coding]") {
  const ReedSolomon code(4, 2);
  const Striping striping{4, 64, 1000};
  const Bytes_ file = noise(1000, 1);
  const std::vector<Bytes_> parts = encode(file, code, striping, 1000);
  auto left = all_of(parts);
  left[0] = left[3] = left[5] = nullptr;
  const auto refused = CodedFile::open("shard0", code, striping, left);
  REQUIRE(!refused.has_value());
  CHECK(refused.error().message ==
        "shard0: 3 of its 6 parts are gone or damaged, and 4 are needed");
  left = all_of(parts);
  left[1] = std::make_shared<InMemory>(parts[1], true);
  left[2] = nullptr;
  const auto opened = CodedFile::open("shard0", code, striping, left);
  CHECK(read_all(*opened.value(), 1000, 1000) == file);
  left[4] = std::make_shared<InMemory>(parts[4], true);
  const auto worse = CodedFile::open("shard0", code, striping, left);
  Bytes_ out(1000);
  const auto read = worse.value()->read(0, out);
  REQUIRE(!read.has_value());
  CHECK(read.error().message ==
        "shard0: too many of its parts are missing: a disk that has failed");
}

TEST_CASE("a read beyond the end of a file in parts is refused", "[coding]") {
  const ReedSolomon code(2, 1);
  const Striping striping{2, 64, 100};
  const auto opened =
      CodedFile::open("f", code, striping, all_of(encode(noise(100, 1), code, striping, 7)));
  Bytes_ out(10);
  CHECK(opened.value()->read(90, out).has_value());
  CHECK(!opened.value()->read(91, out).has_value());
  CHECK(!opened.value()->read(101, {}).has_value());
}

TEST_CASE("an error of a part ends the encoding", "[coding]") {
  int left = 3;
  PartEncoder encoder(ReedSolomon(4, 2), {4, 64, 1000},
                      [&](std::size_t, std::uint64_t, std::span<const std::byte>) -> Result<void> {
                        if (--left == 0) return make_error(ErrorCode::kIo, "no space left");
                        return ok();
                      });
  const auto appended = encoder.append(noise(1000, 1));
  REQUIRE(!appended.has_value());
  CHECK(appended.error().message == "no space left");
}

TEST_CASE("parts take as much more than the file as the code says", "[coding]") {
  for (const std::uint64_t bytes : {1ULL << 20U, (1ULL << 20U) + 1, 123'456'789ULL}) {
    const Striping striping{4, 256 << 10U, bytes};
    CHECK(striping.part_bytes() * 4 >= bytes);
    CHECK(striping.part_bytes() * 4 < bytes + 4);
  }
}

}  // namespace
}  // namespace taut

// A gzip file is read as a stream: what zlib's own reader says, or a refusal, and no byte more than
// the limit. The first byte says how long the pieces are; the file follows.
#include <zlib.h>

#include <string>
#include <vector>

#include "common/check.hpp"
#include "common/files/file.hpp"
#include "common/files/gz_stream.hpp"
#include "tests/fuzz/driver/memory_folder.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/support/temp_folder.hpp"
#include "tests/unit/data/idx_bytes.hpp"
#include "worker/data/images/idx.hpp"

namespace taut {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{4} << 20U;
constexpr Bytes kLimit{1000};

std::string packed(const std::string& bytes, const char* mode) {
  const test::TempFolder folder;
  const std::string path = (folder.path() / "packed").string();
  const gzFile out = gzopen(path.c_str(), mode);
  gzwrite(out, bytes.data(), static_cast<unsigned>(bytes.size()));
  TAUT_CHECK(gzclose(out) == Z_OK, "a new file");
  return read_file(path).value();
}

/// As zlib reads it, up to this many bytes.
std::string read_by_zlib(const std::string& path, std::size_t size) {
  const gzFile in = gzopen(path.c_str(), "rb");
  std::string bytes(size, '\0');
  const int count = gzread(in, bytes.data(), static_cast<unsigned>(size));
  gzclose_r(in);
  bytes.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
  return bytes;
}

/// As many pieces as there are, up to kMaxBytes.
Result<std::string> read_in_pieces(const std::string& path, std::size_t piece) {
  TAUT_TRY(GzStream stream, GzStream::open(path));
  std::string bytes;
  std::vector<std::byte> block(piece);
  while (bytes.size() < kMaxBytes) {
    TAUT_TRY(const std::size_t count, stream.read(block));
    TAUT_CHECK(count <= block.size(), "no more than was asked for");
    bytes.append(reinterpret_cast<const char*>(block.data()), count);
    if (count < block.size()) break;
  }
  return bytes;
}

void judge(const std::string& path, std::size_t piece) {
  const auto refused_well = [&](const Error& error) {
    TAUT_CHECK(error.message.starts_with(path), "a refusal says where");
  };
  const auto stream = read_in_pieces(path, piece);
  if (stream) {
    // zlib ends at zeros between two members.
    TAUT_CHECK(stream.value().starts_with(read_by_zlib(path, stream.value().size())),
               "zlib reads the same");
  } else {
    refused_well(stream.error());
  }
  const auto whole = read_file_gz(path, kLimit);
  if (whole) {
    TAUT_CHECK(whole.value().size() <= kLimit.value(), "no more than the limit");
    TAUT_CHECK(stream && stream.value() == whole.value(), "the same at once and in pieces");
  } else {
    refused_well(whole.error());
  }
  for (const std::size_t extents : {std::size_t{1}, std::size_t{3}}) {
    const auto idx = data::read_idx(path, extents, kLimit);
    if (!idx) {
      refused_well(idx.error());
      continue;
    }
    TAUT_CHECK(idx.value().elements().size() <= kLimit.value(), "no more elements than the limit");
    TAUT_CHECK(stream && stream.value() == idx.value().file, "an IDX file is its bytes");
  }
}

}  // namespace

std::vector<std::string> fuzz::samples() {
  const std::string images = packed(test::idx_images(3, 4, 5), "wb");
  const std::string labels = packed(test::idx_labels(9), "wb0");  // stored, not deflated
  const std::string zeros = packed(std::string(100'000, '\0'), "wb9");
  return {'\1' + images,
          '\377' + labels,
          '\177' + zeros,
          '\20' + images + labels,
          '\20' + labels + zeros,
          '\3' + test::idx_images(2, 2, 2),
          {}};
}

}  // namespace taut

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static const taut::test::TempFolder folder = taut::fuzz::memory_folder();
  const std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::size_t piece = 1 + 64 * std::size_t{data[0]};
  taut::judge(folder.write("file", bytes).string(), piece);
  return 0;
}

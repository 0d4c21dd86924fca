#include "worker/data/images/lmdb_check.hpp"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/catch.hpp"
#include "tests/support/temp_folder.hpp"
#include "worker/data/images/lmdb_file.hpp"

namespace taut {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPage = 4096;
// Offsets in a meta page: the head, MDB_meta, its tables.
constexpr std::size_t kVersion = 16 + 4;
constexpr std::size_t kPageBytes = 16 + 24;
constexpr std::size_t kTable = 16 + 72;
constexpr std::size_t kLastPage = kTable + 48;
constexpr std::size_t kTransaction = kTable + 56;

/// An LMDB of some records, whose bytes a test changes.
class Database {
 public:
  explicit Database(int records, std::size_t value_bytes) {
    auto writer = data::LmdbWriter::create(path());
    REQUIRE(writer);
    for (int i = 0; i < records; ++i) {
      REQUIRE(writer.value()->add(std::to_string(100000 + i), std::string(value_bytes, 'v')));
    }
    REQUIRE(writer.value()->finish());
    std::ifstream in(path() / "data.mdb", std::ios::binary);
    bytes = {std::istreambuf_iterator<char>(in), {}};
  }

  [[nodiscard]] fs::path path() const { return folder_.path() / "lmdb"; }
  template <class T>
  [[nodiscard]] T at(std::size_t offset) const {
    T value;
    std::memcpy(&value, bytes.data() + offset, sizeof value);
    return value;
  }
  template <class T>
  void put(std::size_t offset, T value) {
    std::memcpy(bytes.data() + offset, &value, sizeof value);
  }
  /// The meta page that counts.
  [[nodiscard]] std::size_t meta() const {
    return at<std::uint64_t>(kTransaction) < at<std::uint64_t>(kPage + kTransaction) ? kPage : 0;
  }
  [[nodiscard]] std::size_t root() const { return at<std::uint64_t>(meta() + kTable + 40) * kPage; }

  /// What is said of it, without its path; empty: it is sound, and every record can be read.
  [[nodiscard]] std::string error() const {
    std::ofstream(path() / "data.mdb", std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    const auto reader = data::LmdbReader::open(path());
    if (!reader) {
      const std::string& message = reader.error().message;
      REQUIRE(message.find(path().string() + ": ") == 0);
      return message.substr(path().string().size() + 2);
    }
    for (std::uint64_t i = 0; i < reader.value()->size(); ++i) {
      REQUIRE(reader.value()->read(i, [](data::LmdbBytes) -> Result<void> { return ok(); }));
    }
    return "";
  }

  std::string bytes;

 private:
  test::TempFolder folder_;
};

}  // namespace

TEST_CASE("a sound LMDB is accepted: one page, a tree, values on overflow pages", "[lmdb]") {
  CHECK(Database(3, 10).error().empty());
  CHECK(Database(3000, 30).error().empty());
  CHECK(Database(300, 3100).error().empty());
}

TEST_CASE("an LMDB of another format version is refused with both versions", "[lmdb]") {
  Database base(20, 30);
  REQUIRE(base.error().empty());
  for (const std::size_t page : {std::size_t{0}, kPage}) {
    for (const std::uint32_t version : {0U, 2U, 999U, 0xFFFFFFFFU}) {
      base.put<std::uint32_t>(page + kVersion, version);
      CHECK(base.error() == "LMDB's format " + std::to_string(version) + "; 1 is read");
    }
    base.put<std::uint32_t>(page + kVersion, 1);
  }
  CHECK(base.error().empty());
}

TEST_CASE("hostile meta pages of an LMDB are refused before LMDB sees them", "[lmdb]") {
  Database base(3000, 30);
  REQUIRE(base.error().empty());
  const std::size_t meta = base.meta();
  const std::string number = std::to_string(meta / kPage);
  SECTION("pages of no size: LMDB divides by it") {
    base.put<std::uint32_t>(kPageBytes, 0);
    CHECK(base.error() == "damaged: pages of 0 bytes");
  }
  SECTION("pages of another size") {
    base.put<std::uint32_t>(kPage + kPageBytes, 8192);
    CHECK(base.error() == "damaged: page 1: its pages are of another size than page 0's");
  }
  SECTION("more pages than there are") {
    base.put<std::uint64_t>(meta + kLastPage, 1ULL << 62U);
    CHECK(base.error().find("truncated: data.mdb has ") == 0);
  }
  SECTION("a root that is a meta page") {
    base.put<std::uint64_t>(meta + kTable + 40, 1);
    CHECK(base.error().find("damaged: it leads to page 1 of ") == 0);
  }
  SECTION("a root beyond the end") {
    base.put<std::uint64_t>(meta + kTable + 40, 1ULL << 40U);
    CHECK(base.error().find("damaged: it leads to page 1099511627776 of ") == 0);
  }
  SECTION("a tree that is too deep") {
    base.put<std::uint16_t>(meta + kTable + 6, 60000);
    CHECK(base.error() == "damaged: a tree of depth 60000");
  }
  SECTION("several values under a key") {
    base.put<std::uint16_t>(meta + kTable + 4, 4);
    CHECK(base.error().find("its table has the flags 0x4") == 0);
  }
  SECTION("a file that ends within its meta pages") {
    base.bytes.resize(kPage + 20);
    CHECK(base.error() == "no LMDB: data.mdb has 4116 bytes");
  }
}

TEST_CASE("hostile pages of an LMDB are refused with their number", "[lmdb]") {
  Database base(3000, 30);
  const std::size_t root = base.root();
  const std::string page = "damaged: page " + std::to_string(root / kPage) + ": ";
  const std::size_t first_node = root + base.at<std::uint16_t>(root + 16);
  const std::size_t second_node = root + base.at<std::uint16_t>(root + 18);
  SECTION("another number") {
    base.put<std::uint64_t>(root, 7777);
    CHECK(base.error() == page + "it has another number");
  }
  SECTION("a leaf where a branch is due") {
    base.put<std::uint16_t>(root + 10, 2);
    CHECK(base.error() == page + "it is not a branch");
  }
  SECTION("a branch with one child: LMDB would abort") {
    base.put<std::uint16_t>(root + 12, 18);
    CHECK(base.error() == page + "its list of nodes ends at byte 18");
  }
  SECTION("more nodes than a page holds") {
    base.put<std::uint16_t>(root + 12, 5000);
    CHECK(base.error() == page + "its list of nodes ends at byte 5000");
  }
  SECTION("a node beyond the page") {
    base.put<std::uint16_t>(root + 16, 4090);
    CHECK(base.error() == page + "node 0 is at byte 4090");
  }
  SECTION("a key beyond the page") {
    base.put<std::uint16_t>(first_node + 6, 4095);
    CHECK(base.error() == page + "node 0 has a key of 4095 bytes");
  }
  SECTION("a tree that bites its tail") {
    base.put<std::uint32_t>(first_node, static_cast<std::uint32_t>(root / kPage));
    CHECK(base.error() == page + "two places lead to it");
  }
  SECTION("two ways to one leaf") {
    const auto child = base.at<std::uint32_t>(first_node);
    base.put<std::uint32_t>(second_node, child);
    CHECK(base.error() == "damaged: page " + std::to_string(child) + ": two places lead to it");
  }
}

TEST_CASE("hostile records of an LMDB are refused with their leaf and node", "[lmdb]") {
  Database base(2, 3100);
  const std::size_t leaf = base.root();
  const std::string page = "damaged: page " + std::to_string(leaf / kPage) + ": ";
  const std::size_t node = leaf + base.at<std::uint16_t>(leaf + 16);
  REQUIRE(base.at<std::uint16_t>(node + 4) == 1);
  const std::size_t value = node + 8 + base.at<std::uint16_t>(node + 6);
  SECTION("a value that reaches beyond the file: LMDB would read past its end") {
    base.put<std::uint32_t>(node, 0xffffffffU);
    CHECK(base.error().find(page + "node 0 has a value of 4294967295 bytes from page ") == 0);
  }
  SECTION("a value on pages that are not there") {
    base.put<std::uint64_t>(value, ~std::uint64_t{0});
    CHECK(base.error().find(page + "node 0 has a value of 3100 bytes from page ") == 0);
  }
  SECTION("a value of 3,100 bytes in the leaf, behind its end") {
    base.put<std::uint16_t>(node + 4, 0);
    base.put<std::uint32_t>(node, 4000);
    CHECK(base.error() == page + "node 0 has a value of 4000 bytes");
  }
  SECTION("a table in the place of a value") {
    base.put<std::uint16_t>(node + 4, 2);
    CHECK(base.error() == page + "node 0 has the flags 0x2");
  }
}

TEST_CASE("an LMDB that is cut anywhere is refused", "[lmdb]") {
  Database base(20, 3100);
  const std::string whole = base.bytes;
  for (std::size_t size = 0; size < whole.size(); size += 1777) {
    base.bytes = whole.substr(0, size);
    INFO(size);
    CHECK_FALSE(base.error().empty());
  }
}

}  // namespace taut

#include "worker/data/images/lmdb_check.hpp"

#include <fmt/format.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "common/files/tensor_file.hpp"

namespace taut::data {
namespace {

// Numbers have the byte order and width of the machine that wrote the file; only 64-bit
// little-endian files are supported.
constexpr std::uint32_t kMagic = 0xBEEFC0DE;
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kHeadBytes = 16;
constexpr std::size_t kNodeBytes = 8;
constexpr std::uint64_t kNoPage = ~std::uint64_t{0};
constexpr std::uint16_t kBranch = 0x01;
constexpr std::uint16_t kLeaf = 0x02;
constexpr std::uint16_t kMeta = 0x08;
constexpr std::uint16_t kKinds = 0x6F;    // mask of the page kinds; other flags name no kind
constexpr std::uint16_t kBigData = 0x01;  // a node whose value has its own pages
constexpr std::uint64_t kMinPage = 512;
constexpr std::uint64_t kMaxPage = 32768;
constexpr int kMaxDepth = 32;

template <class T>
T load(std::span<const std::byte> bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

struct Meta {
  std::uint64_t page_bytes = 0;
  std::uint16_t flags = 0;  // of the table
  std::uint16_t depth = 0;
  std::uint64_t root = kNoPage;
  std::uint64_t last_page = 0;
  std::uint64_t transaction = 0;
};

/// A page that was read; its head has been checked.
struct Page {
  std::vector<std::byte> bytes;
  std::uint64_t number = 0;
  std::size_t nodes = 0;

  [[nodiscard]] std::size_t place(std::size_t node) const {
    return load<std::uint16_t>(bytes, kHeadBytes + 2 * node);
  }
};

class Check {
 public:
  Check(const TensorFile& file, std::string name) : file_(file), name_(std::move(name)) {}

  Result<void> run() {
    TAUT_TRY(const Meta first, read_meta(0));
    meta_ = first;
    TAUT_TRY(const Meta second, read_meta(first.page_bytes));
    if (second.page_bytes != first.page_bytes) {
      return damaged(1, "its pages are of another size than page 0's");
    }
    // LMDB chooses the same one.
    if (first.transaction < second.transaction) meta_ = second;
    for (const Meta& meta : {first, second}) {
      const std::uint64_t pages = file_.bytes() / meta.page_bytes;
      if (meta.last_page < pages) continue;
      return invalid(
          fmt::format("{}: truncated: data.mdb has {} bytes, and its last page is number "
                      "{} of {} bytes each",
                      name_, file_.bytes(), meta.last_page, meta.page_bytes));
    }
    if (meta_.flags != 0) {
      return invalid(
          fmt::format("{}: its table has the flags {:#x}; only plain ones, as Caffe's, "
                      "are read",
                      name_, meta_.flags));
    }
    if (meta_.root == kNoPage) return ok();
    if (meta_.depth < 1 || meta_.depth > kMaxDepth) {
      return invalid(fmt::format("{}: damaged: a tree of depth {}", name_, meta_.depth));
    }
    seen_.resize(meta_.last_page + 1, false);
    return walk(meta_.root, 1);
  }

 private:
  [[nodiscard]] Error damaged(std::uint64_t page, const std::string& what) const {
    return invalid(fmt::format("{}: damaged: page {}: {}", name_, page, what));
  }

  Result<Meta> read_meta(std::uint64_t offset) {
    constexpr std::size_t kBytes = kHeadBytes + 136;
    constexpr std::size_t kFree = kHeadBytes + 24;  // the table of free pages
    constexpr std::size_t kTable = kFree + 48;
    if (offset > file_.bytes() || file_.bytes() - offset < kBytes) {
      return invalid(fmt::format("{}: no LMDB: data.mdb has {} bytes", name_, file_.bytes()));
    }
    std::vector<std::byte> bytes(kBytes);
    TAUT_TRY(file_.read_bytes(offset, bytes));
    const bool is_meta = (load<std::uint16_t>(bytes, 10) & kKinds) == kMeta &&
                         load<std::uint32_t>(bytes, kHeadBytes) == kMagic;
    if (!is_meta) return invalid(fmt::format("{}: not an LMDB: its meta pages are invalid", name_));
    const auto version = load<std::uint32_t>(bytes, kHeadBytes + 4);
    if (version != kVersion) {
      return invalid(fmt::format("{}: LMDB's format {}; {} is read", name_, version, kVersion));
    }
    Meta meta;
    meta.page_bytes = load<std::uint32_t>(bytes, kFree);
    if (!std::has_single_bit(meta.page_bytes) || meta.page_bytes < kMinPage ||
        meta.page_bytes > kMaxPage) {
      return invalid(fmt::format("{}: damaged: pages of {} bytes", name_, meta.page_bytes));
    }
    meta.flags = load<std::uint16_t>(bytes, kTable + 4);
    meta.depth = load<std::uint16_t>(bytes, kTable + 6);
    meta.root = load<std::uint64_t>(bytes, kTable + 40);
    meta.last_page = load<std::uint64_t>(bytes, kTable + 48);
    meta.transaction = load<std::uint64_t>(bytes, kTable + 56);
    return meta;
  }

  /// Reads a page of the tree at `level`; the root's level is 1.
  Result<Page> read_page(std::uint64_t number, int level) {
    if (number < 2 || number > meta_.last_page) {
      return invalid(fmt::format("{}: damaged: it leads to page {} of {}", name_, number,
                                 meta_.last_page + 1));
    }
    if (seen_[number]) return damaged(number, "two places lead to it");
    seen_[number] = true;
    Page page{std::vector<std::byte>(meta_.page_bytes), number, 0};
    TAUT_TRY(file_.read_bytes(number * meta_.page_bytes, page.bytes));
    if (load<std::uint64_t>(page.bytes, 0) != number)
      return damaged(number, "it has another number");
    const std::uint16_t expected = level == meta_.depth ? kLeaf : kBranch;
    if ((load<std::uint16_t>(page.bytes, 10) & kKinds) != expected) {
      return damaged(number, expected == kLeaf ? "it is not a leaf" : "it is not a branch");
    }
    const std::size_t lower = load<std::uint16_t>(page.bytes, 12);
    // A branch must have at least two children.
    const std::size_t min_keys = expected == kLeaf ? 1 : 2;
    if (lower > meta_.page_bytes || lower < kHeadBytes + 2 * min_keys) {
      return damaged(number, fmt::format("its list of nodes ends at byte {}", lower));
    }
    page.nodes = (lower - kHeadBytes) / 2;
    return page;
  }

  Result<void> walk(std::uint64_t number, int level) {
    TAUT_TRY(const Page page, read_page(number, level));
    for (std::size_t i = 0; i < page.nodes; ++i) {
      const std::size_t at = page.place(i);
      if (at < kHeadBytes || at + kNodeBytes > meta_.page_bytes) {
        return damaged(number, fmt::format("node {} is at byte {}", i, at));
      }
      const std::size_t key = load<std::uint16_t>(page.bytes, at + 6);
      if (at + kNodeBytes + key > meta_.page_bytes) {
        return damaged(number, fmt::format("node {} has a key of {} bytes", i, key));
      }
      if (level == meta_.depth) {
        TAUT_TRY(check_value(page, i, at, key));
      } else {
        TAUT_TRY(walk(load<std::uint32_t>(page.bytes, at) |
                          std::uint64_t{load<std::uint16_t>(page.bytes, at + 4)} << 32U,
                      level + 1));
      }
    }
    return ok();
  }

  Result<void> check_value(const Page& page, std::size_t node, std::size_t at, std::size_t key) {
    const auto flags = load<std::uint16_t>(page.bytes, at + 4);
    const std::uint64_t size = load<std::uint32_t>(page.bytes, at);
    if ((flags & ~kBigData) != 0) {
      return damaged(page.number, fmt::format("node {} has the flags {:#x}", node, flags));
    }
    const std::size_t value = at + kNodeBytes + key;
    if ((flags & kBigData) == 0) {
      if (value + size <= meta_.page_bytes) return ok();
      return damaged(page.number, fmt::format("node {} has a value of {} bytes", node, size));
    }
    if (value + sizeof(std::uint64_t) > meta_.page_bytes) {
      return damaged(page.number, fmt::format("node {} ends after it", node));
    }
    const auto first = load<std::uint64_t>(page.bytes, value);
    const std::uint64_t pages = meta_.last_page + 1;
    if (first < 2 || first >= pages || kHeadBytes + size > (pages - first) * meta_.page_bytes) {
      return damaged(page.number,
                     fmt::format("node {} has a value of {} bytes from page {} of {} on", node,
                                 size, first, pages));
    }
    return ok();
  }

  const TensorFile& file_;
  const std::string name_;
  Meta meta_;
  std::vector<bool> seen_;
};

}  // namespace

Result<void> check_lmdb(const std::filesystem::path& file, const std::string& name) {
  TAUT_TRY(const TensorFile opened, TensorFile::open(file));
  return Check(opened, name).run();
}

}  // namespace taut::data

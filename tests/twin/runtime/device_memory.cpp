#include "tests/twin/runtime/device_memory.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>

#include "tests/twin/runtime/counts.hpp"
#include "tests/twin/runtime/memory_faults.hpp"
#include "tests/twin/runtime/scheduler.hpp"

namespace taut::twin {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kAlignment = 256;       // cudaMalloc's
constexpr std::size_t kRegion = 1ULL << 40U;  // of addresses
constexpr int kRed = 0xFD;

struct Piece {
  std::byte* begin = nullptr;
  std::size_t bytes = 0;
  std::byte* first_page = nullptr;
  std::size_t page_bytes = 0;
  std::string owner;
  bool is_live = true;
};

/// Pages of a piece that the running work may touch. Not the whole piece: the system's time for a
/// change of protection grows with the pages.
struct OpenPages {
  Piece* piece = nullptr;
  std::byte* begin = nullptr;
  std::size_t bytes = 0;
  bool is_write = false;
};

struct Region {
  std::byte* begin = nullptr;
  std::size_t used = 0;  // addresses
  std::size_t taken = 0;
  std::map<std::byte*, Piece> pieces;  // by first page; those given back too
};

struct Memory {
  std::array<Region, kMaxDevices> regions;
  std::vector<OpenPages> open;
};
Memory& memory() {
  static auto* const one = new Memory;
  return *one;
}

std::size_t whole(std::size_t bytes, std::size_t step) {
  return (bytes + step - 1) / step * step;
}

void protect(std::byte* begin, std::size_t bytes, int protection) {
  if (mprotect(begin, bytes, protection) == 0) return;
  report_violation("twin", fmt::format("mprotect of {} bytes fails: {}; too many mappings?", bytes,
                                       std::strerror(errno)));
}

Region& region_of(int device) {
  Region& region = memory().regions.at(static_cast<std::size_t>(device));
  if (region.begin == nullptr) {
    void* const place =
        mmap(nullptr, kRegion, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (place == MAP_FAILED) report_violation("twin", "no addresses for a device's memory");
    region.begin = static_cast<std::byte*>(place);
  }
  return region;
}

/// The piece whose pages, with the guard page behind them, hold an address.
Piece* piece_at(const void* address, int* device = nullptr) {
  auto* const at = const_cast<std::byte*>(static_cast<const std::byte*>(address));
  for (int i = 0; i < kMaxDevices; ++i) {
    Region& region = memory().regions[static_cast<std::size_t>(i)];
    if (region.begin == nullptr || at < region.begin || at >= region.begin + region.used) continue;
    const auto behind = region.pieces.upper_bound(at);
    if (behind == region.pieces.begin()) return nullptr;
    if (device != nullptr) *device = i;
    return &std::prev(behind)->second;
  }
  return nullptr;
}

bool is_red(const std::byte* from, const std::byte* to) {
  for (; from < to; ++from) {
    if (*from != std::byte{kRed}) return false;
  }
  return true;
}

/// The bytes of both zones that could be written. REQUIRES: the pages are open
void check_red_zones(const OpenPages& written) {
  const Piece& piece = *written.piece;
  const std::byte* const open_end = written.begin + written.bytes;
  const std::byte* const behind = piece.begin + piece.bytes;
  const bool before = is_red(written.begin, std::min<const std::byte*>(piece.begin, open_end));
  const bool after = is_red(std::max<const std::byte*>(behind, written.begin), open_end);
  if (before && after) return;
  report_violation(
      "memory.bounds",
      fmt::format("written {} {} bytes of {}, by {}", before ? "behind" : "before", piece.bytes,
                  piece.owner, running() == nullptr ? "?" : running()->task.what));
}

void open_pages(Piece& piece, std::byte* from, std::byte* to, bool is_write) {
  std::byte* const end = std::min(to, piece.first_page + piece.page_bytes);
  std::byte* const begin = std::max(from, piece.first_page);
  auto& open = memory().open;
  const auto known = std::ranges::find_if(open, [&](const OpenPages& one) {
    return one.begin == begin && one.begin + one.bytes == end;
  });
  if (known == open.end()) {
    open.push_back({&piece, begin, static_cast<std::size_t>(end - begin), is_write});
  } else {
    known->is_write = known->is_write || is_write;
  }
  protect(begin, static_cast<std::size_t>(end - begin),
          is_write ? PROT_READ | PROT_WRITE : PROT_READ);
}

std::byte* aligned_down(const std::byte* address, std::size_t unit) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  return reinterpret_cast<std::byte*>(at / unit * unit);
}

}  // namespace

std::size_t memory_of_device() {
  static const std::size_t bytes = [] {
    const char* const text = std::getenv("TAUTLINE_TWIN_MEMORY");
    return text == nullptr ? 4ULL << 30U : std::strtoull(text, nullptr, 10);
  }();
  return bytes;
}

std::size_t memory_left(int device) {
  return memory_of_device() - region_of(device).taken;
}

void* take_memory(int device, std::size_t bytes, std::string owner) {
  Region& region = region_of(device);
  const std::size_t rounded = whole(bytes, kAlignment);
  if (rounded > memory_left(device)) return nullptr;
  const std::size_t pages = whole(rounded + kAlignment, kPage);
  if (region.used + pages + kPage > kRegion) return nullptr;
  Piece piece;
  piece.first_page = region.begin + region.used;
  piece.page_bytes = pages;
  // Its end is the last page's end: what is read behind it faults, but for the last few bytes.
  piece.begin = piece.first_page + pages - rounded;
  piece.bytes = bytes;
  piece.owner = std::move(owner);
  region.used += pages + kPage;
  region.taken += rounded;
  protect(piece.first_page, pages, PROT_READ | PROT_WRITE);
  std::memset(piece.first_page, kRed, static_cast<std::size_t>(piece.begin - piece.first_page));
  if (!counts_only()) std::memset(piece.begin, kPoison, bytes);
  std::memset(piece.begin + bytes, kRed, rounded - bytes);
  protect(piece.first_page, pages, PROT_NONE);
  std::byte* const begin = piece.begin;
  region.pieces.emplace(piece.first_page, std::move(piece));
  return begin;
}

bool give_memory_back(void* begin) {
  int device = 0;
  Piece* const piece = piece_at(begin, &device);
  if (piece == nullptr || piece->begin != begin || !piece->is_live) return false;
  // The addresses stay closed: who still uses them is seen.
  (void)madvise(piece->first_page, piece->page_bytes, MADV_DONTNEED);
  piece->is_live = false;
  memory().regions[static_cast<std::size_t>(device)].taken -= whole(piece->bytes, kAlignment);
  return true;
}

std::optional<int> device_of(const void* address) {
  int device = 0;
  const Piece* const piece = piece_at(address, &device);
  const auto* const at = static_cast<const std::byte*>(address);
  if (piece == nullptr || !piece->is_live) return std::nullopt;
  if (at < piece->begin || at >= piece->begin + piece->bytes) return std::nullopt;
  return device;
}

void open_memory(const Task& task) {
  watch_faults();
  // What is written last: where both share a page, it may be written.
  for (const bool is_write : {false, true}) {
    for (const Access& access : task.accesses) {
      if (access.is_write != is_write) continue;
      Piece* const piece = piece_at(access.begin);
      if (piece == nullptr) continue;  // the host's
      if (!is_device_memory(access.begin, access.bytes)) {
        report_violation("memory.bounds", fmt::format("{} uses {} bytes at {}", task.what,
                                                      access.bytes, place_of(access.begin)));
      }
      const auto* const begin = static_cast<const std::byte*>(access.begin);
      open_pages(*piece, aligned_down(begin, kPage),
                 aligned_down(begin + access.bytes + kPage - 1, kPage), is_write);
    }
  }
}

void close_memory() {
  for (const OpenPages& one : memory().open) {
    if (one.is_write) check_red_zones(one);
  }
  for (const OpenPages& one : memory().open) protect(one.begin, one.bytes, PROT_NONE);
  memory().open.clear();
}

std::string place_of(const void* address) {
  int device = 0;
  const Piece* const piece = piece_at(address, &device);
  if (piece == nullptr) return "";
  const auto offset = static_cast<const std::byte*>(address) - piece->begin;
  return fmt::format("byte {} of {} bytes of device {} ({}{})", offset, piece->bytes, device,
                     piece->owner, piece->is_live ? "" : ", given back");
}

bool open_touched(const void* address, bool is_write) {
  const Operation* const operation = running();
  int device = 0;
  Piece* const piece = piece_at(address, &device);
  if (!is_running_here() || !operation->task.is_kernel() || piece == nullptr) return false;
  const auto* const at = static_cast<const std::byte*>(address);
  if (!piece->is_live || device != operation->task.device || at < piece->begin ||
      at >= piece->begin + piece->bytes) {
    return false;
  }
  // A kernel's threads touch neighbours.
  constexpr std::size_t kChunk = 256UL << 10U;
  std::byte* const chunk = aligned_down(at, kChunk);
  open_pages(*piece, chunk, chunk + kChunk, is_write);
  return true;
}

std::optional<Allocation> allocation_of(const void* address) {
  const Lock lock;
  int device = 0;
  const Piece* const piece = piece_at(address, &device);
  const auto* const at = static_cast<const std::byte*>(address);
  if (piece == nullptr || !piece->is_live || at < piece->begin || at >= piece->begin + piece->bytes)
    return std::nullopt;
  return Allocation{piece->begin, piece->bytes, device};
}

bool is_device_memory(const void* begin, std::size_t bytes) {
  const auto found = allocation_of(begin);
  const auto* const at = static_cast<const std::byte*>(begin);
  return found.has_value() && bytes <= static_cast<std::size_t>(found->begin + found->bytes - at);
}

}  // namespace taut::twin

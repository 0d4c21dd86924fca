#include "tests/twin/runtime/device_memory.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>

#include "tests/twin/runtime/memory_faults.hpp"
#include "tests/twin/runtime/scheduler.hpp"

namespace taut::twin {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kAlignment = 256;  // cudaMalloc's
constexpr std::size_t kRegion = 64ULL << 30U;
constexpr int kRed = 0xFD;

struct Piece {
  std::byte* begin = nullptr;
  std::size_t bytes = 0;
  std::byte* first_page = nullptr;
  std::size_t page_bytes = 0;
  std::string who;
  bool is_live = true;
  int protection = PROT_NONE;
};

struct Region {
  std::byte* begin = nullptr;
  std::size_t used = 0;  // addresses
  std::size_t taken = 0;
  std::map<std::byte*, Piece> pieces;  // by first page; those given back too
};

struct Memory {
  std::array<Region, kMostDevices> regions;
  std::vector<Piece*> open;
};
Memory& memory() {
  static auto* const one = new Memory;
  return *one;
}

std::size_t whole(std::size_t bytes, std::size_t step) {
  return (bytes + step - 1) / step * step;
}

void protect(Piece& piece, int protection) {
  if (piece.protection == protection) return;
  piece.protection = protection;
  if (mprotect(piece.first_page, piece.page_bytes, protection) != 0) {
    report_violation("twin", fmt::format("mprotect of {} bytes fails: {}; too many mappings?",
                                         piece.page_bytes, std::strerror(errno)));
  }
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
  for (int i = 0; i < kMostDevices; ++i) {
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

void check_red_zones(const Piece& piece) {
  const bool before = is_red(piece.first_page, piece.begin);
  if (before && is_red(piece.begin + piece.bytes, piece.first_page + piece.page_bytes)) return;
  report_violation(
      "memory.bounds",
      fmt::format("written {} {} bytes of {}, by {}", before ? "behind" : "before", piece.bytes,
                  piece.who, running() == nullptr ? "?" : running()->task.what));
}

void open_piece(Piece& piece, bool is_write) {
  if (piece.protection == PROT_NONE) memory().open.push_back(&piece);
  protect(piece, is_write ? PROT_READ | PROT_WRITE : piece.protection | PROT_READ);
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

void* take_memory(int device, std::size_t bytes, std::string who) {
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
  piece.who = std::move(who);
  region.used += pages + kPage;
  region.taken += rounded;
  protect(piece, PROT_READ | PROT_WRITE);
  std::memset(piece.first_page, kRed, static_cast<std::size_t>(piece.begin - piece.first_page));
  std::memset(piece.begin, kPoison, bytes);
  std::memset(piece.begin + bytes, kRed, rounded - bytes);
  protect(piece, PROT_NONE);
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

void open_memory(const Task& task) {
  watch_faults();
  for (const Access& access : task.accesses) {
    Piece* const piece = piece_at(access.begin);
    if (piece == nullptr) continue;  // the host's
    if (!is_device_memory(access.begin, access.bytes)) {
      report_violation("memory.bounds", fmt::format("{} uses {} bytes at {}", task.what,
                                                    access.bytes, place_of(access.begin)));
    }
    open_piece(*piece, access.is_write);
  }
}

void close_memory() {
  for (Piece* const piece : memory().open) {
    if ((piece->protection & PROT_WRITE) != 0) check_red_zones(*piece);
    protect(*piece, PROT_NONE);
  }
  memory().open.clear();
}

std::string place_of(const void* address) {
  int device = 0;
  const Piece* const piece = piece_at(address, &device);
  if (piece == nullptr) return "";
  const auto offset = static_cast<const std::byte*>(address) - piece->begin;
  return fmt::format("byte {} of {} bytes of device {} ({}{})", offset, piece->bytes, device,
                     piece->who, piece->is_live ? "" : ", given back");
}

bool open_touched(const void* address, bool is_write) {
  const Operation* const operation = running();
  int device = 0;
  Piece* const piece = piece_at(address, &device);
  if (!is_running_here() || !operation->task.is_kernel || piece == nullptr) return false;
  const auto* const at = static_cast<const std::byte*>(address);
  if (!piece->is_live || device != operation->task.device || at < piece->begin ||
      at >= piece->begin + piece->bytes) {
    return false;
  }
  open_piece(*piece, is_write);
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

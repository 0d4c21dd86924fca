#include "tests/twin/libraries/library_work.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "tests/twin/runtime/seed.hpp"

namespace taut::twin {
namespace {

std::uintptr_t address_of(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer);
}

bool overlap(const Operand& a, const Operand& b) {
  return a.bytes > 0 && b.bytes > 0 && address_of(a.begin) < address_of(b.begin) + b.bytes &&
         address_of(b.begin) < address_of(a.begin) + a.bytes;
}

/// Nothing may be written where another operand of the same call is. One place may be named twice
/// where it is read and then written element by element: as C and D of a product.
void check_overlaps(const Work& work, const std::vector<Operand>& operands) {
  for (std::size_t i = 0; i < operands.size(); ++i) {
    for (std::size_t j = i + 1; j < operands.size(); ++j) {
      if (!operands[i].is_write && !operands[j].is_write) continue;
      if (!overlap(operands[i], operands[j])) continue;
      report_violation("library.overlap",
                       fmt::format("{} ({}): {} overlaps {}", work.call, work.about,
                                   operands[i].name, operands[j].name));
    }
  }
}

/// What a workspace holds while work of one call is under way: every 4,096th byte from its begin,
/// and the last ones, belong to it.
constexpr std::size_t kMarkEvery = 4096;

template <class Visit>
void visit_marks(std::byte* begin, std::size_t bytes, const Visit& visit) {
  if (bytes < sizeof(std::uint64_t)) return;
  for (std::size_t at = 0; at + sizeof(std::uint64_t) <= bytes; at += kMarkEvery) {
    visit(begin + at);
  }
  visit(begin + bytes - sizeof(std::uint64_t));
}

void mark(void* begin, std::size_t bytes, std::uint64_t token) {
  visit_marks(static_cast<std::byte*>(begin), bytes,
              [token](std::byte* at) { std::memcpy(at, &token, sizeof token); });
}

bool is_marked(void* begin, std::size_t bytes, std::uint64_t token) {
  bool all = true;
  visit_marks(static_cast<std::byte*>(begin), bytes, [&](const std::byte* at) {
    all = all && std::memcmp(at, &token, sizeof token) == 0;
  });
  return all;
}

/// A large one in places alone, which whoever counts on it meets as well.
void destroy(void* begin, std::size_t bytes) {
  constexpr std::size_t kWhole = 64UL << 10U;
  poison(begin, std::min(bytes, kWhole));
  if (bytes > kWhole) mark(begin, bytes, ~0ULL);
}

}  // namespace

std::uint64_t chosen_number(const std::string& question, std::uint64_t bound) {
  static std::mutex mutex;
  static std::map<std::string, std::uint64_t> known;
  const std::scoped_lock lock(mutex);
  const auto found = known.find(question);
  if (found != known.end()) return found->second;
  return known.emplace(question, library_number(question, bound)).first->second;
}

void queue_work(const Work& work, std::function<void()> run) {
  require_stream(work.call, work.stream);
  if (device_of(work.stream) != work.device) {
    report_violation("library.device",
                     fmt::format("{} ({}): the handle is of device {}, the stream of device {}",
                                 work.call, work.about, work.device, device_of(work.stream)));
  }
  std::vector<Operand> all = work.operands;
  if (work.workspace_bytes > 0) {
    all.push_back({"workspace", work.workspace, work.workspace_bytes, true, false});
  }
  for (const Operand& operand : all) {
    require_device_memory(work.call, operand.name, work.device, operand.begin, operand.bytes,
                          work.alignment);
  }
  check_overlaps(work, all);
  std::vector<Access> accesses;
  accesses.reserve(all.size());
  for (const Operand& operand : all) {
    accesses.push_back({operand.begin, operand.bytes, operand.is_write});
  }
  const std::string what = fmt::format("{} {}", work.call, work.about);
  if (work.workspace_bytes == 0) return enqueue(work.stream, what, accesses, std::move(run));

  static std::atomic<std::uint64_t> calls{0};
  const std::uint64_t token = 0xA5A5'0000'0000'0000U + ++calls;
  void* const workspace = work.workspace;
  const std::size_t bytes = work.workspace_bytes;
  enqueue(
      work.stream, what + ", its first kernel", {{workspace, bytes, true}},
      [=] { mark(workspace, bytes, token); }, {}, CallPart::kBefore);
  enqueue(work.stream, what, accesses, [=, run = std::move(run)] {
    if (!is_marked(workspace, bytes, token)) {
      report_violation("library.workspace",
                       what + ": other work wrote its workspace while it was under way");
    }
    run();
    destroy(workspace, bytes);
  });
}

}  // namespace taut::twin

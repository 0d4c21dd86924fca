#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "tests/twin/counts.hpp"
#include "tests/twin/runtime/lock.hpp"
#include "tests/twin/stream_queue.hpp"

// Calls that are made to fail: TAUTLINE_TWIN_FAIL="cudaMalloc 3 refused", "any 120 lost",
// "ncclGroupEnd 3 hangs" (the device is lost, and the call waits for its part for ever). And how
// often each was made: TAUTLINE_TWIN_COUNTS names a file that is written at the process's end.
namespace taut::twin {
namespace {

struct Order {
  std::string call;  // "any"
  unsigned long long at = 0;
  Fault::Kind kind = Fault::kNone;
  bool hangs = false;
};

Order order_of_test() {
  Order order;
  const char* const text = std::getenv("TAUTLINE_TWIN_FAIL");
  if (text == nullptr) return order;
  char call[64] = "";
  char kind[16] = "";
  if (std::sscanf(text, "%63s %llu %15s", call, &order.at, kind) != 3) {
    report_violation("twin", "TAUTLINE_TWIN_FAIL is \"CALL NUMBER refused|memory|lost|hangs\"");
  }
  order.call = call;
  order.hangs = std::string_view(kind) == "hangs";
  order.kind = order.hangs || std::string_view(kind) == "lost" ? Fault::kDeviceLost
               : std::string_view(kind) == "memory"            ? Fault::kOutOfMemory
                                                               : Fault::kRefused;
  return order;
}

struct Counts {
  Order order = order_of_test();
  unsigned long long all = 0;
  std::map<std::string, unsigned long long, std::less<>> by_call;
};
Counts& counts();

void write_counts() {
  std::FILE* const file = std::fopen(std::getenv("TAUTLINE_TWIN_COUNTS"), "a");
  if (file == nullptr) return;
  std::fprintf(file, "any %llu\n", counts().all);
  for (const auto& [call, count] : counts().by_call) {
    std::fprintf(file, "%s %llu\n", call.c_str(), count);
  }
  std::fclose(file);
}

Counts& counts() {
  static auto* const one = [] {
    auto* const fresh = new Counts;
    if (std::getenv("TAUTLINE_TWIN_COUNTS") != nullptr) (void)std::atexit(write_counts);
    return fresh;
  }();
  return *one;
}

}  // namespace

std::uint64_t calls_of(std::string_view call) {
  const Lock lock;
  const auto found = counts().by_call.find(call);
  return found == counts().by_call.end() ? 0 : found->second;
}

Fault next_fault(std::string_view call) {
  const Lock lock;
  Counts& own = counts();
  ++own.all;
  auto found = own.by_call.find(call);
  if (found == own.by_call.end()) found = own.by_call.emplace(std::string(call), 0).first;
  ++found->second;
  const bool is_named = own.order.call == call && own.order.at == found->second;
  if (!is_named && !(own.order.call == "any" && own.order.at == own.all)) return {};
  std::fprintf(stderr, "device twin: %s, call %llu, is made to fail\n", found->first.c_str(),
               found->second);
  return {own.order.kind, own.order.hangs};
}

}  // namespace taut::twin

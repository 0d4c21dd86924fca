#include "tests/twin/runtime/seed.hpp"

#include <cstdlib>
#include <functional>
#include <map>
#include <string>

#include "tests/twin/kernels/random.hpp"
#include "tests/twin/runtime/lock.hpp"
#include "tests/twin/stream_queue.hpp"

namespace taut::twin {
namespace {

/// FNV-1a: the same in every process, which std::hash does not promise.
std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  return hash;
}

struct Seed {
  std::uint64_t value = 1;
  std::map<std::string, Random, std::less<>> sequences;
};
Seed& own() {
  static auto* const one = [] {
    const char* const text = std::getenv("TAUTLINE_TWIN_SEED");
    auto* const fresh = new Seed;
    if (text != nullptr) fresh->value = std::strtoull(text, nullptr, 10);
    return fresh;
  }();
  return *one;
}

}  // namespace

std::uint64_t seed() {
  return own().value;
}

void set_seed(std::uint64_t seed) {
  const Lock lock;
  own().value = seed;
  own().sequences.clear();
}

Lateness lateness() {
  switch (seed() % 4) {
    case 0:
      return Lateness::kAtOnce;
    case 1:
      return Lateness::kLatest;
    default:
      return Lateness::kAnyTime;
  }
}

std::uint64_t library_number(std::string_view question, std::uint64_t bound) {
  static const char* const text = std::getenv("TAUTLINE_TWIN_LIBRARIES");
  const std::uint64_t value = text == nullptr ? seed() : std::strtoull(text, nullptr, 10);
  return Random(value ^ hash_of(question)).below(bound);
}

std::uint64_t random_number(std::string_view purpose, std::uint64_t bound) {
  const Lock lock;
  auto& sequences = own().sequences;
  auto found = sequences.find(purpose);
  if (found == sequences.end()) {
    found = sequences.emplace(std::string(purpose), Random(seed() ^ hash_of(purpose))).first;
  }
  return found->second.below(bound);
}

}  // namespace taut::twin

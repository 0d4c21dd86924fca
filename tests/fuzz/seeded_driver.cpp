#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "tests/fuzz/fuzz_target.hpp"

// Stands in for libFuzzer where the compiler has none: inputs made from the target's samples by
// seeded changes. The same seed makes the same inputs.
namespace {

unsigned long long seed = 1;
unsigned long long number = 0;

void name_input(int signal) {
  std::fprintf(stderr, "signal %d at seed %llu, input %llu\n", signal, seed, number);
  std::_Exit(1);
}

void change(std::string& bytes, const std::vector<std::string>& samples, std::mt19937_64& random) {
  const auto place = [&] { return bytes.empty() ? 0 : random() % bytes.size(); };
  switch (random() % 7) {
    case 0:
      bytes.resize(place());
      break;
    case 1:
      bytes.insert(place(), 1 + random() % 8, static_cast<char>(random()));
      break;
    case 2:
      bytes.erase(place(), 1 + random() % 8);
      break;
    case 3: {
      // The start of one input with the end of another.
      const std::string& other = samples[random() % samples.size()];
      bytes = bytes.substr(0, place()) + other.substr(random() % (other.size() + 1));
      break;
    }
    case 4: {
      const std::string part = bytes.substr(place(), random() % 64);
      bytes.insert(place(), part);
      break;
    }
    case 5:
      if (!bytes.empty()) bytes[place()] = static_cast<char>(0xff);
      break;
    default:
      if (!bytes.empty()) bytes[place()] = static_cast<char>(random());
  }
}

}  // namespace

/// seeded_driver [INPUTS [SEED]]
int main(int argc, char** argv) {
  const unsigned long long inputs = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 50'000;
  if (argc > 2) seed = std::strtoull(argv[2], nullptr, 10);
  for (const int signal : {SIGABRT, SIGSEGV, SIGFPE, SIGILL, SIGBUS}) {
    std::signal(signal, name_input);
  }
  const std::vector<std::string> samples = taut::fuzz::samples();
  std::mt19937_64 random(seed);
  for (number = 0; number < inputs; ++number) {
    std::string bytes = samples[number % samples.size()];
    if (number >= samples.size()) {
      const std::size_t changes = 1 + random() % 6;
      for (std::size_t i = 0; i < changes; ++i) change(bytes, samples, random);
    }
    // A copy of exactly this size, so that a sanitizer sees the first byte beyond it.
    const std::vector<std::uint8_t> exact(bytes.begin(), bytes.end());
    LLVMFuzzerTestOneInput(exact.data(), exact.size());
  }
  std::printf("%llu inputs, seed %llu\n", inputs, seed);
  return 0;
}

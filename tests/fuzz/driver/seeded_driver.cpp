#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/fuzz_target.hpp"

// A sanitizer that ends the process says so, where there is one.
extern "C" void __sanitizer_set_death_callback(void (*callback)()) __attribute__((weak));

// Stands in for libFuzzer where the compiler has none: inputs made from the target's samples by
// seeded changes. The same seed makes the same inputs.
namespace {

constexpr unsigned kMaxInputS = 30;

struct Options {
  double seconds = std::numeric_limits<double>::infinity();
  unsigned long long inputs = std::numeric_limits<unsigned long long>::max();
  unsigned long long seed = 1;
  std::string keep;
  std::vector<std::string> files;
};

// What a handler of signals reads.
unsigned long long seed = 1;
unsigned long long number = 0;
const std::vector<std::uint8_t>* current = nullptr;
const char* keep = nullptr;

/// Keeps the input that ends the process, with calls that are safe in a handler.
void keep_input() {
  if (keep == nullptr || current == nullptr) return;
  const int file = open(keep, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) return;
  const ssize_t written = write(file, current->data(), current->size());
  close(file);
  std::fprintf(stderr, "%zd of its %zu bytes are in %s\n", written, current->size(), keep);
}

void name_input() {
  std::fprintf(stderr, "seed %llu, input %llu\n", seed, number);
  keep_input();
}

void on_signal(int signal) {
  std::fprintf(stderr, "%s: ", signal == SIGALRM ? "this takes too long" : strsignal(signal));
  name_input();
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

void try_one(std::string_view bytes) {
  // A copy of exactly this size, so that a sanitizer sees the first byte beyond it.
  const std::vector<std::uint8_t> exact(bytes.begin(), bytes.end());
  current = &exact;
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
  current = nullptr;
}

/// Every sample as it is, whatever the time, then changed ones.
void try_changed(const Options& options) {
  using Clock = std::chrono::steady_clock;
  const std::vector<std::string> samples = taut::fuzz::samples();
  std::mt19937_64 random(options.seed);
  const Clock::time_point begin = Clock::now();
  double spent = 0;
  double armed = 0;
  for (; number < options.inputs; ++number) {
    std::string bytes = samples[number % samples.size()];
    if (number >= samples.size()) {
      if (spent >= options.seconds) break;
      const std::size_t changes = 1 + random() % 6;
      for (std::size_t i = 0; i < changes; ++i) change(bytes, samples, random);
    }
    try_one(bytes);
    spent = std::chrono::duration<double>(Clock::now() - begin).count();
    if (spent - armed < 1) continue;
    armed = spent;
    alarm(kMaxInputS);
  }
  std::printf("%llu inputs in %.1f s, seed %llu\n", number, spent, seed);
}

int try_files(const std::vector<std::string>& files) {
  for (const std::string& name : files) {
    std::ifstream file(name, std::ios::binary);
    if (!file) {
      std::fprintf(stderr, "%s: cannot be read\n", name.c_str());
      return 2;
    }
    try_one(std::string(std::istreambuf_iterator<char>(file), {}));
    std::printf("%s: judged\n", name.c_str());
  }
  return 0;
}

int usage(const char* program) {
  std::fprintf(
      stderr,
      "usage: %s [--seconds S] [--inputs N] [--seed N] [--keep FILE]\n"
      "       %s FILE...\n"
      "Tries changed samples until the time or the number is over; FILE gets the one that ends "
      "it.\n"
      "With files: tries these, as they are.\n",
      program, program);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (!word.starts_with("--")) {
      options.files.emplace_back(word);
      continue;
    }
    if (i + 1 == argc) return usage(argv[0]);
    const char* value = argv[++i];
    char* end = nullptr;
    if (word == "--seconds") {
      options.seconds = std::strtod(value, &end);
    } else if (word == "--inputs") {
      options.inputs = std::strtoull(value, &end, 10);
    } else if (word == "--seed") {
      options.seed = std::strtoull(value, &end, 10);
    } else if (word == "--keep") {
      options.keep = value;
    } else {
      return usage(argv[0]);
    }
    if (end == value || (end != nullptr && *end != '\0')) return usage(argv[0]);
  }
  seed = options.seed;
  if (!options.keep.empty()) keep = options.keep.c_str();
  for (const int signal : {SIGABRT, SIGSEGV, SIGFPE, SIGILL, SIGBUS, SIGALRM}) {
    std::signal(signal, on_signal);
  }
  if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(name_input);
  alarm(kMaxInputS);
  if (!options.files.empty()) return try_files(options.files);
  try_changed(options);
  return 0;
}

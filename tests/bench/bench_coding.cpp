// Encodes blocks of a checkpoint's parts on one thread, as a server does, and rebuilds two of them;
// prints bytes of data a second next to memcpy's.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstring>
#include <functional>
#include <random>
#include <vector>

#include "common/coding/reed_solomon.hpp"
#include "common/time.hpp"

namespace taut {
namespace {

/// The median of some rounds, in bytes a second.
double rate(int rounds, std::uint64_t bytes, const std::function<void()>& work) {
  std::vector<double> rates;
  for (int i = 0; i < rounds; ++i) {
    const TimePoint begin = steady_now();
    work();
    rates.push_back(static_cast<double>(bytes) / seconds(steady_now() - begin));
  }
  std::ranges::nth_element(rates, rates.begin() + rounds / 2);
  return rates[static_cast<std::size_t>(rounds) / 2];
}

int measure(std::size_t data, std::size_t parity, std::size_t block, std::size_t mebibytes) {
  const ReedSolomon code(data, parity);
  const std::size_t stripe = block * data;
  const std::size_t stripes = std::max<std::size_t>((mebibytes << 20U) / stripe, 1);
  std::vector<std::byte> source(stripes * stripe);
  std::mt19937_64 random(1);
  for (std::size_t i = 0; i < source.size(); i += 4096) source[i] = std::byte(random());
  std::vector<std::byte> coded(block * code.parts());
  const auto in = [&](std::size_t stripe_number, std::size_t i) {
    return std::span<const std::byte>(source).subspan(stripe_number * stripe + i * block, block);
  };
  const auto part = [&](std::size_t i) { return std::span(coded).subspan(i * block, block); };
  const auto encode = [&](std::size_t number) {
    std::vector<std::span<const std::byte>> blocks;
    std::vector<std::span<std::byte>> parities;
    for (std::size_t i = 0; i < data; ++i) blocks.push_back(in(number, i));
    for (std::size_t i = data; i < code.parts(); ++i) parities.push_back(part(i));
    code.encode(blocks, parities);
  };
  constexpr int kRounds = 9;
  const double copied = rate(kRounds, source.size(), [&] {
    for (std::size_t i = 0; i < stripes; ++i) {
      std::memcpy(coded.data(), source.data() + i * stripe, stripe);
    }
  });
  const double encoded = rate(kRounds, source.size(), [&] {
    for (std::size_t i = 0; i < stripes; ++i) encode(i);
  });
  // The first data blocks are gone, as many as there are parity blocks.
  const std::size_t lost = std::min(data, parity);
  const double rebuilt = rate(kRounds, source.size(), [&] {
    for (std::size_t i = 0; i < stripes; ++i) {
      std::vector<ReedSolomon::Block> others;
      for (std::size_t j = lost; j < data; ++j) others.push_back({j, in(i, j)});
      for (std::size_t j = data; others.size() < data; ++j) others.push_back({j, part(j)});
      std::vector<std::byte> out(block);
      for (std::size_t j = 0; j < lost; ++j) code.rebuild(others, j, out);
    }
  });
  fmt::print("encode GB/s: {:.2f}\nrebuild GB/s: {:.2f}\nmemcpy GB/s: {:.2f}\n", encoded / 1e9,
             rebuilt / 1e9, copied / 1e9);
  return 0;
}

}  // namespace
}  // namespace taut

int main(int argc, char** argv) {
  CLI::App app("Encodes and rebuilds blocks of a checkpoint's parts, and prints the rates.");
  std::size_t data = 4;
  std::size_t parity = 2;
  std::size_t block_kib = 256;
  std::size_t mebibytes = 512;
  app.add_option("--data", data, "data parts")->check(CLI::Range(1, 32));
  app.add_option("--parity", parity, "parity parts")->check(CLI::Range(1, 16));
  app.add_option("--block-kib", block_kib, "of a block")->check(CLI::Range(1, 65536));
  app.add_option("--mib", mebibytes, "of data")->check(CLI::Range(1, 8192));
  CLI11_PARSE(app, argc, argv);
  return taut::measure(data, parity, block_kib << 10U, mebibytes);
}

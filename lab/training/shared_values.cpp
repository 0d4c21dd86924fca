#include "lab/training/shared_values.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <new>
#include <utility>

#include "common/check.hpp"
#include "lab/random.hpp"

namespace taut::lab {
namespace {

/// Hashes the bits, in four independent chains.
std::uint64_t hash_of(std::span<const float> values) {
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15ULL;
  std::uint64_t sums[4] = {1, 2, 3, 4};
  const std::span<const std::byte> bytes = std::as_bytes(values);
  std::size_t at = 0;
  std::uint64_t words[4];
  for (; at + sizeof(words) <= bytes.size(); at += sizeof(words)) {
    std::memcpy(words, bytes.data() + at, sizeof(words));
    for (int i = 0; i < 4; ++i) sums[i] = ((sums[i] ^ words[i]) * kOdd) ^ (sums[i] >> 29U);
  }
  std::memset(words, 0, sizeof(words));
  std::memcpy(words, bytes.data() + at, bytes.size() - at);
  std::uint64_t hash = values.size();
  for (int i = 0; i < 4; ++i) hash = sim::Random::mix(hash ^ sums[i] ^ (words[i] * kOdd));
  return hash;
}

bool equal(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

}  // namespace

ValuePool::Values ValuePool::keep(TableId table, std::span<const float> values) {
  if (stored_.size() >= clean_at_) {
    std::erase_if(stored_, [](const auto& entry) { return entry.second.expired(); });
    clean_at_ = 64 + 2 * stored_.size();
  }
  auto& entry = stored_[{table.value(), hash_of(values)}];
  Values known = entry.lock();
  if (known && equal(known->floats(), values)) return known;
  const Buffer memory = memory_.acquire(values.size_bytes());
  std::ranges::copy(values, memory.floats().begin());
  auto copy = std::make_shared<const Buffer>(memory);
  // Different values with the same hash are not found again.
  entry = copy;
  return copy;
}

std::size_t ValuePool::size() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(stored_, [](const auto& entry) { return !entry.second.expired(); }));
}

ValuePool::Values ValuePool::keep(TableId table, const std::vector<Frame>& parts) {
  whole_.clear();
  for (const Frame& part : parts) {
    const auto* const values = reinterpret_cast<const float*>(part.bytes().data());
    whole_.insert(whole_.end(), values, values + part.size() / sizeof(float));
  }
  return keep(table, whole_);
}

SharedValues::SharedValues(ValuePool& pool, const std::vector<TableSpec>& tables) : pool_(pool) {
  for (const TableSpec& spec : tables) {
    tables_.push_back({bytes_, spec.count(), {}, nullptr});
    bytes_ += spec.count() * sizeof(float);
  }
  if (bytes_ == 0) return;
  void* const memory =
      mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  places_ = static_cast<std::byte*>(memory);
}

SharedValues::~SharedValues() {
  if (places_ != nullptr) munmap(places_, bytes_);
}

std::span<float> SharedValues::fresh(TableId id) {
  Table& table = tables_[id.value()];
  table.fresh.clear();
  table.front.reset();
  return {reinterpret_cast<float*>(places_ + table.offset), table.count};
}

void SharedValues::take(std::span<float> into, const Frame& values) {
  const auto at = static_cast<std::size_t>(reinterpret_cast<std::byte*>(into.data()) - places_);
  TAUT_CHECK(values.size() == into.size_bytes() && at + values.size() <= bytes_,
             "values are for a place of theirs");
  const auto after = std::ranges::upper_bound(tables_, at, {}, &Table::offset);
  Table& table = *std::prev(after);
  table.fresh[at - table.offset] = values;
}

void SharedValues::bring(TableId id) {
  Table& table = tables_[id.value()];
  std::vector<Frame> parts;
  std::size_t bytes = 0;
  for (auto& [offset, part] : table.fresh) {
    TAUT_CHECK(offset == bytes, "a table is brought when all of its parts have arrived");
    bytes += part.size();
    parts.push_back(std::move(part));
  }
  TAUT_CHECK(bytes == table.count * sizeof(float), "a table is brought when it has arrived");
  table.fresh.clear();
  table.front = pool_.keep(id, parts);
}

DeviceSpan<const float> SharedValues::front(TableId id) const {
  const Table& table = tables_[id.value()];
  TAUT_CHECK(table.front != nullptr, "values are used after they were brought");
  const auto floats = table.front->floats();
  return {floats.data(), floats.size()};
}

}  // namespace taut::lab

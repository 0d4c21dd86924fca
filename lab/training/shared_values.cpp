#include "lab/training/shared_values.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "common/check.hpp"
#include "lab/random.hpp"

namespace taut::lab {
namespace {

/// Of the bits, in four independent chains.
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
  if (known && equal(*known, values)) return known;
  auto copy = std::make_shared<const std::vector<float>>(values.begin(), values.end());
  // Values of the same hash that differ are not found again.
  entry = copy;
  return copy;
}

std::size_t ValuePool::size() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(stored_, [](const auto& entry) { return !entry.second.expired(); }));
}

SharedValues::SharedValues(ValuePool& pool, const std::vector<TableSpec>& tables) : pool_(pool) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  for (const TableSpec& spec : tables) {
    tables_.push_back({bytes_, spec.count(), nullptr});
    bytes_ += (spec.count() * sizeof(float) + page - 1) / page * page;
  }
  if (bytes_ == 0) return;
  void* const memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  pages_ = static_cast<std::byte*>(memory);
}

SharedValues::~SharedValues() {
  if (pages_ != nullptr) munmap(pages_, bytes_);
}

std::span<float> SharedValues::fresh(TableId id) {
  const Table& table = tables_[id.value()];
  return {reinterpret_cast<float*>(pages_ + table.offset), table.count};
}

void SharedValues::bring(TableId id) {
  Table& table = tables_[id.value()];
  table.front.reset();
  table.front = pool_.keep(id, fresh(id));
  // The next values are written there after a while.
  (void)madvise(pages_ + table.offset, table.count * sizeof(float), MADV_DONTNEED);
}

DeviceSpan<const float> SharedValues::front(TableId id) const {
  const Table& table = tables_[id.value()];
  TAUT_CHECK(table.front != nullptr, "values are used after they were brought");
  return {table.front->data(), table.front->size()};
}

}  // namespace taut::lab

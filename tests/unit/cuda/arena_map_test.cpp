#include "cuda/arena_map.hpp"

#include <cstdint>
#include <iterator>
#include <map>
#include <vector>

#include "common/math/philox.hpp"
#include "tests/support/catch.hpp"

using namespace taut;
using cuda::ArenaMap;

TEST_CASE("an arena gives the smallest free part that is long enough, aligned", "[cuda]") {
  ArenaMap map(1024, 64);
  const auto first = map.take(100);
  const auto second = map.take(64);
  const auto third = map.take(256);
  REQUIRE((first && second && third));
  CHECK(*first == 0);
  CHECK(*second == 128);
  CHECK(*third == 192);
  CHECK(map.taken() == 448);
  map.give_back(*first);
  map.give_back(*third);
  // 128 bytes are free at 0, 832 behind the second part.
  CHECK(map.take(128) == 0U);
  CHECK(map.take(129) == 192U);
}

TEST_CASE("neighbours that become free are one part again", "[cuda]") {
  ArenaMap map(1024, 64);
  const std::vector<std::uint64_t> parts{*map.take(256), *map.take(256), *map.take(256),
                                         *map.take(256)};
  CHECK_FALSE(map.take(1).has_value());
  map.give_back(parts[1]);
  map.give_back(parts[3]);
  CHECK(map.largest_free() == 256);
  map.give_back(parts[2]);
  CHECK(map.largest_free() == 768);
  map.give_back(parts[0]);
  CHECK(map.largest_free() == 1024);
  CHECK(map.empty());
  CHECK(map.take(1024) == 0U);
}

TEST_CASE("a part longer than its arena is refused", "[cuda]") {
  ArenaMap map(1024, 64);
  CHECK_FALSE(map.take(1025).has_value());
  CHECK_FALSE(map.take(~std::uint64_t{0}).has_value());
}

TEST_CASE("parts of an arena never overlap, and all of it is returned", "[cuda]") {
  constexpr std::uint64_t kSize = 1U << 20U;
  const std::uint64_t seed = GENERATE(1U, 2U, 3U);
  INFO("seed " << seed);
  ArenaMap map(kSize, 512);
  std::map<std::uint64_t, std::uint64_t> held;  // offset to end
  for (std::uint64_t i = 0; i < 4000; ++i) {
    const auto random = math::Philox::at(seed, 0, i);
    if (random.words[0] % 3 != 0 || held.empty()) {
      const std::uint64_t size = random.words[1] % 40000 + 1;
      const auto offset = map.take(size);
      if (!offset) continue;
      REQUIRE(*offset % 512 == 0);
      REQUIRE(*offset + size <= kSize);
      const auto after = held.lower_bound(*offset);
      REQUIRE((after == held.end() || after->first >= *offset + size));
      REQUIRE((after == held.begin() || std::prev(after)->second <= *offset));
      held[*offset] = *offset + size;
    } else {
      auto which = held.begin();
      std::advance(which, random.words[1] % held.size());
      map.give_back(which->first);
      held.erase(which);
    }
  }
  for (const auto& [offset, end] : held) map.give_back(offset);
  CHECK(map.taken() == 0);
  CHECK(map.largest_free() == kSize);
}

#include "worker/library/elements.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "tests/support/catch.hpp"
#include "worker/library/lent_memory.hpp"

using namespace taut::library;
using Catch::Matchers::Contains;

TEST_CASE("numbers of each type become float32", "[library]") {
  std::array<float, 4> out{};
  SECTION("float64 is rounded to the nearest") {
    const std::array<double, 4> given{1.5, 0.1, -1e-300, 1e300};
    to_float32(TAUTLINE_FLOAT64, given.data(), out);
    CHECK(out == std::array<float, 4>{1.5F, 0.1F, -0.0F, std::numeric_limits<float>::infinity()});
  }
  SECTION("float16 is exact, from the smallest subnormal number to the largest") {
    const std::array<std::uint16_t, 4> given{0x3c00, 0x0001, 0xfbff, 0x7c00};
    to_float32(TAUTLINE_FLOAT16, given.data(), out);
    CHECK(out == std::array<float, 4>{1, 0x1p-24F, -65504, std::numeric_limits<float>::infinity()});
  }
  SECTION("bfloat16 is the upper half of a float32") {
    const std::array<std::uint16_t, 4> given{0x3f80, 0xc040, 0x0001, 0x7f7f};
    to_float32(TAUTLINE_BFLOAT16, given.data(), out);
    CHECK(out == std::array<float, 4>{1, -3, 0x1p-133F, 0x1.fep127F});
  }
  SECTION("float32 stays") {
    const std::array<float, 4> given{1, -0.0F, 0x1p-149F, 3};
    to_float32(TAUTLINE_FLOAT32, given.data(), out);
    CHECK(out == given);
  }
}

TEST_CASE("a type that is unknown, or that nothing is written in, is refused", "[library]") {
  CHECK(check_element(TAUTLINE_BFLOAT16).has_value());
  const auto unknown = check_element(std::bit_cast<tautline_element>(7U));
  REQUIRE_FALSE(unknown.has_value());
  CHECK_THAT(unknown.error().message, Contains("element type 7 is unknown; known are TAUTLINE_FL"));
  CHECK(check_written(TAUTLINE_FLOAT32).has_value());
  const auto written = check_written(TAUTLINE_FLOAT16);
  REQUIRE_FALSE(written.has_value());
  CHECK(written.error().message ==
        "element type float16 is for updates; values that the library writes are float32");
  CHECK_FALSE(check_written(std::bit_cast<tautline_element>(~0U)).has_value());
}

TEST_CASE("memory that is lent is released once, by who drops it last, if it was accepted",
          "[library]") {
  int released = 0;
  float value = 0;
  SECTION("not accepted: it stays the caller's") {
    {
      const LentMemory lent(&value, [&] { ++released; });
    }
    CHECK(released == 0);
  }
  SECTION("accepted, and dropped at once") {
    {
      LentMemory lent(&value, [&] { ++released; });
      lent.accept();
      CHECK(released == 0);
    }
    CHECK(released == 1);
  }
  SECTION("accepted, and shared for longer") {
    std::shared_ptr<std::byte> share;
    {
      LentMemory lent(&value, [&] { ++released; });
      share = lent.memory();
      CHECK(static_cast<void*>(share.get()) == &value);
      lent.accept();
    }
    CHECK(released == 0);
    share.reset();
    CHECK(released == 1);
  }
}

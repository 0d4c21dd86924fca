#include "common/math/philox.hpp"

#include "tests/support/catch.hpp"

using taut::math::Philox;

// The known answers that come with the reference implementation (Random123, kat_vectors).
TEST_CASE("Philox4x32-10 gives the published known answers", "[philox]") {
  const Philox zero = Philox::at(0, 0, 0);
  CHECK(zero.words[0] == 0x6627e8d5U);
  CHECK(zero.words[1] == 0xe169c58dU);
  CHECK(zero.words[2] == 0xbc57ac4cU);
  CHECK(zero.words[3] == 0x9b00dbd8U);

  const Philox ones = Philox::at(~0ULL, ~0ULL, ~0ULL);
  CHECK(ones.words[0] == 0x408f276dU);
  CHECK(ones.words[1] == 0x41c83b0eU);
  CHECK(ones.words[2] == 0xa20bc7c6U);
  CHECK(ones.words[3] == 0x6d5451fdU);
}

TEST_CASE("a unit float stays below one", "[philox]") {
  CHECK(taut::math::unit_float(0) == 0.0F);
  CHECK(taut::math::unit_float(~0U) < 1.0F);
}

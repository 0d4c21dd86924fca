#include "worker/library/elements.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "common/math/codec_elements.hpp"

namespace taut::library {
namespace {

template <class Element, class Convert>
void convert(const void* from, std::span<float> out, const Convert& one) {
  const std::span<const Element> elements(static_cast<const Element*>(from), out.size());
  std::ranges::transform(elements, out.begin(), one);
}

}  // namespace

namespace {

Result<void> check_number(int element) {
  if (element >= TAUTLINE_FLOAT32 && element <= TAUTLINE_BFLOAT16) return ok();
  return invalid(
      fmt::format("element type {} is unknown; known are TAUTLINE_FLOAT32, TAUTLINE_FLOAT64, "
                  "TAUTLINE_FLOAT16 and TAUTLINE_BFLOAT16",
                  element));
}

}  // namespace

Result<void> check_element(tautline_element element) {
  return check_number(static_cast<int>(element));
}

Result<tautline_element> element_in(const tautline_element& field) {
  int number = 0;
  static_assert(sizeof number == sizeof field);
  std::memcpy(&number, &field, sizeof number);
  TAUT_TRY(check_number(number));
  return field;
}

Result<void> check_written(tautline_element element) {
  if (element == TAUTLINE_FLOAT32) return ok();
  TAUT_TRY(check_element(element));
  return invalid(
      fmt::format("element type {} is for updates; values that the library writes are float32",
                  words_of(element)));
}

std::size_t bytes_of(tautline_element element) {
  switch (element) {
    case TAUTLINE_FLOAT64:
      return sizeof(double);
    case TAUTLINE_FLOAT16:
    case TAUTLINE_BFLOAT16:
      return sizeof(std::uint16_t);
    default:
      return sizeof(float);
  }
}

std::string_view words_of(tautline_element element) {
  switch (element) {
    case TAUTLINE_FLOAT64:
      return "float64";
    case TAUTLINE_FLOAT16:
      return "float16";
    case TAUTLINE_BFLOAT16:
      return "bfloat16";
    default:
      return "float32";
  }
}

void to_float32(tautline_element element, const void* from, std::span<float> out) {
  switch (element) {
    case TAUTLINE_FLOAT64:
      return convert<double>(from, out, [](double one) { return static_cast<float>(one); });
    case TAUTLINE_FLOAT16:
      return convert<std::uint16_t>(from, out,
                                    [](std::uint16_t one) { return math::from_float16(one); });
    case TAUTLINE_BFLOAT16:
      return convert<std::uint16_t>(from, out,
                                    [](std::uint16_t one) { return math::from_bfloat16(one); });
    default:
      return convert<float>(from, out, [](float one) { return one; });
  }
}

}  // namespace taut::library

#include "proto/wire_version.hpp"

#include <fmt/format.h>

#include <string_view>

namespace taut {
namespace {

constexpr std::string_view kMagic = "TAUT";
static_assert(kPrefixBytes == kMagic.size() + 2 + sizeof kWireVersion);

}  // namespace

std::string build_name() {
#ifdef __clang__
  return fmt::format("tautline {} (clang {})", TAUT_VERSION, __clang_version__);
#else
  return fmt::format("tautline {} (g++ {})", TAUT_VERSION, __VERSION__);
#endif
}

std::string release_version() {
  return TAUT_VERSION;
}

void append_prefix(Plane plane, std::string& out) {
  out += kMagic;
  out += static_cast<char>(plane);
  out += '\0';
  out += static_cast<char>(kWireVersion & 0xffU);
  out += static_cast<char>(kWireVersion >> 8U);
}

Result<std::uint16_t> read_prefix(Plane plane, const Frame& header) {
  const std::string_view bytes = header.text();
  if (bytes.size() < kPrefixBytes) {
    return invalid(
        fmt::format("a header of {} bytes; the prefix alone has {}", bytes.size(), kPrefixBytes));
  }
  if (!bytes.starts_with(kMagic)) return invalid("a header that does not start with TAUT");
  if (bytes[4] != static_cast<char>(plane) || bytes[5] != '\0') {
    return invalid(fmt::format("a header of plane 0x{:02x}, not '{}'; is this the right port?",
                               static_cast<unsigned char>(bytes[4]), static_cast<char>(plane)));
  }
  const auto low = static_cast<unsigned char>(bytes[6]);
  const auto high = static_cast<unsigned char>(bytes[7]);
  return static_cast<std::uint16_t>(low | (high << 8U));
}

std::string wire_mismatch(std::uint32_t ours, const std::string& our_build, std::uint32_t theirs,
                          const std::string& their_build) {
  return fmt::format(
      "wire version {} ({}) does not match the peer's wire version {} ({}); run the "
      "same release everywhere",
      ours, our_build, theirs, their_build);
}

}  // namespace taut

#include "common/check.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "worker/data/vocabulary.hpp"

// A vocabulary's file, and at once a text: it is cut, numbered and numbered again from its file.
namespace taut {

std::vector<std::string> fuzz::samples() {
  return {data::Vocabulary::of("a\\b\n\t\r\xC3\xA4", data::TextUnit::kCharacters, 0).to_file(),
          data::Vocabulary::of("to be or not", data::TextUnit::kWords, 3).to_file(),
          "to be\xE2\x82\n\n \xF0\x9F\x99\x82"};
}

}  // namespace taut

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace taut;
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  if (const auto parsed = data::Vocabulary::parse(bytes, "input"); !parsed) {
    TAUT_CHECK(parsed.error().message.find("input") == 0, "a refusal says where");
  } else {
    TAUT_CHECK(parsed.value().to_file() == bytes, "a vocabulary is not what its file says");
  }
  std::string joined;
  for (const auto unit : data::split_text(bytes, data::TextUnit::kCharacters)) joined += unit;
  TAUT_CHECK(joined == bytes, "characters missing or left over");
  for (const auto unit : {data::TextUnit::kCharacters, data::TextUnit::kWords}) {
    const auto vocabulary = data::Vocabulary::of(bytes, unit, size % 7);
    const auto again = data::Vocabulary::parse(vocabulary.to_file(), "again");
    TAUT_CHECK(again.has_value(), "a vocabulary that was written is not read");
    TAUT_CHECK(again.value().encode(bytes) == vocabulary.encode(bytes), "other numbers");
  }
  return 0;
}

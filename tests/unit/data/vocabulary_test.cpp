#include "worker/data/vocabulary.hpp"

#include "tests/support/catch.hpp"

using namespace taut;
using data::TextUnit;
using data::Vocabulary;

namespace {

std::vector<std::string> entries_of(const Vocabulary& vocabulary) {
  std::vector<std::string> entries;
  for (std::size_t i = 0; i < vocabulary.size(); ++i) entries.push_back(vocabulary.entry(i));
  return entries;
}

std::string error_of(const std::string& file) {
  const auto parsed = Vocabulary::parse(file, "v.txt");
  REQUIRE_FALSE(parsed.has_value());
  return parsed.error().message;
}

const std::string kHead = "tautline vocabulary of characters\n";

}  // namespace

TEST_CASE("characters are numbered in the order of their bytes, after the unknown one", "[text]") {
  const auto vocabulary = Vocabulary::of("hello\n", TextUnit::kCharacters, 0);
  CHECK(entries_of(vocabulary) == std::vector<std::string>{"<unk>", "\n", "e", "h", "l", "o"});
  CHECK(vocabulary.encode("hole?") == std::vector<std::uint32_t>{3, 5, 4, 2, 0});
}

TEST_CASE("a character is a UTF-8 code point, and a stray byte is a character", "[text]") {
  const auto units =
      data::split_text("a\xC3\xA4\xE2\x82\xAC\xF0\x9F\x99\x82\xC3z\xE2\x82", TextUnit::kCharacters);
  CHECK(units == std::vector<std::string_view>{"a", "\xC3\xA4", "\xE2\x82\xAC", "\xF0\x9F\x99\x82",
                                               "\xC3", "z", "\xE2", "\x82"});
}

TEST_CASE("words are separated by spaces, and a line's end is a word", "[text]") {
  CHECK(data::split_text("to be\t or\r\n\nnot", TextUnit::kWords) ==
        std::vector<std::string_view>{"to", "be", "or", "<eos>", "<eos>", "not"});
  CHECK(data::split_text(" \t ", TextUnit::kWords).empty());
}

TEST_CASE("a vocabulary of limited size keeps the most frequent units", "[text]") {
  const auto vocabulary = Vocabulary::of("b b c c a a a d <unk>\n", TextUnit::kWords, 4);
  CHECK(entries_of(vocabulary) == std::vector<std::string>{"<unk>", "a", "b", "c"});
  CHECK(vocabulary.encode("a d c <unk>") == std::vector<std::uint32_t>{1, 0, 3, 0});
}

TEST_CASE("a vocabulary is read back from its file", "[text]") {
  const auto vocabulary = Vocabulary::of("a\\b\n\t\r\xC3\xA4", TextUnit::kCharacters, 0);
  const auto again = Vocabulary::parse(vocabulary.to_file(), "v.txt");
  REQUIRE(again.has_value());
  CHECK(entries_of(again.value()) == entries_of(vocabulary));
  CHECK(again.value().unit() == TextUnit::kCharacters);
  const auto words = Vocabulary::of("to be", TextUnit::kWords, 0);
  CHECK(Vocabulary::parse(words.to_file(), "w").value().unit() == TextUnit::kWords);
}

TEST_CASE("another file than a vocabulary is refused with the reason", "[text]") {
  CHECK(error_of("") ==
        "v.txt: no vocabulary: its first line is neither \"tautline vocabulary of "
        "characters\" nor \"tautline vocabulary of words\"");
  CHECK(error_of(kHead) == "v.txt: its first entry is not \"<unk>\"");
  CHECK(error_of(kHead + "a\n") == "v.txt: its first entry is not \"<unk>\"");
  CHECK(error_of(kHead + "<unk>\na\na\n") == "v.txt: an entry occurs twice");
  CHECK(error_of(kHead + "<unk>\na") == "v.txt: truncated: its last line has no end");
  CHECK(error_of(kHead + "<unk>\na\\x\n") ==
        "v.txt:3: ends a line with a backslash, or has an unknown escape after one");
}

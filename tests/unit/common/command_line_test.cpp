#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/command_line/command_facts.hpp"
#include "common/command_line/completion.hpp"
#include "common/command_line/help_text.hpp"
#include "common/command_line/man_page.hpp"
#include "common/command_line/program.hpp"
#include "common/command_line/value_checks.hpp"
#include "tests/support/catch.hpp"

namespace {

using namespace taut::command_line;

/// A program like ours with one command.
struct Example {
  Program program{"prog", "Trains nets", "Example: prog train", ManNotes{.version = "1.0"}};
  std::optional<std::uint32_t> workers;
  std::string device;
  std::string data;
  double every_s = 1;
  std::uint64_t budget = 0;
  std::vector<std::string> files;
  std::vector<std::string> notes;
  bool runs = false;

  Example() {
    Command command = program.command();
    command.require_command();
    Command train = command.command("train", "Trains a net", "Example: prog train a.txt");
    train.whole_number("--workers", workers, "Processes", 1, 256);
    train.one_of("--device", device, "What computes", {"auto", "cpu", "cuda"}).by_default("auto");
    train.text("--data", data, "The \"data's\" folder, with .dots").value("DIR");
    train.number("--every", every_s, "How often", "SECONDS", {.min = 0.1, .max = 60});
    train.byte_size("--budget", budget, "Memory");
    train.texts("--note", notes, "What is noted");
    train.text("--hidden", data, "").hidden();
    train.texts("FILE", files, "What is read").value("FILE");
    train.on_run([this] { runs = true; });
  }

  /// The exit status; nullopt if the command ran.
  std::optional<int> parse(std::vector<std::string> words) {
    words.insert(words.begin(), "prog");
    std::vector<char*> pointers;
    pointers.reserve(words.size());
    for (std::string& word : words) pointers.push_back(word.data());
    return program.parse(static_cast<int>(pointers.size()), pointers.data());
  }

  CommandFacts facts() { return facts_of(program.command()); }
};

}  // namespace

TEST_CASE("a command line that can be used sets every target and runs the command") {
  Example example;
  REQUIRE_FALSE(example.parse({"train", "a", "--workers", "4", "--device=cpu", "--every", "0.5",
                               "--note", "x", "b", "--note", "y", "--budget", "1KiB"}));
  CHECK(example.runs);
  CHECK(example.workers == 4);
  CHECK(example.device == "cpu");
  CHECK(example.every_s == 0.5);
  CHECK(example.budget == 1024);
  CHECK(example.notes == std::vector<std::string>{"x", "y"});
  CHECK(example.files == std::vector<std::string>{"a", "b"});
}

TEST_CASE("a command runs itself, or the one of its commands that is named") {
  for (const bool names_inner : {false, true}) {
    Program program("prog", "Trains nets", "Example: prog lab", ManNotes{.version = "1.0"});
    std::string ran;
    std::string file;
    Command lab = program.command().command("lab", "Tries things", "");
    lab.text("FILE", file, "What is read");
    lab.on_run([&ran] { ran += "lab"; });
    lab.command("inner", "Tries one", "").on_run([&ran] { ran += "inner"; });
    std::string words[] = {"prog", "lab", names_inner ? "inner" : "a.txt"};
    char* pointers[] = {words[0].data(), words[1].data(), words[2].data()};
    REQUIRE_FALSE(program.parse(3, pointers));
    CHECK(ran == (names_inner ? "inner" : "lab"));
    CHECK(file == (names_inner ? "" : "a.txt"));
  }
}

TEST_CASE("every usage mistake has exit status 2 and runs nothing") {
  const std::vector<std::vector<std::string>> mistakes{
      {},
      {"fly"},
      {"train", "--workers"},
      {"train", "--workers", "0"},
      {"train", "--workers", "1", "--workers", "2"},
      {"train", "--every", "soon"},
      {"train", "--device", "gpu"},
      {"train", "--budget", "much"},
      {"train", "--nothing"},
      {"--generate", "fish"}};
  for (const auto& mistake : mistakes) {
    Example example;
    CHECK(example.parse(mistake) == kUsage);
    CHECK_FALSE(example.runs);
  }
}

TEST_CASE("help, version and generated files end the program with status 0") {
  const std::vector<std::vector<std::string>> requests{
      {"--help"}, {"train", "-h"}, {"--version"}, {"--generate", "man"}};
  for (const auto& request : requests) {
    Example example;
    CHECK(example.parse(request) == kFine);
    CHECK_FALSE(example.runs);
  }
}

TEST_CASE("a whole number outside of its range is refused with the range and the value") {
  CHECK(check_whole_number("256", 1, 256).empty());
  for (const char* value : {"0", "257", "-1", "1e9", "abc", "", "99999999999999999999999"}) {
    CHECK(check_whole_number(value, 1, 256) ==
          "must be a whole number from 1 to 256, is " + in_quotes(value));
  }
  CHECK(check_whole_number("abc", 1, UINT64_MAX) ==
        "must be a whole number of at least 1, is \"abc\"");
}

TEST_CASE("a number outside of its range is refused with the range and the value") {
  const NumberRange range{.min = 0.1, .max = 60};
  CHECK(check_number("0.5", range).empty());
  for (const char* value : {"0", "61", "nan", "inf", "soon"}) {
    CHECK(check_number(value, range) == "must be a number, 0.1 to 60, is " + in_quotes(value));
  }
  CHECK(check_number("0", {.excludes_limits = true}) ==
        "must be a number, greater than 0, is \"0\"");
}

TEST_CASE("a word that is not one of the choices is refused with all of them and a guess") {
  CHECK(check_word("cuda", {"auto", "cpu", "cuda"}).empty());
  CHECK(check_word("cudaa", {"auto", "cpu", "cuda"}) ==
        "must be one of auto, cpu, cuda, is \"cudaa\"; did you mean \"cuda\"?");
}

TEST_CASE("a number of bytes may have a unit") {
  std::uint64_t bytes = 0;
  CHECK((check_byte_size("500", bytes).empty() && bytes == 500));
  CHECK((check_byte_size("64MiB", bytes).empty() && bytes == 64ULL << 20));
  CHECK((check_byte_size("1.5 GiB", bytes).empty() && bytes == 3ULL << 29));
  CHECK((check_byte_size("2GB", bytes).empty() && bytes == 2'000'000'000));
  for (const char* text : {"", "0", "-5", "64XiB", "MiB", "1e30"}) {
    CHECK_FALSE(check_byte_size(text, bytes).empty());
  }
}

TEST_CASE("a value is shown in an error without control characters and cut where it is long") {
  CHECK(in_quotes("a\x1b[2Jb\n") == "\"a?[2Jb?\"");
  CHECK(in_quotes(std::string(1000, 'x')).size() == 65);
}

TEST_CASE("help lists arguments and options within 80 columns, and hides what is hidden") {
  const std::string text = help_text(Example().facts().commands.front());
  CHECK(text.find("Usage: prog train [OPTIONS] [FILE...]") != std::string::npos);
  CHECK(text.find("--workers N") != std::string::npos);
  CHECK(text.find("(1 to 256)") != std::string::npos);
  CHECK(text.find("--device auto|cpu|cuda") != std::string::npos);
  CHECK(text.find("hidden") == std::string::npos);
  std::size_t start = 0;
  for (std::size_t end; (end = text.find('\n', start)) != std::string::npos; start = end + 1) {
    CHECK(end - start <= 80);
  }
}

TEST_CASE("completions name every command, option and choice") {
  const CommandFacts facts = Example().facts();
  for (const std::string& script : {bash_completion(facts), zsh_completion(facts)}) {
    for (const char* word : {"train", "--workers", "--device", "auto cpu cuda", "--help"}) {
      CHECK(script.find(word) != std::string::npos);
    }
    CHECK(script.find("hidden") == std::string::npos);
  }
}

TEST_CASE("text in a man page has no meaning for roff") {
  const std::string page = man_page(
      Example().facts(), {"1.0", "trains nets", ".first 'second' a\\b", {}, {}}, "2026-01-02");
  CHECK(page.find("\n\\&.first 'second' a\\eb\n") != std::string::npos);
  CHECK(page.find("\\fB\\-\\-workers N\\fR") != std::string::npos);
  CHECK(page.find("The \\(dqdata's\\(dq folder") != std::string::npos);
  CHECK(page.find(".TH PROG 1 2026-01-02 \"1.0\" \"Tautline\"") != std::string::npos);
}

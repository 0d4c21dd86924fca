#include "common/files/safetensors.hpp"

#include <array>
#include <cmath>
#include <cstring>
#include <fstream>

#include "common/files/file.hpp"
#include "common/float16.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temp_folder.hpp"

using namespace taut;
using namespace taut::safetensors;
using taut::test::TempFolder;

namespace {

/// A file of this header and this many bytes of data.
std::string file_of(std::string json, std::size_t data_bytes) {
  const std::uint64_t length = json.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + std::move(json) + std::string(data_bytes, '\1');
}

/// What opening a file of these bytes says; empty where it is opened.
std::string refusal(const std::string& bytes) {
  const TempFolder folder;
  const auto reader = Reader::open(folder.write("t.safetensors", bytes));
  return reader ? "" : reader.error().message;
}

void check_refused(const std::string& bytes, const std::string& why) {
  const std::string message = refusal(bytes);
  INFO(message);
  CHECK(message.find("t.safetensors: ") != std::string::npos);
  CHECK(message.find(why) != std::string::npos);
}

template <class Value>
std::span<const std::byte> bytes_of_values(const Value& values) {
  return std::as_bytes(std::span(values));
}

}  // namespace

TEST_CASE("written safetensors are read back, bit for bit", "[safetensors]") {
  const TempFolder folder;
  const auto path = folder.path() / "w.safetensors";
  const std::vector<float> weights = {1.5F, -0.0F, 3e-45F, INFINITY, 2, 7};
  const std::vector<std::uint64_t> clocks = {9, 1ULL << 60};
  {
    auto writer = Writer::create(path,
                                 {{"fc/0", {2, 3}, ElementType::kF32},
                                  {"empty", {0, 4}, ElementType::kF32},
                                  {"\"ü\"", {2}, ElementType::kU64},
                                  {"one", {}, ElementType::kF32}},
                                 {{"net", "name: \"x\"\n"}});
    REQUIRE(writer);
    REQUIRE(writer.value().append(std::span(weights).first(2)));
    REQUIRE(writer.value().append(std::span(weights).subspan(2)));
    REQUIRE(writer.value().append(bytes_of_values(clocks)));
    REQUIRE(writer.value().append(std::span(weights).first(1)));
    REQUIRE(writer.value().finish());
  }
  const auto reader = Reader::open(path);
  REQUIRE(reader);
  CHECK(reader.value().metadata() == Metadata{{"net", "name: \"x\"\n"}});
  CHECK(reader.value().tensors().size() == 4);
  const Tensor* tensor = reader.value().find("fc/0");
  REQUIRE(tensor != nullptr);
  CHECK(tensor->shape == std::vector<std::uint64_t>{2, 3});
  std::vector<float> read(6);
  REQUIRE(reader.value().read_floats(*tensor, 0, read));
  // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): bit for bit
  CHECK(std::memcmp(read.data(), weights.data(), 24) == 0);
  std::array<float, 2> part{};
  REQUIRE(reader.value().read_floats(*tensor, 4, part));
  CHECK(part == std::array<float, 2>{2, 7});
  CHECK_FALSE(reader.value().read_floats(*tensor, 5, part));

  const Tensor* whole = reader.value().find("\"ü\"");
  REQUIRE(whole != nullptr);
  std::array<std::uint64_t, 2> read_clocks{};
  REQUIRE(reader.value().read_bytes(*whole, 0, std::as_writable_bytes(std::span(read_clocks))));
  CHECK(read_clocks[1] == 1ULL << 60);
  const auto as_floats = reader.value().read_floats(*whole, 0, part);
  REQUIRE_FALSE(as_floats);
  CHECK(as_floats.error().message.find("holds U64") != std::string::npos);
  CHECK(reader.value().find("none") == nullptr);
}

TEST_CASE("pieces of safetensors may be in any order, and none may be missing", "[safetensors]") {
  const TempFolder folder;
  const auto path = folder.path() / "w.safetensors";
  const std::vector<float> values = {1, 2, 3};
  {
    auto writer = Writer::create(path, {{"a", {3}}, {"b", {1}}}, {});
    REQUIRE(writer);
    REQUIRE(writer.value().write_at(1, 0, bytes_of_values(values).first(4)));
    REQUIRE(writer.value().write_at(0, 8, bytes_of_values(values).subspan(8)));
    CHECK_FALSE(writer.value().write_at(0, 8, bytes_of_values(values)));
    CHECK_FALSE(writer.value().write_at(2, 0, {}));
    const auto early = writer.value().finish();
    REQUIRE_FALSE(early);
    CHECK(early.error().message.find("8 bytes of tensors were written and 16 announced") !=
          std::string::npos);
    CHECK_FALSE(std::filesystem::exists(path));
    REQUIRE(writer.value().write_at(0, 0, bytes_of_values(values).first(8)));
    REQUIRE(writer.value().finish());
  }
  const auto reader = Reader::open(path);
  REQUIRE(reader);
  std::vector<float> read(3);
  REQUIRE(reader.value().read_floats(reader.value().tensors()[0], 0, read));
  CHECK(read == values);
}

TEST_CASE("a safetensors file that was not finished leaves nothing", "[safetensors]") {
  const TempFolder folder;
  {
    auto writer = Writer::create(folder.path() / "w", {{"a", {3}}}, {});
    REQUIRE(writer);
    CHECK_FALSE(writer.value().append(std::vector<float>(4)));
    CHECK_FALSE(std::filesystem::is_empty(folder.path()));
  }
  CHECK(std::filesystem::is_empty(folder.path()));
  CHECK_FALSE(Writer::create(folder.path() / "w", {{"a", {}}, {"a", {}}}, {}));
  CHECK_FALSE(Writer::create(folder.path() / "w", {{"\xff", {}}}, {}));
  CHECK_FALSE(Writer::create(folder.path() / "w", {{"a", {1ULL << 40, 1ULL << 40}}}, {}));
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("half, bfloat16 and double tensors are read as floats", "[safetensors]") {
  CHECK(half_to_float(0x3c00) == 1);
  CHECK(half_to_float(0xc500) == -5);
  CHECK(half_to_float(0x7bff) == 65504);
  CHECK(half_to_float(0x0001) == 0x1p-24F);
  CHECK(half_to_float(0x03ff) == 1023 * 0x1p-24F);
  CHECK(half_to_float(0x0400) == 0x1p-14F);
  CHECK(std::signbit(half_to_float(0x8000)));
  CHECK(half_to_float(0xfc00) == -INFINITY);
  CHECK(std::isnan(half_to_float(0x7e00)));
  CHECK(bfloat16_to_float(0x3fc0) == 1.5F);

  const TempFolder folder;
  const auto path = folder.path() / "w";
  constexpr std::size_t kCount = 100'000;  // more than a block
  std::vector<double> doubles(kCount);
  for (std::size_t i = 0; i < kCount; ++i) doubles[i] = static_cast<double>(i) / 3;
  const std::array<std::uint16_t, 2> halves = {0x3c00, 0xc500};
  auto writer = Writer::create(path,
                               {{"d", {kCount}, ElementType::kF64},
                                {"h", {2}, ElementType::kF16},
                                {"b", {2}, ElementType::kBF16}},
                               {});
  REQUIRE(writer);
  REQUIRE(writer.value().append(bytes_of_values(doubles)));
  REQUIRE(writer.value().append(bytes_of_values(halves)));
  REQUIRE(writer.value().append(bytes_of_values(halves)));
  REQUIRE(writer.value().finish());
  const auto reader = Reader::open(path);
  REQUIRE(reader);
  std::vector<float> read(kCount - 1);
  REQUIRE(reader.value().read_floats(*reader.value().find("d"), 1, read));
  bool equal = true;
  for (std::size_t i = 1; i < kCount; ++i)
    equal = equal && read[i - 1] == static_cast<float>(doubles[i]);
  CHECK(equal);
  std::array<float, 2> two{};
  REQUIRE(reader.value().read_floats(*reader.value().find("h"), 0, two));
  CHECK(two == std::array<float, 2>{1, -5});
  REQUIRE(reader.value().read_floats(*reader.value().find("b"), 0, two));
  CHECK(two[0] == 0x1p-7F);
}

TEST_CASE("a header as other programs write it is read", "[safetensors]") {
  CHECK(refusal(file_of("{}", 0)).empty());
  CHECK(refusal(file_of("{} \n ", 0)).empty());
  // Offsets in another order than the names; metadata last; an empty tensor between.
  CHECK(refusal(file_of(R"({"b":{"shape":[1],"data_offsets":[4,8],"dtype":"F32"},)"
                        R"("e":{"dtype":"F64","shape":[0],"data_offsets":[4,4]},)"
                        R"("a":{"dtype":"I8","shape":[2,2],"data_offsets":[0,4]},)"
                        R"("__metadata__":{"format":"pt"}})",
                        8))
            .empty());
}

TEST_CASE("a safetensors header that cannot be is refused with the reason", "[safetensors]") {
  check_refused("", "0 bytes are not a safetensors file");
  check_refused("1234567", "7 bytes are not a safetensors file");
  check_refused(std::string(8, '\xff'), "above the limit of 100000000");
  check_refused(std::string("\x09\0\0\0\0\0\0\0{}", 10),
                "its header has 9 bytes, but the file has");
  check_refused(file_of("", 0), "not a JSON object");
  check_refused(file_of("[]", 0), "not a JSON object");
  check_refused(file_of("{\"a\":", 0), "not valid JSON at byte");
  check_refused(file_of("{}{}", 0), "not valid JSON at byte");
  check_refused(file_of(R"({"a":1})", 0), "a holds a number");
  check_refused(file_of(R"({"a":{"b":{"c":{}}}})", 0), "a has a field b");
  check_refused(file_of(std::string(100'000, '['), 0), "not a JSON object");
  check_refused(file_of(R"({"a":)" + std::string(100'000, '['), 0), "a holds a list");
  check_refused(file_of(R"({"a":{"shape":)" + std::string(100'000, '['), 0), "a holds a list");
  check_refused(file_of(R"({"a":{"dtype":"F32","shape":[]}})", 4), "a has no data_offsets");
  check_refused(file_of(R"({"a":{"dtype":"F32","dtype":"F32"}})", 4), "a has dtype twice");
  check_refused(file_of(R"({"a":{"dtype":"F31"}})", 4), "a has dtype F31");
  check_refused(file_of(R"({"a":{"dtype":"F32","shape":[-1]}})", 4), "a holds a negative number");
  check_refused(file_of(R"({"a":{"dtype":"F32","shape":[1.5]}})", 4), "a holds a fraction");
  check_refused(file_of(R"({"__metadata__":{"a":1}})", 0), "__metadata__ holds a number");
  check_refused(file_of(R"({"__metadata__":{"a":"1","a":"2"}})", 0), "has a twice");
  check_refused(file_of("{\"" + std::string(5000, 'n') + "\":{}}", 0), "above 4096 bytes");
}

TEST_CASE("tensors that overlap, are outside, leave holes or occur twice are refused",
          "[safetensors]") {
  const auto tensor = [](const char* name, const char* shape, const char* offsets) {
    return "\"" + std::string(name) + R"(":{"dtype":"F32","shape":[)" + shape +
           "],\"data_offsets\":[" + offsets + "]}";
  };
  const auto file = [](const std::string& entries, std::size_t data_bytes) {
    return file_of("{" + entries + "}", data_bytes);
  };
  CHECK(refusal(file(tensor("a", "2", "0,8") + "," + tensor("b", "1", "8,12"), 12)).empty());
  check_refused(file(tensor("a", "2", "0,8") + "," + tensor("b", "1", "8,12"), 11),
                "b is at bytes [8, 12) of 11");
  check_refused(file(tensor("a", "2", "8,0"), 8), "a is at bytes [8, 0) of 8");
  check_refused(file(tensor("a", "2", "0,18446744073709551615"), 8), "of 8: the file is truncated");
  check_refused(file(tensor("a", "2", "0,8") + "," + tensor("b", "1", "4,8"), 8),
                "b begins at byte 4, and what is before it ends at 8");
  check_refused(file(tensor("a", "2", "0,8") + "," + tensor("b", "1", "12,16"), 16),
                "b begins at byte 12, and what is before it ends at 8");
  check_refused(file(tensor("a", "2", "0,8"), 9), "followed by 1 of no tensor");
  check_refused(file(tensor("a", "3", "0,8"), 8), "a of F32 [3] does not fit its 8 bytes");
  check_refused(file(tensor("a", "4611686018427387904,4", "0,8"), 8), "does not fit its 8 bytes");
  check_refused(file(tensor("a", "2", "0,8") + "," + tensor("a", "2", "0,8"), 8),
                "a is given twice");
  check_refused(file(tensor("a", "2", "0,8,9"), 8), "a holds a number");
  check_refused(file(tensor("a", "2", "0"), 8), "a requires two data_offsets");
  check_refused(
      file(tensor("a", "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1", "0,4"),
           4),
      "a has more than 32 axes");
}

TEST_CASE("every truncation of a safetensors file is refused", "[safetensors]") {
  const TempFolder folder;
  const auto path = folder.path() / "whole";
  auto writer = Writer::create(path, {{"a", {4}}, {"b", {2}}}, {{"k", "v"}});
  REQUIRE(writer);
  REQUIRE(writer.value().append(std::vector<float>(6, 1)));
  REQUIRE(writer.value().finish());
  const std::string bytes = read_file(path).value();
  REQUIRE(refusal(bytes).empty());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    if (refusal(bytes.substr(0, size)).empty()) FAIL("cut at " << size << " it is taken");
  }
}

TEST_CASE("a safetensors file that shrinks after it was opened is an error", "[safetensors]") {
  const TempFolder folder;
  const auto path =
      folder.write("t", file_of(R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})", 16));
  const auto reader = Reader::open(path);
  REQUIRE(reader);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  std::vector<float> read(4);
  const auto result = reader.value().read_floats(reader.value().tensors()[0], 0, read);
  REQUIRE_FALSE(result);
  CHECK(result.error().message.find("was cut while it was read") != std::string::npos);
  CHECK(Reader::open(folder.path() / "none").error().code == ErrorCode::kNotFound);
  CHECK(Reader::open(folder.path()).error().message.find("is a folder, not a file") !=
        std::string::npos);
}

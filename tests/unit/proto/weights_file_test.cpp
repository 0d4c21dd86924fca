#include "proto/formats/weights_file.hpp"

#include <cstring>
#include <utility>

#include "common/files/file.hpp"
#include "common/files/safetensors.hpp"
#include "proto/formats/caffe_model.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temp_folder.hpp"

using namespace taut;
using Catch::Matchers::Contains;
using taut::test::TempFolder;

namespace {

std::string varint(std::uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7U) out += static_cast<char>((value & 0x7fU) | 0x80U);
  return out + static_cast<char>(value);
}

/// A length-delimited field.
std::string field(int number, const std::string& body) {
  return varint(static_cast<std::uint64_t>(number) << 3U | 2U) + varint(body.size()) + body;
}
std::string number(int field, std::uint64_t value) {
  return varint(static_cast<std::uint64_t>(field) << 3U) + varint(value);
}

template <class Value>
std::string raw(std::initializer_list<Value> values) {
  std::string bytes(values.size() * sizeof(Value), '\0');
  std::memcpy(bytes.data(), values.begin(), bytes.size());
  return bytes;
}

const std::string kTwoByThree = field(7, field(1, varint(2) + varint(3)));
const std::string kSix = field(5, raw<float>({1, 2, 3, 4, 5, 6}));

std::string layer(const std::string& name, const std::string& blobs) {
  return field(100, field(1, name) + field(2, "InnerProduct") + field(3, "data") + blobs);
}

std::string refusal(const std::string& bytes, const std::string& name = "net.caffemodel") {
  const TempFolder folder;
  const auto file = open_weights(folder.write(name, bytes));
  return file ? "" : file.error().message;
}

std::vector<float> numbers(const WeightsFile& file, std::size_t tensor) {
  std::vector<float> out(file.tensors[tensor].count());
  REQUIRE(file.file.read_floats(file.tensors[tensor].type, file.tensors[tensor].offset, out));
  return out;
}

}  // namespace

TEST_CASE("a written .caffemodel is read back, bit for bit", "[caffemodel]") {
  const TempFolder folder;
  const auto path = folder.path() / "net.caffemodel";
  const std::size_t large = 200'000;  // more than the writer's block
  const auto value = [](std::size_t layer, std::size_t blob, std::uint64_t i) {
    return static_cast<float>(layer * 10 + blob) + 1e-6F * static_cast<float>(i);
  };
  const auto written =
      caffe::write_model(path, "a net",
                         {{"data", "Input", {}, {"data"}, {}},
                          {"conv/1", "Convolution", {"data"}, {"a", "b"}, {{2, 3, 1, 1}, {2}}},
                          {"fc", "InnerProduct", {"a"}, {"fc"}, {{10, 20'000}}}},
                         [&](std::size_t layer, std::size_t blob, std::uint64_t first,
                             std::span<float> out) -> Result<void> {
                           for (std::size_t i = 0; i < out.size(); ++i)
                             out[i] = value(layer, blob, first + i);
                           return ok();
                         });
  REQUIRE(written);
  const auto file = open_weights(path);
  REQUIRE(file);
  const auto& tensors = file.value().tensors;
  REQUIRE(tensors.size() == 3);
  CHECK(tensors[0].name == "conv/1/0");
  CHECK(tensors[0].shape == std::vector<std::uint64_t>{2, 3, 1, 1});
  CHECK(tensors[1].name == "conv/1/1");
  CHECK(tensors[2].name == "fc/0");
  CHECK(tensors[2].count() == large);
  for (std::size_t t = 0; t < 3; ++t) {
    const auto read = numbers(file.value(), t);
    bool equal = true;
    for (std::size_t i = 0; i < read.size(); ++i) {
      equal = equal && read[i] == value(t < 2 ? 1 : 2, t % 2, i);
    }
    CHECK(equal);
  }
}

TEST_CASE("layers of Caffe before 2015, four-extent blobs and doubles are found", "[caffemodel]") {
  const TempFolder folder;
  const std::string four = number(1, 1) + number(2, 1) + number(3, 2) + number(4, 3);
  const std::string old = field(2, field(4, "fc") + number(5, 14) + field(6, four + kSix) +
                                       field(6, number(4, 2) + field(8, raw<double>({0.5, -3}))));
  const auto file = open_weights(folder.write("net.caffemodel", field(1, "net") + old));
  REQUIRE(file);
  const auto& tensors = file.value().tensors;
  REQUIRE(tensors.size() == 2);
  CHECK(tensors[0].name == "fc/0");
  CHECK(tensors[0].shape == std::vector<std::uint64_t>{1, 1, 2, 3});
  CHECK(numbers(file.value(), 0) == std::vector<float>{1, 2, 3, 4, 5, 6});
  CHECK(tensors[1].type == ElementType::kF64);
  CHECK(numbers(file.value(), 1) == std::vector<float>{0.5F, -3});
}

TEST_CASE("a .caffemodel that cannot be is refused with the file and the reason", "[caffemodel]") {
  CHECK(refusal(layer("fc", field(7, kTwoByThree + kSix))).empty());
  CHECK_THAT(refusal(layer("fc", field(7, kTwoByThree))), Contains("blob fc/0 holds no numbers"));
  CHECK_THAT(refusal(layer("fc", field(7, kTwoByThree + kSix + kSix))),
             Contains("blob fc/0 holds its numbers in 2 pieces"));
  CHECK_THAT(refusal(layer("fc", field(7, kTwoByThree + field(5, raw<float>({1, 2}))))),
             Contains("blob fc/0 of shape 2x3 does not fit its 8 bytes of F32"));
  const std::string one_by_one = varint(5U << 3U | 5U) + raw<float>({1});
  CHECK_THAT(refusal(layer("fc", field(7, one_by_one + one_by_one))),
             Contains("in 2 pieces, and one is read"));
  CHECK_THAT(refusal(std::string(100'000, '\x0b')), Contains("cut or damaged"));  // groups
  CHECK_THAT(refusal("name: \"LeNet\"\nlayer {\n"), Contains("cut or damaged"));
}

TEST_CASE("a .caffemodel of a version that is too old is refused as such", "[caffemodel]") {
  const std::string nested = field(2, field(1, "an older one") + field(4, "fc"));
  CHECK_THAT(refusal(nested), Contains("before 2014; update it with"));
  CHECK_THAT(refusal(layer("fc", field(7, kTwoByThree + kSix)) + nested),
             Contains("before 2014; update it with"));
}

TEST_CASE("a .caffemodel of a hostile size is refused", "[caffemodel]") {
  const auto shaped = [](const std::string& extents) {
    return refusal(layer("fc", field(7, field(7, field(1, extents)) + kSix)));
  };
  REQUIRE(shaped(varint(2) + varint(3)).empty());
  CHECK_THAT(shaped(varint(1ULL << 62U) + varint(6)), Contains("does not fit its 24 bytes of F32"));
  // Where 64 bits overflow these are 24 bytes, and none.
  CHECK_THAT(shaped(varint((1ULL << 62U) + 6)), Contains("does not fit its 24 bytes of F32"));
  CHECK_THAT(shaped(varint(1ULL << 32U) + varint(1ULL << 32U)), Contains("does not fit"));
  CHECK_THAT(shaped(varint(~0ULL) + varint(6)), Contains("does not fit"));  // -1 x 6
  std::string axes;
  for (int i = 0; i < 33; ++i) axes += varint(1);
  CHECK_THAT(shaped(axes), Contains("more than 32 axes"));
  // A blob's length beyond its layer, and a layer's beyond the file.
  CHECK_THAT(refusal(field(100, varint(7U << 3U | 2U) + varint(50) + kSix) + std::string(100, 0)),
             Contains("net.caffemodel: is not a .caffemodel, or one that is cut or damaged"));
  CHECK_THAT(refusal(varint(100U << 3U | 2U) + varint(1U << 30U)), Contains("cut or damaged"));
  CHECK_THAT(refusal(varint(100U << 3U | 2U) + std::string(11, '\xff')),
             Contains("cut or damaged"));
}

TEST_CASE("a .caffemodel is refused wherever it is cut within a layer", "[caffemodel]") {
  const std::string whole = layer("fc", field(7, kTwoByThree + kSix));
  for (std::size_t size = 1; size < whole.size(); ++size) {
    if (refusal(whole.substr(0, size)).empty()) FAIL("cut at " << size << " it is taken");
  }
}

TEST_CASE("weights of formats that are not read are refused by the format's name", "[weights]") {
  CHECK_THAT(refusal("anything", "lenet_iter_10.caffemodel.h5"), Contains("is not an HDF5 file"));
  CHECK_THAT(refusal("PK\x03\x04 a zip", "model.pt"), Contains("is PyTorch's own format"));
  CHECK_THAT(refusal("", "m.safetensors"), Contains("0 bytes are not a safetensors file"));
  CHECK(open_weights("/nowhere/m.safetensors").error().code == ErrorCode::kNotFound);
}

TEST_CASE("safetensors are recognized by their bytes, not by their name", "[weights]") {
  const TempFolder folder;
  const auto path = folder.path() / "weights.bin";
  auto writer = safetensors::Writer::create(path, {{"fc/weight", {2, 1}}}, {});
  REQUIRE(writer);
  REQUIRE(writer.value().append(std::vector<float>{7, 8}));
  REQUIRE(writer.value().finish());
  const auto file = open_weights(path);
  REQUIRE(file);
  REQUIRE(file.value().tensors.size() == 1);
  CHECK(file.value().tensors[0].name == "fc/weight");
  CHECK(numbers(file.value(), 0) == std::vector<float>{7, 8});
}

#include <string>
#include <vector>

#include "proto/formats/caffe_hdf5.hpp"
#include "proto/formats/weights_file.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temp_folder.hpp"
#include "tests/unit/common/hdf5_files.hpp"

using namespace taut;
using Catch::Matchers::Contains;
using taut::test::Hdf5File;
using taut::test::Hdf5Storage;
using taut::test::TempFolder;

namespace {

std::string refusal(const std::string& name, const Hdf5Storage& storage,
                    const std::vector<double>& values = {1, 2, 3, 4}) {
  const TempFolder folder;
  const auto path = folder.path() / "net.caffemodel.h5";
  { Hdf5File(path).add(name, {2, 2}, values, storage); }
  const auto file = open_weights(path);
  return file ? "" : file.error().message;
}

}  // namespace

TEST_CASE("a written .caffemodel.h5 is read back, bit for bit", "[hdf5]") {
  const TempFolder folder;
  const auto path = folder.path() / "net.caffemodel.h5";
  const auto value = [](std::size_t layer, std::size_t blob, std::uint64_t i) {
    return static_cast<float>(layer * 10 + blob) + 1e-6F * static_cast<float>(i);
  };
  const std::vector<caffe::ModelLayer> layers{
      {"data", "Input", {}, {"data"}, {}},
      {"inception/1x1", "Convolution", {"data"}, {"a"}, {{2, 3, 1, 1}, {2}}},
      {"fc", "InnerProduct", {"a"}, {"fc"}, {{60, 20'000}}}};  // more than the writer's block
  REQUIRE(caffe::write_hdf5_model(path, layers,
                                  [&](std::size_t layer, std::size_t blob, std::uint64_t first,
                                      std::span<float> out) -> Result<void> {
                                    for (std::size_t i = 0; i < out.size(); ++i) {
                                      out[i] = value(layer, blob, first + i);
                                    }
                                    return ok();
                                  }));
  const auto file = open_weights(path);
  REQUIRE(file);
  const std::vector<StoredTensor>& tensors = file.value().tensors;
  REQUIRE(tensors.size() == 3);
  CHECK(tensors[0].name == "fc/0");
  CHECK(tensors[1].name == "inception/1x1/0");
  CHECK(tensors[1].shape == std::vector<std::uint64_t>{2, 3, 1, 1});
  CHECK(tensors[2].name == "inception/1x1/1");
  std::vector<float> numbers(tensors[0].count());
  REQUIRE(file.value().file.read_floats(tensors[0].type, tensors[0].offset, numbers));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] != value(2, 0, i)) FAIL("element " << i << " differs");
  }
}

TEST_CASE("HDF5 weights of float64 are read, and of other storage refused with the way out",
          "[hdf5]") {
  CHECK(refusal("data/fc/0", {.type = H5T_IEEE_F64LE}).empty());
  CHECK_THAT(refusal("data/fc/0", {.type = H5T_STD_I32LE}),
             Contains("\"data/fc/0\" must hold little-endian float32 or float64 numbers"));
  CHECK_THAT(refusal("data/fc/0", {.type = H5T_IEEE_F32BE}), Contains("must hold little-endian"));
  CHECK_THAT(refusal("data/fc/0", {.chunk = {1, 2}}),
             Contains("is stored in chunks; weights must be stored as one piece: h5repack"));
  CHECK_THAT(refusal("data/fc/0", {.chunk = {2, 2}, .deflate = true}),
             Contains("is compressed; weights must be stored as one piece"));
  CHECK_THAT(refusal("data/fc/0", {}, {}), Contains("\"data/fc/0\" was never written"));
  CHECK_THAT(refusal("model_weights/fc/kernel", {}),
             Contains("is HDF5, and holds no net that Caffe saved"));
}

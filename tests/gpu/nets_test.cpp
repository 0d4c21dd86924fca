// Whole nets on a device for some clocks, in each precision.
#include <cmath>
#include <string>
#include <vector>

#include "tests/gpu/tested_cuda.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/worker/small_training.hpp"

using namespace taut;
using namespace taut::test;

namespace {

constexpr std::int64_t kClocks = 3;

struct Row {
  Precision precision;
  const char* name;
  double agreement;  // at least; 1: the same direction
};
constexpr Row kRows[] = {{Precision::kFloat32, "float32", 0.9999},
                         {Precision::kTf32, "TF32", 0.9999},
                         {Precision::kBfloat16, "bfloat16", 0.999},
                         {Precision::kFloat16, "float16", 0.999}};

struct NetCase {
  const char* model;
  std::vector<Fed> fed;
};

const std::vector<NetCase>& nets() {
  static const std::vector<NetCase> all = {
      {"row_lstm", {{{28, 8, 28}, 0}, {{8}, 10}}},
      {"resnet18", {{{4, 3, 64, 64}, 0}, {{4}, 1000}}},
      {"transformer", {{{24, 3}, 66}, {{24, 3}, 66}}},
  };
  return all;
}

/// How far two trainings went the same way, all tables together: the cosine between the changes.
double agreement(const Tables& begin, const Tables& found, const Tables& expected) {
  double along = 0;
  double of_found = 0;
  double of_expected = 0;
  for (std::size_t table = 0; table < begin.size(); ++table) {
    for (std::size_t i = 0; i < begin[table].size(); ++i) {
      const double one = double{found[table][i]} - begin[table][i];
      const double other = double{expected[table][i]} - begin[table][i];
      along += one * other;
      of_found += one * one;
      of_expected += other * other;
    }
  }
  return along / std::sqrt(of_found * of_expected);
}

}  // namespace

TEST_CASE("nets go the CPU's way for some clocks in each precision", "[gpu][nets]") {
  const auto device = cuda_device();
  const auto host = one_thread();
  for (const NetCase& net : nets()) {
    const pb::Job job = job_of(net.model, net.fed);
    const Tables begin = train(*host, job, 0).value();
    const Tables expected = train(*host, job, kClocks).value();
    for (const Row& row : kRows) {
      INFO(net.model << " in " << row.name);
      device->set_math({.precision = row.precision});
      const Tables found = train(*device, job, kClocks).value();
      CHECK(agreement(begin, found, expected) > row.agreement);
    }
  }
  device->set_math({});
}

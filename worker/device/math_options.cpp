#include "worker/device/math_options.hpp"

namespace taut::worker {
namespace {

Precision precision_of(pb::SolverParameter::Precision precision) {
  switch (precision) {
    case pb::SolverParameter::TF32:
      return Precision::kTf32;
    case pb::SolverParameter::BFLOAT16:
      return Precision::kBfloat16;
    case pb::SolverParameter::FLOAT16:
      return Precision::kFloat16;
    case pb::SolverParameter::FLOAT32:
      break;
  }
  return Precision::kFloat32;
}

}  // namespace

MathOptions math_options(const pb::SolverParameter& solver) {
  return {.precision = precision_of(solver.precision()),
          .loss_scale = solver.loss_scale(),
          .deterministic = solver.deterministic()};
}

}  // namespace taut::worker

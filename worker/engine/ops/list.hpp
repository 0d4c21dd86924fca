#pragma once

#include <variant>

#include "worker/engine/ops/channel.hpp"
#include "worker/engine/ops/elementwise.hpp"
#include "worker/engine/ops/linear.hpp"
#include "worker/engine/ops/loss.hpp"
#include "worker/engine/ops/pooling.hpp"
#include "worker/engine/ops/sequence.hpp"
#include "worker/engine/ops/shape.hpp"

/// The list of operations: X(Spec) for every spec that Backend::make accepts, each of which names
/// its operation as Spec::Op. Add an operation to the list of the header that declares it.
#define TAUT_EACH_SPEC(X)   \
  TAUT_CHANNEL_SPECS(X)     \
  TAUT_ELEMENTWISE_SPECS(X) \
  TAUT_LINEAR_SPECS(X)      \
  TAUT_LOSS_SPECS(X)        \
  TAUT_POOLING_SPECS(X)     \
  TAUT_SEQUENCE_SPECS(X)    \
  TAUT_SHAPE_SPECS(X)

namespace taut {

template <class First, class... Specs>
struct SpecList {
  using Pointer = std::variant<const Specs*...>;
};

#define TAUT_NEXT_SPEC(Spec) , Spec
/// A spec of any operation. Never nullptr.
using OpSpec = SpecList<void TAUT_EACH_SPEC(TAUT_NEXT_SPEC)>::Pointer;
#undef TAUT_NEXT_SPEC

}  // namespace taut

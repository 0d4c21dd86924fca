#pragma once

#include <memory>
#include <vector>

#include "common/net/buffer_pool.hpp"
#include "common/ssp/table.hpp"
#include "common/types.hpp"

namespace taut {

/// A job's parameters as they are of one version, whole: they hold every member's updates of the
/// clocks before it. Where updates are applied on arrival, some newer ones too. Not written again,
/// also where a server and a worker that are lost take updates with them.
struct Model {
  Clock version;
  std::shared_ptr<const std::vector<TableSpec>> tables;
  std::vector<Buffer> values;  // by table; [count] float32
};

}  // namespace taut

#pragma once

#include <memory>
#include <vector>

#include "common/net/buffer_pool.hpp"
#include "common/ssp/table.hpp"
#include "common/types.hpp"

namespace taut {

/// All of a job's parameters at one version: they include every member's updates of the clocks
/// before it and, if updates are applied on arrival, some newer ones. Never written again, even if
/// updates are lost together with a server and a worker.
struct Model {
  Clock version;
  std::shared_ptr<const std::vector<TableSpec>> tables;
  std::vector<Buffer> values;  // by table; [count] float32
};

}  // namespace taut

#include "lab/training/costs/table_bytes.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <iterator>
#include <vector>

#include "common/printable.hpp"
#include "common/ssp/table.hpp"
#include "worker/model/row_parameters.hpp"
#include "worker/replica.hpp"

namespace taut::lab {

Result<std::string> table_bytes_comment(const pb::Job& job) {
  TAUT_TRY(const worker::JobAssets assets, worker::JobAssets::open(job, job.workers()));
  const std::vector<TableSpec> tables = model::served_tables(assets.train_graph());
  std::string text =
      fmt::format("# Tables of {}, in bytes of float32:\n", printable(job.name(), Lines::kOne));
  std::uint64_t all = 0;
  for (const TableSpec& table : tables) {
    const std::uint64_t bytes = sizeof(float) * table.count();
    all += bytes;
    fmt::format_to(std::back_inserter(text), "#   {}: {}\n", printable(table.name, Lines::kOne),
                   bytes);
  }
  return text + fmt::format("#   together: {}\n", all);
}

}  // namespace taut::lab

#include "server/coordinator/checkpoints/checkpoint_settings.hpp"

namespace taut {

namespace fs = std::filesystem;

fs::path checkpoint_folder(const pb::Job& definition) {
  const fs::path prefix = definition.solver_param().snapshot_prefix();
  if (!definition.checkpoint().folder().empty()) return definition.checkpoint().folder();
  if (prefix.has_parent_path()) return prefix.parent_path();
  return prefix.empty() ? "checkpoints" : ".";
}

std::uint32_t losses_survived(const pb::CodedCheckpoints& coded, std::uint32_t servers) {
  if (servers == 0) return 0;
  const std::uint32_t parts = coded.data() + coded.parity();
  return coded.parity() / ((parts + servers - 1) / servers);
}

}  // namespace taut

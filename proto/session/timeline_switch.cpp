#include "proto/session/timeline_switch.hpp"

#include "common/log.hpp"
#include "common/timeline.hpp"

namespace taut {

void switch_timeline(bool on, const pb::RecordsConfig& records, const std::string& process) {
  if (on == timeline::is_on()) return;
  if (!on) {
    timeline::stop();
    log::info("the timeline has ended");
    return;
  }
  timeline::Options options;
  options.folder = records.folder();
  options.process = process;
  options.limit = Bytes(std::uint64_t{records.timeline_limit_mib()} << 20U);
  if (const auto path = timeline::start(options)) {
    log::info("writing the timeline to {}", path.value().string());
  } else {
    log::warn("{}", path.error().message);
  }
}

}  // namespace taut

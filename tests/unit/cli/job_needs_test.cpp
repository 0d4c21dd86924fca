// What a job asks of the cluster that is examined for it.
#include "cli/doctor/job_needs.hpp"

#include <algorithm>

#include "proto/config/text.hpp"
#include "tests/support/catch.hpp"

namespace taut::cli {
namespace {

/// Whether the servers must share a folder for a job's checkpoints.
bool needs_one_folder(const std::string& checkpoint) {
  pb::Job job;
  REQUIRE(parse_text("external_members: true workers: 1 checkpoint { folder: '/c' " + checkpoint +
                         " } solver_param { base_lr: 0.1 }",
                     "job", job)
              .has_value());
  const auto needs = needs_of(job);
  REQUIRE(needs.has_value());
  return std::ranges::any_of(needs.value().paths, [](const NeededPath& one) {
    return one.use == NeededPath::Use::kCheckpoints && one.path == "/c";
  });
}

TEST_CASE("coded checkpoints need no shared folder, others do", "[doctor]") {
  CHECK(needs_one_folder(""));
  CHECK(needs_one_folder("incremental: true"));
  CHECK_FALSE(needs_one_folder("coded { }"));
}

}  // namespace
}  // namespace taut::cli

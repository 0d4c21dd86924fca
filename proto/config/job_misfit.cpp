#include "proto/config/job_misfit.hpp"

#include <optional>
#include <string>
#include <vector>

#include "common/files/file.hpp"
#include "proto/config/exchange/settle_exchange.hpp"
#include "proto/config/exchange/settle_rows.hpp"
#include "proto/config/job_tables.hpp"
#include "proto/config/settle_averaging.hpp"
#include "proto/config/settle_balance.hpp"
#include "proto/config/settle_compression.hpp"
#include "proto/config/text_places.hpp"

namespace taut {
namespace {

constexpr Bytes kMaxText{16ULL << 20U};

struct PlacedMisfit {
  std::vector<PlacedText::Step> steps;
  std::string what;
};

std::optional<PlacedMisfit> misfit_of(const pb::Job& job) {
  if (const auto misfit = misfit_of_compression(job)) {
    return PlacedMisfit{{{"compression"}, {misfit->list, misfit->index}, {misfit->field}},
                        misfit->what};
  }
  if (const auto misfit = misfit_of_tables(job)) {
    return PlacedMisfit{{{"tables", misfit->table}, {misfit->field}}, misfit->what};
  }
  if (const auto misfit = misfit_of_exchange(job)) {
    return PlacedMisfit{misfit->where, misfit->what};
  }
  if (const auto misfit = misfit_of_averaging(job)) {
    return PlacedMisfit{misfit->where, misfit->what};
  }
  if (const auto misfit = misfit_of_balance(job)) {
    return PlacedMisfit{misfit->where, misfit->what};
  }
  return std::nullopt;
}

/// The first misfit of a text that also has the net and the solver, which for a job's file may be
/// in other files.
std::optional<PlacedMisfit> misfit_of_whole(const pb::Job& job) {
  if (auto misfit = misfit_of(job)) return misfit;
  if (auto misfit = misfit_of_rows(job)) return PlacedMisfit{misfit->where, misfit->what};
  return std::nullopt;
}

}  // namespace

Result<void> check_places(const pb::Job& job, std::string_view text, const std::string& name) {
  const auto misfit = misfit_of_whole(job);
  if (!misfit) return ok();
  PlacedText placed;
  pb::Job again;
  TAUT_TRY(placed.read(text, name, again));
  return placed.error(misfit->steps, misfit->what);
}

Result<void> check_places(const pb::Job& job, const std::filesystem::path& file) {
  if (!misfit_of(job)) return ok();
  TAUT_TRY(const std::string text, read_file(file, kMaxText));
  return check_places(job, text, file.string());
}

}  // namespace taut

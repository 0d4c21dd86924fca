#include "proto/config/job_tables.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <set>

#include "proto/config/settle_filler.hpp"

namespace taut {
namespace {

constexpr std::size_t kMaxNameBytes = 1024;

std::vector<std::int64_t> shape_of(const pb::JobTable& table) {
  return {table.shape().begin(), table.shape().end()};
}

std::string problem_of_multiplier(const char* field, float value) {
  if (std::isfinite(value) && value >= 0) return "";
  return fmt::format("{} must be at least 0, is {}", field, value);
}

struct Problem {
  const char* field;
  std::string what;  // empty if there is none
};

/// The first problem of a table on its own.
Problem problem_of(const pb::JobTable& table) {
  const std::vector<std::int64_t> shape = shape_of(table);
  if (const auto count = count_of(shape); !count) return {"shape", count.error().message};
  if (const auto filler = settle_filler(table.filler(), shape); !filler) {
    return {"filler", fmt::format("filler {}", filler.error().message)};
  }
  if (std::string what = problem_of_multiplier("lr_mult", table.lr_mult()); !what.empty()) {
    return {"lr_mult", what};
  }
  return {"decay_mult", problem_of_multiplier("decay_mult", table.decay_mult())};
}

std::string words_of_kind(TableKind kind) {
  return kind == TableKind::kAveraged ? "averaged" : "trained";
}

}  // namespace

std::optional<TableMisfit> misfit_of_tables(const pb::Job& job) {
  if (job.tables_size() > 0 && !job.external_members()) {
    return TableMisfit{0, "name",
                       "tables: belong to a job with external_members, but this job's net has its "
                       "own; omit them, or add external_members: true"};
  }
  if (job.tables().size() > static_cast<int>(kMaxNamedTables)) {
    return TableMisfit{
        kMaxNamedTables, "name",
        fmt::format("tables: there are {}; the limit is {}", job.tables_size(), kMaxNamedTables)};
  }
  std::set<std::string> names;
  for (int i = 0; i < job.tables_size(); ++i) {
    const pb::JobTable& table = job.tables(i);
    if (table.name().empty() || table.name().size() > kMaxNameBytes) {
      return TableMisfit{i, "name",
                         fmt::format("tables[{}]: its name has {} bytes; 1 to {} are required", i,
                                     table.name().size(), kMaxNameBytes)};
    }
    if (!names.insert(table.name()).second) {
      return TableMisfit{
          i, "name", fmt::format("table \"{}\" is named twice; choose another name", table.name())};
    }
    const Problem problem = problem_of(table);
    if (problem.what.empty()) continue;
    return TableMisfit{i, problem.field,
                       fmt::format("table \"{}\" {}", table.name(), problem.what)};
  }
  return std::nullopt;
}

Result<std::vector<TableSpec>> to_tables(const pb::Job& job) {
  if (const auto misfit = misfit_of_tables(job)) return invalid(misfit->what);
  std::vector<TableSpec> tables;
  for (const pb::JobTable& given : job.tables()) {
    TableSpec& table = tables.emplace_back();
    table.id = TableId(static_cast<std::uint32_t>(tables.size() - 1));
    table.name = given.name();
    table.shape = shape_of(given);
    table.kind =
        given.kind() == pb::JobTable::AVERAGED ? TableKind::kAveraged : TableKind::kTrained;
    TAUT_TRY(table.filler, settle_filler(given.filler(), table.shape));
    table.lr_mult = given.lr_mult();
    table.decay_mult = given.decay_mult();
  }
  return tables;
}

std::string difference_from_text(const TableSpec& in_text, const TableSpec& named) {
  if (in_text.shape != named.shape) {
    return fmt::format("table \"{}\" has shape {} in the job's text, but this member's has {}",
                       in_text.name, words_of_shape(in_text.shape), words_of_shape(named.shape));
  }
  if (in_text.kind == named.kind) return "";
  return fmt::format("table \"{}\" of shape {} is {} in the job's text, but this member's is {}",
                     in_text.name, words_of_shape(in_text.shape), words_of_kind(in_text.kind),
                     words_of_kind(named.kind));
}

std::string difference_from_text(const std::vector<TableSpec>& in_text,
                                 const std::vector<TableSpec>& named) {
  if (in_text.size() != named.size()) {
    return fmt::format("the job's text has {} tables, this member names {}", in_text.size(),
                       named.size());
  }
  for (std::size_t i = 0; i < named.size(); ++i) {
    if (in_text[i] == named[i]) continue;
    if (in_text[i].name != named[i].name) {
      return fmt::format(
          "table {} is \"{}\" of shape {} in the job's text, this member names "
          "\"{}\" of shape {}",
          i, in_text[i].name, words_of_shape(in_text[i].shape), named[i].name,
          words_of_shape(named[i].shape));
    }
    const std::string what = difference_from_text(in_text[i], named[i]);
    return what.empty() ? fmt::format(
                              "table \"{}\" of shape {} has another filler or multiplier "
                              "in the job's text",
                              in_text[i].name, words_of_shape(in_text[i].shape))
                        : what;
  }
  return "";
}

}  // namespace taut

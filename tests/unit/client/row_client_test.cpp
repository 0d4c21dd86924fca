// Tables that are kept by rows, from the client to the shards.
#include <algorithm>
#include <map>
#include <numeric>
#include <random>

#include "common/ssp/row_buckets.hpp"
#include "tests/unit/client/served_job.hpp"
#include "worker/client/client.hpp"

using Catch::Matchers::Contains;

namespace taut {
namespace {

using test::JobMaker;
using test::kDeadline;
using test::ServedJob;

const TableId kTable{0};
constexpr std::int64_t kRows = 100'000'000;
constexpr std::uint64_t kSeed = 42;  // JobMaker's

TableSpec row_table(std::uint32_t buckets = 3, std::int64_t width = 2) {
  TableSpec table = test::make_table(0, {kRows, width});
  table.rows = RowTable{buckets, 0, 0};
  return table;
}

std::vector<float> initial(const TableSpec& table, std::uint64_t row) {
  std::vector<float> values(table.width());
  math::fill(table.filler, kSeed, table.name, row * table.width(), values);
  return values;
}

std::vector<float> read(Client& client, const TableSpec& table, std::int64_t clock,
                        const std::vector<std::uint64_t>& rows) {
  std::vector<float> values(rows.size() * table.width());
  REQUIRE(client.read_rows(kTable, Clock(clock), rows, values).has_value());
  REQUIRE(client.wait(kTable, Clock(clock), kDeadline).has_value());
  return values;
}

/// Some rows, ascending; few, so that workers often name the same one.
std::vector<std::uint64_t> draw_rows(std::mt19937_64& random) {
  std::vector<std::uint64_t> rows;
  for (std::uint64_t i = 0; i < 40; ++i) {
    if (random() % 3 == 0) rows.push_back(i * 2'345'678);
  }
  return rows;
}

}  // namespace

TEST_CASE("a row is what the filler makes of its number, then what the rule makes of it",
          "[rows]") {
  ServedJob served(JobMaker(1, Slack(0), 2));
  const auto client = served.client(0);
  const TableSpec table = row_table();
  REQUIRE(client->open({table}, kDeadline).has_value());
  const std::vector<std::uint64_t> rows{7, 0, 99'999'999, 12'345};
  std::vector<float> expected;
  for (const std::uint64_t row : rows) {
    for (const float value : initial(table, row)) expected.push_back(value);
  }
  CHECK(read(*client, table, 0, rows) == expected);

  const std::vector<std::uint64_t> pushed{7, 12'345};
  const std::vector<float> gradients{1, 2, 3, 4};
  REQUIRE(client->push_rows(kTable, Clock(0), pushed, gradients).has_value());
  // The rate is 0.5.
  expected[0] -= 0.5F;
  expected[1] -= 1.0F;
  expected[6] -= 1.5F;
  expected[7] -= 2.0F;
  CHECK(read(*client, table, 1, rows) == expected);

  std::vector<float> newest(expected.size());
  REQUIRE(client->snapshot_rows(kTable, rows, newest, kDeadline).has_value());
  CHECK(newest == expected);
  CHECK(client->flush(kDeadline).has_value());
}

TEST_CASE("two members' rows are summed in worker order, whatever each names", "[rows]") {
  ServedJob served(JobMaker(2, Slack(0), 2));
  const TableSpec table = row_table(5, 3);
  const std::vector<std::unique_ptr<Client>> clients = [&] {
    std::vector<std::unique_ptr<Client>> both;
    for (std::uint32_t worker = 0; worker < 2; ++worker) both.push_back(served.client(worker));
    return both;
  }();
  for (const auto& client : clients) REQUIRE(client->open({table}, kDeadline).has_value());

  std::mt19937_64 random(5);
  std::map<std::uint64_t, std::vector<float>> model;
  for (std::int64_t clock = 0; clock < 30; ++clock) {
    std::map<std::uint64_t, std::vector<float>> sums;
    for (std::uint32_t worker = 0; worker < 2; ++worker) {
      const auto rows = draw_rows(random);
      const auto gradients = test::gradient_of(worker, clock, rows.size() * 3);
      REQUIRE(clients[worker]->push_rows(kTable, Clock(clock), rows, gradients).has_value());
      for (std::size_t i = 0; i < rows.size(); ++i) {
        auto [sum, is_first] = sums.try_emplace(rows[i], std::vector<float>(3));
        for (std::size_t k = 0; k < 3; ++k) sum->second[k] += gradients[i * 3 + k];
      }
    }
    for (const auto& [row, sum] : sums) {
      auto& values = model.try_emplace(row, initial(table, row)).first->second;
      for (std::size_t k = 0; k < 3; ++k) values[k] -= 0.5F * (sum[k] * 0.5F);
    }
    for (const auto& client : clients) {
      const auto rows = draw_rows(random);
      const auto values = read(*client, table, clock + 1, rows);
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const auto found = model.find(rows[i]);
        const auto expected = found == model.end() ? initial(table, rows[i]) : found->second;
        for (std::size_t k = 0; k < 3; ++k) CHECK(values[i * 3 + k] == expected[k]);
      }
    }
  }
}

TEST_CASE("a read of no rows waits for the other members too", "[rows]") {
  ServedJob served(JobMaker(2, Slack(0), 1));
  const TableSpec table = row_table();
  const auto first = served.client(0);
  const auto second = served.client(1);
  REQUIRE(first->open({table}, kDeadline).has_value());
  REQUIRE(second->open({table}, kDeadline).has_value());
  REQUIRE(first->push_rows(kTable, Clock(0), {}, {}).has_value());
  REQUIRE(first->read_rows(kTable, Clock(1), {}, {}).has_value());
  const auto early = first->wait(kTable, Clock(1), kDeadline, Duration(50'000));
  REQUIRE(early.has_value());
  CHECK_FALSE(early.value().has_value());
  REQUIRE(second->push_rows(kTable, Clock(0), {}, {}).has_value());
  CHECK(first->wait(kTable, Clock(1), kDeadline).has_value());
}

TEST_CASE("rows that cannot be are refused before anything is sent", "[rows]") {
  ServedJob served(JobMaker(1, Slack(0), 1));
  const auto client = served.client(0);
  TableSpec table = row_table(1, 64);
  REQUIRE(client->open({table}, kDeadline).has_value());
  const auto message_of = [&](const std::vector<std::uint64_t>& rows) {
    const std::vector<float> gradients(rows.size() * 64);
    const auto pushed = client->push_rows(kTable, Clock(0), rows, gradients);
    REQUIRE_FALSE(pushed.has_value());
    return pushed.error().message;
  };
  CHECK_THAT(message_of({1, kRows}), Contains("100000000 rows, and row 100000000 is named"));
  CHECK_THAT(message_of({5, 5}), Contains("rows 5 and 5 of an update do not ascend"));
  std::vector<std::uint64_t> many((kMaxRowValues / 64) + 1);
  std::iota(many.begin(), many.end(), 0);
  CHECK_THAT(message_of(many), Contains("16385 rows of one bucket") &&
                                   Contains("give the table more than 1 buckets"));
  CHECK(client->push_rows(kTable, Clock(0), {}, {}).has_value());
  CHECK(client->flush(kDeadline).has_value());
}

TEST_CASE("a table that cannot be kept by rows is refused when it is opened", "[rows]") {
  const auto refusal_of = [](JobMaker job, TableSpec table) {
    ServedJob served(std::move(job));
    const auto opened = served.client(0)->open({std::move(table)}, kDeadline);
    REQUIRE_FALSE(opened.has_value());
    return opened.error().message;
  };
  TableSpec table = row_table();
  table.shape = {10, 2, 2};
  CHECK_THAT(refusal_of(JobMaker(1), table), Contains("must have the shape rows x width"));
  table = row_table(kMaxBuckets + 1);
  CHECK_THAT(refusal_of(JobMaker(1), table), Contains("has 4097 buckets; it must have 1 to 4096"));
  table = row_table();
  table.kind = TableKind::kAveraged;
  CHECK_THAT(refusal_of(JobMaker(1), table), Contains("must be trained"));
  JobMaker lamb(1);
  lamb.solver().set_type("LAMB");
  CHECK_THAT(refusal_of(std::move(lamb), row_table()), Contains("LARS, LAMB"));
}

TEST_CASE("rows updated longest ago are dropped, and begin again", "[rows]") {
  ServedJob served(JobMaker(1, Slack(1), 1));
  const auto client = served.client(0);
  TableSpec table = row_table(1, 1);
  table.rows->max_rows = 2;
  REQUIRE(client->open({table}, kDeadline).has_value());
  const std::vector<float> one{1};
  for (std::int64_t clock = 0; clock < 4; ++clock) {
    // 10, 11, 12, 10
    const std::vector<std::uint64_t> row{10 + static_cast<std::uint64_t>(clock % 3)};
    REQUIRE(client->push_rows(kTable, Clock(clock), row, one).has_value());
  }
  const std::vector<float> expected{initial(table, 10)[0] - 0.5F, initial(table, 11)[0],
                                    initial(table, 12)[0] - 0.5F};
  CHECK(read(*client, table, 4, {10, 11, 12}) == expected);
}

}  // namespace taut

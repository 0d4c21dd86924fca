#include "proto/config/job_tables.hpp"

#include <string>

#include "proto/config/external_job.hpp"
#include "proto/config/job_misfit.hpp"
#include "proto/config/text.hpp"
#include "tests/support/catch.hpp"

using namespace taut;
using Kind = math::Filler::Kind;

namespace {

const std::string kMembers = "external_members: true workers: 2\n";

pb::Job job_of(const std::string& text) {
  pb::Job job;
  REQUIRE(parse_text(text, "job", job));
  return job;
}

std::string error_of(const std::string& tables) {
  const std::string text = kMembers + tables;
  const auto checked = check_places(job_of(text), text, "job");
  REQUIRE_FALSE(checked.has_value());
  // Who has no text to point at gets the same words.
  const auto converted = to_tables(job_of(text));
  REQUIRE_FALSE(converted.has_value());
  CHECK_THAT(checked.error().message, Catch::Matchers::EndsWith(": " + converted.error().message));
  return checked.error().message;
}

TableSpec named(const std::string& name, std::vector<std::int64_t> shape,
                TableKind kind = TableKind::kTrained) {
  TableSpec table;
  table.name = name;
  table.shape = std::move(shape);
  table.kind = kind;
  return table;
}

}  // namespace

TEST_CASE("a job's text names tables, with what they start from", "[tables]") {
  const auto tables = to_tables(job_of(kMembers + R"(
    tables { name: "w" shape: [3, 2] filler { type: "gaussian" std: 0.5 } lr_mult: 2 }
    tables { name: "mean" shape: 4 kind: AVERAGED }
    tables { name: "scale" decay_mult: 0 })"));
  REQUIRE(tables.has_value());
  REQUIRE(tables.value().size() == 3);
  const TableSpec& w = tables.value()[0];
  CHECK(w.shape == std::vector<std::int64_t>{3, 2});
  CHECK(w.filler == math::Filler{Kind::kGaussian, 0, 0.5F});
  CHECK(w.lr_mult == 2);
  CHECK(tables.value()[1].kind == TableKind::kAveraged);
  CHECK(tables.value()[1].id == TableId(1));
  CHECK(tables.value()[1].filler == math::Filler{Kind::kConstant, 0, 0});
  CHECK(tables.value()[2].count() == 1);
  CHECK(tables.value()[2].decay_mult == 0);
}

TEST_CASE("members train from clock 1 on, whoever makes the initial values", "[tables]") {
  const pb::Job brings = job_of(kMembers);
  CHECK(is_seeded(brings));
  CHECK(first_update(brings) == Clock(0));
  CHECK(first_step(brings) == Clock(1));
  const pb::Job has = job_of(kMembers + "tables { name: 'w' shape: 3 }");
  CHECK_FALSE(is_seeded(has));
  CHECK(first_update(has) == Clock(1));
  CHECK(first_step(has) == Clock(1));
  const pb::Job net = job_of("workers: 2");
  CHECK_FALSE(is_seeded(net));
  CHECK(first_update(net) == Clock(0));
  CHECK(first_step(net) == Clock(0));
}

TEST_CASE("a table that cannot be made is refused at its line and column", "[tables]") {
  CHECK(error_of("tables { name: 'w' shape: [3, 0] }") ==
        "job:2:20: table \"w\" has shape 3x0: extents must be at least 1");
  CHECK(error_of("tables { name: 'w' shape: [2000000, 2000000] }") ==
        "job:2:20: table \"w\" has shape 2000000x2000000: more than the limit of 1099511627776 "
        "values");
  CHECK(error_of("tables { name: 'w' }\ntables {\n  name: 'w' }") ==
        "job:4:3: table \"w\" is named twice; choose another name");
  CHECK(error_of("tables { shape: 3 }") ==
        "job:2:1: tables[0]: its name has 0 bytes; 1 to 1024 are required");
  CHECK(error_of("tables { name: 'w' shape: 3\n filler { type: 'xaver' } }") ==
        "job:3:2: table \"w\" filler is of unknown type \"xaver\"; did you mean \"xavier\"?; known "
        "are constant, uniform, gaussian, xavier, msra, bilinear");
  CHECK(error_of("tables { name: 'w' filler { type: 'msra' } }") ==
        "job:2:20: table \"w\" filler is msra, which requires a parameter with an axis of outputs");
  CHECK(error_of("tables { name: 'w' lr_mult: -1 }") ==
        "job:2:20: table \"w\" lr_mult must be at least 0, is -1");
  CHECK(error_of("tables { name: 'w' decay_mult: inf }") ==
        "job:2:20: table \"w\" decay_mult must be at least 0, is inf");
  const std::string net = "workers: 2 tables { name: 'w' shape: 3 }";
  const auto of_net = check_places(job_of(net), net, "job");
  REQUIRE_FALSE(of_net.has_value());
  CHECK(of_net.error().message ==
        "job:1:21: tables: belong to a job with external_members, but this job's net has its own; "
        "omit them, or add external_members: true");
}

TEST_CASE("a member's table that differs from the text's is named with both shapes", "[tables]") {
  const auto tables = to_tables(job_of(kMembers + R"(
    tables { name: "w" shape: [3, 2] } tables { name: "m" shape: 4 kind: AVERAGED })"));
  REQUIRE(tables.has_value());
  const std::vector<TableSpec>& in_text = tables.value();
  CHECK(difference_from_text(in_text[0], named("w", {3, 2})).empty());
  CHECK(difference_from_text(in_text[0], named("w", {2, 3})) ==
        "table \"w\" has shape 3x2 in the job's text, but this member's has 2x3");
  CHECK(difference_from_text(in_text[1], named("m", {4})) ==
        "table \"m\" of shape 4 is averaged in the job's text, but this member's is trained");
  CHECK(difference_from_text(in_text, in_text).empty());
  CHECK(difference_from_text(in_text, {in_text[0]}) ==
        "the job's text has 2 tables, this member names 1");
  CHECK(difference_from_text(in_text, {in_text[0], named("v", {4})}) ==
        "table 1 is \"m\" of shape 4 in the job's text, this member names \"v\" of shape 4");
  std::vector<TableSpec> other = in_text;
  other[0].filler = {Kind::kConstant, 7, 0};
  CHECK(difference_from_text(in_text, other) ==
        "table \"w\" of shape 3x2 has another filler or multiplier in the job's text");
}

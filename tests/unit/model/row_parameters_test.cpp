#include "worker/model/row_parameters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "common/ssp/row_buckets.hpp"
#include "proto/config/exchange/settle_exchange.hpp"
#include "proto/config/job_misfit.hpp"
#include "proto/config/text.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temp_folder.hpp"
#include "tests/unit/model/net_text.hpp"
#include "worker/model/job/job.hpp"
#include "worker/model/net_cost.hpp"

using namespace taut;
using namespace taut::test;

namespace {

/// A fed layer whose tops are "numbers" (6x4) and "label" (6).
const std::string kNumbers =
    "layer { name: 'in' type: 'DummyData' top: 'numbers' top: 'label' dummy_data_param {"
    "  shape { dim: 6 dim: 4 } shape { dim: 6 } classes: 1000000 classes: 3 } }\n";

std::string embed(const std::string& name, const std::string& parameter,
                  const std::string& rest = "bottom: 'numbers'") {
  return "layer { name: '" + name + "' type: 'Embed' top: '" + name + "' " + rest +
         " embed_param { input_dim: 1000000 num_output: 8 " + parameter + " } }\n";
}

const std::string kByRows = "bias_term: false by_rows: true";

/// A job whose net has a layer by rows, with further fields of the job and of the solver.
std::string job_text(const std::string& job, const std::string& solver) {
  return "workers: 2\n" + job + "\nsolver_param { base_lr: 0.1 max_iter: 4\n" + solver +
         " }\nnet_param { " + kNumbers + embed("rows", kByRows) +
         "layer { name: 'ip' type: 'InnerProduct' bottom: 'rows' top: 'ip'"
         "  inner_product_param { num_output: 3 } }"
         "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }"
         "}\n";
}

}  // namespace

TEST_CASE("a parameter by rows has a batch's rows in the net and all of them at servers",
          "[rows]") {
  const model::Graph graph = graph_of(
      kNumbers +
      embed("first", kByRows + " buckets: 3 evict { idle_clocks: 9 max_rows: 70 }"
                               " weight_filler { type: 'xavier' }") +
      embed("dense", "bias_term: false weight_filler { type: 'xavier' }", "bottom: 'label'") +
      embed("second", kByRows));
  CHECK(shape_of(graph, "first") == "6x4x8");
  REQUIRE(graph.parameters.size() == 3);
  const TableSpec& first = graph.parameters[0];
  CHECK(first.shape == model::Shape{24, 8});
  REQUIRE(first.rows.has_value());
  CHECK(*first.rows == RowTable{.buckets = 3, .max_rows = 70, .idle_clocks = 9});
  CHECK_FALSE(graph.parameters[1].rows.has_value());
  // The filler is settled for all rows: equal to that of a whole table.
  CHECK(first.filler == graph.parameters[1].filler);

  const auto rows = model::row_parameters(graph);
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].parameter == 0);
  CHECK(rows[0].fed == 0);
  CHECK(rows[0].rows == 1'000'000);
  CHECK(rows[0].layer == "first");
  CHECK(rows[1].parameter == 2);
  CHECK(rows[1].fed == 0);

  const std::vector<TableSpec> served = model::served_tables(graph);
  CHECK(served[0].shape == model::Shape{1'000'000, 8});
  RowTable with_batch = *first.rows;
  with_batch.clock_rows = 24;  // what servers make room for
  CHECK(served[0].rows == with_batch);
  CHECK(served[1] == graph.parameters[1]);
  CHECK(served[2].shape == model::Shape{1'000'000, 8});
  CHECK(model::batch_rows(graph) ==
        std::map<TableId, std::size_t>{{TableId(0), 24}, {TableId(2), 24}});
}

TEST_CASE("a parameter by rows is not shared with a layer that has the whole table", "[rows]") {
  const std::string whole = "bias_term: false";
  const std::string named = " param { name: 'w' }";
  const std::string of_label = "bottom: 'label'";
  const std::string rest =
      ": one kept by rows (embed_param.by_rows) belongs to one layer; give it "
      "no name, or omit by_rows";
  CHECK(error_of_net(kNumbers + embed("dense", whole, of_label + named) +
                     embed("rows", kByRows, "bottom: 'numbers'" + named)) ==
        "layer \"rows\" (Embed): parameter \"w\" is shared" + rest);
  CHECK(error_of_net(kNumbers + embed("rows", kByRows) +
                     embed("dense", whole, of_label + " param { name: 'rows/weight' }")) ==
        "layer \"dense\" (Embed): parameter \"rows/weight\" is shared" + rest);
}

TEST_CASE("a net's cost counts all rows as parameters and a batch's as memory", "[rows]") {
  const model::NetCost cost = model::net_cost(graph_of(kNumbers + embed("rows", kByRows)));
  CHECK(cost.parameters == 8'000'000);
  CHECK(cost.training_bytes < 10'000);
  CHECK(cost.inference_bytes < 10'000);
}

TEST_CASE("a layer by rows that cannot be is refused with its name", "[rows]") {
  const auto refused = [](const std::string& layers) { return error_of_net(kNumbers + layers); };
  CHECK(refused(embed("e", "by_rows: true")) ==
        "layer \"e\" (Embed): embed_param.by_rows has no bias: say bias_term: false");
  CHECK(refused(embed("e", kByRows + " buckets: 0")) ==
        "layer \"e\" (Embed): embed_param.buckets must be in [1, 4096], is 0");
  CHECK(refused(embed("e", kByRows + " buckets: 4097")) ==
        "layer \"e\" (Embed): embed_param.buckets must be in [1, 4096], is 4097");
  CHECK(refused(embed("e", kByRows + " evict { idle_clocks: 1000000001 }")) ==
        "layer \"e\" (Embed): embed_param.evict.idle_clocks must be at most 1000000000, is "
        "1000000001");
  CHECK(refused(embed("e", "bias_term: false evict { max_rows: 5 }")) ==
        "layer \"e\" (Embed): embed_param.evict is given, which is for rows that live at the "
        "servers; say by_rows: true, or omit it");
  CHECK(
      refused(embed("e", kByRows, "bottom: 'numbers' param { lr_mult: 0 }")) ==
      "layer \"e\" (Embed): parameter \"e/weight\" is kept by rows, and lr_mult 0 updates none of "
      "them; omit by_rows");
  CHECK(
      refused(embed("e", kByRows, "bottom: 'numbers' param { name: 'shared' }")) ==
      "layer \"e\" (Embed): parameter \"shared\" is kept by rows, which belong to one layer: omit "
      "the name");
  const std::string computed =
      "layer { name: 'power' type: 'Power' bottom: 'numbers' top: 'computed' }";
  CHECK(
      refused(computed + embed("e", kByRows, "bottom: 'computed'")) ==
      "layer \"e\" (Embed): embed_param.by_rows requires a top of a data layer as its bottom, and "
      "\"computed\" is computed; connect the two, or omit by_rows");
  CHECK(refused(embed("e", kByRows) + computed) ==
        "layer \"power\" (Power) reads \"numbers\", whose numbers name the rows of layer \"e\" "
        "(embed_param.by_rows); only such layers can read them: give it another top of the data "
        "layer");
}

TEST_CASE("a table whose buckets a batch could overfill is refused with how many it needs",
          "[rows]") {
  // A batch of 80,000 numbers.
  const auto net = [](std::uint32_t all, std::uint32_t width, const std::string& buckets) {
    return fmt::format(
        "layer {{ name: 'in' type: 'DummyData' top: 'numbers' dummy_data_param {{"
        "  shape {{ dim: 2000 dim: 40 }} classes: 9 }} }}"
        "layer {{ name: 'e' type: 'Embed' bottom: 'numbers' top: 'e' embed_param {{"
        "  input_dim: {} num_output: {} bias_term: false by_rows: true {} }} }}",
        all, width, buckets);
  };
  const std::string of_256 = "rows of 256 values, of which one bucket takes at most 4096";
  CHECK(error_of_net(net(1'000'000, 256, "")) ==
        "layer \"e\" (Embed): embed_param.buckets must be at least 22, is 16: a batch names up to "
        "80000 " +
            of_256);
  CHECK(error_of_net(net(1'000'000, 256, "buckets: 21")) ==
        "layer \"e\" (Embed): embed_param.buckets must be at least 22, is 21: a batch names up to "
        "80000 " +
            of_256);
  CHECK(graph_of(net(1'000'000, 256, "buckets: 22")).parameters[0].rows->buckets == 22);
  // A batch names a row once, however often it has its number.
  CHECK(error_of_net(net(60'000, 256, "")) ==
        "layer \"e\" (Embed): embed_param.buckets must be at least 17, is 16: a batch names up to "
        "60000 " +
            of_256);
  CHECK(graph_of(net(59'000, 256, "")).parameters[0].rows->buckets == 16);
  CHECK(graph_of(net(4096, 256, "buckets: 1")).parameters[0].rows->buckets == 1);
  CHECK(error_of_net(net(1'000'000, 65'536, "buckets: 4096")) ==
        "layer \"e\" (Embed): a batch names up to 80000 rows of 65536 values, of which one bucket "
        "takes at most 16: too many for 4096 buckets; make the batch smaller, or num_output");
}

TEST_CASE("with as many buckets as a batch needs none gets more rows than an item has", "[rows]") {
  for (const std::uint64_t width : {16U, 256U, 4096U}) {
    for (const std::uint64_t rows : {1'000U, 80'000U, 500'000U}) {
      const std::uint64_t buckets = min_buckets(rows, width);
      CAPTURE(width, rows, buckets);
      REQUIRE(buckets <= kMaxBuckets);
      std::vector<std::uint64_t> counts(buckets);
      for (std::uint64_t row = 0; row < rows; ++row) {
        ++counts[bucket_of(row, static_cast<std::uint32_t>(buckets))];
      }
      CHECK(*std::ranges::max_element(counts) <= max_rows_of_item(width));
    }
  }
}

TEST_CASE("what cannot be combined with rows at the servers is refused at its line and column",
          "[rows]") {
  const TempFolder folder;
  const auto path = folder.path() / "job.textproto";
  const auto refused = [&](const std::string& job, const std::string& solver) {
    folder.write("job.textproto", job_text(job, solver));
    const auto loaded = model::load_job(path);
    return loaded ? std::string() : loaded.error().message;
  };
  const std::string at = path.string() + ":";
  const std::string with = " cannot be combined with embed_param.by_rows of \"rows\": ";
  CHECK(refused("consistency { mode: BSP }", "type: 'Adam' weight_decay: 0.1").empty());
  CHECK(refused("consistency { mode: SSP slack: 3 staleness_learning_rate: true }", "").empty());
  CHECK(refused("consistency { mode: BSP backup_workers: 1 }", "") ==
        at + "2:25: consistency.backup_workers" + with +
            "workers that skip clocks do not name their rows; omit one of them");
  for (const char* policy : {"delay_compensation {}", "elastic_averaging {}", "look_ahead: true"}) {
    CAPTURE(policy);
    CHECK(refused(std::string("consistency { ") + policy + " }", "momentum: 0.9")
              .starts_with(at + "2:15: consistency."));
  }
  CHECK(refused("consistency { mode: BSP periodic_averaging {} }", "")
            .starts_with(at + "2:25: consistency.periodic_averaging" + with));
  CHECK(refused("consistency { mode: BSP } exchange { type: ALLREDUCE }", "")
            .starts_with(at + "2:38: exchange.type ALLREDUCE" + with));
  CHECK(refused("consistency { mode: BSP } exchange { type: GOSSIP }", "")
            .starts_with(at + "2:38: exchange.type GOSSIP" + with));
  CHECK(refused("compression { push { scheme: FP16 } }", "")
            .starts_with(at + "2:1: compression" + with));
  CHECK(refused("followers {}", "").starts_with(at + "2:1: followers" + with));
  CHECK(refused("balance: true consistency { mode: BSP }", "")
            .starts_with(at + "2:1: balance" + with));
  CHECK(refused("", "iter_size: 2") ==
        at + "4:1: the solver's iter_size 2" + with +
            "the batches of a clock name different rows; omit one of them");
  CHECK(refused("", "type: 'LARS'").starts_with(at + "4:1: the solver's type LARS" + with));
  CHECK(refused("", "type: 'LAMB'").starts_with(at + "4:1: the solver's type LAMB" + with));
  CHECK(refused("", "clip_gradients: 5")
            .starts_with(at + "4:1: the solver's clip_gradients 5" + with));
}

TEST_CASE("a job that is one text names what its own net's rows cannot be combined with",
          "[rows]") {
  const auto refused = [](const std::string& fields, const std::string& solver) {
    const std::string text = job_text(fields, solver);
    pb::Job job;
    REQUIRE(parse_text(text, "job", job).has_value());
    settle_exchange(job);
    const auto checked = check_places(job, text, "job");
    return checked ? std::string() : checked.error().message;
  };
  const std::string with = " cannot be combined with embed_param.by_rows of \"rows\": ";
  CHECK(refused("consistency { mode: BSP }", "").empty());
  CHECK(refused(" compression {}", "") ==
        "job:2:2: compression" + with + "rows are sent as they are; omit one of them");
  CHECK(refused("exchange { type: ALLREDUCE }", "") ==
        "job:2:12: exchange.type ALLREDUCE" + with +
            "the rows are at the servers alone; omit one of them");
  CHECK(refused("", "iter_size: 2").starts_with("job:4:1: the solver's iter_size 2" + with));
}

TEST_CASE("a solver's file and a net's are named where rows cannot be combined with them",
          "[rows]") {
  const TempFolder folder;
  folder.write("net.prototxt", kNumbers + embed("rows", kByRows));
  const auto solver = folder.write("solver.prototxt",
                                   "net: 'net.prototxt' base_lr: 0.1 max_iter: 4\niter_size: 3\n");
  const auto job = folder.write("job.textproto", "workers: 1 solver: 'solver.prototxt'");
  for (const auto& file : {job, solver}) {
    const auto loaded = model::load_job(file);
    REQUIRE_FALSE(loaded.has_value());
    CHECK(loaded.error().message.starts_with(solver.string() + ":2:1: the solver's iter_size 3"));
  }
}

// Which nets a job runs, wherever its solver says them.
#include "worker/model/job/job_nets.hpp"

#include "proto/config/job_state.hpp"
#include "proto/config/net_state.hpp"
#include "proto/config/text.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temp_folder.hpp"
#include "worker/model/job/job.hpp"

using namespace taut;
using namespace taut::model;
using taut::test::TempFolder;
namespace fs = std::filesystem;

namespace {

const KnownRecords kRecord{{}, {}, labelled_image(1, 4, 4)};
const std::string kCourse = "base_lr: 0.1 max_iter: 10\n";

/// A net whose TEST phase ends with another loss when it is in the stage "other".
std::string net_text(const std::string& name) {
  return "name: '" + name +
         "'"
         "layer { name: 'in' type: 'Data' top: 'data' top: 'label' data_param { batch_size: 4 } }"
         "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip'"
         "  inner_product_param { num_output: 10 } }"
         "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }"
         "layer { name: 'more' type: 'Accuracy' bottom: 'ip' bottom: 'label' top: 'more'"
         "  include { phase: TEST stage: 'other' } }";
}

/// Loads a solver file next to three net files.
Result<pb::Job> load(const TempFolder& folder, const std::string& solver) {
  folder.write("a.prototxt", net_text("a"));
  folder.write("b.prototxt", net_text("b"));
  folder.write("c.prototxt", net_text("c"));
  return load_job(folder.write("solver.prototxt", kCourse + solver));
}

pb::Job loaded(const TempFolder& folder, const std::string& solver) {
  auto job = load(folder, solver);
  INFO((job ? std::string() : job.error().message));
  REQUIRE(job.has_value());
  const auto checked = check_job(job.value(), kRecord);
  INFO((checked ? std::string() : checked.error().message));
  REQUIRE(checked.has_value());
  return std::move(job.value());
}

std::string error_of(const TempFolder& folder, const std::string& solver) {
  const auto job = load(folder, solver);
  REQUIRE_FALSE(job.has_value());
  CHECK(job.error().code == ErrorCode::kInvalid);
  const std::string& message = job.error().message;
  return message.substr(message.find(": ") + 2);
}

std::vector<std::string> names_of(const pb::Job& job) {
  std::vector<std::string> names;
  for (const NetChoice& choice : nets_of(job)) names.push_back(net_of(job, choice).name());
  return names;
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("a solver's net is found in each place that Caffe has for it", "[job-nets]") {
  const TempFolder folder;
  for (const std::string& text : std::vector<std::string>{
           "net: 'a.prototxt'", "net_param { " + net_text("a") + " }", "train_net: 'a.prototxt'",
           "train_net_param { " + net_text("a") + " }"}) {
    CAPTURE(text);
    const pb::Job job = loaded(folder, text);
    CHECK(names_of(job) == Lines{"a"});
    CHECK(job.net_param().name() == "a");
    CHECK_FALSE(job.solver_param().has_net());
    CHECK_FALSE(job.solver_param().has_net_param());
    CHECK_FALSE(job.solver_param().has_train_net());
    CHECK_FALSE(job.solver_param().has_train_net_param());
  }
}

TEST_CASE("test phases have the nets of the solver, then those in files, then the one of both",
          "[job-nets]") {
  const TempFolder folder;
  CHECK(names_of(loaded(folder, "net: 'a.prototxt' test_iter: 1")) == Lines{"a", "a"});
  CHECK(names_of(loaded(folder, "train_net: 'a.prototxt' test_net: 'b.prototxt' test_iter: 1")) ==
        Lines{"a", "b"});
  const pb::Job all =
      loaded(folder, "net: 'a.prototxt' test_net: 'b.prototxt' test_net_param { " + net_text("c") +
                         " } test_iter: 1 test_iter: 2 test_iter: 3");
  CHECK(names_of(all) == Lines{"a", "c", "b", "a"});
  CHECK(all.solver_param().test_net_size() == 0);
}

TEST_CASE("a net is put into the stages and the level that its solver names", "[job-nets]") {
  const TempFolder folder;
  const pb::Job job =
      loaded(folder,
             "net: 'a.prototxt' test_iter: 1 test_iter: 1 train_state { stage: 'other' level: 2 }"
             " test_state { stage: 'plain' } test_state { stage: 'other' }");
  const auto layers = [&](const NetChoice& choice) {
    return build_graph(net_of(job, choice), kRecord.graph_options(choice)).value().nodes.size();
  };
  CHECK(layers(pb::TRAIN) == 3);
  CHECK(layers({pb::TEST, 0}) == 3);
  CHECK(layers({pb::TEST, 1}) == 4);
  CHECK(net_of(job, pb::TRAIN).state().level() == 2);
  CHECK(train_state(job).stage(0) == "other");
  CHECK(train_state(job).phase() == pb::TRAIN);
}

TEST_CASE("ambiguous or missing nets are reported", "[job-nets]") {
  const TempFolder folder;
  CHECK(error_of(folder, "net: 'a.prototxt' train_net: 'b.prototxt'") ==
        "the solver has both net and train_net: give one net to train");
  CHECK(error_of(folder, "").find("neither the job nor its solver names a net") == 0);
  CHECK(error_of(folder, "train_net: 'a.prototxt' test_iter: 1") ==
        "test_iter is given 1 times, but there are 0 nets to test: a train_net serves the training "
        "phase only");
  CHECK(error_of(folder, "net: 'a.prototxt' test_net: 'b.prototxt'") ==
        "test_iter is given 0 times, but there is 1 net to test");
  CHECK(error_of(folder, "train_net: 'a.prototxt' test_net: 'b.prototxt' test_iter: 1 test_iter: 1")
            .find("test_iter is given 2 times, but there is 1 net to test: a train_net") == 0);
  const auto job =
      load_job(folder.write("job.textproto", "net: 'a.prototxt' solver_param { " + kCourse +
                                                 "train_net: 'b.prototxt' }"));
  REQUIRE_FALSE(job.has_value());
  CHECK(job.error().message.find("has a net, and its solver has a train_net") != std::string::npos);
}

TEST_CASE("the base rate follows the items of an iteration where a reference is given",
          "[job-nets]") {
  const TempFolder folder;
  pb::Job job = loaded(folder, "net: 'a.prototxt' lr_reference_batch: 2 iter_size: 3");
  // Batch 4, three of them: 12 items of each member for the reference's 2.
  const auto each = to_update_rule(job);
  REQUIRE(each.has_value());
  CHECK(each.value().rate_per_member == Approx(6));
  CHECK(each.value().rate.base == Approx(0.1));
  job.set_global_batch(true);
  const auto shared = to_update_rule(job);
  REQUIRE(shared.has_value());
  CHECK(shared.value().rate_per_member == 0);
  CHECK(shared.value().rate.base == Approx(0.6));
  job.mutable_net_param()->mutable_layer(0)->clear_data_param();
  CHECK(to_update_rule(job).error().message ==
        "lr_reference_batch is 2: no data layer of net \"a\" gives a batch_size");
}

TEST_CASE("every kind of data layer gives the batch that a reference is compared with",
          "[job-nets]") {
  const auto batch = [](const std::string& layer) {
    pb::Job job;
    INFO(layer);
    REQUIRE(parse_text("net_param { name: 'n' layer { name: 'in' " + layer + " } }", "job", job)
                .has_value());
    const auto found = batch_of_text(job);
    return found ? found.value() : 0;
  };
  CHECK(batch("type: 'Data' data_param { batch_size: 4 }") == 4);
  CHECK(batch("type: 'ImageData' image_data_param { batch_size: 5 }") == 5);
  CHECK(batch("type: 'HDF5Data' hdf5_data_param { batch_size: 6 }") == 6);
  CHECK(batch("type: 'SparseData' sparse_data_param { batch_size: 7 }") == 7);
  CHECK(batch("type: 'DummyData' dummy_data_param { shape { dim: 8 dim: 3 } }") == 8);
  CHECK(batch("type: 'DummyData' dummy_data_param { num: 9 channels: 3 height: 1 width: 1 }") == 9);
  CHECK(batch("type: 'Input'") == 0);
}

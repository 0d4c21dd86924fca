#include "worker/model/job/job.hpp"

#include "proto/config/text.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temp_folder.hpp"
#include "worker/model/job/file_kind.hpp"
#include "worker/model/job/job_data.hpp"

using namespace taut;
using namespace taut::model;
using taut::test::TempFolder;
namespace fs = std::filesystem;

namespace {

const KnownRecords kRecord{{}, {}, labelled_image(1, 4, 4)};

const std::string kNet =
    "name: 'n'"
    "layer { name: 'in' type: 'Data' top: 'data' top: 'label'"
    "  data_param { batch_size: 4 source: 'images' backend: IDX } }"
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip'"
    "  inner_product_param { num_output: 10 } }"
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }";
const std::string kSolver = "base_lr: 0.1 max_iter: 10\n";

pb::Job load(const fs::path& path) {
  auto job = load_job(path);
  INFO((job ? std::string() : job.error().message));
  REQUIRE(job.has_value());
  return std::move(job.value());
}

std::string error_of(const fs::path& path) {
  const auto job = load_job(path);
  REQUIRE_FALSE(job.has_value());
  return job.error().message;
}

pb::Job job_of(const std::string& text) {
  pb::Job job;
  REQUIRE(parse_text(text, "job", job).has_value());
  return job;
}

using Lines = std::vector<std::string>;

Lines warnings_of(const std::string& text) {
  const auto checked = check_job(job_of(text), kRecord);
  INFO((checked ? std::string() : checked.error().message));
  REQUIRE(checked.has_value());
  return checked.value();
}

}  // namespace

TEST_CASE("a job is loaded with its files, found in its folder and above", "[job]") {
  const TempFolder folder;
  folder.write("models/net.prototxt", kNet);
  folder.write("jobs/solver.prototxt", kSolver);
  fs::create_directories(folder.path() / "images");
  const auto path = folder.write(
      "jobs/deep/small.textproto",
      "net: 'models/net.prototxt' solver: 'solver.prototxt' data { folder: 'nowhere' } seed: 3");
  const pb::Job job = load(path);
  CHECK(job.name() == "small");
  CHECK(job.seed() == 3);
  CHECK_FALSE(job.has_net());
  CHECK_FALSE(job.has_solver());
  CHECK(job.net_param().layer_size() == 3);
  CHECK(job.solver_param().max_iter() == 10);
  CHECK(job.net_param().layer(0).data_param().source() == (folder.path() / "images").string());
  CHECK(job.data(0).folder() == "nowhere");
}

TEST_CASE("a solver's net is taken where the job gives none", "[job]") {
  const TempFolder folder;
  folder.write("models/net.prototxt", kNet);
  folder.write("models/solver.prototxt", kSolver + "net: 'net.prototxt' random_seed: 5");
  const auto path = folder.write("job.textproto", "name: 'x' solver: 'models/solver.prototxt'");
  const pb::Job job = load(path);
  CHECK(job.net_param().name() == "n");
  CHECK(job.name() == "x");
  CHECK(job.seed() == 5);
  CHECK_FALSE(job.solver_param().has_net());

  const pb::Job bare = load(folder.path() / "models/solver.prototxt");
  CHECK(bare.name() == "solver");
  CHECK(bare.net_param().name() == "n");
  CHECK(bare.solver_param().max_iter() == 10);
}

TEST_CASE("an incomplete job is reported", "[job]") {
  const TempFolder folder;
  folder.write("net.prototxt", kNet);
  folder.write("solver.prototxt", kSolver);
  const auto job = [&](const std::string& text) {
    return folder.write("job.textproto", text).string();
  };
  std::string path = job("name: 'x' workers: 2");
  CHECK(error_of(path) == path + ": has neither solver nor solver_param");
  path = job("name: 'x' workers: 2 solver: 'solver.prototxt'");
  CHECK(error_of(path) == path + ": neither the job nor its solver names a net");
  path = job("solver: 'a' solver_param {} workers: 1");
  CHECK(error_of(path) == path + ": has both solver and solver_param; give one of them");
  path = job("solver: 'solver.prototxt' net: 'a' net_param {} workers: 1");
  CHECK(error_of(path) == path + ": has both net and net_param; give one of them");
  path = job("solver: 'absent.prototxt' workers: 1");
  CHECK(error_of(path).find(path + ": solver absent.prototxt: not found; looked for ") == 0);
  path = job("solver: 'solver.prototxt' net: 'absent.prototxt'");
  CHECK(error_of(path).find(path + ": net absent.prototxt: not found; looked for ") == 0);
  path = job("solver: 'solver.prototxt'\nworkers: 2\n  stalenes: 3");
  CHECK(error_of(path) == path + ":3:3: no field \"stalenes\" in Job");
  const auto net = (folder.path() / "net.prototxt").string();
  CHECK(error_of(net) == net + ": describes a net; a job or a solver file is required here");
  CHECK(load_job(folder.path() / "absent").error().code == ErrorCode::kNotFound);
}

TEST_CASE("a file's kind is seen from its fields, mistakes or not", "[job]") {
  CHECK(file_kind("net: 'x' solver: 'y'", "f").value() == FileKind::kJob);
  CHECK(file_kind("net: 'x' base_lr: 1", "f").value() == FileKind::kSolver);
  CHECK(file_kind(kNet, "f").value() == FileKind::kNet);
  CHECK(file_kind("# c\nworker { name: 'job' }", "f").value() == FileKind::kCluster);
  CHECK(file_kind("host { name: 'a' } link { name: 'b' }", "f").value() == FileKind::kLabCluster);
  CHECK(file_kind("net: 'x' base_lrr: 1 max_iter: 3 }} {", "f").value() == FileKind::kSolver);
  CHECK(file_kind("stuff: 1", "f").error().message ==
        "f: has no field of a job, a net, a solver, a cluster, a sweep or a lab's cluster");
  CHECK(
      file_kind("wrkers: 3", "f").error().message ==
      "f: has no field of a job, a net, a solver, a cluster, a sweep or a lab's cluster: no field "
      "\"wrkers\"; did you mean \"workers\"?");
  CHECK_FALSE(file_kind("", "f").has_value());
  CHECK_FALSE(file_kind(std::string_view("\0\xff{{\"", 5), "f").has_value());
}

TEST_CASE("a phase's data is the job's, the net's, or the default set", "[job]") {
  const auto place = [](const pb::Job& job, pb::Phase phase) {
    const auto layers = data_of(job, phase);
    REQUIRE(layers.has_value());
    REQUIRE(layers.value().size() == 1);
    return layers.value()[0].place;
  };
  const std::string net = "net_param { " + kNet + " } ";
  const DataPlace from_net{"images", "", ""};
  CHECK(place(job_of(net), pb::TRAIN) == from_net);
  const pb::Job folder = job_of(net + "data { folder: 'a' }");
  CHECK(place(folder, pb::TRAIN) == DataPlace{"a", "", ""});
  CHECK(place(folder, pb::TEST) == DataPlace{"a", "", ""});
  const pb::Job test = job_of(net + "data { phase: TEST folder: 'b' }");
  CHECK(place(test, pb::TRAIN) == from_net);
  CHECK(place(test, pb::TEST) == DataPlace{"b", "", ""});
  const pb::Job files = job_of(net +
                               "data { images: 'i' labels: 'l' } data { folder: 'b' "
                               "phase: TEST }");
  CHECK(place(files, pb::TRAIN) == DataPlace{"", "i", "l"});
  const pb::Job bare = job_of("net_param { layer { name: 'in' type: 'Data' top: 'd' } }");
  CHECK(place(bare, pb::TRAIN) == DataPlace{kDefaultDataFolder, "", ""});
  CHECK(data_of(job_of(""), pb::TRAIN).value().empty());
}

TEST_CASE("a data entry may be for a single layer", "[job]") {
  const std::string layers =
      "net_param { layer { name: 'left' type: 'Data' top: 'l' data_param { source: 'a' backend: "
      "IDX "
      "} } layer { name: 'right' type: 'Data' top: 'r' data_param { source: 'b' backend: IDX } } "
      "} ";
  const auto found = data_of(job_of(layers + "data { layer: 'right' folder: 'c' }"), pb::TEST);
  REQUIRE(found.has_value());
  REQUIRE(found.value().size() == 2);
  CHECK(found.value()[0].place == DataPlace{"a", "", ""});
  CHECK(found.value()[1].layer.name() == "right");
  CHECK(found.value()[1].place == DataPlace{"c", "", ""});
  CHECK(
      data_of(job_of(layers + "data { layer: 'middle' folder: 'c' }"), pb::TRAIN).error().message ==
      "data: the net has no layer \"middle\"");
}

TEST_CASE("data that cannot be read is reported", "[job]") {
  CHECK(data_of(job_of("data { images: 'i' }"), pb::TRAIN).error().message ==
        "data: give a folder, or both images and labels");
  CHECK(
      data_of(job_of("data { images: 'i' labels: 'l' folder: 'f' }"), pb::TRAIN).error().message ==
      "data: give a folder, or both images and labels");
  CHECK(data_of(job_of("net_param { layer { name: 'mnist' type: 'Data'"
                       "  data_param { source: 'train_db' backend: LEVELDB } } }"),
                pb::TRAIN)
            .error()
            .message ==
        "layer \"mnist\" names the LEVELDB \"train_db\", which is not supported: convert its "
        "images to "
        "an LMDB with tautline convert, or name another data set with the job's data { folder: ... "
        "}, "
        "or with --data");
  CHECK(data_of(job_of("net_param { layer { name: 'list' type: 'ImageData' } }"), pb::TRAIN)
            .error()
            .message == "layer \"list\": image_data_param.source is missing");
}

TEST_CASE("a backend LEVELDB is refused only where the folder is one", "[job]") {
  const TempFolder folder;
  const auto place_of = [&](const std::string& name) {
    const auto found = data_of(job_of("net_param { layer { name: 'mnist' type: 'Data' data_param { "
                                      "backend: LEVELDB source: '" +
                                      (folder.path() / name).string() + "' } } }"),
                               pb::TRAIN);
    return found ? found.value().at(0).place.folder : found.error().message;
  };
  for (const char* name : {"lmdb", "idx", "leveldb"}) {
    std::filesystem::create_directory(folder.path() / name);
  }
  folder.write("lmdb/data.mdb", "");
  folder.write("idx/train-images-idx3-ubyte", "");
  folder.write("leveldb/CURRENT", "MANIFEST-000002\n");
  CHECK(place_of("lmdb") == (folder.path() / "lmdb").string());
  CHECK(place_of("idx") == (folder.path() / "idx").string());
  CHECK(place_of("leveldb").find("which is not supported") != std::string::npos);
  CHECK(place_of("none").find("which is not supported") != std::string::npos);
  // An LMDB next to it is what training reads.
  folder.write("leveldb/data.mdb", "");
  CHECK(place_of("leveldb") == (folder.path() / "leveldb").string());
}

TEST_CASE("a job is checked without running it", "[job]") {
  const TempFolder folder;
  const std::string here = "data { folder: '" + folder.path().string() + "' } ";
  const std::string whole = "net_param { " + kNet + " } solver_param { " + kSolver + " } ";
  CHECK(warnings_of(whole + here).empty());
  CHECK(warnings_of(whole) == Lines{"data \"images\" does not exist; training needs it"});
  CHECK(warnings_of(whole + "data { images: '/no/i' labels: '/no/l' }") ==
        Lines{"data \"/no/i\" does not exist; training needs it",
              "data \"/no/l\" does not exist; training needs it"});
  // The coordinator would refuse it: a check reports it before.
  const pb::Job lock_step = job_of(whole + here + "consistency { mode: BSP slack: 3 }");
  CHECK(check_job(lock_step, kRecord).error().message ==
        "consistency: mode BSP has no slack, but slack is 3; omit it, or choose mode: SSP");
  CHECK(warnings_of(whole + here + "consistency { mode: BSP slack: 0 }").empty());
  CHECK(warnings_of(here + "seed: 4 net_param { " + kNet + " } solver_param { random_seed: 3 " +
                    kSolver + " }") == Lines{"random_seed 3: superseded by the job's seed 4"});
}

TEST_CASE("a net that does not go with balance is refused before the job is submitted", "[job]") {
  const auto checked = [](const std::string& net) {
    return check_job(job_of("workers: 2 balance: true consistency { mode: BSP } net_param { " +
                            net + " } solver_param { " + kSolver + " }"),
                     kRecord);
  };
  CHECK(checked(kNet).has_value());
  std::string summed = kNet;
  summed.insert(summed.rfind('}'), "loss_param { normalization: NONE } ");
  CHECK(checked(summed).error().message.find("balance: layer \"loss\" adds losses up") == 0);
}

TEST_CASE("what the coordinator would refuse is reported before anything starts", "[job]") {
  const TempFolder folder;
  const auto refused = [&](const std::string& solver, const std::string& fields) {
    CAPTURE(fields);
    const pb::Job job = job_of("net_param { " + kNet + " } solver_param { " + kSolver + solver +
                               " } data { folder: '" + folder.path().string() + "' } " + fields);
    const auto checked = check_job(job, kRecord);
    return checked ? std::string() : checked.error().message;
  };
  CHECK(refused("", "workers: 2 min_workers: 5") ==
        "min_workers: 5 is above workers: 2, which is the number of shares of the data; raise "
        "workers");
  // How many workers there are may be named with the command.
  CHECK(refused("", "min_workers: 5").empty());
  CHECK(refused("", "resources { devices: 65 }") ==
        "resources: devices is 65; at most 64 are possible");
  CHECK(refused("", "checkpoint { coded { data: 0 } }") ==
        "checkpoint: coded has data: 0 and parity: 2; they must be from 1 to 32 and from 1 to 16");
  CHECK(refused("", "checkpoint { coded { } incremental: true }") ==
        "checkpoint: incremental and coded do not go together; omit one of them");
  CHECK(refused("", "workers: 2 exchange { type: ALLREDUCE } consistency { slack: 2 }") ==
        "exchange: ALLREDUCE is BSP among workers and cannot be combined with consistency { mode: "
        "SSP }; omit one");
  const std::string balanced = "workers: 2 balance: true ";
  CHECK(refused("", balanced + "consistency { mode: BSP }").empty());
  CHECK(refused("type: 'Adam'", balanced + "consistency { slack: 2 }") ==
        "balance: solver type Adam makes a step of each update in mode SSP, whatever its share; "
        "choose mode: BSP, or type SGD or Nesterov");
  CHECK(refused("", "workers: 2 global_batch: true").empty());
  CHECK(refused("", "workers: 3 global_batch: true") ==
        "layer \"in\" (Data): a batch of 4 cannot be split over 3 members (global_batch) or "
        "devices");
}

TEST_CASE("a job that cannot work is reported", "[job]") {
  const auto error = [](const std::string& text) {
    const auto checked = check_job(job_of(text), kRecord);
    REQUIRE_FALSE(checked.has_value());
    return checked.error().message;
  };
  CHECK(error("solver_param { base_lr: 1 }") == "max_iter is missing");
  CHECK(error("solver_param { " + kSolver + " }") ==
        "the net's TRAIN phase has no loss: add a SoftmaxWithLoss layer");
  CHECK(error("solver_param { " + kSolver + " } net_param { layer { name: 'a' type: 'b' } }")
            .find("layer \"a\" is of unknown type \"b\"") == 0);
  CHECK(error("solver_param { " + kSolver +
              "test_iter: 1 } net_param {"
              "  layer { name: 'in' type: 'Data' top: 'd' top: 'l' include { phase: TRAIN }"
              "    data_param { batch_size: 1 } }"
              "  layer { name: 'ip' type: 'InnerProduct' bottom: 'd' top: 'ip'"
              "    inner_product_param { num_output: 2 } include { phase: TRAIN } }"
              "  layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'l' top: 'x'"
              "    include { phase: TRAIN } } }") ==
        "the solver has test_iter, but the net's TEST phase has no output");
}

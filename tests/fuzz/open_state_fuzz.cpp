// What a coordinator finds in its folders when it starts: its state, a SQLite database, and the
// run.json of a job's folder. It refuses them, or continues with what is sound. The first byte says
// which of them the rest is.
#include <google/protobuf/stubs/logging.h>

#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/check.hpp"
#include "server/coordinator/runs/run_keeper.hpp"
#include "server/coordinator/store/check_record.hpp"
#include "server/coordinator/store/store.hpp"
#include "tests/fuzz/driver/memory_folder.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/unit/coordinator/fake_cluster.hpp"

namespace taut {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

constexpr const char* kDatabase = "coordinator.sqlite";

std::string bytes_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// A database with a job that runs and one that waits.
std::string database() {
  const test::TempFolder folder;
  {
    FakeCluster cluster(1, {}, open_sqlite_store(folder.path()).value());
    cluster.add_server("s0");
    cluster.add_worker("w0");
    cluster.run_for(1s);
    for (int i = 0; i < 2; ++i) cluster.submit(make_job(1, 3000));
    cluster.run_for(2s);
  }
  return bytes_of(folder.path() / kDatabase);
}

pb::StoredJob job_of_run() {
  pb::StoredJob job;
  job.set_job(7);
  job.set_token(11);
  job.mutable_definition()->set_name("tiny");
  return job;
}

std::string run_json() {
  const test::TempFolder folder;
  RunKeeper(folder.path()).begin(job_of_run(), {});
  return bytes_of(folder.path() / "job7-tiny" / "run.json");
}

void open_database(const fs::path& folder) {
  const std::string name = (folder / kDatabase).string();
  const auto refused_well = [&](const Error& error) {
    TAUT_CHECK(error.message.starts_with(name), "a refusal says where");
  };
  auto store = open_sqlite_store(folder);
  if (!store) return refused_well(store.error());
  const auto records = store.value()->load();
  if (!records) return refused_well(records.error());
  for (const auto& [id, job] : records.value().jobs) {
    TAUT_CHECK(damage_of(id, job).empty(), "what is read is sound");
  }
  CoordinatorChanges changes;
  changes.jobs[JobId(7)] = job_of_run();
  (void)store.value()->save(changes);
}

void open_run(const fs::path& folder) {
  RunKeeper keeper(folder);
  (void)keeper.next_job();
  keeper.begin(job_of_run(), {});
  keeper.note(JobId(7), "a line");
  pb::LogRequest request;
  request.set_job(7);
  TAUT_CHECK(keeper.log(request).error().empty(), "the job has a folder");
}

}  // namespace

std::vector<std::string> fuzz::samples() {
  return {'\0' + database(), '\1' + run_json(), '\1' + std::string(R"({"token": 5})"),
          '\1' + std::string("[]"), std::string(1, '\0')};
}

}  // namespace taut

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const google::protobuf::LogSilencer silent;
  static const taut::test::TempFolder in_memory = taut::fuzz::memory_folder();
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  // A folder for each input: the database and what keeps its changes are new.
  const taut::test::TempFolder folder;
  if (data[0] % 2 == 0) {
    folder.write(taut::kDatabase, bytes);
    taut::open_database(folder.path());
  } else {
    folder.write("job7-tiny/run.json", bytes);
    taut::open_run(folder.path());
  }
  return 0;
}

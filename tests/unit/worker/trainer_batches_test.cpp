#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/client/served_job.hpp"
#include "tests/unit/worker/tiny_job.hpp"
#include "worker/engine/plan/wrapped_backend.hpp"

namespace taut::worker {
namespace {

using test::cpu;
using test::kDeadline;
using test::TinyJob;

}  // namespace

TEST_CASE("a batch that devices cannot divide is refused with both numbers", "[trainer]") {
  TinyJob tiny;
  const auto refused = JobAssets::open(tiny.job, 1, 3);
  REQUIRE(!refused.has_value());
  CHECK(refused.error().message.find("a batch of 4 cannot be split over 3") != std::string::npos);
}

TEST_CASE("a device with its own memory copies batches from its own host memory", "[trainer]") {
  /// Remembers where its host memory is.
  class Pinning final : public WrappedBackend {
   public:
    using WrappedBackend::WrappedBackend;
    DeviceBuffer allocate(Bytes size, BufferKind kind, std::string_view name) override {
      return inner().allocate(size, kind, name);
    }
    HostBuffer allocate_host(Bytes size) override {
      HostBuffer block = inner().allocate_host(size);
      std::scoped_lock lock(mutex_);
      given_.insert(block.as<float>().data());
      return block;
    }
    bool gave(const float* address) {
      std::scoped_lock lock(mutex_);
      return given_.contains(address);
    }
    void on_call(Stream& /*stream*/, DeviceCall /*call*/) override {}

   private:
    std::mutex mutex_;
    std::set<const float*> given_;  // the loader's thread continues taking memory
  };
  const auto inner = cpu();
  Pinning backend(*inner);
  const TinyJob tiny;
  const Replica replica = std::move(tiny.assets().make_replica(backend, 0, 1, Clock(0)).value());
  const data::Batch batch = replica.loader->next(kDeadline).value();
  REQUIRE(batch.blobs.size() == 2);
  for (const auto& blob : batch.blobs) CHECK(backend.gave(blob.data()));
}

TEST_CASE("a worker that starts at a clock draws that clock's batches", "[trainer]") {
  TinyJob tiny;
  tiny.job.mutable_solver_param()->set_iter_size(2);
  const JobAssets assets = tiny.assets();
  const auto backend = cpu();
  const Replica first = std::move(assets.make_replica(*backend, 0, 1, Clock(0)).value());
  const Replica late = std::move(assets.make_replica(*backend, 0, 1, Clock(3)).value());
  std::vector<data::Batch> drawn(8);
  for (data::Batch& batch : drawn) batch = first.loader->next(kDeadline).value();
  CHECK(late.loader->next(kDeadline).value().blobs == drawn[6].blobs);
  CHECK(late.loader->next(kDeadline).value().blobs == drawn[7].blobs);
}

}  // namespace taut::worker

#include <algorithm>
#include <array>
#include <memory>

#include "tests/unit/server/counted_memory.hpp"
#include "tests/unit/server/replication/backup_pair.hpp"

namespace taut::server {
namespace {

using test::kAnn;
using test::kBackup;
using test::kPrimary;
using test::make_table;

constexpr std::uint64_t kSliceElements = 256;
constexpr std::size_t kSlices = 32;

/// A shard of many slices with a state for each value, and its backup on a host whose memory is
/// counted.
class CountedBackup : public test::ShardWorkers {
 public:
  CountedBackup() : ShardWorkers(1, Slack(0)) {
    job.solver().set_momentum(0.9F);
    test::choose(shard(), 1, 1);
    first.set_dial({[](const std::string&) { return kBackup; }, [](PeerId) {}});
    second.set_dial({[](const std::string&) { return kPrimary; }, [](PeerId) {}});
    second.limit_memory(memory);
    const auto view = job.view();
    (void)first.set_job(view);
    (void)second.set_job(view);
    REQUIRE(greet(first, kAnn, 1).accepted());
    pb::OpenTables requested;
    *requested.add_tables() = to_wire(make_table(0, {kSlices * kSliceElements}));
    (void)say(first, kAnn, requested);
  }

  /// Until the backup is whole.
  void replicate() {
    for (std::size_t i = 0; i < kSlices && !is_complete(); ++i) {
      for (Outgoing& out : first.take_images(TimePoint())) deliver(std::move(out.message));
    }
    REQUIRE(is_complete());
  }
  void take_over() {
    shard().set_host(1);
    shard().set_term(2);
    shard().clear_backups();
    (void)second.set_job(job.view());
  }
  [[nodiscard]] bool is_complete() const {
    const ShardReport report = second.report(JobId(7));
    return !report.copies.empty() && report.copies[0].is_complete;
  }

  std::shared_ptr<test::CountedMemory> counted = std::make_shared<test::CountedMemory>();
  std::shared_ptr<TableMemory> memory = std::make_shared<TableMemory>(Bytes(16U << 20U));
  BufferPool pool;
  BufferPool counted_pool{Bytes(0), counted};
  Shard first{ShardId(0), pool, kSliceElements};
  Shard second{ShardId(1), counted_pool, kSliceElements};

 private:
  /// As a message arrives: in memory of the host that receives it.
  [[nodiscard]] Frame received(const Frame& frame) {
    const Buffer copy = counted_pool.acquire(frame.size());
    std::ranges::copy(frame.bytes(), copy.data());
    return Frame(copy);
  }
  void deliver(DataMessage message) {
    for (ImageItem& image : std::get<DataImages>(message.body).images) {
      image.values = received(image.values);
      for (Frame& state : image.states) state = received(state);
    }
    for (Outgoing& reply : second.handle(kPrimary, std::move(message), TimePoint())) {
      (void)first.handle(kBackup, std::move(reply.message), TimePoint());
    }
  }
};

}  // namespace

TEST_CASE("a take-over needs no more memory than the images, and one slice", "[replication]") {
  CountedBackup pair;
  pair.replicate();
  const std::size_t images = pair.counted->used;
  REQUIRE(images >= kSlices * 2 * kSliceElements * sizeof(float));
  pair.counted->peak = images;
  pair.take_over();
  CHECK(pair.second.report(JobId(7)).error.empty());
  CHECK(pair.second.value_bytes() == kSlices * kSliceElements * sizeof(float));
  CHECK(pair.counted->used == images);
  CHECK(pair.counted->peak <= images + images / kSlices);
}

TEST_CASE("a shard is taken over where other tables have all memory that its images leave",
          "[replication]") {
  CountedBackup pair;
  pair.replicate();
  const Bytes images = pair.memory->taken();
  REQUIRE(images > Bytes(0));
  const std::uint64_t left = pair.memory->limit().value() - images.value();
  const auto others = pair.memory->take(std::array{TableNeed{"others", left}});
  REQUIRE(others.has_value());
  pair.take_over();
  CHECK(pair.second.report(JobId(7)).error.empty());
  CHECK(pair.second.value_bytes() == kSlices * kSliceElements * sizeof(float));
  CHECK(pair.memory->taken() == pair.memory->limit());
}

}  // namespace taut::server

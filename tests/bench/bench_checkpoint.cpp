// Writes a checkpoint of a shard that is being trained, as the server daemon does: it is ordered
// some clocks ahead, another thread makes memory ready; at its clock the shard puts its slices
// aside between two updates, and the other thread writes them. Prints what it took from there on,
// and how many updates a second were applied before, at first and meanwhile.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/check.hpp"
#include "proto/config/job_state.hpp"
#include "proto/formats/checkpoint_manifest.hpp"
#include "proto/wire_version.hpp"
#include "server/checkpoints/checkpoint_thread.hpp"
#include "server/coordinator/checkpoints/checkpoint_keeper.hpp"
#include "server/shard.hpp"

namespace taut {
namespace {

namespace fs = std::filesystem;
using server::Shard;

constexpr PeerId kPeer(1);
constexpr JobId kJob(1);
constexpr std::uint64_t kColumns = SliceLayout::kSliceElements;

/// The progress of the writing thread.
class Progress {
 public:
  void put(server::ShardPart part) {
    std::scoped_lock lock(mutex_);
    part_ = std::move(part);
  }
  [[nodiscard]] std::optional<server::ShardPart> part() {
    std::scoped_lock lock(mutex_);
    return part_;
  }

 private:
  std::mutex mutex_;
  std::optional<server::ShardPart> part_;
};

/// One shard with one table of `slices` slices, momentum, and one member.
class TrainedShard {
 public:
  explicit TrainedShard(std::uint64_t slices) : slices_(slices), shard_(ShardId(0), pool_) {
    table_.name = "large";
    table_.shape = {static_cast<std::int64_t>(slices), static_cast<std::int64_t>(kColumns)};
    state_.set_job(kJob.value());
    pb::SolverParameter& solver = *state_.mutable_definition()->mutable_solver_param();
    solver.set_base_lr(0.01F);
    solver.set_momentum(0.9F);
    solver.set_max_iter(1'000'000);
    pb::Member& member = *state_.add_members();
    member.set_incarnation(1);
    member.set_leave_clock(Clock::never().value());
    state_.add_modes()->set_mode(pb::ModeChange::AGGREGATE);
    state_.set_hold_from(Clock::never().value());
    state_.add_shards();
    publish();
    pb::DataHello hello;
    hello.set_wire_version(kWireVersion);
    hello.set_job_hash(job_hash(state_.definition()));
    say(hello);
    pb::OpenTables open;
    *open.add_tables() = to_wire(table_);
    say(open);
    const Buffer gradient = pool_.acquire(kColumns * sizeof(float));
    std::ranges::fill(gradient.floats(), 1e-3F);
    gradient_ = Frame(gradient);
  }

  void order(std::int64_t clock, const std::string& folder) {
    state_.mutable_checkpoint()->set_number(1);
    state_.mutable_checkpoint()->set_clock(clock);
    state_.mutable_checkpoint()->set_folder(folder);
    publish();
  }
  /// One update of one slice.
  void push() {
    DataItem item;
    item.kind = pb::DataItem::PUSH;
    item.slice = SliceId(static_cast<std::uint32_t>(next_));
    item.offset = next_ * kColumns;
    item.count = kColumns;
    item.clock = Clock(clock_);
    item.payload = gradient_;
    say(DataItems{{std::move(item)}});
    if (++next_ < slices_) return;
    next_ = 0;
    ++clock_;
  }
  [[nodiscard]] std::int64_t clock() const { return clock_; }
  [[nodiscard]] Shard& shard() { return shard_; }
  [[nodiscard]] const pb::ServerJob& state() const { return state_; }

 private:
  template <class Body>
  void say(Body body) {
    const auto out = shard_.handle(
        kPeer, DataMessage{kJob, WorkerId(0), Incarnation(1), std::move(body)}, steady_now());
    TAUT_CHECK(out.size() == 1, "a shard answers");
  }
  void publish() {
    state_.set_revision(state_.revision() + 1);
    auto view = server::make_job_view(state_);
    TAUT_CHECK(view.has_value() && shard_.set_job(view.value()).empty(), "a job that can be");
  }

  const std::uint64_t slices_;
  BufferPool pool_;
  Shard shard_;
  TableSpec table_;
  pb::ServerJob state_;
  Frame gradient_;
  std::uint64_t next_ = 0;
  std::int64_t clock_ = 0;
};

/// Updates a second over this many clocks.
double rate_over(TrainedShard& trained, std::int64_t clocks, std::uint64_t slices) {
  const TimePoint begin = steady_now();
  for (const std::int64_t end = trained.clock() + clocks; trained.clock() < end;) trained.push();
  return static_cast<double>(clocks) * static_cast<double>(slices) / seconds(steady_now() - begin);
}

CheckpointTask finish_task(const TrainedShard& trained, const server::ShardPart& part,
                           const fs::path& folder) {
  CheckpointTask task;
  task.job = kJob;
  task.number = 1;
  task.aside = trained.state().checkpoint().folder();
  task.folder = folder.string();
  task.manifest.set_format(kCheckpointFormat);
  task.manifest.set_clock(trained.state().checkpoint().clock());
  task.manifest.set_slots(1);
  task.manifest.add_members()->set_leave_clock(Clock::never().value());
  for (const TableSpec& table : part.tables) *task.manifest.add_tables() = to_wire(table);
  for (const pb::CheckpointFile& file : part.files) *task.manifest.add_files() = file;
  return task;
}

/// ahead  clocks from the order to the one before the checkpoint's
int measure(const fs::path& folder, double gib, std::int64_t ahead) {
  // Half of it values, half of it momentum.
  const auto slices =
      static_cast<std::uint64_t>(gib * (1ULL << 30U) / (2.0 * kColumns * sizeof(float)));
  TrainedShard trained(slices);
  rate_over(trained, 1, slices);
  const double before = rate_over(trained, 2, slices);

  Progress progress;
  server::CheckpointThread writer(
      1, [&](std::size_t, JobId, server::ShardPart part) { progress.put(std::move(part)); },
      [](const pb::ServerJob&, const Result<std::vector<server::ShardImages>>&) {});
  trained.order(trained.clock() + ahead + 1, (folder / "large_iter_4.part-1-1").string());
  for (server::SpareStock& stock : trained.shard().take_stocks()) {
    writer.preallocate(std::move(stock));
  }
  const double stocking = ahead > 0 ? rate_over(trained, ahead, slices) : before;
  const TimePoint begin = steady_now();
  TimePoint aside;
  TimePoint first_clock;
  std::uint64_t updates = 0;
  while (!progress.part()) {
    trained.push();
    ++updates;
    if (updates == slices) first_clock = steady_now();
    for (server::ShardCapture& capture : trained.shard().take_captures()) {
      aside = steady_now();
      updates = 0;
      writer.write(0, std::move(capture));
    }
  }
  const double writing = seconds(steady_now() - aside);
  const server::ShardPart part = *progress.part();
  Notes notes;
  const auto finished =
      part.error.empty()
          ? finish_checkpoint(finish_task(trained, part, folder / "large_iter_4"), notes)
          : Result<std::string>(make_error(ErrorCode::kIo, part.error));
  if (!finished) {
    fmt::print(stderr, "bench_checkpoint: {}\n", finished.error().message);
    return 1;
  }
  const double whole = seconds(steady_now() - begin);
  fmt::print("bytes: {}\n", part.files.front().bytes());
  fmt::print("seconds in all: {:.3f}\n", whole);
  fmt::print("seconds to put it aside: {:.3f}\n", seconds(aside - begin));
  fmt::print("updates/s before: {:.0f}\n", before);
  fmt::print("updates/s once it is ordered: {:.0f}\n", stocking);
  // Each slice is updated for the first time since it was put aside.
  if (updates >= slices) {
    fmt::print("updates/s in the first clock: {:.0f}\n",
               static_cast<double>(slices) / seconds(first_clock - aside));
  }
  fmt::print("updates/s while it is written: {:.0f}\n", static_cast<double>(updates) / writing);
  return 0;
}

}  // namespace
}  // namespace taut

int main(int argc, char** argv) {
  CLI::App app("Writes a checkpoint of a shard that is being trained, and prints what it took.");
  std::string folder;
  double gib = 2;
  app.add_option("FOLDER", folder, "where it goes")->required();
  app.add_option("--gib", gib, "how large it is")->check(CLI::Range(0.01, 64.0));
  std::int64_t ahead = 30;
  app.add_option("--ahead", ahead, "by how many clocks it is ordered ahead; 0: no memory is ready")
      ->check(CLI::Range(0, 1000));
  CLI11_PARSE(app, argc, argv);
  return taut::measure(folder, gib, ahead);
}

#include "tests/bench/data_plane/bench_worker.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <optional>
#include <random>
#include <set>
#include <thread>

#include "common/keys/key_folder.hpp"
#include "common/net/zmq/zmq_endpoint.hpp"
#include "proto/config/job_state.hpp"
#include "proto/session/control_link.hpp"
#include "proto/session/data_secret.hpp"
#include "tests/bench/data_plane/memory_use.hpp"
#include "worker/client/client.hpp"

namespace taut::bench {
namespace {

constexpr Duration kWait{60'000'000};
constexpr std::size_t kMaxTables = 1024;

std::vector<TableSpec> bench_tables(const WorkerOptions& options) {
  const std::uint64_t bytes = options.table_bytes;
  const std::size_t count = std::clamp<std::size_t>(options.bytes_of_tables / bytes, 1, kMaxTables);
  std::vector<TableSpec> tables(count);
  for (std::size_t i = 0; i < count; ++i) {
    tables[i].id = TableId(static_cast<std::uint32_t>(i));
    tables[i].name = fmt::format("bench{}", i);
    tables[i].shape = {static_cast<std::int64_t>(bytes / sizeof(float))};
  }
  return tables;
}

/// The line to the coordinator, kept alive on its own thread while the client works.
class Membership {
 public:
  Membership(ZmqContext& context, const WorkerOptions& options) {
    ControlIdentity identity;
    identity.role = pb::ROLE_WORKER;
    identity.name = options.name;
    identity.session = std::random_device{}();
    identity.device = "bench";
    link_ = ControlLink::open(context.make_endpoint(), options.coordinator, identity, {}).value();
  }
  ~Membership() {
    ended_ = true;
    if (thread_.joinable()) thread_.join();
  }
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  Result<pb::WorkerJob> wait_for_job() {
    const TimePoint deadline = steady_now() + kWait;
    while (steady_now() < deadline) {
      for (const ControlEvent& event : link_->step(Duration(100'000))) {
        if (const auto* job = std::get_if<pb::WorkerJob>(&event)) {
          tell(*job, false);
          thread_ = std::thread([this] { keep_alive(); });
          return *job;
        }
        if (const auto* refused = std::get_if<control_event::Refused>(&event)) {
          return make_error(ErrorCode::kUnavailable, refused->reason);
        }
      }
    }
    return make_error(ErrorCode::kTimeout, "no job came");
  }
  /// Reports the job as finished, and gives the coordinator time to hear it.
  void finish(const pb::WorkerJob& job) {
    ended_ = true;
    thread_.join();
    tell(job, true);
    const TimePoint until = steady_now() + Duration(300'000);
    while (steady_now() < until) (void)link_->step(Duration(50'000));
    link_->say_goodbye("done");
  }

 private:
  void tell(const pb::WorkerJob& job, bool finished) {
    pb::Heartbeat content;
    pb::Progress& progress = *content.mutable_progress();
    progress.set_job(job.job());
    progress.set_revision(job.revision());
    progress.set_incarnation(job.incarnation());
    progress.set_finished(finished);
    link_->report(std::move(content), true);
  }
  void keep_alive() {
    while (!ended_) (void)link_->step(Duration(100'000));
  }

  std::unique_ptr<ControlLink> link_;
  std::atomic<bool> ended_ = false;
  std::thread thread_;
};

/// The patterns, each on the same client and tables.
class Patterns {
 public:
  Patterns(Client& client, const std::vector<TableSpec>& tables, const WorkerOptions& options)
      : client_(client), tables_(tables), options_(options) {
    values_.resize(tables.size());
    for (auto& value : values_) value.resize(options.table_bytes / sizeof(float));
  }

  Sample push() {
    return measure("push", [this] {
      const std::size_t slices = slices_of_round();
      for (const TableSpec& table : tables_) client_.push(table.id, clock_, gradient(table));
      clock_ = clock_.next();
      // The next round is on its way while this one is acknowledged.
      return client_.flush(kWait, slices);
    });
  }

  Sample pull() {
    return measure("pull", [this]() -> Result<void> {
      for (std::size_t i = 0; i < tables_.size(); ++i)
        client_.read(tables_[i].id, clock_, values_[i]);
      for (const TableSpec& table : tables_) {
        TAUT_TRY(client_.wait(table.id, clock_, kWait));
      }
      return ok();
    });
  }

  Sample push_pull() {
    for (std::size_t i = 0; i < tables_.size(); ++i)
      client_.read(tables_[i].id, clock_, values_[i]);
    return measure("push+pull", [this]() -> Result<void> {
      for (std::size_t i = 0; i < tables_.size(); ++i) {
        TAUT_TRY(client_.wait(tables_[i].id, clock_, kWait));
        client_.push_and_read(tables_[i].id, clock_, gradient(tables_[i]), values_[i]);
      }
      clock_ = clock_.next();
      return ok();
    });
  }

  /// The loop of a training: updates from the last table to the first, each with the read for the
  /// next clock, and then every read.
  Result<void> train(std::int64_t clocks) {
    for (std::size_t i = 0; i < tables_.size(); ++i)
      client_.read(tables_[i].id, clock_, values_[i]);
    for (std::int64_t i = 0; i < clocks; ++i) {
      for (const TableSpec& table : tables_) {
        TAUT_TRY(client_.wait(table.id, clock_, kWait));
      }
      for (std::size_t k = tables_.size(); k-- > 0;) {
        const Buffer update = gradient(tables_[k]);
        std::ranges::fill(update.floats(), 1e-3F);
        client_.push_and_read(tables_[k].id, clock_, update, values_[k]);
      }
      clock_ = clock_.next();
    }
    return client_.flush(kWait);
  }

  /// One small push and the read after it, nothing else under way.
  Sample round_trip() {
    Sample sample = start("round trip");
    std::vector<double> times;
    const TableSpec& table = tables_[0];
    for (int i = 0; i < 2000; ++i) {
      const TimePoint begin = steady_now();
      client_.push_and_read(table.id, clock_, gradient(table), values_[0]);
      clock_ = clock_.next();
      if (!client_.wait(table.id, clock_, kWait)) break;
      times.push_back(seconds(steady_now() - begin) * 1e6);
    }
    sample.median_us = median(times);
    return sample;
  }

 private:
  Sample start(const std::string& pattern) {
    Sample sample;
    sample.pattern = pattern;
    sample.table_bytes = options_.table_bytes;
    return sample;
  }
  Buffer gradient(const TableSpec& table) {
    Buffer buffer = client_.gradient_buffer(table.id);
    // Written once: memory that never was is one page of zeros, whatever its size.
    if (written_.insert(buffer.data()).second) std::ranges::fill(buffer.floats(), 1e-6F);
    return buffer;
  }
  [[nodiscard]] std::size_t slices_of_round() const {
    constexpr std::uint64_t kSliceBytes = 1ULL << 20U;
    return tables_.size() * std::max<std::uint64_t>(1, options_.table_bytes / kSliceBytes);
  }
  [[nodiscard]] CpuTime servers_cpu_time() const {
    CpuTime sum;
    for (const int pid : options_.server_pids) sum += cpu_time_of(pid);
    return sum;
  }
  Sample measure(const std::string& pattern, const std::function<Result<void>()>& round) {
    Sample sample = start(pattern);
    for (int i = 0; i < 3; ++i) {
      if (!round()) return sample;
    }
    if (!client_.flush(kWait)) return sample;
    const CpuTime cpu = cpu_time();
    const CpuTime servers_cpu = servers_cpu_time();
    const TimePoint begin = steady_now();
    std::uint64_t rounds = 0;
    while (seconds(steady_now() - begin) < options_.seconds) {
      if (auto done = round(); !done) {
        fmt::print(stderr, "{}: {}\n", pattern, done.error().message);
        return sample;
      }
      ++rounds;
    }
    if (!client_.flush(kWait)) return sample;
    sample.wall_s = seconds(steady_now() - begin);
    sample.cpu = cpu_time() - cpu;
    sample.server_cpu = servers_cpu_time() - servers_cpu;
    sample.gigabytes = static_cast<double>(rounds * tables_.size() * options_.table_bytes) * 1e-9;
    return sample;
  }

  Client& client_;
  const std::vector<TableSpec>& tables_;
  const WorkerOptions& options_;
  std::vector<std::vector<float>> values_;
  std::set<const std::byte*> written_;
  Clock clock_;
};

}  // namespace

Result<std::vector<Sample>> run_worker(const WorkerOptions& options) {
  Security security = Security::insecure();
  if (!options.keys.empty()) {
    TAUT_TRY(security, daemon_security(options.keys, options.name, KeyRole::kWorker));
  }
  ZmqContext context{security, options.io_threads};
  Membership membership(context, options);
  TAUT_TRY(const pb::WorkerJob job, membership.wait_for_job());
  ClientOptions client_options;
  client_options.job = JobId(job.job());
  client_options.worker = WorkerId(job.worker());
  client_options.incarnation = Incarnation(job.incarnation());
  client_options.job_hash = job_hash(job.definition());
  client_options.send.window = Bytes(options.window);
  for (const pb::ShardInfo& shard : job.shards()) {
    client_options.shards.push_back({ShardId(shard.shard()), shard.address()});
  }
  if (options.shared_memory) {
    TAUT_TRY(client_options.shared_memory, SharedArena::create());
  }
  auto endpoint = context.make_endpoint();
  endpoint->use_token(to_token(job.secret()));
  Client client(std::move(endpoint), client_options);
  const auto tables = bench_tables(options);
  TAUT_TRY(client.open(tables, kWait));
  std::vector<Sample> samples;
  if (options.memory) {
    const std::uint64_t before = own_memory(getpid());
    Patterns patterns(client, tables, options);
    TAUT_TRY(patterns.train(60));
    Sample sample;
    sample.pattern = "memory before";
    sample.gigabytes = static_cast<double>(before) * 1e-9;
    samples.push_back(sample);
    client.close();
    membership.finish(job);
    return samples;
  }
  Patterns patterns(client, tables, options);
  samples.push_back(patterns.push());
  samples.push_back(patterns.pull());
  samples.push_back(patterns.push_pull());
  if (options.table_bytes <= 4096) samples.push_back(patterns.round_trip());
  client.close();
  membership.finish(job);
  return samples;
}

}  // namespace taut::bench

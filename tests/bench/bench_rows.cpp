#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "common/log.hpp"
#include "common/math/update_rules.hpp"
#include "common/net/zmq/zmq_endpoint.hpp"
#include "common/system/memory.hpp"
#include "common/time.hpp"
#include "proto/config/job_state.hpp"
#include "server/job_view.hpp"
#include "server/shard_thread.hpp"
#include "server/tables/row_store.hpp"
#include "worker/client/client.hpp"

// Pulls and pushes rows of a table that is kept by rows: a worker process and one process for each
// server, rows drawn log-uniformly, so that few are named often (Zipf's law with exponent 1). The
// batches of distinct rows are made before. In turns with it: the shard's store alone, and plain
// copies of as many rows from and to places at random in memory.

using namespace taut;

namespace {

constexpr Duration kWait{60'000'000};
constexpr std::size_t kBatches = 64;

struct Options {
  std::uint64_t rows = 100'000'000;
  std::uint64_t width = 8;
  std::uint64_t batch = 16384;
  std::uint32_t buckets = 16;
  std::uint32_t servers = 1;
  std::uint64_t touch = 0;
  std::uint64_t max_rows = 12'000'000;
  std::string rule = "AdaGrad";
  double seconds = 2;
  int rounds = 5;
  double at_least = 0;  // rows a second
  bool shared_memory = true;
};

pb::ServerJob job_of(const Options& options) {
  pb::ServerJob job;
  job.set_job(7);
  job.set_revision(1);
  job.mutable_definition()->set_seed(42);
  pb::SolverParameter& solver = *job.mutable_definition()->mutable_solver_param();
  solver.set_type(options.rule);
  solver.set_base_lr(0.01F);
  solver.set_max_iter(1 << 30);
  pb::Member& member = *job.add_members();
  member.set_incarnation(100);
  member.set_leave_clock(Clock::never().value());
  auto& mode = *job.add_modes();
  mode.set_mode(pb::ModeChange::ON_ARRIVAL);
  job.set_slack(1);
  job.set_hold_from(Clock::never().value());
  for (std::uint32_t i = 0; i < options.servers; ++i) job.add_shards()->set_shard(i);
  return job;
}

TableSpec table_of(const Options& options) {
  TableSpec table;
  table.name = "rows";
  table.shape = {static_cast<std::int64_t>(options.rows), static_cast<std::int64_t>(options.width)};
  table.filler = {math::Filler::Kind::kUniform, -0.01F, 0.01F};
  table.rows = RowTable{options.buckets, options.max_rows, 0};
  return table;
}

/// A server in a separate process, until the pipe to it closes.
class ServerProcess {
 public:
  ServerProcess(const Options& options, std::uint32_t shard) {
    std::array<int, 2> to{};
    std::array<int, 2> from{};
    if (pipe(to.data()) != 0 || pipe(from.data()) != 0) throw std::runtime_error("pipe");
    process_ = fork();
    if (process_ == 0) {
      close(to[1]);
      close(from[0]);
      serve(options, shard, to[0], from[1]);
      _exit(0);
    }
    close(to[0]);
    close(from[1]);
    to_ = to[1];
    from_ = from[0];
    address_ = line();
  }
  ~ServerProcess() { stop(); }
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  [[nodiscard]] const std::string& address() const { return address_; }
  /// Resident bytes.
  [[nodiscard]] std::uint64_t resident() {
    (void)!write(to_, "m", 1);
    return std::stoull(line());
  }
  void stop() {
    if (process_ <= 0) return;
    close(to_);
    waitpid(process_, nullptr, 0);
    process_ = 0;
  }

 private:
  static void serve(const Options& options, std::uint32_t index, int in, int out) {
    keep_freed_memory();
    ZmqContext context{Security::insecure()};
    auto shard = server::ShardThread::start(context, "127.0.0.1:0", {.index = index},
                                            [](std::size_t, const server::ShardReport&) {});
    if (!shard) _exit(1);
    shard.value()->set_job(ShardId(index), server::make_job_view(job_of(options)).value());
    const auto say = [out](const std::string& text) {
      (void)!write(out, (text + "\n").data(), text.size() + 1);
    };
    say(shard.value()->address());
    char asked = 0;
    while (read(in, &asked, 1) == 1) say(std::to_string(resident_memory().value()));
    shard.value().reset();
  }
  std::string line() {
    std::string text;
    char one = 0;
    while (read(from_, &one, 1) == 1 && one != '\n') text.push_back(one);
    return text;
  }

  pid_t process_ = 0;
  int to_ = -1;
  int from_ = -1;
  std::string address_;
};

/// Distinct rows, ascending.
std::vector<std::uint64_t> draw(const Options& options, std::mt19937_64& random) {
  std::uniform_real_distribution<double> exponent(0, std::log(static_cast<double>(options.rows)));
  std::vector<std::uint64_t> rows;
  while (rows.size() < options.batch) {
    while (rows.size() < options.batch) {
      rows.push_back(static_cast<std::uint64_t>(std::exp(exponent(random))) % options.rows);
    }
    std::ranges::sort(rows);
    rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  }
  return rows;
}

double seconds_of(const std::function<void()>& work) {
  const TimePoint begin = steady_now();
  work();
  return static_cast<double>((steady_now() - begin).count()) * 1e-6;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// Rows a second of what does one batch.
double rate(const Options& options, const std::function<void(std::size_t)>& batch) {
  const TimePoint begin = steady_now();
  std::size_t done = 0;
  double took = 0;
  while (took < options.seconds) {
    batch(done++ % kBatches);
    took = static_cast<double>((steady_now() - begin).count()) * 1e-6;
  }
  return static_cast<double>(done * options.batch) / took;
}

/// A worker and its servers.
class Cluster {
 public:
  explicit Cluster(const Options& options)
      : options_(options), values_(options.batch * options.width) {
    const pb::ServerJob job = job_of(options);
    ClientOptions client;
    client.job = JobId(7);
    client.incarnation = Incarnation(100);
    client.job_hash = job_hash(job.definition());
    for (std::uint32_t i = 0; i < options.servers; ++i) {
      servers_.push_back(std::make_unique<ServerProcess>(options, i));
      client.shards.push_back({ShardId(i), servers_.back()->address()});
    }
    context_.emplace(Security::insecure());
    if (options.shared_memory) client.shared_memory = SharedArena::create().value();
    client_.emplace(context_->make_endpoint(), client);
    const auto opened = client_->open({table_of(options)}, kWait);
    if (!opened) throw std::runtime_error(opened.error().message);
  }

  /// A server has copies of the pipes to those before it: it ends first.
  ~Cluster() {
    client_.reset();
    while (!servers_.empty()) servers_.pop_back();
  }
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  /// Pulls the rows, and pushes gradients of them.
  void train(std::span<const std::uint64_t> rows, std::span<const float> gradients) {
    const std::span<float> into = std::span(values_).first(rows.size() * options_.width);
    check(client_->read_rows(TableId(0), clock_, rows, into));
    const auto read = client_->wait(TableId(0), clock_, kWait);
    if (!read) throw std::runtime_error(read.error().message);
    check(client_->push_rows(TableId(0), clock_, rows, gradients));
    clock_ = clock_.next();
  }
  void flush() { check(client_->flush(kWait)); }
  [[nodiscard]] std::uint64_t resident() {
    std::uint64_t bytes = 0;
    for (const auto& server : servers_) bytes += server->resident();
    return bytes;
  }

 private:
  static void check(const Result<void>& done) {
    if (!done) throw std::runtime_error(done.error().message);
  }

  const Options& options_;
  std::vector<std::unique_ptr<ServerProcess>> servers_;
  std::vector<float> values_;
  std::optional<ZmqContext> context_;
  std::optional<Client> client_;
  Clock clock_;
};

/// Pushes rows once each, from 0 on, and says what they take.
void touch(const Options& options) {
  Cluster cluster(options);
  const std::uint64_t before = cluster.resident();
  std::vector<std::uint64_t> rows(options.batch);
  const std::vector<float> gradients(options.batch * options.width, 1e-3F);
  const std::uint64_t step = options.rows / options.touch;
  const double took = seconds_of([&] {
    for (std::uint64_t first = 0; first < options.touch; first += options.batch) {
      rows.resize(std::min(options.batch, options.touch - first));
      for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = (first + i) * step;
      cluster.train(rows, std::span(gradients).first(rows.size() * options.width));
    }
    cluster.flush();
  });
  const double bytes = static_cast<double>(cluster.resident() - before);
  const std::size_t states = math::info_of(*math::rule_of_type(options.rule)).state_count;
  const double floats = static_cast<double>(options.width * (1 + states) * sizeof(float));
  fmt::print(
      "{} rows of {} touched at {} servers in {:.1f} s: {:.2f} GB resident, {:.1f} bytes a row, of "
      "which values and states are {:.0f}\n",
      options.touch, options.rows, options.servers, took, bytes * 1e-9,
      bytes / static_cast<double>(options.touch), floats);
}

/// Whether the rows through worker and servers reach options.at_least.
bool compare(const Options& options) {
  std::mt19937_64 random(7);
  std::vector<std::vector<std::uint64_t>> batches(kBatches);
  for (auto& batch : batches) batch = draw(options, random);
  const std::vector<float> gradients(options.batch * options.width, 1e-3F);

  Cluster cluster(options);
  const TableSpec table = table_of(options);
  const auto rule = *math::rule_of_type(options.rule);
  const auto states = static_cast<std::size_t>(math::info_of(rule).state_count);
  TableSpec one_bucket = table;
  one_bucket.rows->buckets = 1;
  server::RowStore store(one_bucket, 42, states);
  math::UpdateRule fields;
  fields.kind = rule;
  const math::UpdateStep step = math::make_step(fields, 0, 1, 1, 1, 0);
  std::vector<float> values(options.batch * options.width);
  BufferPool pool{Bytes(256ULL << 20U)};
  const auto through_store = [&](std::size_t i) {
    const auto& rows = batches[i];
    store.read(std::as_bytes(std::span(rows)), values);
    const Buffer payload = pool.acquire(rows.size() * 8 + gradients.size() * 4);
    std::memcpy(payload.data(), rows.data(), rows.size() * 8);
    std::memcpy(payload.data() + rows.size() * 8, gradients.data(), gradients.size() * 4);
    const Update update{
        Clock(0), Frame(payload), 0, {}, 1, true, static_cast<std::uint32_t>(rows.size())};
    const server::RowStore::Weighed weighed{&update, 1};
    store.apply(rule, step, {&weighed, 1}, 1, Clock(0));
  };
  // As many places as the batches name rows.
  std::vector<float> plain(kBatches * options.batch * options.width, 1);
  std::vector<std::uint32_t> places(kBatches * options.batch);
  std::iota(places.begin(), places.end(), 0);
  std::ranges::shuffle(places, random);
  const auto copies = [&](std::size_t i) {
    const std::size_t bytes = options.width * sizeof(float);
    for (std::size_t k = 0; k < options.batch; ++k) {
      const std::size_t place = places[i * options.batch + k] * options.width;
      std::memcpy(values.data() + k * options.width, plain.data() + place, bytes);
    }
    for (std::size_t k = 0; k < options.batch; ++k) {
      const std::size_t place = places[i * options.batch + k] * options.width;
      std::memcpy(plain.data() + place, values.data() + k * options.width, bytes);
    }
  };
  const auto trained = [&](std::size_t i) { cluster.train(batches[i], gradients); };
  for (std::size_t i = 0; i < kBatches; ++i) {
    trained(i);
    through_store(i);
    copies(i);
  }
  std::vector<double> served;
  std::vector<double> stored;
  std::vector<double> copied;
  for (int round = 0; round < options.rounds; ++round) {
    served.push_back(rate(options, trained));
    stored.push_back(rate(options, through_store));
    copied.push_back(rate(options, copies));
  }
  fmt::print(
      "{} servers, {}, {} values a row, batches of {}, {}, {} buckets: rows pulled and pushed\n",
      options.servers, options.shared_memory ? "shared memory" : "TCP", options.width,
      options.batch, options.rule, options.buckets);
  const auto line = [](const char* what, const std::vector<double>& rates) {
    fmt::print("  {:<34} {:6.2f} M/s  ({:.2f} to {:.2f})\n", what, median(rates) * 1e-6,
               *std::ranges::min_element(rates) * 1e-6, *std::ranges::max_element(rates) * 1e-6);
  };
  line("through worker and servers", served);
  line("a shard's store alone", stored);
  line("plain copies at random places", copied);
  if (median(served) >= options.at_least) return true;
  fmt::print("missed: {:.2f} M/s, at least {:.2f} M/s is required\n", median(served) * 1e-6,
             options.at_least * 1e-6);
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Rows pulled and pushed a second, and what rows take in memory.");
  app.add_option("--rows", options.rows, "Of the table");
  app.add_option("--width", options.width, "Values of a row");
  app.add_option("--batch", options.batch, "Rows of a pull and a push");
  app.add_option("--buckets", options.buckets, "Of the table");
  app.add_option("--servers", options.servers, "Processes");
  app.add_option("--max-rows", options.max_rows, "That are kept; 0: all");
  app.add_option("--touch", options.touch,
                 "Instead: touches this many rows once, and prints what they take");
  app.add_option("--rule", options.rule, "Solver type");
  app.add_option("--seconds", options.seconds, "Of a turn");
  app.add_option("--rounds", options.rounds, "Turns of each")->check(CLI::Range(1, 1000));
  app.add_option("--at-least", options.at_least,
                 "Exits with 1 if fewer rows a second go through worker and servers");
  app.add_flag("--shared-memory,!--no-shared-memory", options.shared_memory, "Between processes");
  CLI11_PARSE(app, argc, argv);
  log::Options quiet;
  quiet.level = "warn";
  (void)log::start(quiet);
  try {
    if (options.touch == 0) return compare(options) ? 0 : 1;
    touch(options);
  } catch (const std::exception& fault) {
    fmt::print(stderr, "bench_rows: {}\n", fault.what());
    return 1;
  }
  return 0;
}

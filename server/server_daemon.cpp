#include "server/server_daemon.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <random>
#include <thread>
#include <utility>

#include "common/failpoint.hpp"
#include "common/http/login.hpp"
#include "common/log.hpp"
#include "common/metrics/metrics.hpp"
#include "common/metrics/serve_metrics.hpp"
#include "common/net/ucx/ucx_endpoint.hpp"
#include "common/system/host_name.hpp"
#include "common/system/memory.hpp"
#include "common/system/stop_signal.hpp"
#include "common/timeline.hpp"
#include "common/unix_time.hpp"
#include "proto/config/cluster_config.hpp"
#include "proto/config/cluster_security.hpp"
#include "proto/control_message.hpp"
#include "proto/session/timeline_switch.hpp"
#include "proto/wire_version.hpp"
#include "server/coordinator/coordinator_config.hpp"
#include "server/coordinator/etcd/etcd_leadership.hpp"
#include "server/coordinator/etcd/etcd_store.hpp"
#include "server/coordinator/store/store.hpp"
#include "server/dashboard/server_metrics.hpp"

namespace taut::server {
namespace {

constexpr Duration kStep{100'000};
constexpr Duration kAskWait{2'000'000};
constexpr Duration kCoordinatorPause{5'000'000};

std::uint64_t new_session() {
  std::random_device source;
  return (std::uint64_t{source()} << 32U) | source();
}

/// The same error, with the setting by which a user avoids it.
Error with_setting(Error error, const char* setting) {
  error.message += fmt::format("; choose another with {} in the config", setting);
  return error;
}

}  // namespace

Result<std::unique_ptr<ServerDaemon>> ServerDaemon::start(const pb::ClusterConfig& config) {
  TAUT_TRY(Security security, daemon_security(config, config.server().name(), KeyRole::kServer));
  std::unique_ptr<ServerDaemon> daemon(new ServerDaemon(config, std::move(security)));
  TAUT_TRY(daemon->start_coordinator());
  daemon->start_checkpoints();
  TAUT_TRY(daemon->start_shards());
  TAUT_TRY(daemon->join_coordinator());
  TAUT_TRY(daemon->start_http());
  return daemon;
}

ServerDaemon::~ServerDaemon() {
  initial_values_.stop();
  // It answers through the shards, which end before it does.
  if (part_thread_) part_thread_->stop();
}

Result<void> ServerDaemon::join_coordinator() {
  if (shards_.empty()) return ok();
  ControlIdentity identity;
  identity.role = pb::ROLE_SERVER;
  identity.name = config_.server().name();
  identity.session = new_session();
  identity.host = host_name();
  identity.shard_addresses = shard_addresses();
  identity.data_security = data_security(config_);
  if (table_memory_) identity.table_limit_bytes = table_memory_->limit().value();
  ControlTimings timings;
  timings.heartbeat_interval = from_seconds(config_.heartbeat_interval_s());
  timings.wait_limit = from_seconds(config_.start_wait_s());
  // The coordinator that is hosted here, unless another one may lead.
  const bool is_one_of_several = !config_.server().coordinator().etcd().empty();
  TAUT_TRY(link_, ControlLink::open(
                      context_.make_endpoint(),
                      is_one_of_several ? config_.coordinator_address() : coordinator_address_,
                      identity, timings));
  NodeSelf self;
  self.coordinator = is_one_of_several ? config_.coordinator_address() : coordinator_address_;
  self.own_shards = shard_addresses();
  self.is_server = true;
  self.insecure = config_.insecure();
  self.keys_folder = config_.keys();
  self.add_memory = [memory = table_memory_](pb::NodeFacts& facts) {
    facts.set_table_limit_bytes(memory->limit().value());
    facts.set_table_bytes(memory->taken().value());
  };
  examiner_ = std::make_unique<NodeExaminer>(context_, std::move(self));
  return ok();
}

Result<void> ServerDaemon::start_coordinator() {
  // A restarted daemon listens on its earlier port, even if the system chose it.
  const pb::CoordinatorConfig& settings = config_.server().coordinator();
  if (coordinator_address_.empty()) {
    coordinator_address_ =
        settings.has_address() ? settings.address() : config_.coordinator_address();
  }
  if (!config_.server().has_coordinator()) return ok();
  std::unique_ptr<CoordinatorStore> store;
  std::shared_ptr<Leadership> leadership;
  if (!settings.etcd().empty()) {
    const EtcdOptions etcd{.members = {settings.etcd().begin(), settings.etcd().end()},
                           .prefix = settings.etcd_prefix()};
    leadership = std::make_shared<EtcdLeadership>(etcd, coordinator_address_,
                                                  from_seconds(settings.lease_s()));
    store = make_etcd_store(etcd, leadership);
  } else if (settings.state_folder().empty()) {
    store = make_memory_store();
  } else {
    TAUT_TRY(store, open_sqlite_store(settings.state_folder()));
  }
  CoordinatorThread::Config thread;
  thread.address = coordinator_address_;
  thread.leadership = std::move(leadership);
  thread.coordinator = coordinator_options(settings);
  thread.coordinator.session = new_session();
  thread.coordinator.data_security = data_security(config_);
  thread.run_folder = settings.run_folder();
  thread.make_part_client = [this] {
    return std::make_unique<PartClient>(context_.make_data_endpoint());
  };
  thread.tokens = context_.tokens();
  // A peer with a key can make it keep this much, and no more, of what it has not read yet.
  EndpointLimits limits;
  limits.frame = Bytes(kMaxControlBytes);
  limits.arrived_messages = 2;
  auto started = CoordinatorThread::start(context_.make_endpoint(limits), std::move(store), thread);
  if (!started && started.error().code == ErrorCode::kExists) {
    return with_setting(started.error(), "coordinator_address");
  }
  TAUT_TRY(std::shared_ptr<CoordinatorThread> running, std::move(started));
  coordinator_address_ = running->address();
  std::scoped_lock lock(mutex_);
  coordinator_ = std::move(running);
  return ok();
}

void ServerDaemon::start_checkpoints() {
  const auto on_part = [this](std::size_t shard, JobId job, ShardPart part) {
    {
      std::scoped_lock lock(mutex_);
      jobs_.take_part(shard, job, std::move(part));
    }
    if (link_) link_->wake();
  };
  const auto on_loaded = [this](const pb::ServerJob& job, Result<std::vector<ShardImages>> images) {
    {
      std::scoped_lock lock(mutex_);
      loaded_.emplace_back(job, std::move(images));
    }
    if (link_) link_->wake();
  };
  part_client_ = std::make_unique<PartClient>(context_.make_data_endpoint());
  const PartDisks disks{config_.server().name(), &part_store_, part_client_.get()};
  checkpoints_ =
      std::make_unique<CheckpointThread>(config_.server().shards(), on_part, on_loaded, disks);
  part_thread_ = std::make_unique<PartThread>(part_store_);
}

Result<void> ServerDaemon::start_shards() {
  const pb::ServerConfig& settings = config_.server();
  const std::uint64_t limit = machine_memory().value() / 10 * 9;
  table_memory_ = std::make_shared<TableMemory>(
      Bytes(settings.memory_limit() > 0 ? settings.memory_limit() : limit));
  for (std::uint32_t i = 0; i < settings.shards(); ++i) {
    const std::uint32_t port = settings.port_base() == 0 ? 0 : settings.port_base() + i;
    ShardThread::Options options;
    options.index = i;
    options.shared_memory = settings.shared_memory();
    options.memory = table_memory_;
    options.initial = &initial_values_;
    options.on_capture = [this](std::size_t index, ShardCapture capture) {
      checkpoints_->write(index, std::move(capture));
    };
    options.on_stock = [this](SpareStock stock) { checkpoints_->preallocate(std::move(stock)); };
    options.on_excess = [this](SpareExcess excess) { checkpoints_->free(std::move(excess)); };
    options.on_part_request = [this, i](ShardThread& shard, PeerId from, DataPartRequest request) {
      part_thread_->put({i, from}, std::move(request), [&shard, from](DataPartReply answer) {
        shard.reply(from, std::move(answer));
      });
    };
    const bool is_ucx = settings.transport() == pb::ServerConfig::UCX;
    const std::string address =
        (is_ucx ? std::string(kUcxScheme) : "") + join_address(settings.listen(), port);
    auto shard = ShardThread::start(context_, address, options,
                                    [this](std::size_t index, ShardReport report) {
                                      {
                                        std::scoped_lock lock(mutex_);
                                        jobs_.take_report(index, std::move(report));
                                      }
                                      if (link_) link_->wake();
                                    });
    if (!shard && shard.error().code == ErrorCode::kExists) {
      return with_setting(shard.error(), "server.port_base");
    }
    TAUT_TRY(auto started, std::move(shard));
    shards_.push_back(std::move(started));
  }
  return ok();
}

Result<void> ServerDaemon::start_http() {
  if (!config_.has_http()) return ok();
  const pb::HttpConfig& settings = config_.http();
  const bool hosts_coordinator = config_.server().has_coordinator();
  const std::string& address = hosts_coordinator ? settings.dashboard() : settings.metrics();
  TAUT_TRY(check_http_address(address, config_));
  http::Server::Options options;
  options.address = address;
  options.hosts.assign(settings.allowed_hosts().begin(), settings.allowed_hosts().end());
  TAUT_TRY(options.secret, http_secret(config_));
  if (settings.open_metrics()) options.open_paths = {metrics::kPath};
  const std::string name = config_.server().name();
  if (!hosts_coordinator) {
    auto started = metrics::serve(std::move(options), [this, name] {
      metrics::Scrape scrape;
      scrape.build_info(build_name(), "server", name);
      scrape.process();
      dashboard::add_server(scrape, name, figures());
      return scrape.text();
    });
    if (!started) return with_setting(started.error(), "http.metrics");
    metrics_ = std::move(started.value());
    return ok();
  }
  auto started = dashboard::Dashboard::start(
      {std::move(options), name},
      [this](const pb::ControlMessage& message) { return ask_coordinator(message); },
      [this] { return figures(); });
  if (!started) return with_setting(started.error(), "http.dashboard");
  dashboard_ = std::move(started.value());
  return ok();
}

Result<pb::ControlMessage> ServerDaemon::ask_coordinator(const pb::ControlMessage& message) {
  if (const auto running = coordinator()) return running->ask(message, kAskWait);
  return make_error(ErrorCode::kUnavailable, "the coordinator has stepped down; it starts again");
}

std::string ServerDaemon::http_address() const {
  if (dashboard_) return dashboard_->address();
  return metrics_ ? metrics_->address() : std::string();
}

Result<std::string> ServerDaemon::page_link() const {
  TAUT_TRY(const std::string secret, http_secret(config_));
  const std::string path = secret.empty() ? "/" : http::login_path(secret, unix_time_s());
  return fmt::format("http://{}{}", http_address(), path);
}

dashboard::ServerFigures ServerDaemon::figures() const {
  dashboard::ServerFigures figures;
  figures.table_bytes = table_memory_->taken().value();
  figures.table_limit_bytes = table_memory_->limit().value();
  for (const auto& shard : shards_) {
    const ShardQueues queues = shard->queues();
    figures.shards.push_back({shard->load(), queues.parked_reads, queues.held_updates,
                              queues.held_bytes, queues.postponed_updates, queues.rows,
                              queues.dropped_rows});
  }
  return figures;
}

std::vector<std::string> ServerDaemon::shard_addresses() const {
  std::vector<std::string> addresses;
  for (const auto& shard : shards_) addresses.push_back(shard->address());
  return addresses;
}

/// Whether the process must end now. A stop signal may give notice: its shards move to other
/// servers first.
bool ServerDaemon::must_end() {
  // A coordinator stays: only the shards were drained.
  if (is_drained_ && !config_.server().has_coordinator()) return true;
  if (stop_signal() == 0) return false;
  const Duration notice = from_seconds(config_.preemption_notice_s());
  const bool has_notice = stop_signal() == SIGTERM && notice > Duration::zero();
  const bool may_wait = has_notice && link_ && link_->session().accepted() && !is_drained_;
  if (!may_wait || stop_is_urgent()) return true;
  if (!leaves_by_) {
    log::info("leaving within {:g} s", seconds(notice));
    leaves_by_ = steady_now() + notice;
    link_->leave();
  }
  return steady_now() >= *leaves_by_;
}

Result<void> ServerDaemon::run() {
  while (!must_end()) {
    TAUT_TRY(watch_coordinator());
    begin_loaded_jobs();
    timeline::flush(steady_now());
    if (!link_) {
      std::this_thread::sleep_for(kStep);
      continue;
    }
    send_reports();
    for (const ControlEvent& event : link_->step(kStep)) {
      TAUT_TRY(handle(event));
    }
  }
  log::info("{}", is_drained_ ? "drained: no job needs this server" : "stopping");
  if (link_) {
    link_->say_goodbye(is_drained_ ? "it was drained" : "the server received a stop signal");
  }
  return ok();
}

/// A coordinator that stepped down is restarted from its store's real content. Shards continue:
/// they hold the parameters.
Result<void> ServerDaemon::watch_coordinator() {
  if (!config_.server().has_coordinator()) return ok();
  const std::shared_ptr<CoordinatorThread> running = coordinator();
  if (running && running->failure().empty()) return ok();
  if (running) {
    if (shards_.empty()) return make_error(ErrorCode::kIo, running->failure());
    log::error(
        "the coordinator has stepped down: {}; the shards continue, and it starts again "
        "from its state in {:g} s",
        running->failure(), seconds(kCoordinatorPause));
    std::scoped_lock lock(mutex_);
    coordinator_.reset();
    next_coordinator_start_ = steady_now() + kCoordinatorPause;
  }
  if (steady_now() < next_coordinator_start_) return ok();
  next_coordinator_start_ = steady_now() + kCoordinatorPause;
  if (auto started = start_coordinator(); !started) {
    log::error("the coordinator cannot start again: {}", started.error().message);
  }
  return ok();
}

std::shared_ptr<CoordinatorThread> ServerDaemon::coordinator() const {
  std::scoped_lock lock(mutex_);
  return coordinator_;
}

Result<void> ServerDaemon::handle(const ControlEvent& event) {
  using namespace control_event;
  if (const auto* job = std::get_if<pb::ServerJob>(&event)) {
    take_job(*job);
  } else if (std::holds_alternative<Accepted>(event)) {
    log::info("joined the coordinator at {}", coordinator_address_);
  } else if (const auto* refused = std::get_if<Refused>(&event)) {
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("the coordinator at {} refuses this server: {}",
                                  coordinator_address_, refused->reason));
  } else if (const auto* trace = std::get_if<Trace>(&event)) {
    switch_timeline(trace->on, config_.records(), config_.server().name());
  } else if (const auto* recorded = std::get_if<Recorded>(&event)) {
    records_.take(recorded->marks);
  } else if (const auto* check = std::get_if<Check>(&event)) {
    examiner_->begin(check->check, check->secret);
  } else if (std::holds_alternative<Leave>(event)) {
    log::info("drained by request: its shards go to other servers");
  } else if (std::holds_alternative<Drained>(event)) {
    if (!std::exchange(is_drained_, true) && config_.server().has_coordinator()) {
      log::info("drained: this process stays as the coordinator, without shards");
    }
  } else if (const auto* lost = std::get_if<DeclaredLost>(&event)) {
    log::warn("{}", lost->reason);
    std::vector<std::shared_ptr<const JobView>> over;
    {
      std::scoped_lock lock(mutex_);
      over = jobs_.clear();
    }
    resuming_.clear();
    for (const auto& view : over) {
      for (auto& shard : shards_) shard->set_job(ShardId(), view);
    }
  } else if (const auto* unreachable = std::get_if<Unreachable>(&event)) {
    return make_error(ErrorCode::kTimeout, fmt::format("no coordinator at {}: {}",
                                                       coordinator_address_, unreachable->reason));
  }
  return ok();
}

void ServerDaemon::take_job(const pb::ServerJob& job) {
  std::shared_ptr<const JobView> view;
  {
    std::scoped_lock lock(mutex_);
    view = jobs_.take_job(job);
  }
  if (!view) return;
  if (!job.finished()) records_.begin(JobId(job.job()));
  log::set_epoch(job.finished() ? -1 : static_cast<std::int64_t>(job.epoch()));
  log::info("job {}: revision {}{}", job.job(), job.revision(), job.finished() ? ", over" : "");
  if (job.finished()) {
    records_.end(JobId(job.job()));
    resuming_.erase(job.job());
  } else if (job.has_resume()) {
    const auto [entry, is_new] = resuming_.try_emplace(job.job(), view);
    if (is_new) checkpoints_->load(job, table_memory_);
    if (entry->second) {
      entry->second = view;
      return;
    }
  } else if (job.epoch() == 0) {
    initial_values_.read_ahead(view->weights);
  }
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    shards_[i]->set_job(ShardId(job.first_shard() + static_cast<std::uint32_t>(i)), view);
  }
}

void ServerDaemon::begin_loaded_jobs() {
  std::vector<std::pair<pb::ServerJob, Result<std::vector<ShardImages>>>> loaded;
  {
    std::scoped_lock lock(mutex_);
    loaded = std::exchange(loaded_, {});
  }
  for (auto& [job, images] : loaded) {
    const auto waiting = resuming_.find(job.job());
    if (waiting == resuming_.end() || !waiting->second) continue;  // ended meanwhile
    // The coordinator has forgotten this server and given the number to another job.
    if (waiting->second->submission != job.submission()) continue;
    if (!images) {
      std::scoped_lock lock(mutex_);
      jobs_.fail(JobId(job.job()), images.error().message);
      continue;
    }
    const auto view = std::exchange(waiting->second, nullptr);
    for (std::size_t i = 0; i < shards_.size(); ++i) {
      shards_[i]->set_job(ShardId(job.first_shard() + static_cast<std::uint32_t>(i)), view,
                          std::make_shared<ShardImages>(std::move(images.value()[i])));
    }
  }
}

void ServerDaemon::send_reports() {
  std::optional<pb::Heartbeat> news;
  {
    std::scoped_lock lock(mutex_);
    news = jobs_.take_news();
  }
  const TimePoint now = steady_now();
  if (!news && now < next_loads_) return;
  next_loads_ = now + from_seconds(config_.heartbeat_interval_s());
  if (news) heartbeat_ = std::move(*news);
  heartbeat_.clear_shards();
  for (const auto& shard : shards_) *heartbeat_.add_shards() = shard->load();
  heartbeat_.clear_records();
  records_.add_parts(heartbeat_);
  heartbeat_.clear_facts();
  examiner_->add_facts(heartbeat_);
  link_->report(heartbeat_, news.has_value());
  failpoint("heartbeat made");
}

}  // namespace taut::server

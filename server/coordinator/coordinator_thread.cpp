#include "server/coordinator/coordinator_thread.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <limits>
#include <stdexcept>
#include <utility>

#include "common/files/allowed_folders.hpp"
#include "common/log.hpp"
#include "common/unix_time.hpp"
#include "proto/control_message.hpp"
#include "proto/formats/resume_point.hpp"
#include "proto/rights.hpp"
#include "proto/session/record_sender.hpp"
#include "proto/wire_version.hpp"
#include "server/coordinator/checkpoints/checkpoint_settings.hpp"
#include "server/coordinator/data_secrets.hpp"

namespace taut {
namespace {

constexpr Duration kWarningInterval = std::chrono::seconds(1);
constexpr std::size_t kLogLines = 100;
constexpr Duration kStandByTick = std::chrono::milliseconds(20);
constexpr Duration kDeposedPause = std::chrono::milliseconds(500);
// How often a leader tries to read the state before it resigns.
constexpr int kLoads = 3;
// Stands for questions from within this process.
constexpr PeerId kInside(std::numeric_limits<std::uint64_t>::max());

}  // namespace

CoordinatorThread::CoordinatorThread(std::unique_ptr<Endpoint> endpoint,
                                     std::unique_ptr<CoordinatorStore> store, Config config)
    : config_(std::move(config)),
      endpoint_(std::move(endpoint)),
      store_(std::move(store)),
      runs_(config_.run_folder) {}

Result<std::unique_ptr<CoordinatorThread>> CoordinatorThread::start(
    std::unique_ptr<Endpoint> endpoint, std::unique_ptr<CoordinatorStore> store, Config config) {
  std::unique_ptr<CoordinatorThread> thread(
      new CoordinatorThread(std::move(endpoint), std::move(store), std::move(config)));
  if (!thread->config_.leadership) {
    TAUT_TRY(thread->recover());
  }
  // The endpoint belongs to the thread that serves it, which also binds it.
  std::promise<Result<std::string>> bound;
  std::future<Result<std::string>> address = bound.get_future();
  thread->thread_ = std::thread([self = thread.get(), bound = std::move(bound)]() mutable {
    Result<std::string> result = self->endpoint_->bind(self->config_.address);
    const bool is_bound = result.has_value();
    bound.set_value(std::move(result));
    if (is_bound) self->run();
  });
  // Binding is a system call and does not wait.
  TAUT_TRY(thread->address_, address.get());
  return thread;
}

CoordinatorThread::~CoordinatorThread() {
  stop();
}

void CoordinatorThread::stop() {
  if (!thread_.joinable()) return;
  stopping_ = true;
  questions_.close();
  endpoint_->wake();
  thread_.join();
}

std::string CoordinatorThread::failure() const {
  std::scoped_lock lock(failure_mutex_);
  return failure_;
}

Result<void> CoordinatorThread::recover() {
  TAUT_TRY(recovered_, store_->load());
  // Even if the store is new: the folders of earlier jobs keep their numbers.
  pb::StoredCounters& counters = recovered_.counters;
  counters.set_next_job(std::max(counters.next_job(), runs_.next_job()));
  return ok();
}

bool CoordinatorThread::leads() const {
  return !deposed_ && (!config_.leadership || config_.leadership->term());
}

void CoordinatorThread::run() {
  try {
    keeper_ = std::make_unique<CheckpointKeeper>(
        [this] { endpoint_->wake(); },
        config_.make_part_client ? config_.make_part_client() : nullptr);
    if (!config_.leadership) {
      lead();
      return;
    }
    int failures = 0;
    while (!stopping_) {
      stand_by();
      if (stopping_) break;
      deposed_ = false;
      if (const auto recovered = recover(); recovered) {
        failures = 0;
        note({{}, "has become the leader"});
        lead();
        note({{}, "is no longer the leader"});
      } else {
        warn(fmt::format("the state cannot be read: {}", recovered.error().message));
        // Processes are answered in the pause, as while standing by.
        deposed_ = true;
        if (++failures % kLoads == 0) config_.leadership->resign();
      }
    }
  } catch (const std::exception& failure) {
    log::error("the coordinator steps down: {}", failure.what());
    std::scoped_lock lock(failure_mutex_);
    failure_ = failure.what();
  }
}

void CoordinatorThread::lead() {
  for (const auto& [id, job] : recovered_.jobs) runs_.begin(job, {});
  CoordinatorOptions options = config_.coordinator;
  // To other processes, each term is a restarted coordinator.
  if (config_.leadership) {
    options.session += static_cast<std::uint64_t>(config_.leadership->term().value_or(0));
  }
  Coordinator coordinator(options, std::exchange(recovered_, {}), steady_now());
  saves_.emplace(*store_);
  serve(coordinator);
}

pb::ControlMessage CoordinatorThread::redirection(std::uint64_t request) const {
  pb::ControlMessage message;
  message.set_request(request);
  pb::HelloReply& reply = *message.mutable_hello_reply();
  reply.set_wire_version(kWireVersion);
  reply.set_build(build_name());
  reply.set_stands_by(true);
  const std::string leader = config_.leadership->leader();
  // Its own address stems from an earlier term, and would redirect to itself.
  const bool leads_elsewhere = !leader.empty() && leader != config_.address;
  if (leads_elsewhere) reply.set_leader(leader);
  reply.set_reason(leads_elsewhere ? "this coordinator stands by for the one at " + leader
                                   : "this coordinator stands by, and none leads yet");
  return message;
}

/// Redirects processes until this coordinator leads or is stopped.
void CoordinatorThread::stand_by() {
  stands_by_ = true;
  TimePoint waits_until = steady_now();
  while (!stopping_ && !(leads() && steady_now() >= waits_until)) {
    // A deposed leader waits until its leadership object knows of the loss.
    if (std::exchange(deposed_, false)) waits_until = steady_now() + kDeposedPause;
    while (auto question = questions_.pop(Duration::zero())) question->reset();
    std::optional<Incoming> incoming = endpoint_->receive(kStandByTick);
    if (!incoming) continue;
    const Result<pb::ControlMessage> message = decode_control(incoming->message);
    if (!message) continue;
    const auto answer = redirection(message.value().request());
    [[maybe_unused]] const auto sent = endpoint_->send(incoming->from, encode(answer));
  }
  stands_by_ = false;
}

void CoordinatorThread::serve(Coordinator& coordinator) {
  TimePoint next_tick = steady_now();
  while (!stopping_ && leads()) {
    if (steady_now() >= next_tick) {
      for (const PeerId peer : endpoint_->take_closed()) {
        coordinator.note_closed(peer, steady_now());
      }
      carry_out(coordinator.tick(steady_now()));
      next_tick = steady_now() + config_.tick;
    }
    answer_questions(coordinator);
    for (const CheckpointKeeper::Done& done : keeper_->take_done()) {
      for (const Note& line : done.notes) note(line);
      carry_out(coordinator.handle_done(done.task, done.error, steady_now()));
    }
    const Duration wait = std::max(next_tick - steady_now(), Duration::zero());
    std::optional<Incoming> incoming = endpoint_->receive(wait);
    if (!incoming) {
      coordinator.note_idle(steady_now());
      continue;
    }
    Result<pb::ControlMessage> message = decode_control(incoming->message);
    if (message) {
      if (refuse_sender(*incoming, message.value())) continue;
      name_user(*incoming, message.value());
      if (const auto answer = answer_outside(message.value())) {
        [[maybe_unused]] const auto sent = endpoint_->send(incoming->from, encode(*answer));
        continue;
      }
      origin_ = message.value().submit().origin();
      CoordinatorOutput output = coordinator.handle(incoming->from, message.value(), steady_now());
      if (message.value().has_heartbeat()) {
        const auto marks = keep(incoming->from, message.value().heartbeat(), coordinator);
        for (CoordinatorMessage& answer : output.messages) {
          if (!answer.message.has_heartbeat_reply()) continue;
          for (const pb::RecordMark& mark : marks) {
            *answer.message.mutable_heartbeat_reply()->add_records() = mark;
          }
        }
      }
      carry_out(std::move(output));
    } else {
      warn(
          fmt::format("dropped from peer {}: {}", incoming->from.value(), message.error().message));
    }
  }
}

bool CoordinatorThread::refuse_sender(const Incoming& incoming, const pb::ControlMessage& message) {
  const std::string reason = refusal_of(incoming.sender.get(), message);
  if (reason.empty()) return false;
  warn(fmt::format("refused a message of peer {}: {}", incoming.from.value(), reason));
  if (const auto answer = refuse(message, reason)) {
    [[maybe_unused]] const auto sent = endpoint_->send(incoming.from, encode(*answer));
  }
  return true;
}

/// Sets a job's user to the key's holder, whatever the message says; without keys, it is kept.
void CoordinatorThread::name_user(const Incoming& incoming, pb::ControlMessage& message) {
  if (!message.has_submit() || incoming.sender == nullptr) return;
  message.mutable_submit()->set_user(incoming.sender->name);
}

void CoordinatorThread::carry_out(CoordinatorOutput output) {
  keep(output.changes);
  for (const Note& line : output.notes) note(line);
  SaveBeforeSend::Released released = saves_->take(std::move(output));
  unsaved_ = released.failure ? released.failure->message : "";
  if (released.failure) take_failure(*released.failure);
  for (CheckpointTask& task : released.tasks) keeper_->put(std::move(task));
  for (CoordinatorMessage& outgoing : released.messages) {
    if (outgoing.message.has_status_reply()) add_times(*outgoing.message.mutable_status_reply());
    if (outgoing.message.has_hello_reply()) {
      outgoing.message.mutable_hello_reply()->set_unix_time_s(unix_time_s());
      outgoing.message.mutable_hello_reply()->set_unsaved(unsaved_);
    }
    if (outgoing.to == kInside) {
      if (asking_) asking_->answer.set_value(std::move(outgoing.message));
      asking_.reset();
      continue;
    }
    if (const std::string key = endpoint_->key_of(outgoing.to); config_.tokens && !key.empty()) {
      add_secret(outgoing.message, *config_.tokens, key);
    }
    Result<void> sent = endpoint_->send(outgoing.to, encode(outgoing.message));
    if (!sent) log::debug("not sent: {}", sent.error().message);
  }
}

void CoordinatorThread::take_failure(const Error& failure) {
  if (failure.code == ErrorCode::kClosed) {
    if (!config_.leadership) throw std::runtime_error(failure.message);
    log::warn("{}", failure.message);
    deposed_ = true;
    return;
  }
  warn(fmt::format("the coordinator's state cannot be saved, so nothing new is decided: {}",
                   failure.message));
}

Result<pb::ControlMessage> CoordinatorThread::ask(const pb::ControlMessage& request,
                                                  Duration wait) {
  auto question = std::make_shared<Question>();
  question->request = request;
  std::future<pb::ControlMessage> answer = question->answer.get_future();
  if (!questions_.push(std::move(question), wait)) {
    return make_error(ErrorCode::kClosed, "the coordinator is ending, or is too busy to answer");
  }
  endpoint_->wake();
  if (answer.wait_for(wait) != std::future_status::ready) {
    return make_error(ErrorCode::kTimeout,
                      fmt::format("the coordinator did not answer within {:g} s", seconds(wait)));
  }
  try {
    return answer.get();
  } catch (const std::future_error&) {
    if (stands_by_) {
      return make_error(ErrorCode::kUnavailable, redirection(0).hello_reply().reason());
    }
    return make_error(ErrorCode::kUnavailable,
                      "the coordinator cannot save its state, so it answers no request");
  }
}

void CoordinatorThread::answer_questions(Coordinator& coordinator) {
  while (auto question = questions_.pop(Duration::zero())) {
    asking_ = *std::move(question);
    if (const auto answer = answer_outside(asking_->request)) {
      asking_->answer.set_value(*answer);
      asking_.reset();
      continue;
    }
    origin_ = asking_->request.submit().origin();
    carry_out(coordinator.handle(kInside, asking_->request, steady_now()));
    asking_.reset();
  }
}

std::optional<pb::ControlMessage> CoordinatorThread::answer_outside(pb::ControlMessage& message) {
  if (!message.has_log_request()) return settle_submission(message);
  pb::ControlMessage answer;
  answer.set_request(message.request());
  *answer.mutable_log_reply() = runs_.log(message.log_request());
  return answer;
}

std::optional<pb::ControlMessage> CoordinatorThread::settle_submission(
    pb::ControlMessage& message) const {
  if (!message.has_submit()) return std::nullopt;
  pb::Submit& submit = *message.mutable_submit();
  const auto refused = [&message](std::string reason) {
    pb::ControlMessage refusal;
    refusal.set_request(message.request());
    refusal.mutable_submit_reply()->set_error(std::move(reason));
    return refusal;
  };
  const pb::Job& definition = submit.definition();
  const std::size_t bytes = definition.ByteSizeLong();
  if (bytes > store_->max_definition()) {
    return refused(
        fmt::format("the job's definition has {} bytes; the coordinator's store takes {}", bytes,
                    store_->max_definition()));
  }
  if (definition.has_checkpoint() || definition.solver_param().snapshot() > 0) {
    const auto place = check_place(checkpoint_folder(definition));
    if (!place) return refused("the job's checkpoints: " + place.error().message);
  }
  submit.clear_resume();
  if (!definition.has_resume()) return std::nullopt;
  // This blocks heartbeats.
  const auto resume = resume_point(definition.resume());
  if (!resume) return refused(resume.error().message);
  *submit.mutable_resume() = resume.value();
  return std::nullopt;
}

void CoordinatorThread::keep(const CoordinatorChanges& changes) {
  for (const auto& [id, job] : changes.jobs) {
    runs_.begin(job, origin_);
    if (job.state() >= pb::DONE && !job.closing()) runs_.end(job);
  }
  for (const JobId job : changes.forgotten) runs_.forget(job);
}

std::vector<pb::RecordMark> CoordinatorThread::keep(PeerId from, const pb::Heartbeat& heartbeat,
                                                    const Coordinator& coordinator) {
  std::vector<pb::RecordMark> marks;
  for (const pb::RecordPart& part : heartbeat.records()) {
    const JobId job(part.job());
    const std::string process = coordinator.process_of(from, job);
    pb::RecordMark& mark = marks.emplace_back();
    mark.set_job(part.job());
    mark.set_kind(part.kind());
    mark.set_end(process.empty() ? kRecordIsComplete : runs_.take(job, process, part));
  }
  return marks;
}

void CoordinatorThread::note(const Note& note) {
  log::info("{}", note.text);
  if (note.job != JobId()) runs_.note(note.job, note.text);
  pb::LogLine& line = log_.emplace_back();
  line.set_unix_time_s(unix_time_s());
  line.set_text(note.text);
  if (log_.size() > kLogLines) log_.pop_front();
}

void CoordinatorThread::add_times(pb::StatusReply& status) const {
  for (const pb::LogLine& line : log_) *status.add_log() = line;
  status.set_unix_time_s(unix_time_s());
  status.set_unsaved(unsaved_);
  for (pb::JobStatus& job : *status.mutable_jobs()) {
    job.set_run_folder(runs_.place_of(JobId(job.job())));
  }
}

void CoordinatorThread::warn(const std::string& text) {
  const TimePoint now = steady_now();
  if (now < next_warning_) {
    ++quiet_warnings_;
    return;
  }
  if (quiet_warnings_ > 0) {
    log::warn("{} (and {} more warnings)", text, std::exchange(quiet_warnings_, 0));
  } else {
    log::warn("{}", text);
  }
  next_warning_ = now + kWarningInterval;
}

}  // namespace taut

#include "server/coordinator/etcd/etcd_store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "server/coordinator/etcd/etcd_number.hpp"
#include "server/coordinator/store/check_record.hpp"

namespace taut {
namespace {

using Json = nlohmann::json;

// By default etcd takes requests of up to 1.5 MiB, and base64 turns 3 bytes into 4; the rest is for
// records that change together with the definition.
constexpr std::size_t kMaxDefinition = 768ULL << 10U;
constexpr std::size_t kMaxOperations = 128;  // in a transaction, by default
// Keys that are read at once: each may be a large definition, and the client's wait is limited.
constexpr int kPage = 16;
// Base64 in a transaction of several jobs; one job alone may have more.
constexpr std::size_t kMaxText = 1024ULL << 10U;

/// Operations that are executed together or not at all.
struct Batch {
  Json operations = Json::array();
  std::size_t text = 0;           // bytes that they put
  std::map<JobId, bool> defined;  // the definitions among them, as in EtcdStore

  void add(Batch other) {
    for (Json& one : other.operations) operations.push_back(std::move(one));
    text += other.text;
    defined.merge(other.defined);
  }
  /// Whether these, and the fence, fit in as well.
  [[nodiscard]] bool has_room_for(const Batch& other) const {
    return operations.size() + other.operations.size() < kMaxOperations &&
           text + other.text <= kMaxText;
  }
};

/// Jobs that must be saved together, such as a job and the one that continues it: if only one were
/// saved, the next coordinator would continue the job twice, or not at all.
std::vector<std::vector<JobId>> groups_of(const std::map<JobId, pb::StoredJob>& jobs) {
  std::vector<std::vector<JobId>> groups;
  std::map<JobId, std::size_t> group_of;
  for (const auto& [id, job] : jobs) {
    const auto [group, is_first] = group_of.try_emplace(id, groups.size());
    if (is_first) groups.emplace_back();
    groups[group->second].push_back(id);
    // Its number is higher, so it follows.
    if (job.restarted_as() != 0) group_of[JobId(job.restarted_as())] = group->second;
  }
  // Those that have ended go first: their workers may be other jobs' members in the same step.
  std::stable_partition(groups.begin(), groups.end(), [&jobs](const std::vector<JobId>& group) {
    return jobs.at(group.front()).state() >= pb::DONE;
  });
  return groups;
}

class EtcdStore final : public CoordinatorStore {
 public:
  EtcdStore(const EtcdOptions& options, std::shared_ptr<const Leadership> leadership)
      : prefix_(options.prefix + "/"), leadership_(std::move(leadership)), client_(options) {}

  Result<CoordinatorRecords> load() override;
  Result<void> save(const CoordinatorChanges& changes) override;
  [[nodiscard]] std::size_t max_definition() const override { return kMaxDefinition; }

 private:
  Result<std::string> load_page(const std::string& from, std::int64_t& revision,
                                CoordinatorRecords& records);
  Result<void> take(const std::string& name, const std::string& value, std::int64_t revision,
                    CoordinatorRecords& records);
  void put(const std::string& name, const std::string& value, Batch& batch) const;
  void drop(const std::string& name, Batch& batch) const;
  void put_job(JobId id, const pb::StoredJob& job, Batch& batch) const;
  [[nodiscard]] std::vector<Batch> batches_of(const CoordinatorChanges& changes) const;
  Result<void> commit(const Json& operations);
  [[nodiscard]] Error over() const {
    return make_error(ErrorCode::kClosed, "another coordinator leads: its term has begun");
  }

  const std::string prefix_;
  const std::shared_ptr<const Leadership> leadership_;
  EtcdClient client_;
  std::int64_t term_ = 0;
  std::int64_t saves_ = 0;      // the number of the newest attempted save
  std::int64_t fenced_at_ = 0;  // the revision of PREFIX/fence; 0: it does not exist
  /// Jobs whose definition is stored, and whether it includes the chosen compression.
  std::map<JobId, bool> defined_;
};

Result<CoordinatorRecords> EtcdStore::load() {
  const auto term = leadership_->term();
  if (!term) return over();
  term_ = *term;
  fenced_at_ = 0;
  defined_.clear();
  CoordinatorRecords records;
  std::string from = prefix_;
  std::int64_t revision = 0;
  while (!from.empty()) {
    TAUT_TRY(from, load_page(from, revision, records));
  }
  for (const auto& [id, job] : records.jobs) {
    const std::string damage = damage_of(id, job);
    if (damage.empty()) continue;
    return invalid(
        fmt::format("etcd: the record {}jobs/{} is damaged: {}; restore etcd, or name "
                    "another prefix",
                    prefix_, id.value(), damage));
  }
  return records;
}

/// Reads some keys from `from` on, all pages as of one revision. Returns the first key of the next
/// page; empty if this was the last one.
Result<std::string> EtcdStore::load_page(const std::string& from, std::int64_t& revision,
                                         CoordinatorRecords& records) {
  // The end of the keys with the prefix: '0' follows '/'.
  std::string end = prefix_;
  end.back() = '0';
  const auto found = client_.call("/v3/kv/range", {{"key", to_base64(from)},
                                                   {"range_end", to_base64(end)},
                                                   {"limit", std::to_string(kPage)},
                                                   {"revision", std::to_string(revision)}});
  if (!found) return make_error(ErrorCode::kIo, found.error().message);
  if (revision == 0) {
    revision = etcd_number(found.value().value("header", Json::object()), "revision");
  }
  std::string last;
  for (const Json& pair : found.value().value("kvs", Json::array())) {
    TAUT_TRY(last, from_base64(pair.value("key", "")));
    TAUT_TRY(const std::string value, from_base64(pair.value("value", "")));
    if (!last.starts_with(prefix_)) continue;
    TAUT_TRY(take(last.substr(prefix_.size()), value, etcd_number(pair, "mod_revision"), records));
  }
  // The next possible key is the last one with a zero byte appended.
  if (last.empty() || !found.value().value("more", false)) return std::string();
  return last + '\0';
}

Result<void> EtcdStore::take(const std::string& name, const std::string& value,
                             std::int64_t revision, CoordinatorRecords& records) {
  const auto damaged = [&] {
    return invalid(fmt::format("etcd: the record {}{} is damaged", prefix_, name));
  };
  const auto slash = name.find('/');
  const std::string kind = name.substr(0, slash);
  if (kind == "fence") {
    fenced_at_ = revision;
    saves_ = std::max(saves_, std::atol(value.c_str()));
  } else if (kind == "counters") {
    if (!records.counters.ParseFromString(value)) return damaged();
  } else if (slash != std::string::npos && (kind == "jobs" || kind == "definitions")) {
    const JobId id(std::strtoull(name.c_str() + slash + 1, nullptr, 10));
    pb::StoredJob& job = records.jobs[id];
    if (kind == "definitions") {
      defined_[id] = false;
      if (!job.mutable_definition()->ParseFromString(value)) return damaged();
    } else if (!job.MergeFromString(value)) {
      return damaged();
    }
  }
  return ok();
}

void EtcdStore::put(const std::string& name, const std::string& value, Batch& batch) const {
  std::string text = to_base64(value);
  batch.text += text.size();
  batch.operations.push_back(
      {{"requestPut", {{"key", to_base64(prefix_ + name)}, {"value", std::move(text)}}}});
}

void EtcdStore::drop(const std::string& name, Batch& batch) const {
  batch.operations.push_back({{"requestDeleteRange", {{"key", to_base64(prefix_ + name)}}}});
}

void EtcdStore::put_job(JobId id, const pb::StoredJob& job, Batch& batch) const {
  const auto defined = defined_.find(id);
  if (defined == defined_.end() || defined->second != job.has_compression()) {
    put(fmt::format("definitions/{}", id.value()), job.definition().SerializeAsString(), batch);
    batch.defined[id] = job.has_compression();
  }
  pb::StoredJob record = job;
  record.clear_definition();
  put(fmt::format("jobs/{}", id.value()), record.SerializeAsString(), batch);
}

/// The counters are in the first batch: no number is reused, whichever batch is the last one saved.
std::vector<Batch> EtcdStore::batches_of(const CoordinatorChanges& changes) const {
  std::vector<Batch> batches(1);
  const auto add = [&batches](Batch batch) {
    if (!batches.back().has_room_for(batch)) batches.emplace_back();
    batches.back().add(std::move(batch));
  };
  if (changes.counters) put("counters", changes.counters->SerializeAsString(), batches.back());
  for (const std::vector<JobId>& group : groups_of(changes.jobs)) {
    Batch batch;
    for (const JobId id : group) put_job(id, changes.jobs.at(id), batch);
    add(std::move(batch));
  }
  for (const JobId id : changes.forgotten) {
    Batch batch;
    drop(fmt::format("jobs/{}", id.value()), batch);
    drop(fmt::format("definitions/{}", id.value()), batch);
    add(std::move(batch));
  }
  return batches;
}

/// After a failure some of the changes may be stored, and the next save adds the rest: none of them
/// is sent before. A coordinator that takes over in between finds some jobs in their old state.
Result<void> EtcdStore::save(const CoordinatorChanges& changes) {
  for (Batch& batch : batches_of(changes)) {
    put("fence", std::to_string(++saves_), batch);
    TAUT_TRY(commit(batch.operations));
    for (const auto& [id, has_compression] : batch.defined) defined_[id] = has_compression;
  }
  for (const JobId id : changes.forgotten) defined_.erase(id);
  return ok();
}

/// Tries again if an earlier save of ours was made after all.
Result<void> EtcdStore::commit(const Json& operations) {
  constexpr int kTries = 3;
  const std::string leader = to_base64(prefix_ + "leader");
  const std::string fence = to_base64(prefix_ + "fence");
  const Json reads = {{{"requestRange", {{"key", leader}}}}, {{"requestRange", {{"key", fence}}}}};
  for (int i = 0; i < kTries; ++i) {
    const Json leads = {{"key", leader},
                        {"target", "CREATE"},
                        {"result", "EQUAL"},
                        {"create_revision", std::to_string(term_)}};
    const Json is_next = {{"key", fence},
                          {"target", "MOD"},
                          {"result", "EQUAL"},
                          {"mod_revision", std::to_string(fenced_at_)}};
    const auto answer = client_.call(
        "/v3/kv/txn", {{"compare", {leads, is_next}}, {"success", operations}, {"failure", reads}});
    if (!answer) return make_error(ErrorCode::kIo, answer.error().message);
    if (answer.value().value("succeeded", false)) {
      fenced_at_ = etcd_number(answer.value().at("header"), "revision");
      return ok();
    }
    const Json found = answer.value().value("responses", Json::array());
    const auto pair = [&found](std::size_t index) {
      const Json none = Json::array();
      if (found.size() <= index) return Json();
      const Json pairs = found[index].value("response_range", Json::object()).value("kvs", none);
      return pairs.empty() ? Json() : pairs[0];
    };
    if (pair(0).is_null() || etcd_number(pair(0), "create_revision") != term_) return over();
    if (pair(1).is_null()) return make_error(ErrorCode::kIo, "etcd: the fence is missing");
    TAUT_TRY(const std::string newest, from_base64(pair(1).value("value", "")));
    fenced_at_ = etcd_number(pair(1), "mod_revision");
    // This save was made already, and its answer was lost.
    if (newest == std::to_string(saves_)) return ok();
  }
  return make_error(ErrorCode::kIo, "etcd: other saves intervened several times");
}

}  // namespace

std::unique_ptr<CoordinatorStore> make_etcd_store(const EtcdOptions& options,
                                                  std::shared_ptr<const Leadership> leadership) {
  return std::make_unique<EtcdStore>(options, std::move(leadership));
}

}  // namespace taut

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lab/contract/contract.hpp"
#include "lab/contract/history.hpp"
#include "lab/rows/row_model.hpp"
#include "lab/toy_compression.hpp"
#include "lab/toy_job.hpp"

namespace taut::sim {

/// Models one slice by section 2 of the design, from what its shard was sent, and compares the
/// model with the shard's answers. It shares no code with the shard.
class SliceOracle {
 public:
  /// rows  of a bucket
  SliceOracle(TableId table, SliceId slice, std::optional<RowModel> rows = {});

  void take_view(const Contract& contract);
  /// A view may omit a member only once V has reached the clock at which it left.
  [[nodiscard]] std::optional<Broken> forgotten_early(const Contract& contract) const;
  /// Followers have confirmed more: reads that this makes true must be answered.
  void take_confirmation(const Contract& contract) { note_due(contract); }
  /// rows  that the request names, in a bucket
  [[nodiscard]] std::optional<Broken> request(const Event& item,
                                              std::span<const std::uint64_t> rows,
                                              const Contract& contract);
  [[nodiscard]] std::optional<Broken> reply(const Event& item, std::span<const float> values,
                                            const Contract& contract);
  /// The shard has captured this for a checkpoint: values, then done(w).
  /// rows  that are kept, in a bucket
  [[nodiscard]] std::optional<Broken> captured(const Event& event, std::span<const float> values,
                                               std::span<const std::uint64_t> rows,
                                               const Contract& contract) const;
  /// Whether a checkpoint order arrived too late for this slice.
  [[nodiscard]] bool missed(std::uint32_t number) const {
    return aside_.number == number && aside_.missed;
  }
  /// The shard has sent all replies to this step.
  [[nodiscard]] std::optional<Broken> end_step();

  [[nodiscard]] std::int64_t done(std::uint32_t worker) const;
  [[nodiscard]] std::int64_t version() const { return version_; }
  [[nodiscard]] const std::vector<float>& values() const { return values_; }
  [[nodiscard]] const std::optional<RowModel>& rows() const { return rows_; }

 private:
  struct Waiting {
    std::int64_t clock = 0;
    std::int64_t slack = 0;  // the largest in force since it arrived
    PeerId peer;
    bool due = false;       // true now: must be answered in this step
    bool answered = false;  // in this step
    std::vector<std::uint64_t> rows = {};
  };
  struct Base {  // the newest answer to a worker
    std::int64_t clock = 0;
    std::int64_t applications = 0;
    std::vector<float> values;
  };
  struct Unacknowledged {
    PeerId peer;
    std::int64_t clock = 0;
    bool paid = false;
  };
  /// What a checkpoint must hold of this slice.
  struct Aside {
    std::uint64_t number = 0;
    bool due = false;
    bool missed = false;
    std::int64_t version = 0;
    std::vector<float> values;
    std::optional<RowModel> rows;
    std::map<std::uint32_t, std::int64_t> done;
    std::map<std::uint32_t, std::int64_t> joined;  // where each member's updates start
    std::map<std::uint32_t, std::int64_t> least;   // how many of them it needs
    bool exact = false;                            // and no more
  };
  struct Refusal {
    PeerId peer;
    std::int64_t clock = 0;
    std::vector<DataItem::Refusal> kinds;
    bool paid = false;
  };

  struct Pushed {  // an update that was accepted
    std::int64_t clock = 0;
    std::uint32_t worker = 0;
  };

  bool push(const Event& item, const Contract& contract);
  void read(const Event& item, std::span<const std::uint64_t> rows, const Contract& contract);
  void accept(std::uint32_t worker, const Event& item, const Contract& contract);
  [[nodiscard]] std::optional<Broken> check_pushed(const Event& item,
                                                   std::span<const std::uint64_t> rows) const;
  void raise_version(const Contract& contract);
  [[nodiscard]] bool is_over(std::int64_t clock, const Contract& contract) const;
  [[nodiscard]] Broken broken(const char* rule, std::string what) const;
  [[nodiscard]] static bool same_bits(std::span<const float> a, std::span<const float> b);

  // oracle_updates.cpp
  void apply_ready(const Contract& contract);
  /// The next updates that are applied as one; empty if others must arrive first.
  [[nodiscard]] std::vector<Pushed> ready(const Contract& contract) const;
  [[nodiscard]] std::vector<Pushed> ready_of_buffer(const Contract& contract) const;
  void apply(const std::vector<Pushed>& updates, const Contract& contract);
  /// The initial values of the first member become the slice's; those of others change nothing.
  void seed(std::uint32_t worker);
  [[nodiscard]] float weight_of(const Pushed& of) const;
  void descend(const std::vector<Pushed>& updates, const Contract& contract);
  void descend_rows(const std::vector<Pushed>& updates, const Contract& contract);
  [[nodiscard]] float scale_of(const std::vector<Pushed>& updates, const Contract& contract) const;
  /// Weighs one of `together` late updates as the job's policies say.
  void weigh(const Pushed& of, const Contract& contract, std::size_t together,
             std::vector<float>& update);
  void note_base(std::uint32_t worker, std::int64_t clock, const Contract& contract);

  // oracle_reads.cpp
  [[nodiscard]] bool is_true(std::uint32_t worker, const Waiting& read,
                             const Contract& contract) const;
  void note_due(const Contract& contract);
  /// Lets a waiting read be answered if a larger slack of its range may have let it through.
  void let_through(const Event& item, const Contract& contract);
  [[nodiscard]] std::optional<Broken> check_value(const Event& item, std::span<const float> values,
                                                  const Contract& contract);
  [[nodiscard]] Broken not_answerable(const Event& item, const Contract& contract) const;
  [[nodiscard]] std::optional<Broken> check_counts(std::uint32_t worker, const Waiting& read,
                                                   std::span<const float> values,
                                                   const Contract& contract) const;
  [[nodiscard]] std::optional<Broken> check_bits(std::uint32_t worker, std::int64_t clock,
                                                 std::span<const float> values,
                                                 const Contract& contract) const;
  [[nodiscard]] std::optional<Broken> check_rows(const Waiting& read, std::uint32_t worker,
                                                 std::span<const float> values) const;

  // oracle_replies.cpp
  void note_follows(const Contract& contract);
  [[nodiscard]] std::optional<Broken> check_follow(const Event& item, std::span<const float> values,
                                                   const Contract& contract);

  // oracle_checkpoints.cpp
  void take_order(const Contract& contract);
  [[nodiscard]] std::optional<Broken> captured_rows(const Event& event,
                                                    std::span<const float> values,
                                                    std::span<const std::uint64_t> rows) const;

  const TableId table_;
  const SliceId slice_;
  std::map<std::uint32_t, std::int64_t> done_;
  std::map<std::uint32_t, std::int64_t> leave_;  // of the newest view's members
  std::int64_t version_ = 0;
  std::vector<float> values_;
  std::optional<RowModel> rows_;                             // in place of the values
  std::map<std::int64_t, std::vector<std::uint32_t>> held_;  // accepted, not applied; ascending
  std::map<std::uint32_t, Waiting> waiting_;
  std::map<std::uint32_t, Base> bases_;
  std::map<std::string_view, std::vector<float>> states_;   // of policies
  std::map<std::uint32_t, Kept> kept_;                      // of compression, by worker
  std::set<std::pair<std::uint32_t, std::int64_t>> plain_;  // accepted as they are: worker, clock
  std::map<std::pair<std::uint32_t, std::int64_t>, float> weights_;  // of accepted: worker, clock
  std::int64_t applications_ = 0;
  std::map<std::uint32_t, std::int64_t> applied_;  // the next clock that is not in the values
  Aside aside_;
  // Within a step.
  struct Earlier {
    std::vector<float> values;
    std::int64_t applications = 0;  // applications that made the values
    std::optional<RowModel> rows;
  };
  std::vector<Earlier> earlier_;
  std::int64_t earliest_version_ = 0;
  // Reads that another one of the same worker has replaced in this step.
  std::vector<std::pair<std::uint32_t, Waiting>> overtaken_;
  std::vector<std::pair<std::uint32_t, Waiting>> answerable_;  // reads that are true, oldest first
  std::vector<Unacknowledged> unacknowledged_;
  std::vector<Refusal> refusals_;
  struct Snapshot {
    PeerId peer;
    std::vector<std::uint64_t> rows;
  };
  std::vector<Snapshot> snapshots_;
  std::map<PeerId, std::int64_t> follows_;  // the version that each connection waits for
  struct Followed {                         // requests that must be answered in this step
    PeerId peer;
    std::int64_t clock = 0;
    bool answered = false;
  };
  std::vector<Followed> followed_;
  std::int64_t last_version_ = 0;        // of an answer before this step
  std::map<PeerId, std::int64_t> said_;  // in this step
};

}  // namespace taut::sim

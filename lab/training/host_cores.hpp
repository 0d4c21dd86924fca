#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "common/time.hpp"
#include "lab/network.hpp"
#include "lab/training/agenda.hpp"

namespace taut::lab {

/// The cores of a host, which its threads share: while more threads run than there are cores, all
/// run at the same lower speed.
class HostCores {
 public:
  using Done = std::function<void()>;

  /// speed  divisor of all times
  HostCores(Agenda& agenda, const sim::Network& clock, std::uint32_t cores, double speed)
      : agenda_(agenda), clock_(clock), cores_(cores), speed_(speed) {}
  HostCores(const HostCores&) = delete;
  HostCores& operator=(const HostCores&) = delete;

  /// Runs a thread that takes `work_us` microseconds with a core to itself; then calls `done`.
  void run(double work_us, Done done);
  /// Ends all threads without calling back.
  void stop();

 private:
  struct Thread {
    double finish = 0;  // of attained_
    std::uint64_t order = 0;
    Done done;
    friend bool operator<(const Thread& a, const Thread& b) {
      return a.finish != b.finish ? a.finish > b.finish : a.order > b.order;
    }
  };
  void advance();
  void plan();
  void finish();
  [[nodiscard]] double rate() const;

  Agenda& agenda_;
  const sim::Network& clock_;
  const double cores_;
  const double speed_;
  std::vector<Thread> threads_;  // a heap
  double attained_ = 0;          // that a thread has had that was present all the time
  TimePoint last_;
  std::uint64_t order_ = 0;
  std::uint64_t plan_ = 0;  // of the newest entry in the agenda
};

/// One thread of a process, which does one thing after another. It outlives the agenda's entries.
class Lane {
 public:
  /// What a turn returns when it begins: how long it takes, and what follows.
  struct Work {
    double microseconds = 0;
    HostCores::Done done;
  };
  using Begin = std::function<Work()>;

  explicit Lane(HostCores& machine) : machine_(machine) {}
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  void add(Begin begin);
  /// As add(), but ahead of everything that waits: for what continues a turn that ends.
  void add_next(Begin begin) { waiting_.push_front(std::move(begin)); }

 private:
  void turn();

  HostCores& machine_;
  std::deque<Begin> waiting_;
  bool busy_ = false;
};

}  // namespace taut::lab

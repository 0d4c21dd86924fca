#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "server/coordinator/etcd/etcd_client.hpp"
#include "server/coordinator/leadership.hpp"

namespace taut {

/// Leads while it owns the key PREFIX/leader, which exists as long as a lease is kept alive. A term
/// is the revision at which the key was created. Nothing depends on the clocks of two machines: a
/// save that a deposed leader still attempts is refused because of its term (EtcdStore).
/// Thread    any; it has its own, which keeps the lease alive
class EtcdLeadership final : public Leadership {
 public:
  /// address  at which this process answers as the leader
  /// lease    how long etcd waits for a leader that is silent; etcd takes whole seconds
  EtcdLeadership(EtcdOptions options, std::string address, Duration lease);
  /// Gives up the leadership, so that another process need not wait for the lease to expire.
  ~EtcdLeadership() override;
  EtcdLeadership(const EtcdLeadership&) = delete;
  EtcdLeadership& operator=(const EtcdLeadership&) = delete;

  [[nodiscard]] std::optional<std::int64_t> term() const override;
  [[nodiscard]] std::string leader() const override;
  /// Campaigns again after a delay.
  void resign() override;

 private:
  void run();
  [[nodiscard]] Result<void> advance();
  bool step_aside();
  [[nodiscard]] Result<void> look();
  [[nodiscard]] Result<void> campaign();
  [[nodiscard]] Result<void> keep();
  void revoke();
  void lose(const std::string& why);
  void pause(Duration length);

  const EtcdOptions options_;
  const std::string address_;
  const Duration lease_;
  EtcdClient client_;
  std::string lease_id_;      // of the newest lease; empty if none
  bool has_lease_ = false;    // the key was put under it, and it is not known to have ended
  mutable std::mutex mutex_;  // guards the rest
  std::condition_variable wake_;
  bool stopping_ = false;
  bool resigns_ = false;
  std::int64_t term_ = 0;  // 0: does not lead
  TimePoint until_;        // when it stops leading, unless the lease is kept alive
  std::string leader_;
  std::string trouble_;  // the newest error that was logged; empty: etcd answers
  std::thread thread_;
};

}  // namespace taut

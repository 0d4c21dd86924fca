#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "common/net/security.hpp"

namespace taut::test {

/// Admits the keys that a test lists.
class ListedKeys final : public Admission {
 public:
  void admit(const std::string& key, Identity identity) {
    const std::scoped_lock lock(mutex_);
    holders_[key] = std::make_shared<Identity>(std::move(identity));
  }
  void revoke(const std::string& key) {
    const std::scoped_lock lock(mutex_);
    holders_.erase(key);
  }
  [[nodiscard]] std::shared_ptr<const Identity> find(std::string_view key) const override {
    const std::scoped_lock lock(mutex_);
    const auto found = holders_.find(std::string(key));
    return found == holders_.end() ? nullptr : found->second;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const Identity>> holders_;
};

}  // namespace taut::test

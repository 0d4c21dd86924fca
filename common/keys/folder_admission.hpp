#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "common/net/security.hpp"
#include "common/result.hpp"

namespace taut {

/// Admits the keys that a folder lists, one file NAME for each, and follows its changes. If the
/// folder can no longer be read, its last list stays in force: a folder that vanishes must not end
/// a training, and no other user can remove it.
/// Thread    any
class FolderAdmission final : public Admission {
 public:
  /// Errors    not_found; invalid: other users may use the folder
  [[nodiscard]] static Result<std::shared_ptr<FolderAdmission>> open(std::filesystem::path folder);

  [[nodiscard]] std::shared_ptr<const Identity> find(std::string_view public_key) const override;
  void refresh() override;

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>()(text);
    }
  };
  using Holders =
      std::unordered_map<std::string, std::shared_ptr<const Identity>, Hash, std::equal_to<>>;
  /// The state of a file when it was read; each write makes another file of that name.
  struct Seen {
    std::uint64_t file = 0;
    std::uint64_t size = 0;
    std::int64_t changed_ns = 0;
    friend bool operator==(const Seen&, const Seen&) = default;
  };

  explicit FolderAdmission(std::filesystem::path folder) : folder_(std::move(folder)) {}
  [[nodiscard]] Result<std::map<std::string, Seen>> look() const;
  [[nodiscard]] Result<void> read();
  void warn_once(const std::string& text);

  const std::filesystem::path folder_;
  mutable std::mutex mutex_;  // guards holders_
  Holders holders_;           // by public key
  std::mutex refresh_mutex_;  // guards the rest
  std::map<std::string, Seen> seen_;
  std::string warned_;
};

}  // namespace taut

// Followers of a job for programs in C++17: tautline.h's functions with owning classes and
// exceptions.
#ifndef TAUTLINE_HPP
#define TAUTLINE_HPP

#include <tautline/tautline.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace tautline {

/// A one-line error message with its code.
class Error : public std::runtime_error {
 public:
  Error(tautline_code code, const char* line) : std::runtime_error(line), code_(code) {}
  [[nodiscard]] tautline_code code() const { return code_; }

 private:
  tautline_code code_;
};

/// A table of a model; its memory is the model's.
struct TableValues {
  std::string name;
  std::vector<std::int64_t> shape;
  const float* data = nullptr;  // in C order
  std::uint64_t count = 0;
};

/// A job's parameters at one version; immutable, and shared by copies.
class Model {
 public:
  explicit Model(tautline_model* model) : model_(model, tautline_model_free) {
    tautline_table_info info{};
    const float* values = nullptr;
    std::uint64_t count = 0;
    while (tautline_model_table(model, tables_.size(), &info, &values, &count) == TAUTLINE_OK) {
      tables_.push_back({info.name, {info.shape, info.shape + info.dimensions}, values, count});
    }
  }
  /// The clock before which the model includes every member's updates.
  [[nodiscard]] std::int64_t version() const { return tautline_model_version(model_.get()); }
  [[nodiscard]] const std::vector<TableValues>& tables() const { return tables_; }

 private:
  std::shared_ptr<tautline_model> model_;
  std::vector<TableValues> tables_;
};

struct FollowOptions {
  std::string keys;      // the folder of keys; empty: the user's own
  std::string name;      // of this process; empty: made from host name and process number
  bool bounded = false;  // training waits for it, as the job's `followers` says
  std::string relay;     // "HOST:PORT" at which it relays models, ":0": any; empty: it does not
};

/// A non-member reader of a job. One thread at a time may pull.
class Follower {
 public:
  /// Throws Error.
  Follower(const std::string& coordinator, std::uint64_t job, const FollowOptions& options = {}) {
    tautline_follow_options c_options{};
    c_options.size = sizeof c_options;
    c_options.name = options.name.empty() ? nullptr : options.name.c_str();
    c_options.bounded = options.bounded ? 1 : 0;
    c_options.relay = options.relay.empty() ? nullptr : options.relay.c_str();
    tautline_follower* follower = nullptr;
    check(tautline_follow(coordinator.c_str(),
                          options.keys.empty() ? nullptr : options.keys.c_str(), job, &c_options,
                          &follower));
    follower_.reset(follower);
  }
  /// The newest model, of this version or a later one.
  /// max_behind  0 or more: accepts a cached model at most this many clocks behind the newest
  /// Throws Error: TAUTLINE_TIMEOUT, or TAUTLINE_STOPPED once the job is over.
  [[nodiscard]] Model pull(std::int64_t at_least = 0, std::int64_t max_behind = -1,
                           double wait_s = 60) {
    tautline_model* model = nullptr;
    tautline_code code = TAUTLINE_AGAIN;
    while (code == TAUTLINE_AGAIN) {
      code = tautline_follow_pull(follower_.get(), at_least, max_behind, wait_s, &model);
    }
    check(code);
    return Model(model);
  }

 private:
  static void check(tautline_code code) {
    if (code != TAUTLINE_OK) throw Error(code, tautline_error());
  }
  struct Unfollow {
    void operator()(tautline_follower* follower) const { tautline_unfollow(follower); }
  };
  std::unique_ptr<tautline_follower, Unfollow> follower_;
};

}  // namespace tautline

#endif

#include <fmt/format.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <utility>

#include "common/net/security.hpp"
#include "common/net/zmq/zmq_endpoint.hpp"
#include "tests/bench/allreduce/way.hpp"
#include "worker/collective/all_reduce_group.hpp"

namespace taut::bench {
namespace {

constexpr Duration kLimit = std::chrono::seconds(20);

void check(const Result<void>& done) {
  if (!done) throw std::runtime_error(done.error().message);
}

/// Those of the other processes, by which they get in.
/// Thread    any
class RankKeys final : public Admission {
 public:
  void admit(const std::vector<collective::GroupMember>& members) {
    const std::scoped_lock lock(mutex_);
    for (const collective::GroupMember& member : members) {
      holders_[member.key] = std::make_shared<Identity>(Identity{member.name, KeyRole::kWorker});
    }
  }
  std::shared_ptr<const Identity> find(std::string_view public_key) const override {
    const std::scoped_lock lock(mutex_);
    const auto holder = holders_.find(public_key);
    return holder == holders_.end() ? nullptr : holder->second;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const Identity>, std::less<>> holders_;
};

/// As a rank listens: with its own pair, or, without one, in the clear.
Security security_of(const KeyPair& own, const std::shared_ptr<RankKeys>& keys) {
  Security security = Security::insecure();
  if (own.public_key.empty()) return security;
  security.own = own;
  security.cluster_key = own.public_key;
  security.cluster_secret = own.secret_key;
  security.admission = keys;
  return security;
}

class OurWay final : public Way {
 public:
  OurWay(const Place& place, collective::Algorithm algorithm, bool shares_memory, bool with_keys,
         std::uint64_t message_bytes, std::uint64_t window_bytes, const std::string& more)
      : name_(fmt::format("{}, {}{}", collective::to_string(algorithm),
                          shares_memory ? "shared memory" : "TCP", more)),
        own_(with_keys ? make_key_pair() : KeyPair()),
        keys_(std::make_shared<RankKeys>()),
        context_(security_of(own_, keys_)),
        endpoint_(context_.make_endpoint()) {
    collective::GroupOptions options;
    options.group = 1;
    options.rank = collective::Rank(place.rank);
    options.algorithm = algorithm;
    options.message = Bytes(message_bytes);
    options.window = Bytes(window_bytes);
    options.silence_limit = kLimit;
    if (shares_memory) options.shared_memory = arena_ = SharedArena::create().value();
    pool_ = arena_ ? BufferPool(Bytes(1ULL << 30U), arena_) : BufferPool();
    const auto file = [&](std::uint32_t rank) {
      return place.folder / fmt::format("{}.{}", name_, rank);
    };
    // Its address and its key, if it has one.
    write_whole(file(place.rank), endpoint_->bind("127.0.0.1:0").value() + " " + own_.public_key);
    for (std::uint32_t rank = 0; rank < place.ranks; ++rank) {
      const std::string text = read_when_written(file(rank));
      const std::size_t space = text.find(' ');
      options.members.push_back({.name = fmt::format("process-{}", rank),
                                 .address = text.substr(0, space),
                                 .key = text.substr(space + 1)});
    }
    if (with_keys) {
      keys_->admit(options.members);
      // No process connects to one that does not admit it yet.
      const auto admits = [&](std::uint32_t rank) { return file(rank).string() + ".admits"; };
      write_whole(admits(place.rank), "");
      for (std::uint32_t rank = 0; rank < place.ranks; ++rank) {
        (void)read_when_written(admits(rank));
      }
    }
    group_ = std::make_unique<collective::AllReduceGroup>(*endpoint_, std::move(options));
    check(group_->connect(kLimit));
    if (shares_memory && place.ranks > 1 && group_->shares_memory_with() == 0) {
      throw std::runtime_error("processes of this machine share no memory");
    }
  }

  std::string name() const override { return name_; }
  std::span<float> values(std::uint64_t count) override {
    if (buffer_.size() != count * sizeof(float)) {
      buffer_ = Buffer();
      buffer_ = pool_.acquire(count * sizeof(float));
    }
    return buffer_.floats();
  }
  void sum() override { check(group_->all_reduce(buffer_)); }

 private:
  const std::string name_;
  const KeyPair own_;
  const std::shared_ptr<RankKeys> keys_;
  ZmqContext context_;
  std::unique_ptr<Endpoint> endpoint_;
  std::shared_ptr<SharedArena> arena_;
  BufferPool pool_;
  Buffer buffer_;
  std::unique_ptr<collective::AllReduceGroup> group_;
};

}  // namespace

std::unique_ptr<Way> our_way(const Place& place, collective::Algorithm algorithm,
                             bool shares_memory, bool with_keys, std::uint64_t message_bytes,
                             std::uint64_t window_bytes, const std::string& more) {
  return std::make_unique<OurWay>(place, algorithm, shares_memory, with_keys, message_bytes,
                                  window_bytes, more);
}

void write_whole(const std::filesystem::path& file, const std::string& text) {
  const std::filesystem::path unfinished = file.string() + ".new";
  std::ofstream(unfinished) << text;
  std::filesystem::rename(unfinished, file);
}

std::string read_when_written(const std::filesystem::path& file) {
  for (int i = 0; i < 3000; ++i) {
    if (std::filesystem::exists(file)) {
      std::ifstream in(file);
      return {std::istreambuf_iterator<char>(in), {}};
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  throw std::runtime_error(fmt::format("{} was not written within 30 s", file.string()));
}

}  // namespace taut::bench

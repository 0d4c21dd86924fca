#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/net/zmq/zmq_endpoint.hpp"
#include "tests/unit/collective/toy_group.hpp"
#include "worker/collective/all_reduce_group.hpp"

namespace taut::test {

inline constexpr Duration kDeadline = std::chrono::seconds(30);

/// Ranks with a thread each, over sockets of loopback.
class ThreadedGroup {
 public:
  using Body = std::function<Result<void>(std::uint32_t, collective::AllReduceGroup&, BufferPool&)>;

  explicit ThreadedGroup(std::vector<Security> security) {
    for (Security& one : security) {
      contexts_.push_back(std::make_unique<ZmqContext>(std::move(one)));
      endpoints.push_back(contexts_.back()->make_endpoint());
      const std::uint32_t rank = static_cast<std::uint32_t>(members.size());
      members.push_back({.name = "worker-" + std::to_string(rank),
                         .address = endpoints.back()->bind("127.0.0.1:0").value(),
                         .host = rank / 2});
    }
  }
  explicit ThreadedGroup(std::uint32_t ranks)
      : ThreadedGroup(std::vector(ranks, Security::insecure())) {}

  collective::GroupOptions options(
      std::uint32_t rank, collective::Algorithm algorithm = collective::Algorithm::kRing) const {
    collective::GroupOptions options;
    options.group = 77;
    options.rank = collective::Rank(rank);
    options.members = members;
    options.algorithm = algorithm;
    options.message = Bytes(4096);
    options.silence_limit = kDeadline;
    return options;
  }

  /// What each rank ended with; a message of an error, or nothing.
  std::vector<std::string> run(std::vector<collective::GroupOptions> options, const Body& body) {
    std::vector<std::string> errors(options.size());
    std::vector<std::thread> threads;
    for (std::uint32_t rank = 0; rank < options.size(); ++rank) {
      threads.emplace_back([&, rank] {
        BufferPool pool(Bytes(1UL << 30U),
                        options[rank].shared_memory
                            ? std::static_pointer_cast<BufferAllocator>(options[rank].shared_memory)
                            : host_allocator());
        collective::AllReduceGroup group(*endpoints[rank], options[rank]);
        auto done = group.connect(kDeadline);
        if (done) done = body(rank, group, pool);
        if (!done) errors[rank] = done.error().message;
      });
    }
    for (std::thread& thread : threads) thread.join();
    return errors;
  }

  std::vector<collective::GroupMember> members;

 private:
  std::vector<std::unique_ptr<ZmqContext>> contexts_;  // ends after its endpoints

 public:
  std::vector<std::unique_ptr<Endpoint>> endpoints;
};

inline std::vector<collective::GroupOptions> all_alike(const ThreadedGroup& group,
                                                       collective::Algorithm algorithm) {
  std::vector<collective::GroupOptions> options;
  for (std::uint32_t rank = 0; rank < group.members.size(); ++rank) {
    options.push_back(group.options(rank, algorithm));
  }
  return options;
}

inline void fill(const Buffer& values, std::uint32_t rank, std::uint64_t which) {
  std::mt19937 random(static_cast<std::uint32_t>(rank * 1000 + which));
  for (float& value : values.floats()) value = static_cast<float>(random()) * 1e-9F;
}

}  // namespace taut::test

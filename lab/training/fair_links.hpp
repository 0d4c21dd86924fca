#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "common/time.hpp"

namespace taut::lab {

/// Links that connections share equally while they pass through them, as TCP connections share a
/// bottleneck, event by event. A connection carries one message after another; a message has passed
/// when it is through every link of its way, and has its share of each from the moment it departs.
/// So a link is never idle while a message still has to pass it, and a message that another link
/// holds up for longer takes its share of this one early instead of evenly.
/// Source    Kleinrock, "Time-shared Systems: A Theoretical Treatment", Journal of the ACM 14(2),
///           1967: processor sharing
class FairLinks {
 public:
  /// The links that a message passes, by number.
  struct Way {
    static constexpr std::size_t kMax = 6;
    std::array<std::uint32_t, kMax> link{};
    std::uint32_t count = 0;
    void add(std::size_t number) { link[count++] = static_cast<std::uint32_t>(number); }
    [[nodiscard]] std::span<const std::uint32_t> links() const { return {link.data(), count}; }
  };
  struct Message {
    std::uint32_t flight = 0;
    std::uint64_t bytes = 0;
    Way way;  // at least one link
  };
  /// A message on a link, which it shared from `begin_us` to `end_us`.
  struct Passage {
    std::uint32_t link = 0;
    std::uint32_t flight = 0;
    double begin_us = 0;
    double end_us = 0;
  };
  struct Passed {
    std::uint32_t flight = 0;
    double at_us = 0;  // when its last byte has left the last link
  };
  /// Called when a message has passed one of its links; may be empty.
  using OnPass = std::function<void(const Passage& passage)>;

  /// us_per_byte  of each link
  explicit FairLinks(std::vector<double> us_per_byte);
  void on_pass(OnPass notify) { notify_ = std::move(notify); }

  /// Sends a message on a connection, behind the connection's earlier ones.
  void send(std::uint32_t connection, const Message& message, TimePoint now);
  /// When advance() has something to do; never if nothing is on its way.
  [[nodiscard]] TimePoint next() const {
    return plans_.empty() ? TimePoint::never() : plans_.front().at;
  }
  void advance(TimePoint now);
  /// The messages that have passed since the last call, in order.
  [[nodiscard]] std::vector<Passed> take_passed() { return std::exchange(passed_, {}); }

 private:
  static constexpr std::uint32_t kNone = ~0U;
  /// The message that a connection has on a link.
  struct Share {
    double finish = 0;  // of Link::attained
    std::uint64_t order = 0;
    std::uint32_t connection = 0;
    double begin_us = 0;
    friend bool operator<(const Share& a, const Share& b) {
      return a.finish != b.finish ? a.finish > b.finish : a.order > b.order;
    }
  };
  struct Link {
    double us_per_byte = 0;
    std::vector<Share> shares;  // a heap
    double attained = 0;        // that a connection passed that was present all the time
    double last_us = 0;
    TimePoint planned = TimePoint::never();  // the earliest of its plans
  };
  struct Connection {
    std::uint32_t first = kNone;  // of queued_, on its way
    std::uint32_t last = kNone;
    std::uint32_t links_left = 0;  // of the first message
    double passed_us = 0;          // by the first message, so far
  };
  struct Queued {
    Message message;
    std::uint32_t next = kNone;
  };
  /// When a link must be processed.
  struct Plan {
    TimePoint at;
    std::uint64_t order = 0;
    std::uint32_t link = 0;
    friend bool operator<(const Plan& a, const Plan& b) {
      return a.at != b.at ? a.at > b.at : a.order > b.order;
    }
  };

  std::uint32_t queue(const Message& message);
  void set_out(std::uint32_t connection, double now_us);
  void advance(std::uint32_t link, double now_us);
  void leave(Link& link, std::uint32_t number);
  void settle(double now_us);
  void plan(std::uint32_t link);

  std::vector<Link> links_;
  std::vector<Connection> connections_;
  std::vector<Queued> queued_;
  std::vector<std::uint32_t> free_;     // of queued_
  std::vector<std::uint32_t> through_;  // connections whose first message has passed
  std::vector<Passed> passed_;
  std::vector<Plan> plans_;  // a heap
  std::uint64_t order_ = 0;
  OnPass notify_;
};

}  // namespace taut::lab

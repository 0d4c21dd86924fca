#include "tests/bench/data_plane/limits.hpp"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <functional>
#include <zmq.hpp>

#include "common/math/update_kernels.hpp"
#include "common/math/update_rules.hpp"
#include "common/net/buffer_pool.hpp"
#include "common/ssp/slice_layout.hpp"

namespace taut::bench {
namespace {

constexpr int kLinger = 0;
constexpr std::size_t kInFlightBytes = 32UL << 20U;

void keep_nothing(void* /*data*/, void* /*hint*/) {}

/// Sends header and payload, the payload from memory that is kept.
void send_pair(zmq::socket_t& socket, std::span<std::byte> payload) {
  socket.send(zmq::str_buffer("head"), zmq::send_flags::sndmore);
  zmq::message_t body(payload.data(), payload.size(), keep_nothing, nullptr);
  socket.send(body, zmq::send_flags::none);
}

void receive_all(zmq::socket_t& socket) {
  zmq::message_t part;
  do {
    part = zmq::message_t();
    (void)socket.recv(part, zmq::recv_flags::none);
  } while (part.more());
}

double best_of(int times, const std::function<void()>& work) {
  double best = 1e30;
  for (int i = 0; i < times; ++i) {
    const TimePoint begin = steady_now();
    work();
    best = std::min(best, seconds(steady_now() - begin));
  }
  return best;
}

}  // namespace

std::vector<Sample> raw_zmq(const std::string& address, std::uint64_t bytes, double seconds_each) {
  zmq::context_t context(1);
  zmq::socket_t socket(context, zmq::socket_type::dealer);
  socket.set(zmq::sockopt::linger, kLinger);
  socket.connect("tcp://" + address);
  const std::size_t window = std::clamp<std::size_t>(kInFlightBytes / bytes, 2, 256);
  // Each message in flight has its own memory, as tables have.
  std::vector<std::vector<std::byte>> payloads(window, std::vector<std::byte>(bytes));
  std::vector<Sample> samples;
  for (const std::string pattern : {"push", "push+pull"}) {
    // The first byte says whether the payload is to return.
    for (auto& payload : payloads) payload[0] = pattern == "push" ? std::byte{0} : std::byte{1};
    Sample sample;
    sample.pattern = pattern;
    sample.table_bytes = bytes;
    std::size_t flying = 0;
    std::uint64_t done = 0;
    const double cpu = cpu_seconds();
    const TimePoint begin = steady_now();
    while (seconds(steady_now() - begin) < seconds_each || flying > 0) {
      while (flying < window && seconds(steady_now() - begin) < seconds_each) {
        send_pair(socket, payloads[(done + flying) % window]);
        ++flying;
      }
      if (flying == 0) break;
      receive_all(socket);
      --flying;
      ++done;
    }
    sample.wall_s = seconds(steady_now() - begin);
    sample.cpu_s = cpu_seconds() - cpu;
    sample.gigabytes = static_cast<double>(done * bytes) * 1e-9;
    samples.push_back(sample);
  }
  std::vector<double> times;
  Sample trip;
  trip.pattern = "round trip";
  trip.table_bytes = bytes;
  payloads[0][0] = std::byte{1};
  for (int i = 0; i < 2000 && bytes <= 4096; ++i) {
    const TimePoint begin = steady_now();
    send_pair(socket, payloads[0]);
    receive_all(socket);
    times.push_back(seconds(steady_now() - begin) * 1e6);
  }
  trip.median_us = median(times);
  samples.push_back(trip);
  return samples;
}

void serve_raw_zmq() {
  zmq::context_t context(1);
  zmq::socket_t socket(context, zmq::socket_type::router);
  socket.set(zmq::sockopt::linger, kLinger);
  socket.bind("tcp://127.0.0.1:*");
  fmt::print("{}\n", socket.get(zmq::sockopt::last_endpoint).substr(6));
  std::fflush(stdout);
  std::vector<std::byte> answer(64UL << 20U);
  while (true) {
    zmq::message_t id;
    zmq::message_t header;
    zmq::message_t body;
    (void)socket.recv(id, zmq::recv_flags::none);
    (void)socket.recv(header, zmq::recv_flags::none);
    if (!header.more()) return;
    (void)socket.recv(body, zmq::recv_flags::none);
    socket.send(id, zmq::send_flags::sndmore);
    if (*static_cast<const std::byte*>(body.data()) == std::byte{1}) {
      send_pair(socket, std::span(answer).first(body.size()));
    } else {
      socket.send(zmq::str_buffer("done"), zmq::send_flags::none);
    }
  }
}

double memcpy_rate(std::uint64_t bytes) {
  std::vector<std::byte> from(bytes, std::byte{1});
  std::vector<std::byte> to(bytes);
  const int copies = static_cast<int>(std::max<std::uint64_t>(1, (256ULL << 20U) / bytes));
  const double took = best_of(5, [&] {
    for (int i = 0; i < copies; ++i) {
      std::memcpy(to.data(), from.data(), bytes);
      asm volatile("" : : "r"(to.data()) : "memory");
    }
  });
  return static_cast<double>(bytes) * copies / took * 1e-9;
}

std::vector<RuleRate> rule_rates(std::uint64_t bytes) {
  constexpr std::size_t kSlice = SliceLayout::kSliceElements;
  const std::size_t count = bytes / sizeof(float);
  // Aligned as a shard's buffers are.
  BufferPool pool;
  const auto filled = [&](float value) {
    Buffer buffer = pool.acquire(bytes);
    std::ranges::fill(buffer.floats(), value);
    return buffer;
  };
  const Buffer values_buffer = filled(1.0F);
  const Buffer gradient_buffer = filled(1e-6F);
  const Buffer first_buffer = filled(0.0F);
  const Buffer second_buffer = filled(0.0F);
  const auto values = values_buffer.floats();
  const auto gradient = gradient_buffer.floats();
  const auto first = first_buffer.floats();
  const auto second = second_buffer.floats();
  const std::array<float*, 2> state = {first.data(), second.data()};

  const double triad_time = best_of(9, [&] {
    float* a = values.data();
    const float* b = gradient.data();
    asm volatile("" : "+r"(a), "+r"(b) : : "memory");
    for (std::size_t i = 0; i < count; ++i) a[i] = a[i] + 1e-3F * b[i];
  });
  // Bytes that the code names: two reads and a write of each element, in place as the rules are.
  const double triad = 3.0 * static_cast<double>(bytes) / triad_time * 1e-9;

  std::vector<RuleRate> rates;
  for (std::size_t i = 0; i < math::kRuleCount; ++i) {
    const auto kind = static_cast<math::RuleKind>(i);
    const math::RuleInfo& info = math::info_of(kind);
    // Reads and writes of each element.
    const double streams = 3 + 2 * info.state_count;
    math::UpdateRule rule;
    rule.kind = kind;
    rule.momentum = 0.9F;
    rule.weight_decay = 1e-4F;
    const math::UpdateStep step = math::make_step(rule, 1, 1, 1, 1.0, 1);
    // As it is, and clipped: then the update is scaled on its way.
    for (const float clip : {1.0F, 0.5F}) {
      const double took = best_of(9, [&] {
        // Slice by slice, as a shard has them.
        for (std::size_t begin = 0; begin < count; begin += kSlice) {
          const math::GradientView view{gradient_buffer.data() + begin * sizeof(float), clip};
          const std::array<float*, 2> at = {state[0] + begin, state[1] + begin};
          const auto slice = values.subspan(begin, std::min(kSlice, count - begin));
          math::apply_update(kind, step, std::span(&view, 1), 0.5F, slice, slice, at);
        }
      });
      rates.push_back({std::string(info.name) + (clip == 1.0F ? "" : ", clipped"),
                       streams * static_cast<double>(bytes) / took * 1e-9, triad});
    }
  }
  return rates;
}

}  // namespace taut::bench

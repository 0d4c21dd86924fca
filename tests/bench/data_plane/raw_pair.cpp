#include "tests/bench/data_plane/raw_pair.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <span>
#include <zmq.hpp>

namespace taut::bench {
namespace {

constexpr int kLinger = 0;
constexpr std::size_t kBytesUnderWay = 32UL << 20U;
// So that ten messages of 64 MiB do not fill a small machine.
constexpr std::size_t kMaxBytesOfDepth = 128UL << 20U;

struct RawHeader {
  std::uint32_t slot = 0;  // which values the payload belongs to
  std::uint8_t answers = 0;
  std::uint8_t adds = 0;
};

void keep_nothing(void* /*data*/, void* /*hint*/) {}

/// A payload from memory that is kept.
void send_kept(zmq::socket_t& socket, void* data, std::size_t bytes) {
  zmq::message_t body(data, bytes, keep_nothing, nullptr);
  socket.send(body, zmq::send_flags::none);
}

void send_update(zmq::socket_t& socket, const RawHeader& header, std::vector<float>& payload) {
  socket.send(zmq::const_buffer(&header, sizeof header), zmq::send_flags::sndmore);
  send_kept(socket, payload.data(), payload.size() * sizeof(float));
}

void receive_all(zmq::socket_t& socket) {
  zmq::message_t part;
  do {
    part = zmq::message_t();
    (void)socket.recv(part, zmq::recv_flags::none);
  } while (part.more());
}

/// `update` need not be aligned: it is where ZeroMQ has received it.
void add_to(std::span<float> values, const std::byte* __restrict update) {
  float* __restrict at = values.data();
  const std::size_t count = values.size();
  for (std::size_t i = 0; i < count; ++i) {
    float one = 0;
    std::memcpy(&one, update + i * sizeof one, sizeof one);
    at[i] += one;
  }
}

std::size_t depth_of(const RawWay& way, std::uint64_t bytes) {
  if (way.depth == 0) return std::clamp<std::size_t>(kBytesUnderWay / bytes, 2, 256);
  return std::clamp<std::size_t>(kMaxBytesOfDepth / bytes, 2, way.depth);
}

class Sender {
 public:
  Sender(zmq::socket_t& socket, int server, std::uint64_t bytes, const RawWay& way)
      : socket_(socket), server_(server), bytes_(bytes), adds_(way.adds) {
    payloads_.assign(depth_of(way, bytes), std::vector<float>(bytes / sizeof(float), 1e-6F));
  }

  Sample pattern(const std::string& name, double seconds_each) {
    exchange(name == "push+pull", 0);  // its memory exists from here on
    Sample sample{name, bytes_};
    const CpuTime cpu = cpu_time();
    const CpuTime server_cpu = cpu_time_of(server_);
    const TimePoint begin = steady_now();
    const std::uint64_t done = exchange(name == "push+pull", seconds_each);
    sample.wall_s = seconds(steady_now() - begin);
    sample.cpu = cpu_time() - cpu;
    sample.server_cpu = cpu_time_of(server_) - server_cpu;
    sample.gigabytes = static_cast<double>(done * bytes_) * 1e-9;
    return sample;
  }

  Sample round_trip() {
    Sample sample{"round trip", bytes_};
    std::vector<double> times;
    for (int i = 0; i < 2000; ++i) {
      const TimePoint begin = steady_now();
      send_update(socket_, {0, 1, adds_}, payloads_[0]);
      receive_all(socket_);
      times.push_back(seconds(steady_now() - begin) * 1e6);
    }
    sample.median_us = median(times);
    return sample;
  }

 private:
  /// Messages that were answered; at least one for each buffer.
  std::uint64_t exchange(bool answers, double seconds_each) {
    const std::size_t depth = payloads_.size();
    const TimePoint begin = steady_now();
    std::uint64_t sent = 0;
    std::uint64_t done = 0;
    do {
      while (sent < done + depth &&
             (sent < depth || seconds(steady_now() - begin) < seconds_each)) {
        const auto slot = static_cast<std::uint32_t>(sent % depth);
        send_update(socket_, {slot, answers, adds_}, payloads_[slot]);
        ++sent;
      }
      receive_all(socket_);
      ++done;
    } while (done < sent);
    return done;
  }

  zmq::socket_t& socket_;
  const int server_;
  const std::uint64_t bytes_;
  const bool adds_;
  std::vector<std::vector<float>> payloads_;
};

}  // namespace

std::vector<Sample> raw_zmq(const std::string& address, int server, std::uint64_t bytes,
                            double seconds_each, const RawWay& way) {
  zmq::context_t context(1);
  zmq::socket_t socket(context, zmq::socket_type::dealer);
  socket.set(zmq::sockopt::linger, kLinger);
  socket.connect("tcp://" + address);
  Sender sender(socket, server, bytes, way);
  std::vector<Sample> samples;
  for (const char* name : {"push", "push+pull"}) {
    samples.push_back(sender.pattern(name, seconds_each));
  }
  if (bytes <= 4096) samples.push_back(sender.round_trip());
  return samples;
}

void serve_raw_zmq() {
  zmq::context_t context(1);
  zmq::socket_t socket(context, zmq::socket_type::router);
  socket.set(zmq::sockopt::linger, kLinger);
  socket.bind("tcp://127.0.0.1:*");
  fmt::print("{}\n", socket.get(zmq::sockopt::last_endpoint).substr(6));
  std::fflush(stdout);
  // A slot is used again only after its answer has arrived, so that values may be sent as they are.
  std::vector<std::vector<float>> values;
  while (true) {
    zmq::message_t id;
    zmq::message_t head;
    zmq::message_t body;
    (void)socket.recv(id, zmq::recv_flags::none);
    (void)socket.recv(head, zmq::recv_flags::none);
    RawHeader header;
    if (!head.more() || head.size() != sizeof header) return;
    std::memcpy(&header, head.data(), sizeof header);
    (void)socket.recv(body, zmq::recv_flags::none);
    if (values.size() <= header.slot) values.resize(header.slot + 1);
    const std::size_t count = body.size() / sizeof(float);
    std::vector<float>& own = values[header.slot];
    if (own.size() < count) own.resize(count);
    if (header.adds != 0) {
      add_to(std::span(own).first(count), static_cast<const std::byte*>(body.data()));
    }
    socket.send(id, zmq::send_flags::sndmore);
    if (header.answers != 0) {
      send_kept(socket, own.data(), body.size());
    } else {
      socket.send(zmq::str_buffer("done"), zmq::send_flags::none);
    }
  }
}

}  // namespace taut::bench

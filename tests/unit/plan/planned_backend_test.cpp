#include "worker/engine/plan/planned_backend.hpp"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/unit/cache/late_backend.hpp"
#include "tests/unit/cache/recording_backend.hpp"
#include "worker/engine/cpu/cpu_backend.hpp"

namespace taut {
namespace {

using Values = std::vector<float>;

std::unique_ptr<Backend> cpu() {
  BackendOptions options;
  options.device = DeviceKind::kCpu;
  options.threads = 1;
  return make_cpu_backend(options);
}

/// A call of a made-up program, on buffers that all have the same length.
struct Call {
  enum class Kind : std::uint8_t {
    kFill,
    kCopy,
    kAdd,
    kSum,
    kUpdate,
    kBeside,
    kBring,
    kSquares
  } kind;
  std::size_t a = 0;
  std::size_t b = 0;
  std::size_t c = 0;
  float factor = 0;
};

/// Buffers of one class are equally long, and only they meet in a call.
constexpr std::size_t kClasses = 3;
constexpr std::size_t kEach = 4;  // buffers of each class and program

std::size_t size_of(std::size_t buffer) {
  return std::size_t{40} + 170 * (buffer % kClasses);
}

/// A program on the buffers from `first` on. It ends with numbers that show what it left.
std::vector<Call> random_program(std::mt19937_64& random, std::size_t first, std::size_t calls) {
  std::vector<Call> program;
  for (std::size_t i = 0; i < calls; ++i) {
    const std::size_t kind = random() % kClasses;
    std::vector<std::size_t> own;
    for (std::size_t k = 0; k < kEach; ++k) own.push_back(first + kind + k * kClasses);
    std::ranges::shuffle(own, random);
    program.push_back({static_cast<Call::Kind>(random() % 8), own[0], own[1], own[2],
                       static_cast<float>(random() % 8) * 0.125F - 0.5F});
  }
  for (std::size_t i = 0; i < calls; ++i) {
    program.push_back({Call::Kind::kSquares, program[i].a, program[i].b, program[i].c, 0});
  }
  return program;
}

/// Runs programs on a backend, and writes down every number that the host gets to see.
class Machine {
 public:
  Machine(Backend& backend, std::size_t buffers)
      : backend_(backend),
        stream_(backend.make_stream()),
        copy_stream_(backend.make_copy_stream()) {
    for (std::size_t i = 0; i < buffers; ++i) {
      buffers_.push_back(backend.allocate_floats(size_of(i), "buffer " + std::to_string(i)));
      Values start(size_of(i));
      for (std::size_t k = 0; k < start.size(); ++k) {
        start[k] = static_cast<float>((i + 3) * (k + 5) % 17) * 0.1F;
      }
      given_.push_back(std::move(start));
      backend.copy_to_device(*stream_, given_.back(), span(i));
      copied_.push_back(backend.make_event());
    }
    stream_->finish();
  }

  Stream& stream() { return *stream_; }

  void cycle(const std::string& name, const std::vector<Call>& program) {
    backend_.begin_cycle(*stream_, name);
    run(program);
    backend_.end_cycle();
  }

  void run(const std::vector<Call>& program) {
    if (!backend_.repeats()) {
      for (const Call& call : program) run(call);
      return;
    }
    for (std::size_t i = 0; i < program.size(); ++i) {
      std::size_t end = i;
      while (end < program.size() && is_alone(program[end])) ++end;
      if (end > i) repeat(program, i, end);
      if (end < program.size()) run(program[end]);
      i = end;
    }
  }

  void forget() {
    static_cast<void>(seen());
    numbers_.clear();
    copies_.clear();
  }

  /// Every number seen so far.
  Values seen() {
    copy_stream_->finish();
    stream_->finish();
    Values all = numbers_;
    for (const Values& values : copies_) all.insert(all.end(), values.begin(), values.end());
    return all;
  }

 private:
  [[nodiscard]] DeviceSpan<float> span(std::size_t buffer) const {
    return buffers_[buffer].as<float>();
  }

  /// Whether a call needs neither another stream nor the host.
  static bool is_alone(const Call& call) {
    return call.kind != Call::Kind::kBeside && call.kind != Call::Kind::kBring &&
           call.kind != Call::Kind::kSquares;
  }

  /// Some calls as what they are at every cycle.
  void repeat(const std::vector<Call>& program, std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      copied_[program[i].a]->wait(*stream_);
      copied_[program[i].c]->wait(*stream_);
    }
    waits_ = false;
    const auto key = reinterpret_cast<std::uint64_t>(&program[begin]);
    if (backend_.begin_repeat(*stream_, key, Clock(0))) {
      for (std::size_t i = begin; i < end; ++i) run(program[i]);
      backend_.end_repeat(*stream_);
    }
    waits_ = true;
  }

  void wait_for_copies(std::size_t buffer) {
    if (waits_) copied_[buffer]->wait(*stream_);
  }

  void run(const Call& call) {
    // A copy that is under way reads what the compute would write.
    wait_for_copies(call.a);
    switch (call.kind) {
      case Call::Kind::kFill:
        backend_.fill(*stream_, span(call.a), call.factor);
        break;
      case Call::Kind::kCopy:
        backend_.copy(*stream_, span(call.b), span(call.a));
        break;
      case Call::Kind::kAdd:
        backend_.add(*stream_, span(call.b), span(call.a));
        break;
      case Call::Kind::kSum: {
        const Term terms[]{{span(call.b), call.factor}, {span(call.c), 0.5F}};
        backend_.weighted_sum(*stream_, terms, span(call.a));
        break;
      }
      case Call::Kind::kUpdate: {
        DeviceUpdate update{.kind = math::RuleKind::kMomentum, .step = {}, .scale = 0.5F};
        update.step.rate = 0.125F;
        update.step.momentum = 0.5F;
        const DeviceGradient gradient{span(call.b), 1};
        const DeviceSpan<float> state = span(call.c);
        wait_for_copies(call.c);
        backend_.apply_update(*stream_, update, std::span(&gradient, 1), span(call.a),
                              std::span(&state, 1));
        break;
      }
      case Call::Kind::kBeside: {
        const auto event = backend_.make_event();
        event->record(*stream_);
        event->wait(*copy_stream_);
        Values& copy = copies_.emplace_back(span(call.a).size());
        backend_.copy_to_host(*copy_stream_, span(call.a), copy);
        copied_[call.a]->record(*copy_stream_);
        break;
      }
      case Call::Kind::kBring: {
        // Fresh values, in parallel with the compute, which waits only for them.
        const auto used = backend_.make_event();
        used->record(*stream_);
        used->wait(*copy_stream_);
        given_.emplace_back(span(call.a).size(), call.factor);
        backend_.copy_to_device(*copy_stream_, given_.back(), span(call.a));
        used->record(*copy_stream_);
        used->wait(*stream_);
        break;
      }
      case Call::Kind::kSquares: {
        const DeviceSpan<const float> of = span(call.a);
        numbers_.push_back(
            static_cast<float>(backend_.sum_of_squares(*stream_, std::span(&of, 1))));
        break;
      }
    }
  }

  Backend& backend_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Stream> copy_stream_;
  std::vector<DeviceBuffer> buffers_;
  std::vector<std::unique_ptr<Event>> copied_;  // a buffer's last copy in parallel with the compute
  std::deque<Values> given_;
  std::deque<Values> copies_;
  Values numbers_;
  bool waits_ = true;  // for copies, before each call
};

bool same(const Values& a, const Values& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](float x, float y) {
           return x == y || (x != x && y != y);
         });
}

/// Room for the largest call at least, and for all at most.
std::uint64_t budget_for(std::mt19937_64& random) {
  const auto bytes = [](std::size_t kind) { return (size_of(kind) * 4 + 255) / 256 * 256; };
  const std::uint64_t least = 3 * bytes(kClasses - 1);
  std::uint64_t all = 0;
  for (std::size_t kind = 0; kind < kClasses; ++kind) all += kEach * bytes(kind);
  return least + random() % (all - least + 1);
}

}  // namespace

TEST_CASE("random programs give the same numbers within a budget, however late the copies are",
          "[budget]") {
  constexpr std::size_t kBuffers = kClasses * kEach;
  std::uint64_t moved = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    std::mt19937_64 random(seed);
    const auto training = random_program(random, 0, 5 + random() % 30);
    const auto testing = random_program(random, kBuffers, 1 + random() % 10);
    const std::uint64_t budget = budget_for(random);
    CAPTURE(seed, budget);
    const auto host = cpu();
    Machine plain(*host, 2 * kBuffers);
    test::LateBackend late(*host, {.seed = seed % 3 == 0 ? 0 : seed, .memory = Bytes(1U << 22U)});
    PlannedBackend planned(late, {.budget = Bytes(budget), .poison = true});
    Machine within(planned, 2 * kBuffers);
    if (random() % 2 == 0) {
      const auto calls = [&]() -> Result<void> {
        within.run(training);
        return ok();
      };
      REQUIRE(planned.dry_run(within.stream(), "training", calls).has_value());
      within.forget();
    }
    for (int clock = 0; clock < 5; ++clock) {
      for (Machine* machine : {&plain, &within}) {
        machine->cycle("training", training);
        if (clock == 1 || clock == 3) machine->cycle("testing", testing);
      }
    }
    moved += planned.cycle("training")->plan().moved_bytes().value();
    CHECK(planned.arena_bytes().value() <= budget);
    CHECK(same(within.seen(), plain.seen()));
  }
  CHECK(moved > 100'000);
}

TEST_CASE("the compute does not wait in a budget for the copy of a gradient", "[budget]") {
  const auto inner = cpu();
  test::LateBackend late(*inner, {});
  constexpr std::size_t kCount = 4096;
  constexpr std::size_t kBuffers = 6;
  PlannedBackend planned(late, {.budget = Bytes(3 * kCount * sizeof(float))});
  const auto compute = planned.make_stream();
  const auto copies = planned.make_copy_stream();
  std::vector<DeviceBuffer> gradients;
  std::vector<Values> arrived(kBuffers, Values(kCount));
  for (std::size_t i = 0; i < kBuffers; ++i) gradients.push_back(planned.allocate_floats(kCount));
  const auto step = [&](std::size_t i) {
    planned.fill(*compute, gradients[i].as<float>(), static_cast<float>(i + 1));
    planned.copy_to_host(*copies, gradients[i].as<float>(), arrived[i]);
  };
  const auto planning = planned.dry_run(*compute, "backward", [&]() -> Result<void> {
    for (std::size_t i = 0; i < kBuffers; ++i) step(i);
    return ok();
  });
  REQUIRE(planning.has_value());
  planned.begin_cycle(*compute, "backward");
  step(0);
  step(1);
  compute->finish();
  // What nothing waits for is late.
  CHECK(arrived[0] == Values(kCount));
  for (std::size_t i = 2; i < kBuffers; ++i) step(i);
  planned.end_cycle();
  copies->finish();
  for (std::size_t i = 0; i < kBuffers; ++i) {
    CHECK(arrived[i] == Values(kCount, static_cast<float>(i + 1)));
  }
}

TEST_CASE("recordings within a budget cover the calls between two moves of memory", "[budget]") {
  constexpr std::size_t kBuffers = kClasses * kEach;
  std::uint64_t moved = 0;
  std::uint64_t replayed = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    std::mt19937_64 random(seed);
    const auto training = random_program(random, 0, 5 + random() % 30);
    const auto testing = random_program(random, kBuffers, 1 + random() % 10);
    const std::uint64_t budget = budget_for(random);
    CAPTURE(seed, budget);
    const auto host = cpu();
    Machine plain(*host, 2 * kBuffers);
    test::LateBackend late(*host, {.seed = seed % 3 == 0 ? 0 : seed, .memory = Bytes(1U << 22U)});
    test::RecordingBackend recording(late);
    PlannedBackend planned(recording, {.budget = Bytes(budget), .poison = seed % 4 == 0});
    Machine within(planned, 2 * kBuffers);
    for (int clock = 0; clock < 9; ++clock) {
      for (Machine* machine : {&plain, &within}) {
        machine->cycle("training", training);
        // Another plan has the arena in between, and may make it larger.
        if (clock == 1 || clock == 6) machine->cycle("testing", testing);
      }
    }
    moved += planned.cycle("training")->plan().moved_bytes().value();
    replayed += recording.replayed();
    CHECK(same(within.seen(), plain.seen()));
  }
  CHECK(moved > 50'000);
  CHECK(replayed > 5'000);
}

TEST_CASE("a call that cannot fit is refused with its largest tensor, the bytes and the budget",
          "[budget]") {
  const auto host = cpu();
  PlannedBackend planned(*host, {.budget = Bytes(1000)});
  const auto stream = planned.make_stream();
  const DeviceBuffer small = planned.allocate_floats(10, "small");
  const DeviceBuffer large = planned.allocate_floats(250, "large");
  const auto sum = [&]() -> Result<void> {
    planned.add(*stream, large.as<float>().subspan(0, 10), small.as<float>());
    return ok();
  };
  const auto refused = planned.dry_run(*stream, "training", sum);
  REQUIRE_FALSE(refused.has_value());
  for (const char* part : {"'large'", "1280 bytes at once", "device_memory_budget is 1000 bytes"}) {
    CHECK(refused.error().message.find(part) != std::string::npos);
  }
  CHECK_THROWS_WITH(sum(), Catch::Matchers::Contains("'large'") &&
                               Catch::Matchers::Contains("device_memory_budget is 1000 bytes"));
}

TEST_CASE("a cycle that differs from the plan ends with the expected call", "[budget]") {
  const auto host = cpu();
  PlannedBackend planned(*host, {.budget = Bytes(4096)});
  const auto stream = planned.make_stream();
  const DeviceBuffer a = planned.allocate_floats(10, "a");
  const DeviceBuffer b = planned.allocate_floats(10, "b");
  planned.begin_cycle(*stream, "training");
  planned.fill(*stream, a.as<float>(), 1);
  planned.copy(*stream, a.as<float>(), b.as<float>());
  planned.end_cycle();
  planned.begin_cycle(*stream, "training");
  planned.fill(*stream, a.as<float>(), 1);
  CHECK_THROWS_WITH(planned.fill(*stream, b.as<float>(), 1),
                    Catch::Matchers::Contains("copy into b"));
  CHECK_THROWS_WITH(planned.end_cycle(), Catch::Matchers::Contains("ended before copy into b"));
}

TEST_CASE("a tensor that is read in a cycle whose plan does not know of it ends the run with both",
          "[budget]") {
  const auto host = cpu();
  PlannedBackend planned(*host, {.budget = Bytes(4096)});
  const auto stream = planned.make_stream();
  const DeviceBuffer a = planned.allocate_floats(10, "a");
  const DeviceBuffer b = planned.allocate_floats(10, "b");
  const DeviceBuffer other = planned.allocate_floats(10, "other");
  const auto cycle = [&]() -> Result<void> {
    planned.fill(*stream, a.as<float>(), 1);
    planned.copy(*stream, a.as<float>(), b.as<float>());
    return ok();
  };
  REQUIRE(planned.dry_run(*stream, "training", cycle).has_value());
  const Extents shape{10};
  std::vector<float> values(10);
  // Neither has a value yet, one of which the plan has never heard.
  for (const DeviceBuffer* buffer : {&a, &other}) {
    planned.begin_cycle(*stream, "training");
    CHECK_THROWS_WITH(planned.read_tensor(*stream, shape, buffer->as<float>(), values),
                      Catch::Matchers::Contains(buffer == &a ? "tensor to the host of a"
                                                             : "tensor to the host of other") &&
                          Catch::Matchers::Contains("expects fill into a"));
    // The cycle is still there: it continues as planned.
    REQUIRE(cycle().has_value());
    planned.end_cycle();
  }
  // Where its value is on the device, the host may look at it at any time.
  planned.begin_cycle(*stream, "training");
  planned.fill(*stream, a.as<float>(), 3);
  planned.read_tensor(*stream, shape, a.as<float>(), values);
  CHECK(values == Values(10, 3.0F));
  planned.copy(*stream, a.as<float>(), b.as<float>());
  planned.end_cycle();
}

TEST_CASE("the host reads a value wherever it is, between calls and within a cycle", "[budget]") {
  const auto host = cpu();
  test::LateBackend late(*host, {.memory = Bytes(1U << 20U)});
  // Room for two of three buffers.
  PlannedBackend planned(late, {.budget = Bytes(512), .poison = true});
  const auto stream = planned.make_stream();
  std::vector<DeviceBuffer> buffers;
  for (const char* name : {"a", "b", "c"}) buffers.push_back(planned.allocate_floats(64, name));
  const auto span = [&](std::size_t i) { return buffers[i].as<float>(); };
  const auto first_of = [&](std::size_t i) {
    std::vector<float> values(64);
    planned.copy_to_host(*stream, span(i), values);
    stream->finish();
    return values[0];
  };
  for (std::size_t i = 0; i < 3; ++i) planned.fill(*stream, span(i), static_cast<float>(i + 1));
  CHECK(first_of(0) == 1);
  for (int clock = 0; clock < 3; ++clock) {
    planned.begin_cycle(*stream, "training");
    for (std::size_t i = 0; i < 3; ++i) {
      planned.add(*stream, span(i), span((i + 1) % 3));
      if (clock == 1) {
        CHECK(first_of(i) > 0);
        CHECK(first_of((i + 1) % 3) > first_of(i));
      }
    }
    planned.end_cycle();
  }
  float a = 1;
  float b = 2;
  float c = 3;
  for (int clock = 0; clock < 3; ++clock) {
    b += a;
    c += b;
    a += c;
  }
  CHECK(first_of(0) == a);
  CHECK(first_of(1) == b);
  CHECK(first_of(2) == c);
}

}  // namespace taut

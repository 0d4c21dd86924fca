// A member in C++: pulls its table towards 3, clock by clock, and lends its updates, which are not
// copied on their way.
// usage: member_cpp COORDINATOR JOB CLOCKS
#include <tautline/tautline.h>

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

void check(tautline_code code) {
  if (code != TAUTLINE_OK) throw std::runtime_error(tautline_error());
}

struct Close {
  void operator()(tautline_member* member) const { tautline_close(member); }
};
using Member = std::unique_ptr<tautline_member, Close>;

Member join(const char* coordinator, std::uint64_t job) {
  tautline_member* member = nullptr;
  check(tautline_join(coordinator, nullptr, job, nullptr, 2, &member));
  return Member(member);
}

/// Memory for one update, which frees itself once the library has sent it.
void push(tautline_member* member, std::uint32_t table, std::vector<float> update) {
  auto lent = std::make_unique<std::vector<float>>(std::move(update));
  tautline_buffer buffer{};
  buffer.data = lent->data();
  buffer.count = lent->size();
  buffer.element = TAUTLINE_FLOAT32;
  buffer.release = [](void* context) { delete static_cast<std::vector<float>*>(context); };
  buffer.context = lent.get();
  check(tautline_push_buffer(member, table, &buffer));
  (void)lent.release();  // the library's now
}

float train(const char* coordinator, std::uint64_t job, std::int64_t clocks) {
  std::vector<float> values(10, 0.0F);  // written until the member is closed
  const Member member = join(coordinator, job);
  tautline_place place{};
  check(tautline_await_place(member.get(), &place));
  const std::int64_t shape[] = {static_cast<std::int64_t>(values.size())};
  std::uint32_t table = 0;
  check(tautline_add_table(member.get(), "w", shape, 1, TAUTLINE_FLOAT32, TAUTLINE_TRAINED,
                           values.data(), &table));
  check(tautline_open(member.get()));
  for (std::int64_t clock = place.start; clock <= clocks; ++clock) {
    std::vector<float> gradient;
    double loss = 0;
    for (const float value : values) {
      gradient.push_back(2 * (value - 3));
      loss += (value - 3) * (value - 3);
    }
    push(member.get(), table, std::move(gradient));
    check(tautline_pull(member.get(), table, nullptr));
    const tautline_report report{loss, 1};
    check(tautline_end_clock(member.get(), &report, nullptr));
  }
  check(tautline_finish(member.get()));
  return values.front();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: member_cpp COORDINATOR JOB CLOCKS\n";
    return 2;
  }
  try {
    std::cout << train(argv[1], std::stoull(argv[2]), std::stoll(argv[3])) << "\n";
  } catch (const std::exception& failure) {
    std::cerr << "member_cpp: " << failure.what() << "\n";
    return 1;
  }
  return 0;
}

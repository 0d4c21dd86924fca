// A reader in C++: follows a job until it is over, and prints each version with a value of it.
// usage: follower_cpp COORDINATOR JOB
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <tautline/tautline.hpp>

int main(int count, char** arguments) {
  if (count != 3) {
    std::cerr << "usage: follower_cpp COORDINATOR JOB\n";
    return 2;
  }
  std::int64_t version = 0;
  try {
    tautline::Follower follower(arguments[1], std::strtoull(arguments[2], nullptr, 10));
    while (true) {
      const tautline::Model model = follower.pull(version + 1);
      version = model.version();
      for (const tautline::TableValues& table : model.tables()) {
        std::cout << version << " " << table.name << " " << table.data[0] << std::endl;
      }
    }
  } catch (const tautline::Error& error) {
    if (error.code() == TAUTLINE_STOPPED) return 0;
    std::cerr << error.what() << "\n";
    return 1;
  }
}

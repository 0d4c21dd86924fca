#include "tests/support/catch_runner.hpp"

int main(int argc, char** argv) {
  return taut::test::run_cases(argc, argv);
}

#define CATCH_CONFIG_RUNNER
#include "tests/support/catch_runner.hpp"

#include "tests/support/catch.hpp"

namespace taut::test {

int run_cases(int argc, char** argv) {
  return Catch::Session().run(argc, argv);
}

}  // namespace taut::test

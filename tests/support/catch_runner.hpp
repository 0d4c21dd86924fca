#pragma once

namespace taut::test {

/// Runs this program's cases as its command line says, with Catch2's exit status. Compiled once for
/// all programs: Catch2's own part takes longer than most tests.
int run_cases(int argc, char** argv);

}  // namespace taut::test

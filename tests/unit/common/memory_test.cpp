#include "common/system/memory.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/temp_folder.hpp"

using namespace taut;

TEST_CASE("available memory is the machine's, limited by the control group", "[memory]") {
  const test::TempFolder folder;
  const auto meminfo = folder.write("meminfo",
                                    "MemTotal:       16000 kB\nMemFree:         1000 kB\n"
                                    "MemAvailable:    8000 kB\nBuffers: 1 kB\n");
  const auto group = folder.path() / "group";
  const auto available = [&] { return available_memory(meminfo, group).value(); };
  CHECK(available() == 8000 * 1024);  // no group
  folder.write("group/memory.max", "max\n");
  folder.write("group/memory.current", "5000000\n");
  CHECK(available() == 8000 * 1024);  // a group without a limit
  folder.write("group/memory.max", "6000000\n");
  CHECK(available() == 1'000'000);
  folder.write("group/memory.stat", "anon 1\nfile 900000\ninactive_file 600000\n");
  CHECK(available() == 1'600'000);
  folder.write("group/memory.max", "4000000\n");  // it was lowered
  CHECK(available() == 0);
  folder.write("group/memory.max", "64000000\n");
  CHECK(available() == 8000 * 1024);
  CHECK(available_memory(folder.path() / "none", folder.path() / "none") == Bytes(0));
}

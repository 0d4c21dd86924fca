#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>

#include "cli/doctor/checks.hpp"
#include "cli/views/draw.hpp"

namespace taut::cli {
namespace {

constexpr std::uint64_t kGibibyte = 1ULL << 30U;
// ZeroMQ needs one or two for each peer: a hundred workers at a dozen shards stay below it.
constexpr std::uint64_t kOpenFiles = 1024;
constexpr std::uint64_t kTooFewOpenFiles = 128;

std::string gibibytes(std::uint64_t bytes) {
  return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / static_cast<double>(kGibibyte));
}

Finding instructions(const HostFacts& host) {
  const auto has = [&](const char* flag) {
    return std::ranges::find(host.flags, flag) != host.flags.end();
  };
  std::vector<const char*> found;
  for (const char* flag : {"avx2", "fma", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile"}) {
    if (has(flag)) found.push_back(flag);
  }
  const std::string text =
      fmt::format("{}; {}", host.processor.empty() ? "unknown" : host.processor,
                  found.empty() ? "no AVX2" : fmt::format("{}", fmt::join(found, " ")));
#ifdef __x86_64__
  if (!has("avx2")) {
    return warning("processor", text, "oneDNN is several times slower without AVX2");
  }
#endif
  return fine("processor", text);
}

Finding processors(const pb::ClusterConfig& config, const HostFacts& host) {
  const auto requested = static_cast<int>(config.worker().threads());
  std::string found = counted(host.processors, "processor");
  if (host.processors < host.online_processors) {
    found += fmt::format(" of {} may be used", host.online_processors);
  }
  if (host.processor_quota > 0) found += fmt::format(", {:g} by quota", host.processor_quota);
  const double usable = host.processor_quota > 0
                            ? std::min<double>(host.processors, host.processor_quota)
                            : host.processors;
  if (requested > usable) {
    return warning("processor", found,
                   fmt::format("worker {{ threads: {} }} requests more: set it to {:.0f}",
                               requested, std::max(1.0, usable)));
  }
  return fine("processor", found);
}

Finding memory(const HostFacts& host) {
  std::string found = fmt::format("{} of {} available", gibibytes(host.available_bytes),
                                  gibibytes(host.memory_bytes));
  if (host.group_limit_bytes > 0) {
    found += fmt::format(", the control group's limit is {}", gibibytes(host.group_limit_bytes));
  }
  const std::uint64_t least = host.group_limit_bytes > 0
                                  ? std::min(host.available_bytes, host.group_limit_bytes)
                                  : host.available_bytes;
  if (least < kGibibyte) {
    return warning(
        "memory", found,
        "end what takes the rest, or train with fewer workers; where memory ends, the kernel "
        "kills processes with signal 9");
  }
  return fine("memory", found);
}

Finding open_files(const HostFacts& host) {
  const std::string found =
      fmt::format("{} open files, up to {} if raised", host.open_files, host.open_files_hard);
  if (host.open_files >= kOpenFiles) return fine("limits", found);
  const std::string advice = fmt::format("raise it where the daemons start: ulimit -n {}",
                                         std::min<std::uint64_t>(host.open_files_hard, 4096));
  if (host.open_files < kTooFewOpenFiles) return trouble("limits", found, advice);
  return warning("limits", found, advice);
}

}  // namespace

Findings check_host(const pb::ClusterConfig& config, const HostFacts& host) {
  Findings findings{instructions(host), processors(config, host), memory(host), open_files(host)};
  if (host.address_space > 0 && host.address_space < 2 * host.memory_bytes) {
    findings.push_back(warning("limits",
                               fmt::format("address space: {}", gibibytes(host.address_space)),
                               "shared memory reserves as much address space as the machine has "
                               "memory: ulimit -v unlimited"));
  }
  if (!host.shm_bytes) {
    findings.push_back(
        fine("/dev/shm", "is missing; Tautline's own shared memory does not need it"));
  } else {
    findings.push_back(fine(
        "/dev/shm", gibibytes(*host.shm_bytes) + " free; Tautline's own shared memory needs none"));
  }
  return findings;
}

Findings check_versions(const std::vector<LibraryFacts>& libraries,
                        const std::vector<ProgramFacts>& programs, const std::string& own_build) {
  Findings findings;
  for (const ProgramFacts& program : programs) {
    if (!program.build) {
      findings.push_back(trouble("version", program.build.error().message,
                                 "build or install all three programs of one release"));
    } else if (program.build.value() != own_build) {
      findings.push_back(trouble(
          "version",
          fmt::format("{} is {}, this is {}", program.name, program.build.value(), own_build),
          "build or install all three programs of one release"));
    } else {
      findings.push_back(fine("version", fmt::format("{}: {}", program.name, own_build)));
    }
  }
  std::vector<std::string> matching;
  for (const LibraryFacts& library : libraries) {
    if (library.running.empty() || library.running == library.built_with) {
      matching.push_back(fmt::format("{} {}", library.name, library.built_with));
      continue;
    }
    findings.push_back(fine("version", fmt::format("{} {}, built with {}", library.name,
                                                   library.running, library.built_with)));
  }
  if (!matching.empty()) {
    findings.push_back(fine("version", fmt::format("{}", fmt::join(matching, ", "))));
  }
  return findings;
}

}  // namespace taut::cli

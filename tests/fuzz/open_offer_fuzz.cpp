// Shared memory that a peer offers, and places in it that it names: what is opened is what was
// offered, nothing else is mapped and nothing is waited for, and what is borrowed is within it.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "common/check.hpp"
#include "common/net/shared_link.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/fuzz/script.hpp"
#include "tests/support/temp_folder.hpp"

namespace taut {
namespace {

using fuzz::Script;

constexpr std::size_t kArenaBytes = std::size_t{1} << 20U;
constexpr std::size_t kFrames = 8;

int memory(const char* name, std::size_t size, int seals) {
  const int file = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  TAUT_CHECK(file >= 0 && ftruncate(file, static_cast<off_t>(size)) == 0, "new memory");
  TAUT_CHECK(seals == 0 || fcntl(file, F_ADD_SEALS, seals) == 0, "a seal");
  return file;
}

/// The peer: its arena, and whatever else it may have open.
struct Peer {
  Peer() {
    const test::TempFolder folder;
    const std::string pipe = (folder.path() / "pipe").string();
    TAUT_CHECK(mkfifo(pipe.c_str(), 0600) == 0, "a pipe");
    const std::size_t size = arena->offer().size;
    files = {static_cast<int>(arena->offer().descriptor),
             // Who opens it for reading, and is ready to wait, waits for a writer.
             open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC), memory("tautline", size, 0),
             memory("tautline", size, F_SEAL_SHRINK), memory("tautline", 8, F_SEAL_SHRINK),
             memory("other", size, F_SEAL_SHRINK), open("/dev/zero", O_RDONLY | O_CLOEXEC),
             open("/", O_RDONLY | O_CLOEXEC), -1};
  }

  /// Says how often a loan was used when it came back, true or not.
  void write_return(std::uint32_t loan, std::uint32_t generation) const {
    std::memcpy(base + link.offer().returns + loan * sizeof generation, &generation,
                sizeof generation);
  }

  [[nodiscard]] blkcnt_t blocks() const {
    struct stat status = {};
    TAUT_CHECK(fstat(files.front(), &status) == 0, "the peer's memory");
    return status.st_blocks;
  }

  std::shared_ptr<SharedArena> arena = SharedArena::create(Bytes(kArenaBytes)).value();
  SharedLink link{arena};
  std::byte* base = start_of(*arena);
  std::vector<int> files;

 private:
  static std::byte* start_of(SharedArena& arena) {
    auto* const some = static_cast<std::byte*>(arena.allocate(1));
    return some - *arena.offset_of({some, 1});
  }
};

struct Drawn {
  SharedLink::Offer offer;
  ArenaPages pages = ArenaPages::kReturned;
};

Drawn draw_offer(Script& script, const Peer& peer) {
  SharedLink::Offer offer = peer.link.offer();
  const std::uint32_t what = script.byte();
  if ((what & 1U) != 0) {
    const std::array<std::uint32_t, 3> processes = {offer.memory.process, 1, 0};
    const std::uint32_t which = script.pick(4);
    offer.memory.process =
        which < 3 ? processes.at(which) : static_cast<std::uint32_t>(script.number());
  }
  if ((what & 2U) != 0) {
    const int file = peer.files.at(script.pick(static_cast<std::uint32_t>(peer.files.size())));
    offer.memory.descriptor = static_cast<std::uint32_t>(file);
  }
  if ((what & 4U) != 0) offer.memory.size = script.number();
  if ((what & 8U) != 0) offer.memory.probe.at(script.pick(16)) = std::byte{script.byte()};
  if ((what & 16U) != 0) offer.returns = script.number();
  return {offer, (what & 32U) != 0 ? ArenaPages::kStay : ArenaPages::kReturned};
}

/// A second number of the peer's process leads to the same memory, and a process may have several
/// numbers: what counts is the memory.
bool is_the_peers(const SharedMemoryOffer& offer, const Peer& peer) {
  const SharedMemoryOffer& genuine = peer.arena->offer();
  return offer.size == genuine.size && offer.probe == genuine.probe;
}

void play(Script script) {
  static const Peer peer;
  static const std::shared_ptr<SharedArena> ours = SharedArena::create(Bytes(kArenaBytes)).value();
  SharedLink link(ours);
  link.start();
  BufferPool pool(Bytes(kArenaBytes), ours);
  const Buffer payload = pool.acquire(SharedLink::kMinBytes);
  std::deque<Frame> borrowed;
  std::uint64_t lent = 0;
  bool must_be_written = false;
  while (!script.is_over()) {
    switch (script.pick(6)) {
      case 0: {
        const auto [offer, pages] = draw_offer(script, peer);
        const bool was_open = link.is_open();
        const auto opened = link.open(offer, pages);
        if (opened) must_be_written = pages == ArenaPages::kStay;
        TAUT_CHECK(!opened || is_the_peers(offer.memory, peer), "only what was offered is opened");
        TAUT_CHECK(!opened || link.is_alive(), "its owner has it");
        TAUT_CHECK(opened || link.is_open() == was_open, "what failed has changed nothing");
        break;
      }
      case 1:
      case 2: {
        const SharedPlace place{script.number(), static_cast<std::uint32_t>(script.number()),
                                script.byte()};
        const std::size_t size = script.number();
        const auto frame = link.borrow(place, size);
        if (!frame) break;
        TAUT_CHECK(link.is_open() && frame.value().size() == size, "as many bytes as were named");
        TAUT_CHECK(size <= peer.arena->offer().size, "no more bytes than there are");
        if (size > 0) {
          const blkcnt_t before = peer.blocks();
          const auto bytes = frame.value().bytes();
          int sum = static_cast<int>(bytes.back());
          for (std::size_t at = 0; at < size; at += 4096) sum += static_cast<int>(bytes[at]);
          TAUT_CHECK(sum >= 0, "read");
          TAUT_CHECK(!must_be_written || peer.blocks() == before, "reading makes no page");
        }
        borrowed.push_back(frame.value());
        if (borrowed.size() > kFrames) borrowed.pop_front();
        break;
      }
      case 3:
        borrowed.clear();
        break;
      case 4: {
        const std::uint64_t before = link.lent_so_far();
        if (link.lend(Frame(payload))) ++lent;
        if (script.pick(2) == 0) {
          lent -= link.lent_so_far() - before;
          link.undo_since(before);
        }
        break;
      }
      default:
        // What the peer's words say is up to the peer.
        peer.write_return(script.pick(4), script.byte());
        if (link.is_open()) link.collect();
    }
    TAUT_CHECK(link.on_loan() <= lent, "no more is on loan than was lent");
    TAUT_CHECK(link.bytes_on_loan() == link.on_loan() * payload.size(), "its bytes");
  }
}

}  // namespace

std::vector<std::string> fuzz::samples() {
  std::string good{'\0', '\0'};  // an offer as it is
  for (char kind = 0; kind < 6; ++kind) good += std::string{kind, 0, 7, 1, 5, 2, 0, 0};
  std::vector<std::string> samples{good};
  for (char file = 0; file < 9; ++file) {
    samples.push_back(std::string{0, 2, file, 1, 3, 1, 1, 9} + good);
  }
  samples.push_back(std::string{0, 0, 1, '\xff', 0, 0, 0, 0, 0, '\x0f', '\xff', '\xfe', 0, 1, 9} +
                    good);
  samples.push_back(std::string{0, 32, 1, 7, 1} + good);
  samples.push_back(std::string{0, 31, 0, 3, '\xf0', 0, 1, 0, 0, 0, 0, 0, 0, 5, 7, 1, 64} + good);
  return samples;
}

}  // namespace taut

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  taut::play(taut::fuzz::Script({data, size < 400 ? size : 400}));
  return 0;
}

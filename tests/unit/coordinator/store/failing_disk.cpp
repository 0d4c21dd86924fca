#include "tests/unit/coordinator/store/failing_disk.hpp"

#include <sqlite3.h>

#include <atomic>
#include <cstring>

#include "common/check.hpp"

namespace taut {
namespace {

// SQLite's interface is one of plain functions, so their state is the process's.
std::atomic<FailingDisk::Fault> fault{FailingDisk::Fault::kNone};
std::atomic<int> calls_left{0};
std::atomic<int> write_count{0};
std::atomic<int> sync_count{0};

sqlite3_vfs vfs;
sqlite3_io_methods methods;
sqlite3_vfs* base = nullptr;

/// A file of this disk; the one below follows it in memory.
struct File {
  sqlite3_file head;
  [[nodiscard]] sqlite3_file* below() { return reinterpret_cast<sqlite3_file*>(this + 1); }
};

File* as_file(sqlite3_file* file) {
  return reinterpret_cast<File*>(file);
}

sqlite3_file* below(sqlite3_file* file) {
  return as_file(file)->below();
}

bool fails_now() {
  return calls_left.fetch_sub(1) <= 1;
}

int write(sqlite3_file* file, const void* data, int size, sqlite3_int64 offset) {
  ++write_count;
  const FailingDisk::Fault now = fault;
  const bool is_write = now != FailingDisk::Fault::kNone && now != FailingDisk::Fault::kSyncError;
  if (is_write && fails_now()) {
    if (now == FailingDisk::Fault::kNoSpace) return SQLITE_FULL;
    if (now == FailingDisk::Fault::kTornWrite) {
      [[maybe_unused]] const int half =
          below(file)->pMethods->xWrite(below(file), data, size / 2, offset);
    }
    return SQLITE_IOERR_WRITE;
  }
  return below(file)->pMethods->xWrite(below(file), data, size, offset);
}

int sync(sqlite3_file* file, int flags) {
  ++sync_count;
  if (fault == FailingDisk::Fault::kSyncError && fails_now()) return SQLITE_IOERR_FSYNC;
  return below(file)->pMethods->xSync(below(file), flags);
}

void fill_methods() {
  methods = {};
  methods.iVersion = 1;
  methods.xClose = [](sqlite3_file* f) { return below(f)->pMethods->xClose(below(f)); };
  methods.xRead = [](sqlite3_file* f, void* to, int n, sqlite3_int64 at) {
    return below(f)->pMethods->xRead(below(f), to, n, at);
  };
  methods.xWrite = write;
  methods.xTruncate = [](sqlite3_file* f, sqlite3_int64 n) {
    return below(f)->pMethods->xTruncate(below(f), n);
  };
  methods.xSync = sync;
  methods.xFileSize = [](sqlite3_file* f, sqlite3_int64* n) {
    return below(f)->pMethods->xFileSize(below(f), n);
  };
  methods.xLock = [](sqlite3_file* f, int l) { return below(f)->pMethods->xLock(below(f), l); };
  methods.xUnlock = [](sqlite3_file* f, int l) { return below(f)->pMethods->xUnlock(below(f), l); };
  methods.xCheckReservedLock = [](sqlite3_file* f, int* out) {
    return below(f)->pMethods->xCheckReservedLock(below(f), out);
  };
  methods.xFileControl = [](sqlite3_file* f, int op, void* value) {
    return below(f)->pMethods->xFileControl(below(f), op, value);
  };
  methods.xSectorSize = [](sqlite3_file* f) { return below(f)->pMethods->xSectorSize(below(f)); };
  methods.xDeviceCharacteristics = [](sqlite3_file* f) {
    return below(f)->pMethods->xDeviceCharacteristics(below(f));
  };
}

int open(sqlite3_vfs*, const char* name, sqlite3_file* file, int flags, int* out_flags) {
  const int status = base->xOpen(base, name, below(file), flags, out_flags);
  as_file(file)->head.pMethods = below(file)->pMethods == nullptr ? nullptr : &methods;
  return status;
}

}  // namespace

FailingDisk::FailingDisk() {
  fault = Fault::kNone;
  write_count = 0;
  sync_count = 0;
  base = sqlite3_vfs_find(nullptr);
  fill_methods();
  vfs = *base;
  vfs.zName = "failing";
  vfs.szOsFile = static_cast<int>(sizeof(File)) + base->szOsFile;
  vfs.xOpen = open;
  TAUT_CHECK(sqlite3_vfs_register(&vfs, 1) == SQLITE_OK, "a file system for SQLite");
}

FailingDisk::~FailingDisk() {
  fault = Fault::kNone;
  sqlite3_vfs_unregister(&vfs);
  sqlite3_vfs_register(base, 1);
}

void FailingDisk::set(Fault requested, int calls) {
  calls_left = calls;
  fault = requested;
}

int FailingDisk::writes() const {
  return write_count;
}

int FailingDisk::syncs() const {
  return sync_count;
}

}  // namespace taut

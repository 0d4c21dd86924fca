/* A disk that has errors. In a program that loads this library first (LD_PRELOAD), writes or
 * flushes of some files, or hard links to them, fail with EIO. The variable FAILING_DISK names a
 * file that says which, as "FAULT PATTERN", where PATTERN is a shell's, of absolute paths, and
 * FAULT is one of
 *
 *   write   nothing of a piece is written
 *   full    the same, with ENOSPC
 *   torn    half of a piece is written
 *   flush   all is written, and not flushed to the disk
 *   link    no link is made at such a path
 *
 * While that file does not exist, nothing fails. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Reads what is to fail now. Returns 0 if nothing is to. */
static int read_fault(char* fault, size_t size) {
  const char* name = getenv("FAILING_DISK");
  const int from = name == NULL ? -1 : open(name, O_RDONLY | O_CLOEXEC);
  if (from < 0) return 0;
  const ssize_t count = read(from, fault, size - 1);
  close(from);
  fault[count > 0 ? count : 0] = '\0';
  return count > 0;
}

/* Whether a fault is to happen at a path now. Leaves errno as it is. */
static int happens_at(const char* fault, const char* path) {
  const int before = errno;
  char now[1024];
  int is_hit = 0;
  if (read_fault(now, sizeof now)) {
    char* pattern = strchr(now, ' ');
    if (pattern != NULL) *pattern++ = '\0';
    is_hit = pattern != NULL && strcmp(now, fault) == 0 && fnmatch(pattern, path, 0) == 0;
  }
  errno = before;
  return is_hit;
}

/* As happens_at(), of an open file. */
static int happens(const char* fault, int file) {
  const int before = errno;
  char link[64];
  char path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  const ssize_t count = readlink(link, path, sizeof path - 1);
  path[count > 0 ? count : 0] = '\0';
  errno = before;
  return happens_at(fault, path);
}

static int fail_with(int error) {
  errno = error;
  return -1;
}

static int fail(void) {
  return fail_with(EIO);
}

/* By system calls: a sanitizer's own functions of these names call the ones below. */

static ssize_t write_at(int file, const void* bytes, size_t size, off_t offset) {
  return syscall(SYS_pwrite64, file, bytes, size, offset);
}

ssize_t write(int file, const void* bytes, size_t size) {
  if (happens("write", file)) return fail();
  if (happens("full", file)) return fail_with(ENOSPC);
  if (!happens("torn", file)) return syscall(SYS_write, file, bytes, size);
  (void)syscall(SYS_write, file, bytes, size / 2);
  return fail();
}

ssize_t pwrite(int file, const void* bytes, size_t size, off_t offset) {
  if (happens("write", file)) return fail();
  if (happens("full", file)) return fail_with(ENOSPC);
  if (!happens("torn", file)) return write_at(file, bytes, size, offset);
  (void)write_at(file, bytes, size / 2, offset);
  return fail();
}

ssize_t pwrite64(int file, const void* bytes, size_t size, off_t offset) {
  return pwrite(file, bytes, size, offset);
}

int fsync(int file) {
  return happens("flush", file) ? fail() : (int)syscall(SYS_fsync, file);
}

int fdatasync(int file) {
  return happens("flush", file) ? fail() : (int)syscall(SYS_fdatasync, file);
}

int link(const char* from, const char* to) {
  if (happens_at("link", to)) return fail();
  return (int)syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0);
}

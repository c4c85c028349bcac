/* Preloaded into a server: asks for huge pages for each large mapping that it makes, such as the buffer pool. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/mman.h>

enum { LARGE = 4 << 20 };

static void *(*next_mmap)(void *, size_t, int, int, int, off_t);

void *mmap(void *at, size_t length, int protection, int flags, int file, off_t offset) {
  if (!next_mmap) next_mmap = (void *(*)(void *, size_t, int, int, int, off_t))dlsym(RTLD_NEXT, "mmap");
  void *found = next_mmap(at, length, protection, flags, file, offset);
  if (found != MAP_FAILED && (flags & MAP_ANONYMOUS) && (protection & PROT_WRITE) && length >= LARGE)
    madvise(found, length, MADV_HUGEPAGE);
  return found;
}

void *mmap64(void *at, size_t length, int protection, int flags, int file, off_t offset) {
  return mmap(at, length, protection, flags, file, offset);
}

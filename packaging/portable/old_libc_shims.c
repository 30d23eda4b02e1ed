/* What programs take from a glibc after 2.28, for programs that are linked with old_libc.py's libraries. The linker
 * names what is missing here. All of it is hidden: other libraries of a process never find it. */
#define _GNU_SOURCE
#include <elf.h>
#include <link.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>

#pragma GCC visibility push(hidden)

/* 2.32. libstdc++ counts without atomic instructions while this is not 0. */
char __libc_single_threaded = 0;

/* 2.33. Before it these were inline functions over those of glibc that tell the layout. */
int __xstat(int version, const char* path, struct stat* result) __attribute__((visibility("default")));
int __lxstat(int version, const char* path, struct stat* result) __attribute__((visibility("default")));
int __fxstat(int version, int fd, struct stat* result) __attribute__((visibility("default")));
int __fxstatat(int version, int fd, const char* path, struct stat* result, int flags)
    __attribute__((visibility("default")));
#ifdef __x86_64__
enum { kLayout = 1 };
#else
enum { kLayout = 0 };
#endif

int stat(const char* path, struct stat* result) {
  return __xstat(kLayout, path, result);
}
int lstat(const char* path, struct stat* result) {
  return __lxstat(kLayout, path, result);
}
int fstat(int fd, struct stat* result) {
  return __fxstat(kLayout, fd, result);
}
int fstatat(int fd, const char* path, struct stat* result, int flags) {
  return __fxstatat(kLayout, fd, path, result, flags);
}
/* libstdc++ calls these, which are the same here. */
int stat64(const char* path, struct stat64* result) __attribute__((alias("stat")));
int lstat64(const char* path, struct stat64* result) __attribute__((alias("lstat")));
int fstat64(int fd, struct stat64* result) __attribute__((alias("fstat")));
int fstatat64(int fd, const char* path, struct stat64* result, int flags) __attribute__((alias("fstatat")));

/* 2.32. */
const char* sigabbrev_np(int number) {
#define NAME(name) \
  case SIG##name:  \
    return #name
  switch (number) {
    NAME(ABRT);
    NAME(ALRM);
    NAME(BUS);
    NAME(CHLD);
    NAME(CONT);
    NAME(FPE);
    NAME(HUP);
    NAME(ILL);
    NAME(INT);
    NAME(KILL);
    NAME(PIPE);
    NAME(POLL);
    NAME(PROF);
    NAME(PWR);
    NAME(QUIT);
    NAME(SEGV);
    NAME(STKFLT);
    NAME(STOP);
    NAME(SYS);
    NAME(TERM);
    NAME(TRAP);
    NAME(TSTP);
    NAME(TTIN);
    NAME(TTOU);
    NAME(URG);
    NAME(USR1);
    NAME(USR2);
    NAME(VTALRM);
    NAME(WINCH);
    NAME(XCPU);
    NAME(XFSZ);
    default:
      return NULL;
  }
#undef NAME
}

/* 2.35. libgcc asks it which loaded file has an address, to unwind the stack there. */
struct search {
  ElfW(Addr) address;
  struct dl_find_object* result;
};

static int contains(struct dl_phdr_info* file, size_t size, void* data) {
  struct search* const search = data;
  const ElfW(Phdr)* unwinding = NULL;
  ElfW(Addr) begin = 0, end = 0;
  (void)size;
  for (int i = 0; i < file->dlpi_phnum; ++i) {
    const ElfW(Phdr)* const part = &file->dlpi_phdr[i];
    const ElfW(Addr) from = file->dlpi_addr + part->p_vaddr;
    if (part->p_type == PT_GNU_EH_FRAME) unwinding = part;
    if (part->p_type == PT_LOAD && from <= search->address && search->address < from + part->p_memsz) {
      begin = from;
      end = from + part->p_memsz;
    }
  }
  if (end == 0 || unwinding == NULL) return 0;
  memset(search->result, 0, sizeof *search->result);
  search->result->dlfo_map_start = (void*)begin;
  search->result->dlfo_map_end = (void*)end;
  search->result->dlfo_eh_frame = (void*)(file->dlpi_addr + unwinding->p_vaddr);
  return 1;
}

int _dl_find_object(void* address, struct dl_find_object* result) {
  struct search search = {(ElfW(Addr))address, result};
  return dl_iterate_phdr(contains, &search) == 1 ? 0 : -1;
}

#pragma GCC visibility pop

/* What programs take from a glibc after 2.28, for programs that are linked with old_libc.py's libraries. The linker
 * names what is missing here. All of it is hidden: other libraries of a process never find it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

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

/* 2.30. Where glibc has it, it is used. An older one waits by the time of day: a clock that is set meanwhile makes it
 * wait longer or shorter. Callers look at their own clock when it returns, so they are asked to every 100 ms. */
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const struct timespec* until) {
  typedef int Function(pthread_cond_t*, pthread_mutex_t*, clockid_t, const struct timespec*);
  static Function* volatile newer;
  static volatile char is_known;
  if (!is_known) {
    newer = (Function*)dlsym(RTLD_DEFAULT, "pthread_cond_clockwait");
    __sync_synchronize();
    is_known = 1;
  }
  if (newer != NULL) return newer(condition, mutex, clock, until);
  enum { kSecond = 1000000000, kSlice = 100000000 };
  struct timespec now, end;
  if (clock_gettime(clock, &now) != 0) return EINVAL;
  long long left = (long long)(until->tv_sec - now.tv_sec) * kSecond + (until->tv_nsec - now.tv_nsec);
  if (left <= 0) return ETIMEDOUT;
  const int is_last = left <= kSlice;
  if (!is_last) left = kSlice;
  clock_gettime(CLOCK_REALTIME, &end);
  end.tv_nsec += (long)left;
  if (end.tv_nsec >= kSecond) {
    end.tv_nsec -= kSecond;
    ++end.tv_sec;
  }
  const int result = pthread_cond_timedwait(condition, mutex, &end);
  return result == ETIMEDOUT && !is_last ? 0 : result; /* woken for no reason, which callers expect */
}

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

/* packaging/portable/old_libc_wait.c as it is with a glibc that lacks pthread_cond_clockwait, for old_glibc.cc. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#define pthread_cond_clockwait emulated_clockwait
#define dlsym(where, name) NULL
#include "packaging/portable/old_libc_wait.c"

/* For fully static programs: nothing is loaded into them. glibc would otherwise load the host's modules for names of
 * users and hosts and for character sets, and libraries that OpenSSL's configuration names. They belong to another
 * glibc, so the program could crash. These functions are found before those of libc.a. Every caller in libc.a,
 * libcrypto.a and libsqlite3.a takes a failure as "not installed", and goes on with what is built in: files and DNS for
 * names. */
#include <stddef.h>

#pragma GCC diagnostic ignored "-Wmissing-prototypes"

/* libc's own use: modules of nsswitch.conf and of iconv. */
void* __libc_dlopen_mode(const char* name, int mode) {
  (void)name;
  (void)mode;
  return NULL;
}
void* __libc_dlsym(void* library, const char* symbol) {
  (void)library;
  (void)symbol;
  return NULL;
}
void* __libc_dlvsym(void* library, const char* symbol, const char* version) {
  (void)library;
  (void)symbol;
  (void)version;
  return NULL;
}
int __libc_dlclose(void* library) {
  (void)library;
  return 0;
}

/* Of everybody else. */
void* dlopen(const char* name, int mode) {
  (void)name;
  (void)mode;
  return NULL;
}
void* dlsym(void* library, const char* symbol) {
  (void)library;
  (void)symbol;
  return NULL;
}
int dlclose(void* library) {
  (void)library;
  return 0;
}
char* dlerror(void) {
  static char text[] = "this program is static, so it loads no libraries";
  return text;
}
int dladdr(const void* address, void* found) {
  (void)address;
  (void)found;
  return 0;
}

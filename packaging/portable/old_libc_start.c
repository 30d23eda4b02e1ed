/* Since 2.34 glibc itself calls what a program has to be called before main(), so the compiler's start file passes no
 * function for that. An older glibc calls only what is passed. */
extern void (*const __init_array_start[])(int, char**, char**) __attribute__((visibility("hidden")));
extern void (*const __init_array_end[])(int, char**, char**) __attribute__((visibility("hidden")));
extern void _init(void);

static void initialise(int argc, char** argv, char** environment) {
  _init();
  const long count = __init_array_end - __init_array_start;
  for (long i = 0; i < count; ++i) __init_array_start[i](argc, argv, environment);
}

typedef int Main(int, char**, char**);
__asm__(".symver muster_glibc_start, __libc_start_main@" MUSTER_FIRST_GLIBC);
int muster_glibc_start(Main*, int, char**, void (*)(int, char**, char**), void (*)(void), void (*)(void), void*);

__attribute__((visibility("hidden"))) int __libc_start_main(Main* program, int argc, char** argv,
                                                            void (*before)(int, char**, char**), void (*after)(void),
                                                            void (*unload)(void), void* stack) {
  return muster_glibc_start(program, argc, argv, before != 0 ? before : initialise, after, unload, stack);
}

/* A rank of an MPI program, for tests of Muster with any MPI: compiled by the tests with that MPI's own mpicc.
 *
 *   collectives          everything that ranks do together, checked; prints "ok ranks=8 hosts=2 local=4"
 *   nothing              MPI_Init and MPI_Finalize
 *   wait                 prints "pid N", then all meet without end
 *   abort CODE RANK      RANK calls MPI_Abort(CODE); the others wait for it
 *   appnum               prints "appnum 1", the index of the program in the job
 *   spawn                all ask for one more process, and take the error as MPI does unless told otherwise
 *   spawn-and-go-on      the same, but prints "no spawn" for an error and ends well
 *   exit CODE RANK       RANK leaves with CODE and without MPI_Finalize; the others wait for it
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size;

static void check(int is_right, const char* what) {
  if (is_right) return;
  fprintf(stderr, "rank %d: wrong: %s\n", rank, what);
  MPI_Abort(MPI_COMM_WORLD, 99);
}

static void allreduce(void) {
  enum { kCount = 1 << 16 };
  static double from[kCount], to[kCount];
  for (int i = 0; i < kCount; ++i) from[i] = rank + i;
  MPI_Allreduce(from, to, kCount, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  for (int i = 0; i < kCount; ++i) check(to[i] == size * (size - 1) / 2.0 + (double)size * i, "allreduce");
}

static void alltoall(void) {
  int* from = malloc(sizeof(int) * (size_t)size);
  int* to = malloc(sizeof(int) * (size_t)size);
  for (int i = 0; i < size; ++i) from[i] = rank * 1000 + i;
  MPI_Alltoall(from, 1, MPI_INT, to, 1, MPI_INT, MPI_COMM_WORLD);
  for (int i = 0; i < size; ++i) check(to[i] == i * 1000 + rank, "alltoall");
  free(from);
  free(to);
}

/* A window of 4 bytes gives wrong results within a host with MPICH 4.0.2, under mpiexec.hydra as well. */
static void one_sided(MPI_Comm comm) {
  int own, all;
  MPI_Comm_rank(comm, &own);
  MPI_Comm_size(comm, &all);
  const int next = (own + 1) % all;
  int* memory;
  MPI_Win window;
  MPI_Win_allocate(64, sizeof(int), MPI_INFO_NULL, comm, &memory, &window);
  MPI_Win_lock(MPI_LOCK_EXCLUSIVE, own, 0, window);
  *memory = -1;
  MPI_Win_unlock(own, window);
  MPI_Barrier(comm);
  MPI_Win_lock(MPI_LOCK_EXCLUSIVE, next, 0, window);
  MPI_Put(&own, 1, MPI_INT, next, 0, 1, MPI_INT, window);
  MPI_Win_unlock(next, window);
  MPI_Barrier(comm);
  MPI_Win_lock(MPI_LOCK_SHARED, own, 0, window);
  const int got = *memory;
  MPI_Win_unlock(own, window);
  check(got == (own + all - 1) % all, "one-sided put");
  MPI_Win_free(&window);
}

static void by_host(int* hosts, int* local) {
  MPI_Comm host;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
  int local_rank;
  MPI_Comm_rank(host, &local_rank);
  MPI_Comm_size(host, local);
  const int is_first = local_rank == 0;
  MPI_Allreduce(&is_first, hosts, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Comm_free(&host);
}

static void collectives(void) {
  int hosts, local;
  allreduce();
  alltoall();
  by_host(&hosts, &local);
  one_sided(MPI_COMM_WORLD);
  printf("ok ranks=%d hosts=%d local=%d\n", size, hosts, local);
}

static void print_appnum(void) {
  int* number;
  int is_there;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &number, &is_there);
  printf("appnum %d\n", is_there ? *number : -1);
}

static void spawn(int goes_on) {
  MPI_Comm them;
  if (goes_on) MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  const int error =
      MPI_Comm_spawn("hostname", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &them, MPI_ERRCODES_IGNORE);
  printf("%s\n", error == MPI_SUCCESS ? "a spawn" : "no spawn");
}

static void meet_without_end(void) {
  printf("pid %d\n", (int)getpid());
  fflush(stdout);
  for (;;) MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "collectives";
  const int code = argc > 2 ? atoi(argv[2]) : 0;
  const int who = argc > 3 ? atoi(argv[3]) : 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (strcmp(what, "collectives") == 0) collectives();
  if (strcmp(what, "appnum") == 0) print_appnum();
  if (strncmp(what, "spawn", 5) == 0) spawn(strcmp(what, "spawn-and-go-on") == 0);
  if (strcmp(what, "wait") == 0) meet_without_end();
  if (strcmp(what, "abort") == 0 || strcmp(what, "exit") == 0) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == who) {
      if (strcmp(what, "exit") == 0) _exit(code);
      MPI_Abort(MPI_COMM_WORLD, code);
    }
    meet_without_end();
  }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}

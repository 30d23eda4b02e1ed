/* Ranks that start more ranks (MPI_Comm_spawn).
 *
 *   mpi_spawn all N            all ranks spawn N of this program, and speak with them
 *   mpi_spawn self N           rank 0 alone does
 *   mpi_spawn host N HOST      all, with the info key "host"
 *   mpi_spawn wdir N DIR       all, with the info key "wdir"
 *   mpi_spawn multiple N       all spawn 1 and N of this program as two programs
 *   mpi_spawn fail N           one of the spawned ranks leaves with code 7
 *   mpi_spawn abort N          one of the spawned ranks calls MPI_Abort(9)
 *   mpi_spawn deep N           spawned ranks spawn N more
 *   mpi_spawn missing N        rank 0 spawns a program that is not there, and takes the error
 *   mpi_spawn too-many N       rank 0 asks for N ranks, and takes the error
 *
 * Prints one line a rank. */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size;
static const char* what;

/* Each side's ranks are summed over both sides. */
static void speak(MPI_Comm others, int is_spawned) {
  MPI_Comm all;
  int there = 0, all_size = 0, sum = 0, one = 1, length = 0;
  char host[MPI_MAX_PROCESSOR_NAME] = "", directory[4096] = "";
  MPI_Comm_remote_size(others, &there);
  MPI_Intercomm_merge(others, is_spawned, &all);
  MPI_Comm_size(all, &all_size);
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, all);
  MPI_Get_processor_name(host, &length);
  if (getcwd(directory, sizeof directory) == NULL) directory[0] = '\0';
  printf("%s rank=%d of=%d there=%d all=%d sum=%d host=%s dir=%s\n", is_spawned ? "child" : "parent", rank, size, there,
         all_size, sum, host, directory);
  fflush(stdout);
  MPI_Comm_free(&all);
}

static void be_spawned(MPI_Comm parent, const char* self, int argc, char** argv) {
  const char* order = argc > 1 ? argv[1] : "";
  MPI_Comm others;
  speak(parent, 1);
  if (strcmp(order, "fail") == 0 && rank == size - 1) _exit(7);
  if (strcmp(order, "abort") == 0 && rank == size - 1) MPI_Abort(MPI_COMM_WORLD, 9);
  if (strcmp(order, "fail") == 0 || strcmp(order, "abort") == 0) {
    for (;;) MPI_Barrier(MPI_COMM_WORLD);
  }
  if (strcmp(order, "deep") == 0) {
    char* own[] = {(char*)"last", NULL};
    MPI_Comm_spawn(self, own, atoi(argv[2]), MPI_INFO_NULL, 0, MPI_COMM_WORLD, &others, MPI_ERRCODES_IGNORE);
    speak(others, 0);
    MPI_Comm_disconnect(&others);
  }
  MPI_Comm_disconnect(&parent);
}

static int is_error(int error, const char* kind) {
  if (error == MPI_SUCCESS) return 0;
  int class = 0;
  MPI_Error_class(error, &class);
  printf("refused kind=%s is_spawn=%d\n", kind, class == MPI_ERR_SPAWN);
  fflush(stdout);
  return 1;
}

static void spawn(const char* self, int count, const char* value) {
  MPI_Comm others = MPI_COMM_NULL, own = MPI_COMM_WORLD;
  MPI_Info info = MPI_INFO_NULL;
  int *universe, is_there = 0;
  char number[16];
  snprintf(number, sizeof number, "%d", count);
  char* argv[] = {(char*)what, number, NULL};
  const int is_alone = strcmp(what, "self") == 0 || strcmp(what, "missing") == 0 || strcmp(what, "too-many") == 0;
  if (is_alone) own = MPI_COMM_SELF;
  if (is_alone && rank != 0) return;
  if (strcmp(what, "host") == 0 || strcmp(what, "wdir") == 0) {
    MPI_Info_create(&info);
    MPI_Info_set(info, what, value);
  }
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &universe, &is_there);
  if (rank == 0) printf("universe=%d\n", is_there ? *universe : -1);
  if (strcmp(what, "multiple") == 0) {
    char* commands[] = {(char*)self, (char*)self};
    char** arguments[] = {argv, argv};
    int counts[] = {1, count};
    MPI_Info infos[] = {MPI_INFO_NULL, MPI_INFO_NULL};
    MPI_Comm_spawn_multiple(2, commands, arguments, counts, infos, 0, own, &others, MPI_ERRCODES_IGNORE);
  } else {
    MPI_Comm_set_errhandler(own, is_alone ? MPI_ERRORS_RETURN : MPI_ERRORS_ARE_FATAL);
    const char* command = strcmp(what, "missing") == 0 ? "/no/such/program" : self;
    if (is_error(MPI_Comm_spawn(command, argv, count, info, 0, own, &others, MPI_ERRCODES_IGNORE), what)) return;
  }
  speak(others, 0);
  if (strcmp(what, "fail") == 0 || strcmp(what, "abort") == 0) {
    for (;;) MPI_Barrier(MPI_COMM_WORLD);
  }
  MPI_Comm_disconnect(&others);
}

int main(int argc, char** argv) {
  MPI_Comm parent;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  what = argc > 1 ? argv[1] : "all";
  MPI_Comm_get_parent(&parent);
  if (parent != MPI_COMM_NULL) {
    be_spawned(parent, argv[0], argc, argv);
  } else {
    spawn(argv[0], argc > 2 ? atoi(argv[2]) : 1, argc > 3 ? argv[3] : "");
  }
  MPI_Finalize();
  return 0;
}

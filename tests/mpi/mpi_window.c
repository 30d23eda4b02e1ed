/* A ring of one-sided puts: each rank writes its number into the window of the next one.
 *
 *     mpi_window LEVEL      single, serialized or multiple: the threads that are asked for
 *
 * Prints "window ok" or ends with 1. An error of MPI ends the program as its library does. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static int level_of(const char* word) {
  if (strcmp(word, "multiple") == 0) return MPI_THREAD_MULTIPLE;
  return strcmp(word, "serialized") == 0 ? MPI_THREAD_SERIALIZED : MPI_THREAD_SINGLE;
}

int main(int argc, char** argv) {
  int provided = 0;
  int rank = 0;
  int size = 0;
  int* cell = NULL;
  MPI_Win window;
  if (argc != 2) return 2;
  MPI_Init_thread(&argc, &argv, level_of(argv[1]), &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Win_allocate(sizeof *cell, sizeof *cell, MPI_INFO_NULL, MPI_COMM_WORLD, &cell, &window);
  *cell = -1;
  MPI_Win_fence(0, window);
  MPI_Put(&rank, 1, MPI_INT, (rank + 1) % size, 0, 1, MPI_INT, window);
  MPI_Win_fence(0, window);
  const int is_right = *cell == (rank + size - 1) % size;
  MPI_Win_free(&window);
  MPI_Finalize();
  if (is_right) puts("window ok");
  return is_right ? 0 : 1;
}

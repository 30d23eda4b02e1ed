/* Names and ports of MPI's dynamic processes, between the ranks of one job.
 *
 *   mpi_names names     rank 0 publishes a name, all look it up, and it takes it back
 *   mpi_names accept    one half of the ranks accepts the other one twice, at the same port
 *
 * Prints one line a rank. */
#include <mpi.h>

#include <stdio.h>
#include <string.h>

static int rank, size;
static const char* const name = "name-of-ours"; /* PMI-1 has no room for spaces */

static void names(void) {
  char port[MPI_MAX_PORT_NAME] = "", found[MPI_MAX_PORT_NAME] = "";
  int published = MPI_SUCCESS, again = MPI_SUCCESS, taken = MPI_SUCCESS, is_open = 0;
  const int before = MPI_Lookup_name(name, MPI_INFO_NULL, found);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    /* MPICH over UCX has none. */
    is_open = MPI_Open_port(MPI_INFO_NULL, port) == MPI_SUCCESS;
    if (!is_open) strcpy(port, "tag#0$ours$");
    published = MPI_Publish_name(name, MPI_INFO_NULL, port);
    again = MPI_Publish_name(name, MPI_INFO_NULL, port);
  }
  MPI_Bcast(port, sizeof port, MPI_CHAR, 0, MPI_COMM_WORLD);
  const int there = MPI_Lookup_name(name, MPI_INFO_NULL, found);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    taken = MPI_Unpublish_name(name, MPI_INFO_NULL, port);
    if (is_open) MPI_Close_port(port);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  const int after = MPI_Lookup_name(name, MPI_INFO_NULL, found);
  printf("before=%d published=%d again=%d found=%d taken=%d after=%d\n", before == MPI_SUCCESS,
         published == MPI_SUCCESS, rank == 0 && again == MPI_SUCCESS, there == MPI_SUCCESS && strcmp(port, found) == 0,
         taken == MPI_SUCCESS, after == MPI_SUCCESS);
}

static void accept_twice(void) {
  char port[MPI_MAX_PORT_NAME] = "";
  MPI_Comm own, other, all;
  const int connects = rank >= size / 2;
  MPI_Comm_split(MPI_COMM_WORLD, connects, rank, &own);
  if (rank == 0) MPI_Open_port(MPI_INFO_NULL, port);
  MPI_Bcast(port, sizeof port, MPI_CHAR, 0, MPI_COMM_WORLD);
  for (int turn = 0; turn < 2; ++turn) {
    int there = 0, sum = 0;
    if (connects) {
      MPI_Comm_connect(port, MPI_INFO_NULL, 0, own, &other);
    } else {
      MPI_Comm_accept(port, MPI_INFO_NULL, 0, own, &other);
    }
    MPI_Comm_remote_size(other, &there);
    MPI_Intercomm_merge(other, connects, &all);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, all);
    printf("turn=%d there=%d sum=%d\n", turn, there, sum);
    MPI_Comm_free(&all);
    MPI_Comm_disconnect(&other);
  }
  MPI_Comm_free(&own);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc == 2 && strcmp(argv[1], "accept") == 0) {
    accept_twice();
  } else {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    names();
  }
  MPI_Finalize();
  return 0;
}

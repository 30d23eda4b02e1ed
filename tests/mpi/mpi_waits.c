/* A rank of an MPI program that waits, for tests of hang reports. All ranks meet once and print "up". Then:
 *
 *   no-sender   rank 1 waits in MPI_Recv for a message that no rank sends; the others wait for it in MPI_Barrier
 *   absent      rank 1 reads from a pipe that stays empty; the others wait for it in MPI_Barrier
 *   stopped     rank 1 stops itself by SIGSTOP; the others wait for it in MPI_Barrier
 *   computes    rank 1 computes for 10 s; the others wait for it in MPI_Barrier. This one does not hang. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void receive(void) {
  int number;
  MPI_Recv(&number, 1, MPI_INT, 0, 77, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void load(void) {
  int ends[2];
  char byte;
  if (pipe(ends) == 0 && read(ends[0], &byte, 1) < 0) perror("read");
}

static void compute(void) {
  const time_t end = time(NULL) + 10;
  volatile double sum = 0;
  while (time(NULL) < end) {
    for (int i = 1; i < 1000000; ++i) sum += 1.0 / i;
  }
}

int main(int argc, char** argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Barrier(MPI_COMM_WORLD);
  puts("up");
  fflush(stdout);
  if (rank == 1 && strcmp(argv[1], "no-sender") == 0) receive();
  if (rank == 1 && strcmp(argv[1], "absent") == 0) load();
  if (rank == 1 && strcmp(argv[1], "stopped") == 0) raise(SIGSTOP);
  if (rank == 1 && strcmp(argv[1], "computes") == 0) compute();
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  if (rank == 0) puts("done");
  return 0;
}

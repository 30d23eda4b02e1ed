/* One rank of bench/allreduce under an MPI: allreduce of float32, sum, out of place, for sizes from argv[1] to argv[2]
 * by a factor of argv[3]. The owner writes its whole input before every timed iteration; an iteration takes as long as
 * its slowest rank. Rank 0 prints a JSON line a size. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { WARM_UP = 10, MINIMUM = 10, MAXIMUM = 2000 };

/* Elements are whole numbers below 2^11: every order of summation gives the same. */
static void write_input(float* in, size_t count, int rank, int iteration) {
  for (size_t i = 0; i < count; ++i) in[i] = (float)(((unsigned)i + (unsigned)iteration) % 1024u) + (float)rank;
}

static long count_wrong(const float* out, size_t count, int ranks, int iteration) {
  const float of_ranks = (float)(ranks * (ranks - 1) / 2);
  long wrong = 0;
  for (size_t i = 0; i < count; ++i) {
    const float one = (float)(((unsigned)i + (unsigned)iteration) % 1024u);
    if (out[i] != one * (float)ranks + of_ranks) ++wrong;
  }
  return wrong;
}

static int ascending(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static double one_allreduce(const float* in, float* out, size_t count) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = MPI_Wtime();
  MPI_Allreduce(in, out, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  return MPI_Wtime() - begin;
}

/* As many as take a second by rank 0's clock, from MINIMUM to MAXIMUM; also warms up. */
static int agreed_iterations(float* in, float* out, size_t count, int rank) {
  int iterations = MINIMUM;
  const double begin = MPI_Wtime();
  for (int i = 0; i < WARM_UP; ++i) {
    write_input(in, count, rank, i);
    one_allreduce(in, out, count);
  }
  const double wanted = WARM_UP / (MPI_Wtime() - begin);
  if (wanted > MINIMUM) iterations = wanted < MAXIMUM ? (int)wanted : MAXIMUM;
  MPI_Bcast(&iterations, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return iterations;
}

/* The time of the slowest rank in each iteration, at rank 0; gives back the number of wrong elements of all ranks. */
static long measure(float* in, float* out, size_t count, int rank, int iterations, double* own, double* slowest) {
  int ranks;
  long wrong = 0, all_wrong = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (int i = 0; i < iterations; ++i) {
    write_input(in, count, rank, i);
    own[i] = one_allreduce(in, out, count);
  }
  wrong = count_wrong(out, count, ranks, iterations - 1);
  MPI_Reduce(own, slowest, iterations, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  MPI_Reduce(&wrong, &all_wrong, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
  return all_wrong;
}

int main(int argc, char** argv) {
  int rank;
  MPI_Init(&argc, &argv);
  if (argc != 4) {
    fprintf(stderr, "usage: mpi_allreduce SMALLEST LARGEST FACTOR, in bytes\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  const size_t smallest = strtoul(argv[1], NULL, 10), largest = strtoul(argv[2], NULL, 10);
  const size_t factor = strtoul(argv[3], NULL, 10);
  float* in = malloc(largest);
  float* out = malloc(largest);
  double own[MAXIMUM], slowest[MAXIMUM];
  if (in == NULL || out == NULL || smallest < sizeof(float) || factor < 2) MPI_Abort(MPI_COMM_WORLD, 2);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (size_t bytes = smallest; bytes <= largest; bytes *= factor) {
    const size_t count = bytes / sizeof(float);
    const int iterations = agreed_iterations(in, out, count, rank);
    const long wrong = measure(in, out, count, rank, iterations, own, slowest);
    if (rank != 0) continue;
    qsort(slowest, (size_t)iterations, sizeof(double), ascending);
    printf("{\"bytes\": %zu, \"p50_us\": %.3f, \"p99_us\": %.3f, \"wrong\": %ld}\n", bytes,
           slowest[iterations / 2] * 1e6, slowest[iterations * 99 / 100] * 1e6, wrong);
    fflush(stdout);
  }
  free(in);
  free(out);
  MPI_Finalize();
  return 0;
}

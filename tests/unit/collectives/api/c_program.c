/* A program in C over muster.h: three ranks without a launcher, which call every function. Every check ends the rank.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <muster/muster.h>

#define RANKS 3
#define CHECK(condition)                                                            \
  do {                                                                              \
    if (!(condition)) {                                                             \
      fprintf(stderr, "c_program.c:%d: rank %d: %s\n", __LINE__, rank, #condition); \
      exit(1);                                                                      \
    }                                                                               \
  } while (0)
#define OK(call) CHECK(succeeded(call, &error))

static int rank = -1;
static muster_error* error = NULL;

static int succeeded(muster_code code, muster_error** problem) {
  if (code == MUSTER_OK) return 1;
  fprintf(stderr, "code %d: %s\n", (int)code, muster_error_message(*problem));
  return 0;
}

static void wait_for(muster_request* request) {
  int done = 0;
  OK(muster_wait(request, -1, &error));
  CHECK(muster_test(request, &done) == MUSTER_OK && done == 1);
  muster_request_free(request);
}

static void check_collectives(muster_comm* comm, int is_async) {
  const size_t counts[RANKS] = {1, 1, 1};
  const float own = (float)(rank + 1);
  const float three[RANKS] = {1, 2, 3};
  float all[RANKS];
  float one;
  muster_request* request = NULL;
/* The blocking call, or the other one and muster_wait(). */
#define BOTH(name, ...)                                          \
  do {                                                           \
    if (!is_async) OK(muster_##name(comm, __VA_ARGS__, &error)); \
    if (!is_async) break;                                        \
    OK(muster_i##name(comm, __VA_ARGS__, &request, &error));     \
    wait_for(request);                                           \
  } while (0)

  BOTH(allreduce, &own, &one, 1, MUSTER_FLOAT32, MUSTER_SUM);
  CHECK(one == 6);
  BOTH(allreduce_scaled, &own, &one, 1, MUSTER_FLOAT32, MUSTER_SUM, 2.0, 0.5);
  CHECK(one == 6);
  BOTH(reduce, &own, &one, 1, MUSTER_FLOAT32, MUSTER_MAX, 2);
  CHECK(rank != 2 || one == 3);
  BOTH(reduce_scatter, three, &one, 1, MUSTER_FLOAT32, MUSTER_AVG);
  CHECK(one == own);
  BOTH(reduce_scatterv, three, &one, counts, MUSTER_FLOAT32, MUSTER_PROD);
  CHECK(one == own * own * own);
  one = own;
  BOTH(broadcast, &one, 1, MUSTER_FLOAT32, 1);
  CHECK(one == 2);
  memset(all, 0, sizeof all);
  BOTH(allgather, &own, all, 1, MUSTER_FLOAT32);
  CHECK(memcmp(all, three, sizeof all) == 0);
  memset(all, 0, sizeof all);
  BOTH(allgatherv, &own, all, counts, MUSTER_FLOAT32);
  CHECK(memcmp(all, three, sizeof all) == 0);
  memset(all, 0, sizeof all);
  BOTH(gather, &own, rank == 0 ? all : NULL, 1, MUSTER_FLOAT32, 0);
  CHECK(rank != 0 || memcmp(all, three, sizeof all) == 0);
  BOTH(scatter, rank == 0 ? three : NULL, &one, 1, MUSTER_FLOAT32, 0);
  CHECK(one == own);
  BOTH(alltoall, three, all, 1, MUSTER_FLOAT32);
  CHECK(all[0] == own && all[1] == own && all[2] == own);
  memset(all, 0, sizeof all);
  BOTH(alltoallv, three, counts, all, counts, MUSTER_FLOAT32);
  CHECK(all[0] == own && all[1] == own && all[2] == own);
  if (!is_async) OK(muster_barrier(comm, &error));
  if (is_async) {
    OK(muster_ibarrier(comm, &request, &error));
    wait_for(request);
  }
#undef BOTH
}

static void check_messages(muster_comm* comm) {
  const int next = (rank + 1) % RANKS;
  const int former = (rank + RANKS - 1) % RANKS;
  int64_t got = -1;
  const int64_t own = 100 + rank;
  muster_request* sent = NULL;
  muster_request* received = NULL;
  OK(muster_isend(comm, &own, 1, MUSTER_INT64, next, 7, &sent, &error));
  OK(muster_irecv(comm, &got, 1, MUSTER_INT64, former, 7, &received, &error));
  wait_for(sent);
  wait_for(received);
  CHECK(got == 100 + former);
  if (rank == 0) OK(muster_send(comm, &own, 1, MUSTER_INT64, 2, 8, &error));
  if (rank == 2) OK(muster_recv(comm, &got, 1, MUSTER_INT64, 0, 8, &error));
  CHECK(rank != 2 || got == 100);
}

static void check_communicators(muster_comm* comm) {
  muster_comm* made = NULL;
  const int both[2] = {0, 2};
  void* memory = NULL;
  OK(muster_comm_split(comm, rank == 1 ? -1 : 4, -rank, &made, &error));
  CHECK((made == NULL) == (rank == 1));
  if (made != NULL) CHECK(muster_comm_size(made) == 2 && muster_comm_world_rank(made, 0) == 2);
  muster_comm_free(made);
  made = NULL;
  if (rank != 1) {
    OK(muster_comm_group(comm, both, 2, &made, &error));
    OK(muster_barrier(made, &error));
  }
  muster_comm_free(made);
  OK(muster_buffer_alloc(comm, 4096, &memory, &error));
  CHECK(memory != NULL && ((const char*)memory)[4095] == 0);
  OK(muster_buffer_free(comm, memory, &error));
}

static void check_errors(muster_comm* comm) {
  float two[2] = {1, 2};
  muster_request* request = NULL;
  muster_comm* left = NULL;
  muster_code code = MUSTER_OK;
  CHECK(muster_send(comm, two, 1, MUSTER_FLOAT32, rank, 0, &error) == MUSTER_INVALID);
  CHECK(muster_error_code(error) == MUSTER_INVALID && muster_error_rank(error) == -1);
  CHECK(strstr(muster_error_message(error), "cannot send to") != NULL);
  muster_error_free(error);
  CHECK(muster_allreduce(comm, NULL, two, 2, MUSTER_FLOAT32, MUSTER_SUM, NULL) == MUSTER_INVALID);
  CHECK(muster_iallgatherv(comm, two, two, NULL, MUSTER_FLOAT32, &request, NULL) == MUSTER_INVALID && request == NULL);
  CHECK(muster_broadcast(comm, two, (size_t)1 << 60, MUSTER_FLOAT32, 0, NULL) == MUSTER_INVALID);
  OK(muster_barrier(comm, &error));

  /* Rank 1 sends one element less than rank 0 expects; all are told. */
  if (rank == 0) code = muster_recv(comm, two, 2, MUSTER_FLOAT32, 1, 0, &error);
  if (rank == 1) code = muster_send(comm, two, 1, MUSTER_FLOAT32, 0, 0, &error);
  if (rank == 2 || (rank == 1 && code == MUSTER_OK)) code = muster_barrier(comm, &error);
  CHECK(code == MUSTER_MISMATCH && muster_error_code(error) == MUSTER_MISMATCH);
  CHECK(muster_error_rank(error) == 1 && muster_error_host(error)[0] != '\0');
  CHECK(strstr(muster_error_message(error), "send of 1 float32") != NULL);
  muster_error_free(error);
  CHECK(muster_barrier(comm, NULL) == MUSTER_MISMATCH);
  OK(muster_comm_shrink(comm, &left, &error));
  CHECK(muster_comm_size(left) == RANKS);
  OK(muster_barrier(left, &error));
  muster_comm_free(left);
}

static void run(void) {
  muster_options options;
  muster_world* world = NULL;
  muster_comm* comm;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.timeout_seconds = 60;
  options.join_seconds = 60;
  OK(muster_init(&options, &world, &error));
  comm = muster_world_comm(world);
  CHECK(muster_comm_rank(comm) == rank && muster_comm_size(comm) == RANKS);
  CHECK(muster_comm_local_rank(comm) == rank && muster_comm_local_size(comm) == RANKS && muster_comm_hosts(comm) == 1);
  CHECK(muster_comm_world_rank(comm, 2) == 2 && muster_comm_world_rank(comm, 3) == -1);
  CHECK(muster_dtype_size(MUSTER_BFLOAT16) == 2 && strlen(muster_version()) > 0);
  muster_heartbeat(-1); /* does nothing without a launcher */
  check_collectives(comm, 0);
  check_collectives(comm, 1);
  CHECK(strlen(muster_last_algorithm(comm)) > 0);
  check_messages(comm);
  check_communicators(comm);
  check_errors(comm);
  muster_finalize(world);
}

static void start_rank(const char* rendezvous, int number) {
  char text[8];
  rank = number;
  snprintf(text, sizeof text, "%d", number);
  setenv("MUSTER_RANK", text, 1);
  snprintf(text, sizeof text, "%d", RANKS);
  setenv("MUSTER_SIZE", text, 1);
  setenv("MUSTER_RENDEZVOUS", rendezvous, 1);
  unsetenv("MUSTER_SESSION_DIR");
  run();
  exit(0);
}

int main(void) {
  char directory[] = "/tmp/muster_c_program_XXXXXX";
  char rendezvous[64];
  int failed = 0;
  int number;
  int status;
  if (mkdtemp(directory) == NULL) return 1;
  snprintf(rendezvous, sizeof rendezvous, "file://%s", directory);
  for (number = 0; number < RANKS; ++number) {
    const pid_t child = fork();
    if (child < 0) return 1;
    if (child == 0) start_rank(rendezvous, number);
  }
  while (wait(&status) > 0) failed |= status;
  if (rmdir(directory) != 0) {
    perror(directory); /* rank 0 takes back what it has published */
    return 1;
  }
  return failed != 0;
}

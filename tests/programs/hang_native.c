/* Native code that hangs, for tests of hang reports. The tests compile it with the system's compiler.
 *
 * As a shared library it has two functions that never return: spin() computes, and doze() sleeps.
 * With -DMUSTER_RANK it is a rank of libmuster without Python: all ranks meet once and print "up", then rank 1 reads
 * from a pipe that stays empty, and the others wait for it in an allreduce. */
#include <stdio.h>
#include <unistd.h>

void spin(void);
void doze(void);

static volatile unsigned long turns;

void spin(void) {
  for (;;) ++turns;
}

void doze(void) {
  for (;;) pause();
}

#ifdef MUSTER_RANK
#include <muster/muster.h>

static int meet(muster_comm* comm) {
  float in = 1, out = 0;
  return muster_allreduce(comm, &in, &out, 1, MUSTER_FLOAT32, MUSTER_SUM, NULL) == MUSTER_OK;
}

int main(void) {
  muster_world* world = NULL;
  int ends[2];
  char byte;
  if (muster_init(NULL, &world, NULL) != MUSTER_OK) return 3;
  muster_comm* const comm = muster_world_comm(world);
  if (!meet(comm)) return 4;
  puts("up");
  fflush(stdout);
  if (muster_comm_rank(comm) == 1 && pipe(ends) == 0 && read(ends[0], &byte, 1) < 0) return 5;
  return meet(comm) ? 0 : 6;
}
#endif

/* What a client of PMIx is told of the programs of its job, for tests: prints
 * "appnum=1 app_rank=0 app_size=2 leader=1 apps=3". */
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>

static pmix_proc_t me;

static long number_of(const pmix_value_t* value) {
  if (value->type == PMIX_UINT32) return (long)value->data.uint32;
  if (value->type == PMIX_PROC_RANK) return (long)value->data.rank;
  return -2;
}

/* -1: not told. */
static long ask(const char* key, int is_own, const pmix_info_t* info, size_t count) {
  pmix_proc_t about = me;
  pmix_value_t* value = NULL;
  if (!is_own) about.rank = PMIX_RANK_WILDCARD;
  if (PMIx_Get(&about, key, info, count, &value) != PMIX_SUCCESS || value == NULL) return -1;
  const long number = number_of(value);
  PMIX_VALUE_RELEASE(value);
  return number;
}

int main(void) {
  if (PMIx_Init(&me, NULL, 0) != PMIX_SUCCESS) return 3;
  const long program = ask(PMIX_APPNUM, 1, NULL, 0);
  const long rank = ask(PMIX_APP_RANK, 1, NULL, 0);
  const uint32_t of = (uint32_t)program;
  pmix_info_t which[2];
  PMIX_INFO_LOAD(&which[0], PMIX_APP_INFO, NULL, PMIX_BOOL);
  PMIX_INFO_LOAD(&which[1], PMIX_APPNUM, &of, PMIX_UINT32);
  const long size = ask(PMIX_APP_SIZE, 0, which, 2);
  const long leader = ask(PMIX_APPLDR, 0, which, 2);
  const long programs = ask(PMIX_JOB_NUM_APPS, 0, NULL, 0);
  printf("appnum=%ld app_rank=%ld app_size=%ld leader=%ld apps=%ld\n", program, rank, size, leader, programs);
  return PMIx_Finalize(NULL, 0) == PMIX_SUCCESS ? EXIT_SUCCESS : EXIT_FAILURE;
}

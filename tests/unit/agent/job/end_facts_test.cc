#include "agent/job/end_facts.h"

#include <csignal>

#include <gtest/gtest.h>

#include "tests/unit/support/temp_dir.h"

namespace muster::agent::end_facts_test {
namespace {

constexpr int kDumped = 0x80;  // the bit of WCOREDUMP

RankExited ended(int wait_status, const std::string& workdir = "/w") {
  RankExited exited{.rank = 3, .pid = 4711, .pid_inside = 42, .wait_status = wait_status};
  exited.facts = {.peak_kib = 2'560, .free_kib = 1'023, .program = "/bin/x", .workdir = workdir, .kernel_line = "oom"};
  return exited;
}

TEST(EndFacts, CarriesWhatTheWardenKnows) {
  const v1::EndFacts facts = end_facts_of(ended(SIGKILL), {.pattern = "core"});
  EXPECT_EQ(facts.peak_memory_mib(), 3);
  EXPECT_EQ(facts.free_memory_mib(), 1);
  EXPECT_EQ(facts.program(), "/bin/x");
  EXPECT_EQ(facts.kernel_line(), "oom");
  EXPECT_EQ(facts.core_note(), "") << "SIGKILL leaves no core";
}

TEST(EndFacts, AreEmptyForOtherEnds) {
  RankExited stopped = ended(SIGTERM);
  stopped.signalled_by_us = true;
  RankExited lost = ended(SIGKILL);
  lost.facts = {};
  for (const RankExited& exited : {ended(0), stopped, lost}) {
    EXPECT_EQ(end_facts_of(exited, {.pattern = "core"}).ByteSizeLong(), 0U);
  }
}

TEST(EndFacts, FindsTheCore) {
  const testing_support::TempDir dir;
  dir.write("core.42", "core");
  const CoreSettings settings{.pattern = "core", .appends_pid = true};
  EXPECT_EQ(end_facts_of(ended(SIGSEGV | kDumped, dir.path()), settings).core_file(), dir / "core.42");
  const v1::EndFacts none = end_facts_of(ended(SIGSEGV, dir.path()), settings);
  EXPECT_EQ(none.core_file(), "");
  EXPECT_EQ(none.core_note(), "no core was written (kernel.core_pattern is core)");
}

}  // namespace
}  // namespace muster::agent::end_facts_test

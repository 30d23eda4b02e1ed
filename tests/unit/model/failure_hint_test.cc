#include "model/failure_hint.h"

#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::model::failure_hint_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

RankEnd signalled(int signal) {
  RankEnd end;
  end.rank = 3;
  end.host = "n2";
  end.kind = EndKind::kSignalled;
  end.signal = signal;
  return end;
}

RankEnd exited(int rank, const char* host, const char* program) {
  RankEnd end;
  end.rank = rank;
  end.host = host;
  end.exit_code = 1;
  end.facts.program = program;
  return end;
}

TEST(FormatMib, HasTwoUnits) {
  EXPECT_EQ(format_mib(512), "512 MiB");
  EXPECT_EQ(format_mib(62'669), "61.2 GiB");
}

TEST(KilledRank, HasItsMemoryAndTheLikelyReason) {
  RankEnd end = signalled(SIGKILL);
  EXPECT_THAT(failure_hints(end, {}, ""),
              ElementsAre("Muster did not send this signal", "often the kernel was out of memory: run dmesg on n2"));
  end.facts.peak_memory_mib = 62'669;
  end.facts.free_memory_mib = 300;
  EXPECT_EQ(failure_hints(end, {}, "")[0],
            "Muster did not send this signal; it had used up to 61.2 GiB of memory; n2 had 300 MiB free just after");
  end.facts.kernel_line = "Out of memory: Killed process 7 (x)";
  EXPECT_EQ(failure_hints(end, {}, "")[1],
            "the kernel of n2 was out of memory and killed, perhaps this rank: Out of memory: Killed process 7 (x)");
}

TEST(KilledRank, OfAHungJobGetsNoAdvice) {
  RankEnd end = signalled(SIGKILL);
  end.detail = "rank 3 does not move";  // by --on-hang
  end.facts.peak_memory_mib = 100;
  EXPECT_THAT(failure_hints(end, {}, ""), ElementsAre());
}

TEST(KilledRank, IsAdvisedWhenMemoryRanOut) {
  RankEnd end = signalled(SIGKILL);
  end.out_of_memory = true;
  end.facts.peak_memory_mib = 100;
  end.facts.kernel_line = "Out of memory: Killed process 7 (x)";
  EXPECT_THAT(failure_hints(end, {}, ""), ElementsAre("it had used up to 100 MiB of memory",
                                                      "the kernel of n2: Out of memory: Killed process 7 (x)",
                                                      HasSubstr("fewer ranks on n2 (n2:SLOTS in -H)")));
}

TEST(CrashedRank, HasItsCore) {
  RankEnd end = signalled(SIGSEGV);
  EXPECT_THAT(failure_hints(end, {}, ""), IsEmpty());
  end.facts.program = "/w/a.out";
  end.facts.core_file = "/w/core.42";
  EXPECT_THAT(failure_hints(end, {}, ""), ElementsAre("its core is /w/core.42 on n2: gdb /w/a.out /w/core.42"));
  end.facts.core_file = "";
  end.facts.core_note = "no core was written (kernel.core_pattern is empty)";
  EXPECT_THAT(failure_hints(end, {}, ""), ElementsAre(end.facts.core_note));
}

TEST(CrashedRank, IsToldOfPythonsFaultHandler) {
  RankEnd end = signalled(SIGSEGV);
  end.facts.program = "/usr/bin/python3.11";
  EXPECT_THAT(failure_hints(end, {}, "last words\n"), ElementsAre(HasSubstr("-x PYTHONFAULTHANDLER=1")));
  EXPECT_THAT(failure_hints(end, {}, "Fatal Python error: Segmentation fault\n"), IsEmpty());
  end.facts.program = "/w/a.out";
  EXPECT_THAT(failure_hints(end, {}, ""), IsEmpty());
}

constexpr const char* kMissing =
    "  File \"x.py\", line 1, in <module>\n    import torch.x\nModuleNotFoundError: No module named 'torch.x'\n";

TEST(MissingModuleHint, NamesPythonAndHost) {
  const RankEnd end = exited(0, "n2", "/usr/bin/python3");
  const auto hints = failure_hints(end, {}, kMissing);
  ASSERT_EQ(hints.size(), 2U);
  EXPECT_EQ(hints[0], "on n2, python3 is /usr/bin/python3, which has no module 'torch.x'");
  EXPECT_THAT(hints[1], HasSubstr("/usr/bin/python3 -m pip install torch)"));
  EXPECT_EQ(failure_hints(end, {}, "/usr/bin/python3: No module named torch\n")[0],
            "on n2, python3 is /usr/bin/python3, which has no module 'torch'");
}

TEST(MissingModuleHint, NamesAllHosts) {
  RankEnd end = exited(2, "n2", "/usr/bin/python3");
  EXPECT_THAT(failure_hints(end, {exited(0, "n1", "")}, kMissing)[0],
              HasSubstr("on n1 and n2, python3 is /usr/bin/python3, which"))
      << "a rank that ended during the stop has no facts";
  end = exited(0, "n1", "/usr/bin/python3");
  std::vector<RankEnd> alike{exited(1, "n1", "/usr/bin/python3"), exited(2, "n2", "/usr/bin/python3")};
  EXPECT_THAT(failure_hints(end, alike, kMissing)[0], HasSubstr("on n1 and n2, python3 is /usr/bin/python3, which"));
  alike.push_back(exited(3, "n3", "/opt/bin/python3"));
  EXPECT_EQ(failure_hints(end, alike, kMissing)[0],
            "on n1, n2 and n3, python (/usr/bin/python3 on n1) has no module 'torch.x'");
  alike.push_back(exited(4, "n4", ""));
  EXPECT_THAT(failure_hints(end, alike, kMissing)[0], HasSubstr("on n1, n2, n3 and 1 more hosts, "));
}

TEST(MissingModuleHint, KnowsImagesAndScripts) {
  EXPECT_EQ(failure_hints(exited(0, "n1", "/usr/bin/apptainer"), {}, kMissing)[0],
            "on n1, the python of the image has no module 'torch.x'");
  EXPECT_EQ(failure_hints(exited(0, "n1", "/w/train.py"), {}, kMissing)[0],
            "on n1, its python has no module 'torch.x'");
}

TEST(MissingLibraryHint, NamesTheLibrary) {
  const char* const tail =
      "  File \"x.py\", line 1, in <module>\nImportError: libx.so.1: cannot open shared object file: No such file\n";
  EXPECT_THAT(failure_hints(exited(0, "n1", "/usr/bin/python3"), {}, tail),
              ElementsAre(HasSubstr("which does not find libx.so.1: install it there")));
}

TEST(OtherEnds, HaveNoHints) {
  EXPECT_THAT(failure_hints(exited(0, "n1", "/usr/bin/python3"), {}, "ValueError: x\n"), IsEmpty());
  RankEnd stopped = signalled(SIGKILL);
  stopped.kind = EndKind::kStopped;
  EXPECT_THAT(failure_hints(stopped, {}, ""), IsEmpty());
  RankEnd lost = signalled(0);
  lost.kind = EndKind::kHostLost;
  EXPECT_THAT(failure_hints(lost, {}, ""), IsEmpty());
}

}  // namespace
}  // namespace muster::model::failure_hint_test

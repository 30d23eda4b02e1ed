#include "cli/help/help.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/strings.h"
#include "cli/daemon/launcherd_options.h"
#include "cli/help/flags.h"
#include "cli/options/hvdrun_flags.h"

namespace muster::cli::help_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::size_t columns(std::string_view line) {
  std::size_t count = 0;
  for (const char c : line) count += (static_cast<unsigned char>(c) & 0xc0) == 0x80 ? 0 : 1;  // UTF-8 tails
  return count;
}

TEST(HvdrunHelp, FitsATerminal) {
  const std::string help = help_text(hvdrun_doc());
  for (const std::string_view line : base::split(help, '\n')) {
    EXPECT_LE(columns(line), 98u) << line;
    EXPECT_FALSE(line.ends_with(' ')) << "'" << line << "'";
  }
}

TEST(HvdrunHelp, ListsEverySpellingAndDefault) {
  const std::string help = help_text(hvdrun_doc());
  for (const Flag& flag : hvdrun_flags().flags()) {
    for (const Spelling& spelling : flag.spellings) EXPECT_THAT(help, HasSubstr(spelling.text));
  }
  EXPECT_THAT(help, HasSubstr("(default slot)"));
}

TEST(HvdrunHelp, IsGroupedAndHasExamples) {
  const std::string help = help_text(hvdrun_doc());
  for (const char* title :
       {"Ranks:", "Hosts:", "Reaching the hosts:", "The program:", "Output:", "Start, end and failure:",
        "Tuning Horovod:", "Elastic jobs:", "General:", "Examples:", "Exit code:"}) {
    EXPECT_THAT(help, HasSubstr(fmt::format("\n{}", title)));
  }
  EXPECT_THAT(help, HasSubstr("\n  hvdrun -np 16 -H n1:4,n2:4,n3:4,n4:4 python3 train.py\n"));
  EXPECT_THAT(help, HasSubstr("\n  hvdrun -np 4 ./my_program\n      four ranks on this host\n"));
}

TEST(HvdrunHelp, NamesTheValueBehindSpellingsThatTakeOne) {
  EXPECT_THAT(help_text(hvdrun_doc()), HasSubstr("\n  --on-exit nonzero-kill|any-kill|wait, --keep-going\n"));
}

TEST(LauncherdHelp, CompletesItself) {
  const std::string help = help_text(launcherd_doc());
  EXPECT_THAT(help, HasSubstr("$(launcherd"));
  EXPECT_THAT(help, Not(HasSubstr("$(hvdrun")));
}

}  // namespace
}  // namespace muster::cli::help_test

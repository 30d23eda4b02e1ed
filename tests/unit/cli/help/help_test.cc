#include "cli/help/help.h"

#include <algorithm>
#include <regex>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/strings.h"
#include "cli/daemon/launcherd_options.h"
#include "cli/doctor/doctor.h"
#include "cli/foreign/torchrun.h"
#include "cli/help/flags.h"
#include "cli/help/man_page.h"
#include "cli/options/hvdrun_flags.h"
#include "cli/verbs/job_verbs.h"
#include "cli/verbs/launcherd_verbs.h"
#include "cli/verbs/submit.h"

namespace muster::cli::help_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::size_t columns(std::string_view line) {
  std::size_t count = 0;
  for (const char c : line) count += (static_cast<unsigned char>(c) & 0xc0) == 0x80 ? 0 : 1;  // UTF-8 tails
  return count;
}

// The commands of examples stay whole, so that they can be copied.
bool is_example(const CommandDoc& doc, std::string_view line) {
  return std::ranges::any_of(doc.examples, [&](const Example& each) { return base::trim(line) == each.command; });
}

TEST(Help, NoLineIsLongerThanTheLookSays) {
  for (const CommandDoc* doc : {&hvdrun_doc(), &launcherd_doc(), &jobs_doc(), &submit_doc()}) {
    for (const std::size_t wanted : {60U, 80U, 96U, 110U}) {
      std::size_t longest = 0;
      for (const std::string& help :
           {help_text(*doc, {.columns = wanted}), short_help_text(*doc, {.columns = wanted})}) {
        for (const std::string_view line : base::split(help, '\n')) {
          EXPECT_FALSE(line.ends_with(' ')) << "'" << line << "'";
          if (is_example(*doc, line)) continue;
          EXPECT_LE(columns(line), wanted) << line;
          longest = std::max(longest, columns(line));
        }
      }
      EXPECT_GT(longest, wanted - 12) << doc->name;
    }
  }
}

TEST(Help, ColoursOnlyHeadingsAndOptions) {
  const std::string plain = help_text(jobs_doc());
  const std::string colored = help_text(jobs_doc(), {.has_color = true});
  EXPECT_THAT(plain, Not(HasSubstr("\x1b")));
  EXPECT_THAT(colored, HasSubstr("\x1b[1mOptions:\x1b[0m\n"));
  EXPECT_THAT(colored, HasSubstr("\n  \x1b[36m-a, --all\x1b[0m  "));
  EXPECT_EQ(std::regex_replace(colored, std::regex("\x1b\\[[0-9;]*m"), ""), plain);
}

TEST(Help, NamesTheOtherNamesOfAVerb) {
  EXPECT_THAT(help_text(jobs_doc()),
              StartsWith("Usage: muster jobs [options]\nAlso: muster ps, muster ls, muster list\n"));
  EXPECT_THAT(short_help_text(status_doc()), HasSubstr("\nAlso: muster describe, muster show\n"));
  EXPECT_THAT(help_text(kill_doc()), HasSubstr("\nAlso: muster cancel, muster stop\n"));
}

TEST(ShortHelp, FitsOneScreenAndLeadsToTheRest) {
  for (const CommandDoc* doc : {&hvdrun_doc(), &launcherd_doc(), &submit_doc(), &torchrun_doc(), &doctor_doc()}) {
    const std::string help = short_help_text(*doc, {.columns = 100});
    EXPECT_LE(std::ranges::count(help, '\n'), 34) << help;
    EXPECT_THAT(help, HasSubstr(fmt::format("\n{} --help shows everything.\n", doc->name)));
    EXPECT_THAT(help, HasSubstr("\nMost used options:\n"));
  }
  const std::string help = short_help_text(hvdrun_doc());
  EXPECT_THAT(help, HasSubstr("\nRun a distributed program on this host or on many.\n"));
  EXPECT_THAT(help, HasSubstr("\n  -np, --num-proc N               Number of ranks.\n"));
  EXPECT_THAT(help, HasSubstr("\n  hvdrun -np 4 ./my_program\n      four ranks on this host\n"));
  EXPECT_THAT(help, Not(HasSubstr("--agent-dir")));
}

TEST(ShortHelp, AVerbWithFewOptionsShowsThem) {
  const std::string help = short_help_text(logs_doc());
  EXPECT_THAT(help, HasSubstr("\nOptions:\n"));
  EXPECT_THAT(help, HasSubstr("\n  -f, --follow "));
  EXPECT_THAT(help, Not(HasSubstr("--tls-key")));
}

TEST(ShortHelp, AProgramWithVerbsListsThem) {
  const CommandDoc doc = {.name = "tool",
                          .summary = "do things",
                          .usage = "VERB",
                          .description = "Does things.",
                          .groups = {},
                          .table = jobs_doc().table,
                          .notes = "",
                          .examples = {},
                          .exit_codes = {},
                          .commands = {{"Jobs", {{"list", "all jobs"}, {"stop", "end a job"}}}}};
  EXPECT_THAT(short_help_text(doc), HasSubstr("\nJobs:\n  list                      all jobs\n  stop "));
  EXPECT_THAT(help_text(doc), HasSubstr("\nJobs:\n  list "));
  EXPECT_THAT(man_page(doc), HasSubstr(".SH COMMANDS\n.SS Jobs\n.TP\n\\fBlist\\fR\nall jobs\n"));
  EXPECT_THAT(man_page(doc), HasSubstr("\\fBmuster\\-stop\\fR(1)\n"));
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

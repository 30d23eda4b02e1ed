// Tests which candidates a line has, and the answer to a shell. tests/e2e/test_13_command_line.py presses TAB.
#include "cli/help/completion.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/help/flag_row.h"

namespace muster::cli::completion_test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Words = std::vector<std::string>;

FlagTable table_of(std::vector<FlagRow> rows, std::vector<Argument> arguments) {
  std::vector<Flag> flags;
  add_group(FlagGroup::kGeneral, std::move(rows), flags);
  return FlagTable(std::move(flags), std::move(arguments));
}

const FlagTable& run_table() {
  static const FlagTable kTable = table_of(
      {option("num-proc", {"-np", "--num-proc"}, "N", "Ranks. Really."),
       option("hosts", {"-H", "--hosts"}, "LIST", "Hosts.").completes(Completes::kHost),
       option("hostfile", {"--hostfile"}, "FILE", "A file.").completes(Completes::kFile),
       option("wdir", {"--wdir"}, "DIR", "A folder.").completes(Completes::kDirectory),
       option("map-by", {"--map-by"}, "slot|node", "How."), option("range", {"--range"}, "MIN MAX", "Both.").words(2),
       toggle("autotune", {{"--autotune", "true"}, {"--no-autotune", "false"}}, "Tune.")},
      {{.completes = Completes::kCommand}});
  return kTable;
}

const FlagTable& kill_table() {
  static const FlagTable kTable =
      table_of({toggle("now", {{"--now", "true"}}, "At once.")}, {{.completes = Completes::kJob, .repeats = true}});
  return kTable;
}

const FlagTable& hosts_table() {
  static const FlagTable kTable = table_of({toggle("json", {{"--json", "true"}}, "As JSON.")},
                                           {{.choices = {"drain", "add"}},
                                            {.completes = Completes::kHost, .after = "drain", .repeats = true},
                                            {.completes = Completes::kJob, .after = "add"},
                                            {.completes = Completes::kHost, .after = "add", .repeats = true}});
  return kTable;
}

CompletedProgram hvdrun() {
  return {.name = "hvdrun", .verbs = {{"", &run_table()}}};
}

CompletedProgram muster() {
  static const FlagTable kOwn = table_of(
      {option("color", {"--color"}, "auto|never", "Colours."), toggle("man", {{"--man", "true"}}, "A page.")}, {});
  static const FlagTable kScript = table_of({}, {{.completes = Completes::kScript}});
  return {.name = "muster",
          .verbs = {{"kill", &kill_table(), "end jobs", {"cancel"}},
                    {"hosts", &hosts_table(), "the hosts"},
                    {"torchrun", &kScript, "torch"}},
          .own = &kOwn};
}

Words offered(const CompletedProgram& program, const Words& words) {
  Words texts;
  const Completion found = complete_words(program, words);
  for (const Candidate& candidate : found.candidates) texts.push_back(found.before + candidate.text);
  return texts;
}

Completes wanted(const CompletedProgram& program, const Words& words) {
  return complete_words(program, words).wanted;
}

TEST(Completion, OffersOptions) {
  EXPECT_THAT(offered(hvdrun(), {"--ho"}), ElementsAre("--hosts", "--hostfile"));
  EXPECT_THAT(offered(hvdrun(), {"-np", "4", "--no"}), ElementsAre("--no-autotune"));
  EXPECT_THAT(offered(hvdrun(), {"--range", "1", "2", "--wd"}), ElementsAre("--wdir"));
  EXPECT_THAT(offered(hvdrun(), {"--map-by=slot", "--unknown", "--wd"}), ElementsAre("--wdir"));
  EXPECT_EQ(complete_words(hvdrun(), {"--num"}).candidates.front().description, "Ranks");
}

TEST(Completion, OffersValues) {
  EXPECT_THAT(offered(hvdrun(), {"--map-by", ""}), ElementsAre("slot", "node"));
  EXPECT_THAT(offered(hvdrun(), {"--map-by", "n"}), ElementsAre("node"));
  EXPECT_THAT(offered(hvdrun(), {"--map-by=n"}), ElementsAre("--map-by=node"));
  EXPECT_THAT(offered(hvdrun(), {"-np", ""}), IsEmpty());
  EXPECT_EQ(wanted(hvdrun(), {"-np", ""}), Completes::kNothing);
  EXPECT_EQ(wanted(hvdrun(), {"--range", "1", ""}), Completes::kNothing);
  EXPECT_EQ(wanted(hvdrun(), {"--hostfile", "h"}), Completes::kFile);
  EXPECT_THAT(offered(hvdrun(), {"--no-autotune=x"}), IsEmpty());
}

TEST(Completion, CompletesTheLastHostOfAList) {
  const Completion found = complete_words(hvdrun(), {"-H", "n1:2,n"});
  EXPECT_EQ(found.wanted, Completes::kHost);
  EXPECT_EQ(found.before, "n1:2,");
  EXPECT_EQ(found.word, "n");
  EXPECT_TRUE(found.continues);
  EXPECT_EQ(complete_words(hvdrun(), {"--hosts=n1,n"}).before, "--hosts=n1,");
}

TEST(Completion, LeavesTheCommandAlone) {
  const Completion found = complete_words(hvdrun(), {"-np", "2", "python3", "--ver"});
  EXPECT_EQ(found.wanted, Completes::kCommand);
  EXPECT_EQ(found.command_at, 2U);
  EXPECT_THAT(found.candidates, IsEmpty());
  EXPECT_EQ(complete_words(hvdrun(), {"--", "--ver"}).command_at, 1U);
  EXPECT_EQ(wanted(muster(), {"torchrun", "train.py", "--hel"}), Completes::kFile);
}

TEST(Completion, KnowsTheNextProgram) {
  EXPECT_THAT(offered(hvdrun(), {"-np", "1", "./a", ":", "--wd"}), ElementsAre("--wdir"));
  EXPECT_EQ(complete_words(hvdrun(), {"-np", "1", "./a", ":", "-np", "2", ""}).command_at, 6U);
  EXPECT_EQ(complete_words(hvdrun(), {"./a", ":", ""}).command_at, 0U) << "an argument of ./a";
}

TEST(Completion, KnowsVerbs) {
  EXPECT_THAT(offered(muster(), {""}), ElementsAre("kill", "hosts", "torchrun"));
  EXPECT_EQ(complete_words(muster(), {"k"}).candidates.front().description, "end jobs");
  EXPECT_THAT(offered(muster(), {"kill", "--n"}), ElementsAre("--now"));
  EXPECT_THAT(offered(muster(), {"cancel", "--n"}), ElementsAre("--now"));
  EXPECT_THAT(offered(muster(), {"c"}), IsEmpty()) << "an alias";
  EXPECT_THAT(offered(muster(), {"none", ""}), IsEmpty());
  EXPECT_THAT(offered(muster(), {"--m"}), ElementsAre("--man"));
  EXPECT_THAT(offered(muster(), {"--man", "k"}), ElementsAre("kill"));
  EXPECT_THAT(offered(muster(), {"--color", "n"}), ElementsAre("never"));
  EXPECT_THAT(offered(muster(), {"--color=n"}), ElementsAre("--color=never"));
  EXPECT_THAT(offered(muster(), {"--color", "never", "k"}), ElementsAre("kill"));
  EXPECT_THAT(offered(muster(), {"--color=never", "kill", "--n"}), ElementsAre("--now"));
}

TEST(Completion, KnowsTheWordsOfAVerb) {
  const Completion second = complete_words(muster(), {"kill", "k7", "--now", "m"});
  EXPECT_EQ(second.wanted, Completes::kJob);
  EXPECT_THAT(second.arguments, ElementsAre("k7"));
  EXPECT_THAT(offered(muster(), {"hosts", "dr"}), ElementsAre("drain"));
  EXPECT_EQ(wanted(muster(), {"hosts", "drain", "n1", ""}), Completes::kHost);
  EXPECT_EQ(wanted(muster(), {"hosts", "add", ""}), Completes::kJob);
  EXPECT_EQ(wanted(muster(), {"hosts", "add", "k7", ""}), Completes::kHost);
  // The command takes no word here, so the options are candidates.
  EXPECT_THAT(offered(muster(), {"hosts", "other", ""}), Contains("--json"));
}

TEST(Completion, OffersNothingThatNeedsQuotes) {
  Completion completion;
  completion.word = "a";
  for (const char* text : {"a-1", "a b", "a'", "a$(b)", "b", "", "a\nb"}) add_candidate(completion, text);
  ASSERT_EQ(completion.candidates.size(), 1U);
  EXPECT_EQ(completion.candidates.front().text, "a-1");
}

TEST(CompletionAnswer, TellsTheShellWhatElseFits) {
  EXPECT_EQ(format_completion(complete_words(hvdrun(), {"--hostfile=h"})), ":files\t--hostfile=\n");
  EXPECT_EQ(format_completion(complete_words(hvdrun(), {"--wdir", ""})), ":folders\t\n");
  EXPECT_EQ(format_completion(complete_words(hvdrun(), {"-np", "2", "a", ""})), ":command\t2\n");
  EXPECT_EQ(format_completion(complete_words(hvdrun(), {"--map-by=s"})), "--map-by=slot\n");
  EXPECT_EQ(format_completion(complete_words(muster(), {"ki"})), "kill\tend jobs\n");
  Completion hosts = complete_words(hvdrun(), {"-H", "n1,"});
  add_candidate(hosts, "n2", "a\tb\nc");
  EXPECT_EQ(format_completion(hosts), ":nospace\nn1,n2\ta\\x09b\\x0ac\n");
}

}  // namespace
}  // namespace muster::cli::completion_test

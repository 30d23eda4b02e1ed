#include "cli/options/template_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/strings.h"
#include "tests/unit/cli/options/parsed.h"

namespace muster::cli::template_line_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<Flag>& rows() {
  static const FlagTable kTable = [] {
    std::vector<Flag> flags;
    add_group(FlagGroup::kGeneral,
              with_template_rows({option("name", {"--name"}, "NAME", "").command_line_only(),
                                  option("priority", {"--priority"}, "P", "").command_line_only()}),
              flags);
    return FlagTable(std::move(flags));
  }();
  return kTable.flags();
}

base::Result<TemplateLine> read(const Words& words) {
  const auto name = named_template(words, FlagTable(rows()));
  if (!name) return base::error(base::Code::kNotFound, "no -t");
  return read_template_line(words, *name, rows(), {});
}

std::string mistake(const Words& words) {
  return read(words).status().message();
}

std::string words_of(const Words& words) {
  const auto line = read(words);
  EXPECT_TRUE(line.ok()) << line.status();
  if (!line.ok()) return "";
  const auto all = hvdrun_words(*line);
  EXPECT_TRUE(all.ok()) << all.status();
  return all.ok() ? base::join(*all, " ") : "";
}

TEST(TemplateLine, ParametersAreOptions) {
  const auto line = read({"-t", "slurm-gpu", "--nodes", "4", "--time=30m", "--set", "queue=gpu", "--", "./app", "-t"});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_EQ(line->values.get("nodes"), "4");
  EXPECT_EQ(line->values.get("time"), "30m");
  EXPECT_EQ(line->values.get("queue"), "gpu");
  EXPECT_THAT(line->script.command, ElementsAre("./app", "-t"));
  EXPECT_TRUE(line->script.extra.empty());
}

TEST(TemplateLine, GivesParametersHvdrunsOtherSpellings) {
  EXPECT_EQ(words_of({"-t", "ssh-lab", "-N", "3", "-H", "n1,n2", "./app"}),
            "--hosts n1,n2 --ranks-per-node 3 -- ./app");
}

TEST(TemplateLine, PassesHvdrunsOptionsOnAndLetsThemWin) {
  EXPECT_EQ(words_of({"-t", "slurm-gpu", "--bind-to", "core", "-x", "A=b", "--oversubscribe", "--timeout=2h", "./app"}),
            "--ranks-per-node 4 --bootstrap srun --bind-to core -x A=b --oversubscribe --timeout 2h -- ./app");
  EXPECT_EQ(words_of({"-t", "polaris", "--bind-to", "none", "true"}).find("--depth"), std::string::npos);
}

TEST(TemplateLine, SwitchesAndTheVerbsOwnOptions) {
  const auto line = read({"-t", "thetagpu", "--no-pubnet", "--name", "x", "--priority", "3", "true"});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_EQ(line->values.get("pubnet"), "false");
  EXPECT_EQ(line->values.get("name"), "x");  // the template's goes before the verb's
  EXPECT_EQ(line->own.find("name"), nullptr);
  EXPECT_NE(line->own.find("priority"), nullptr);
}

TEST(TemplateLine, MistakesNameTheNearest) {
  EXPECT_THAT(mistake({"-t", "polaris", "--node", "4", "true"}),
              HasSubstr("unknown option --node, did you mean --nodes?"));
  EXPECT_THAT(mistake({"-t", "polaris", "--set", "node=4", "true"}), HasSubstr("did you mean nodes?"));
  EXPECT_THAT(mistake({"-t", "polaris", "--set", "nodes", "true"}), HasSubstr("--set takes NAME=VALUE"));
  EXPECT_THAT(mistake({"-t", "polaris", "--nodes", "0", "true"}),
              HasSubstr("--nodes must be a whole number from 1 to 560, not '0'"));
  EXPECT_THAT(mistake({"-t", "polari", "true"}), HasSubstr("unknown template 'polari', did you mean polaris?"));
}

TEST(TemplateLine, TakesOneProgram) {
  EXPECT_THAT(mistake({"-t", "polaris", "./a", ":", "-np", "4", "./b"}), HasSubstr("-t takes one program"));
}

TEST(TemplateLine, OnlyOptionsNameATemplate) {
  const FlagTable table{rows()};
  EXPECT_EQ(named_template({"-t", "a"}, table), "a");
  EXPECT_EQ(named_template({"--nodes", "3", "--template=b"}, table), "b");
  EXPECT_EQ(named_template({"--nodes=3", "--no-x", "-t", "c"}, table), "c");
  EXPECT_EQ(named_template({"--set", "-t", "-t", "d"}, table), "d");
  EXPECT_EQ(named_template({"python3", "-t", "a"}, table), std::nullopt);
  EXPECT_EQ(named_template({"--", "-t", "a"}, table), std::nullopt);
  EXPECT_EQ(named_template({"-t"}, table), std::nullopt);
}

TEST(TemplateLine, MarksTheOptionsThatReachHosts) {
  const auto line = read({"-t", "slurm-cpu", "-np", "3", "-p", "2222", "--spare=1", "--timeout", "5s", "true"});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_THAT(line->script.reach, ElementsAre(ElementsAre("-p", "2222"), ElementsAre("--spare", "1")));
}

}  // namespace
}  // namespace muster::cli::template_line_test

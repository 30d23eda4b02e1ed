// The answer of a program to a shell, where no launcher is needed.
#include "cli/verbs/complete.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/options/hvdrun_flags.h"
#include "cli/verbs/templates_verbs.h"

namespace muster::cli::complete_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Words = std::vector<std::string>;

std::string hvdrun(const Words& words, const base::Environment& environment = {}) {
  return completion_answer({.name = "hvdrun", .verbs = {{"", &hvdrun_flags()}}}, words, environment);
}

std::string muster(const Words& words) {
  const CompletedProgram program = {.name = "muster",
                                    .verbs = {{"render", render_doc().table}, {"templates", templates_doc().table}}};
  return completion_answer(program, words, {});
}

TEST(Complete, OffersTemplates) {
  EXPECT_THAT(hvdrun({"-t", "pol"}), HasSubstr(":files\t\npolaris\t"));
  EXPECT_THAT(muster({"templates", "show", "pol"}), HasSubstr("\npolaris\t"));
}

TEST(Complete, OffersTheParametersOfATemplate) {
  EXPECT_THAT(muster({"render", "-t", "polaris", "--nod"}), HasSubstr("--nodes\t"));
  EXPECT_THAT(muster({"render", "--nodes", "2", "-t", "polaris", "--proj"}), HasSubstr("--project\t"));
  EXPECT_THAT(muster({"render", "-t", "polaris", "--nodes", "2", "--hvd"}), HasSubstr("--hvdrun\t"));
  EXPECT_THAT(muster({"render", "-t", "no-such-template", "--nod"}), Not(HasSubstr("--nodes")));
}

TEST(Complete, OffersVariables) {
  base::Environment environment;
  environment.set("NCCL_DEBUG", "WARN");
  EXPECT_EQ(hvdrun({"-x", "NCC"}, environment), "NCCL_DEBUG\n");
}

TEST(Complete, IsOnlyTheFirstWord) {
  EXPECT_FALSE(answer_shell({}, {"-np", "2", "__complete"}));
  EXPECT_FALSE(answer_shell({}, {}));
}

}  // namespace
}  // namespace muster::cli::complete_test

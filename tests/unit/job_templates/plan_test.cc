#include "job_templates/plan.h"

#include <gmock/gmock.h>

#include "base/strings.h"
#include "tests/unit/job_templates/given.h"

namespace muster::job_templates::plan_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

LaunchPlan plan_of(const Template& job_template, const Given& given = {}) {
  const auto plan = plan_launch(with(job_template, given));
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? *plan : LaunchPlan{};
}

std::string words_of(const LaunchPlan& plan) {
  std::vector<std::string> all;
  for (const LaunchOption& option : plan.options) {
    for (const std::string& word : option.words()) all.push_back(word);
  }
  return base::join(all, " ");
}

TEST(LaunchPlan, SitesAsTheirDocumentsSay) {
  EXPECT_EQ(words_of(plan_of(built_in("theta"))),
            "--ranks-per-node 4 --bind-to depth --depth 32 --hyperthreads 2 --bootstrap aprun");
  EXPECT_EQ(words_of(plan_of(built_in("polaris"))),
            "--ranks-per-node 4 --bind-to depth --depth 8 --gpu-bind order --gpu-order reverse --bootstrap pals");
  EXPECT_EQ(words_of(plan_of(built_in("aurora"))),
            "--ranks-per-node 12 --bind-to "
            "list:1-8:9-16:17-24:25-32:33-40:41-48:53-60:61-68:69-76:77-84:85-92:93-100 --gpu-bind tile "
            "--bootstrap pals --reserve-cores 0,52 --gpu-tiles 6x2");
  EXPECT_EQ(words_of(plan_of(built_in("thetagpu"))), "--ranks-per-node 8 --bootstrap ssh");
  EXPECT_EQ(words_of(plan_of(built_in("slurm-gpu"), {{"ranks-per-node", "8"}})), "--ranks-per-node 8 --bootstrap srun");
}

// A template's lists of CPUs are those beside its GPUs.
TEST(LaunchPlan, JobsWithoutGpusGetSharesOfTheCores) {
  EXPECT_EQ(words_of(plan_of(built_in("aurora"), {{"gpu-bind", "none"}, {"ranks-per-node", "102"}})),
            "--ranks-per-node 102 --gpu-bind none --bootstrap pals --reserve-cores 0,52 --gpu-tiles 6x2");
  EXPECT_THAT(words_of(plan_of(built_in("aurora"), {{"gpu-bind", "none"}, {"cpu-bind", "list:1:2"}})),
              HasSubstr("--bind-to list:1:2 --gpu-bind none"));
  EXPECT_THAT(words_of(plan_of(built_in("aurora"), {{"gpu-bind", "none"}, {"cpu-bind", "core"}})),
              HasSubstr("--bind-to core --gpu-bind none"));
  EXPECT_EQ(words_of(plan_of(parsed("launch: {bind_to: \"list:1:2\", gpu_bind: none}\n"))),
            "--bind-to list:1:2 --gpu-bind none");  // of a site's own for such jobs
}

TEST(LaunchPlan, WhoGivesNoGpusHimselfOverrulesLists) {
  LaunchPlan aurora = plan_of(built_in("aurora"));
  LaunchPlan polaris = plan_of(built_in("polaris"));
  for (const std::string_view option : overruled_by("gpu-bind", "none")) {
    aurora.leave_out(option);
    polaris.leave_out(option);
  }
  EXPECT_EQ(words_of(aurora), "--ranks-per-node 12 --bootstrap pals --reserve-cores 0,52 --gpu-tiles 6x2");
  EXPECT_EQ(words_of(polaris), "--ranks-per-node 4 --bind-to depth --depth 8 --bootstrap pals");
  aurora = plan_of(built_in("aurora"));
  for (const std::string_view option : overruled_by("gpu-bind", "one")) aurora.leave_out(option);
  EXPECT_THAT(words_of(aurora), HasSubstr("--bind-to list:"));
}

TEST(LaunchPlan, WhatHasNoValueIsLeftOut) {
  EXPECT_EQ(words_of(plan_of(built_in("ssh-lab"))), "--ranks-per-node 1");
  EXPECT_EQ(words_of(plan_of(built_in("ssh-lab"), {{"hosts", "n[1-2]"}})), "--hosts n[1-2] --ranks-per-node 1");
}

TEST(LaunchPlan, SwitchesListsAndReservedCores) {
  const LaunchPlan plan = plan_of(parsed(
      "launch: {oversubscribe: yes, health_check: quick, network_interfaces: [ib0, eth0], reserve_cores: [3, 4]}\n"
      "node: {sockets: 1, cores: 8, reserved_cores: [0]}\n"));
  EXPECT_EQ(words_of(plan), "--oversubscribe --health-check quick --network-interfaces ib0,eth0 --reserve-cores 3,4");
}

TEST(LaunchPlan, EnvironmentAndProxy) {
  const LaunchPlan plan =
      plan_of(parsed("parameters: {n: {type: int, default: 3}, m: {type: int}}\n"
                     "environment: {A: \"{n}\", B: \"{m}\", C: x y}\nproxy: http://p:1\n"
                     "no_proxy: localhost\n"));
  EXPECT_THAT(plan.environment, ElementsAre(Pair("http_proxy", "http://p:1"), Pair("https_proxy", "http://p:1"),
                                            Pair("HTTP_PROXY", "http://p:1"), Pair("HTTPS_PROXY", "http://p:1"),
                                            Pair("no_proxy", "localhost"), Pair("NO_PROXY", "localhost"),
                                            Pair("A", "3"), Pair("C", "x y")));
}

TEST(LaunchPlan, ReachIsWhatLeadsToTheHosts) {
  LaunchPlan plan = plan_of(built_in("polaris"));
  LaunchPlan reach;
  reach.options = plan.reach();
  EXPECT_EQ(words_of(reach), "--bootstrap pals");
  for (const std::string_view option : overruled_by("bind-to", "none")) plan.leave_out(option);
  EXPECT_EQ(words_of(plan), "--ranks-per-node 4 --gpu-bind order --gpu-order reverse --bootstrap pals");
}

TEST(LaunchPlan, RolesAreDealtInTheirOrder) {
  const LaunchPlan plan =
      plan_of(parsed("roles:\n"
                     "  first: {ranks: 1, environment: {ROLE: f}}\n"
                     "  rest: {environment: {ROLE: \"it's {rank} of {rest}\"}}\n"
                     "  last: {ranks: 2}\n"));
  ASSERT_EQ(plan.prefix.size(), 4U);
  EXPECT_EQ(plan.prefix[2], R"sh(
if [ "$MUSTER_SIZE" -le 3 ]; then
  echo 't needs more than 3 ranks' >&2
  exit 2
fi
if [ "$MUSTER_RANK" -lt 1 ]; then  # first
  export ROLE=f
elif [ "$MUSTER_RANK" -ge "$((MUSTER_SIZE - 2))" ]; then  # last
  :
else  # rest
  export ROLE='it'\''s '"$MUSTER_RANK"' of '"$((MUSTER_SIZE - 3))"
fi
exec "$@"
)sh");
}

TEST(LaunchPlan, ANameOfATemplateIsNoCodeOfItsRoles) {
  const auto loaded = parse_template("roles: {a: {ranks: 1}, b: {}}\n", "x$(touch PWN)'`id`.yaml", {});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_THAT(plan_of(*loaded).prefix[2],
              HasSubstr("\n  echo " + base::shell_quote("x$(touch PWN)'`id` needs more than 1 ranks") + " >&2\n"));
}

TEST(LaunchPlan, ValuesAreNeverTakenForWhatARankKnows) {
  const LaunchPlan plan = plan_of(parsed("parameters: {v: {type: string}}\n"
                                         "roles: {a: {environment: {A: \"{v}-{rank}\", B: \"{{rank}}\"}}}\n"),
                                  {{"v", "{size}{rest}"}});
  EXPECT_THAT(plan.prefix[2], HasSubstr("  export A='{size}{rest}-'\"$MUSTER_RANK\"\n  export B='{rank}'\n"));
}

TEST(LaunchPlan, TimesAreAsHvdrunTakesThem) {
  const LaunchPlan plan =
      plan_of(parsed("parameters: {time: {type: time, default: 59m59s}}\n"
                     "launch: {timeout: \"{time}\", kill_grace: \"{time:seconds}\", signal: \"USR1@{time}\"}\n"
                     "environment: {LIMIT: \"{time}\"}\n"));
  EXPECT_EQ(words_of(plan), "--timeout 3599s --kill-grace 3599 --signal USR1@3599s");
  EXPECT_THAT(plan.environment, ElementsAre(Pair("LIMIT", "0:59:59")));
}

TEST(LaunchPlan, WhatOnlyAScriptRunsIsNamed) {
  EXPECT_EQ(left_out_note(built_in("polaris")), "");
  EXPECT_EQ(left_out_note(parsed("modules: [a]\npre: {job: [b]}\npost: {node: c}\n")),
            "template t: only its script runs these parts, which are ignored here: modules, pre.job, post.node (muster "
            "render -t t writes the script)");
}

TEST(LaunchPlan, RanksOfARoleAreANumber) {
  const Template job_template =
      parsed("parameters: {n: {type: string, default: many}}\nroles: {a: {ranks: \"{n}\"}, b: {}}\n");
  EXPECT_THAT(plan_launch(Values(job_template)).status().message(),
              HasSubstr("t.yaml:2:20: roles.a.ranks must be a whole number, not 'many'"));
}

}  // namespace
}  // namespace muster::job_templates::plan_test

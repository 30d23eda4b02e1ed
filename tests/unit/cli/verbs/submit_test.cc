#include "cli/verbs/submit.h"

#include <gtest/gtest.h>

#include "cli/verbs/submission.h"

namespace muster::cli::submit_test {
namespace {

const base::WallTime kNow{std::chrono::seconds(1'782'000'000)};

ParsedSubmit parse(const std::vector<std::string>& words, const base::Environment& environment = {}) {
  return parse_submit(words, environment, {.build_id = "x", .system_config = "/nonexistent"}, kNow);
}

v1::SubmitRequest request(const std::vector<std::string>& words, const base::Environment& environment = {}) {
  ParsedSubmit parsed = parse(words, environment);
  EXPECT_FALSE(parsed.exit_code) << parsed.text;
  auto made = make_submission(parsed.options.request, parsed.options.reach.contain, environment, "/home/alice");
  EXPECT_TRUE(made.ok()) << made.status();
  made->MergeFrom(parsed.own_request);
  return *made;
}

TEST(Submit, WhatHvdrunsOptionsSay) {
  const v1::SubmitRequest made =
      request({"-np", "3", "-H", "alice@n1:2,n2", "--wdir", "data", "--on-exit", "wait", "--", "./run", "-np", "9"});
  const v1::JobSpec& spec = made.spec();
  EXPECT_EQ(spec.size(), 3);
  ASSERT_EQ(spec.hosts_size(), 2);
  EXPECT_EQ(spec.hosts(0).name(), "n1");
  EXPECT_EQ(spec.hosts(0).user(), "alice");
  EXPECT_EQ(spec.hosts(0).slots(), 2);
  EXPECT_EQ(spec.hosts(1).slots(), 0);
  EXPECT_EQ(spec.working_directory(), "/home/alice/data");
  EXPECT_EQ(spec.on_exit(), v1::ON_EXIT_WAIT);
  EXPECT_EQ((std::vector<std::string>(spec.command().begin(), spec.command().end())),
            (std::vector<std::string>{"./run", "-np", "9"}));
  EXPECT_FALSE(spec.has_lease());
  EXPECT_EQ(spec.on_launcher_loss(), v1::ON_LAUNCHER_LOSS_HOLD);
}

TEST(Submit, WhatItsOwnOptionsSay) {
  const v1::SubmitRequest made =
      request({"--name", "night", "--priority", "-3", "--label", "a=b=c", "--label", "x=", "--request-id", "r1",
               "--deadline", "2h", "--max-restarts", "2", "--lease", "30s", "--retention", "1h", "true"});
  EXPECT_EQ(made.name(), "night");
  EXPECT_EQ(made.priority(), -3);
  EXPECT_EQ(made.request_id(), "r1");
  ASSERT_EQ(made.labels_size(), 2);
  EXPECT_EQ(made.labels(0).name(), "a");
  EXPECT_EQ(made.labels(0).value(), "b=c");
  EXPECT_EQ(made.labels(1).value(), "");
  EXPECT_EQ(made.spec().deadline().seconds(), 1'782'000'000 + 7200);
  EXPECT_EQ(made.spec().max_restarts(), 2);
  EXPECT_EQ(made.spec().lease().seconds(), 30);
  EXPECT_EQ(made.retention().seconds(), 3600);
}

TEST(Submit, TheJobsPlaceInTheQueue) {
  const v1::SubmitRequest made =
      request({"--after", "night", "--after", "k7:any", "--array", "0-99%4", "--notify", "mail me", "true"});
  ASSERT_EQ(made.after_size(), 2);
  EXPECT_EQ(made.after(0).job(), "night");
  EXPECT_EQ(made.after(1).condition(), v1::DEPENDENCY_CONDITION_ANY);
  EXPECT_EQ(made.array().elements(0).last(), 99);
  EXPECT_EQ(made.array().most_at_once(), 4);
  EXPECT_EQ(made.notify(), "mail me");
  EXPECT_FALSE(request({"true"}).has_array());
  EXPECT_EQ(parse({"--array", "9-0", "true"}).text, "muster submit: --array: the range 9-0 descends\n");
  EXPECT_EQ(parse({"--after", "k7:never", "true"}).text,
            "muster submit: --after: unknown condition 'never' after 'k7'; use ok or any\n");
}

TEST(Submit, PrintsTheIdOrAMessage) {
  EXPECT_EQ(submit_answer("k7", false), "k7\n");
  EXPECT_EQ(submit_answer("k7", true), "{\"job_id\":\"k7\"}\n");
  EXPECT_EQ(parse({"--json", "./run"}).exit_code, std::nullopt);
}

TEST(Submit, AnElasticPolicyIsForJobsThatChangeTheirSize) {
  EXPECT_EQ(request({"-np", "4", "true"}).spec().elastic_policy(), v1::ELASTIC_POLICY_UNSPECIFIED);
  EXPECT_EQ(
      request({"-np", "4", "--on-failure", "shrink", "--elastic-policy", "give-back", "true"}).spec().elastic_policy(),
      v1::ELASTIC_POLICY_GIVE_BACK);
}

TEST(Submit, RanksLiveOnWithMinNpAlone) {
  const v1::JobSpec spec = request({"--min-np", "2", "--max-np", "8", "--reset-limit", "3", "--elastic-timeout", "60",
                                    "--elastic-policy", "grow", "true"})
                               .spec();
  EXPECT_EQ(spec.failure().on_failure(), v1::ON_FAILURE_LIVE);
  EXPECT_EQ(spec.size(), 2);
  EXPECT_EQ(spec.failure().max_ranks(), 8);
  EXPECT_EQ(spec.failure().live().reset_limit(), 3);
  EXPECT_EQ(spec.failure().live().elastic_timeout().seconds(), 60);
  EXPECT_EQ(request({"--min-np", "2", "-np", "4", "true"}).spec().size(), 4);
  EXPECT_EQ(request({"--min-np", "2", "-H", "n1:4", "true"}).spec().size(), 0) << "all slots of the named hosts";
  EXPECT_EQ(request({"--min-np", "2", "--on-failure", "shrink", "true"}).spec().failure().on_failure(),
            v1::ON_FAILURE_SHRINK);
}

TEST(Submit, TheEnvironmentOfTheUserByHvdrunsRules) {
  base::Environment environment;
  environment.set("PATH", "/bin");
  environment.set("HOME", "/home/alice");
  environment.set("SECRET", "s3cret");
  const v1::SubmitRequest all = request({"true"}, environment);
  std::vector<std::string> names;
  for (const v1::EnvVar& variable : all.environment()) names.push_back(variable.name());
  EXPECT_EQ(names, (std::vector<std::string>{"PATH", "SECRET"}));
  const v1::SubmitRequest named = request({"--env-none", "-x", "A=1", "true"}, environment);
  ASSERT_EQ(named.environment_size(), 1);
  EXPECT_EQ(named.environment(0).value(), "1");
}

TEST(Submit, MistakesAreOneSentence) {
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{}, "muster submit: no command is given: add what to run, as in muster submit -np 4 python3 train.py\n"},
      {{"--priorty", "3", "true"}, "muster submit: unknown option --priorty, did you mean --priority?"},
      {{"--elastic-policy", "both", "true"},
       "muster submit: --elastic-policy: this job keeps its size; add --min-np and --max-np, or add --on-failure "
       "shrink\n"},
      {{"--priority", "high", "true"}, "muster submit: --priority must be a whole number, not 'high'\n"},
      {{"--label", "x", "true"}, "muster submit: --label must be NAME=VALUE, not 'x'\n"},
      {{"--deadline", "soon", "true"},
       "muster submit: --deadline: 'soon' is no time: write how long from now, as 2h, or 2026-06-20T17:05:53Z\n"},
      {{"-np", "0", "true"}, "muster submit: -np must be"},
      {{"--pty", "true"}, "muster submit: unknown option --pty"}};
  for (const auto& [words, message] : cases) {
    const ParsedSubmit parsed = parse(words);
    EXPECT_EQ(parsed.exit_code, 2);
    EXPECT_TRUE(parsed.text.starts_with(message)) << parsed.text;
  }
  EXPECT_EQ(parse({"--help"}).exit_code, 0);
}

TEST(Submit, WhatAForegroundJobHasAndThisHasNot) {
  HvdrunOptions options;
  EXPECT_TRUE(check_for_launcherd(options.request, options.reach, options.output).ok());
  EXPECT_TRUE(options.output.notes.empty());
  options.reach.bootstrap.identity_file = "/key";
  EXPECT_TRUE(check_for_launcherd(options.request, options.reach, options.output).ok());
  EXPECT_EQ(options.output.notes.size(), 1U);
  options.request.job.input.pty = true;
  EXPECT_EQ(check_for_launcherd(options.request, options.reach, options.output).code(), base::Code::kInvalidArgument);
}

}  // namespace
}  // namespace muster::cli::submit_test

// Both ends of --stage-env in one process: the launcher packs, and the agents' services unpack.
#include "launcherd/stage/env_staging.h"

#include <unistd.h>

#include <filesystem>
#include <map>
#include <optional>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/job/stage_service.h"
#include "base/directory.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::launcherd::env_staging_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class EnvStagingTest : public ::testing::Test {
 protected:
  EnvStagingTest() {
    root_.write("env/bin/tool", "#!" + root_ / "env/bin/python\n");
    root_.write("env/lib/module.py", "WORD = 'one'\n");
    fs::create_symlink("/etc/hostname", root_ / "env/out");
    fs::create_directory(root_ / "n1");
    fs::create_directory(root_ / "n2");
  }

  base::Status stage() {
    lines_.clear();
    std::optional<base::Status> result;
    std::map<int, std::unique_ptr<agent::StageService>> services;
    std::unique_ptr<EnvStaging> staging;
    std::optional<v1::StageAnswer> late;
    for (const int agent : {1, 2}) {
      services[agent] = std::make_unique<agent::StageService>(loop_, [&, agent](const v1::StageAnswer& answer) {
        if (agent == 1 && is_first_late_) {
          late = answer;
          return;
        }
        staging->answered(agent, answer);
        is_first_late_ = false;
        if (late) staging->answered(1, *std::exchange(late, std::nullopt));
      });
    }
    staging = std::make_unique<EnvStaging>(
        loop_, EnvStaging::Source{root_ / "env", "", root_ / "cache/envs"},
        std::vector<Staging::Host>{{1, "n1", "127.0.0.1"}, {2, "n2", "127.0.0.1"}}, "token",
        Staging::Events{.send =
                            [&](int agent, const v1::LauncherMessage& message) {
                              if (agent == hung_agent_) return;
                              services.at(agent)->order(message.stage_order(), envs_of(agent));
                            },
                        .say = [&](const std::string& line) { lines_.push_back(line); },
                        .note = [&](const std::string& line) { lines_.push_back(line); },
                        .done =
                            [&](base::Status status) {
                              result = std::move(status);
                              loop_.stop();
                            }},
        limits_);
    loop_.post([&] { staging->start(); });
    const base::Timer patience = loop_.after(std::chrono::seconds(30), [&] { loop_.stop(); });
    loop_.run();
    if (result && result->ok()) environment_ = staging->environment();
    return result.value_or(base::error(base::Code::kDeadlineExceeded, "it did not end"));
  }

  std::string envs_of(int agent) const { return root_ / fmt::format("n{}/envs", agent); }
  std::string home_of(int agent) const { return envs_of(agent) + "/" + environment_.id(); }

  const testing_support::TempDir root_;
  base::Loop loop_;
  StagingLimits limits_;
  std::vector<std::string> lines_;
  v1::LaunchEnvironment environment_;
  int hung_agent_ = -1;
  bool is_first_late_ = false;  // the first answer of agent 1 arrives after one of agent 2
};

TEST_F(EnvStagingTest, HostsGetTheEnvironmentOnce) {
  ASSERT_EQ(stage().message(), "");
  EXPECT_THAT(lines_, ElementsAre(StartsWith("packed the environment "), StartsWith("staged the archive of "),
                                  HasSubstr(" on 2 of 2 hosts in ")));
  for (const int agent : {1, 2}) {
    EXPECT_EQ(testing_support::read_text(home_of(agent) + "/bin/tool"), "#!" + home_of(agent) + "/bin/python\n");
    EXPECT_EQ(fs::read_symlink(home_of(agent) + "/out"), "/etc/hostname");
    EXPECT_THAT(base::entries_of(envs_of(agent)), ElementsAre(environment_.id()));
  }
  EXPECT_THAT(environment_.prefixes(), ElementsAre(root_ / "env"));
  ASSERT_EQ(stage().message(), "");
  EXPECT_THAT(lines_, ElementsAre(HasSubstr("is on all hosts already")));
}

TEST_F(EnvStagingTest, OnlyAHostThatLacksItGetsIt) {
  ASSERT_EQ(stage().message(), "");
  fs::remove_all(envs_of(2));
  ASSERT_EQ(stage().message(), "");
  EXPECT_THAT(lines_, ElementsAre(StartsWith("staged the archive of "), HasSubstr(" on 1 of 2 hosts in ")));
}

TEST_F(EnvStagingTest, HostsAreNamedInTheirOrder) {
  is_first_late_ = true;
  ASSERT_EQ(stage().message(), "");
  EXPECT_FALSE(is_first_late_);
  EXPECT_THAT(lines_, Contains(AllOf(StartsWith("staged the archive of "), HasSubstr(" on n1, n2"))));
}

TEST_F(EnvStagingTest, AChangeIsSeen) {
  ASSERT_EQ(stage().message(), "");
  const std::string before = environment_.id();
  root_.write("env/lib/module.py", "WORD = 'two!'\n");
  ASSERT_EQ(stage().message(), "");
  EXPECT_NE(environment_.id(), before);
  EXPECT_EQ(testing_support::read_text(home_of(1) + "/lib/module.py"), "WORD = 'two!'\n");
}

TEST_F(EnvStagingTest, ADamagedArchiveIsPackedAgain) {
  ASSERT_EQ(stage().message(), "");
  fs::remove_all(envs_of(1));
  const std::string archive = root_ / ("cache/envs/" + base::entries_of(root_ / "cache/envs").front());
  fs::resize_file(archive, fs::file_size(archive) - 1);
  ASSERT_EQ(stage().message(), "");
  EXPECT_THAT(lines_.front(), HasSubstr("was damaged; it is packed again"));
}

TEST_F(EnvStagingTest, ErrorsNameTheHost) {
  root_.write("n2/envs", "a file");
  EXPECT_THAT(stage().message(), StartsWith("n2: --stage-env: "));
}

TEST_F(EnvStagingTest, AHostThatDoesNotAnswerIsNamed) {
  limits_ = {.period = std::chrono::milliseconds(20), .silence = std::chrono::milliseconds(100)};
  hung_agent_ = 2;
  EXPECT_THAT(stage().message(), StartsWith("n2: --stage-env: no answer for "));
}

TEST_F(EnvStagingTest, ASourceThatIsNotThereIsNamed) {
  fs::remove_all(root_ / "env");
  EXPECT_THAT(stage().message(), StartsWith("--stage-env: look at " + root_ / "env"));
  root_.write("env", "a file");
  EXPECT_THAT(stage().message(), HasSubstr("is not a folder"));
}

}  // namespace
}  // namespace muster::launcherd::env_staging_test

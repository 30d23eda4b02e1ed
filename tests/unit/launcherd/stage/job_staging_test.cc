#include "launcherd/stage/job_staging.h"

#include <filesystem>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/job/stage_service.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::launcherd::job_staging_test {
namespace {

using ::testing::HasSubstr;

class JobStagingTest : public ::testing::Test {
 protected:
  JobStagingTest() {
    root_.write("src/a", "content");
    root_.write("env/lib/b", "content");
    std::filesystem::create_directory(root_ / "n1");
  }

  base::Status stage(JobStaging::Plan plan) {
    plan.hosts = {{1, "n1", "127.0.0.1"}};
    plan.token = "token";
    plan.cache = root_ / "cache/envs";
    std::optional<base::Status> result;
    std::unique_ptr<JobStaging> staging;
    agent::StageService service(loop_, [&](const v1::StageAnswer& answer) { staging->answered(1, answer); });
    staging =
        std::make_unique<JobStaging>(loop_, std::move(plan),
                                     Staging::Events{.send =
                                                         [&](int, const v1::LauncherMessage& message) {
                                                           service.order(message.stage_order(), root_ / "n1/envs");
                                                         },
                                                     .say = [](const std::string&) {},
                                                     .note = [](const std::string&) {},
                                                     .done =
                                                         [&](base::Status status) {
                                                           result = std::move(status);
                                                           loop_.stop();
                                                         }});
    loop_.post([&] { staging->start(); });
    const base::Timer patience = loop_.after(std::chrono::seconds(30), [&] { loop_.stop(); });
    loop_.run();
    environment_ = result && result->ok() ? staging->environment() : std::nullopt;
    return result.value_or(base::error(base::Code::kDeadlineExceeded, "it did not end"));
  }

  const testing_support::TempDir root_;
  base::Loop loop_;
  std::optional<v1::LaunchEnvironment> environment_;
};

TEST_F(JobStagingTest, FilesThenTheEnvironment) {
  ASSERT_EQ(stage({.paths = {{root_ / "src", root_ / "dst"}}, .environment = root_ / "env"}).message(), "");
  EXPECT_EQ(root_.read("dst/a"), "content");
  ASSERT_TRUE(environment_);
  EXPECT_EQ(root_.read("n1/envs/" + environment_->id() + "/lib/b"), "content");
}

TEST_F(JobStagingTest, EachAlone) {
  ASSERT_EQ(stage({.paths = {{root_ / "src", root_ / "dst"}}}).message(), "");
  EXPECT_FALSE(environment_);
  ASSERT_EQ(stage({.environment = root_ / "env"}).message(), "");
  EXPECT_TRUE(environment_);
  EXPECT_EQ(stage({}).message(), "");
}

TEST_F(JobStagingTest, AfterAnErrorWithFilesNothingFollows) {
  const base::Status status = stage({.paths = {{root_ / "nothing", root_ / "dst"}}, .environment = root_ / "env"});
  EXPECT_THAT(status.message(), HasSubstr("--stage: look at"));
  EXPECT_FALSE(std::filesystem::exists(root_ / "cache"));
}

}  // namespace
}  // namespace muster::launcherd::job_staging_test

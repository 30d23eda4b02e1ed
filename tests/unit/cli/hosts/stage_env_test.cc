#include "cli/hosts/stage_env.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/support/temp_dir.h"

namespace muster::cli::stage_env_test {
namespace {

using ::testing::HasSubstr;

std::string settled(const std::string& value, const base::Environment& environment = {}) {
  model::JobSpec job;
  job.stage_env = value;
  const base::Status status = settle_stage_env(job, environment, "/home/alice");
  return status.ok() ? job.stage_env : status.message();
}

TEST(StageEnv, PathsBecomeAbsolute) {
  EXPECT_EQ(settled(""), "");
  EXPECT_EQ(settled("env"), "/home/alice/env");
  EXPECT_EQ(settled("./env/"), "/home/alice/env");
  EXPECT_EQ(settled("/opt//env"), "/opt/env");
  EXPECT_EQ(settled("../env"), "/home/alice/../env");
  EXPECT_THAT(settled("/"), HasSubstr("name the folder"));
}

TEST(StageEnv, WordsMeanTheActiveEnvironment) {
  base::Environment environment;
  environment.set("VIRTUAL_ENV", "/data/venv");
  EXPECT_EQ(settled("venv", environment), "/data/venv");
  EXPECT_EQ(settled("./venv", environment), "/home/alice/venv");
  EXPECT_THAT(settled("conda", environment), HasSubstr("CONDA_PREFIX is not set"));
  EXPECT_THAT(settled("venv"), HasSubstr("write ./venv for the folder"));
}

TEST(StageEnv, RefusesContainers) {
  model::JobSpec job;
  job.stage_env = "/env";
  job.container.image = "image";
  EXPECT_THAT(settle_stage_env(job, {}, "/").message(), HasSubstr("--container"));
}

TEST(StageEnv, ChecksTheFolder) {
  const testing_support::TempDir folder;
  model::JobSpec job;
  EXPECT_TRUE(check_stage_env(job).ok());
  job.stage_env = folder.path();
  EXPECT_TRUE(check_stage_env(job).ok());
  job.stage_env = folder.write("file", "");
  EXPECT_THAT(check_stage_env(job).message(), HasSubstr("it is not a folder"));
  job.stage_env = folder / "nothing";
  EXPECT_THAT(check_stage_env(job).message(), HasSubstr("it cannot be read"));
}

}  // namespace
}  // namespace muster::cli::stage_env_test

#include "agent/job/staged_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::agent::staged_environment_test {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

SpawnRequest started(SpawnRequest request) {
  start_from_environment("/tmp/e", {"/home/alice/venv"}, {"MUSTER_ENV_DIR", "VIRTUAL_ENV"}, request);
  return request;
}

TEST(StagedEnvironment, LiesBesideTheSessions) {
  EXPECT_EQ(environments_folder("/tmp/muster-1000/abcdefgh-1"), "/tmp/muster-1000/envs");
}

TEST(StagedEnvironment, SetsTheVariablesOfARank) {
  SpawnRequest request;
  request.env = {"A=1", "PATH=/home/alice/venv/bin:/usr/bin", "VIRTUAL_ENV=/home/alice/venv", "PYTHONHOME=/x",
                 "CONDA_PREFIX=/y"};
  EXPECT_THAT(started(request).env,
              UnorderedElementsAre("A=1", "PATH=/tmp/e/bin:/usr/bin", "MUSTER_ENV_DIR=/tmp/e", "VIRTUAL_ENV=/tmp/e"));
  EXPECT_THAT(started({}).env, UnorderedElementsAre("PATH=/tmp/e/bin:/usr/local/bin:/usr/bin:/bin",
                                                    "MUSTER_ENV_DIR=/tmp/e", "VIRTUAL_ENV=/tmp/e"));
}

TEST(StagedEnvironment, ReplacesOnlyTheCommandOfTheSource) {
  SpawnRequest request;
  request.argv = {"/home/alice/venv/bin/python", "/home/alice/venv/x.py"};
  EXPECT_THAT(started(request).argv, ElementsAre("/tmp/e/bin/python", "/home/alice/venv/x.py"));
  request.argv = {"python"};
  EXPECT_THAT(started(request).argv, ElementsAre("python"));
}

TEST(StagedEnvironment, ChangesNothingWithoutOne) {
  StagedEnvironment none;
  ASSERT_TRUE(none.open(v1::Launch(), "/nowhere/envs").ok());
  std::vector<SpawnRequest> requests(1);
  none.apply(requests);
  EXPECT_TRUE(requests.front().env.empty());
}

}  // namespace
}  // namespace muster::agent::staged_environment_test

#include "agent/launch/container.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/support/temp_dir.h"

namespace muster::agent::container_test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class EnterContainer : public ::testing::Test {
 protected:
  EnterContainer() {
    request_.argv = {"python3", "train.py"};
    request_.env = {"PATH=" + root_ / "bin", "MUSTER_RANK=3", "MUSTER_SESSION_DIR=" + root_ / "session"};
    request_.workdir = root_ / "work";
    for (const char* folder : {"bin", "session", "work"}) std::filesystem::create_directory(root_ / folder);
  }

  void add_program(const std::string& name) const {
    const std::string path = root_.write(name, "#!/bin/sh\n");
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  }

  testing_support::TempDir root_;
  SpawnRequest request_;
};

TEST_F(EnterContainer, BindsItsFoldersAndPassesItsVariables) {
  add_program("bin/apptainer");
  add_program("bin/singularity");
  const base::Status entered = enter_container({.image = "i.sif"}, {"MUSTER_RANK"}, request_);
  ASSERT_TRUE(entered.ok()) << entered;
  EXPECT_THAT(request_.argv, ElementsAre(root_ / "bin/apptainer", "exec", "--bind", root_ / "work", "--bind",
                                         root_ / "session", "--pwd", root_ / "work", "i.sif", "python3", "train.py"));
  EXPECT_THAT(request_.env, Contains("MUSTER_RANK=3"));
  EXPECT_THAT(request_.env, Contains("APPTAINERENV_MUSTER_RANK=3"));
  EXPECT_THAT(request_.env, Contains("SINGULARITYENV_MUSTER_RANK=3"));
}

TEST_F(EnterContainer, BindsMustersPythonAndItsLibrary) {
  add_program("bin/singularity");
  root_.write("source/muster/_library.py", "");
  root_.write("build/lib/libmuster.so", "");
  root_.write("others/numpy.py", "");
  std::filesystem::create_directory(root_ / "build/python");
  std::filesystem::create_directory_symlink(root_ / "source/muster", root_ / "build/python/muster");
  request_.env.push_back("PYTHONPATH=" + root_ / "others" + "::" + root_ / "build/python" + ":" + root_ / "gone");
  ASSERT_TRUE(enter_container({.image = "i.sif"}, {}, request_).ok());
  EXPECT_THAT(request_.argv,
              ElementsAre(root_ / "bin/singularity", "exec", "--bind", root_ / "work", "--bind", root_ / "session",
                          "--bind", root_ / "build/python", "--bind", root_ / "source/muster", "--bind",
                          root_ / "build/lib", "--pwd", root_ / "work", "i.sif", "python3", "train.py"));
}

TEST_F(EnterContainer, WithoutAProgramNothingStarts) {
  root_.write("bin/apptainer", "not executable");
  EXPECT_EQ(enter_container({.image = "i.sif"}, {}, request_).message(),
            "--container needs apptainer or singularity, and neither is in PATH (" + root_ / "bin" +
                "): install apptainer on that host, or name another program with --container-program");
  EXPECT_THAT(enter_container({.image = "i.sif", .program = "charliecloud"}, {}, request_).message(),
              HasSubstr("'charliecloud' is not a program on that host"));
  add_program("work/own");
  ASSERT_TRUE(enter_container({.image = "i.sif", .program = "./own"}, {}, request_).ok());
  EXPECT_EQ(request_.argv.front(), root_ / "work/./own");
}

TEST_F(EnterContainer, AFolderThatCannotBeNamedIsSaid) {
  add_program("bin/apptainer");
  request_.workdir = root_ / "a:b";
  std::filesystem::create_directory(request_.workdir);
  EXPECT_EQ(enter_container({.image = "i.sif"}, {}, request_).message(),
            "--container: '" + root_ / "a:b" + "' cannot be bound: its name holds ':' or ','");
}

}  // namespace
}  // namespace muster::agent::container_test

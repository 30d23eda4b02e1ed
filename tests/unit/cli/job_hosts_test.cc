#include "cli/job_hosts.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/cli/parsed.h"

namespace muster::cli {
namespace {

using ::testing::HasSubstr;

class ChooseHosts : public ::testing::Test {
 protected:
  ChooseHosts() {
    std::string pattern = (std::filesystem::temp_directory_path() / "job_hosts_test.XXXXXX").string();
    directory_ = ::mkdtemp(pattern.data());
    std::ofstream(directory_ / "hosts") << "f1 slots=2\nf2\n";
    environment_.set("SLURM_JOB_NODELIST", "s[1-2]");
  }
  ~ChooseHosts() override { std::filesystem::remove_all(directory_); }

  // The names of the chosen hosts and the line about them, or the error.
  std::string choose(const Words& words) const {
    ParsedHvdrun parsed = parse(words);
    const auto note = choose_hosts(parsed.options, environment_, directory_.string());
    if (!note.ok()) return note.status().message();
    std::string text;
    for (const model::HostSpec& host : parsed.options.job.placement.hosts) text += host.name + " ";
    return text + *note;
  }

  std::filesystem::path directory_;
  base::Environment environment_;
};

TEST_F(ChooseHosts, WhatTheUserNamesWinsOverTheAllocation) {
  EXPECT_EQ(choose({"-H", "a,b", "p"}), "a b ");
  EXPECT_EQ(choose({"--hostfile", "hosts", "p"}), "f1 f2 ");
  EXPECT_EQ(choose({"p"}), "s1 s2 hosts from the Slurm allocation (SLURM_JOB_NODELIST); -H names others");
}

TEST_F(ChooseHosts, OutsideOfAllocationsTheJobRunsHere) {
  environment_.unset("SLURM_JOB_NODELIST");
  EXPECT_EQ(choose({"-np", "4", "p"}), "");
}

TEST_F(ChooseHosts, MistakesAreNamed) {
  EXPECT_THAT(choose({"--hostfile", "none", "p"}), HasSubstr((directory_ / "none").string()));
  environment_.set("SLURM_JOB_NODELIST", "s[1-");
  EXPECT_THAT(choose({"p"}), HasSubstr("SLURM_JOB_NODELIST: 's[1-'"));
}

}  // namespace
}  // namespace muster::cli

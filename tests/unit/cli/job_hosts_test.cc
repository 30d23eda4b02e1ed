#include "cli/job_hosts.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/cli/parsed.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::cli {
namespace {

using ::testing::HasSubstr;

class ChooseHosts : public ::testing::Test {
 protected:
  ChooseHosts() {
    directory_.write("hosts", "f1 slots=2\nf2\n");
    environment_.set("SLURM_JOB_NODELIST", "s[1-2]");
  }

  // The names of the chosen hosts and the line about them, or the error.
  std::string choose(const Words& words) const {
    ParsedHvdrun parsed = parse(words);
    const auto note = choose_hosts(parsed.options, environment_, directory_.path());
    if (!note.ok()) return note.status().message();
    std::string text;
    for (const model::HostSpec& host : parsed.options.job.placement.hosts) text += host.name + " ";
    return text + *note;
  }

  testing_support::TempDir directory_;
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

TEST_F(ChooseHosts, AScriptIsAskedOnce) {
  const std::string asked = directory_.write("asked", "");
  const std::string script = "echo 1 >> " + asked + "; echo n1; echo n2:3";
  EXPECT_EQ(choose({"--host-discovery-script", script, "--slots-per-host", "2", "p"}), "n1 n2 hosts from " + script);
  EXPECT_EQ(std::filesystem::file_size(asked), 2U);
  EXPECT_THAT(choose({"--host-discovery-script", "exit 4", "p"}), HasSubstr("exit 4 ended with exit code 4"));
}

TEST_F(ChooseHosts, ElasticLimitsHoldAtTheStart) {
  const auto size = [&](Words words) {
    words.insert(words.begin(), {"--host-discovery-script", "echo n1:2; echo n2:3"});
    words.emplace_back("p");
    ParsedHvdrun parsed = parse(words);
    const auto placed = place_job(parsed.options, {}, "/", {});
    return placed.ok() ? fmt::format("{}", placed->placement.size) : placed.status().message();
  };
  EXPECT_EQ(size({}), "5");
  EXPECT_EQ(size({"-np", "3", "--min-np", "2", "--max-np", "4"}), "3");
  EXPECT_EQ(size({"--min-np", "2", "--max-np", "4"}), "4");
  EXPECT_EQ(size({"--max-np", "8"}), "5");
  EXPECT_EQ(size({"--min-np", "6"}), "--min-np asks for 6 ranks, and there are 5: name more hosts or slots");
}

TEST(PlacementExitCode, OfTheUserOrOfTheWorld) {
  EXPECT_EQ(placement_exit_code(base::error(base::Code::kInvalidArgument, "x")), 2);
  EXPECT_EQ(placement_exit_code(base::error(base::Code::kUnavailable, "x")), 125);
}

TEST_F(ChooseHosts, MistakesAreNamed) {
  EXPECT_THAT(choose({"--hostfile", "none", "p"}), HasSubstr(directory_ / "none"));
  environment_.set("SLURM_JOB_NODELIST", "s[1-");
  EXPECT_THAT(choose({"p"}), HasSubstr("SLURM_JOB_NODELIST: 's[1-'"));
}

}  // namespace
}  // namespace muster::cli

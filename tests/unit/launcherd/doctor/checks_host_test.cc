#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcherd/doctor/checks.h"

namespace muster::launcherd::checks_host_test {
namespace {

using model::Check;
using model::CheckState;
using ::testing::HasSubstr;

constexpr std::int64_t kMiB = 1 << 20;

v1::LimitFact limit(const char* name, std::int64_t soft, std::int64_t hard) {
  v1::LimitFact fact;
  fact.set_name(name);
  fact.set_soft(soft);
  fact.set_hard(hard);
  return fact;
}

struct LimitRow {
  const char* name;
  std::int64_t soft;
  std::int64_t hard;
  bool locks;
  CheckState state;
  const char* seen;
};

TEST(CheckLimit, Table) {
  const std::vector<LimitRow> rows = {
      {"nofile", 1024, 1 << 20, false, CheckState::kOk, "1024, raised to 1048576 for ranks"},
      {"nofile", 1024, 1024, false, CheckState::kWarn, "1024, low for sockets"},
      {"nofile", 64, 64, false, CheckState::kFail, "64, low"},
      {"nofile", -1, -1, false, CheckState::kOk, "unlimited"},
      {"memlock", 65536, 65536, false, CheckState::kOk, "64 KiB"},
      {"memlock", 65536, 65536, true, CheckState::kWarn, "64 KiB, low for memory"},
      {"memlock", 65536, -1, true, CheckState::kOk, "raised to unlimited"},
      {"nproc", -1, -1, false, CheckState::kOk, "unlimited"},
      {"nproc", 1000, -1, false, CheckState::kWarn, "1000 (hard unlimited), low"},
      {"nproc", 20, 20, false, CheckState::kFail, "20"},
      {"pids", 33, 33, false, CheckState::kFail, "33"},
      {"novelty", 1, 2, false, CheckState::kOk, "2"},
  };
  for (const LimitRow& row : rows) {
    const Check check = check_limit(limit(row.name, row.soft, row.hard), row.locks);
    EXPECT_EQ(check.state, row.state) << row.name << " " << check.seen;
    EXPECT_THAT(check.seen, HasSubstr(row.seen)) << row.name;
    EXPECT_EQ(check.advice.empty(), row.state == CheckState::kOk) << row.name;
  }
}

TEST(CheckThreads, Failure) {
  v1::HostFacts facts;
  EXPECT_EQ(check_threads(facts).state, CheckState::kOk);
  facts.set_thread_failure("only 3 of 12 threads could be started");
  EXPECT_EQ(check_threads(facts).state, CheckState::kFail);
  EXPECT_EQ(check_threads(facts).seen, "only 3 of 12 threads could be started");
}

v1::SpaceFact space(const char* purpose, std::int64_t free) {
  v1::SpaceFact fact;
  fact.set_purpose(purpose);
  fact.set_path("/p");
  fact.set_file_system("ext4");
  fact.set_total_bytes(20'480 * kMiB);
  fact.set_free_bytes(free);
  fact.set_free_files(-1);
  fact.set_writable(true);
  return fact;
}

TEST(CheckSpace, Room) {
  EXPECT_EQ(check_space(space("session", 2048 * kMiB)),
            (Check{"disk", CheckState::kOk, "2.0 GiB free of 20 GiB in /p, ext4", ""}));
  EXPECT_EQ(check_space(space("session", 100 * kMiB)).state, CheckState::kWarn);
  EXPECT_THAT(check_space(space("session", 100 * kMiB)).advice, HasSubstr("MUSTER_TMPDIR"));
  EXPECT_EQ(check_space(space("session", 0)).state, CheckState::kFail);
  EXPECT_EQ(check_space(space("home", 0)).state, CheckState::kWarn);  // the agent is stored there already
  EXPECT_EQ(check_space(space("home", 40 * kMiB)).state, CheckState::kOk);
  EXPECT_EQ(check_space(space("shm", 64 * kMiB)).name, "/dev/shm");
  EXPECT_EQ(check_space(space("shm", 64 * kMiB)).state, CheckState::kWarn);
  EXPECT_THAT(check_space(space("shm", 64 * kMiB)).advice, HasSubstr("--shm-size"));
}

TEST(CheckSpace, WhatCannotBeWritten) {
  v1::SpaceFact fact = space("session", 2048 * kMiB);
  fact.set_writable(false);
  EXPECT_EQ(check_space(fact).state, CheckState::kFail);
  EXPECT_THAT(check_space(fact).seen, HasSubstr("this user may not write"));
  fact.set_read_only(true);
  EXPECT_THAT(check_space(fact).seen, HasSubstr("read-only"));
  fact = space("session", 2048 * kMiB);
  fact.set_free_files(3);
  EXPECT_EQ(check_space(fact).state, CheckState::kWarn);
  EXPECT_THAT(check_space(fact).seen, HasSubstr("3 inodes left"));
  fact = space("shm", 0);
  fact.set_failure("/dev/shm: No such file or directory");
  EXPECT_EQ(check_space(fact),
            (Check{"/dev/shm", CheckState::kFail, "/dev/shm: No such file or directory", "create this directory"}));
}

TEST(CheckKernel, Table) {
  EXPECT_EQ(check_kernel("6.1.0-18-amd64").state, CheckState::kOk);
  EXPECT_EQ(check_kernel("4.18.0-372.9.1.el8.x86_64").state, CheckState::kOk);
  EXPECT_EQ(check_kernel("4.4.0").state, CheckState::kFail);
  EXPECT_EQ(check_kernel("3.10.0-957.el7").state, CheckState::kFail);
  EXPECT_EQ(check_kernel("6").state, CheckState::kWarn);
  EXPECT_EQ(check_kernel("").state, CheckState::kWarn);
  EXPECT_EQ(check_kernel("99999999999999999999.1").state, CheckState::kWarn);
}

TEST(CheckContainment, LevelAndWhyNotBetter) {
  v1::HostFacts facts;
  facts.mutable_hello()->set_containment("cgroup");
  EXPECT_EQ(check_containment(facts), (Check{"containment", CheckState::kOk, "cgroup", ""}));
  facts.mutable_hello()->set_containment("subreaper");
  facts.mutable_hello()->set_containment_note("no cgroup can be made in /x");
  EXPECT_EQ(check_containment(facts).state, CheckState::kWarn);
  EXPECT_EQ(check_containment(facts).seen, "subreaper (no cgroup can be made in /x)");
  EXPECT_THAT(check_containment(facts).advice, HasSubstr("Delegate=yes"));
  facts.set_containment_failure("make /tmp/muster-1: Read-only file system");
  EXPECT_EQ(check_containment(facts).state, CheckState::kFail);
}

TEST(CheckLogind, Table) {
  v1::LogindFact fact;
  EXPECT_EQ(check_logind(fact, "al").seen, "no systemd");
  fact.set_is_running(true);
  EXPECT_EQ(check_logind(fact, "al"),
            (Check{"logind", CheckState::kOk, "KillUserProcesses=default RemoveIPC=default linger=no", ""}));
  fact.set_kill_user_processes("no");
  EXPECT_EQ(check_logind(fact, "al").state, CheckState::kOk);
  fact.set_kill_user_processes("Yes");
  EXPECT_EQ(check_logind(fact, "al").state, CheckState::kWarn);
  EXPECT_THAT(check_logind(fact, "al").advice, HasSubstr("loginctl enable-linger al"));
  fact.set_lingers(true);
  EXPECT_EQ(check_logind(fact, "al").state, CheckState::kOk);
}

}  // namespace
}  // namespace muster::launcherd::checks_host_test

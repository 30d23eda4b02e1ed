#include "cli/view/job_table.h"

#include <cstdlib>
#include <ctime>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "cli/view/local_time.h"

namespace muster::cli::job_table_test {
namespace {

constexpr std::int64_t kStart = 1'700'000'000;

base::WallTime after(std::chrono::seconds age) {
  return base::WallTime(std::chrono::seconds(kStart) + age);
}

v1::Job job_of_two() {
  v1::Job job;
  job.set_id("abcdefgh");
  job.set_state(v1::JOB_STATE_RUNNING);
  for (const char* word : {"python3", "train me.py", "\x1b[1m"}) job.add_command(word);
  job.set_size(2);
  job.mutable_started()->set_seconds(kStart);
  job.set_launcher_host("head");
  job.set_launcher_pid(77);
  v1::HostStatus& up = *job.add_hosts();
  up.set_name("n1");
  up.set_up(true);
  up.set_link("dial");
  up.set_containment("cgroup");
  up.set_ranks(1);
  v1::HostStatus& waiting = *job.add_hosts();
  waiting.set_name("n2");
  waiting.set_ranks(1);
  v1::RankStatus& first = *job.add_ranks();
  first.set_host("n1");
  first.set_state(v1::RANK_STATE_ENDED);
  first.set_pid(4242);
  first.mutable_end()->set_kind(v1::RANK_END_KIND_SIGNALLED);
  first.mutable_end()->set_signal(9);
  v1::RankStatus& second = *job.add_ranks();
  second.set_rank(1);
  second.set_host("n2");
  second.set_state(v1::RANK_STATE_WAITING);
  return job;
}

TEST(JobTable, Jobs) {
  EXPECT_EQ(format_jobs({}, after(std::chrono::seconds(0))), "");
  EXPECT_EQ(format_jobs({job_of_two()}, after(std::chrono::seconds(125))),
            "job       state        ranks    hosts           age  command\n"
            "abcdefgh  RUNNING          2      1/2     2 min 5 s  python3 'train me.py' '\\x1b[1m'\n");
}

TEST(JobTable, TheHeadHasTheJobsPlaceInTheQueue) {
  v1::Job job = job_of_two();
  job.mutable_array()->add_elements()->set_last(9);
  job.mutable_array()->set_waiting(10);
  job.mutable_deadline()->set_seconds(kStart + 100);
  job.mutable_expected_start()->set_seconds(kStart + 50);
  const std::string text = format_job_head(job, after(std::chrono::seconds(0)));
  EXPECT_NE(text.find("\narray: 0-9: 10 wait\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\ndeadline: " + format_local_time(after(std::chrono::seconds(100))) + "\n"), std::string::npos);
  EXPECT_NE(text.find("\nexpected start: " + format_local_time(after(std::chrono::seconds(50))) + "\n"),
            std::string::npos);
  EXPECT_EQ(text.find("retryable"), std::string::npos);
  job.set_retryable(true);
  EXPECT_EQ(format_job_head(job, after(std::chrono::seconds(0))), text);
  job.set_retryable(false);
  EXPECT_NE(format_job_head(job, after(std::chrono::seconds(0))).find("\nretryable: no, a rank exited with 93\n"),
            std::string::npos);
}

TEST(JobTable, WhatRanksMayUseIsShownWhenItIsKnown) {
  v1::Job job = job_of_two();
  v1::RankBinding& first = *job.mutable_ranks(0)->mutable_binding();
  first.set_cpus("0-3");
  first.add_gpus(1);
  first.add_devices("GPU-5a");
  v1::RankBinding& second = *job.mutable_ranks(1)->mutable_binding();
  second.add_gpus(0);
  second.add_devices("intel:0.1");
  const std::string text = format_status(job, after(std::chrono::seconds(5)));
  EXPECT_NE(text.find("  rank  host       pid  gpu  cores  state\n"
                      "     0  n1        4242  1    0-3    "),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("     1  n2           -  0.1  all    waiting\n"), std::string::npos) << text;
}

TEST(JobTable, Status) {
  EXPECT_EQ(format_status(job_of_two(), after(std::chrono::seconds(5))),
            "job abcdefgh: RUNNING for 5.0 s, 2 ranks on 2 hosts\n"
            "started: " +
                format_local_time(after(std::chrono::seconds(0))) +
                "\n"
                "launcher: pid 77 on head\n"
                "command: python3 'train me.py' '\\x1b[1m'\n"
                "\n"
                "host  ranks  state            link  containment\n"
                "n1        1  up               dial  cgroup\n"
                "n2        1  waiting          -     -\n"
                "\n"
                "  rank  host       pid  state\n"
                "     0  n1        4242  signal 9 (Killed)\n"
                "     1  n2           -  waiting\n");
}

v1::Job waiting_job() {
  v1::Job job;
  job.set_id("bcdefghi");
  job.set_state(v1::JOB_STATE_QUEUED);
  job.add_command("./run");
  job.set_size(16);
  job.mutable_submitted()->set_seconds(kStart);
  job.set_launcher_host("head");
  job.set_launcher_pid(77);
  job.set_name("night");
  job.set_priority(-1);
  v1::NameValue& label = *job.add_labels();
  label.set_name("team");
  label.set_value("a\x1b");
  job.set_reason("needs 16 slots, 12 are free");
  return job;
}

TEST(JobTable, AJobThatWaitsSaysForWhat) {
  EXPECT_EQ(format_status(waiting_job(), after(std::chrono::seconds(5))),
            "job bcdefghi: QUEUED for 5.0 s, 16 ranks\n"
            "name: night\n"
            "priority: -1\n"
            "label: team=a\\x1b\n"
            "submitted: " +
                format_local_time(after(std::chrono::seconds(0))) +
                "\n"
                "launcher: pid 77 on head\n"
                "command: ./run\n"
                "reason: needs 16 slots, 12 are free\n");
}

TEST(JobTable, AHeldJobSaysByWhom) {
  v1::Job held = waiting_job();
  held.set_held(true);
  held.set_reason("held by ann");
  held.set_user("bob\x1b");
  held.set_working_directory("/home/bob/a b");
  held.clear_labels();
  EXPECT_EQ(format_status(held, after(std::chrono::seconds(5))),
            "job bcdefghi: HELD for 5.0 s, 16 ranks\n"
            "name: night\n"
            "priority: -1\n"
            "user: bob\\x1b\n"
            "directory: /home/bob/a b\n"
            "submitted: " +
                format_local_time(after(std::chrono::seconds(0))) +
                "\n"
                "launcher: pid 77 on head\n"
                "command: ./run\n"
                "reason: held by ann\n");
  EXPECT_EQ(format_wide_jobs({held, job_of_two()}, after(std::chrono::seconds(125))),
            "job       state        ranks    hosts           age  user     name   command\n"
            "bcdefghi  HELD            16        -     2 min 5 s  bob\\x1b  night  ./run (held by ann)\n"
            "abcdefgh  RUNNING          2      1/2     2 min 5 s  -        -      python3 'train me.py' '\\x1b[1m'\n");
}

TEST(JobTable, OfAJobThatHasEndedItsTimeAndCode) {
  v1::Job failed = job_of_two();
  failed.set_state(v1::JOB_STATE_FAILED);
  failed.set_exit_code(137);
  failed.mutable_ended()->set_seconds(kStart + 9);
  EXPECT_EQ(format_jobs({waiting_job(), failed}, after(std::chrono::seconds(125))),
            "job       state        ranks    hosts           age  name   command\n"
            "bcdefghi  QUEUED          16        -     2 min 5 s  night  ./run\n"
            "abcdefgh  FAILED 137       2        2         9.0 s  -      python3 'train me.py' '\\x1b[1m'\n");
  EXPECT_TRUE(format_status(failed, after(std::chrono::seconds(125)))
                  .starts_with("job abcdefgh: FAILED 137 after 9.0 s, 2 ranks on 2 hosts\n"));
}

TEST(JobTable, AShortListShowsFirstWhatFailedAndWhatRuns) {
  v1::Job failed = job_of_two();
  failed.set_state(v1::JOB_STATE_FAILED);
  failed.set_exit_code(137);
  failed.mutable_ended()->set_seconds(kStart + 9);
  EXPECT_EQ(format_jobs({waiting_job(), waiting_job(), failed, job_of_two()}, after(std::chrono::seconds(125)), 2),
            "job       state        ranks    hosts           age  name   command\n"
            "abcdefgh  FAILED 137       2        2         9.0 s  -      python3 'train me.py' '\\x1b[1m'\n"
            "abcdefgh  RUNNING          2      1/2     2 min 5 s  -      python3 'train me.py' '\\x1b[1m'\n"
            "and 2 more jobs: 2 QUEUED; add '| less' to see them\n");
}

TEST(JobTable, HostsOfAnEndedJobWaitForNothing) {
  v1::Job ended = job_of_two();
  ended.set_state(v1::JOB_STATE_SUCCEEDED);
  ended.mutable_ended()->set_seconds(kStart + 9);
  for (v1::HostStatus& host : *ended.mutable_hosts()) host.set_up(false);
  const std::string text = format_status(ended, after(std::chrono::seconds(125)));
  EXPECT_NE(text.find("n1        1  ended            -     -\n"
                      "n2        1  ended            -     -\n"),
            std::string::npos)
      << text;
}

TEST(JobTable, LongNamesAreCut) {
  v1::Job job = waiting_job();
  job.set_name("a name of more than twenty-four bytes");
  const std::string text = format_jobs({job}, after(std::chrono::seconds(5)));
  EXPECT_NE(text.find("  a name of more than twen…  ./run\n"), std::string::npos) << text;
}

// Local time is six hours behind UTC while this lives.
class TimeZone {
 public:
  TimeZone() {
    if (const char* before = std::getenv("TZ")) before_ = before;
    set("XST6");
  }
  ~TimeZone() {
    before_ ? set(before_->c_str()) : (void)::unsetenv("TZ");
    ::tzset();
  }
  TimeZone(const TimeZone&) = delete;
  TimeZone& operator=(const TimeZone&) = delete;

 private:
  static void set(const char* zone) {
    ::setenv("TZ", zone, 1);
    ::tzset();
  }
  std::optional<std::string> before_;
};

TEST(JobTable, EveryEventHasALine) {
  const TimeZone zone;
  v1::Event event;
  event.mutable_time()->set_seconds(kStart);
  event.mutable_time()->set_nanos(123'456'000);
  event.mutable_rank_up()->set_rank(3);
  event.mutable_rank_up()->set_pid(42);
  EXPECT_EQ(format_event(event), "2023-11-14 16:13:20.123456 -0600 rank 3 runs, pid 42\n");
  event.mutable_host_suspect()->set_host("n1\x1b");
  EXPECT_EQ(format_event(event), "2023-11-14 16:13:20.123456 -0600 n1\\x1b answers again\n");
  event.mutable_job_restarting()->set_attempt(1);
  event.mutable_job_restarting()->set_reason("exit code 3");
  EXPECT_EQ(format_event(event), "2023-11-14 16:13:20.123456 -0600 restart 1 after rank 0: exit code 3\n");
  event.mutable_generation_began()->set_number(1);
  event.mutable_generation_began()->set_from(4);
  event.mutable_generation_began()->set_to(2);
  event.mutable_generation_began()->add_lost("n2");
  EXPECT_EQ(format_event(event), "2023-11-14 16:13:20.123456 -0600 generation 1: 4 → 2 ranks, n2 lost, 0.00 s\n");
  event.mutable_job_state_changed()->set_state(v1::JOB_STATE_QUEUED);
  EXPECT_EQ(format_event(event), "2023-11-14 16:13:20.123456 -0600 QUEUED\n");
  event.mutable_job_state_changed()->set_reason("needs 16 slots, 12 are free");
  EXPECT_EQ(format_event(event), "2023-11-14 16:13:20.123456 -0600 QUEUED: needs 16 slots, 12 are free\n");
  EXPECT_EQ(format_event(v1::Event()), "1969-12-31 18:00:00.000000 -0600 an event of a newer launcher\n");
}

TEST(JobTable, States) {
  EXPECT_EQ(state_name(v1::JOB_STATE_LOST), "LOST");
  EXPECT_EQ(state_name(static_cast<v1::JobState>(99)), "UNKNOWN");
}

TEST(JobTable, AJobThatHasChangedShowsItsGenerationAndWhy) {
  v1::Job job;
  job.set_id("k7");
  job.set_state(v1::JOB_STATE_RUNNING);
  job.set_size(6);
  job.set_attempt(3);
  EXPECT_NE(format_status(job, base::WallTime()).find("6 ranks, restart 3\n"), std::string::npos);
  job.set_last_change("generation 3: 8 → 6 ranks, n2 lost (its agent ended), 1.2 s");
  const std::string text = format_status(job, base::WallTime());
  EXPECT_NE(text.find("6 ranks, generation 3\n"), std::string::npos) << text;
  EXPECT_NE(text.find("last change: generation 3: 8 → 6 ranks, n2 lost (its agent ended), 1.2 s\n"), std::string::npos)
      << text;
}

TEST(JobTable, AJobShowsItsFirstCollectiveAndItsElasticPolicy) {
  v1::Job job;
  job.set_id("k7");
  const std::string before = format_status(job, base::WallTime());
  EXPECT_EQ(before.find("elastic policy"), std::string::npos) << before;
  EXPECT_EQ(before.find("first collective"), std::string::npos) << before;
  job.set_attempt(3);
  job.set_first_collective_ms(128);
  job.set_elastic_policy(v1::ELASTIC_POLICY_GIVE_BACK);
  const std::string text = format_status(job, base::WallTime());
  EXPECT_NE(text.find("first collective: 0.13 s after the failure or the resize\n"), std::string::npos) << text;
  EXPECT_NE(text.find("elastic policy: give-back\n"), std::string::npos) << text;
}

TEST(JobTable, AJobNamesItsFailedHosts) {
  v1::Job job;
  job.set_id("k7");
  v1::FailedHost& never = *job.add_failed_hosts();
  never.set_name("n2");
  never.set_reason("its agent ended");
  v1::FailedHost& later = *job.add_failed_hosts();
  later.set_name("n3");
  later.mutable_usable_from()->set_seconds(90);
  const std::string text = format_status(job, base::WallTime());
  EXPECT_NE(text.find("failed host: n2: its agent ended; not used again in this job\n"), std::string::npos) << text;
  EXPECT_NE(text.find("failed host: n3: may be used again in "), std::string::npos) << text;
  const std::string after = format_status(job, base::WallTime(std::chrono::seconds(91)));
  EXPECT_NE(after.find("failed host: n3: may be used again now\n"), std::string::npos) << after;
}

}  // namespace
}  // namespace muster::cli::job_table_test

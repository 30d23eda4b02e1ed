#include "cli/view/top_view.h"

#include <gtest/gtest.h>

namespace muster::cli::top_view_test {
namespace {

TopSample sample() {
  TopSample made;
  made.launcher = "unix:/run/x.sock";
  v1::LauncherHost host;
  host.set_name("n1");
  host.set_slots(4);
  host.set_used_slots(2);
  host.set_jobs(1);
  host.set_agent(v1::AGENT_STATE_UP);
  host.set_ranks(2);
  host.set_memory_mib(64'000);
  host.mutable_load()->set_cpu_percent(43);
  host.mutable_load()->set_memory_used_mib(12'400);
  host.set_output_bytes_per_second(1'234'567);
  made.hosts.push_back(host);
  v1::Job running;
  running.set_id("abcdefgh");
  running.set_state(v1::JOB_STATE_RUNNING);
  running.set_size(2);
  running.add_command("./run");
  running.mutable_started()->set_seconds(1'000);
  running.set_output_bytes_per_second(1'234'567);
  made.jobs.push_back(running);
  v1::Job waiting;
  waiting.set_id("bcdefghi");
  waiting.set_state(v1::JOB_STATE_QUEUED);
  waiting.set_size(4);
  waiting.add_command("./big");
  waiting.mutable_submitted()->set_seconds(1'001);
  waiting.set_name("night");
  waiting.set_reason("needs 4 slots, 2 are free on n1");
  made.jobs.push_back(waiting);
  made.at = base::WallTime(std::chrono::seconds(1'005));
  return made;
}

TEST(TopView, HostsJobsAndReasons) {
  EXPECT_EQ(format_top(sample()),
            "1 job running, 1 waiting; 2 of 4 slots used on 1 host; launcherd at unix:/run/x.sock\n"
            "\n"
            "host      slots   ranks    cpu            memory      gpus     output  agent\n"
            "n1          2/4       2    43%     12.1/62.5 GiB         -   1.2 MB/s  up\n"
            "\n"
            "job       state        ranks    hosts           age     output  name   command\n"
            "abcdefgh  RUNNING          2        -         5.0 s   1.2 MB/s  -      ./run\n"
            "bcdefghi  QUEUED           4        -         4.0 s          -  night  ./big\n"
            "\n"
            "bcdefghi waits: needs 4 slots, 2 are free on n1\n");
}

TEST(TopView, WithoutLauncherdAndWithAProblem) {
  TopSample none;
  EXPECT_EQ(format_top(none), "0 jobs running, 0 waiting; no launcherd\n");
  none.launcher = "n1:7400";
  none.problem = "no launcherd answers at n1:7400\x1b";
  EXPECT_EQ(format_top(none),
            "0 jobs running, 0 waiting; 0 of 0 slots used on 0 hosts; launcherd at n1:7400\n"
            "no launcherd answers at n1:7400\\x1b\n");
}

TEST(TopView, JobsThatHaveChangedSayHow) {
  TopSample top;
  v1::Job& job = top.jobs.emplace_back();
  job.set_id("k7");
  job.set_state(v1::JOB_STATE_RUNNING);
  job.set_last_change("generation 1: 4 → 2 ranks");
  EXPECT_NE(format_top(top).find("k7 generation 1: 4 → 2 ranks\n"), std::string::npos) << format_top(top);
}

}  // namespace
}  // namespace muster::cli::top_view_test

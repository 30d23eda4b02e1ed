#include "launcherd/web/metrics.h"

#include <gtest/gtest.h>

namespace muster::launcherd::metrics_test {
namespace {

// HistogramsAreCumulative has those.
std::string without_histograms(const std::string& text) {
  const std::size_t begin = text.find("# HELP muster_job_queue_wait_seconds");
  const std::size_t end = text.find("# HELP muster_elastic_jobs");
  return text.substr(0, begin) + text.substr(end);
}

TEST(Metrics, AreInTheTextFormat) {
  v1::Capabilities launcher;
  launcher.set_version("1.2");
  launcher.set_build_id("a\"b\\c\nd");
  launcher.mutable_started()->set_seconds(1'782'000'000);
  v1::ListHostsResponse hosts;
  v1::LauncherHost& host = *hosts.add_hosts();
  host.set_name("n1");
  host.set_slots(4);
  host.set_used_slots(3);
  host.set_jobs(1);
  host.set_agent(v1::AGENT_STATE_UP);
  host.set_drained(true);
  host.mutable_load()->set_cpu_percent(43);
  host.mutable_load()->set_memory_used_mib(2);
  v1::GpuLoad& gpu = *host.mutable_load()->add_gpus();
  gpu.set_index(3);
  gpu.set_busy_percent(7);
  gpu.set_memory_used_mib(3);
  gpu.set_processes(2);
  v1::GpuLoad& other = *host.mutable_load()->add_gpus();  // each vendor has its own numbers
  other.set_vendor(v1::GPU_VENDOR_AMD);
  other.set_index(3);
  other.set_busy_unknown(true);
  v1::Gpu& known = *host.add_gpus();
  known.set_index(3);
  known.set_memory_mib(4);
  host.add_gpus()->set_vendor(v1::GPU_VENDOR_AMD);
  host.set_gpu_problem("GPU 4 cannot be used");
  host.set_output_bytes(12'345);
  hosts.add_hosts()->set_name("n2");  // its agent has reported nothing
  host.set_memory_mib(8);
  v1::ListJobsResponse jobs;
  v1::Job& running = *jobs.add_jobs();
  running.set_attempt(2);
  const JobCounters counters{.submitted = 9,
                             .queued = 2,
                             .held = 1,
                             .running = 1,
                             .ranks = 3,
                             .jobs_succeeded = 5,
                             .jobs_failed = 2,
                             .jobs_killed = 1,
                             .rank_exits_ok = 40,
                             .rank_exits_failed = 3,
                             .generations_after_failure = 4,
                             .generations_after_lost_host = 5,
                             .generations_after_resize = 6,
                             .generations_after_preemption = 7,
                             .generations_after_growth = 8,
                             .changes_timed = 3,
                             .change_seconds = 7.5,
                             .last_change_seconds = 1.25,
                             .collectives_timed = 2,
                             .collective_seconds = 3.25,
                             .last_collective_seconds = 0.13};
  EXPECT_EQ(
      without_histograms(format_metrics(launcher, hosts, jobs, counters)),
      "# HELP muster_build_info Always 1.\n"
      "# TYPE muster_build_info gauge\n"
      "muster_build_info{version=\"1.2\",build=\"a\\\"b\\\\c\\nd\"} 1\n"
      "# HELP muster_launcherd_start_time_seconds Start time of launcherd in seconds since 1970.\n"
      "# TYPE muster_launcherd_start_time_seconds gauge\n"
      "muster_launcherd_start_time_seconds 1782000000\n"
      "# HELP muster_jobs Jobs that have not ended, by state.\n"
      "# TYPE muster_jobs gauge\n"
      "muster_jobs{state=\"queued\"} 2\n"
      "muster_jobs{state=\"starting\"} 0\n"
      "muster_jobs{state=\"running\"} 1\n"
      "muster_jobs{state=\"stopping\"} 0\n"
      "# HELP muster_jobs_held Queued jobs that wait for their release.\n"
      "# TYPE muster_jobs_held gauge\n"
      "muster_jobs_held 1\n"
      "# HELP muster_ranks Ranks of jobs that have started and not ended.\n"
      "# TYPE muster_ranks gauge\n"
      "muster_ranks 3\n"
      "# HELP muster_host_late_ratio Share of the compared steps in which a rank came last, for the latest rank of "
      "each "
      "host that has one.\n"
      "# TYPE muster_host_late_ratio gauge\n"
      "# HELP muster_agents Hosts by the state of their agent.\n"
      "# TYPE muster_agents gauge\n"
      "muster_agents{state=\"none\"} 0\n"
      "muster_agents{state=\"starting\"} 0\n"
      "muster_agents{state=\"up\"} 1\n"
      "muster_agents{state=\"suspect\"} 0\n"
      "muster_agents{state=\"failed\"} 0\n"
      "# HELP muster_host_slots Slots of the host.\n"
      "# TYPE muster_host_slots gauge\n"
      "muster_host_slots{host=\"n1\"} 4\n"
      "muster_host_slots{host=\"n2\"} 0\n"
      "# HELP muster_host_used_slots Slots that jobs use.\n"
      "# TYPE muster_host_used_slots gauge\n"
      "muster_host_used_slots{host=\"n1\"} 3\n"
      "muster_host_used_slots{host=\"n2\"} 0\n"
      "# HELP muster_host_jobs Jobs that have ranks on the host.\n"
      "# TYPE muster_host_jobs gauge\n"
      "muster_host_jobs{host=\"n1\"} 1\n"
      "muster_host_jobs{host=\"n2\"} 0\n"
      "# HELP muster_host_drained 1 if no new job gets the host.\n"
      "# TYPE muster_host_drained gauge\n"
      "muster_host_drained{host=\"n1\"} 1\n"
      "muster_host_drained{host=\"n2\"} 0\n"
      "# HELP muster_host_gpu_problem 1 if the host's GPUs may be unknown; muster hosts shows the reason.\n"
      "# TYPE muster_host_gpu_problem gauge\n"
      "muster_host_gpu_problem{host=\"n1\"} 1\n"
      "muster_host_gpu_problem{host=\"n2\"} 0\n"
      "# HELP muster_host_cpu_busy_ratio How busy all CPUs of the host are, from 0 to 1.\n"
      "# TYPE muster_host_cpu_busy_ratio gauge\n"
      "muster_host_cpu_busy_ratio{host=\"n1\"} 0.43\n"
      "# HELP muster_host_memory_bytes Memory of the host.\n"
      "# TYPE muster_host_memory_bytes gauge\n"
      "muster_host_memory_bytes{host=\"n1\"} 8388608\n"
      "# HELP muster_host_memory_used_bytes Used memory of the host.\n"
      "# TYPE muster_host_memory_used_bytes gauge\n"
      "muster_host_memory_used_bytes{host=\"n1\"} 2097152\n"
      "# HELP muster_gpu_busy_ratio How busy a GPU is, from 0 to 1, if its driver reports it.\n"
      "# TYPE muster_gpu_busy_ratio gauge\n"
      "muster_gpu_busy_ratio{host=\"n1\",vendor=\"nvidia\",gpu=\"3\"} 0.07\n"
      "# HELP muster_gpu_memory_used_bytes Used memory of a GPU, if its driver reports it.\n"
      "# TYPE muster_gpu_memory_used_bytes gauge\n"
      "muster_gpu_memory_used_bytes{host=\"n1\",vendor=\"nvidia\",gpu=\"3\"} 3145728\n"
      "# HELP muster_gpu_processes Processes that use a GPU, if its driver reports them; for NVIDIA only compute "
      "processes.\n"
      "# TYPE muster_gpu_processes gauge\n"
      "muster_gpu_processes{host=\"n1\",vendor=\"nvidia\",gpu=\"3\"} 2\n"
      "# HELP muster_gpu_memory_bytes Memory of a GPU, if its driver reports it.\n"
      "# TYPE muster_gpu_memory_bytes gauge\n"
      "muster_gpu_memory_bytes{host=\"n1\",vendor=\"nvidia\",gpu=\"3\"} 4194304\n"
      "# HELP muster_host_output_bytes_total Bytes of output from ranks on the host since launcherd started.\n"
      "# TYPE muster_host_output_bytes_total counter\n"
      "muster_host_output_bytes_total{host=\"n1\"} 12345\n"
      "muster_host_output_bytes_total{host=\"n2\"} 0\n"
      "# HELP muster_jobs_submitted_total Jobs accepted since launcherd started.\n"
      "# TYPE muster_jobs_submitted_total counter\n"
      "muster_jobs_submitted_total 9\n"
      "# HELP muster_jobs_ended_total Jobs that have ended since launcherd started, by state.\n"
      "# TYPE muster_jobs_ended_total counter\n"
      "muster_jobs_ended_total{state=\"succeeded\"} 5\n"
      "muster_jobs_ended_total{state=\"failed\"} 2\n"
      "muster_jobs_ended_total{state=\"killed\"} 1\n"
      "muster_jobs_ended_total{state=\"lost\"} 0\n"
      "# HELP muster_rank_exits_total Ranks that have ended since launcherd started.\n"
      "# TYPE muster_rank_exits_total counter\n"
      "muster_rank_exits_total{result=\"ok\"} 40\n"
      "muster_rank_exits_total{result=\"other\"} 3\n"
      "# HELP muster_elastic_jobs Jobs that have had more than one generation and have not ended.\n"
      "# TYPE muster_elastic_jobs gauge\n"
      "muster_elastic_jobs 1\n"
      "# HELP muster_elastic_resets_total Jobs that went on in another generation since launcherd started.\n"
      "# TYPE muster_elastic_resets_total counter\n"
      "muster_elastic_resets_total{reason=\"failure\"} 4\n"
      "muster_elastic_resets_total{reason=\"host\"} 5\n"
      "muster_elastic_resets_total{reason=\"resize\"} 6\n"
      "muster_elastic_resets_total{reason=\"preemption\"} 7\n"
      "muster_elastic_resets_total{reason=\"growth\"} 8\n"
      "# HELP muster_elastic_reset_seconds Time from a failure or a resize until all ranks of the new generation "
      "had started.\n"
      "# TYPE muster_elastic_reset_seconds summary\n"
      "muster_elastic_reset_seconds_sum 7.500\n"
      "muster_elastic_reset_seconds_count 3\n"
      "# HELP muster_elastic_last_reset_seconds Time from the newest failure or resize until all ranks of the new "
      "generation had started.\n"
      "# TYPE muster_elastic_last_reset_seconds gauge\n"
      "muster_elastic_last_reset_seconds 1.250\n"
      "# HELP muster_elastic_first_collective_seconds Time from a failure or a resize to the end of the new "
      "generation's first collective, if its ranks use libmuster.\n"
      "# TYPE muster_elastic_first_collective_seconds summary\n"
      "muster_elastic_first_collective_seconds_sum 3.250\n"
      "muster_elastic_first_collective_seconds_count 2\n"
      "# HELP muster_elastic_last_first_collective_seconds Time from the newest failure or resize to the end "
      "of the first collective after it.\n"
      "# TYPE muster_elastic_last_first_collective_seconds gauge\n"
      "muster_elastic_last_first_collective_seconds 0.130\n");
}

TEST(Metrics, NameTheLatestRankOfEachHost) {
  v1::ListJobsResponse jobs;
  for (const int count : {83, 20}) {
    v1::RankLateness& late = *jobs.add_jobs()->add_late();
    late.set_host("n5");
    late.set_late(count);
    late.set_operations(100);
  }
  const std::string text = format_metrics({}, {}, jobs, {});
  EXPECT_NE(text.find("muster_host_late_ratio{host=\"n5\"} 0.830\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("job=\""), std::string::npos);  // no label that grows with the number of jobs
}

TEST(Metrics, HistogramsAreCumulative) {
  JobCounters counters;
  for (const double seconds : {0.05, 0.1, 3.0, 1e9, -1.0}) counters.queue_wait.add(seconds);
  const std::string text = format_metrics({}, {}, {}, counters);
  for (const char* const line :
       {"# TYPE muster_job_queue_wait_seconds histogram\n", "muster_job_queue_wait_seconds_bucket{le=\"0.1\"} 3\n",
        "muster_job_queue_wait_seconds_bucket{le=\"2.5\"} 3\n", "muster_job_queue_wait_seconds_bucket{le=\"5\"} 4\n",
        "muster_job_queue_wait_seconds_bucket{le=\"604800\"} 4\n",
        "muster_job_queue_wait_seconds_bucket{le=\"+Inf\"} 5\n",
        "muster_job_queue_wait_seconds_sum 1000000003.150000\n", "muster_job_queue_wait_seconds_count 5\n",
        "muster_job_run_seconds_count 0\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  }
}

}  // namespace
}  // namespace muster::launcherd::metrics_test

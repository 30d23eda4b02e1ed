#include "proto/event_json.h"

#include <gtest/gtest.h>

namespace muster::proto::event_json_test {
namespace {

using std::chrono::microseconds;

// 2026-06-20 17:05:53.000042 UTC.
const base::WallTime kTime{std::chrono::duration_cast<base::WallTime::duration>(microseconds(1'781'975'153'000'042))};

model::RankEnd ended() {
  model::RankEnd end;
  end.rank = 1;
  end.host = "n1";
  end.pid = end.pid_inside = 42;
  end.kind = model::EndKind::kSignalled;
  end.signal = 9;
  return end;
}

constexpr const char* kRankEnd =
    R"({"rank":1,"host":"n1","pid":"42","pid_inside":"42","kind":"RANK_END_KIND_SIGNALLED","exit_code":0,"signal":9,)"
    R"("out_of_memory":false,"detail":"","without_finalize":false,"spawn_refused":false})";

// What scripts parse: a change here breaks them.
TEST(EventLine, GoldenLines) {
  const auto placement = model::place({.hosts = *model::parse_host_list("n1:1", "-H")});
  ASSERT_TRUE(placement.ok());
  const std::vector<std::pair<model::JobEvent, std::string>> table = {
      {model::JobStarting{"abcdefgh", *placement},
       R"("job_starting":{"job_id":"abcdefgh","placement":{"size":1,"hosts":[{"name":"n1","slots":1,"ranks":[)"
       R"({"rank":0,"local_rank":0,"local_size":1,"cross_rank":0,"cross_size":1,"host_index":0,"cpus":[],"gpus":[],"tiles":[]}]}],"roles":[]}})"},
      {model::HostUp{"n1", "dial", "cgroup"}, R"("host_up":{"host":"n1","link":"dial","containment":"cgroup"})"},
      {model::RankUp{1, 42}, R"("rank_up":{"rank":1,"pid":"42"})"},
      {ended(), fmt::format(R"("rank_ended":{})", kRankEnd)},
      {model::HostSuspect{"n1", true}, R"("host_suspect":{"host":"n1","suspect":true})"},
      {model::JobStopping{"rank 1 failed"}, R"("job_stopping":{"reason":"rank 1 failed"})"},
      {model::JobRestarting{2, 1, "exit code 3"}, R"("job_restarting":{"attempt":2,"rank":1,"reason":"exit code 3"})"},
      {model::GenerationBegan{.number = 3,
                              .from = 3,
                              .to = 1,
                              .added = {"n1"},
                              .lost = {"n2"},
                              .reason = "lease over",
                              .elapsed = std::chrono::milliseconds(1200),
                              .former = {2}},
       R"("generation_began":{"number":3,"from":3,"to":1,"added":["n1"],"lost":["n2"],"reason":"lease over",)"
       R"("elapsed_ms":"1200","placement":{"size":0,"hosts":[],"roles":[]},"former":[2]})"},
      {model::FirstCollectiveEnded{.generation = 3, .elapsed = std::chrono::milliseconds(130)},
       R"("first_collective_ended":{"generation":3,"elapsed_ms":"130"})"},
      {model::HangReported{{.silent_ms = 5, .size = 4, .cause = "waits", .silent_hosts = {"n3"}}},
       R"("hang_reported":{"silent_ms":"5","generation":0,"size":4,"answered":0,"looked_ms":"0","cause":"waits",)"
       R"("classes":[],"silent_hosts":["n3"],"nccl":[]})"},
      {model::WrongWorld{.size = 2, .formed = {{.size = 1, .ranks = {0, 1}, .source = "MPI"}}, .reason = "do this"},
       R"("wrong_world":{"size":2,"formed":[{"size":1,"ranks":[0,1],"source":"MPI"}],"reason":"do this"})"},
      {model::HostsLeftOut{.hosts = {"n7", "n8"}, .reasons = {"no answer", "refused"}},
       R"("hosts_left_out":{"hosts":["n7","n8"],"reasons":["no answer","refused"]})"},
      {model::LateHost{.host = "n5", .late = 3, .operations = 4, .median = std::chrono::microseconds(5)},
       R"("late_host":{"host":"n5","late":"3","operations":"4","median_us":"5"})"},
      {model::ElementChanged{.index = 17, .state = model::JobState::kFailed, .exit_code = 0},
       R"("element_changed":{"index":17,"state":"JOB_STATE_FAILED","exit_code":0})"},
      {model::ElementChanged{.index = 17}, R"("element_changed":{"index":17,"state":"JOB_STATE_STARTING"})"},
      {model::NotifyFailed{"exit code 3"}, R"("notify_failed":{"reason":"exit code 3"})"},
      {model::JobStateChanged{model::JobState::kQueued, "waits"},
       R"("job_state_changed":{"state":"JOB_STATE_QUEUED","reason":"waits"})"},
      {model::JobEnded{"abcdefgh", 137, 1, {ended()}, {"last words"}, 2, {"n2"}},
       fmt::format(R"("job_ended":{{"job_id":"abcdefgh","exit_code":137,"root_cause_rank":1,"ends":[{}],)"
                   R"("stderr_tail":["last words"],"strays_killed":2,"unclean_hosts":["n2"],"alike_ranks":[]}})",
                   kRankEnd)},
      {model::JobEnded{"abcdefgh", 93, -1, {}, {}, 0, {}, {}, false},
       R"("job_ended":{"job_id":"abcdefgh","exit_code":93,"root_cause_rank":-1,"ends":[],"stderr_tail":[],)"
       R"("strays_killed":0,"unclean_hosts":[],"alike_ranks":[],"retryable":false})"},
  };
  for (const auto& [event, body] : table) {
    EXPECT_EQ(event_line(event, 7, kTime), fmt::format(R"({{"sequence":"7",{},"time":"2026-06-20T17:05:53.000042Z"}})"
                                                       "\n",
                                                       body));
  }
}

TEST(EventLine, BytesOfProgramsStayOnTheLine) {
  model::RankEnd end = ended();
  end.detail = "bad \xff\n\"quote\"";
  const std::string line = event_line(end, 1, kTime);
  EXPECT_NE(line.find("bad \xef\xbf\xbd\\n\\\"quote\\\""), std::string::npos) << line;
  EXPECT_EQ(line.find('\n'), line.size() - 1);
}

}  // namespace
}  // namespace muster::proto::event_json_test

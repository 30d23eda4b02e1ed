#include "cli/view/job_timeline.h"

#include <gtest/gtest.h>

#include "tests/unit/cli/view/job_events.h"

namespace muster::cli::job_timeline_test {
namespace {

using testing_support::JobEvents;

// "rank 0 on n1: 0.5-2 kWell" for each run of each lane.
std::string text_of(const std::vector<TimelineLane>& lanes) {
  std::string text;
  for (const TimelineLane& lane : lanes) {
    for (const TimelineRun& run : lane.runs) {
      text += lane.name + ": " + std::to_string(static_cast<int>(run.begin * 1000 + 0.5)) + "-" +
              std::to_string(static_cast<int>(run.end * 1000 + 0.5)) + " " + std::to_string(static_cast<int>(run.how)) +
              "\n";
    }
  }
  return text;
}

std::string code(RunEnd end) {
  return std::to_string(static_cast<int>(end));
}

TEST(JobTimeline, HasALaneForEachRankByHost) {
  JobEvents job;
  job.starting(0, {"n2", "n1"}, 1).up(500, 0).up(600, 1).exited(2000, 1, 0).exited(3000, 0, 0).ended(3100, 0, -1);
  const Timeline timeline = timeline_of(job.events);
  EXPECT_NEAR(timeline.length, 3.1, 1e-6);
  EXPECT_EQ(text_of(timeline.lanes),
            "rank 0 on n2: 500-3000 " + code(RunEnd::kWell) + "\nrank 1 on n1: 600-2000 " + code(RunEnd::kWell) + "\n");
}

TEST(JobTimeline, TellsHowRanksEnded) {
  JobEvents job;
  job.starting(0, {"n1"}, 5);
  for (int rank = 0; rank < 5; ++rank) job.up(100, rank);
  job.exited(200, 3, 1).exited(210, 1, 1).stopped(300, 0).lost(400, 2).ended(500, 1, 3);
  EXPECT_EQ(text_of(timeline_of(job.events).lanes),
            "rank 0 on n1: 100-300 " + code(RunEnd::kStopped) + "\nrank 1 on n1: 100-210 " + code(RunEnd::kFailed) +
                "\nrank 2 on n1: 100-400 " + code(RunEnd::kLost) + "\nrank 3 on n1: 100-200 " +
                code(RunEnd::kRootCause) + "\nrank 4 on n1: 100-500 " + code(RunEnd::kRuns) + "\n");
}

TEST(JobTimeline, ProcessesThatLiveOnChangeTheirLane) {
  JobEvents job;
  job.starting(0, {"n1", "n2"}, 1).up(100, 0).up(100, 1).lost(200, 0);
  job.generation(300, 1, {"n2"}, 1, {1}).exited(900, 0, 0).ended(1000, 0, -1);
  EXPECT_EQ(text_of(timeline_of(job.events).lanes), "rank 0 on n1: 100-200 " + code(RunEnd::kLost) +
                                                        "\nrank 0 on n2: 300-900 " + code(RunEnd::kWell) +
                                                        "\nrank 1 on n2: 100-300 " + code(RunEnd::kGoesOn) + "\n");
}

TEST(JobTimeline, PhasesFollowTheEvents) {
  JobEvents job;
  job.next(0).mutable_job_state_changed()->set_state(v1::JOB_STATE_QUEUED);
  job.starting(100, {"n1"}, 1).up(300, 0);
  job.next(800).mutable_job_stopping()->set_reason("Ctrl-C");
  job.stopped(900, 0).ended(1000, 130, -1);
  std::string text;
  for (const TimelineRun& phase : timeline_of(job.events).phases) {
    text += phase.text + " " + std::to_string(static_cast<int>(phase.begin * 1000 + 0.5)) + "-" +
            std::to_string(static_cast<int>(phase.end * 1000 + 0.5)) + "; ";
  }
  EXPECT_EQ(text, "waits 0-100; hosts start 100-300; runs 300-800; stops 800-1000; ");
}

TEST(JobTimeline, ManyRanksAreShownByHost) {
  JobEvents job;
  job.starting(0, {"n1", "n2"}, 150);
  for (int rank = 0; rank < 300; ++rank) job.up(100 + rank, rank);
  job.exited(1000, 200, 7).ended(1100, 7, 200);
  const Timeline timeline = timeline_of(job.events);
  EXPECT_EQ(text_of(timeline.lanes), "n1: ranks 0-149: 100-1100 " + code(RunEnd::kRuns) +
                                         "\nn2: ranks 150-299: 250-1100 " + code(RunEnd::kRootCause) + "\n");
  EXPECT_EQ(timeline.lanes[1].runs[0].text, "rank 200: exit code 7");
}

TEST(JobTimeline, AClockThatIsSetBackDoesNotTurnRunsRound) {
  JobEvents job;
  job.starting(5000, {"n1"}, 1).up(6000, 0).exited(4000, 0, 0);
  EXPECT_EQ(text_of(timeline_of(job.events).lanes), "rank 0 on n1: 1000-1000 " + code(RunEnd::kWell) + "\n");
  EXPECT_TRUE(timeline_of({}).lanes.empty());
}

}  // namespace
}  // namespace muster::cli::job_timeline_test

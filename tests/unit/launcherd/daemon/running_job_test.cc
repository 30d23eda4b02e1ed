// Tests how the end of a job is stored. tests/daemon tests running jobs.
#include "launcherd/daemon/running_job.h"

#include <gtest/gtest.h>

#include "launcherd/daemon/watch_streams.h"
#include "tests/unit/launcherd/store/store_rig.h"

namespace muster::launcherd::running_job_test {
namespace {

using testing_store::job_id;
using testing_store::StoreRig;

constexpr const char* kJob = "aaaaaaaa";

// The end of a job whose program no rank finds, after a search of a long PATH.
model::JobEnded end_of_many_ranks() {
  model::JobEnded ended;
  ended.job_id = kJob;
  ended.exit_code = 127;
  ended.root_cause_rank = 0;
  for (int rank = 0; rank < 3'000; ++rank) {
    model::RankEnd& end = ended.ends.emplace_back();
    end.rank = rank;
    end.kind = model::EndKind::kStartFailed;
    end.exit_code = 127;
    end.detail = std::string(2'000, 'x');
  }
  return ended;
}

TEST(EndOfJob, IsStoredHoweverLongItsReportIs) {
  const testing_store::TempDir directory;
  StoreRig rig(directory / "jobs.sqlite");
  ASSERT_TRUE(rig.append({testing_store::new_job(kJob)}).ok());
  const base::Status stored = rig.record(end_of_job(
      job_id(kJob), 0, model::JobState::kFailed, std::string(5 << 20, 'x'), end_of_many_ranks(), testing_store::at(9)));
  EXPECT_TRUE(stored.ok()) << stored;
  const auto job = rig.read<StoredJob>([](StoreReader& reader) { return reader.job(job_id(kJob)); });
  EXPECT_EQ(job->state, model::JobState::kFailed);
  EXPECT_EQ(job->exit_code, 127);
  const auto secret = rig.read<std::string>([](StoreReader& reader) { return reader.environment(job_id(kJob)); });
  EXPECT_EQ(*secret, "");

  WatchStreams watches(&rig.store());
  std::vector<v1::Event> events;
  std::optional<base::Status> end;
  const Gone gone = watches.watch(job_id(kJob), 0,
                                  {.send = [&](v1::Event event) { events.push_back(std::move(event)); },
                                   .done =
                                       [&](const base::Status& status) {
                                         end = status;
                                         rig.done();
                                       },
                                   .when_written = [](const base::Loop::Task& task) { task(); }});
  ASSERT_TRUE(rig.run_until(5));  // the calls above were four
  EXPECT_TRUE(end->ok()) << *end;
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events.back().job_ended().exit_code(), 127);
}

// Needs no agent and no store. Collects what the job sends to its owner.
class StoppedJob : public ::testing::Test {
 protected:
  StoppedJob() { surroundings_.clock = &clock_; }
  RunningJobOwner owner() {
    return {.record = [this](const Batch& batch) { changes_.insert(changes_.end(), batch.begin(), batch.end()); },
            .on_ended = [] {}};
  }
  // Returns every recorded recovery.
  std::vector<Recovery> recoveries() const {
    std::vector<Recovery> all;
    for (const Change& change : changes_) {
      if (const auto* const each = std::get_if<NewRecovery>(&change)) all.push_back(*recovery_of(each->content));
    }
    return all;
  }

  const model::Placement placement_ = model::place_as_listed({{.name = "n1"}}, {0});
  base::FakeClock clock_;
  JobSurroundings surroundings_;
  std::vector<Change> changes_;
};

TEST_F(StoppedJob, TheSecondStopIsStoredToo) {
  RunningJob job(surroundings_, job_id(kJob), placement_, owner());
  for (int time = 0; time < 3; ++time) job.stop(StopCause::kTerminate, "killed");
  ASSERT_EQ(recoveries().size(), 2u);
  EXPECT_FALSE(recoveries()[0].stops_at_once);
  EXPECT_TRUE(recoveries()[1].stops_at_once);
  for (const Recovery& each : recoveries()) {
    EXPECT_EQ(each.stop, StopCause::kTerminate);
    EXPECT_EQ(each.stop_reason, "killed");
  }
}

// The stored reason of a starting job is the reason of its start, not of its stop.
TEST_F(StoppedJob, TheNextLauncherdKnowsWhyItWasStopped) {
  ResumedJob resumed{.job = {.id = job_id(kJob)}, .recovery = {}, .ranks = {}};
  resumed.job.state = model::JobState::kStarting;
  resumed.job.reason = "its hosts start it";
  resumed.recovery.placement = placement_;
  resumed.recovery.stop = StopCause::kTerminate;
  resumed.recovery.stop_reason = "killed";
  RunningJob job(surroundings_, resumed, owner());
  job.start_failed(base::ok_status());
  EXPECT_EQ(job.state(), model::JobState::kKilled);
  const auto* const end = std::get_if<NewEvent>(&changes_.at(changes_.size() - 2));
  ASSERT_TRUE(end != nullptr && end->job_step);
  EXPECT_EQ(end->job_step->reason, "killed");
}

}  // namespace
}  // namespace muster::launcherd::running_job_test

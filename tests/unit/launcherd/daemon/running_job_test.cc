// How the end of a job comes into a real store. Jobs that run are in tests/daemon.
#include "launcherd/daemon/running_job.h"

#include <gtest/gtest.h>

#include "launcherd/daemon/watch_streams.h"
#include "tests/unit/launcherd/store/store_rig.h"

namespace muster::launcherd {
namespace {

using testing_store::job_id;
using testing_store::StoreRig;

constexpr const char* kJob = "aaaaaaaa";

// As when a program is not found in a long PATH.
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
                                   .when_taken = [](const base::Loop::Task& task) { task(); }});
  ASSERT_TRUE(rig.run_until(5));  // the calls above were four
  EXPECT_TRUE(end->ok()) << *end;
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events.back().job_ended().exit_code(), 127);
}

}  // namespace
}  // namespace muster::launcherd

// Tests watchers of jobs in a real store. Their transport writes data only when the test allows it.
#include "launcherd/daemon/watch_streams.h"

#include <numeric>

#include <gtest/gtest.h>

#include "proto/stored_event.h"
#include "tests/unit/launcherd/store/store_rig.h"

namespace muster::launcherd::watch_streams_test {
namespace {

using testing_store::job_id;
using testing_store::new_job;
using testing_store::StoreRig;
using testing_store::TempDir;

constexpr const char* kJob = "aaaaaaaa";

NewEvent event(const std::string& reason) {
  return {.job = job_id(kJob),
          .time = testing_store::at(1),
          .message = proto::stored_event(model::JobStopping{reason}, testing_store::at(1))};
}

NewEvent last_event() {
  NewEvent ended = event("ended");
  ended.job_step = JobStep{.to = model::JobState::kKilled, .reason = "killed", .exit_code = 143};
  return ended;
}

// A client that watches. The transport writes its data only in take().
struct Watcher {
  std::vector<std::uint64_t> seen;
  std::optional<base::Status> end;
  base::Loop::Task on_taken;

  Replies<v1::Event> replies(StoreRig& rig) {
    return {.send = [this](const v1::Event& got) { seen.push_back(got.sequence()); },
            .done = [this, &rig](const base::Status& status) { end = status, rig.done(); },
            .when_written = [this, &rig](base::Loop::Task task) { on_taken = std::move(task), rig.done(); }};
  }
  void take() { std::exchange(on_taken, nullptr)(); }
};

std::vector<std::uint64_t> numbers(std::uint64_t from, std::uint64_t to) {
  std::vector<std::uint64_t> all(to - from + 1);
  std::iota(all.begin(), all.end(), from);
  return all;
}

class WatchStreamsTest : public ::testing::Test {
 protected:
  WatchStreamsTest() : rig_(directory_ / "jobs.sqlite"), streams_(&rig_.store()) {
    EXPECT_TRUE(rig_.append({new_job(kJob)}).ok());
  }
  void append(int count) {
    Batch batch;
    for (int i = 0; i < count; ++i) batch.push_back(event("e"));
    EXPECT_TRUE(rig_.append(std::move(batch)).ok());
  }
  // Runs the loop until the watcher has received a page or its end.
  void wait() { ASSERT_TRUE(rig_.run_until(++waits_ + appended())); }
  int appended() const { return appends_; }

  TempDir directory_;
  StoreRig rig_;
  WatchStreams streams_;
  int waits_ = 0;
  int appends_ = 0;
};

TEST_F(WatchStreamsTest, WhoDoesNotReadIsSentOnePage) {
  append(1000);
  Watcher watcher;
  appends_ = 2;
  const Gone gone = streams_.watch(job_id(kJob), 0, watcher.replies(rig_));
  wait();
  EXPECT_EQ(watcher.seen, numbers(1, 256));
  streams_.changed(job_id(kJob));  // also if the job has new events
  EXPECT_TRUE(rig_.read<StoredJob>([](StoreReader& reader) { return reader.job(job_id(kJob)); }).ok());
  ++appends_;
  EXPECT_EQ(watcher.seen.size(), 256u);
  for (int page = 0; page < 3; ++page) {
    watcher.take();
    wait();
  }
  EXPECT_EQ(watcher.seen, numbers(1, 1000));
  EXPECT_FALSE(watcher.end.has_value());
}

TEST_F(WatchStreamsTest, WhatComesLaterIsSentAndTheEndEndsIt) {
  Watcher watcher;
  append(3);
  appends_ = 2;
  const Gone gone = streams_.watch(job_id(kJob), 3, watcher.replies(rig_));
  wait();
  EXPECT_EQ(watcher.seen, numbers(3, 3));
  watcher.take();
  append(2);
  ++appends_;
  streams_.changed(job_id(kJob));
  wait();
  EXPECT_EQ(watcher.seen, numbers(3, 5));
  watcher.take();
  EXPECT_TRUE(rig_.append({last_event()}).ok());
  ++appends_;
  streams_.changed(job_id(kJob));
  wait();
  EXPECT_EQ(watcher.seen, numbers(3, 6));
  ASSERT_TRUE(watcher.end.has_value());
  EXPECT_TRUE(watcher.end->ok()) << *watcher.end;
}

TEST_F(WatchStreamsTest, WhoComesAfterTheEndGetsWhatThereIs) {
  EXPECT_TRUE(rig_.append({event("e"), last_event()}).ok());
  appends_ = 2;
  Watcher all;
  Watcher beyond;
  const Gone first = streams_.watch(job_id(kJob), 1, all.replies(rig_));
  const Gone second = streams_.watch(job_id(kJob), 1'000, beyond.replies(rig_));
  wait();
  wait();
  EXPECT_EQ(all.seen, numbers(1, 2));
  EXPECT_TRUE(beyond.seen.empty());
  EXPECT_TRUE(all.end && all.end->ok() && beyond.end && beyond.end->ok());
}

TEST_F(WatchStreamsTest, AJobThatIsNotThereIsNotFound) {
  Watcher watcher;
  appends_ = 1;
  const Gone gone = streams_.watch(job_id("bbbbbbbb"), 0, watcher.replies(rig_));
  wait();
  ASSERT_TRUE(watcher.end.has_value());
  EXPECT_EQ(watcher.end->code(), base::Code::kNotFound);
}

TEST_F(WatchStreamsTest, WhoHasGoneIsSentNothing) {
  append(10);
  Watcher watcher;
  const Gone gone = streams_.watch(job_id(kJob), 0, watcher.replies(rig_));
  gone();
  EXPECT_TRUE(rig_.read<StoredJob>([](StoreReader& reader) { return reader.job(job_id(kJob)); }).ok());
  EXPECT_TRUE(watcher.seen.empty());
  gone();  // a second call has no effect
  streams_.changed(job_id(kJob));
}

}  // namespace
}  // namespace muster::launcherd::watch_streams_test

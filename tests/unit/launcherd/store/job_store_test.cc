#include "launcherd/store/job_store.h"

#include <atomic>
#include <filesystem>
#include <future>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/launcherd/store/store_rig.h"

namespace muster::testing_store::job_store_test {
namespace {

using launcherd::JobStore;
using launcherd::StoredEvent;
using launcherd::StoredJob;
using launcherd::StoreReader;

class JobStoreTest : public ::testing::Test {
 protected:
  std::string path() const { return temp_ / "jobs.sqlite"; }

  TempDir temp_;
};

TEST_F(JobStoreTest, WhatWasAnsweredIsReadBack) {
  StoreRig rig(path());
  ASSERT_TRUE(rig.status().ok()) << rig.status();
  ASSERT_TRUE(rig.append({new_job("aaaaaaaa"), plain_event("aaaaaaaa", "one")}).ok());
  const auto job = rig.read<StoredJob>([](StoreReader& reader) { return reader.job(job_id("aaaaaaaa")); });
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->last_sequence, 1u);
  const auto none = rig.read<StoredJob>([](StoreReader& reader) { return reader.job(job_id("bbbbbbbb")); });
  EXPECT_EQ(none.status().code(), Code::kNotFound);
  EXPECT_EQ(rig.append({plain_event("bbbbbbbb", "no such job")}).code(), Code::kNotFound);
}

TEST_F(JobStoreTest, CallsComeOnTheLoopInOrderAndNeverAtOnce) {
  StoreRig rig(path());
  ASSERT_TRUE(rig.append({new_job("aaaaaaaa")}).ok());
  std::vector<int> order;
  const auto loop_thread = std::this_thread::get_id();
  for (int i = 0; i < 100; ++i) {
    rig.store().append({plain_event("aaaaaaaa", std::to_string(i))}, [&, i](base::Status status) {
      EXPECT_TRUE(status.ok()) << status;
      EXPECT_EQ(std::this_thread::get_id(), loop_thread);
      order.push_back(i);
      rig.done();
    });
  }
  EXPECT_TRUE(order.empty());
  ASSERT_TRUE(rig.run_until(101));
  ASSERT_EQ(order.size(), 100u);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  const auto events = rig.read<std::vector<StoredEvent>>(
      [](StoreReader& reader) { return reader.events(job_id("aaaaaaaa"), 0, 1000); });
  ASSERT_TRUE(events.ok());
  for (std::size_t i = 0; i < 100; ++i) EXPECT_EQ((*events)[i].message, std::to_string(i));
}

TEST_F(JobStoreTest, TheEndWritesWhatWaits) {
  base::Loop loop;
  int answered = 0;
  {
    auto store = JobStore::open(path(), loop);
    ASSERT_TRUE(store.ok()) << store.status();
    (*store)->append({new_job("aaaaaaaa")}, [&](base::Status status) { answered += status.ok() ? 1 : 100; });
    (*store)->record({plain_event("aaaaaaaa", "one")}, [&](base::Status status) {
      answered += status.ok() ? 1 : 100;
      loop.stop();
    });
  }
  EXPECT_EQ(answered, 0);
  loop.run();
  EXPECT_EQ(answered, 2);
  auto reader = StoreReader::open(path());
  ASSERT_TRUE(reader.ok());
  EXPECT_EQ(reader->job(job_id("aaaaaaaa"))->last_sequence, 1u);
}

// The read thread finishes the question in progress, so its answer is posted while the store is being destroyed.
TEST_F(JobStoreTest, DropsAnswersOfQuestionsWhenDestroyed) {
  base::Loop loop;
  auto store = JobStore::open(path(), loop);
  ASSERT_TRUE(store.ok()) << store.status();
  std::promise<void> begun;
  std::promise<void> may_end;
  (*store)->read<int>(
      [&](StoreReader&) -> base::Result<int> {
        begun.set_value();
        may_end.get_future().wait();
        return 1;
      },
      [](const base::Result<int>&) { ADD_FAILURE() << "answered after the end"; });
  begun.get_future().wait();
  may_end.set_value();
  store->reset();
  loop.post([&] { loop.stop(); });
  loop.run();
}

TEST_F(JobStoreTest, DropsRefusalsOfQuestionsWhenDestroyed) {
  base::Loop loop;
  auto store = JobStore::open(path(), loop);
  ASSERT_TRUE(store.ok()) << store.status();
  std::promise<void> may_end;
  const std::shared_future<void> end = may_end.get_future().share();
  for (std::size_t i = 0; i < launcherd::ReadThread::kMaxQueries + 2; ++i) {
    (*store)->read<int>(
        [end](StoreReader&) -> base::Result<int> {
          end.wait();
          return 1;
        },
        [](const base::Result<int>&) { ADD_FAILURE() << "answered after the end"; });
  }
  may_end.set_value();
  store->reset();
  loop.post([&] { loop.stop(); });
  loop.run();
}

TEST_F(JobStoreTest, TooMuchThatWaitsIsRefused) {
  StoreRig rig(path());
  NewJob job = new_job("aaaaaaaa");
  job.spec = std::string(launcherd::kLongestBlob, 'x');
  int refused = 0;
  const int count = static_cast<int>(launcherd::WriteThread::kMostBytes / launcherd::kLongestBlob) + 4;
  for (int i = 0; i < count; ++i) {
    job.id = base::JobId::random();
    rig.store().append({job}, [&](base::Status status) {
      if (status.code() == Code::kResourceExhausted) ++refused;
      rig.done();
    });
  }
  ASSERT_TRUE(rig.run_until(count));
  EXPECT_GE(refused, 4);
  EXPECT_LT(refused, count);
  EXPECT_TRUE(rig.append({new_job("bbbbbbbb")}).ok());  // the store still works
}

// A watcher on its own connection sees each event once and in order, and each batch whole, while others write.
// Records of past events are accepted even if many batches wait, because they must not be lost.
TEST_F(JobStoreTest, WhatHasHappenedIsTakenWhenMuchWaits) {
  StoreRig rig(path());
  NewJob job = new_job("aaaaaaaa");
  ASSERT_TRUE(rig.append({job}).ok());
  job.spec = std::string(launcherd::kLongestBlob, 'x');
  const int count = static_cast<int>(launcherd::WriteThread::kMostBytes / launcherd::kLongestBlob) + 4;
  int refused = 0;
  for (int i = 0; i < count; ++i) {
    job.id = base::JobId::random();
    rig.store().append({job}, [&](base::Status status) {
      if (status.code() == Code::kResourceExhausted) ++refused;
      rig.done();
    });
  }
  base::Status recorded = base::error(Code::kUnknown, "not yet");
  rig.store().record({plain_event("aaaaaaaa", "it has ended")}, [&](base::Status status) {
    recorded = std::move(status);
    rig.done();
  });
  ASSERT_TRUE(rig.run_until(count + 2));
  EXPECT_GE(refused, 4);
  EXPECT_TRUE(recorded.ok()) << recorded;
}

// The store empties the log by itself when a job has ended.
TEST_F(JobStoreTest, TheEndOfAJobEmptiesTheLog) {
  StoreRig rig(path());
  ASSERT_TRUE(rig.append({new_job("aaaaaaaa"), step("aaaaaaaa", JobState::kStarting)}).ok());
  ASSERT_GT(std::filesystem::file_size(path() + "-wal"), 0U);
  ASSERT_TRUE(rig.record({step("aaaaaaaa", JobState::kFailed)}).ok());
  const base::Timer poll = rig.loop().every(std::chrono::milliseconds(10), [&] {
    if (std::filesystem::file_size(path() + "-wal") == 0) rig.done();
  });
  EXPECT_TRUE(rig.run_until(3));
}

TEST_F(JobStoreTest, WatchersReadWhileItWrites) {
  StoreRig rig(path());
  ASSERT_TRUE(rig.append({new_job("aaaaaaaa"), new_job("bbbbbbbb")}).ok());
  constexpr std::uint64_t kBatches = 300;
  std::atomic<int> faults = 0;
  std::vector<std::thread> watchers;
  for (int i = 0; i < 4; ++i) {
    watchers.emplace_back([&, this] {
      auto reader = StoreReader::open(path());
      if (!reader.ok()) {
        ++faults;
        return;
      }
      std::int64_t position = 0;
      std::uint64_t seen = 0;
      while (seen < 2 * kBatches && faults == 0) {
        const auto page = reader->all_events(position, 7);
        if (!page.ok()) ++faults;
        for (std::size_t k = 0; page.ok() && k < page->size(); ++k) {
          const StoredEvent& event = (*page)[k];
          if (event.message != std::to_string(seen / 2) || event.sequence != seen / 2 + 1) ++faults;
          position = event.position;
          ++seen;
        }
        // Each batch holds two events, so the last event is never the first of a batch.
        const auto a = reader->job(job_id("aaaaaaaa"));
        const auto b = reader->job(job_id("bbbbbbbb"));
        if (!a.ok() || !b.ok() || a->last_sequence > b->last_sequence) ++faults;
      }
    });
  }
  for (std::uint64_t i = 0; i < kBatches; ++i) {
    const std::string text = std::to_string(i);
    EXPECT_TRUE(rig.append({plain_event("aaaaaaaa", text), plain_event("bbbbbbbb", text)}).ok());
  }
  for (std::thread& watcher : watchers) watcher.join();
  EXPECT_EQ(faults, 0);
}

// 1,000 submissions at once, each request twice: every request has exactly one job.
TEST_F(JobStoreTest, EveryRequestIsAcceptedExactlyOnce) {
  StoreRig rig(path());
  constexpr int kRequests = 1000;
  int accepted = 0;
  int repeated = 0;
  for (int i = 0; i < 2 * kRequests; ++i) {
    NewJob job = new_job(base::JobId::random().str(), fmt::format("request {}", i % kRequests));
    rig.store().append({job}, [&](base::Status status) {
      if (status.ok()) ++accepted;
      if (status.code() == Code::kAlreadyExists) ++repeated;
      rig.done();
    });
  }
  ASSERT_TRUE(rig.run_until(2 * kRequests));
  EXPECT_EQ(accepted, kRequests);
  EXPECT_EQ(repeated, kRequests);
  auto reader = StoreReader::open(path());
  ASSERT_TRUE(reader.ok());
  std::set<std::string> requests;
  std::int64_t after = 0;
  for (auto page = reader->open_jobs(after, 300); page.ok() && !page->empty(); page = reader->open_jobs(after, 300)) {
    for (const StoredJob& job : *page) requests.insert(job.request_id);
    after = page->back().number;
  }
  EXPECT_EQ(requests.size(), static_cast<std::size_t>(kRequests));
}

}  // namespace
}  // namespace muster::testing_store::job_store_test

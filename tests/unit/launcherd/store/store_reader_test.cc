#include "launcherd/store/store_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/launcherd/store/store_rig.h"

namespace muster::testing_store::store_reader_test {
namespace {

using launcherd::JobPage;
using launcherd::StoredEvent;
using launcherd::StoredJob;
using launcherd::StoreReader;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Which = StoreReader::Which;

class StoreReaderTest : public ::testing::Test {
 protected:
  StoreReaderTest()
      : writer_(open_writer(temp_ / "jobs.sqlite")), reader_(std::move(*StoreReader::open(temp_ / "jobs.sqlite"))) {}

  void put(const Batch& batch) { ASSERT_TRUE(commit(writer_, batch).ok()); }
  static std::vector<std::string> ids(const std::vector<StoredJob>& jobs) {
    std::vector<std::string> all;
    for (const StoredJob& job : jobs) all.push_back(job.id.str());
    return all;
  }
  static void end(Batch& batch, const std::string& id, long seconds) {
    batch.emplace_back(step(id, JobState::kStarting));
    NewEvent last = step(id, JobState::kSucceeded, "well", 0);
    last.time = at(seconds);
    batch.emplace_back(last);
  }

  TempDir temp_;
  launcherd::BatchWriter writer_;
  StoreReader reader_;
};

TEST_F(StoreReaderTest, PagesAreStableWhileJobsComeAndGo) {
  put({new_job("aaaaaaaa"), new_job("bbbbbbbb"), new_job("cccccccc"), new_job("dddddddd")});
  const auto first = reader_.jobs(Which::kAll, 2, "");
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_THAT(ids(first->jobs), ElementsAre("dddddddd", "cccccccc"));
  // A new job arrives before the first page. A job of the next page ends and is removed.
  Batch batch = {new_job("eeeeeeee")};
  end(batch, "bbbbbbbb", 5);
  batch.emplace_back(launcherd::ForgetJob{job_id("bbbbbbbb")});
  put(batch);
  const auto second = reader_.jobs(Which::kAll, 2, first->next);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_THAT(ids(second->jobs), ElementsAre("aaaaaaaa"));
  EXPECT_EQ(second->next, "");
  EXPECT_EQ(reader_.jobs(Which::kAll, 2, "nonsense").status().code(), Code::kInvalidArgument);
}

TEST_F(StoreReaderTest, AFullLastPageHasNoNext) {
  put({new_job("aaaaaaaa"), new_job("bbbbbbbb")});
  const auto page = reader_.jobs(Which::kAll, 2, "");
  EXPECT_EQ(page->jobs.size(), 2u);
  EXPECT_EQ(page->next, "");
  EXPECT_EQ(reader_.jobs(Which::kAll, -5, "")->jobs.size(), 1u);  // the limit is at least one
}

TEST_F(StoreReaderTest, OpenJobsAreThoseThatARestartMustLookAfter) {
  Batch batch = {new_job("aaaaaaaa"), new_job("bbbbbbbb"), new_job("cccccccc"), step("cccccccc", JobState::kStarting)};
  end(batch, "bbbbbbbb", 5);
  put(batch);
  const auto open = reader_.open_jobs(0, 10);
  ASSERT_TRUE(open.ok());
  EXPECT_THAT(ids(*open), ElementsAre("aaaaaaaa", "cccccccc"));  // in the order of submission
  EXPECT_THAT(ids(*reader_.open_jobs(open->front().number, 10)), ElementsAre("cccccccc"));
  EXPECT_THAT(ids(reader_.jobs(Which::kOpen, 10, "")->jobs), ElementsAre("cccccccc", "aaaaaaaa"));
}

TEST_F(StoreReaderTest, RetentionFindsWhatEndedBefore) {
  Batch batch = {new_job("aaaaaaaa"), new_job("bbbbbbbb"), new_job("cccccccc")};
  end(batch, "bbbbbbbb", 10);
  end(batch, "aaaaaaaa", 20);
  put(batch);
  EXPECT_TRUE(reader_.ended_before(at(10), 10)->empty());
  EXPECT_THAT(*reader_.ended_before(at(21), 10), ElementsAre(job_id("bbbbbbbb"), job_id("aaaaaaaa")));
  EXPECT_THAT(*reader_.ended_before(at(21), 1), ElementsAre(job_id("bbbbbbbb")));
}

TEST_F(StoreReaderTest, AUniquePrefixIsEnough) {
  put({new_job("abcdefgh"), new_job("abzzzzzz"), new_job("b2345672")});
  EXPECT_EQ(reader_.job_by_prefix("abc")->str(), "abcdefgh");
  EXPECT_EQ(reader_.job_by_prefix("b2345672")->str(), "b2345672");
  const base::Status several = reader_.job_by_prefix("ab").status();
  EXPECT_EQ(several.code(), Code::kInvalidArgument);
  EXPECT_THAT(several.message(), HasSubstr("abcdefgh and abzzzzzz"));
  for (const char* const none : {"x", "abcdefgha", "%", "a_", "ABC"}) {
    EXPECT_EQ(reader_.job_by_prefix(none).status().code(), Code::kNotFound) << none;
  }
  EXPECT_EQ(reader_.job_by_prefix("").status().code(), Code::kInvalidArgument);
}

TEST_F(StoreReaderTest, AWatcherGoesOnFromWhereItWas) {
  Batch batch = {new_job("aaaaaaaa"), new_job("bbbbbbbb")};
  for (int i = 0; i < 25; ++i) {
    batch.emplace_back(plain_event("aaaaaaaa", std::to_string(i)));
    batch.emplace_back(plain_event("bbbbbbbb", "other"));
  }
  put(batch);
  std::vector<std::string> seen;
  std::uint64_t after = 0;
  while (true) {
    const auto page = reader_.events(job_id("aaaaaaaa"), after, 10);
    ASSERT_TRUE(page.ok());
    if (page->empty()) break;
    for (const StoredEvent& event : *page) {
      EXPECT_EQ(event.sequence, ++after);
      EXPECT_EQ(event.job.str(), "aaaaaaaa");
      seen.push_back(event.message);
    }
  }
  ASSERT_EQ(seen.size(), 25u);
  for (int i = 0; i < 25; ++i) EXPECT_EQ(seen[static_cast<std::size_t>(i)], std::to_string(i));
  EXPECT_TRUE(reader_.events(job_id("aaaaaaaa"), ~std::uint64_t{0}, 10)->empty());
  EXPECT_EQ(reader_.events(job_id("cccccccc"), 0, 10).status().code(), Code::kNotFound);
}

// Pages may begin and end in the middle of a group.
TEST_F(StoreReaderTest, AWatcherGetsTheEventsOfGroupsOneByOne) {
  Batch batch = {new_job("aaaaaaaa")};
  int made = 0;
  for (const int size : {1, 7, 2, 30, 1, 3}) {
    launcherd::NewEvents group{job_id("aaaaaaaa"), at(1), {}};
    for (int i = 0; i < size; ++i) group.events.push_back({.message = std::to_string(made++), .rank_step = {}});
    batch.emplace_back(std::move(group));
    batch.emplace_back(plain_event("aaaaaaaa", std::to_string(made++)));
  }
  put(batch);
  for (const int limit : {1, 4, 10, 1000}) {
    std::uint64_t after = 0;
    while (true) {
      const auto page = reader_.events(job_id("aaaaaaaa"), after, limit);
      ASSERT_TRUE(page.ok()) << page.status();
      if (page->empty()) break;
      EXPECT_LE(page->size(), static_cast<std::size_t>(limit));
      for (const StoredEvent& event : *page) {
        EXPECT_EQ(event.message, std::to_string(after));
        EXPECT_EQ(event.sequence, ++after);
      }
    }
    EXPECT_EQ(after, static_cast<std::uint64_t>(made));
  }
  EXPECT_EQ(reader_.all_events(0, 1000)->size(), static_cast<std::size_t>(made));
}

TEST_F(StoreReaderTest, AGroupThatIsNoneIsDataLoss) {
  launcherd::NewEvents group{job_id("aaaaaaaa"), at(1), {}};
  group.events.resize(3);
  put({new_job("aaaaaaaa"), group});
  auto database = launcherd::Database::open(temp_ / "jobs.sqlite", launcherd::Database::Access::kWrite);
  ASSERT_TRUE(database.ok());
  for (const char* const change : {"SET count = 4", "SET count = 2", "SET count = 3, message = x'ffffffff'"}) {
    ASSERT_TRUE(database->run(std::string("UPDATE events ") + change).ok());
    EXPECT_EQ(reader_.events(job_id("aaaaaaaa"), 0, 10).status().code(), Code::kDataLoss) << change;
  }
}

TEST_F(StoreReaderTest, TheEventsOfAllJobsAreInOrderOfCommit) {
  put({new_job("aaaaaaaa"), new_job("bbbbbbbb"), plain_event("bbbbbbbb", "1"), plain_event("aaaaaaaa", "2")});
  put({plain_event("bbbbbbbb", "3")});
  const auto all = reader_.all_events(0, 10);
  ASSERT_TRUE(all.ok());
  ASSERT_EQ(all->size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ((*all)[i].message, std::to_string(i + 1));
  EXPECT_EQ((*all)[0].job.str(), "bbbbbbbb");
  EXPECT_EQ((*all)[2].sequence, 2u);
  EXPECT_EQ(reader_.all_events((*all)[1].position, 10)->size(), 1u);
}

TEST_F(StoreReaderTest, APageOfLongEventsIsShort) {
  Batch batch = {new_job("aaaaaaaa")};
  const std::string text(launcherd::kPageBytes / 4, 'x');
  for (int i = 0; i < 10; ++i) batch.emplace_back(plain_event("aaaaaaaa", text));
  put(batch);
  EXPECT_EQ(reader_.events(job_id("aaaaaaaa"), 0, 1000)->size(), 4u);
  EXPECT_EQ(reader_.all_events(0, 1000)->size(), 4u);
}

// Foreign bytes in the file are an error, never a crash.
TEST_F(StoreReaderTest, StatesThatAreNoneAreDataLoss) {
  put({new_job("aaaaaaaa")});
  auto database = launcherd::Database::open(temp_ / "jobs.sqlite", launcherd::Database::Access::kWrite);
  ASSERT_TRUE(database.ok());
  ASSERT_TRUE(database->run("UPDATE jobs SET state = 99").ok());
  EXPECT_EQ(reader_.job(job_id("aaaaaaaa")).status().code(), Code::kDataLoss);
  EXPECT_EQ(reader_.jobs(Which::kAll, 10, "").status().code(), Code::kDataLoss);
  ASSERT_TRUE(database->run("UPDATE jobs SET state = 1, id = 'x'").ok());
  EXPECT_EQ(reader_.jobs(Which::kAll, 10, "").status().code(), Code::kDataLoss);
}

TEST_F(StoreReaderTest, AReaderCannotWrite) {
  auto database = launcherd::Database::open(temp_ / "jobs.sqlite", launcherd::Database::Access::kRead);
  ASSERT_TRUE(database.ok());
  EXPECT_FALSE(database->run("DELETE FROM jobs").ok());
}

}  // namespace
}  // namespace muster::testing_store::store_reader_test

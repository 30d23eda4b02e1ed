// Tests pages of jobs and their ranks, from a real store.
#include "launcherd/daemon/job_view.h"

#include <set>

#include <gtest/gtest.h>

#include "tests/unit/launcherd/store/store_rig.h"

namespace muster::launcherd::job_view_test {
namespace {

using testing_store::job_id;
using testing_store::new_job;

constexpr int kJobs = 20;
constexpr std::size_t kDefaultOfGrpc = std::size_t{4} << 20;  // gRPC's limit for a received message

class JobViewTest : public ::testing::Test {
 protected:
  JobViewTest() : writer_(testing_store::open_writer(directory_ / "jobs.sqlite")) {}

  void add(const std::string& id, const std::string& word, int size) {
    v1::StoredSpec spec;
    spec.mutable_request()->mutable_spec()->add_command(word);
    spec.set_size(size);
    NewJob job = new_job(id);
    job.spec = spec.SerializeAsString();
    ASSERT_TRUE(testing_store::commit(writer_, {job}).ok());
  }
  StoreReader reader() { return std::move(*StoreReader::open(directory_ / "jobs.sqlite")); }

  testing_store::TempDir directory_;
  BatchWriter writer_;
};

TEST_F(JobViewTest, APageOfJobsWithLongCommandsIsShort) {
  for (int i = 0; i < kJobs; ++i) {
    add(std::string("aaaaaaa") + static_cast<char>('a' + i), std::string(1 << 20, 'x'), 1);
  }
  StoreReader store = reader();
  v1::ListJobsRequest request;
  request.set_page_size(1000);
  std::set<std::string> seen;
  int pages = 0;
  do {
    const auto page = read_jobs(store, request);
    ASSERT_TRUE(page.ok()) << page.status();
    EXPECT_LT(page->ByteSizeLong(), kDefaultOfGrpc);
    ASSERT_FALSE(page->jobs().empty());
    for (const v1::Job& job : page->jobs()) EXPECT_TRUE(seen.insert(job.id()).second) << job.id();
    request.set_page_token(page->next_page_token());
    ++pages;
  } while (!request.page_token().empty());
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(kJobs));
  EXPECT_EQ(pages, kJobs / 2);
}

// The event of the end has the facts about failed ranks; the ranks' own rows do not.
TEST_F(JobViewTest, AnEndedJobHasFactsAboutFailedRanks) {
  add("aaaaaaaa", "true", 2);
  v1::Event ended;
  v1::RankEnd& end = *ended.mutable_job_ended()->add_ends();
  end.set_rank(1);
  end.set_out_of_memory(true);
  end.mutable_facts()->set_peak_memory_mib(77);
  Batch batch = {testing_store::step("aaaaaaaa", model::JobState::kStarting)};
  for (int rank = 0; rank < 2; ++rank) {
    NewEvent event = testing_store::plain_event("aaaaaaaa", "e");
    event.rank_step = RankStep{.rank = rank, .to = model::RankState::kFailed, .host = "n1"};
    batch.push_back(std::move(event));
  }
  batch.push_back(testing_store::step("aaaaaaaa", model::JobState::kFailed, "", 1));
  batch.push_back(testing_store::plain_event("aaaaaaaa", ended.SerializeAsString()));
  ASSERT_TRUE(testing_store::commit(writer_, batch).ok());
  StoreReader store = reader();
  v1::GetJobRequest request;
  request.set_first_rank(1);
  const auto job = read_job(store, job_id("aaaaaaaa"), request);
  ASSERT_TRUE(job.ok()) << job.status();
  ASSERT_EQ(job->ranks_size(), 1);
  EXPECT_EQ(job->ranks(0).end().facts().peak_memory_mib(), 77);
  EXPECT_TRUE(job->ranks(0).end().out_of_memory());
  request.set_first_rank(0);
  request.set_max_ranks(1);
  EXPECT_FALSE(read_job(store, job_id("aaaaaaaa"), request)->ranks(0).end().has_facts());
}

TEST_F(JobViewTest, AFailedJobHasHints) {
  add("aaaaaaaa", "true", 2);
  v1::Event ended;
  ended.mutable_job_ended()->set_root_cause_rank(1);
  v1::RankEnd& end = *ended.mutable_job_ended()->add_ends();
  end.set_rank(1);
  end.set_host("n2");
  end.set_kind(v1::RANK_END_KIND_SIGNALLED);
  end.set_signal(9);
  ASSERT_TRUE(testing_store::commit(writer_, {testing_store::step("aaaaaaaa", model::JobState::kStarting),
                                              testing_store::step("aaaaaaaa", model::JobState::kFailed, "", 137),
                                              testing_store::plain_event("aaaaaaaa", ended.SerializeAsString())})
                  .ok());
  StoreReader store = reader();
  v1::GetJobRequest request;
  request.set_max_ranks(-1);
  const auto job = read_job(store, job_id("aaaaaaaa"), request);
  ASSERT_TRUE(job.ok()) << job.status();
  ASSERT_EQ(job->hints_size(), 2);
  EXPECT_EQ(job->hints(0), "Muster did not send this signal");
  EXPECT_EQ(job->hints(1), "often the kernel was out of memory: run dmesg on n2");
}

TEST_F(JobViewTest, AJobHasItsUserItsHoldAndItsDirectory) {
  v1::StoredSpec spec;
  spec.mutable_request()->mutable_spec()->set_working_directory("/home/ann");
  NewJob job = new_job("aaaaaaaa");
  job.spec = spec.SerializeAsString();
  job.user = "ann";
  job.held_by = "bob";
  ASSERT_TRUE(testing_store::commit(writer_, {job}).ok());
  StoreReader store = reader();
  const auto held = read_job(store, job_id("aaaaaaaa"), {});
  ASSERT_TRUE(held.ok()) << held.status();
  EXPECT_EQ(held->user(), "ann");
  EXPECT_EQ(held->working_directory(), "/home/ann");
  EXPECT_TRUE(held->held());
  EXPECT_TRUE(held->hints().empty());
  ASSERT_TRUE(
      testing_store::commit(writer_, {testing_store::step("aaaaaaaa", model::JobState::kKilled, "", 143)}).ok());
  EXPECT_FALSE(read_job(store, job_id("aaaaaaaa"), {})->held());
  EXPECT_EQ(held_reason("ann"), "held by ann");
  EXPECT_EQ(held_reason(""), "held");
}

// Stores of older launcherds hold details of any length.
TEST_F(JobViewTest, APageOfRanksWithLongDetailsIsShort) {
  constexpr int kRanks = 8'000;
  add("aaaaaaaa", "true", kRanks);
  Batch batch = {testing_store::step("aaaaaaaa", model::JobState::kStarting)};
  for (int rank = 0; rank < kRanks; ++rank) {
    NewEvent event = testing_store::plain_event("aaaaaaaa", "e");
    event.rank_step = RankStep{.rank = rank, .to = model::RankState::kFailed, .host = "n1"};
    event.rank_step->detail = std::string(2'000, 'x');
    batch.push_back(std::move(event));
  }
  ASSERT_TRUE(testing_store::commit(writer_, batch).ok());
  StoreReader store = reader();
  v1::GetJobRequest request;
  int pages = 0;
  for (int first = 0; first < kRanks; ++pages) {
    request.set_first_rank(first);
    const auto job = read_job(store, job_id("aaaaaaaa"), request);
    ASSERT_TRUE(job.ok()) << job.status();
    EXPECT_LT(job->ByteSizeLong(), kDefaultOfGrpc);
    ASSERT_FALSE(job->ranks().empty());
    for (const v1::RankStatus& rank : job->ranks()) {
      ASSERT_EQ(rank.rank(), first++);
      ASSERT_EQ(rank.state(), v1::RANK_STATE_ENDED);
    }
  }
  EXPECT_EQ(pages, 2);
}

}  // namespace
}  // namespace muster::launcherd::job_view_test

// Tests lists of jobs with filters, states and orders, from a real store.
#include "launcherd/daemon/job_catalog.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcherd/store/page_token.h"
#include "tests/unit/launcherd/store/store_rig.h"

namespace muster::launcherd::job_catalog_test {
namespace {

using model::JobState;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing_store::at;
using testing_store::job_id;
using testing_store::step;

class JobCatalogTest : public ::testing::Test {
 protected:
  JobCatalogTest() : writer_(testing_store::open_writer(directory_ / "jobs.sqlite")) {}

  void add(const std::string& id, const std::string& name, int size, int priority = 0) {
    v1::StoredSpec spec;
    spec.mutable_request()->mutable_spec()->add_command("./Train.py");
    spec.mutable_request()->mutable_spec()->add_command("--lr=" + name);
    v1::NameValue& label = *spec.mutable_request()->add_labels();
    label.set_name("team");
    label.set_value("blue");
    spec.set_size(size);
    NewJob job = testing_store::new_job(id);
    job.name = name;
    job.priority = priority;
    job.spec = spec.SerializeAsString();
    put({job});
  }
  void put(const Batch& batch) { ASSERT_TRUE(testing_store::commit(writer_, batch).ok()); }
  void run(const std::string& id) { put({step(id, JobState::kStarting), step(id, JobState::kRunning)}); }
  void end(const std::string& id, long seconds) {
    NewEvent last = step(id, JobState::kFailed, "exit code 3", 3);
    last.time = at(seconds);
    put({step(id, JobState::kStarting), last});
  }
  // Four jobs in order of submission: one ended, one waits, one runs, one waits.
  void add_four() {
    add("aaaaaaaa", "delta", 4, 1);
    add("bbbbbbbb", "alpha", 16, 9);
    add("cccccccc", "charlie", 8, 5);
    add("dddddddd", "bravo", 2, 5);
    end("aaaaaaaa", 100);
    run("cccccccc");
  }
  std::vector<std::string> ids(const v1::ListJobsRequest& request) {
    StoreReader reader = std::move(*StoreReader::open(directory_ / "jobs.sqlite"));
    const auto page = catalog_.list(reader, request, at(1000));
    EXPECT_TRUE(page.ok()) << page.status();
    std::vector<std::string> ids;
    if (!page.ok()) return ids;
    for (const v1::Job& job : page->jobs()) ids.push_back(job.id().substr(0, 1));
    next_ = page->next_page_token();
    total_ = page->total();
    return ids;
  }
  static v1::ListJobsRequest all(v1::JobOrder order = v1::JOB_ORDER_UNSPECIFIED, bool reverse = false) {
    v1::ListJobsRequest request;
    request.set_all(true);
    request.set_order(order);
    request.set_reverse(reverse);
    return request;
  }
  base::Status error(const v1::ListJobsRequest& request) {
    StoreReader reader = std::move(*StoreReader::open(directory_ / "jobs.sqlite"));
    return catalog_.list(reader, request, at(1000)).status();
  }

  testing_store::TempDir directory_;
  BatchWriter writer_;
  JobCatalog catalog_;
  std::string next_;
  std::int64_t total_ = 0;
};

TEST_F(JobCatalogTest, SortsInEachOrder) {
  add_four();
  EXPECT_THAT(ids(all()), ElementsAre("d", "c", "b", "a"));
  EXPECT_THAT(ids(all(v1::JOB_ORDER_UNSPECIFIED, true)), ElementsAre("a", "b", "c", "d"));
  EXPECT_THAT(ids(all(v1::JOB_ORDER_STATE)), ElementsAre("c", "d", "b", "a"));
  EXPECT_THAT(ids(all(v1::JOB_ORDER_STATE, true)), ElementsAre("a", "d", "b", "c"));
  EXPECT_THAT(ids(all(v1::JOB_ORDER_NAME)), ElementsAre("b", "d", "c", "a"));
  EXPECT_THAT(ids(all(v1::JOB_ORDER_SIZE)), ElementsAre("b", "c", "a", "d"));
  EXPECT_THAT(ids(all(v1::JOB_ORDER_PRIORITY)), ElementsAre("b", "d", "c", "a"));
  EXPECT_THAT(ids(all(v1::JOB_ORDER_TIME)), ElementsAre("c", "a", "d", "b"));
  EXPECT_EQ(total_, 4);
  v1::ListJobsRequest open = all(v1::JOB_ORDER_SIZE);
  open.set_all(false);
  EXPECT_THAT(ids(open), ElementsAre("b", "c", "d"));
  EXPECT_EQ(total_, 3);
}

TEST_F(JobCatalogTest, FindsJobsByAllWordsOfTheFilter) {
  add_four();
  const auto found = [&](const std::string& filter) {
    v1::ListJobsRequest request = all();
    request.set_filter(filter);
    return ids(request);
  };
  EXPECT_THAT(found("alpha"), ElementsAre("b"));
  EXPECT_THAT(found("TRAIN.py  bravo"), ElementsAre("d"));
  EXPECT_THAT(found("bravo alpha"), IsEmpty());
  EXPECT_EQ(total_, 0);
  EXPECT_THAT(found("queued"), ElementsAre("d", "b"));
  EXPECT_THAT(found("team=blue"), ElementsAre("d", "c", "b", "a"));
  EXPECT_THAT(found("aaaaaaaa"), ElementsAre("a"));
  EXPECT_THAT(found(" "), ElementsAre("d", "c", "b", "a"));
}

TEST_F(JobCatalogTest, FindsJobsByTheHostsOfTheirRanks) {
  add_four();
  v1::ListJobsRequest request = all();
  request.set_filter("n77");
  EXPECT_THAT(ids(request), IsEmpty());
  NewEvent up = testing_store::plain_event("cccccccc", "rank up");
  up.rank_step = RankStep{.rank = 0, .to = model::RankState::kRunning, .host = "n77", .pid = 5};
  put({up});
  EXPECT_THAT(ids(request), ElementsAre("c"));
}

TEST_F(JobCatalogTest, KeepsOnlyTheWantedStates) {
  add_four();
  v1::ListJobsRequest request = all();
  request.add_states(v1::JOB_STATE_FAILED);
  request.add_states(v1::JOB_STATE_RUNNING);
  EXPECT_THAT(ids(request), ElementsAre("c", "a"));
  request.set_all(false);
  EXPECT_THAT(ids(request), ElementsAre("c"));
}

TEST_F(JobCatalogTest, PagesHaveEveryJobOnce) {
  add_four();
  for (const v1::JobOrder order : {v1::JOB_ORDER_UNSPECIFIED, v1::JOB_ORDER_STATE, v1::JOB_ORDER_SIZE}) {
    v1::ListJobsRequest request = all(order);
    request.set_filter("team");
    request.set_page_size(3);
    std::vector<std::string> first = ids(request);
    ASSERT_EQ(first.size(), 3U);
    EXPECT_EQ(total_, 4);
    request.set_page_token(next_);
    const std::vector<std::string> second = ids(request);
    first.insert(first.end(), second.begin(), second.end());
    EXPECT_EQ(std::set(first.begin(), first.end()).size(), 4U);
    EXPECT_EQ(next_, "");
  }
}

TEST_F(JobCatalogTest, RefusesWhatItDoesNotKnow) {
  v1::ListJobsRequest request = all(v1::JOB_ORDER_STATE);
  request.set_page_token(page_token(3));
  EXPECT_EQ(error(request).code(), base::Code::kInvalidArgument);
  request = all(static_cast<v1::JobOrder>(77));
  EXPECT_EQ(error(request).code(), base::Code::kInvalidArgument);
  request = all();
  request.set_filter(std::string(JobCatalog::kLongestFilter + 1, 'x'));
  EXPECT_EQ(error(request).code(), base::Code::kInvalidArgument);
  request = all(v1::JOB_ORDER_NAME);
  request.set_page_size(-1);
  EXPECT_EQ(error(request).code(), base::Code::kInvalidArgument);
}

TEST_F(JobCatalogTest, ForgetsJobsThatAreForgotten) {
  add_four();
  v1::ListJobsRequest request = all();
  request.set_filter("delta");
  EXPECT_THAT(ids(request), ElementsAre("a"));
  put({ForgetJob{.job = job_id("aaaaaaaa")}});
  EXPECT_THAT(ids(request), IsEmpty());
}

}  // namespace
}  // namespace muster::launcherd::job_catalog_test

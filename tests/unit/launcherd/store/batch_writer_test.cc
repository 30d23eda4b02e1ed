#include "launcherd/store/batch_writer.h"

#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcherd/store/store_reader.h"
#include "tests/unit/launcherd/store/store_rig.h"

namespace muster::testing_store::batch_writer_test {
namespace {

using launcherd::ForgetHost;
using launcherd::ForgetJob;
using launcherd::NewAfter;
using launcherd::NewEvents;
using launcherd::NewHold;
using launcherd::NewReason;
using launcherd::NewRecovery;
using launcherd::NewTerms;
using launcherd::RankStep;
using launcherd::StoredHost;
using launcherd::StoreReader;
using model::AfterEnd;
using model::JobDependency;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class BatchWriterTest : public ::testing::Test {
 protected:
  BatchWriterTest() : writer_(open_writer(path())), reader_(std::move(*StoreReader::open(path()))) {}

  std::string path() const { return temp_ / "jobs.sqlite"; }
  Code put(const Batch& batch) { return commit(writer_, batch).code(); }
  JobState state(const std::string& id) { return reader_.job(job_id(id))->state; }

  // Brings a job to the state `to` by the shortest way.
  void bring(const std::string& id, JobState to) {
    Batch batch = {new_job(id)};
    if (to != JobState::kQueued) batch.emplace_back(step(id, JobState::kStarting));
    if (to != JobState::kQueued && to != JobState::kStarting) batch.emplace_back(step(id, JobState::kRunning));
    if (to == JobState::kKilled || to == JobState::kStopping) batch.emplace_back(step(id, JobState::kStopping));
    if (model::is_final(to)) batch.emplace_back(step(id, to));
    ASSERT_EQ(put(batch), Code::kOk);
    ASSERT_EQ(state(id), to);
  }

  TempDir temp_;
  launcherd::BatchWriter writer_;
  StoreReader reader_;
};

TEST_F(BatchWriterTest, ABatchIsThereAsAWholeOrNotAtAll) {
  ASSERT_EQ(put({new_job("aaaaaaaa"), plain_event("aaaaaaaa", "one")}), Code::kOk);
  // The third change is invalid, so the first two are not stored either.
  EXPECT_EQ(put({new_job("bbbbbbbb"), plain_event("aaaaaaaa", "two"), plain_event("cccccccc", "no such job")}),
            Code::kNotFound);
  EXPECT_EQ(reader_.job(job_id("bbbbbbbb")).status().code(), Code::kNotFound);
  const auto events = reader_.events(job_id("aaaaaaaa"), 0, 10);
  ASSERT_TRUE(events.ok());
  ASSERT_EQ(events->size(), 1u);
  // The next event gets the number that the lost event would have had.
  ASSERT_EQ(put({plain_event("aaaaaaaa", "three")}), Code::kOk);
  EXPECT_EQ(reader_.events(job_id("aaaaaaaa"), 1, 10)->at(0).sequence, 2u);
}

TEST_F(BatchWriterTest, AJobWaitsForOthersUntilTheyAreTakenAway) {
  NewJob job = new_job("bbbbbbbb");
  job.after = {{job_id("zzzzzzzz"), AfterEnd::kAny}, {job_id("aaaaaaaa"), AfterEnd::kOk}};
  ASSERT_EQ(put({new_job("aaaaaaaa"), job}), Code::kOk);
  EXPECT_THAT(*reader_.after(job_id("bbbbbbbb")), ElementsAre(JobDependency{job_id("aaaaaaaa"), AfterEnd::kOk},
                                                              JobDependency{job_id("zzzzzzzz"), AfterEnd::kAny}));
  EXPECT_THAT(*reader_.after(job_id("aaaaaaaa")), IsEmpty());
  ASSERT_EQ(put({NewAfter{job_id("bbbbbbbb"), {{job_id("cccccccc"), AfterEnd::kOk}}}}), Code::kOk);
  EXPECT_THAT(*reader_.after(job_id("bbbbbbbb")), ElementsAre(JobDependency{job_id("cccccccc"), AfterEnd::kOk}));
  ASSERT_EQ(put({step("bbbbbbbb", JobState::kStarting)}), Code::kOk);
  EXPECT_EQ(put({NewAfter{job_id("bbbbbbbb"), {}}}), Code::kFailedPrecondition);
  EXPECT_EQ(reader_.after(job_id("zzzzzzzz")).status().code(), Code::kNotFound);
}

TEST_F(BatchWriterTest, TheTermsOfAnOpenJobCanChange) {
  bring("aaaaaaaa", JobState::kRunning);
  ASSERT_EQ(put({NewTerms{.job = job_id("aaaaaaaa"), .priority = -7}}), Code::kOk);
  EXPECT_EQ(reader_.job(job_id("aaaaaaaa"))->priority, -7);
  EXPECT_EQ(*reader_.spec(job_id("aaaaaaaa")), "spec of aaaaaaaa");
  ASSERT_EQ(put({NewTerms{.job = job_id("aaaaaaaa"), .spec = "other"}}), Code::kOk);
  EXPECT_EQ(*reader_.spec(job_id("aaaaaaaa")), "other");
  EXPECT_EQ(reader_.job(job_id("aaaaaaaa"))->priority, -7);
  bring("bbbbbbbb", JobState::kFailed);
  EXPECT_EQ(put({NewTerms{.job = job_id("bbbbbbbb"), .priority = 1}}), Code::kFailedPrecondition);
}

TEST_F(BatchWriterTest, ACommandMustRunUntilItHasRun) {
  NewJob first = new_job("aaaaaaaa");
  NewJob second = new_job("bbbbbbbb");
  first.notifies = second.notifies = true;
  ASSERT_EQ(put({first, second, new_job("cccccccc"), step("cccccccc", JobState::kFailed)}), Code::kOk);
  EXPECT_THAT(*reader_.to_notify(0, 10), IsEmpty()) << "they have not ended";
  ASSERT_EQ(put({step("aaaaaaaa", JobState::kFailed), step("bbbbbbbb", JobState::kKilled)}), Code::kOk);
  const auto all = reader_.to_notify(0, 10);
  ASSERT_EQ(all->size(), 2u);
  EXPECT_EQ(all->at(0).id, job_id("aaaaaaaa"));
  EXPECT_EQ(reader_.to_notify(all->at(0).number, 10)->size(), 1u);
  ASSERT_EQ(put({launcherd::NotifyDone{job_id("aaaaaaaa")}}), Code::kOk);
  EXPECT_EQ(reader_.to_notify(0, 10)->size(), 1u);
  ASSERT_EQ(put({ForgetJob{job_id("bbbbbbbb")}}), Code::kOk);
  EXPECT_THAT(*reader_.to_notify(0, 10), IsEmpty());
}

NewJob element_of(const std::string& array, int index, const std::string& id) {
  NewJob element = new_job(id);
  element.element = launcherd::ArrayPlace{job_id(array), index};
  return element;
}

TEST_F(BatchWriterTest, AnElementIsStoredOnceAndOnNoList) {
  ASSERT_EQ(put({new_job("aaaaaaaa"), element_of("aaaaaaaa", 7, "bbbbbbbb"), element_of("aaaaaaaa", 3, "cccccccc"),
                 step("cccccccc", JobState::kFailed, "because", 4)}),
            Code::kOk);
  EXPECT_EQ(put({element_of("aaaaaaaa", 7, "dddddddd")}), Code::kAlreadyExists) << "no element runs twice";
  EXPECT_EQ(put({element_of("zzzzzzzz", 7, "dddddddd")}), Code::kNotFound);
  const auto elements = reader_.elements(job_id("aaaaaaaa"), 0, 10);
  ASSERT_EQ(elements->size(), 2u);
  EXPECT_EQ(elements->at(0).index, 3);
  EXPECT_EQ(elements->at(0).state, JobState::kFailed);
  EXPECT_EQ(elements->at(0).exit_code, 4);
  EXPECT_EQ(elements->at(1).id, job_id("bbbbbbbb"));
  EXPECT_EQ(reader_.elements(job_id("aaaaaaaa"), 4, 10)->size(), 1u);
  EXPECT_EQ(*reader_.element(job_id("aaaaaaaa"), 7), job_id("bbbbbbbb"));
  EXPECT_EQ(reader_.element(job_id("aaaaaaaa"), 8).status().code(), Code::kNotFound);
  EXPECT_THAT(*reader_.element_counts(job_id("aaaaaaaa")),
              ElementsAre(std::pair(JobState::kQueued, 1), std::pair(JobState::kFailed, 1)));
  EXPECT_EQ(reader_.job(job_id("bbbbbbbb"))->element->array, job_id("aaaaaaaa"));
  EXPECT_EQ(reader_.job(job_id("bbbbbbbb"))->element->index, 7);
  EXPECT_FALSE(reader_.job(job_id("aaaaaaaa"))->element);
  for (const auto which : {StoreReader::Which::kAll, StoreReader::Which::kOpen}) {
    EXPECT_EQ(reader_.jobs(which, 10, "")->jobs.size(), 1u);
    EXPECT_EQ(*reader_.count(which), 1);
    EXPECT_EQ(reader_.job_keys(which)->size(), 1u);
  }
  EXPECT_EQ(reader_.open_jobs(0, 10)->size(), 2u) << "a restart needs the elements";
  EXPECT_EQ(reader_.job_by_prefix("bb").status().code(), Code::kNotFound);
  ASSERT_EQ(put({step("aaaaaaaa", JobState::kFailed), ForgetJob{job_id("aaaaaaaa")}}), Code::kOk);
  EXPECT_EQ(reader_.job(job_id("bbbbbbbb")).status().code(), Code::kNotFound);
}

TEST_F(BatchWriterTest, AWrongBatchLeavesTheOthersOfItsTransactionAlone) {
  const Batch first = {new_job("aaaaaaaa")};
  const Batch wrong = {plain_event("cccccccc", "no such job")};
  const Batch last = {new_job("bbbbbbbb")};
  const std::vector<const Batch*> batches = {&first, &wrong, &last};
  const std::vector<base::Status> results = writer_.commit(batches);
  ASSERT_EQ(results.size(), 3u);
  EXPECT_TRUE(results[0].ok());
  EXPECT_EQ(results[1].code(), Code::kNotFound);
  EXPECT_TRUE(results[2].ok());
  EXPECT_EQ(reader_.jobs(StoreReader::Which::kAll, 10, "")->jobs.size(), 2u);
}

TEST_F(BatchWriterTest, ARequestMakesOneJob) {
  ASSERT_EQ(put({new_job("aaaaaaaa", "request 1")}), Code::kOk);
  const Batch again = {new_job("bbbbbbbb", "request 1")};
  const base::Status status = commit(writer_, again);
  EXPECT_EQ(status.code(), Code::kAlreadyExists);
  EXPECT_THAT(status.message(), HasSubstr("aaaaaaaa"));
  EXPECT_EQ(reader_.job_of_request("request 1")->str(), "aaaaaaaa");
  EXPECT_EQ(put({new_job("aaaaaaaa", "request 2")}), Code::kAlreadyExists);  // an id is unique, too
  EXPECT_EQ(put({new_job("cccccccc"), new_job("dddddddd")}), Code::kOk);     // jobs without a request id are no repeats
}

// The table of model/job_state.h decides for every pair of states.
TEST_F(BatchWriterTest, OnlyStepsOfTheTableAreTaken) {
  for (const JobState from : model::all_job_states()) {
    for (const JobState to : model::all_job_states()) {
      const std::string id = base::JobId::random().str();
      bring(id, from);
      const Code code = put({step(id, to)});
      EXPECT_EQ(code, model::can_follow(from, to) ? Code::kOk : Code::kFailedPrecondition)
          << model::name_of(from) << " to " << model::name_of(to);
      EXPECT_EQ(state(id), code == Code::kOk ? to : from);
    }
  }
}

TEST_F(BatchWriterTest, TheStateIsWhatTheEventsMadeOfIt) {
  ASSERT_EQ(put({new_job("aaaaaaaa"), step("aaaaaaaa", JobState::kStarting), step("aaaaaaaa", JobState::kRunning),
                 plain_event("aaaaaaaa", "between"), step("aaaaaaaa", JobState::kFailed, "rank 3 failed", 3)}),
            Code::kOk);
  const auto job = reader_.job(job_id("aaaaaaaa"));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->state, JobState::kFailed);
  EXPECT_EQ(job->reason, "rank 3 failed");
  EXPECT_EQ(job->exit_code, 3);
  EXPECT_EQ(job->name, "name of aaaaaaaa");
  EXPECT_EQ(job->priority, 3);
  EXPECT_EQ(job->submitted, at(0));
  EXPECT_EQ(job->started, at(2));
  EXPECT_EQ(job->ended, at(2));
  EXPECT_EQ(job->last_sequence, 4u);
  const auto events = reader_.events(job_id("aaaaaaaa"), 0, 10);
  ASSERT_TRUE(events.ok());
  std::optional<JobState> derived;
  for (std::size_t i = 0; i < events->size(); ++i) {
    EXPECT_EQ((*events)[i].sequence, i + 1);
    if ((*events)[i].job_state) derived = (*events)[i].job_state;
  }
  EXPECT_EQ(derived, job->state);
}

TEST_F(BatchWriterTest, RanksGoTheirWayOncePerAttempt) {
  const auto rank_event = [](int attempt, int rank, RankState to) {
    NewEvent event = plain_event("aaaaaaaa", "rank");
    event.rank_step = RankStep{.attempt = attempt, .rank = rank, .to = to, .host = "n1", .pid = 42, .signal = 9};
    return event;
  };
  ASSERT_EQ(put({new_job("aaaaaaaa"), rank_event(0, 0, RankState::kRunning), rank_event(0, 1, RankState::kRunning)}),
            Code::kOk);
  EXPECT_EQ(put({rank_event(0, 2, RankState::kSucceeded)}), Code::kFailedPrecondition);  // the rank never ran
  ASSERT_EQ(put({rank_event(0, 1, RankState::kFailed)}), Code::kOk);
  EXPECT_EQ(put({rank_event(0, 1, RankState::kStopped)}), Code::kFailedPrecondition);  // the rank has ended
  ASSERT_EQ(put({rank_event(1, 1, RankState::kRunning)}), Code::kOk);  // the next attempt has its own ranks
  const auto first = reader_.ranks(job_id("aaaaaaaa"), 0, 0, 10);
  ASSERT_TRUE(first.ok());
  ASSERT_EQ(first->size(), 2u);
  EXPECT_EQ((*first)[0].state, RankState::kRunning);
  EXPECT_EQ((*first)[1].state, RankState::kFailed);
  EXPECT_EQ((*first)[1].host, "n1");
  EXPECT_EQ((*first)[1].pid, 42);
  EXPECT_EQ((*first)[1].signal, 9);
  EXPECT_EQ(reader_.ranks(job_id("aaaaaaaa"), 0, 1, 10)->size(), 1u);
  EXPECT_EQ(reader_.ranks(job_id("aaaaaaaa"), 1, 0, 10)->size(), 1u);
}

NewEvents::Event rank_step(int rank, RankState to) {
  return {.message = fmt::format("rank {} {}", rank, model::name_of(to)),
          .rank_step = RankStep{.rank = rank, .to = to, .host = "n1", .pid = 100 + rank}};
}

TEST_F(BatchWriterTest, AGroupOfEventsMovesItsRanks) {
  NewEvents starts{job_id("aaaaaaaa"), at(3), {}};
  NewEvents ends{job_id("aaaaaaaa"), at(4), {}};
  for (int rank = 0; rank < 8; ++rank) {
    starts.events.push_back(rank_step(rank, RankState::kRunning));
    if (rank != 5) ends.events.push_back(rank_step(rank, RankState::kSucceeded));
  }
  starts.events.push_back({.message = "no step", .rank_step = {}});
  ASSERT_EQ(put({new_job("aaaaaaaa"), plain_event("aaaaaaaa", "before"), starts, ends}), Code::kOk);
  EXPECT_EQ(reader_.job(job_id("aaaaaaaa"))->last_sequence, 17u);
  const auto events = reader_.events(job_id("aaaaaaaa"), 0, 100);
  ASSERT_TRUE(events.ok()) << events.status();
  ASSERT_EQ(events->size(), 17u);
  for (std::size_t i = 0; i < events->size(); ++i) EXPECT_EQ((*events)[i].sequence, i + 1);
  EXPECT_EQ((*events)[1].message, "rank 0 RUNNING");
  EXPECT_EQ((*events)[9].message, "no step");
  EXPECT_EQ((*events)[16].message, "rank 7 SUCCEEDED");
  EXPECT_EQ((*events)[16].time, at(4));
  const auto ranks = reader_.ranks(job_id("aaaaaaaa"), 0, 0, 10);
  ASSERT_EQ(ranks->size(), 8u);
  for (const auto& rank : *ranks) {
    EXPECT_EQ(rank.state, rank.rank == 5 ? RankState::kRunning : RankState::kSucceeded);
    EXPECT_EQ(rank.pid, 100 + rank.rank);
    EXPECT_EQ(rank.host, "n1");
  }
}

TEST_F(BatchWriterTest, AGroupIsThereAsAWholeOrNotAtAll) {
  ASSERT_EQ(put({new_job("aaaaaaaa")}), Code::kOk);
  const NewEvents wrong{
      job_id("aaaaaaaa"), at(3), {rank_step(0, RankState::kRunning), rank_step(1, RankState::kSucceeded)}};
  EXPECT_EQ(put({wrong}), Code::kFailedPrecondition);  // rank 1 never ran
  EXPECT_TRUE(reader_.events(job_id("aaaaaaaa"), 0, 10)->empty());
  EXPECT_TRUE(reader_.ranks(job_id("aaaaaaaa"), 0, 0, 10)->empty());
  NewEvents many{job_id("aaaaaaaa"), at(3), {}};
  EXPECT_EQ(put({many}), Code::kInvalidArgument);
  many.events.resize(launcherd::kMostGrouped + 1);
  EXPECT_EQ(put({many}), Code::kInvalidArgument);
  many.events.resize(launcherd::kMostGrouped);
  EXPECT_EQ(put({many}), Code::kOk);
  EXPECT_EQ(reader_.job(job_id("aaaaaaaa"))->last_sequence, launcherd::kMostGrouped);
}

TEST_F(BatchWriterTest, AQueuedJobWaitsForAReason) {
  ASSERT_EQ(put({new_job("aaaaaaaa"), NewReason{job_id("aaaaaaaa"), "needs 16 slots, 12 are free on n1..n3"}}),
            Code::kOk);
  EXPECT_EQ(reader_.job(job_id("aaaaaaaa"))->reason, "needs 16 slots, 12 are free on n1..n3");
  ASSERT_EQ(put({step("aaaaaaaa", JobState::kStarting)}), Code::kOk);
  EXPECT_EQ(put({NewReason{job_id("aaaaaaaa"), "late"}}), Code::kFailedPrecondition);
}

TEST_F(BatchWriterTest, OnlyAQueuedJobCanBeHeld) {
  NewJob job = new_job("aaaaaaaa");
  job.user = "ann";
  job.held_by = "";
  ASSERT_EQ(put({job, new_job("bbbbbbbb")}), Code::kOk);
  EXPECT_EQ(reader_.job(job_id("aaaaaaaa"))->user, "ann");
  EXPECT_EQ(reader_.job(job_id("aaaaaaaa"))->held_by, "") << "held by a caller without a name";
  EXPECT_FALSE(reader_.job(job_id("bbbbbbbb"))->held_by.has_value());
  ASSERT_EQ(put({step("bbbbbbbb", JobState::kQueued, "held by bob"), NewHold{job_id("bbbbbbbb"), "bob"}}), Code::kOk);
  EXPECT_EQ(reader_.job(job_id("bbbbbbbb"))->held_by, "bob");
  EXPECT_EQ(reader_.job(job_id("bbbbbbbb"))->reason, "held by bob");
  ASSERT_EQ(put({NewHold{job_id("bbbbbbbb")}}), Code::kOk);
  EXPECT_FALSE(reader_.job(job_id("bbbbbbbb"))->held_by.has_value());
  EXPECT_EQ(put({NewHold{job_id("zzzzzzzz"), "bob"}}), Code::kNotFound);
  ASSERT_EQ(put({step("bbbbbbbb", JobState::kStarting)}), Code::kOk);
  EXPECT_EQ(put({NewHold{job_id("bbbbbbbb"), "bob"}}), Code::kFailedPrecondition);
  EXPECT_FALSE(reader_.job(job_id("bbbbbbbb"))->held_by.has_value());
}

TEST_F(BatchWriterTest, SecretsAreThereUntilTheJobEnds) {
  bring("aaaaaaaa", JobState::kRunning);
  ASSERT_EQ(put({NewRecovery{job_id("aaaaaaaa"), "agents 1"}, NewRecovery{job_id("aaaaaaaa"), "agents 2"}}), Code::kOk);
  EXPECT_EQ(*reader_.environment(job_id("aaaaaaaa")), "SECRET of aaaaaaaa");
  EXPECT_EQ(*reader_.recovery(job_id("aaaaaaaa")), "agents 2");
  ASSERT_EQ(put({step("aaaaaaaa", JobState::kSucceeded)}), Code::kOk);
  EXPECT_EQ(*reader_.environment(job_id("aaaaaaaa")), "");
  EXPECT_EQ(*reader_.recovery(job_id("aaaaaaaa")), "");
  EXPECT_EQ(*reader_.spec(job_id("aaaaaaaa")), "spec of aaaaaaaa");
  EXPECT_EQ(put({NewRecovery{job_id("aaaaaaaa"), "late"}}), Code::kFailedPrecondition);
}

TEST_F(BatchWriterTest, OnlyWhatHasEndedIsForgotten) {
  bring("aaaaaaaa", JobState::kRunning);
  EXPECT_EQ(put({ForgetJob{job_id("aaaaaaaa")}}), Code::kFailedPrecondition);
  ASSERT_EQ(put({step("aaaaaaaa", JobState::kSucceeded)}), Code::kOk);
  const std::int64_t number = reader_.job(job_id("aaaaaaaa"))->number;
  ASSERT_EQ(put({ForgetJob{job_id("aaaaaaaa")}}), Code::kOk);
  EXPECT_EQ(reader_.job(job_id("aaaaaaaa")).status().code(), Code::kNotFound);
  EXPECT_EQ(put({ForgetJob{job_id("aaaaaaaa")}}), Code::kNotFound);
  EXPECT_TRUE(reader_.all_events(0, 10)->empty());
  ASSERT_EQ(put({new_job("bbbbbbbb")}), Code::kOk);
  EXPECT_GT(reader_.job(job_id("bbbbbbbb"))->number, number);  // a page token never means another job
}

TEST_F(BatchWriterTest, HostsAreKept) {
  ASSERT_EQ(
      put({StoredHost{.name = "n2", .slots = 4, .drained = true, .reason = "fan", .changed = at(5)},
           StoredHost{.name = "n1", .slots = 8, .reason = ""}, StoredHost{.name = "n1", .slots = 16, .reason = ""}}),
      Code::kOk);
  const auto hosts = reader_.hosts();
  ASSERT_TRUE(hosts.ok());
  ASSERT_EQ(hosts->size(), 2u);
  EXPECT_EQ((*hosts)[0].name, "n1");
  EXPECT_EQ((*hosts)[0].slots, 16);
  EXPECT_FALSE((*hosts)[0].drained);
  EXPECT_TRUE((*hosts)[1].drained);
  EXPECT_EQ((*hosts)[1].reason, "fan");
  EXPECT_EQ((*hosts)[1].changed, at(5));
  EXPECT_EQ(put({ForgetHost{"n1"}}), Code::kOk);
  EXPECT_EQ(put({ForgetHost{"n1"}}), Code::kNotFound);
}

TEST_F(BatchWriterTest, ValuesAreBoundedAndAnyBytesComeBack) {
  const std::string odd("a\0'\"\xff\n;--", 9);
  NewJob job = new_job("aaaaaaaa", odd);
  job.name = odd;
  job.spec = odd;
  ASSERT_EQ(put({job, plain_event("aaaaaaaa", odd)}), Code::kOk);
  EXPECT_EQ(reader_.job(job_id("aaaaaaaa"))->name, odd);
  EXPECT_EQ(*reader_.spec(job_id("aaaaaaaa")), odd);
  EXPECT_EQ(reader_.events(job_id("aaaaaaaa"), 0, 1)->at(0).message, odd);
  EXPECT_EQ(reader_.job_of_request(odd)->str(), "aaaaaaaa");
  const std::string long_text(launcherd::kLongestBlob + 1, 'x');
  EXPECT_EQ(put({plain_event("aaaaaaaa", long_text)}), Code::kInvalidArgument);
  job = new_job("bbbbbbbb");
  job.environment = long_text;
  EXPECT_EQ(put({job}), Code::kInvalidArgument);
  EXPECT_EQ(put({NewRecovery{job_id("aaaaaaaa"), long_text}}), Code::kInvalidArgument);
  EXPECT_EQ(put({plain_event("aaaaaaaa", std::string(launcherd::kLongestBlob, 'x'))}), Code::kOk);
}

std::string content_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream all;
  all << in.rdbuf();
  return all.str();
}

// Frames of the write-ahead log hold the secrets until the log is emptied, also while launcherd runs.
TEST(StoreSecrets, EmptyingTheLogRemovesThemWhileTheStoreIsOpen) {
  const TempDir temp;
  const std::string path = temp / "jobs.sqlite";
  const std::string secret = "SECRET of aaaaaaaa";
  launcherd::BatchWriter writer = open_writer(path);
  ASSERT_TRUE(commit(writer, {new_job("aaaaaaaa", "request"), step("aaaaaaaa", JobState::kStarting)}).ok());
  EXPECT_FALSE(writer.has_secrets_in_log());
  ASSERT_TRUE(commit(writer, {step("aaaaaaaa", JobState::kFailed)}).ok());
  ASSERT_NE(content_of(path + "-wal").find(secret), std::string::npos);
  ASSERT_TRUE(writer.has_secrets_in_log());
  {
    auto database = launcherd::Database::open(path, launcherd::Database::Access::kRead);
    ASSERT_TRUE(database.ok());
    ASSERT_TRUE(database->run("BEGIN; SELECT count(*) FROM jobs").ok());
    EXPECT_TRUE(writer.wipe_log().ok());
    EXPECT_TRUE(writer.has_secrets_in_log()) << "a reader needs the log";
  }
  EXPECT_TRUE(writer.wipe_log().ok());
  EXPECT_FALSE(writer.has_secrets_in_log());
  EXPECT_EQ(content_of(path + "-wal").find(secret), std::string::npos);
  EXPECT_EQ(content_of(path).find(secret), std::string::npos);
}

// The file does not hold them either: secure_delete overwrites them at a job's end, and closing writes the log back.
TEST(StoreSecrets, NoViewHoldsThemAndTheFileForgetsThem) {
  const TempDir temp;
  const std::string path = temp / "jobs.sqlite";
  const std::string secret = "SECRET of aaaaaaaa";
  {
    launcherd::BatchWriter writer = open_writer(path);
    ASSERT_TRUE(commit(writer, {new_job("aaaaaaaa", "request"), step("aaaaaaaa", JobState::kStarting)}).ok());
    auto reader = StoreReader::open(path);
    ASSERT_TRUE(reader.ok());
    EXPECT_EQ(*reader->environment(job_id("aaaaaaaa")), secret);  // only the launch reads it
  }
  auto database = launcherd::Database::open(path, launcherd::Database::Access::kRead);
  ASSERT_TRUE(database.ok());
  // Checks every text and blob of all tables but `environments`.
  for (const char* const columns :
       {"jobs: id || coalesce(request_id, '') || name || reason", "specs: content", "recoveries: content",
        "ranks: host || detail", "hosts: name || reason", "events: message", "sqlite_master: coalesce(sql, '')"}) {
    const std::string text = columns;
    const std::size_t colon = text.find(':');
    const auto count =
        database->value_of(fmt::format("SELECT count(*) FROM {} WHERE instr(CAST({} AS BLOB), CAST('{}' AS BLOB))",
                                       text.substr(0, colon), text.substr(colon + 2), "SECRET"));
    ASSERT_TRUE(count.ok()) << count.status();
    EXPECT_EQ(*count, "0") << columns;
  }
  EXPECT_EQ(*database->value_of("SELECT count(*) FROM environments WHERE instr(content, CAST('SECRET' AS BLOB))"), "1");
  database = base::error(Code::kCancelled, "closed");
  ASSERT_NE(content_of(path).find(secret), std::string::npos);  // proves that the search below can find it
  {
    launcherd::BatchWriter writer = open_writer(path);
    ASSERT_TRUE(commit(writer, {step("aaaaaaaa", JobState::kFailed)}).ok());
  }
  EXPECT_EQ(content_of(path).find(secret), std::string::npos);
  EXPECT_EQ(content_of(path + "-wal").find(secret), std::string::npos);
}

}  // namespace
}  // namespace muster::testing_store::batch_writer_test

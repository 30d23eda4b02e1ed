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

// Agents that the test plays.
class PlayedAgents final : public JobAgents {
 public:
  base::Status start(std::vector<AgentHost>, OutputSink*, AgentListener* listener) override {
    to = listener;
    return base::ok_status();
  }
  void cancel_start() override {}
  void send(int, v1::LauncherMessage message) override { launches += message.has_launch() ? 1 : 0; }
  void send_unnumbered(int, v1::LauncherMessage) override {}
  void expect_output(int, const std::vector<int>&) override {}
  void output_ends(int) override {}
  void leave(int) override {}
  void drop(int agent) override { dropped.push_back(agent); }
  void sweep(int, std::function<void(base::Result<CommandResult>)>) override {}

  AgentListener* to = nullptr;
  int launches = 0;
  std::vector<int> dropped;
};

// A job of two hosts with four ranks each. Collects what it records, batch by batch.
class GatheredEvents : public ::testing::Test {
 protected:
  GatheredEvents() : logs_(std::move(*LogReader::start(loop_))) {
    surroundings_.loop = &loop_;
    surroundings_.clock = &clock_;
    surroundings_.logs = logs_.get();
    surroundings_.jobs_directory = directory_.path();
    surroundings_.on_line = [](const std::string&) {};
    surroundings_.agents_for = [this](const PooledJob&) { return agents_; };
    job_ = std::make_unique<RunningJob>(
        surroundings_, job_id(kJob), model::place_as_listed({{.name = "n1"}, {.name = "n2"}}, {0, 0, 0, 0, 1, 1, 1, 1}),
        RunningJobOwner{.record = [this](Batch batch) { batches_.push_back(std::move(batch)); }, .on_ended = [] {}});
    model::JobSpec spec;
    spec.command = {"true"};
    spec.workdir = "/";
    spec.input.to = model::InputTo::kNone;
    job_->start(spec, {});
    for (const int agent : {0, 1}) {
      AgentUp up;
      up.link = "dial";
      up.hello.set_hostname(fmt::format("n{}", agent + 1));
      up.hello.add_interfaces()->set_address(fmt::format("10.0.0.{}", agent + 1));
      agents_->to->agent_started(agent);
      agents_->to->agent_up(agent, std::move(up));
    }
    for (const int agent : {0, 1}) {
      v1::AgentMessage message;
      message.mutable_prepared()->set_address(fmt::format("10.0.0.{}", agent + 1));
      agents_->to->agent_message(agent, message);
    }
    turn();
    EXPECT_EQ(agents_->launches, 2);
    batches_.clear();
  }
  // Runs what is posted.
  void turn() {
    loop_.post([this] { loop_.post([this] { loop_.stop(); }); });
    loop_.run();
  }
  void start(int agent, const std::vector<int>& ranks) {
    v1::AgentMessage message;
    for (const int rank : ranks) {
      message.mutable_ranks_started()->add_ranks(rank);
      message.mutable_ranks_started()->add_pids(100 + rank);
    }
    agents_->to->agent_message(agent, message);
  }
  void tried(int agent) {
    v1::AgentMessage message;
    message.mutable_launched();
    agents_->to->agent_message(agent, message);
  }
  // Returns the ranks of a batch with one group; empty if the batch is something else.
  static std::vector<int> group(const Batch& batch) {
    std::vector<int> ranks;
    const auto* const events = batch.size() == 1 ? std::get_if<NewEvents>(&batch.front()) : nullptr;
    if (events == nullptr) return ranks;
    for (const NewEvents::Event& event : events->events) ranks.push_back(event.rank_step ? event.rank_step->rank : -1);
    return ranks;
  }

  const testing_store::TempDir directory_;
  base::SystemClock clock_;
  base::Loop loop_;
  const std::unique_ptr<LogReader> logs_;
  const std::shared_ptr<PlayedAgents> agents_ = std::make_shared<PlayedAgents>();
  JobSurroundings surroundings_;
  std::vector<Batch> batches_;
  std::unique_ptr<RunningJob> job_;
};

TEST_F(GatheredEvents, OfOneTurnAreOneRecord) {
  start(0, {0, 1, 2, 3});
  start(1, {4, 5});
  EXPECT_TRUE(batches_.empty());
  turn();
  ASSERT_EQ(batches_.size(), 1u);
  EXPECT_EQ(group(batches_[0]), (std::vector<int>{0, 1, 2, 3, 4, 5}));
  start(1, {6});
  turn();
  ASSERT_EQ(batches_.size(), 2u);
  EXPECT_TRUE(std::holds_alternative<NewEvent>(batches_[1].front())) << "one event is no group";
}

TEST_F(GatheredEvents, ComeBeforeWhatHappensAfterThem) {
  start(0, {0, 1, 2, 3});
  tried(0);
  start(1, {4, 5, 6, 7});
  tried(1);
  ASSERT_EQ(batches_.size(), 2u);
  EXPECT_EQ(group(batches_[0]).size(), 8u);
  EXPECT_EQ(std::get<NewEvent>(batches_[1].front()).job_step->to, model::JobState::kRunning);
  job_->stop(StopCause::kTerminate, "killed");
  turn();
  const std::size_t count = batches_.size();
  EXPECT_GE(count, 4u);  // the recovery, and the stop
}

// The store refuses a group as a whole, so a wrong step of an agent is recorded by itself.
TEST_F(GatheredEvents, LeaveOutAStepThatTheStoreRefuses) {
  start(0, {0, 1});
  start(0, {1, 2});
  turn();
  ASSERT_EQ(batches_.size(), 3u);
  EXPECT_EQ(group(batches_[0]), (std::vector<int>{0, 1}));
  EXPECT_EQ(std::get<NewEvent>(batches_[1].front()).rank_step->rank, 1);
  EXPECT_EQ(std::get<NewEvent>(batches_[2].front()).rank_step->rank, 2);
}

// Its agent is dropped, and then has no history that the next launcherd could ask for.
TEST_F(GatheredEvents, OfALostHostAreRecordedAtOnce) {
  start(0, {0, 1, 2, 3});
  tried(0);
  start(1, {4, 5, 6, 7});
  tried(1);
  turn();
  batches_.clear();
  agents_->to->agent_gone(1, base::unavailable("killed"));
  EXPECT_EQ(agents_->dropped, std::vector<int>{1});
  int lost = 0;
  for (const Batch& batch : batches_) {
    const auto* const event = std::get_if<NewEvent>(&batch.front());
    if (event != nullptr && event->rank_step && event->rank_step->to == model::RankState::kLost) ++lost;
  }
  EXPECT_EQ(lost, 4);
}

}  // namespace
}  // namespace muster::launcherd::running_job_test

#include "cli/view/job_scalars.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "tests/unit/cli/view/tensorboard_events.h"
#include "tests/unit/support/temp_dir.h"
#include "tests/unit/support/turn_until.h"

namespace muster::cli::job_scalars_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::scalars_of;
using testing_support::tensorboard_events_in;

// Records the calls that reach the view.
class ViewSeen final : public launcherd::JobObserver {
 public:
  void on_progress(int, int, const std::vector<std::string>&) override { seen += "progress "; }
  void on_running() override { seen += "running "; }
  void on_note(const std::string&) override { seen += "note "; }
  void on_warning(const std::string& line) override { seen += "warning:" + line + " "; }
  void on_root_cause(const model::RankEnd&) override { seen += "root "; }
  void on_late(const std::vector<v1::RankLateness>&) override { seen += "late "; }
  void on_host_load(const std::string&, const v1::HostLoad&) override { seen += "load "; }
  void on_event(const model::JobEvent&) override { seen += "event "; }
  void on_finished(const launcherd::JobOutcome&) override { seen += "finished "; }

  std::string seen;
};

class JobScalarsTest : public ::testing::Test {
 protected:
  std::unique_ptr<JobScalars> open(std::chrono::milliseconds period = std::chrono::hours(1)) {
    auto file = TensorboardFile::create("--tensorboard", directory_.path(), clock_.wall());
    EXPECT_TRUE(file.ok()) << file.status();
    return std::make_unique<JobScalars>(
        loop_, clock_, std::move(*file), [this] { return bytes_; }, &view_, period);
  }
  auto scalars() const { return scalars_of(tensorboard_events_in(directory_.path())); }

  testing_support::TempDir directory_;
  base::Loop loop_;
  base::FakeClock clock_;
  ViewSeen view_;
  std::uint64_t bytes_ = 0;
};

TEST_F(JobScalarsTest, WritesRatesScoresAndLoadsAtTheEnd) {
  const auto job = open();
  job->on_steps(12);
  clock_.advance(std::chrono::seconds(4));
  job->on_steps(8);
  bytes_ = 800;
  std::vector<v1::RankLateness> late(1);
  late[0].set_rank(3);
  late[0].set_host("n2");
  late[0].set_score(0.25);
  job->on_late(late);
  v1::HostLoad load;
  load.set_cpu_percent(300);
  load.set_memory_used_mib(512);
  load.add_gpus()->set_busy_percent(40);
  load.mutable_gpus(0)->set_memory_used_mib(7);
  load.add_gpus()->set_busy_percent(20);
  job->on_host_load("n1", load);
  launcherd::JobOutcome outcome;
  outcome.exit_code = 3;
  job->on_finished(outcome);
  const auto seen = scalars();
  EXPECT_THAT(seen.at("job/steps_per_second"), ElementsAre(5.0));
  EXPECT_THAT(seen.at("job/output_bytes_per_second"), ElementsAre(200.0));
  EXPECT_THAT(seen.at("job/generation"), ElementsAre(0.0));
  EXPECT_THAT(seen.at("straggler_score/rank_3"), ElementsAre(0.25));
  EXPECT_THAT(seen.at("straggler_score/host_n2"), ElementsAre(0.25));
  EXPECT_THAT(seen.at("hosts_cpu_percent/n1"), ElementsAre(100.0)) << "an agent may send any number";
  EXPECT_THAT(seen.at("hosts_memory_used_mib/n1"), ElementsAre(512.0));
  EXPECT_THAT(seen.at("hosts_gpu_percent/n1"), ElementsAre(30.0));
  EXPECT_THAT(seen.at("hosts_gpu_memory_used_mib/n1"), ElementsAre(7.0));
  const auto events = tensorboard_events_in(directory_.path());
  EXPECT_EQ(events.back().step(), 4);
  EXPECT_EQ(testing_support::texts_of(events), "ended with exit code 3\n");
  EXPECT_EQ(view_.seen, "late load finished ");
}

TEST_F(JobScalarsTest, MarksGenerationsAndHangs) {
  const auto job = open();
  job->on_event(model::GenerationBegan{.number = 2, .from = 4, .to = 3});
  job->on_event(model::JobRestarting{.attempt = 3, .rank = 1, .reason = "exit code 7"});
  model::HangReported hang;
  hang.report.cause = "rank 3 waits";
  job->on_event(hang);
  job->on_event(hang);
  job->on_event(model::RankUp{0, 42});
  EXPECT_THAT(scalars().at("job/generation"), ElementsAre(0.0, 2.0, 3.0));
  EXPECT_THAT(scalars().at("job/hangs"), ElementsAre(1.0, 2.0));
  const std::string texts = testing_support::texts_of(tensorboard_events_in(directory_.path()));
  EXPECT_THAT(texts, HasSubstr("generation 2: 4 → 3 ranks"));
  EXPECT_THAT(texts, HasSubstr("attempt 3: exit code 7"));
  EXPECT_THAT(texts, HasSubstr("the job seems to hang: rank 3 waits"));
  EXPECT_EQ(view_.seen, "event event event event event ");
}

TEST_F(JobScalarsTest, WritesAgainAndAgain) {
  const auto job = open(std::chrono::milliseconds(1));
  v1::HostLoad load;
  load.set_cpu_percent(50);
  job->on_host_load("n1", load);
  testing_support::turn_until(loop_, [&] { return scalars()["hosts_cpu_percent/n1"].size() > 1; });
  EXPECT_EQ(scalars()["hosts_cpu_percent/n1"].back(), 50.0);
}

// RLIMIT_FSIZE stands for a full disk. It would hold for all later tests, so only a child sets it.
TEST_F(JobScalarsTest, AFullDiskIsReportedOnceAndEndsNothing) {
  const auto job = open();
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit small{60, 60};
    if (::setrlimit(RLIMIT_FSIZE, &small) != 0) ::_exit(1);
    job->on_running();
    job->on_event(model::JobRestarting{.attempt = 1, .rank = 0, .reason = "r"});
    job->on_finished({});
    const std::size_t warning = view_.seen.find("warning:--tensorboard: ");
    const bool is_once = warning != std::string::npos && view_.seen.find("warning", warning + 1) == std::string::npos;
    ::_exit(is_once && view_.seen.ends_with("finished ") ? 0 : 2);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace muster::cli::job_scalars_test

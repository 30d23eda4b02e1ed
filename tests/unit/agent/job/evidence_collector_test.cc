// The collector with looks that the test scripts, and with the agent's own looks at real processes.
#include "agent/job/evidence_collector.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/proc/proc_table.h"
#include "base/net.h"
#include "rendezvous/horovod_server.h"
#include "rendezvous/horovod_store.h"
#include "tests/unit/agent/job/fake_warden.h"
#include "tests/unit/support/standing_child.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::agent::evidence_collector_test {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using testing::run_until;
using testing_support::StandingPython;

constexpr const char* kPython = "/usr/bin/python3";

class EvidenceCollectorTest : public ::testing::Test {
 protected:
  // Looks write what `script` prints.
  void use_script(const std::string& script) {
    options_.program = dir_.write("program", "#!/bin/sh\n" + script);
    ::chmod(options_.program.c_str(), 0700);
    options_.opens_memories = false;
  }
  void make() {
    collector_.emplace(
        loop_,
        EvidenceCollector::Sources{
            .pids = [this] { return pids_; },
            .last_outputs = [this](auto done) { loop_.post([this, done = std::move(done)] { done(outputs_); }); },
            .awaited = [this](int rank) { return rank == 0 ? awaited_ : std::nullopt; },
            .collective = [this](int rank) { return rank == 0 ? place_ : std::nullopt; },
            .store_wait = store_wait_,
            .watch_missing = watch_missing_},
        [this](v1::EvidenceAnswer answer) { answers_.push_back(std::move(answer)); }, options_);
  }
  void ask(std::uint64_t id, std::int64_t apart_ms, bool asks_nccl = false) {
    v1::EvidenceQuestion question;
    question.set_id(id);
    question.set_asks_nccl(asks_nccl);
    question.set_apart_ms(apart_ms);
    collector_->ask(question);
  }
  bool has_answers(std::size_t n) {
    return run_until(loop_, [&] { return answers_.size() >= n; });
  }
  // The answer about one process, by the agent's own looks.
  v1::RankEvidence evidence_of(pid_t pid, std::int64_t apart_ms = 200) {
    pids_ = {{0, pid}};
    options_.program = MUSTER_AGENT_PROGRAM;
    make();
    ask(1, apart_ms);
    if (!has_answers(1) || answers_[0].ranks_size() != 1) {
      ADD_FAILURE() << "no evidence";
      return {};
    }
    EXPECT_EQ(answers_[0].problem(), "");
    return answers_[0].ranks(0);
  }

  bool waits_in(pid_t pid, const std::string& channel) {
    return run_until(loop_, [&] { return wait_channel(pid).find(channel) != std::string::npos; });
  }

  const testing_support::TempDir dir_;
  base::Loop loop_;
  std::map<int, pid_t> pids_;
  std::map<int, LastOutput> outputs_;
  std::optional<Awaited> awaited_;
  std::optional<v1::CollectivePlace> place_;
  std::function<void(const rendezvous::ConnectionEnds& ends, std::function<void(std::optional<Awaited>)> done)>
      store_wait_;
  StorePolls::Watch watch_missing_;
  std::vector<v1::EvidenceAnswer> answers_;
  StackReader::Options options_ = EvidenceCollector::look_options();
  std::optional<EvidenceCollector> collector_;
};

std::string frame_of(const v1::EvidenceAnswer& answer) {
  const std::string body = answer.SerializeAsString();
  std::string frame;
  for (int shift = 0; shift < 32; shift += 8) frame += fmt::format("\\{:03o}", body.size() >> shift & 0xff);
  for (const char c : body) frame += fmt::format("\\{:03o}", static_cast<unsigned char>(c));
  return "printf '" + frame + "'\n";
}

std::string frame_of(const v1::RankEvidence& evidence) {
  v1::EvidenceAnswer answer;
  *answer.add_ranks() = evidence;
  return frame_of(answer);
}

v1::RankEvidence look(int rank, pid_t pid, std::int64_t cpu_ms) {
  v1::RankEvidence evidence;
  evidence.set_rank(rank);
  evidence.set_pid(pid);
  evidence.set_state("S");
  evidence.set_wait_channel("do_poll");
  evidence.set_cpu_ms(cpu_ms);
  return evidence;
}

TEST_F(EvidenceCollectorTest, AddsWhatTheSessionKnows) {
  use_script(frame_of(look(0, ::getpid(), 5)) + frame_of(look(1, ::getpid(), 5)));
  pids_ = {{0, ::getpid()}, {1, ::getpid()}};
  outputs_[0] = {.line = "epoch 3", .at = base::monotonic_now() - 5s};
  awaited_ = Awaited{.what = "the PMI fence", .since = base::monotonic_now() - 7s};
  place_.emplace().set_operation("allreduce");
  make();
  ask(9, 0);
  ASSERT_TRUE(has_answers(1));
  const v1::EvidenceAnswer& answer = answers_[0];
  EXPECT_EQ(answer.id(), 9u);
  EXPECT_EQ(answer.problem(), "");
  ASSERT_EQ(answer.ranks_size(), 2);
  const v1::RankEvidence& first = answer.ranks(0);
  EXPECT_EQ(first.rank(), 0);
  EXPECT_FALSE(first.moving());
  EXPECT_EQ(first.problem(), "");
  EXPECT_EQ(first.last_line(), "epoch 3");
  EXPECT_GE(first.silent_ms(), 5000);
  EXPECT_EQ(first.awaits(), "the PMI fence");
  EXPECT_GE(first.awaits_ms(), 7000);
  EXPECT_EQ(first.collective().operation(), "allreduce");
  const v1::RankEvidence& second = answer.ranks(1);
  EXPECT_FALSE(second.has_silent_ms());
  EXPECT_FALSE(second.has_awaits_ms());
  EXPECT_FALSE(second.has_collective());
}

TEST_F(EvidenceCollectorTest, LooksTwiceThatFarApart) {
  use_script("echo look >> " + dir_.path() + "/looks\n" + frame_of(look(0, ::getpid(), 5)));
  pids_ = {{0, ::getpid()}};
  make();
  const auto begin = base::monotonic_now();
  ask(1, 100);
  ASSERT_TRUE(has_answers(1));
  EXPECT_GE(base::monotonic_now() - begin, 100ms);
  EXPECT_GE(answers_[0].ranks(0).looked_ms(), 100);
  EXPECT_EQ(dir_.read("looks"), "look\nlook\n");
}

TEST_F(EvidenceCollectorTest, AnswersTwoQuestionsAtOnce) {
  use_script(frame_of(look(0, ::getpid(), 5)));
  pids_ = {{0, ::getpid()}};
  make();
  ask(7, 50);
  ask(7, 0);
  ASSERT_TRUE(has_answers(2));
  for (const v1::EvidenceAnswer& answer : answers_) {
    EXPECT_EQ(answer.id(), 7u);
    ASSERT_EQ(answer.ranks_size(), 1);
    EXPECT_EQ(answer.ranks(0).problem(), "");
  }
}

TEST_F(EvidenceCollectorTest, RefusesTooManyQuestions) {
  use_script("cat > /dev/null");
  pids_ = {{0, ::getpid()}};
  make();
  for (std::uint64_t i = 0; i < 17; ++i) ask(i, 10'000);
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_EQ(answers_[0].id(), 16u);
  EXPECT_THAT(answers_[0].problem(), HasSubstr("try again"));
}

TEST_F(EvidenceCollectorTest, AnswersAtOnceWithoutRanks) {
  make();
  ask(4, 10'000);
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_EQ(answers_[0].id(), 4u);
  EXPECT_EQ(answers_[0].problem(), "no rank runs on this host");
}

TEST_F(EvidenceCollectorTest, LeavesOutARankThatEndedMeanwhile) {
  use_script(frame_of(look(0, ::getpid(), 5)) + frame_of(look(1, ::getpid(), 5)));
  pids_ = {{0, ::getpid()}, {1, ::getpid()}};
  make();
  ask(1, 0);
  ASSERT_TRUE(run_until(loop_, [&] { return collector_->pid() != 0; }));
  pids_.erase(1);
  ASSERT_TRUE(has_answers(1));
  ASSERT_EQ(answers_[0].ranks_size(), 1);
  EXPECT_EQ(answers_[0].ranks(0).rank(), 0);
  EXPECT_EQ(answers_[0].problem(), "1 of its ranks ended meanwhile");
}

TEST_F(EvidenceCollectorTest, AnswersIfAllRanksEndBetweenTheLooks) {
  use_script(frame_of(look(0, ::getpid(), 5)));
  pids_ = {{0, ::getpid()}};
  make();
  ask(1, 0);
  ASSERT_TRUE(run_until(loop_, [&] { return collector_->pid() != 0; }));
  pids_.clear();
  ASSERT_TRUE(has_answers(1));
  EXPECT_EQ(answers_[0].ranks_size(), 0);
  EXPECT_EQ(answers_[0].problem(), "1 of its ranks ended meanwhile");
}

TEST_F(EvidenceCollectorTest, AnswersOpenQuestionsAtTheEnd) {
  use_script(frame_of(look(0, ::getpid(), 5)));
  pids_ = {{0, ::getpid()}};
  make();
  ask(1, 10'000);
  ask(2, 10'000);
  collector_->end("all ranks have ended");
  ASSERT_EQ(answers_.size(), 2u);
  EXPECT_EQ(answers_[1].id(), 2u);
  EXPECT_EQ(answers_[1].problem(), "all ranks have ended");
  // The look that ran reports to nobody.
  ASSERT_TRUE(run_until(loop_, [&] { return collector_->pid() == 0; }));
  EXPECT_EQ(answers_.size(), 2u);
}

TEST_F(EvidenceCollectorTest, NamesARankThatALookMisses) {
  use_script(frame_of(look(0, ::getpid(), 5)) + "exit 3");
  pids_ = {{0, ::getpid()}, {1, 1073741823}};
  make();
  ask(1, 0);
  ASSERT_TRUE(has_answers(1));
  ASSERT_EQ(answers_[0].ranks_size(), 2);
  EXPECT_EQ(answers_[0].ranks(1).rank(), 1);
  EXPECT_EQ(answers_[0].ranks(1).problem(), "it could not be looked at");
  EXPECT_THAT(answers_[0].problem(), HasSubstr("exit code 3"));
}

TEST_F(EvidenceCollectorTest, ALookThatHangsIsEndedAndSignalsNoRank) {
  const testing_support::StandingChild child(1, [](int output) {
    if (::write(output, "x", 1) != 1) return;
    while (true) ::pause();
  });
  ASSERT_TRUE(child.is_ready());
  use_script(fmt::format("kill -STOP {}; exec sleep 1000", child.pid()));
  options_.patience = 200ms;
  pids_ = {{0, child.pid()}};
  make();
  ask(1, 0);
  ASSERT_TRUE(has_answers(1));
  EXPECT_THAT(answers_[0].problem(), HasSubstr("no result after 0.2 s"));
  ASSERT_EQ(answers_[0].ranks_size(), 1);
  EXPECT_EQ(answers_[0].ranks(0).problem(), "it could not be looked at");
  int status = 0;
  EXPECT_EQ(::waitpid(child.pid(), &status, WCONTINUED | WNOHANG), 0) << "it was continued";
}

TEST_F(EvidenceCollectorTest, JunkIsAProblem) {
  use_script("printf '\\001\\000\\000\\000\\377'");
  pids_ = {{0, ::getpid()}};
  make();
  ask(1, 0);
  ASSERT_TRUE(has_answers(1));
  EXPECT_THAT(answers_[0].problem(), HasSubstr("cannot be parsed"));
}

// The following tests look at real Python programs.

TEST_F(EvidenceCollectorTest, AnInfiniteLoopUsesCpuTimeAtOnePlace) {
  const StandingPython child(kPython, "-c", "n = 0\nwhile True: n = n or print('up', flush=True) or 1");
  ASSERT_TRUE(child.is_ready());
  const v1::RankEvidence evidence = evidence_of(child.pid());
  EXPECT_FALSE(evidence.moving());
  EXPECT_EQ(evidence.state(), "R");
  EXPECT_GT(evidence.cpu_ms(), 0);
  EXPECT_GE(evidence.looked_ms(), 200);
  ASSERT_EQ(evidence.python_size(), 1);
  EXPECT_EQ(evidence.python(0).line(), 2);
  EXPECT_FALSE(evidence.has_state_ms());
}

// Each nap is on a line of its own, so the program is at no line twice.
TEST_F(EvidenceCollectorTest, AProgramThatGoesOnMoves) {
  const StandingPython child(kPython, "-c",
                             "import time\nnaps = compile('time.sleep(0.005)\\n' * 20000, 'naps.py', 'exec')\n"
                             "print('up', flush=True)\nexec(naps)");
  ASSERT_TRUE(child.is_ready());
  EXPECT_TRUE(evidence_of(child.pid(), 500).moving());
}

TEST_F(EvidenceCollectorTest, ALockIsAwaitedAtOnePlace) {
  const StandingPython child(
      kPython, "-c", "import threading\nl = threading.Lock()\nl.acquire()\nprint('up', flush=True); l.acquire()");
  ASSERT_TRUE(child.is_ready() && waits_in(child.pid(), "futex"));
  const v1::RankEvidence evidence = evidence_of(child.pid());
  EXPECT_FALSE(evidence.moving());
  EXPECT_EQ(evidence.state(), "S");
  EXPECT_THAT(evidence.wait_channel(), HasSubstr("futex"));
  ASSERT_EQ(evidence.python_size(), 1);
  EXPECT_EQ(evidence.python(0).line(), 4);
}

TEST_F(EvidenceCollectorTest, ASleepLastsAsLongAsItWasSeen) {
  const StandingPython child(kPython, "-c", "import time\nprint('up', flush=True)\ntime.sleep(1000)");
  ASSERT_TRUE(child.is_ready() && waits_in(child.pid(), "nanosleep"));
  const v1::RankEvidence evidence = evidence_of(child.pid());
  EXPECT_FALSE(evidence.moving());
  ASSERT_TRUE(evidence.has_state_ms());
  EXPECT_GE(evidence.state_ms(), 200);
  ask(2, 100);
  ASSERT_TRUE(has_answers(2));
  EXPECT_GE(answers_[1].ranks(0).state_ms(), 300) << "it is still the same sleep";
}

TEST_F(EvidenceCollectorTest, AStoppedRankIsFullyStopped) {
  const StandingPython child(
      kPython, "-c",
      "import threading, time\nthreading.Thread(target=time.sleep, args=(1000,)).start()\nprint('up', flush=True)\n"
      "while True: pass");
  ASSERT_TRUE(child.is_ready());
  ASSERT_EQ(::kill(child.pid(), SIGSTOP), 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child.pid(), &status, WUNTRACED), child.pid());
  const v1::RankEvidence evidence = evidence_of(child.pid());
  EXPECT_TRUE(evidence.fully_stopped());
  EXPECT_FALSE(evidence.moving());
  EXPECT_EQ(evidence.state(), "T");
  EXPECT_EQ(evidence.cpu_ms(), 0);
  EXPECT_GE(evidence.state_ms(), 200);
  EXPECT_EQ(evidence.python_size(), 1);
}

TEST_F(EvidenceCollectorTest, TheChildOfAShellIsShown) {
  // The Python process asks for SIGKILL at the end of its parent.
  const testing_support::StandingChild shell(3, [](int output) {
    ::dup2(output, STDOUT_FILENO);
    ::execl("/bin/sh", "sh", "-c",
            "/usr/bin/python3 -c \"import ctypes, time\nctypes.CDLL(None).prctl(1, 9)\nprint('up', flush=True); "
            "time.sleep(1000)\"; exit $?",
            nullptr);
  });
  ASSERT_TRUE(shell.is_ready());
  const v1::RankEvidence evidence = evidence_of(shell.pid());
  EXPECT_NE(evidence.pid(), shell.pid());
  ASSERT_EQ(evidence.python_size(), 1);
  EXPECT_EQ(evidence.python(0).line(), 3);
}

TEST_F(EvidenceCollectorTest, AsksForWaitsAtTorchsStore) {
  v1::RankEvidence first = look(0, ::getpid(), 5);
  first.set_awaits("10.0.0.2 40001 10.0.0.1 29500; 10.0.0.2 40002 10.0.0.1 29500");
  use_script(frame_of(first) + frame_of(look(1, ::getpid(), 5)));
  pids_ = {{0, ::getpid()}, {1, ::getpid()}};
  store_wait_ = [this](const rendezvous::ConnectionEnds& ends, const auto& done) {
    EXPECT_EQ(ends.local_port, 29500);
    if (ends.peer_port == 40001) return done(std::nullopt);
    loop_.post(
        [done] { done(Awaited{.what = "the key \"x\" in torch's store", .since = base::monotonic_now() - 9s}); });
  };
  make();
  ask(1, 0);
  ASSERT_TRUE(has_answers(1));
  EXPECT_EQ(answers_[0].ranks(0).awaits(), "the key \"x\" in torch's store");
  EXPECT_GE(answers_[0].ranks(0).awaits_ms(), 9000);
  EXPECT_EQ(answers_[0].ranks(1).awaits(), "");
}

TEST_F(EvidenceCollectorTest, ConnectionsAreNoAnswer) {
  v1::RankEvidence first = look(0, ::getpid(), 5);
  first.set_awaits("10.0.0.2 40001 10.0.0.1 29500");
  use_script(frame_of(first));
  pids_ = {{0, ::getpid()}};
  make();
  ask(1, 0);
  ASSERT_TRUE(has_answers(1));
  EXPECT_EQ(answers_[0].ranks(0).awaits(), "") << "no store can be asked";
}

TEST_F(EvidenceCollectorTest, WatchesPollsBetweenTheLooks) {
  use_script(frame_of(look(0, ::getpid(), 5)));
  pids_ = {{0, ::getpid()}};
  int watches = 0;
  watch_missing_ = [&](const auto& on_missing) { watches += on_missing ? 1 : 0; };
  make();
  ask(1, 0);
  ASSERT_TRUE(has_answers(1));
  EXPECT_EQ(watches, 1);
}

TEST_F(EvidenceCollectorTest, AsksLibrariesInTheSecondLook) {
  v1::EvidenceAnswer nccl;
  nccl.add_nccl()->set_text("rank 3 does not answer NCCL");
  use_script("echo $1 $2 >> " + dir_.path() + "/looks\n" + frame_of(look(0, ::getpid(), 5)) +
             "[ \"$3\" = --nccl ] && " + frame_of(nccl) + "exit 0");
  pids_ = {{0, ::getpid()}};
  make();
  ask(1, 0, true);
  ASSERT_TRUE(has_answers(1));
  ASSERT_EQ(answers_[0].nccl_size(), 1);
  EXPECT_EQ(answers_[0].nccl(0).text(), "rank 3 does not answer NCCL");
  ask(2, 0);
  ASSERT_TRUE(has_answers(2));
  EXPECT_EQ(answers_[1].nccl_size(), 0);
  const std::string pid = std::to_string(::getpid());
  EXPECT_EQ(dir_.read("looks"),
            "--looks 0:" + pid + "\n--looks --libraries\n--looks 0:" + pid + "\n--looks --libraries\n");
}

// Polls from a thread, with a connection for each request, as Horovod does. Its argument is the port.
constexpr const char* kPoller = R"(
import sys, threading, time, urllib.error, urllib.request
def poll():
    while True:
        try:
            urllib.request.urlopen("http://127.0.0.1:" + sys.argv[1] + "/global/2")
        except urllib.error.HTTPError:
            time.sleep(0.01)
thread = threading.Thread(target=poll)
thread.start()
print("up", flush=True)
thread.join()
)";

TEST_F(EvidenceCollectorTest, NamesTheKeyForWhichARankPolls) {
  base::UniqueFd listening = base::listen_on(base::IpAddress::parse("127.0.0.1").value(), 0, 8).value();
  const std::string port = std::to_string(base::local_port(listening.get()).value());
  rendezvous::HorovodStore store({});
  rendezvous::HorovodStoreKeys keys(store);
  rendezvous::HorovodServer server(loop_, std::move(listening), keys,
                                   [](const auto&, const auto& done) { done(true); });
  watch_missing_ = [&server](auto on_missing) { server.watch_missing(std::move(on_missing)); };
  const StandingPython child(kPython, "-c", kPoller, port.c_str());
  ASSERT_TRUE(child.is_ready());
  const v1::RankEvidence evidence = evidence_of(child.pid(), 1000);
  EXPECT_EQ(evidence.awaits(), "the key \"global/2\" in Horovod's store");
  EXPECT_TRUE(evidence.has_awaits_ms());
  collector_.reset();
}

}  // namespace
}  // namespace muster::agent::evidence_collector_test

// The real muster-gpus with an emulation of NVIDIA's library (tests/unit/agent/gpus/scripted_nvml.cc); no GPU is asked.
#include "agent/gpus/job_gpus.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include <gtest/gtest.h>

#include "agent/proc/proc_table.h"
#include "tests/unit/agent/gpus/scripted_gpu.h"

namespace muster::agent::job_gpus_test {
namespace {

SpawnRequest rank_with(int rank, const std::string& variable) {
  SpawnRequest request;
  request.rank = rank;
  request.env = {"PATH=/bin", variable};
  return request;
}

class JobGpusTest : public testing::ScriptedGpuFixture {
 protected:
  void say(const std::string& processes) {
    // At once: the library reads it while we write.
    dir_.write("new", "driver 550\ngpu 0000:1b:00.0 GPU-a 100 0 5 H100\n" + processes);
    std::filesystem::rename(dir_ / "new", dir_ / "script");
  }

  // Until the wait is over; false: nobody waits.
  bool await(JobGpus& job) {
    job.await({}, [this](const std::vector<std::string>& sentences) {
      said_ = sentences;
      loop_.stop();
    });
    if (!job.is_waiting()) return false;
    loop_.run();
    return true;
  }

  // The driver has released all after a while: until then the job waits.
  void expect_release(JobGpus& job) {
    bool is_released = false;
    const base::Timer released = loop_.after(std::chrono::milliseconds(500), [&] {
      say("");
      is_released = true;
    });
    EXPECT_TRUE(await(job));
    EXPECT_TRUE(is_released);
    EXPECT_TRUE(said_.empty());
  }

  std::vector<std::string> said_;
};

TEST_F(JobGpusTest, NobodyWaitsWhereNoRankHasSeenAGpu) {
  JobGpus job(loop_, host_);
  job.launch({rank_with(0, "CUDA_VISIBLE_DEVICES=")});
  job.ended(0, gone());
  EXPECT_FALSE(await(job));
  host_.reader = nullptr;
  JobGpus other(loop_, host_);
  other.launch({rank_with(0, "CUDA_VISIBLE_DEVICES=0")});
  other.ended(0, gone());
  EXPECT_FALSE(await(other));
  EXPECT_EQ(reader_.pid(), 0);
}

// The rank's own end was seen, its child's was not.
TEST_F(JobGpusTest, ARanksChildIsWaitedFor) {
  host_.seen = gpus::GpuReport{.driver = "550", .gpus = {{.uuid = "GPU-a"}}};
  JobGpus job(loop_, host_);
  job.launch({rank_with(0, "CUDA_VISIBLE_DEVICES=0")});
  job.ended(0, gone());
  say(fmt::format("process {} 100\n", gone()));
  expect_release(job);
}

TEST_F(JobGpusTest, ARankThatJoinsLaterIsWaitedFor) {
  host_.seen = gpus::GpuReport{.driver = "550", .gpus = {{.uuid = "GPU-a"}}};
  JobGpus job(loop_, host_);
  job.launch({rank_with(0, "CUDA_VISIBLE_DEVICES=")});
  job.launch({rank_with(1, "CUDA_VISIBLE_DEVICES=0")});
  job.ended(1, gone());
  say(fmt::format("process {} 100\n", gone()));
  expect_release(job);
}

TEST_F(JobGpusTest, WhoWasThereBeforeIsNot) {
  const pid_t ended = gone();
  const pid_t ends = ::fork();
  if (ends == 0) {
    while (true) ::pause();
  }
  host_.seen = gpus::GpuReport{.driver = "550", .gpus = {{.uuid = "GPU-a", .processes = {{ended}, {ends}}}}};
  JobGpus job(loop_, host_);
  // The kernel counts starts in ticks of 10 ms: it was there in one before.
  const auto born = ticks_since_boot();
  while (ticks_since_boot() == born) ::usleep(1000);
  job.launch({rank_with(0, "CUDA_VISIBLE_DEVICES=0")});
  ::kill(ends, SIGKILL);
  ::waitpid(ends, nullptr, 0);
  job.ended(0, gone());
  say(fmt::format("process {} 100\nprocess {} 100\n", ended, ends));
  EXPECT_TRUE(await(job));
  EXPECT_TRUE(said_.empty()) << said_[0];
}

// launcherd's agents ask when the job starts; who has ended when the answer comes may be of the job.
TEST_F(JobGpusTest, AnAnswerThatComesLateNamesNoOthers) {
  const pid_t child = gone();
  say(fmt::format("process {} 100\n", child));
  JobGpus job(loop_, host_);
  job.launch({rank_with(0, "CUDA_VISIBLE_DEVICES=0")});
  job.ended(0, gone());
  reader_.ask([this](const base::Result<gpus::GpuReport>&) { loop_.stop(); });  // with the job's look, after it
  loop_.run();
  expect_release(job);
}

TEST_F(JobGpusTest, WhoGivesUpHearsNothing) {
  say(fmt::format("process {} 100\n", gone()));
  JobGpus job(loop_, host_);
  job.launch({rank_with(0, "CUDA_VISIBLE_DEVICES=0")});
  job.ended(0, gone());
  job.await({}, [](const std::vector<std::string>&) { ADD_FAILURE() << "it was given up"; });
  EXPECT_TRUE(job.is_waiting());
  job.give_up();
  EXPECT_FALSE(job.is_waiting());
  reader_.ask([this](const base::Result<gpus::GpuReport>&) { loop_.stop(); });
  loop_.run();
}

}  // namespace
}  // namespace muster::agent::job_gpus_test

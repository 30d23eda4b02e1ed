// The real muster-gpus with an emulation of NVIDIA's library (tests/unit/agent/gpus/recorded_nvml.cc); no GPU is asked.
#include "agent/service/gpu_release.h"

#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include <gtest/gtest.h>

#include "tests/unit/support/temp_dir.h"

namespace muster::agent {
namespace {

using std::chrono::milliseconds;

// The number of a process that has ended.
pid_t gone() {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(0);
  ::waitpid(pid, nullptr, 0);
  return pid;
}

TEST(HeldMemory, OfOurOwnDeadOnly) {
  gpus::GpuReport report{.driver = "550"};
  report.gpus.push_back({.processes = {{.pid = 1, .memory = 5}, {.pid = 2}}});
  report.gpus.push_back({.processes = {{.pid = 2}, {.pid = 3}}});
  const std::map<pid_t, std::string> ours = {{2, "rank 0"}, {3, "rank 1"}, {4, "rank 2"}};
  const auto held = held_memory(report, ours, [](pid_t pid) { return pid != 3; });  // 3 is another's now
  EXPECT_EQ(held, (std::vector<HeldMemory>{{.gpu = 0, .pid = 2}, {.gpu = 1, .pid = 2}}));
}

TEST(HeldMemory, InASentence) {
  EXPECT_EQ(describe({.gpu = 3, .pid = 1234, .bytes = 1'200'000'000}, "rank 5"),
            "GPU 3 still holds 1.2 GB of rank 5 (pid 1234), which has ended");
  EXPECT_EQ(describe({.gpu = 0, .pid = 7}, "python3"), "GPU 0 still holds memory of python3 (pid 7), which has ended");
}

class Release : public ::testing::Test {
 protected:
  Release() {
    std::filesystem::copy(MUSTER_RECORDED_NVML, dir_.path() + "/libnvidia-ml.so.1");
    login_.set("LD_LIBRARY_PATH", dir_.path());
  }

  void say(const std::string& processes) {
    // At once: the library reads it while we write.
    dir_.write("new", "driver 550\ngpu 0000:1b:00.0 GPU-a 100 0 5 H100\n" + processes);
    std::filesystem::rename(dir_ / "new", dir_ / "recording");
  }

  // Until it is done; `look` is called at each look at the GPUs.
  std::vector<std::string> await(const std::map<pid_t, std::string>& pids, milliseconds patience) {
    gpus::KilledHelpers killed(loop_);
    gpus::Reader reader(loop_, login_, killed);
    GpuRelease release(loop_, reader, patience);
    std::vector<std::string> said;
    release.begin(pids, [&](const std::vector<std::string>& sentences) {
      said = sentences;
      loop_.stop();
    });
    loop_.run();
    return said;
  }

  const testing_support::TempDir dir_;
  base::Environment login_;
  base::Loop loop_;
};

TEST_F(Release, NothingHeldIsSaidAtOnce) {
  const pid_t pid = gone();
  say(fmt::format("process {} 100\n", ::getpid()));
  EXPECT_TRUE(await({{pid, "rank 0"}, {::getpid(), "rank 1"}}, std::chrono::minutes(1)).empty());
}

TEST_F(Release, WaitsUntilTheDriverHasReleasedIt) {
  const pid_t pid = gone();
  say(fmt::format("process {} 100\n", pid));
  bool is_released = false;
  const base::Timer released = loop_.after(milliseconds(500), [&] {
    say("");
    is_released = true;
  });
  EXPECT_TRUE(await({{pid, "rank 0"}}, std::chrono::minutes(1)).empty());
  EXPECT_TRUE(is_released);
}

TEST_F(Release, SaysWhatIsHeldAfterThePatience) {
  const pid_t pid = gone();
  say(fmt::format("process {} 1200000000\n", pid));
  EXPECT_EQ(await({{pid, "rank 5"}}, milliseconds(300)),
            std::vector{fmt::format("GPU 0 still holds 1.2 GB of rank 5 (pid {}), which has ended", pid)});
}

// The job is to end at once: in the middle of a look, and between two.
TEST_F(Release, WhoIsGivenUpSaysNothing) {
  const pid_t pid = gone();
  say(fmt::format("process {} 100\n", pid));
  gpus::KilledHelpers killed(loop_);
  gpus::Reader reader(loop_, login_, killed);
  std::optional<GpuRelease> release;
  const auto begin = [&] {
    release.emplace(loop_, reader, std::chrono::minutes(1));
    release->begin({{pid, "rank 0"}}, [](const std::vector<std::string>&) { ADD_FAILURE() << "it was given up"; });
  };
  begin();
  release.reset();
  reader.ask([&](const base::Result<gpus::GpuReport>&) {
    begin();
    reader.ask([&](const base::Result<gpus::GpuReport>& seen) {  // with the release's look, after it
      EXPECT_TRUE(seen.ok()) << seen.status();
      release.reset();
      reader.ask([&](const base::Result<gpus::GpuReport>&) { loop_.stop(); });
    });
  });
  loop_.run();
}

TEST_F(Release, ADriverThatHangsEndsTheWaitAllTheSame) {
  say("hang nvmlDeviceGetMemoryInfo\n");
  EXPECT_EQ(
      await({{gone(), "rank 0"}}, milliseconds(1000)),
      std::vector<std::string>{"whether the GPUs have released the job's memory is not known: no answer within 1 s"});
}

TEST_F(Release, SaysWhenNobodyKnows) {
  say("fail nvmlInit_v2 18\n");
  EXPECT_EQ(
      await({{gone(), "rank 0"}}, milliseconds(300)),
      std::vector<std::string>{"whether the GPUs have released the job's memory is not known: NVIDIA's management "
                               "library does not start: nvmlInit_v2 says Driver/library version mismatch (18)"});
}

}  // namespace
}  // namespace muster::agent

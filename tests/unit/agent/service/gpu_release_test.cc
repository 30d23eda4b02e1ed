// The real muster-gpus with an emulation of NVIDIA's library (tests/unit/agent/gpus/recorded_nvml.cc), or with files in
// the form of AMD's and Intel's drivers; no GPU is asked.
#include "agent/service/gpu_release.h"

#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include <gtest/gtest.h>

#include "tests/unit/agent/gpus/gpu_tree.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::agent {
namespace {

using std::chrono::milliseconds;

constexpr auto kNvidia = model::GpuVendor::kNvidia;
constexpr auto kAmd = model::GpuVendor::kAmd;
constexpr auto kIntel = model::GpuVendor::kIntel;

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
  EXPECT_EQ(held, (std::vector<HeldMemory>{{.gpu = {kNvidia, 0}, .pid = 2}, {.gpu = {kNvidia, 1}, .pid = 2}}));
}

TEST(HeldMemory, OfEveryMake) {
  const gpus::GpuReport report{.others = {{.index = 2, .shows_dead = true, .processes = {{.pid = 2, .memory = 7}}},
                                          {.is_intel = true, .processes = {{.pid = 3}}}}};
  EXPECT_EQ(held_memory(report, {{2, "rank 0"}, {3, "rank 1"}}, [](pid_t) { return true; }),
            (std::vector<HeldMemory>{{.gpu = {kAmd, 2}, .pid = 2, .bytes = 7}, {.gpu = {kIntel, 0}, .pid = 3}}));
}

// Another process of the host has that number.
TEST(HeldMemory, NotByNumbersOfAnotherNamespace) {
  gpus::GpuReport report{.driver = "470", .foreign_pids = true};
  report.gpus.push_back({.processes = {{.pid = 2}}});
  report.others.push_back({.shows_dead = true, .foreign_pids = true, .processes = {{.pid = 2}}});
  EXPECT_TRUE(held_memory(report, {{2, "rank 0"}}, [](pid_t) { return true; }).empty());
}

bool is_odd(pid_t pid) {
  return pid % 2 == 1;
}

TEST(InUse, WithoutWhatTheLivingHave) {
  gpus::GpuReport report{.driver = "550"};
  report.gpus.push_back(
      {.memory_total = 100, .memory_used = 60, .processes = {{.pid = 2, .memory = 20}, {.pid = 3, .memory = 9}, {4}}});
  report.gpus.push_back({.memory_used = 60});  // not told: of no total
  report.others = {{.index = 1, .memory_used = 50, .foreign_pids = true, .processes = {{.pid = 2, .memory = 20}}},
                   {.is_intel = true, .memory_used = 5, .processes = {{.pid = 2, .memory = 20}}},
                   {.is_intel = true, .index = 1}};
  EXPECT_EQ(in_use(report, is_odd), (InUse{{{kNvidia, 0}, 40}, {{kAmd, 1}, 50}, {{kIntel, 0}, 0}}));
}

// A GPU of each kind whose numbers do not tell, and one where they do.
gpus::GpuReport without_numbers(std::uint64_t used) {
  gpus::GpuReport report{.driver = "470", .foreign_pids = true};
  report.gpus.push_back({.memory_total = 100 * kSlack, .memory_used = used});
  report.others = {{.index = 0, .memory_used = used, .shows_dead = true},
                   {.index = 1, .memory_used = used, .shows_dead = true, .foreign_pids = true},
                   {.is_intel = true, .memory_used = used}};
  return report;
}

TEST(GrownMemory, IsComparedWhereNumbersDoNotTell) {
  const EndedProcesses ended{.before = in_use(without_numbers(kSlack), is_odd)};
  GrownMemory grown = grown_memory(without_numbers(2 * kSlack), ended, is_odd);
  EXPECT_TRUE(grown.held.empty());
  EXPECT_EQ(grown.unknown, "");
  grown = grown_memory(without_numbers(2 * kSlack + 1), ended, is_odd);
  std::vector<GpuName> names;
  for (const HeldMemory& held : grown.held) {
    names.push_back(held.gpu);
    EXPECT_EQ(held.pid, 0);
    EXPECT_EQ(held.bytes, kSlack + 1);
  }
  EXPECT_EQ(names, (std::vector<GpuName>{{kNvidia, 0}, {kAmd, 1}, {kIntel, 0}}));
  EXPECT_EQ(grown.unknown, "");
}

TEST(GrownMemory, WhatNobodyCanCompareIsNotKnown) {
  const GrownMemory grown = grown_memory(without_numbers(kSlack), {}, is_odd);
  EXPECT_TRUE(grown.held.empty());
  EXPECT_EQ(grown.unknown, "the driver numbers processes as the host does, and the agent is in a container");
  // Numbers that tell need nothing before; and Intel's own drivers tell nothing, of any job.
  const gpus::GpuReport plain{.driver = "550", .gpus = {{}}, .others = {{.shows_dead = true}, {.is_intel = true}}};
  EXPECT_EQ(grown_memory(plain, {}, is_odd).unknown, "");
  // Not all of the job's processes can be told by number: then nothing is known without them.
  EXPECT_EQ(grown_memory(plain, {.are_all_numbered = false}, is_odd).unknown,
            "this kernel does not tell the numbers of all the job's processes outside of their PID namespace");
}

TEST(HeldMemory, InASentence) {
  EXPECT_EQ(describe({.gpu = {kNvidia, 3}, .pid = 1234, .bytes = 1'200'000'000}, "rank 5"),
            "GPU 3 still holds 1.2 GB of rank 5 (pid 1234), which has ended");
  EXPECT_EQ(describe({.gpu = {kAmd, 0}, .pid = 7}, "python3"),
            "AMD GPU 0 still holds memory of python3 (pid 7), which has ended");
  EXPECT_EQ(describe({.gpu = {kIntel, 1}, .bytes = 1'200'000'000, .why = "its driver does not say"}, ""),
            "Intel GPU 1 has 1.2 GB more in use than before the job, and nobody can say whose it is: its driver does "
            "not say");
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
  // `late`: what was before is asked for first, and known only after the wait has begun.
  std::vector<std::string> await(EndedProcesses ended, milliseconds patience, const gpus::Question& question = {},
                                 bool late = false) {
    gpus::KilledHelpers killed(loop_);
    gpus::Reader reader(loop_, login_, killed, gpus::kSurveyPatience, question);
    GpuRelease release(loop_, reader, patience);
    std::vector<std::string> said;
    if (late) {
      reader.ask([&release](const base::Result<gpus::GpuReport>& report) {
        ASSERT_TRUE(report.ok()) << report.status();
        release.learn_before(in_use(*report, has_ended));
      });
    }
    release.begin(std::move(ended), [&](const std::vector<std::string>& sentences) {
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
  EXPECT_TRUE(await({.pids = {{pid, "rank 0"}, {::getpid(), "rank 1"}}}, std::chrono::minutes(1)).empty());
}

TEST_F(Release, WaitsUntilTheDriverHasReleasedIt) {
  const pid_t pid = gone();
  say(fmt::format("process {} 100\n", pid));
  bool is_released = false;
  const base::Timer released = loop_.after(milliseconds(500), [&] {
    say("");
    is_released = true;
  });
  EXPECT_TRUE(await({.pids = {{pid, "rank 0"}}}, std::chrono::minutes(1)).empty());
  EXPECT_TRUE(is_released);
}

TEST_F(Release, SaysWhatIsHeldAfterThePatience) {
  const pid_t pid = gone();
  say(fmt::format("process {} 1200000000\n", pid));
  EXPECT_EQ(await({.pids = {{pid, "rank 5"}}}, milliseconds(300)),
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
    release->begin({.pids = {{pid, "rank 0"}}},
                   [](const std::vector<std::string>&) { ADD_FAILURE() << "it was given up"; });
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
      await({.pids = {{gone(), "rank 0"}}}, milliseconds(1000)),
      std::vector<std::string>{"whether the GPUs have released the job's memory is not known: no answer within 1 s"});
}

TEST_F(Release, SaysWhenNobodyKnows) {
  say("fail nvmlInit_v2 18\n");
  EXPECT_EQ(
      await({.pids = {{gone(), "rank 0"}}}, milliseconds(300)),
      std::vector<std::string>{"whether the GPUs have released the job's memory is not known: NVIDIA's management "
                               "library does not start: nvmlInit_v2 says Driver/library version mismatch (18)"});
}

// AMD's: its process is listed by KFD until the driver has cleaned up after it.
class AmdRelease : public Release {
 protected:
  AmdRelease() {
    tree_.add_amd(1, 0xc1, 4711);
    tree_.add_kfd_process(pid_, 4711, 1'200'000'000);
    use(1'300'000'000);
  }
  void use(std::uint64_t bytes) const {
    // At once: the helper reads it while we write.
    tree_.set_vram(0xc2, 64'000'000'000, bytes);
    const std::string devices = tree_ / "sys/bus/pci/devices/";
    std::filesystem::create_directories(devices + "0000:c1:00.0");
    std::filesystem::rename(devices + "0000:c2:00.0/mem_info_vram_used", devices + "0000:c1:00.0/mem_info_vram_used");
  }
  gpus::Question files() const { return {.nvidia = false, .files = true, .root = tree_.path()}; }

  const testing_support::GpuTree tree_;
  const pid_t pid_ = gone();
};

TEST_F(AmdRelease, WaitsUntilKfdHasReleasedIt) {
  bool is_released = false;
  const base::Timer released = loop_.after(milliseconds(500), [&] {
    tree_.remove(testing_support::GpuTree::kfd_process(pid_));
    is_released = true;
  });
  EXPECT_TRUE(await({.pids = {{pid_, "rank 0"}}}, std::chrono::minutes(1), files()).empty());
  EXPECT_TRUE(is_released);
}

TEST_F(AmdRelease, SaysWhatKfdHoldsAfterThePatience) {
  EXPECT_EQ(await({.pids = {{pid_, "rank 5"}}}, milliseconds(300), files()),
            std::vector{fmt::format("AMD GPU 0 still holds 1.2 GB of rank 5 (pid {}), which has ended", pid_)});
}

TEST_F(AmdRelease, InAContainerWaitsUntilNoMoreThanBeforeIsUsed) {
  tree_.set_namespace("pid:[4026532837]");
  bool is_released = false;
  const base::Timer released = loop_.after(milliseconds(500), [&] {
    use(100'000'000);
    is_released = true;
  });
  EXPECT_TRUE(
      await({.pids = {{pid_, "rank 0"}}, .before = InUse{{{kAmd, 0}, 90'000'000}}}, std::chrono::minutes(1), files())
          .empty());
  EXPECT_TRUE(is_released);
}

TEST_F(AmdRelease, InAContainerSaysThatNobodyKnowsWhoseItIs) {
  tree_.set_namespace("pid:[4026532837]");
  EXPECT_EQ(await({.pids = {{pid_, "rank 0"}}, .before = InUse{{{kAmd, 0}, 100'000'000}}}, milliseconds(300), files()),
            std::vector<std::string>{
                "AMD GPU 0 has 1.2 GB more in use than before the job, and nobody can say whose it is: the driver "
                "numbers processes as the host does, and the agent is in a container"});
  EXPECT_EQ(await({.pids = {{pid_, "rank 0"}}}, std::chrono::minutes(1), files()),
            std::vector<std::string>{
                "whether the GPUs have released the job's memory is not known: the driver numbers processes as the "
                "host does, and the agent is in a container"});
}

// A job that has ended before anybody has looked.
TEST_F(AmdRelease, InAContainerTheFirstLookMayComeLate) {
  tree_.set_namespace("pid:[4026532837]");
  EXPECT_TRUE(await({.pids = {{pid_, "rank 0"}}}, std::chrono::minutes(1), files(), true).empty());
}

}  // namespace
}  // namespace muster::agent

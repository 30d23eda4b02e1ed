// The real muster-gpus with an emulation of NVIDIA's library (tests/unit/agent/gpus/scripted_nvml.cc), or with files in
// the form of AMD's and Intel's drivers; no GPU is asked.
#include "agent/gpus/gpu_release.h"

#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include <gtest/gtest.h>

#include "base/file.h"
#include "tests/unit/agent/gpus/gpu_tree.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::agent::gpu_release_test {
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

const std::map<pid_t, std::string> kRanks = {{2, "rank 0"}, {3, "rank 1"}, {4, "rank 2"}};

bool all_gone(pid_t) {
  return true;
}

bool is_odd(pid_t pid) {
  return pid % 2 == 1;
}

// So many GPUs of NVIDIA's, "GPU-0" and on.
std::vector<model::GpuShape> known(int count) {
  std::vector<model::GpuShape> gpus;
  for (int i = 0; i < count; ++i) gpus.push_back({.index = i, .uuid = fmt::format("GPU-{}", i)});
  return gpus;
}

// Those that a mask leaves.
AssignedGpus given(const std::vector<model::GpuShape>& gpus, const std::string& mask) {
  AssignedGpus own;
  own.add(gpus, {.cuda = mask});
  return own;
}

// Of masks that nobody can read.
AssignedGpus all_gpus() {
  AssignedGpus all;
  all.add({}, {.cuda = "0", .rocr = "0", .ze = "0"});
  return all;
}

GpuName nvidia(int index) {
  return {.vendor = kNvidia, .index = index};
}

TEST(HeldMemory, OfOurOwnDeadOnly) {
  gpus::GpuReport report{.driver = "550"};
  report.gpus.push_back({.processes = {{.pid = 1, .memory = 5}, {.pid = 2}}});
  report.gpus.push_back({.processes = {{.pid = 2}, {.pid = 3}}});
  const EndedProcesses ended{.pids = kRanks};
  const auto held = held_memory(see(report, {}), ended, [](pid_t pid) { return pid != 3; });  // 3 is another's now
  EXPECT_EQ(held, (std::vector<HeldMemory>{{.gpu = nvidia(0), .pid = 2, .whose = "rank 0"},
                                           {.gpu = nvidia(1), .pid = 2, .whose = "rank 0"}}));
}

TEST(HeldMemory, OfEveryMake) {
  const gpus::GpuReport report{.others = {{.index = 2, .shows_dead = true, .processes = {{.pid = 2, .memory = 7}}},
                                          {.is_intel = true, .processes = {{.pid = 3}}}}};
  EXPECT_EQ(held_memory(see(report, {}), {.pids = kRanks}, all_gone),
            (std::vector<HeldMemory>{{.gpu = {kAmd, 2}, .pid = 2, .bytes = 7, .whose = "rank 0"},
                                     {.gpu = {kIntel, 0}, .pid = 3, .whose = "rank 1"}}));
}

// Another process of the host has that number.
TEST(HeldMemory, NotByNumbersOfAnotherNamespace) {
  gpus::GpuReport report{.driver = "470", .foreign_pids = true};
  report.gpus.push_back({.processes = {{.pid = 2}}});
  report.others.push_back({.shows_dead = true, .foreign_pids = true, .processes = {{.pid = 2}}});
  EXPECT_TRUE(held_memory(see(report, {}), {.pids = kRanks}, all_gone).empty());
}

// A wrapper's child, or a worker that loads data: its parent has reaped it, and nobody here was told of it.
TEST(HeldMemory, OfChildrenThatNobodyHasNamed) {
  gpus::GpuReport report{.driver = "550"};
  report.gpus.push_back({.uuid = "GPU-0", .processes = {{.pid = 71, .memory = 5}}});
  report.gpus.push_back({.uuid = "GPU-1", .processes = {{.pid = 72}, {.pid = 73}, {.pid = 74}}});
  report.others.push_back({.is_intel = true, .processes = {{.pid = 75}}});  // of the living alone
  const auto before = before_job({{.name = nvidia(1), .processes = {{.pid = 73}, {.pid = 72}}}}, all_gone,
                                 [](pid_t pid) { return pid == 73; });
  const EndedProcesses ended{.pids = kRanks, .gpus = given(known(2), "1"), .before = before};
  EXPECT_EQ(held_memory(see(report, known(2)), ended, [](pid_t pid) { return pid != 74; }),
            (std::vector<HeldMemory>{{.gpu = nvidia(1), .pid = 72}}));
}

TEST(InUse, WithoutWhatTheLivingHave) {
  gpus::GpuReport report{.driver = "550"};
  report.gpus.push_back(
      {.memory_total = 100, .memory_used = 60, .processes = {{.pid = 2, .memory = 20}, {.pid = 3, .memory = 9}, {4}}});
  report.gpus.push_back({.memory_used = 60});  // not told: of no total
  report.others = {{.index = 1, .memory_used = 50, .foreign_pids = true, .processes = {{.pid = 2, .memory = 20}}},
                   {.is_intel = true, .memory_used = 5, .processes = {{.pid = 2, .memory = 20}}},
                   {.is_intel = true, .index = 1}};
  EXPECT_EQ(before_job(see(report, {}), is_odd, is_odd).in_use,
            (std::map<GpuName, std::uint64_t>{{nvidia(0), 40}, {{kAmd, 1}, 50}, {{kIntel, 0}, 0}}));
}

// A GPU of each kind whose numbers do not tell, and one where they do.
std::vector<SeenGpu> without_numbers(std::uint64_t used) {
  gpus::GpuReport report{.driver = "470", .foreign_pids = true};
  report.gpus.push_back({.memory_total = 100 * kSlack, .memory_used = used});
  report.others = {{.index = 0, .memory_used = used, .shows_dead = true},
                   {.index = 1, .memory_used = used, .shows_dead = true, .foreign_pids = true},
                   {.is_intel = true, .memory_used = used}};
  return see(report, {});
}

TEST(GrownMemory, IsComparedWhereNumbersDoNotTell) {
  const EndedProcesses ended{.gpus = all_gpus(), .before = before_job(without_numbers(kSlack), is_odd, is_odd)};
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
  EXPECT_EQ(names, (std::vector<GpuName>{nvidia(0), {kAmd, 1}, {kIntel, 0}}));
  EXPECT_EQ(grown.unknown, "");
}

// What somebody else's job takes meanwhile on GPUs that were not ours.
TEST(GrownMemory, OnTheJobsOwnGpusAlone) {
  const auto used = [](std::uint64_t first, std::uint64_t second) {
    gpus::GpuReport report{.driver = "470", .foreign_pids = true};
    report.gpus.push_back({.uuid = "GPU-0", .memory_total = 100 * kSlack, .memory_used = first});
    report.gpus.push_back({.uuid = "GPU-1", .memory_total = 100 * kSlack, .memory_used = second});
    return see(report, known(2));
  };
  const EndedProcesses ended{.gpus = given(known(2), "GPU-1"), .before = before_job(used(0, 0), is_odd, is_odd)};
  EXPECT_TRUE(grown_memory(used(9 * kSlack, 0), ended, is_odd).held.empty());
  const auto held = grown_memory(used(9 * kSlack, 2 * kSlack), ended, is_odd).held;
  ASSERT_EQ(held.size(), 1u);
  EXPECT_EQ(held[0].gpu, nvidia(1));
  // Nor does it matter that nobody can say anything of those.
  const EndedProcesses of_intel{.gpus = given(known(2), "-1")};
  EXPECT_EQ(grown_memory(used(0, 0), of_intel, is_odd).unknown, "");
}

TEST(GrownMemory, WhatNobodyCanCompareIsNotKnown) {
  const GrownMemory grown = grown_memory(without_numbers(kSlack), {.gpus = all_gpus()}, is_odd);
  EXPECT_TRUE(grown.held.empty());
  EXPECT_EQ(grown.unknown, "the driver reports the host's process IDs, but the agent runs in a container");
  // Numbers that tell need nothing before; and Intel's own drivers tell nothing, of any job.
  const auto plain = see({.driver = "550", .gpus = {{}}, .others = {{.shows_dead = true}, {.is_intel = true}}}, {});
  EXPECT_EQ(grown_memory(plain, {.gpus = all_gpus()}, is_odd).unknown, "");
  // Not all of the job's processes can be told by number: then nothing is known without them.
  EXPECT_EQ(grown_memory(plain, {.are_all_numbered = false, .gpus = all_gpus()}, is_odd).unknown,
            "this kernel does not report the IDs that all the job's processes have outside of their PID namespace");
}

gpus::NvidiaGpu divided() {
  return {.uuid = "GPU-0",
          .memory_total = 100,
          .memory_used = 90,
          .is_divided = true,
          .parts = {{.uuid = "MIG-a", .memory_total = 40, .memory_used = 30, .processes = {{.pid = 7}}},
                    {.uuid = "MIG-b", .memory_total = 50, .memory_used = 8, .processes = {{.pid = 8}}}},
          .processes = {{.pid = 7}, {.pid = 8}, {.pid = 9}}};
}

TEST(HeldMemory, OfPartsEachByItself) {
  const auto seen = see({.driver = "550", .gpus = {divided()}}, known(1));
  std::vector<model::GpuShape> gpus = known(1);
  gpus[0].is_divided = true;
  gpus[0].parts = {{.uuid = "MIG-a"}, {.uuid = "MIG-b"}};
  const GpuName part{.vendor = kNvidia, .index = 0, .uuid = "MIG-b"};
  // 7 is another job's, in its part; where 9 has been nobody says.
  const EndedProcesses ended{.gpus = given(gpus, "MIG-b")};
  EXPECT_EQ(held_memory(seen, ended, all_gone),
            (std::vector<HeldMemory>{{.gpu = nvidia(0), .pid = 9}, {.gpu = part, .pid = 8}}));
  EXPECT_EQ(before_job(seen, all_gone, all_gone).in_use,
            (std::map<GpuName, std::uint64_t>{{{kNvidia, 0, "MIG-a"}, 30}, {part, 8}}));
}

TEST(HeldMemory, InASentence) {
  EXPECT_EQ(describe({.gpu = nvidia(3), .pid = 1234, .bytes = 1'200'000'000, .whose = "rank 5"}),
            "GPU 3 still holds 1.2 GB of rank 5 (pid 1234), which has ended");
  EXPECT_EQ(describe({.gpu = {kAmd, 0}, .pid = 7, .whose = "python3"}),
            "AMD GPU 0 still holds memory of python3 (pid 7), which has ended");
  EXPECT_EQ(describe({.gpu = {kNvidia, 3, "MIG-a"}, .pid = 7, .bytes = 1'200'000'000}),
            "MIG-a of GPU 3 still holds 1.2 GB of a process that has ended (pid 7): a child of a rank, if no other job "
            "uses that GPU");
  EXPECT_EQ(describe({.gpu = {kIntel, 1}, .bytes = 1'200'000'000, .why = "its driver does not say"}),
            "Intel GPU 1 has 1.2 GB more in use than before the job, by an unknown process: its driver does "
            "not say");
}

class Release : public ::testing::Test {
 protected:
  Release() {
    std::filesystem::copy(MUSTER_SCRIPTED_NVML, dir_.path() + "/libnvidia-ml.so.1");
    login_.set("LD_LIBRARY_PATH", dir_.path());
  }

  void say(const std::string& processes) {
    // At once: the library reads it while we write.
    dir_.write("new", "driver 550\ngpu 0000:1b:00.0 GPU-a 100 0 5 H100\n" + processes);
    std::filesystem::rename(dir_ / "new", dir_ / "script");
  }

  // What the helper was asked before: it has answered, and its start takes none of the patience; what was before the
  // job is asked for first, and known only after the wait has begun; nothing.
  enum class Before { kAnswer, kQuestion, kNothing };

  // Until it is done.
  std::vector<std::string> await(EndedProcesses ended, milliseconds patience, const gpus::Question& question = {},
                                 Before before = Before::kAnswer) {
    gpus::KilledHelpers killed(loop_);
    gpus::Reader reader(loop_, login_, killed, gpus::kSurveyPatience, question);
    if (before == Before::kAnswer) {
      reader.ask([this](const base::Result<gpus::GpuReport>&) { loop_.stop(); });
      loop_.run();
    }
    GpuRelease release(loop_, reader, known_, told_, patience);
    std::vector<std::string> said;
    if (before == Before::kQuestion) {
      reader.ask([&release](const base::Result<gpus::GpuReport>& report) {
        ASSERT_TRUE(report.ok()) << report.status();
        release.learn_before(before_job(see(*report, {}), has_ended, has_ended));
      });
    }
    release.begin(std::move(ended), [&](const std::vector<std::string>& sentences) {
      said = sentences;
      loop_.stop();
    });
    loop_.run();
    return said;
  }

  // The driver does so after a while: until then it is waited for.
  void expect_wait_until(const std::function<void()>& release, EndedProcesses ended,
                         const gpus::Question& question = {}) {
    bool is_released = false;
    const base::Timer released = loop_.after(milliseconds(500), [&] {
      release();
      is_released = true;
    });
    EXPECT_TRUE(await(std::move(ended), std::chrono::minutes(1), question).empty());
    EXPECT_TRUE(is_released);
  }

  const testing_support::TempDir dir_;
  base::Environment login_;
  base::Loop loop_;
  std::vector<model::GpuShape> known_;
  std::string told_;
};

TEST_F(Release, NothingHeldIsSaidAtOnce) {
  const pid_t pid = gone();
  say(fmt::format("process {} 100\n", ::getpid()));
  EXPECT_TRUE(await({.pids = {{pid, "rank 0"}, {::getpid(), "rank 1"}}}, std::chrono::minutes(1)).empty());
}

TEST_F(Release, WaitsUntilTheDriverHasReleasedIt) {
  const pid_t pid = gone();
  say(fmt::format("process {} 100\n", pid));
  expect_wait_until([this] { say(""); }, {.pids = {{pid, "rank 0"}}});
}

TEST_F(Release, SaysWhatIsHeldAfterThePatience) {
  const pid_t pid = gone();
  say(fmt::format("process {} 1200000000\n", pid));
  EXPECT_EQ(await({.pids = {{pid, "rank 5"}}}, milliseconds(300)),
            std::vector{fmt::format("GPU 0 still holds 1.2 GB of rank 5 (pid {}), which has ended", pid)});
}

TEST_F(Release, AnAnswerThatWasOnItsWayDoesNotCount) {
  say("");
  dir_.write("calls", "");
  EXPECT_TRUE(await({.pids = {{gone(), "rank 0"}}}, std::chrono::minutes(1), {}, Before::kQuestion).empty());
  const auto calls = base::read_file(dir_ / "calls", 1 << 16);
  ASSERT_TRUE(calls.ok()) << calls.status();
  EXPECT_EQ(*calls, "nvmlInit_v2\nnvmlDeviceGetCount_v2\nnvmlDeviceGetCount_v2\n");
}

// The job is to end at once: in the middle of a look, and between two.
TEST_F(Release, WhoIsGivenUpSaysNothing) {
  const pid_t pid = gone();
  say(fmt::format("process {} 100\n", pid));
  gpus::KilledHelpers killed(loop_);
  gpus::Reader reader(loop_, login_, killed);
  std::optional<GpuRelease> release;
  const auto begin = [&] {
    release.emplace(loop_, reader, known_, "", std::chrono::minutes(1));
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

// Reaped by a wrapper that was the rank.
TEST_F(Release, WaitsForAChildOfARank) {
  const pid_t rank = gone();
  const pid_t child = gone();
  known_ = {{.index = 0, .uuid = "GPU-a"}};
  say(fmt::format("process {} 1200000000\n", child));
  EXPECT_EQ(await({.pids = {{rank, "rank 0"}}, .gpus = given(known_, "0")}, milliseconds(300)),
            std::vector{fmt::format("GPU 0 still holds 1.2 GB of a process that has ended (pid {}): a child of a rank, "
                                    "if no other job uses that GPU",
                                    child)});
  expect_wait_until([this] { say(""); }, {.pids = {{rank, "rank 0"}}, .gpus = given(known_, "0")});
}

// The number is the one that it had at the start, though the report lists it first now.
TEST_F(Release, AGpuThatHasGoneMovesNoNumber) {
  const pid_t pid = gone();
  known_ = {{.index = 0, .uuid = "GPU-lost"}, {.index = 1, .uuid = "GPU-a"}};
  say(fmt::format("process {} 1200000000\n", pid));
  EXPECT_EQ(await({.pids = {{pid, "rank 5"}}}, milliseconds(300)),
            std::vector{fmt::format("GPU 1 still holds 1.2 GB of rank 5 (pid {}), which has ended", pid)});
}

TEST_F(Release, OfALostGpuNobodyKnows) {
  known_ = {{.index = 0, .uuid = "GPU-lost"}, {.index = 1, .uuid = "GPU-a"}};
  say("gpu 0000:43:00.0 GPU-lost 100 0 5 H100\nfail nvmlDeviceGetUUID 15\n");
  const std::vector<std::string> said =
      await({.pids = {{gone(), "rank 5"}}, .gpus = all_gpus()}, std::chrono::minutes(1));
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].find("unknown whether the GPUs have released the job's memory: GPU 0 of nvidia-smi cannot be "
                         "used: nvmlDeviceGetUUID failed: GPU is lost (15)"),
            0u)
      << said[0];
}

TEST_F(Release, ADriverThatHangsEndsTheWaitAllTheSame) {
  say("hang nvmlDeviceGetMemoryInfo\n");
  EXPECT_EQ(await({.pids = {{gone(), "rank 0"}}, .gpus = all_gpus()}, milliseconds(1000), {}, Before::kNothing),
            std::vector<std::string>{"unknown whether the GPUs have released the job's memory: no answer within 1 s"});
}

TEST_F(Release, SaysWhenNobodyKnows) {
  say("fail nvmlInit_v2 18\n");
  EXPECT_EQ(
      await({.pids = {{gone(), "rank 0"}}, .gpus = all_gpus()}, std::chrono::minutes(1)),
      std::vector<std::string>{"unknown whether the GPUs have released the job's memory: NVIDIA's management "
                               "library does not start: nvmlInit_v2 failed: Driver/library version mismatch (18)"});
}

TEST_F(Release, WhatWasSaidAtTheStartIsNotSaidAgain) {
  say("fail nvmlInit_v2 18\n");
  told_ = "NVIDIA's management library does not start: nvmlInit_v2 failed: Driver/library version mismatch (18)";
  EXPECT_TRUE(await({.pids = {{gone(), "rank 0"}}, .gpus = all_gpus()}, std::chrono::minutes(1)).empty());
}

TEST_F(Release, ALibraryThatHadFailedIsAskedAgain) {
  const pid_t pid = gone();
  told_ = "NVIDIA's management library does not start: nvmlInit_v2 failed: Driver/library version mismatch (18)";
  say(fmt::format("process {} 1200000000\n", pid));
  EXPECT_EQ(await({.pids = {{pid, "rank 5"}}}, milliseconds(300)),
            std::vector{fmt::format("GPU 0 still holds 1.2 GB of rank 5 (pid {}), which has ended", pid)});
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
  expect_wait_until([this] { tree_.remove(testing_support::GpuTree::kfd_process(pid_)); }, {.pids = {{pid_, "rank 0"}}},
                    files());
}

TEST_F(AmdRelease, SaysWhatKfdHoldsAfterThePatience) {
  EXPECT_EQ(await({.pids = {{pid_, "rank 5"}}}, milliseconds(300), files()),
            std::vector{fmt::format("AMD GPU 0 still holds 1.2 GB of rank 5 (pid {}), which has ended", pid_)});
}

TEST_F(AmdRelease, InAContainerWaitsUntilNoMoreThanBeforeIsUsed) {
  tree_.set_namespace("pid:[4026532837]");
  expect_wait_until(
      [this] { use(100'000'000); },
      {.pids = {{pid_, "rank 0"}}, .gpus = all_gpus(), .before = GpusBefore{.in_use = {{{kAmd, 0}, 90'000'000}}}},
      files());
}

TEST_F(AmdRelease, InAContainerSaysThatNobodyKnowsWhoseItIs) {
  tree_.set_namespace("pid:[4026532837]");
  EXPECT_EQ(
      await(
          {.pids = {{pid_, "rank 0"}}, .gpus = all_gpus(), .before = GpusBefore{.in_use = {{{kAmd, 0}, 100'000'000}}}},
          milliseconds(300), files()),
      std::vector<std::string>{"AMD GPU 0 has 1.2 GB more in use than before the job, by an unknown process: the "
                               "driver reports the host's process IDs, but the agent runs in a container"});
  EXPECT_EQ(await({.pids = {{pid_, "rank 0"}}, .gpus = all_gpus()}, std::chrono::minutes(1), files()),
            std::vector<std::string>{"unknown whether the GPUs have released the job's memory: the driver reports "
                                     "the host's process IDs, but the agent runs in a container"});
}

// A job that has ended before anybody has looked.
TEST_F(AmdRelease, InAContainerTheFirstLookMayComeLate) {
  tree_.set_namespace("pid:[4026532837]");
  EXPECT_TRUE(
      await({.pids = {{pid_, "rank 0"}}, .gpus = all_gpus()}, std::chrono::minutes(1), files(), Before::kQuestion)
          .empty());
}

}  // namespace
}  // namespace muster::agent::gpu_release_test

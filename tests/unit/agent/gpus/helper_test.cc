// The real muster-gpus, with an emulation of NVIDIA's library (scripted_nvml.cc) that it finds as it would find the
// real one. No GPU is asked.
#include "agent/gpus/helper.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <functional>

#include <gtest/gtest.h>

#include "agent/gpus/killed_helpers.h"
#include "agent/gpus/reader.h"
#include "base/directory.h"
#include "tests/unit/agent/gpus/gpu_tree.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::agent::gpus::helper_test {
namespace {

constexpr const char* kTwoGpus =
    "driver 550.54.15\n"
    "gpu 0000:1b:00.0 GPU-aaaa 85899345920 1073741824 37 NVIDIA H100 80GB HBM3\n"
    "process 4242 536870912\n"
    "process 17 -\n"
    "gpu 0001:43:00.0 GPU-bbbb 85899345920 0 - NVIDIA H100 80GB HBM3\n"
    "divided\n"
    "part MIG-1111 10737418240 12345678 NVIDIA H100 80GB HBM3 MIG 1g.10gb\n"
    "process 99 1048576\n"
    "gap\n"
    "part MIG-2222 21474836480 0 NVIDIA H100 80GB HBM3 MIG 2g.20gb\n";

// A folder with the library and what it answers.
class Scripted {
 public:
  explicit Scripted(const std::string& script, const char* library = MUSTER_SCRIPTED_NVML_NEW) {
    std::filesystem::copy(library, dir_.path() + "/libnvidia-ml.so.1");
    say(script);
  }
  void say(const std::string& script) { dir_.write("script", script); }
  base::Environment login() const {
    base::Environment environment;
    environment.set("LD_LIBRARY_PATH", dir_.path());
    return environment;
  }

 private:
  const testing_support::TempDir dir_;
};

TEST(GpuHelper, TellsWhatTheLibraryTells) {
  for (const char* const library : {MUSTER_SCRIPTED_NVML_NEW, MUSTER_SCRIPTED_NVML_BETWEEN, MUSTER_SCRIPTED_NVML_OLD}) {
    SCOPED_TRACE(library);
    const Scripted scripted(kTwoGpus, library);
    const auto report = survey_blocking(scripted.login());
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->problem, "");
    EXPECT_EQ(report->driver, "550.54.15");
    ASSERT_EQ(report->gpus.size(), 2u);
    const NvidiaGpu whole{.uuid = "GPU-aaaa",
                          .model = "NVIDIA H100 80GB HBM3",
                          .pci = "0000:1b:00.0",
                          .memory_total = 85'899'345'920,
                          .memory_used = 1'073'741'824,
                          .busy_percent = 37,
                          .knows_processes = true,
                          .processes = {{.pid = 17}, {.pid = 4242, .memory = 536'870'912}}};
    EXPECT_EQ(report->gpus[0], whole);
    const NvidiaGpu& divided = report->gpus[1];
    EXPECT_EQ(divided.pci, "0001:43:00.0");
    EXPECT_TRUE(divided.is_divided);
    EXPECT_FALSE(divided.busy_percent);
    ASSERT_EQ(divided.parts.size(), 2u);
    EXPECT_EQ(divided.parts[1].uuid, "MIG-2222");
    EXPECT_EQ(divided.parts[1].model, "NVIDIA H100 80GB HBM3 MIG 2g.20gb");
    EXPECT_EQ(divided.parts[1].memory_total, 21'474'836'480u);
    EXPECT_EQ(divided.processes, (std::vector<GpuProcess>{{.pid = 99, .memory = 1'048'576}}));
    EXPECT_EQ(divided.parts[0].processes, divided.processes);
    EXPECT_TRUE(divided.parts[1].processes.empty());
  }
}

TEST(GpuHelper, TellsWhatFilesTellWithoutTheLibrary) {
  const testing_support::GpuTree tree;
  tree.add_amd(1, 0xc1, 4711);
  tree.set_vram(0xc1, 1 << 30, 1 << 20);
  tree.add_kfd_process(100, 4711, 1 << 19);
  tree.add_intel("card0", 3);
  base::Environment nowhere;
  nowhere.set("LD_LIBRARY_PATH", "/nonexistent");
  const auto report =
      survey_blocking(nowhere, kSurveyPatience, nullptr, {.nvidia = false, .files = true, .root = tree.path()});
  ASSERT_TRUE(report.ok()) << report.status();
  const FileGpu amd{.pci = "0000:c1:00.0",
                    .memory_used = 1 << 20,
                    .shows_all = true,
                    .shows_dead = true,
                    .processes = {{.pid = 100, .memory = 1 << 19}}};
  const FileGpu intel{.is_intel = true, .pci = "0000:03:00.0", .shows_all = ::geteuid() == 0};
  EXPECT_EQ(*report, (GpuReport{.others = {amd, intel}}));
}

TEST(GpuHelper, TellsWhatNvidiasFilesTell) {
  const testing_support::GpuTree tree;
  const auto write = [&tree](const char* address, const std::string& model, const char* uuid) {
    tree.write(fmt::format("proc/driver/nvidia/gpus/{}/information", address),
               fmt::format("Model: \t\t {}\nGPU UUID: \t {}\n", model, uuid));
  };
  write("0000:43:00.0", std::string(2 * kMaxText, 'x'), "GPU-????????");
  write("0000:1b:00.0", "NVIDIA H200", "GPU-a");
  const Question question{.nvidia = false, .nvidia_files = true, .root = tree.path()};
  const auto report = survey_blocking({}, kSurveyPatience, nullptr, question);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->nvidia_files, (std::vector<NvidiaFile>{{"0000:1b:00.0", "GPU-a", "NVIDIA H200"},
                                                           {"0000:43:00.0", "", std::string(kMaxText, 'x')}}));
}

TEST(GpuHelper, TellsBothOfAHostThatHasBoth) {
  const testing_support::GpuTree tree;
  tree.add_amd(1, 0xc1, 4711);
  const Scripted scripted(kTwoGpus);
  const auto report = survey_blocking(scripted.login(), kSurveyPatience, nullptr, {.files = true, .root = tree.path()});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->gpus.size(), 2u);
  EXPECT_EQ(report->others, (std::vector<FileGpu>{{.pci = "0000:c1:00.0", .shows_all = true, .shows_dead = true}}));
}

// NVIDIA's driver in a container: an older one answers with the numbers of the host.
TEST(GpuHelper, WhoseNumbersTheDriverTells) {
  const testing_support::GpuTree tree;
  tree.set_namespace("pid:[4026532837]");
  for (const auto& [driver, is_foreign] : {std::pair("470.256.02", true), std::pair("550.54.15", false)}) {
    const Scripted scripted(fmt::format("driver {}\ngpu 0000:01:00.0 GPU-a 1 0 5 A\nprocess 7 1\n", driver));
    const auto report = survey_blocking(scripted.login(), kSurveyPatience, nullptr, {.root = tree.path()});
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->foreign_pids, is_foreign) << driver;
  }
}

TEST(GpuHelper, SaysWhatIsWrongWithTheLibrary) {
  base::Environment nowhere;
  nowhere.set("LD_LIBRARY_PATH", "/nonexistent");
  const auto missing = survey_blocking(nowhere);
  ASSERT_TRUE(missing.ok()) << missing.status();
  // Where a machine has the real one, that is what answers.
  if (missing->driver.empty()) {
    EXPECT_EQ(missing->problem.find("NVIDIA's management library cannot be loaded (libnvidia-ml.so.1: "), 0u)
        << missing->problem;
  }
  const Scripted other_version("driver 550\nfail nvmlInit_v2 18\n");
  const auto report = survey_blocking(other_version.login());
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->problem,
            "NVIDIA's management library does not start: nvmlInit_v2 failed: Driver/library version mismatch (18)");
  EXPECT_EQ(report->driver, "");
}

TEST(GpuHelper, OneGpuThatFailsLeavesTheOthers) {
  const Scripted scripted(
      "driver 550\ngpu 0000:01:00.0 GPU-a 1 0 5 A\nclosed\ngpu 0000:02:00.0 GPU-b 1 0 5 B\n"
      "fail nvmlDeviceGetMemoryInfo 15\n");
  const auto report = survey_blocking(scripted.login());
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_EQ(report->gpus.size(), 1u);
  EXPECT_EQ(report->gpus[0].uuid, "GPU-b");
  EXPECT_EQ(report->gpus[0].memory_total, 0u);
}

TEST(GpuHelper, ADriverThatHangsHangsNobodyElse) {
  const Scripted scripted(std::string(kTwoGpus) + "hang nvmlDeviceGetMemoryInfo\n");
  const auto report = survey_blocking(scripted.login(), std::chrono::milliseconds(300));
  EXPECT_EQ(report.status().code(), base::Code::kDeadlineExceeded);
  EXPECT_EQ(
      report.status().message(),
      "NVIDIA's management library has not answered within 0.3 s: the driver may hang; try nvidia-smi on that host");
  std::optional<Helper> hung;
  EXPECT_FALSE(survey_blocking(scripted.login(), std::chrono::milliseconds(300), &hung).ok());
  ASSERT_TRUE(hung);
  EXPECT_EQ(::kill(hung->pid(), 0), 0) << "it is the caller's to end";
}

TEST(GpuHelper, LeavesNothingOpen) {
  const Scripted scripted(kTwoGpus);
  const auto before = base::entries_of("/proc/self/fd");
  ASSERT_TRUE(survey_blocking(scripted.login()).ok());
  EXPECT_EQ(base::entries_of("/proc/self/fd"), before);
}

// As in an agent that has just begun: the next descriptors are those that the helper uses for itself.
TEST(GpuHelper, TheFirstDescriptorsMayBeFree) {
  constexpr int kFirst = 3;
  const Scripted scripted(kTwoGpus);
  const base::UniqueFd kept(::fcntl(kFirst, F_DUPFD_CLOEXEC, 64));  // invalid: it is free already
  ::close(kFirst);
  const auto report = survey_blocking(scripted.login());
  std::vector<base::UniqueFd> taken;
  taken.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const auto again = survey_blocking(scripted.login());
  taken.clear();
  if (kept.valid()) ::dup2(kept.get(), kFirst);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->gpus.size(), 2u);
  EXPECT_TRUE(again.ok()) << again.status();
}

TEST(GpuHelper, IsWorthAProcessOnlyWhereADriverIs) {
  testing_support::TempDir root;
  EXPECT_FALSE(has_nvidia_driver(root.path()));
  std::filesystem::create_directories(root.path() + "/proc/driver/nvidia");
  EXPECT_TRUE(has_nvidia_driver(root.path()));
}

// Runs the loop until `is_so`.
void run_until(base::Loop& loop, const std::function<bool()>& is_so) {
  const base::Timer look = loop.every(std::chrono::milliseconds(1), [&] {
    if (is_so()) loop.stop();
  });
  const base::Timer late = loop.after(std::chrono::seconds(60), [&] {
    ADD_FAILURE() << "it has not come";
    loop.stop();
  });
  loop.run();
}

bool is_reaped(pid_t pid) {
  return ::kill(pid, 0) != 0 && errno == ESRCH;
}

// A child of ours that goes on, as one does that hangs in the kernel after a SIGKILL.
pid_t start_stuck() {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::alarm(120);
    while (true) ::pause();
  }
  return pid;
}

TEST(KilledGpuHelpers, AreReapedWhenTheyEndAndNobodyWaits) {
  const pid_t first = start_stuck();
  const pid_t second = start_stuck();
  base::Loop loop;
  KilledHelpers killed(loop);
  killed.take(first);
  killed.take(second);
  EXPECT_EQ(killed.pids(), (std::vector<pid_t>{first, second}));
  EXPECT_FALSE(killed.are_all_gone());
  ::kill(first, SIGKILL);
  run_until(loop, [&] { return killed.pids().size() == 1; });
  EXPECT_TRUE(is_reaped(first));
  EXPECT_EQ(killed.pids(), std::vector<pid_t>{second});
  ::kill(second, SIGKILL);
  run_until(loop, [&] { return killed.pids().empty(); });
  EXPECT_TRUE(is_reaped(second));
  EXPECT_TRUE(killed.are_all_gone());
}

// Where no descriptor tells their end (before Linux 5.3), and nobody has let the loop run yet.
TEST(KilledGpuHelpers, AreReapedByWhoAsks) {
  const pid_t pid = start_stuck();
  base::Loop loop;
  KilledHelpers killed(loop);
  killed.take(pid);
  ::kill(pid, SIGKILL);
  siginfo_t end{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(pid), &end, WEXITED | WNOWAIT), 0);
  EXPECT_TRUE(killed.are_all_gone());
  EXPECT_TRUE(is_reaped(pid));
}

TEST(KilledGpuHelpers, AtTheEndNobodyWaitsLong) {
  const pid_t first = start_stuck();
  const pid_t second = start_stuck();
  base::Loop loop;
  const auto before = std::chrono::steady_clock::now();
  {
    KilledHelpers killed(loop);
    killed.take(first);
    killed.take(second);
    ::kill(second, SIGKILL);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(30));
  EXPECT_FALSE(is_reaped(first));
  EXPECT_TRUE(is_reaped(second));
  ::kill(first, SIGKILL);
  EXPECT_EQ(::waitpid(first, nullptr, 0), first);
}

// Asks and runs the loop until the answer.
base::Result<GpuReport> answer_of(base::Loop& loop, Reader& reader) {
  base::Result<GpuReport> answer = base::error(base::Code::kUnknown, "none");
  reader.ask([&](const base::Result<GpuReport>& report) {
    answer = report;
    loop.stop();
  });
  loop.run();
  return answer;
}

TEST(GpuReader, AsksTheSameHelperAgain) {
  Scripted scripted(kTwoGpus);
  base::Loop loop;
  const base::Environment login = scripted.login();
  KilledHelpers killed(loop);
  Reader reader(loop, login, killed);
  EXPECT_EQ(reader.pid(), 0);
  ASSERT_EQ(answer_of(loop, reader)->gpus.size(), 2u);
  const pid_t pid = reader.pid();
  EXPECT_GT(pid, 0);
  scripted.say("driver 550\ngpu 0000:1b:00.0 GPU-aaaa 100 0 99 H100\n");
  const auto again = answer_of(loop, reader);
  ASSERT_EQ(again->gpus.size(), 1u);
  EXPECT_EQ(again->gpus[0].busy_percent, 99);
  EXPECT_EQ(reader.pid(), pid);
}

// An update replaces it while the driver is loaded anew: a process that has the old one never gets on with the new one.
TEST(GpuReader, ALibraryThatFailsIsLoadedByAnotherProcess) {
  Scripted scripted("driver 550\nfail nvmlInit_v2 18\n");
  base::Loop loop;
  const base::Environment login = scripted.login();
  KilledHelpers killed(loop);
  Reader reader(loop, login, killed);
  const auto failed = answer_of(loop, reader);
  ASSERT_TRUE(failed.ok()) << failed.status();
  EXPECT_EQ(failed->driver, "");
  EXPECT_EQ(reader.pid(), 0);
  scripted.say(kTwoGpus);
  EXPECT_EQ(answer_of(loop, reader)->gpus.size(), 2u);
  EXPECT_NE(reader.pid(), 0);
}

TEST(GpuReader, AsksAnotherWhenOneHasDied) {
  const Scripted scripted(kTwoGpus);
  base::Loop loop;
  const base::Environment login = scripted.login();
  KilledHelpers killed(loop);
  Reader reader(loop, login, killed);
  ASSERT_TRUE(answer_of(loop, reader).ok());
  const pid_t pid = reader.pid();
  ::kill(pid, SIGKILL);
  const auto again = answer_of(loop, reader);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->gpus.size(), 2u);
  EXPECT_NE(reader.pid(), pid);
  run_until(loop, [&] { return is_reaped(pid); });
}

// The library has ended it, and would end the next one: that is an answer.
TEST(GpuReader, OneThatDiesOfTheQuestionIsNotAskedAgain) {
  const Scripted scripted(std::string(kTwoGpus) + "crash nvmlDeviceGetCount_v2\n");
  base::Loop loop;
  const base::Environment login = scripted.login();
  KilledHelpers killed(loop);
  Reader reader(loop, login, killed);
  const auto failed = answer_of(loop, reader);
  EXPECT_EQ(failed.status().code(), base::Code::kUnavailable) << failed.status();
  EXPECT_EQ(reader.pid(), 0);
  run_until(loop, [&] { return killed.pids().empty(); });
}

TEST(GpuReader, AsksADriverThatHangsNoMore) {
  const Scripted scripted(std::string(kTwoGpus) + "hang nvmlInit_v2\n");
  base::Loop loop;
  const base::Environment login = scripted.login();
  KilledHelpers killed(loop);
  Reader reader(loop, login, killed, std::chrono::milliseconds(50));
  for (int i = 0; i < kMostTimeouts; ++i) {
    EXPECT_EQ(answer_of(loop, reader).status().code(), base::Code::kDeadlineExceeded);
    EXPECT_EQ(reader.pid(), 0);
  }
  int answers = 0;
  const base::Timer late = loop.after(std::chrono::seconds(20), [&] { loop.stop(); });
  for (int i = 0; i < 2; ++i) {
    reader.ask([&](const base::Result<GpuReport>& report) {
      EXPECT_FALSE(report.ok());
      if (++answers == 2) loop.stop();
    });
  }
  EXPECT_EQ(reader.pid(), 0);  // none was started
  loop.run();
  EXPECT_EQ(answers, 2);
  run_until(loop, [&] { return killed.pids().empty(); });
}

TEST(GpuReader, AsksADriverAgainThatDoesNotHangAnyMore) {
  Scripted scripted(std::string(kTwoGpus) + "hang nvmlInit_v2\n");
  base::Loop loop;
  const base::Environment login = scripted.login();
  KilledHelpers killed(loop);
  Reader reader(loop, login, killed, std::chrono::milliseconds(1000), {}, std::chrono::milliseconds(0));
  for (int i = 0; i < kMostTimeouts; ++i) EXPECT_FALSE(answer_of(loop, reader).ok());
  scripted.say(kTwoGpus);
  const pid_t stuck = start_stuck();
  killed.take(stuck);
  EXPECT_FALSE(answer_of(loop, reader).ok()) << "one of those before still hangs";
  ::kill(stuck, SIGKILL);
  auto well = answer_of(loop, reader);
  // To a busy machine a helper's start may be too long.
  for (int i = 0; i < 20 && !well.ok(); ++i) {
    run_until(loop, [&] { return killed.pids().empty(); });
    well = answer_of(loop, reader);
  }
  ASSERT_TRUE(well.ok()) << well.status();
  EXPECT_EQ(well->gpus.size(), 2u);
}

}  // namespace
}  // namespace muster::agent::gpus::helper_test

// What a job of some `true` costs on one host with a warm agent: from OpenJob to JobClosed, one after the other, with a
// launcher that does nothing but that. Wall time of each job; and, with a cpuacct group (cgroup v1), the processor time
// of the agent and all that it starts, but not of the launcher.
//
//   warm_job [jobs [ranks [contain [DIRECTORY-OF-A-CPUACCT-GROUP]]]]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "agent/proc/proc_table.h"
#include "base/file.h"
#include "base/ids.h"
#include "tests/unit/agent/job/warm_harness.h"
#include "tests/unit/agent/process/agent_harness.h"

namespace muster {
namespace {

using namespace agent::testing;
using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;

// Of all that has ever been in the group, in ms.
double cpu_time(const std::string& group) {
  const auto text = base::read_file(group + "/cpuacct.usage");
  return text.ok() ? std::strtod(text->c_str(), nullptr) / 1e6 : 0;
}

double one_job(FakeLauncher& launcher, const LauncherState& state, const std::string& contain, int ranks) {
  const std::string job = base::JobId::random().str();
  const auto begin = Clock::now();
  v1::LauncherMessage order = open_job(job, state);
  order.mutable_open_job()->set_contain(contain);
  launcher.send(order);
  launcher.next_of(job, v1::AgentMessage::kJobOpened);
  launcher.send(prepare(job));
  launcher.next_of(job, v1::AgentMessage::kPrepared);
  launcher.send(launch(job, std::vector<std::vector<std::string>>(static_cast<std::size_t>(ranks), {"true"})));
  launcher.next_of(job, v1::AgentMessage::kHostEmpty);
  launcher.send(leave(job));
  launcher.next_of(job, v1::AgentMessage::kJobClosed);
  return Milliseconds(Clock::now() - begin).count();
}

int run(int jobs, int ranks, const std::string& contain, const std::string& group) {
  LauncherState state;
  const Playground ground;
  FakeLauncher launcher(state, "bench");
  const WarmAgent agent(state, ground.session_root());
  launcher.next_hello();
  if (!group.empty()) {
    for (const pid_t pid : processes_with("--stdio")) {
      const auto info = agent::read_process(pid);
      if (pid != agent.pid() && (!info || info->parent != agent.pid())) continue;
      std::FILE* const file = std::fopen((group + "/cgroup.procs").c_str(), "w");
      if (file == nullptr || std::fprintf(file, "%d\n", pid) < 0) return 1;
      std::fclose(file);
    }
  }
  for (int i = 0; i < 5; ++i) one_job(launcher, state, contain, ranks);
  const double cpu_before = group.empty() ? 0 : cpu_time(group);
  std::vector<double> walls;
  for (int i = 0; i < jobs; ++i) walls.push_back(one_job(launcher, state, contain, ranks));
  const double cpu = group.empty() ? 0 : (cpu_time(group) - cpu_before) / jobs;
  std::ranges::sort(walls);
  std::printf("%d jobs of %d ranks, contain %s: wall median %.2f ms, p90 %.2f ms; cpu %.2f ms a job\n", jobs, ranks,
              contain.c_str(), walls[walls.size() / 2], walls[walls.size() * 9 / 10], cpu);
  return 0;
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  const auto argument = [&](int i, const char* otherwise) { return std::string(argc > i ? argv[i] : otherwise); };
  return muster::run(std::max(1, std::atoi(argument(1, "100").c_str())),
                     std::max(1, std::atoi(argument(2, "1").c_str())), argument(3, "auto"), argument(4, ""));
}

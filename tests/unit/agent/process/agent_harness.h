// For tests of the warden: children that play the agent, as root or as an ordinary user, and a look at what is left.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "agent/process/warden.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::agent::testing {

inline constexpr uid_t kOrdinaryUid = 2345;  // of nobody on the machine

// A directory that every user may enter, with the victims in it; removed at the end.
class Playground {
 public:
  Playground();

  const std::string& path() const { return dir_.path(); }
  std::string victim(const std::string& name) const;  // its path; it is copied here
  std::string session_root() const { return dir_ / "tmp"; }
  bool has_sessions() const;  // whether any session directory is left, of any user

 private:
  testing_support::TempDir dir_;
};

// Runs `scenario` in a child that plays the agent. What EXPECT finds there fails the calling test.
void as_agent(uid_t uid, const std::function<void()>& scenario);

// The same for an agent that is killed: its wait status.
int wait_status_of_agent(uid_t uid, const std::function<void()>& scenario);

// A child that plays the agent until it is killed. `scenario` runs up to its end, is then reported as ready, and the
// child waits with its objects alive.
class AgentChild {
 public:
  AgentChild(uid_t uid, const std::function<void(const std::function<void(pid_t warden)>& ready)>& scenario);
  ~AgentChild();
  AgentChild(const AgentChild&) = delete;
  AgentChild& operator=(const AgentChild&) = delete;

  pid_t pid() const { return pid_; }
  pid_t wait_until_ready();  // the warden's pid
  void kill_now();
  int wait();  // its wait status

 private:
  pid_t pid_ = 0;
  int ready_fd_ = -1;
};

// Processes with `token` as an argument that are not zombies.
std::vector<pid_t> processes_with(const std::string& token);
// Waits until there are none; the number of those left at the end of `bound`.
std::size_t left_after(const std::string& token, std::chrono::milliseconds bound);
// Also once it is a zombie.
bool is_gone(pid_t pid);
// SIGSTOP; returns when the process has stopped.
bool stop_process(pid_t pid);
bool eventually(std::chrono::milliseconds bound, const std::function<bool()>& condition);

// Children of the test that stand in for what a dead job has left; ended with it.
class Strays {
 public:
  explicit Strays(std::string program) : program_(std::move(program)) {}
  ~Strays();
  Strays(const Strays&) = delete;
  Strays& operator=(const Strays&) = delete;

  // One with just this environment, in a session of its own, of this user, once processes_with(token) shows it.
  pid_t start(const std::vector<std::string>& env, const std::string& token, uid_t uid);
  // Also false for one that has ended and is not reaped.
  static bool lives(pid_t pid);

 private:
  const std::string program_;
  std::vector<pid_t> pids_;
};

std::size_t open_descriptors();

// Within which nothing of a job may be left: 2 s, more while others want more than this machine's processors.
std::chrono::milliseconds gone_within();

std::string new_job();  // an id

// For tests of wardens: one job, and its place.
class WardenFixture : public ::testing::Test {
 protected:
  // `job` empty: job_.
  WardenOptions options(ContainLevel level = ContainLevel::kSubreaper, const std::string& job = {}) const;

  Playground ground_;
  const std::string job_ = new_job();
};

SpawnRequest request(int rank, std::vector<std::string> argv, const std::string& workdir = "/");

// Polls the warden until `count` events of the wanted type have come, or 30 s are over. All events are kept in `seen`.
struct Seen {
  std::vector<RankStarted> started;
  std::vector<RankStartFailed> failed;
  std::vector<RankExited> exited;
  std::vector<JobEmpty> empty;
  std::vector<LeaseExpired> expired;
};
bool poll_until(Warden& warden, Seen& seen, const std::function<bool()>& condition,
                std::chrono::milliseconds bound = std::chrono::seconds(30));

// Reads what a pipe holds until `line` has come, or 10 s are over.
bool read_until(int fd, const std::string& line);

}  // namespace muster::agent::testing

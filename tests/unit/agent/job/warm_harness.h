// For tests of a warm agent: the real agent process and a fake launcher. The launcher is a control server of a given
// instance and an output hub. A test can end them and start them again on the same ports.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/tls.h"
#include "base/unique_fd.h"
#include "proto/muster/v1/agent.pb.h"
#include "proto/replay_queue.h"
#include "tests/unit/agent/process/agent_harness.h"

namespace muster::agent::testing {

inline constexpr std::chrono::seconds kPatience{20};
inline constexpr const char* kStateName = "stateabc";  // the state name of the fake launcherd

// The part of a launcherd that stays while it is down: the agent's token and its ports.
struct LauncherState {
  std::string token = "the agent's token";
  std::uint16_t control_port = 0;  // 0 if not known yet
  std::uint16_t output_port = 0;
};

// One instance of launcherd, with one agent. Methods may be called from the test's thread.
class FakeLauncher {
 public:
  FakeLauncher(LauncherState& state, std::string instance);
  ~FakeLauncher();  // as if killed
  FakeLauncher(const FakeLauncher&) = delete;
  FakeLauncher& operator=(const FakeLauncher&) = delete;

  // Waits for the next stream and returns its Hello. Its job_id is empty if no stream came.
  v1::Hello next_hello();
  // Sends a numbered message. It waits while there is no stream.
  void send(v1::LauncherMessage message);
  void send_unnumbered(v1::LauncherMessage message);
  // Ends the stream without a message. The agent opens another one.
  void cut();
  // While it is on, the server refuses the agent's streams before Welcome.
  void refuse_streams(bool on);

  // Returns the agent's next message for which `wanted` is true, and skips those before it. It has no body if none
  // came.
  v1::AgentMessage next(const std::function<bool(const v1::AgentMessage&)>& wanted);
  v1::AgentMessage next_of(const std::string& job, v1::AgentMessage::BodyCase body);
  // Returns all messages of a job up to the first with this body, without Pong.
  std::vector<v1::AgentMessage> all_up_to(const std::string& job, v1::AgentMessage::BodyCase body);
  std::uint64_t last_received();

 private:
  class Service;
  std::unique_ptr<Service> service_;
};

// The output of the agents that all hubs have received. The test owns it.
struct ReceivedOutput {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, std::uint64_t> last_delivered;  // by identity
  std::map<std::string, std::string> stdout_of;         // "<identity> <rank>"
  std::map<std::string, int> finished;                  // by identity
  int connections = 0;

  bool wait_until(const std::function<bool()>& condition);  // called with the mutex held
};

// Accepts output connections with the given keys, one after the other, on `state.output_port`.
class FakeHub {
 public:
  FakeHub(LauncherState& state, std::vector<base::TlsKey> keys, ReceivedOutput& taken);
  ~FakeHub();  // as if killed
  FakeHub(const FakeHub&) = delete;
  FakeHub& operator=(const FakeHub&) = delete;

 private:
  void run();
  void serve(base::UniqueFd fd);

  ReceivedOutput& taken_;
  base::TlsContext tls_;
  base::UniqueFd listening_;
  base::UniqueFd cancel_;
  std::thread thread_;
  std::vector<std::thread> connections_;
};

// The real program. It has received its join and has dialled the launcher.
class WarmAgent {
 public:
  // `environment` has entries NAME=VALUE, which are added to the test's own environment.
  WarmAgent(const LauncherState& state, const std::string& session_root,
            const std::function<void(v1::AgentJoin&)>& adjust = {}, std::vector<std::string> environment = {});
  ~WarmAgent();  // killed, if it still runs
  WarmAgent(const WarmAgent&) = delete;
  WarmAgent& operator=(const WarmAgent&) = delete;

  pid_t pid() const { return pid_; }
  const std::string& link_line() const { return link_line_; }
  // True if it has ended by itself, with 0.
  bool ended_well(std::chrono::milliseconds bound = kPatience);
  bool runs();
  void close_bootstrap() { stdin_.reset(); }
  void kill_now();
  void forget() { pid_ = 0; }  // the test has reaped it

 private:
  pid_t pid_ = 0;
  base::UniqueFd stdin_;
  base::UniqueFd stdout_;
  std::string link_line_;
};

// Returns the pid of a living child by its process name. 0 if there is none.
pid_t child_named(pid_t parent, const std::string& name);

v1::LauncherMessage open_job(const std::string& job, const LauncherState& state, bool hold = false,
                             std::chrono::milliseconds lease = std::chrono::minutes(1), int attempt = 0);
v1::LauncherMessage prepare(const std::string& job);
// Ranks 0, 1 and so on, each with its own command.
v1::LauncherMessage launch(const std::string& job, const std::vector<std::vector<std::string>>& commands);
v1::LauncherMessage stop(const std::string& job);
v1::LauncherMessage leave(const std::string& job);
std::string output_token(const std::string& job);
base::TlsKey output_key(const std::string& job);

// One agent with its launcher, and a job. At the end nothing of the job may be left.
class WarmAgentFixture : public ::testing::Test {
 protected:
  void TearDown() override;

  LauncherState state_;
  Playground ground_;
  std::unique_ptr<FakeLauncher> launcher_ = std::make_unique<FakeLauncher>(state_, "one");
  std::unique_ptr<WarmAgent> agent_;
  const std::string job_ = new_job();
};

}  // namespace muster::agent::testing

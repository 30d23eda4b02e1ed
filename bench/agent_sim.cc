// How launcherd fares with many hosts: launcherd unmodified in a process of its own, and simulated agents in this one,
// which speak the real agent.proto over its real mTLS port; their ranks are none, and exit by a timer. launcherd finds
// them as the agents of a launcherd before it, through a state file that is written here.
//
//   agent_sim [--json] [--ranks N] [--bin-dir DIR] AGENTS…
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "agent/service/control_client.h"
#include "base/file.h"
#include "base/ids.h"
#include "base/loop.h"
#include "base/net.h"
#include "base/strings.h"
#include "base/tls.h"
#include "launcherd/service/api_client.h"
#include "proto/muster/v1/pool.pb.h"
#include "proto/peer_names.h"

extern char** environ;

namespace muster {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kRankTime{200};
constexpr std::chrono::seconds kPatience{60};
constexpr int kMostSeconds = 300;

template <typename T>
T must(base::Result<T> result) {
  if (!result.ok()) {
    std::fprintf(stderr, "agent_sim: %s\n", result.status().message().c_str());
    std::exit(1);
  }
  return std::move(result).value();
}

void check(const base::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "agent_sim: %s\n", status.message().c_str());
  std::exit(1);
}

struct Options {
  int ranks = 8;
  bool is_json = false;
  std::string bin_dir = "build/release/bin";
  std::vector<int> agents;
};

// One host's agent: answers as a real one does whose every step succeeds at once.
class SimulatedAgent {
 public:
  SimulatedAgent(base::Loop& loop, const v1::PoolState& state, const v1::PoolAgent& agent) : loop_(loop) {
    agent::ControlClientOptions options;
    options.endpoint = fmt::format("127.0.0.1:{}", state.control_port());
    options.ca_pem = state.ca_pem();
    options.certificate_pem = state.agent_certificate_pem();
    options.key_pem = state.agent_key_pem();
    options.token = agent.token();
    v1::Hello hello;
    hello.set_job_id(state.id());
    hello.set_agent_index(agent.number());
    hello.set_hostname(agent.name());
    hello.set_netns_inode(static_cast<std::uint64_t>(agent.number()) + 1);
    v1::NetworkInterface& interface = *hello.add_interfaces();
    interface.set_name("lo");
    interface.set_address("127.0.0.1");
    client_ = agent::ControlClient::start(loop, std::move(options), std::move(hello));
    client_->on_message = [this](const v1::LauncherMessage& message) { handle(message); };
  }

 private:
  void handle(const v1::LauncherMessage& message) {
    v1::AgentMessage answer;
    answer.set_job_id(message.job_id());
    if (message.has_ping()) {
      answer.mutable_pong()->set_launcher_ns(message.ping().launcher_ns());
      answer.mutable_pong()->set_agent_ns(message.ping().launcher_ns());
      client_->send_unnumbered(std::move(answer));
    } else if (message.has_open_job()) {
      answer.mutable_job_opened()->set_containment("simulated");
      client_->send(std::move(answer));
    } else if (message.has_prepare()) {
      answer.mutable_prepared()->set_interface("lo");
      answer.mutable_prepared()->set_address("127.0.0.1");
      answer.mutable_prepared()->set_master_port(1);
      client_->send(std::move(answer));
    } else if (message.has_launch()) {
      launch(message.job_id(), message.launch());
    } else if (message.has_leave()) {
      answer.mutable_job_closed();
      client_->send(std::move(answer));
    }
  }

  void launch(const std::string& job, const v1::Launch& launch) {
    std::vector<int> ranks;
    for (const v1::LaunchRank& rank : launch.ranks()) {
      ranks.push_back(rank.rank());
      v1::AgentMessage started;
      started.set_job_id(job);
      started.mutable_rank_started()->set_rank(rank.rank());
      started.mutable_rank_started()->set_pid(1'000 + rank.rank());
      client_->send(std::move(started));
    }
    v1::AgentMessage launched;
    launched.set_job_id(job);
    launched.mutable_launched();
    client_->send(std::move(launched));
    exits_ = loop_.after(kRankTime, [this, job, ranks] { exit(job, ranks); });
  }

  void exit(const std::string& job, const std::vector<int>& ranks) {
    for (const int rank : ranks) {
      v1::AgentMessage exited;
      exited.set_job_id(job);
      exited.mutable_rank_exited()->set_rank(rank);
      exited.mutable_rank_exited()->set_pid(1'000 + rank);
      client_->send(std::move(exited));
    }
    v1::AgentMessage empty;
    empty.set_job_id(job);
    empty.mutable_host_empty()->set_no_output(true);
    client_->send(std::move(empty));
  }

  base::Loop& loop_;
  std::unique_ptr<agent::ControlClient> client_;
  base::Timer exits_;
};

v1::PoolState make_state(int agents) {
  const auto ca = must(base::CertificateAuthority::create());
  v1::PoolState state;
  state.set_id(base::JobId::random().str());
  const auto own = must(ca.issue("launcherd", {std::string(proto::kLauncherName)}));
  const auto shared = must(ca.issue("agent", {"URI:" + proto::agent_uri(state.id())}));
  state.set_ca_pem(ca.ca_pem());
  state.set_ca_key_pem(must(ca.key_pem()));
  state.set_certificate_pem(own.cert_pem);
  state.set_key_pem(own.key_pem);
  state.set_agent_certificate_pem(shared.cert_pem);
  state.set_agent_key_pem(shared.key_pem);
  state.set_control_port(base::port_to_keep());
  state.set_output_port(base::port_to_keep());
  for (int i = 0; i < agents; ++i) {
    v1::PoolAgent& agent = *state.add_agents();
    agent.set_name(fmt::format("s{:05}", i));
    agent.set_token(base::random_hex(32));
    agent.set_number(i);
  }
  return state;
}

// launcherd on a state and a socket in `directory`.
class Launcherd {
 public:
  Launcherd(const Options& options, const std::string& directory) {
    const std::string program = options.bin_dir + "/launcherd";
    const std::vector<std::string> words = {
        program,   "--hostfile",        directory + "/hosts", "--listen", "unix:" + directory + "/sock",
        "--state", directory + "/state"};
    std::vector<char*> argv;
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    base::FdPair errors = must(base::make_pipe());
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, errors.second.get(), 2);
    const int rc = posix_spawn(&pid_, program.c_str(), &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    errors.second.reset();
    std::string said(4096, '\0');
    const ssize_t n = rc == 0 ? ::read(errors.first.get(), said.data(), said.size()) : 0;
    said.resize(static_cast<std::size_t>(n > 0 ? n : 0));
    if (said.find("serving") == std::string::npos) {
      std::fprintf(stderr, "agent_sim: launcherd did not start: %s\n", said.c_str());
      std::exit(1);
    }
    errors_ = std::move(errors.first);
  }
  ~Launcherd() {
    ::kill(pid_, SIGTERM);
    ::waitpid(pid_, nullptr, 0);
  }
  Launcherd(const Launcherd&) = delete;
  Launcherd& operator=(const Launcherd&) = delete;

  double rss_mib() const {
    const std::string status = must(base::read_file(fmt::format("/proc/{}/status", pid_)));
    const std::size_t at = status.find("VmRSS:");
    return at == std::string::npos ? 0 : static_cast<double>(std::atol(status.c_str() + at + 6)) / 1024;
  }

 private:
  pid_t pid_ = -1;
  base::UniqueFd errors_;
};

struct Measured {
  int agents = 0;
  double connect_s = 0;
  double start_s = 0;
  double exits_s = 0;
  double idle_mib = 0;
  double job_mib = 0;
};

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

int agents_up(launcherd::ApiClient& client) {
  const v1::ListHostsResponse hosts = must(client.list_hosts(kPatience));
  int up = 0;
  for (const v1::LauncherHost& host : hosts.hosts()) up += host.agent() == v1::AGENT_STATE_UP ? 1 : 0;
  return up;
}

void run_job(launcherd::ApiClient& client, const Options& options, Measured& measured) {
  v1::SubmitRequest request;
  request.mutable_spec()->add_command("true");
  request.mutable_spec()->set_working_directory("/");
  request.mutable_spec()->set_size(measured.agents * options.ranks);
  const auto begin = Clock::now();
  v1::WatchRequest watch;
  watch.set_job(must(client.submit(request, kPatience)).job_id());
  check(client.watch(watch, [&](const v1::Event& event) {
    if (event.has_job_state_changed() && event.job_state_changed().state() == v1::JOB_STATE_RUNNING) {
      measured.start_s = seconds_since(begin);
    }
    if (event.has_job_ended()) {
      measured.exits_s = seconds_since(begin) - measured.start_s;
      if (event.job_ended().exit_code() != 0) {
        std::fprintf(stderr, "agent_sim: the job ended with exit code %d\n", event.job_ended().exit_code());
        std::exit(1);
      }
    }
    return true;
  }));
}

Measured measure(const Options& options, int agents) {
  Measured measured{.agents = agents};
  std::string directory = "/tmp/agent-sim-XXXXXX";
  if (::mkdtemp(directory.data()) == nullptr) check(base::errno_error(errno, "make a directory in /tmp"));
  const v1::PoolState state = make_state(agents);
  check(base::make_private_directory(directory + "/state"));
  check(base::write_file_atomically(directory + "/state/agents", state.SerializeAsString()));
  std::string hosts;
  for (const v1::PoolAgent& agent : state.agents()) hosts += fmt::format("{} slots={}\n", agent.name(), options.ranks);
  check(base::write_file_atomically(directory + "/hosts", hosts));
  {
    const Launcherd daemon(options, directory);
    base::Loop loop;
    std::thread thread([&loop, &state] {
      std::vector<std::unique_ptr<SimulatedAgent>> simulated;
      for (const v1::PoolAgent& agent : state.agents()) {
        simulated.push_back(std::make_unique<SimulatedAgent>(loop, state, agent));
      }
      loop.run();
    });
    const auto begin = Clock::now();
    launcherd::ApiClient client(must(launcherd::parse_launcher_address("unix:" + directory + "/sock")));
    while (agents_up(client) < agents && seconds_since(begin) < kMostSeconds) {
      std::this_thread::sleep_for(milliseconds(20));
    }
    measured.connect_s = seconds_since(begin);
    measured.idle_mib = daemon.rss_mib();
    run_job(client, options, measured);
    measured.job_mib = daemon.rss_mib();
    loop.stop();
    thread.join();
  }
  std::filesystem::remove_all(directory);
  return measured;
}

void print(const Options& options, const std::vector<Measured>& all) {
  if (options.is_json) {
    for (const Measured& one : all) {
      fmt::print(
          "{{\"bench\":\"agent_sim\",\"agents\":{},\"ranks\":{},\"connect_s\":{:.3f},\"start_s\":{:.3f},"
          "\"exits_s\":{:.3f},\"rss_idle_mib\":{:.1f},\"rss_job_mib\":{:.1f}}}\n",
          one.agents, one.agents * options.ranks, one.connect_s, one.start_s, one.exits_s, one.idle_mib, one.job_mib);
    }
    return;
  }
  fmt::print(
      "| agents | ranks | all connected, s | job started, s | exits reported, s | RSS idle, MiB | with the job |\n");
  fmt::print(
      "|--------|-------|------------------|----------------|-------------------|---------------|--------------|\n");
  for (const Measured& one : all) {
    fmt::print("| {:>6} | {:>5} | {:>16.2f} | {:>14.2f} | {:>17.2f} | {:>13.0f} | {:>12.0f} |\n", one.agents,
               one.agents * options.ranks, one.connect_s, one.start_s, one.exits_s, one.idle_mib, one.job_mib);
  }
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--json") {
      options.is_json = true;
    } else if (word == "--ranks" && i + 1 < argc) {
      options.ranks = std::atoi(argv[++i]);
    } else if (word == "--bin-dir" && i + 1 < argc) {
      options.bin_dir = argv[++i];
    } else if (const auto agents = base::parse_decimal(word, 1'000'000); agents && *agents > 0) {
      options.agents.push_back(static_cast<int>(*agents));
    } else {
      std::fprintf(stderr, "usage: agent_sim [--json] [--ranks N] [--bin-dir DIR] AGENTS…\n");
      std::exit(2);
    }
  }
  if (options.agents.empty()) options.agents = {100, 1000};
  return options;
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  ::signal(SIGPIPE, SIG_IGN);
  const muster::Options options = muster::parse(argc, argv);
  std::vector<muster::Measured> all;
  for (const int agents : options.agents) all.push_back(muster::measure(options, agents));
  muster::print(options, all);
  std::fflush(stdout);
  ::_exit(0);  // gRPC's threads need not be waited for
}

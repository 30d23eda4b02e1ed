// A real sshd on 127.0.0.1. It runs as the current user, with its own keys, home and configuration in a temporary
// directory. Its client side (SshSurroundings) ignores the machine's own ssh files.
//
//   TestSshd sshd({.extra_config = "MaxSessions 1"});
//   if (!sshd.why_not().empty()) GTEST_SKIP() << sshd.why_not();
//   SshBootstrap bootstrap(sshd.options(), sshd.image(), sshd.surroundings());
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <string>
#include <vector>

#include "launcherd/ssh/ssh_bootstrap.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::launcherd {

struct TestSshdOptions {
  std::string extra_config = {};  // precedes all other lines, because sshd takes the first value
  std::string subsystem = {};     // replaces the sftp-server that starts in home()
  std::string bashrc = {};        // content of .bashrc in home()
};

class TestSshd {
 public:
  explicit TestSshd(const TestSshdOptions& options = {});
  ~TestSshd();
  TestSshd(const TestSshd&) = delete;
  TestSshd& operator=(const TestSshd&) = delete;

  const std::string& why_not() const { return why_not_; }  // why sshd does not run; empty if it runs
  int port() const { return port_; }
  const std::string& directory() const { return directory_.path(); }
  std::string home() const { return directory_ / "home"; }  // $HOME of the programs that sshd starts
  std::string cached_agent() const { return home() + "/.cache/muster/agent-fake-build-x86_64"; }
  std::string known_hosts() const { return directory_ / "client/known_hosts"; }
  std::string client_config() const { return directory_ / "client/config"; }
  std::string key() const { return directory_ / "client/key"; }

  BootstrapTarget target() const { return {.name = "127.0.0.1", .user = {}, .port = port_}; }
  BootstrapOptions options(SshBackend backend = SshBackend::kLibssh) const;
  SshSurroundings surroundings() const;
  AgentImage image() const;

 private:
  bool make_files(const TestSshdOptions& options);
  bool listen();
  void fail(const std::string& why) { why_not_ = why_not_.empty() ? why : why_not_; }

  std::string why_not_;
  testing_support::TempDir directory_;
  int port_ = 0;
  int pid_ = 0;
};

std::string fake_agent_path();

// Call start() or run() and wait for the result.
base::Result<StartedAgent> start_agent(Bootstrap& bootstrap, const BootstrapTarget& target, std::string join = {});
base::Result<CommandResult> run_agent(Bootstrap& bootstrap, const BootstrapTarget& target,
                                      std::vector<std::string> args);

// Expects the fake agent's first line, and that the agent echoes `text`.
void expect_echo(const StartedAgent& agent, const std::string& text);
std::string read_up_to(int fd, std::size_t size);

void write_file(const std::string& path, const std::string& content);
std::string read_text(const std::string& path);

// Counts open descriptors and children of this process. A test must leave no more than it found.
struct OwnResources {
  std::size_t fds = 0;
  std::size_t children = 0;
  bool operator<=(const OwnResources& other) const { return fds <= other.fds && children <= other.children; }
};
OwnResources own_resources();

}  // namespace muster::launcherd
